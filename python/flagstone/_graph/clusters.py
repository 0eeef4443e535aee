"""Clusters of rows of orthonormal vectors that stay on disk, by column-pivoted QR.

Damle, Minden and Ying, "Simple, direct and efficient multi-way spectral clustering" (2019): k rows that a
pivoted QR of Vᵀ chooses stand for the clusters; rotated by the polar factor of these rows, the largest
coordinate of a row names its cluster. Pivots are looked for in a sample of rows, drawn by squared norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .._array.array import STAGING, Array
from .._array.requests import take
from .._runtime.call import Call

__all__ = ["clusters", "clusters_bytes", "pivots"]

_BLOCK = 4 << 20  # bytes of rows at a time: a function of k alone, so that bits do not depend on the limit
_LEAST = 64  # rows of a sample


def _sample_size(n: int, k: int) -> int:
    """Return how many rows are drawn: O(k log k) find every cluster with high probability (section 4)."""
    return min(n, _LEAST + math.ceil(4 * k * math.log(k + 1)))


def clusters_bytes(n: int, columns: int, k: int) -> int:
    """Return what `clusters` holds."""
    rows = _sample_size(n, k) + min(n, _height(columns))
    return 3 * rows * (8 * columns + 16) + 16 * k * k + 4 * n + STAGING


def _height(columns: int) -> int:
    return max(1, _BLOCK // (8 * columns))


def _row_blocks(call: Call, V: Array, k: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
    step = _height(V.shape[1])
    for first in range(0, V.shape[0], step):
        yield first, take(V, call, np.s_[first : first + step])[:, :k]


def _sample(call: Call, V: Array, k: int, seed: int) -> NDArray[np.float64]:
    """Return rows drawn without replacement by squared norms (Efraimidis and Spirakis 2006); one read."""
    count = _sample_size(V.shape[0], k)
    keys, kept = np.empty(0), np.empty((0, k))
    for first, rows in _row_blocks(call, V, k):
        chance = np.random.default_rng([seed, first]).standard_exponential(len(rows))
        with np.errstate(divide="ignore"):
            drawn = chance / np.einsum("ij,ij->i", rows, rows)  # a row of zeros comes last
        fit = drawn < keys[-1] if len(keys) == count else np.ones(len(rows), bool)
        keys = np.concatenate([keys, drawn[fit]])
        order = np.argsort(keys, kind="stable")[:count]
        keys, kept = keys[order], np.concatenate([kept, rows[fit]])[order]
    return kept


def pivots(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rows that a column-pivoted QR of their transpose takes first, one for each dimension.

    Fewer where the rows span less. 4 s k² flops for s rows.
    """
    left, taken = np.array(rows), []
    scale = 0.0
    for _ in range(min(rows.shape)):
        norms = np.einsum("ij,ij->i", left, left)
        best = int(np.argmax(norms))
        scale = max(scale, norms[best])
        if norms[best] <= scale * np.finfo(np.float64).eps:
            break
        taken.append(best)
        direction = left[best] / math.sqrt(norms[best])
        left -= np.outer(left @ direction, direction)
    return np.array(taken, np.int64)


def clusters(call: Call, V: Array, k: int, seed: int) -> NDArray[np.int32]:
    """Return the cluster, 0 … k−1, of each row of the first k columns of V; the largest cluster is 0.

    Two reads of V; 2 n k² flops beside those of `pivots`.
    """
    call.room("a sample of the vectors and the clusters", clusters_bytes(V.shape[0], V.shape[1], k))
    sample = _sample(call, V, k, seed)
    chosen = sample[pivots(sample)]
    u, _, vt = np.linalg.svd(chosen, full_matrices=False)
    rotation = vt.T @ u.T  # the polar factor of chosenᵀ
    found = np.empty(V.shape[0], np.int32)
    for first, rows in _row_blocks(call, V, k):
        found[first : first + len(rows)] = np.argmax(abs(rows @ rotation), axis=1)
    sizes = np.bincount(found, minlength=len(chosen))
    place = np.empty(len(sizes), np.int32)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes), dtype=np.int32)
    for first in range(0, len(found), _BLOCK):
        found[first : first + _BLOCK] = place[found[first : first + _BLOCK]]
    return found
