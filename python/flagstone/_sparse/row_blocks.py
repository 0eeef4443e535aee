"""Taking sparse matrices apart by rows in fixed memory, for whoever writes them elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._array.requests import take
from .._runtime.call import Call
from .._runtime.streaming import STEP
from .array import SparseArray
from .validation import check_columns, check_pointers

__all__ = ["row_blocks", "rows_bytes"]


_LEAST = 1 << 15  # entries at a time


def _each(matrix: SparseArray) -> int:
    """Return what an entry takes: column and value as stored and on their way, its row's pointers."""
    return 2 * (np.dtype(matrix._matrix.data.dtype).itemsize + 8) + 24


def _unpacked(matrix: SparseArray) -> int:
    core = matrix._matrix
    return int(max(part.unpack_bytes for part in (core.data, core.indices, core.indptr)))


def rows_bytes(matrix: SparseArray, beside: int = 0) -> int:
    """Return what `row_blocks` holds at least, with the transfers."""
    return min(_LEAST, _most(matrix)) * (_each(matrix) + beside) + _unpacked(matrix)


def _most(matrix: SparseArray) -> int:
    core = matrix._matrix
    return max(1, min(STEP, max(core.nnz, core.rows)))


def row_blocks(
    call: Call, matrix: SparseArray, row: int = 0, *, beside: int = 0, fixed: int = 0
) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield (first row, pointers from 0, columns, values) of stretches of stored rows, a few MiB each.

    Of a transpose the stored rows are its columns. `row`: where to begin. `beside`: bytes that the caller
    makes of an entry; `fixed`: what it has yet to touch. Under a low limit the stretches are shorter.
    """
    most = _most(matrix)
    step = call.share(
        "rows of the matrix", _each(matrix) + beside, most, fixed=fixed + _unpacked(matrix), least=_LEAST
    )
    core = matrix._matrix
    data, indices, indptr = Array(core.data), Array(core.indices), Array(core.indptr)
    while row < core.rows:
        pointers = take(indptr, call, np.s_[row : row + step + 1]).astype(np.int64)
        check_pointers(pointers, row, core.rows, core.nnz, matrix.path)
        first = 0
        while first < len(pointers) - 1:
            end = int(np.searchsorted(pointers, pointers[first] + step, side="right")) - 1
            end = min(max(end, first + 1), len(pointers) - 1)
            part = np.s_[int(pointers[first]) : int(pointers[end])]
            columns = take(indices, call, part)
            check_columns(columns, core.cols, part.start, matrix.path)
            values = take(data, call, part).astype(matrix.dtype, copy=False)
            yield row + first, pointers[first : end + 1] - pointers[first], columns, values
            first = end
        row += len(pointers) - 1
