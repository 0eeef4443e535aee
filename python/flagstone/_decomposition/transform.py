"""Rows in the coordinates of principal components: (Y - mean) componentsᵀ."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import built_aside, is_lazy, values_of
from .._array.requests import STAGING, assign, take
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._expression.operand import as_array
from .._output.place import Place
from .._output.replaceable import check_path
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .._sparse.array import SparseArray
from .._sparse.to_csr import sparse_by_rows
from .annotated import matrix_in

__all__ = ["project"]

_MOST = 64 << 20  # bytes of rows at a time
_PACKED = 24 << 20  # that NumPy's BLAS packs, on all processors
_WRITTEN = 8 << 20  # that writing rows takes, where a limit leaves room for many: 6 were seen


def project(
    Y: Any, components: NDArray[Any], mean: NDArray[Any], out: str | os.PathLike[str] | None,
    memory: int | str | None,
) -> Any:  # fmt: skip
    """Return (Y - mean) componentsᵀ: an ndarray of a matrix in memory, an Array of one on disk.

    Reads Y once; 2 rows n k flops (sparse: 2 nnz k).
    """
    Y = matrix_in("transform", Y)
    n = components.shape[1]
    shape = Y.shape if hasattr(Y, "shape") else np.shape(Y)
    if len(shape) != 2 or shape[1] != n:
        raise ShapeError(
            f"transform: Y is {shape_text(tuple(shape))}; {n} columns are needed, as in the fit."
        )
    lazy = isinstance(Y, Expression) or (isinstance(Y, Array) and is_lazy(Y))
    if out is not None and (lazy or getattr(Y, "path", None)):
        check_path("transform", out)
    if isinstance(Y, SparseArray):
        return _OfSparse(Y, components, mean, out, memory).run()
    if isinstance(Y, Expression):
        Y = as_array(Call("transform", memory, light=True), Y)
    if isinstance(Y, Array) and values_of(Y) is None:
        return _of_dense(Y, components, mean, out, memory)
    if hasattr(Y, "tocsr"):
        return np.asarray(Y @ components.T) - mean @ components.T
    return _of_memory(np.asarray(Y), components, mean, memory)


def _of_memory(
    values: NDArray[Any], components: NDArray[Any], mean: NDArray[Any], memory: Any
) -> NDArray[Any]:
    """Row blocks of a matrix in memory: centred, they take twice the room of float32."""
    call = Call("transform", memory)
    (m, n), k = values.shape, len(components)
    axes = components.T
    dtype = np.float32 if values.dtype == np.float32 else np.result_type(values, mean, components)
    kept = m * k * np.dtype(dtype).itemsize
    per_row, fixed = 16 * n + 24 * k, kept + min(_PACKED, 96 * m * n)
    rows = call.share("the result and rows of it", per_row, max(1, min(m, _MOST // per_row)), fixed=fixed)
    result = np.empty((m, k), dtype)
    with call.measured(f"transform {shape_text((m, n))}", "row blocks"):
        for first in range(0, m, rows):
            part = slice(first, first + rows)
            result[part] = (values[part] - mean) @ axes
    return result


class _OfSparse(Routine[Array]):
    """The rows of a sparse matrix: one product, whose rows are shifted by those of the mean."""

    def __init__(
        self, Y: SparseArray, components: NDArray[Any], mean: NDArray[Any], out: Any, memory: Any
    ) -> None:
        self.Y = sparse_by_rows("transform", Y, memory)
        super().__init__(Call("transform", memory))
        self.operand = self.Y.operand()
        dtype = np.dtype("float32" if self.Y.dtype.itemsize <= 4 else "float64")
        self.axes = _core.memory_array(np.ascontiguousarray(components.T, dtype))
        self.shift = _core.memory_array(np.ascontiguousarray(mean[None, :], np.float64))
        k = len(components)
        chunks = (max(1, min(int(self.operand.panel_rows), self.Y.shape[0])), k)
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
    # A row as read, staged, centred and projected; beside the rows what BLAS packs, and a chunk.
    per_row = 2 * Y.dtype.itemsize * n + 8 * n + 40 * k
    fixed = min(_PACKED, 4 * Y.shape[0] * per_row) + Y._core.unpack_bytes
    if is_lazy(Y):  # what its parts are computed from
        fixed += 2 * STAGING
    rows = call.share("rows and the transfers", per_row, min(Y.shape[0], _MOST // per_row), fixed=fixed)
    rows = max(1, rows // 2, rows - _WRITTEN // per_row)
    place = Place(call, shape, np.dtype(dtype), out, None)
    label = f"transform {shape_text(Y.shape)}"
    with call.measured(label, "row blocks") as done, contextlib.ExitStack() as stack:
        target = built_aside(place.open(stack))
        for first in range(0, Y.shape[0], rows):
            part = np.s_[first : first + rows]
            centred = take(Y, call, part) - mean
            scores = (centred @ axes).astype(dtype, copy=False)
            del centred  # before the next rows come
            assign(target, call, part, scores)
        read = Y._core.stored_bytes if is_lazy(Y) else Y.nbytes
        done.bytes_read, done.bytes_written = read, target.nbytes
        return place.close()  # type: ignore[no-any-return]
