"""Taking sparse matrices apart by rows in fixed memory, for whoever writes or loads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._array.requests import take
from .._errors.classes import ShapeError
from .._runtime.call import Call
from .._runtime.streaming import STEP
from .index import Chosen
from .validation import check_columns, check_pointers

if TYPE_CHECKING:
    from .array import SparseArray

__all__ = ["lengths_of_rows", "row_blocks", "rows_bytes", "values_of_rows"]


_LEAST = 1 << 15  # entries at a time
_LAZY = 48  # bytes of an entry more where steps are applied: factors, masks, what stays


def _each(matrix: SparseArray) -> int:
    """Return what an entry takes: column and value as stored and on their way, its row's pointers."""
    each = 2 * (np.dtype(matrix._stored.data.dtype).itemsize + 8) + 24
    return each + _LAZY if matrix.lazy else each


def _unpacked(matrix: SparseArray) -> int:
    core = matrix._stored
    unpacked = int(max(part.unpack_bytes for part in (core.data, core.indices, core.indptr)))
    return unpacked + (8 * core.cols if matrix._columns is not None else 0)


def rows_bytes(matrix: SparseArray, beside: int = 0) -> int:
    """Return what `row_blocks` holds at least, with the transfers."""
    return min(_LEAST, _most(matrix)) * (_each(matrix) + beside) + _unpacked(matrix)


def _most(matrix: SparseArray) -> int:
    core = matrix._stored
    return max(1, min(STEP, max(core.nnz, core.rows)))


def _windows(
    call: Call, matrix: SparseArray, row: int, step: int
) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64] | None]]:
    """Yield (first row that is seen, stored row, pointers, which of their rows are seen) of stretches.

    None: all of them. Stretches without a row that is seen are not read.
    """
    core = matrix._stored
    indptr, seen = Array(core.indptr), matrix._rows
    rows = core.rows if seen is None else (int(seen[-1]) + 1 if len(seen) else 0)
    while (first := _stored_row(seen, row, rows)) < rows:
        pointers = take(indptr, call, np.s_[first : min(first + step, rows) + 1]).astype(np.int64)
        check_pointers(pointers, first, core.rows, core.nnz, matrix.path)
        end = first + len(pointers) - 1
        if seen is None:
            yield row, first, pointers, None
            row = end
            continue
        last = _before(seen, end)
        yield row, first, pointers, np.asarray(seen[row:last], np.int64) - first
        row = last


def _stored_row(seen: Chosen | None, row: int, rows: int) -> int:
    if seen is None:
        return row
    return int(seen[row]) if row < len(seen) else rows


def _before(seen: Chosen, row: int) -> int:
    """Return how many of the rows that are seen come before a stored one."""
    if isinstance(seen, range):
        return len(range(seen.start, min(seen.stop, row), seen.step))
    return int(np.searchsorted(seen, row))


def _check_whole(call: Call, matrix: SparseArray) -> None:
    """Refuse a stored triangle: who takes rows apart asks for `all_elements` first."""
    if matrix.triangle:
        raise ShapeError(
            f"{call.who}: '{matrix.path}' stores one triangle; fl.convert(A, path, layout='csr') "
            "writes all elements."
        )


def values_of_rows(call: Call, matrix: SparseArray) -> int:
    """Return how many values the rows that are seen store; reads their pointers (8 bytes a row, unpacked)."""
    step = call.share("pointers", 40, _most(matrix), fixed=_unpacked(matrix), least=_LEAST)
    count = 0
    for _, _, pointers, seen in _windows(call, matrix, 0, step):
        count += int(
            pointers[-1] - pointers[0] if seen is None else (pointers[seen + 1] - pointers[seen]).sum()
        )
    return count


def lengths_of_rows(call: Call, matrix: SparseArray) -> NDArray[np.int64]:
    """Return how many values each row that is seen stores, those of columns that are left out included.

    Reads the pointers and holds 8 bytes a row, twice while they are looked at.
    """
    _check_whole(call, matrix)
    step = call.share("pointers", 40, _most(matrix), fixed=_unpacked(matrix), least=_LEAST)
    found = np.zeros(matrix._seen_rows, np.int64)
    for row, _, pointers, seen in _windows(call, matrix, 0, step):
        lengths = np.diff(pointers) if seen is None else pointers[seen + 1] - pointers[seen]
        found[row : row + len(lengths)] = lengths
    return found


def row_blocks(
    call: Call, matrix: SparseArray, row: int = 0, *, beside: int = 0, fixed: int = 0, stored: bool = False
) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield (first row, pointers from 0, columns, values) of stretches of stored rows, a few MiB each.

    Of a transpose the stored rows are its columns; of a view those that it sees, its steps applied. `row`:
    where to begin. `beside`: bytes that the caller makes of an entry; `fixed`: what it has yet to touch.
    `stored`: of a stored triangle its own rows; it is refused otherwise.
    Under a low limit the stretches are shorter.
    """
    if not stored:
        _check_whole(call, matrix)
    most = _most(matrix)
    step = call.share(
        "rows of the matrix", _each(matrix) + beside, most, fixed=fixed + _unpacked(matrix), least=_LEAST
    )
    core = matrix._stored
    data, indices = Array(core.data), Array(core.indices)
    places = matrix._places() if matrix._columns is not None else None
    for seen_row, _, pointers, seen in _windows(call, matrix, row, step):
        at, rows = 0, len(pointers) - 1 if seen is None else len(seen)
        while at < rows:
            first = at if seen is None else int(seen[at])
            end = int(np.searchsorted(pointers, pointers[first] + step, side="right")) - 1
            end = stop = min(max(end, first + 1), len(pointers) - 1)
            if seen is not None:
                stop = int(np.searchsorted(seen, end))
                end = int(seen[stop - 1]) + 1
            part = np.s_[int(pointers[first]) : int(pointers[end])]
            columns = take(indices, call, part)
            check_columns(columns, core.cols, part.start, matrix.path)
            values = take(data, call, part)
            ends = pointers[first : end + 1] - pointers[first]
            if seen is not None and stop - at < end - first:
                ends, columns, values = _kept(ends, columns, values, seen[at:stop] - first)
            if matrix.lazy:
                ends, columns, values = matrix._applied(seen_row + at, ends, columns, values, places)
            yield seen_row + at, ends, columns, values.astype(matrix.dtype, copy=False)
            at = stop


def _kept(
    ends: NDArray[np.int64], columns: NDArray[Any], values: NDArray[Any], rows: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return some of a few rows."""
    counts = np.diff(ends)
    stays = np.zeros(len(counts), bool)
    stays[rows] = True
    which = np.repeat(stays, counts)
    return np.concatenate([[0], np.cumsum(counts[stays])]), columns[which], values[which]
