"""What follows from a triangle R of [1 A b]: solutions, standard errors, the ridge path.

R = U S Vᴴ gives for every ridge value λ x = V S/(S² + λ) Uᴴz, Σ s²/(s² + λ) degrees of freedom, and
RSS = ρ² + Σ |λ/(s² + λ) uᴴz|² (Golub, Heath and Wahba 1979 for GCV). Nothing is squared before it is scaled:
lengths and standard errors hold at entries of 1e±200, squares of lengths where there are such numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import NumericalError

__all__ = ["Triangle", "from_gram", "lengths", "rank_of", "spectral_fit"]


def lengths(x: NDArray[Any]) -> NDArray[Any]:
    """Return the lengths of columns: scaled by their largest elements, so that no square is out of range."""
    x = np.abs(x).astype(np.float64)
    largest = x.max(axis=0, initial=0.0)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    return np.asarray(scale * np.sqrt(((x / scale) ** 2).sum(axis=0)))


def _shares(s: NDArray[Any], value: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return s²/(s² + λ) and λ/(s² + λ), each to all its digits."""
    if not value:
        return np.ones_like(s), np.zeros_like(s)
    with np.errstate(over="ignore", under="ignore"):
        return 1 / (1 + (value / s) / s), 1 / (1 + (s / value) * s)


def spectral_fit(
    u: NDArray[Any], s: NDArray[Any], vh: NDArray[Any], z: NDArray[Any], beyond: NDArray[Any], m: int,
    more: int, ridge: Sequence[float], rank: int,
) -> dict[str, Any]:  # fmt: skip
    """Return solutions for all ridge values.

    `z`: right-hand sides in the basis that `u` is in; `beyond`: lengths of what lies outside of it; `more`:
    degrees of freedom beside those of the singular values; `rank`: how many of these count.
    """
    s, real = s.astype(np.float64), s.dtype
    kept, v = s[:rank], vh[:rank].conj().T
    projected = u.conj().T @ z
    fit: dict[str, list[Any]] = {
        name: [] for name in ("x", "residuals", "stderr", "degrees_of_freedom", "gcv", "spread", "sigma")
    }
    for value in ridge:
        taken, shrunk = _shares(kept, value)
        left = m - rank - more + float(shrunk.sum())  # m - df, which has no digits where df is nearly m
        missed = np.vstack([beyond[None], shrunk[:, None] * projected[:rank], projected[rank:]])
        length = lengths(missed)
        with np.errstate(over="ignore", under="ignore"):  # squares, and what float32 does not hold
            sigma = length / np.sqrt(left) if left > 0 else np.full_like(length, np.nan)
            gcv = m * (length / left) ** 2 if left > 0 else np.full_like(length, np.nan)
            damped = taken / kept
            spread = lengths((v * damped).T)  # the root of the diagonal of the covariance, over σ
            fit["x"].append(v @ (damped.astype(real)[:, None] * projected[:rank]))
            fit["residuals"].append((length**2).astype(real))
            fit["stderr"].append((spread[:, None] * sigma[None, :]).astype(real))
            fit["gcv"].append(gcv.astype(real))
        fit["degrees_of_freedom"].append(float(taken.sum()) + more)
        fit["spread"].append(v * damped.astype(real)[None, :])
        fit["sigma"].append(sigma)
    made: dict[str, Any] = {
        name: np.array(values) for name, values in fit.items() if name not in ("spread", "sigma")
    }
    return made | {
        "spread": fit["spread"],
        "sigma": fit["sigma"],
        "rank": rank,
        "singular_values": s.astype(real),
    }


def rank_of(s: NDArray[Any], rcond: float) -> int:
    """Return how many singular values count, as NumPy does."""
    return int(np.count_nonzero(s > rcond * s[0])) if s.size else 0


def from_gram(gram: NDArray[Any], known: int) -> NDArray[Any]:
    """Return R of the Gram matrix of [A b], of which the first `known` columns are A's."""
    try:
        lower = np.linalg.cholesky(gram[:known, :known])
    except np.linalg.LinAlgError:
        raise NumericalError(
            "lstsq: the normal equations are not positive definite in this precision; leave method out, the "
            "QR takes any matrix."
        ) from None
    r = np.zeros_like(gram)
    r[:known, :known] = lower.conj().T
    r[:known, known:] = z = np.linalg.solve(lower, gram[:known, known:])
    left = np.diagonal(gram)[known:].real - (np.abs(z) ** 2).sum(axis=0)
    r[range(known, len(r)), range(known, len(r))] = np.sqrt(np.maximum(left, 0))
    return r


class Triangle:
    """R of [1 A b], which may have fewer rows than columns."""

    def __init__(self, r: NDArray[Any], m: int, n: int, intercept: bool) -> None:
        first = int(intercept)
        width = r.shape[1]
        square = np.zeros((width, width), r.dtype)
        square[: r.shape[0]] = np.triu(r)
        self.m, self.intercept = m, intercept
        self.top = square[:first]  # the row of the intercept
        self.a = square[first : first + n, first : first + n]
        self.z = square[first : first + n, first + n :]
        self.beyond = lengths(square[first + n :, first + n :])

    def fit(self, ridge: Sequence[float], rcond: float) -> dict[str, Any]:
        """Return everything for all ridge values."""
        n = self.a.shape[0]
        u, s, vh = np.linalg.svd(self.a)
        made = spectral_fit(
            u, s, vh, self.z, self.beyond, self.m, int(self.intercept), ridge, rank_of(s, rcond)
        )
        with np.errstate(over="ignore", under="ignore"):
            made["total"] = lengths(np.vstack([self.beyond[None], self.z])) ** 2
        if self.intercept:
            corner, across, z = self.top[0, 0], self.top[0, 1 : 1 + n], self.top[0, 1 + n :]
            made["intercept"] = np.array([(z - across @ x) / corner for x in made["x"]])
            made["intercept_stderr"] = np.array([
                sigma * np.hypot(1, lengths(across @ spread)) / np.abs(corner)
                for spread, sigma in zip(made["spread"], made["sigma"], strict=True)
            ])  # fmt: skip
        del made["spread"], made["sigma"]
        return made
