"""Connected components and degrees of a graph on disk: one streaming read, labels in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import NumericalError, ShapeError
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.row_blocks import row_blocks, rows_bytes

__all__ = ["Components", "components", "components_bytes"]

_BESIDE = 48  # bytes of an entry: float64 values, labels of both ends, masks


class Components(NamedTuple):
    """What one read of a graph tells of its vertices.

    Attributes
    ----------
    labels : ndarray, n
        The least vertex of each vertex's component.
    degrees : ndarray, n
        Sums of rows, float64.
    """

    labels: NDArray[np.integer]
    degrees: NDArray[np.float64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Vertices of the component that begins with each vertex; 0 where none does."""
        return np.bincount(self.labels, minlength=len(self.labels))


def _label_dtype(n: int) -> np.dtype[np.integer]:
    return np.dtype(np.int32 if n < 2**31 else np.int64)


def _held(n: int) -> int:
    """Return the bytes of labels, twice while they are made flat, and of degrees."""
    return n * (2 * _label_dtype(n).itemsize + 1 + 8)


def components_bytes(A: SparseArray) -> int:
    """Return what `components` holds at least."""
    return _held(A.shape[0]) + rows_bytes(A, _BESIDE)


def components(call: Call, A: SparseArray) -> Components:
    """Read a symmetric matrix once; return its components and degrees.

    A value that is 0 is no edge. The edges of a stretch of rows are merged into the labels at once (Liu and
    Tarjan 2019: the larger root is hooked on the smaller one, labels are made flat); that takes O(log² n)
    rounds, of 4 to 8 bytes n each, where a stretch joins anything. Degrees add a row's values in their
    order, whatever the stretches are.
    """
    n = A.shape[0]
    held = _held(n)
    call.room("labels and degrees of the vertices", held)
    labels = np.arange(n, dtype=_label_dtype(n))
    degrees = np.zeros(n)
    for first, pointers, columns, values in row_blocks(call, A, beside=_BESIDE, fixed=held - labels.nbytes):
        counts = np.diff(pointers)
        filled = np.flatnonzero(counts)
        if not len(filled):
            continue
        weights = values.astype(np.float64, copy=False)
        _check(call, first, pointers, weights)
        degrees[first + filled] = np.add.reduceat(weights, pointers[filled])
        near = np.repeat(labels[first : first + len(counts)], counts)
        far = labels[columns]
        apart = (near != far) & (values != 0)
        _join(labels, near[apart], far[apart])
    return Components(labels, degrees)


def _check(call: Call, first: int, pointers: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
    """Refuse what is no weight of an edge."""
    if weights.min() >= 0 and weights.max() < np.inf:  # NaN compares false
        return
    at = int(np.argmin((weights >= 0) & (weights < np.inf)))
    row = first + int(np.searchsorted(pointers, at, side="right")) - 1
    kind = ShapeError if np.isfinite(weights[at]) else NumericalError
    raise kind(
        f"{call.who}: row {row} of A holds {weights[at]:g}; weights of edges are finite numbers of 0 or more."
    )


def _join(labels: NDArray[np.integer], near: NDArray[np.integer], far: NDArray[np.integer]) -> None:
    """Join the components of pairs of labels that differ; labels are flat before and afterwards."""
    while len(near):
        np.minimum.at(labels, np.maximum(near, far), np.minimum(near, far))
        while not np.array_equal(up := labels[labels], labels):
            labels[:] = up
        near, far = labels[near], labels[far]
        apart = near != far
        near, far = near[apart], far[apart]
