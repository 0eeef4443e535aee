"""Rows in the coordinates of principal components: (Y - mean) componentsᵀ."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import built_aside
from .._array.requests import assign, take
from .._errors.classes import ShapeError
from .._output.destination import Destination
from .._output.replaceable import check_path
from .._runtime.call import Call
from .._scratch import scratch
from .._scratch.builds import whole_or_nothing
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
    if isinstance(Y, SparseArray):
        return _of_sparse(Y, components, mean, out, memory)
    if isinstance(Y, Array) and Y.path:
        return _of_dense(Y, components, mean, out, memory)
    if hasattr(Y, "tocsr"):
        return np.asarray(Y @ components.T) - mean @ components.T
    values = np.asarray(Y)
    result = (values - mean) @ components.T
    return result.astype(np.float32) if values.dtype == np.float32 else result


def _of_sparse(Y: SparseArray, components: NDArray[Any], mean: NDArray[Any], out: Any, memory: Any) -> Array:
    Y = sparse_by_rows("transform", "Y", Y, memory)
    call = Call("transform", memory)
    k, operand = len(components), Y.operand()
    dtype = "float32" if Y.dtype.itemsize <= 4 else "float64"
    axes = _core.memory_array(np.ascontiguousarray(components.T, dtype))
    shift = _core.memory_array(np.ascontiguousarray(mean[None, :], np.float64))
    shape, chunks = (Y.shape[0], k), (int(operand.panel_rows), k)
    planned = _core.planned_array(list(shape), dtype, list(chunks))
    call.check_memory(_core.csr_multiply_job(operand, axes, shift, planned))
    place = _place(call, out, shape, dtype)
    destination = Destination("transform", out if place is None else place.path, shape, dtype, chunks, True)
    with whole_or_nothing(destination, place):
        done = call.run(_core.csr_multiply_job(operand, axes, shift, destination.core))
        call.record(done, f"transform {shape_text(Y.shape)} sparse", "row panels", 1)
        return _finish(destination, place)


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
    place = _place(call, out, shape, dtype)
    with call.measured(f"transform {shape_text(Y.shape)}", "row blocks") as done:
        destination = Destination("transform", out if place is None else place.path, shape, dtype, None, True)
        target = built_aside(destination.core)
        with whole_or_nothing(destination, place):
            for first in range(0, Y.shape[0], rows):
                block = take(Y, call, np.s_[first : first + rows])
                assign(target, call, np.s_[first : first + rows], (block - mean) @ axes)
            done.bytes_read, done.bytes_written = Y.nbytes, target.nbytes
            return _finish(destination, place)


def _place(call: Call, out: Any, shape: tuple[int, int], dtype: str) -> scratch.Result | None:
    if out is not None:
        check_path("transform", out)
        return None
    return call.result("transform", shape[0] * shape[1] * np.dtype(dtype).itemsize)


def _finish(destination: Destination, place: scratch.Result | None) -> Array:
    array = destination.publish()
    if place is not None:
        place.tie(array)
    return array
