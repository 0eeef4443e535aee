"""Taking sparse matrices apart by rows in fixed memory, for whoever writes them elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import STAGING, Array
from .._array.requests import take
from .._runtime.call import Call
from .._runtime.streaming import STEP
from .array import SparseArray
from .validation import check_columns, check_pointers

__all__ = ["row_blocks", "rows_bytes"]


def rows_bytes(matrix: SparseArray) -> int:
    """Return what `row_blocks` holds at most, with the transfers."""
    return int(2 * STEP * (np.dtype(matrix._matrix.data.dtype).itemsize + 16) + 2 * STAGING)


def row_blocks(
    call: Call, matrix: SparseArray, row: int = 0
) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield (first row, pointers from 0, columns, values) of stretches of stored rows, a few MiB each.

    Of a transpose the stored rows are its columns. `row`: where to begin.
    """
    call.room("rows of the matrix", rows_bytes(matrix))
    core = matrix._matrix
    data, indices, indptr = Array(core.data), Array(core.indices), Array(core.indptr)
    while row < core.rows:
        pointers = take(indptr, call, np.s_[row : row + STEP + 1]).astype(np.int64)
        check_pointers(pointers, row, core.rows, core.nnz, matrix.path)
        first = 0
        while first < len(pointers) - 1:
            end = int(np.searchsorted(pointers, pointers[first] + STEP, side="right")) - 1
            end = min(max(end, first + 1), len(pointers) - 1)
            part = np.s_[int(pointers[first]) : int(pointers[end])]
            columns = take(indices, call, part)
            check_columns(columns, core.cols, part.start, matrix.path)
            values = take(data, call, part).astype(matrix.dtype, copy=False)
            yield row + first, pointers[first : end + 1] - pointers[first], columns, values
            first = end
        row += len(pointers) - 1
