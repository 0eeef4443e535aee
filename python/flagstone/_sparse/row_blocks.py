"""Taking arrays and sparse matrices apart in fixed memory, for whoever writes them elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import PIECE, STAGING, Array
from .._runtime.call import Call
from .._storage.import_cache import STEP, Reported
from .array import SparseArray
from .validation import check_columns, check_pointers

__all__ = ["copy", "row_blocks", "rows_bytes"]


def _step(source: Array, target: _core.Array) -> list[int]:
    """Return the box that is copied at a time: whole chunks of the target (a flat one: of the source)."""
    shape, item = source.shape, source.dtype.itemsize
    whole = tuple(shape)
    step = list(target.chunks) if tuple(target.chunks) != whole else list(source.chunks)
    if tuple(step) == whole:
        step = [1] * len(shape)
    step = [max(1, min(s, n)) for s, n in zip(step, shape, strict=True)]
    while step and int(np.prod(step, dtype=object)) * item > PIECE:  # a chunk that is larger than that
        largest = int(np.argmax(step))
        step[largest] = -(-step[largest] // 2)
    for d in reversed(range(len(step))):
        while step[d] < shape[d] and 2 * int(np.prod(step, dtype=object)) * item <= PIECE:
            step[d] = min(2 * step[d], shape[d])
    return step


def copy(
    call: Call, source: Array, target: _core.Array, report: Reported,
    checkpoint: _core.Checkpoint | None = None, flat: bool = False,
) -> int:  # fmt: skip
    """Copy all elements, box by box; the target is built aside. Holds two boxes of 32 MiB at most.

    `checkpoint`: where finished boxes are counted; those that a dead process counted, and the target still
    holds, are not copied again. `flat`: the target has no chunks. Returns the bytes that were copied.
    """
    out = Array(target, "r+")
    out._dirty = True  # built aside: no mark is needed
    step, shape, moved = _step(source, target), source.shape, 0
    call.room(
        "two boxes and the transfers", 2 * min(PIECE, source.nbytes) + STAGING + source._core.unpack_bytes
    )
    grid = [range(0, n, s) for n, s in zip(shape, step, strict=True)]
    numbers = [len(g) for g in grid]
    boxes = int(np.prod(numbers, dtype=object))
    had = int.from_bytes(checkpoint.load("boxes"), "little") if checkpoint and checkpoint.has("boxes") else 0
    # A chunk that is written in parts is read in between: what is counted must be whole chunks.
    whole = flat or all(s % c == 0 or s >= n for s, c, n in zip(step, target.chunks, shape, strict=True))
    for number, first in enumerate(np.ndindex(*numbers)):
        start = [g[i] for g, i in zip(grid, first, strict=True)]
        extents = [min(s, n - at) for s, n, at in zip(step, shape, start, strict=True)]
        if number < had and target.stored(start, extents):
            continue
        key = tuple(slice(at, at + n) for at, n in zip(start, extents, strict=True))
        part = source._take(call, key)
        out._assign(call, key, part)
        moved += part.nbytes
        report.at(moved)
        if checkpoint is not None and whole and checkpoint.due():
            target.checkpoint()
            checkpoint.save((number + 1) / boxes, [("boxes", (number + 1).to_bytes(8, "little"))])
    target.flush()
    return moved


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
        pointers = indptr._take(call, np.s_[row : row + STEP + 1]).astype(np.int64)
        check_pointers(pointers, row, core.rows, core.nnz, matrix.path)
        first = 0
        while first < len(pointers) - 1:
            end = int(np.searchsorted(pointers, pointers[first] + STEP, side="right")) - 1
            end = min(max(end, first + 1), len(pointers) - 1)
            part = np.s_[int(pointers[first]) : int(pointers[end])]
            columns = indices._take(call, part)
            check_columns(columns, core.cols, part.start, matrix.path)
            values = data._take(call, part).astype(matrix.dtype, copy=False)
            yield row + first, pointers[first : end + 1] - pointers[first], columns, values
            first = end
        row += len(pointers) - 1
