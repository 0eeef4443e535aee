"""Rows in the coordinates of principal components: (Y - mean) componentsᵀ."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import built_aside
from .._array.requests import assign, take
from .._errors.classes import ShapeError
from .._output.place import Place
from .._output.replaceable import check_path
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .._sparse.array import SparseArray
from .._sparse.to_csr import sparse_by_rows

__all__ = ["project"]


def project(
    Y: Any, components: NDArray[Any], mean: NDArray[Any], out: str | os.PathLike[str] | None,
    memory: int | str | None,
) -> Any:  # fmt: skip
    """Return (Y - mean) componentsᵀ: an ndarray of a matrix in memory, an Array of one on disk.

    Reads Y once; 2 rows n k flops (sparse: 2 nnz k).
    """
    n = components.shape[1]
    shape = Y.shape if hasattr(Y, "shape") else np.shape(Y)
    if len(shape) != 2 or shape[1] != n:
        raise ShapeError(
            f"transform: Y is {shape_text(tuple(shape))}; {n} columns are needed, as in the fit."
        )
    if out is not None and getattr(Y, "path", None):
        check_path("transform", out)
    if isinstance(Y, SparseArray):
        return _OfSparse(Y, components, mean, out, memory).run()
    if isinstance(Y, Array) and Y.path:
        return _of_dense(Y, components, mean, out, memory)
    if hasattr(Y, "tocsr"):
        return np.asarray(Y @ components.T) - mean @ components.T
    values = np.asarray(Y)
    result = (values - mean) @ components.T
    return result.astype(np.float32) if values.dtype == np.float32 else result


class _OfSparse(Routine[Array]):
    """The rows of a sparse matrix: one product, whose rows are shifted by those of the mean."""

    def __init__(
        self, Y: SparseArray, components: NDArray[Any], mean: NDArray[Any], out: Any, memory: Any
    ) -> None:
        self.Y = sparse_by_rows("transform", "Y", Y, memory)
        super().__init__(Call("transform", memory))
        self.operand = self.Y.operand()
        dtype = np.dtype("float32" if self.Y.dtype.itemsize <= 4 else "float64")
        self.axes = _core.memory_array(np.ascontiguousarray(components.T, dtype))
        self.shift = _core.memory_array(np.ascontiguousarray(mean[None, :], np.float64))
        k = len(components)
        chunks = (int(self.operand.panel_rows), k)
        self.place = Place(self.call, (self.Y.shape[0], k), dtype, out, chunks)
        self.places = [self.place]

    @property
    def what(self) -> str:
        """What statistics call it."""
        return f"transform {shape_text(self.Y.shape)} sparse"

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return How("row panels")

    def job(self, at: At) -> _core.Job:
        """Return the product."""
        return _core.csr_multiply_job(self.operand, self.axes, self.shift, at(self.place))


def _of_dense(Y: Array, components: NDArray[Any], mean: NDArray[Any], out: Any, memory: Any) -> Array:
    """Row blocks through memory: (Y_i - mean) componentsᵀ."""
    call = Call("transform", memory)
    k, n = components.shape
    dtype = "float32" if Y.dtype.itemsize <= 4 else "float64"
    shape = (Y.shape[0], k)
    axes = np.ascontiguousarray(components.T)
    # A row as read, centred and projected; beside the rows, what the transfers stage.
    per_row, staged = (Y.dtype.itemsize + 8) * n + 40 * k, 40 << 20
    call.room("one row and the transfers", per_row + staged)
    free = min(64 << 20, call.memory - _core.resident_bytes() - staged)
    rows = max(1, min(Y.shape[0], free // per_row))
    place = Place(call, shape, np.dtype(dtype), out, None)
    label = f"transform {shape_text(Y.shape)}"
    with call.measured(label, "row blocks") as done, contextlib.ExitStack() as stack:
        target = built_aside(place.open(stack))
        for first in range(0, Y.shape[0], rows):
            block = take(Y, call, np.s_[first : first + rows])
            assign(target, call, np.s_[first : first + rows], (block - mean) @ axes)
        done.bytes_read, done.bytes_written = Y.nbytes, target.nbytes
        return place.close()  # type: ignore[no-any-return]
