"""The 1-norm of a matrix that is only applied to blocks of vectors, as its inverse is.

Higham and Tisseur 2000, "A block algorithm for matrix 1-norm estimation", algorithm 2.4: what LAPACK's lacn2
is for one vector, for several at a time. The estimate is a lower bound, attained by a vector that was tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLUMNS", "MOST", "one_norm"]

COLUMNS = 4  #: vectors that go through together (t of the paper)
MOST = 5  #: steps; two are usual
_SEED = 1  # of the signs that a start beside the vector of ones has


def _signs(y: NDArray[Any]) -> NDArray[Any]:
    """Return y / |y|, and 1 where y is 0."""
    if y.dtype.kind != "c":
        return np.where(y < 0, -1, 1).astype(y.dtype)
    size = np.abs(y)
    return np.asarray(np.where(size > 0, y / np.where(size > 0, size, 1), 1)).astype(y.dtype)


def _renewed(s: NDArray[Any], old: NDArray[Any] | None, random: np.random.Generator) -> bool:
    """Replace columns of signs that are parallel to another, in place; say whether all were to an old one.

    Real ones alone: of complex ones parallel columns are no more likely than equal numbers.
    """
    n, t = s.shape

    def parallel(i: int) -> bool:
        others = s[:, :i] if old is None else np.hstack([s[:, :i], old])
        return bool((np.abs(s[:, i] @ others) == n).any()) if others.shape[1] else False

    if old is not None and (np.abs(s.T @ old) == n).any(axis=1).all():
        return True
    for i in range(t):
        for _ in range(n):  # of few signs there may be no other
            if not parallel(i):
                break
            s[:, i] = random.choice(np.array([-1, 1], s.dtype), n)
    return False


def one_norm(
    n: int, dtype: np.dtype[Any], apply: Callable[[NDArray[Any]], NDArray[Any]],
    adjoint: Callable[[NDArray[Any]], NDArray[Any]],
) -> float:  # fmt: skip
    """Return an estimate from below of the 1-norm of a square matrix of order n.

    Parameters
    ----------
    n, dtype
        Of the matrix.
    apply, adjoint
        Return the matrix, and its adjoint, times n x t vectors; each is called `MOST` times at most.

    Returns
    -------
    float
        Exact up to n = `COLUMNS`.
    """
    t = min(COLUMNS, n)
    if n <= COLUMNS:
        return float(np.abs(apply(np.eye(n, dtype=dtype))).sum(axis=0).max(initial=0))
    random = np.random.default_rng(_SEED)
    x = np.ones((n, t), dtype)
    if dtype.kind != "c":
        x[:, 1:] = random.choice(np.array([-1, 1], dtype), (n, t - 1))
        _renewed(x, None, random)
    else:
        x[:, 1:] = np.exp(2j * np.pi * random.random((n, t - 1))).astype(dtype)
    x /= n
    # What lacn2 tries in the end, against cancellation: signs that alternate, and grow.
    x[:, 1] = (1 - 2 * (np.arange(n) % 2)) * (1 + np.arange(n) / (n - 1)) * (2 / (3 * n))
    best, chosen = 0.0, np.zeros(0, np.int64)  # the column of the estimate; those that were tried
    tried = np.zeros(0, np.int64)
    at, old = -1, None
    for step in range(MOST):
        y = apply(x)
        sums = np.abs(y).astype(np.float64).sum(axis=0)
        j = int(np.argmax(sums))
        estimate = float(sums[j])
        if not np.isfinite(estimate):
            return estimate
        if step > 0 and estimate <= best:
            break
        best = estimate
        if step > 0:
            at = int(chosen[j])
        if step + 1 == MOST:
            break
        s = _signs(y)
        if dtype.kind != "c":
            if _renewed(s, old, random):
                break
            old = s
        largest = np.abs(adjoint(s)).max(axis=1)
        if step > 0 and largest.max() == largest[at]:
            break
        order = np.argsort(-largest, kind="stable")
        if np.isin(order[:t], tried).all():
            break
        chosen = order[~np.isin(order, tried)][:t]
        tried = np.concatenate([tried, chosen])
        x = np.zeros((n, len(chosen)), dtype)
        x[chosen, np.arange(len(chosen))] = 1
    return best
