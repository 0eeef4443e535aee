"""Matrices and arrays by rows, whatever they are stored as, for whoever writes or computes by rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import PIECE, STAGING, Array
from .._array.handle import derived, is_transposed
from .._array.requests import take
from .._resume.record import UNRECORDED, Record
from .._runtime.call import Call
from .._runtime.streaming import STEP, Block, Reported, ahead
from .._scratch import quota, scratch
from .._scratch.builds import whole_or_nothing
from .array import SparseArray
from .builder import CsrBuilder, csr_parts, value_dtype, writer_bytes
from .external_sort import Triplets, Work, build_csr, bytes_held, piece_bytes
from .index import as_slice
from .row_blocks import row_blocks, rows_bytes
from .validation import check_columns, check_listed

__all__ = [
    "all_elements", "all_rows", "by_rows", "csc_to_csr", "dense_blocks", "entry_bytes", "held_bytes",
    "is_choice", "is_view", "looked_bytes", "own_bytes", "own_rows", "sparse_by_rows", "to_csr", "unfolded",
]  # fmt: skip

_SMALL = 1 << 20  # bytes of dense rows that are looked through at a time
_BESIDE = 64  # bytes of an element of a triangle: its row and its mirror image


def csc_to_csr(
    call: Call,
    matrix: SparseArray,
    target: str,
    replace: bool,
    report: Reported,
    narrow: bool = False,
    record: Record = UNRECORDED,
) -> SparseArray:
    """Sort a matrix that is stored by columns into a CSR group at `target`."""
    check_listed(call.who, matrix.shape, matrix.shape[0], "pointers")

    def turned() -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        moved = 0
        beside = 2 * (16 + matrix.dtype.itemsize)  # of an entry: the block before is still on its way
        for block in row_blocks(call, matrix, beside=beside):
            moved += block[3].nbytes
            report.at(moved)
            yield block

    def blocks(work: Work) -> Iterator[Block]:
        for first, pointers, minor, values in ahead(turned()):
            major = np.repeat(np.arange(first, first + len(pointers) - 1), np.diff(pointers))
            yield minor, major, values

    def major() -> Iterator[NDArray[Any]]:
        indices = Array(matrix._stored.indices)
        for first in range(0, len(indices), STEP):
            columns = take(indices, call, np.s_[first : first + STEP])
            check_columns(columns, matrix._stored.cols, first, matrix.path)
            short = columns.dtype == np.uint32 and matrix._stored.cols < 1 << 31
            yield columns.view(np.int32) if short else columns  # looked at as it is, not copied

    entries = Triplets(
        *matrix.shape, matrix.nnz, matrix.dtype, blocks, None if matrix.lazy else major, True, turned
    )
    return build_csr(call, matrix.path, entries, target, replace, narrow, record)


def held_bytes(matrix: SparseArray) -> int:
    """Return what `csc_to_csr` holds at least, beside its writer."""
    return bytes_held(*matrix.shape[:1], matrix.stored_values, value_dtype(matrix.dtype, "open"))


def entry_bytes(matrix: SparseArray) -> int:
    """Return about what an entry takes in the files of `csc_to_csr`."""
    return piece_bytes(*matrix.shape, matrix.stored_values, value_dtype(matrix.dtype, "open"))


def looked_bytes(matrix: SparseArray) -> int:
    """Return what `csc_to_csr` reads to count rows, before it reads the matrix."""
    stored: int = matrix._stored.indices.stored_bytes
    return matrix.stored_bytes if matrix.lazy else stored


def dense_blocks(
    call: Call, array: Array, most: int = PIECE, *, beside: int = 0, fixed: int = 0
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (first row, rows) of an array, some `most` bytes at a time, at least one row.

    Whole rows of chunks where the memory left holds them, else a chunk is read more than once. `beside`: how
    many times the caller holds a block in other words; `fixed`: bytes that it has yet to touch.
    """
    rows, row = array.shape[0], max(1, array.nbytes // max(1, array.shape[0]))
    tall = array.chunks[0] if array.chunks and array.chunks[0] < rows else 1
    wanted = min(rows, max(tall, most // row))
    # Two blocks, the one that the caller lets go last, and what is staged of one.
    each = (2 + beside) * row + min(row, STAGING)
    fixed += array._core.unpack_bytes
    height = call.share("a block of rows", each, wanted, fixed=fixed)
    if height > tall:
        height -= height % tall
    for first in range(0, rows, height):
        yield first, take(array, call, np.s_[first : first + height])


def to_csr(call: Call, source: Array | SparseArray, report: Reported) -> SparseArray:
    """Return a matrix of real numbers stored by rows: itself, or a copy in scratch that goes with its handle.

    Of a matrix stored by columns (CSC) the entries pass through bucket files; of a dense array what is not
    zero is kept. Cost of a copy: one read of the source, 3 to 8 bytes written for a stored value.
    """
    if isinstance(source, SparseArray) and not source._transposed:
        return source
    place = scratch.Result(scratch.prepare(call.runtime.scratch), "rows")
    with whole_or_nothing(place):
        if isinstance(source, SparseArray):
            matrix = csc_to_csr(call, source, place.path, False, report, narrow=True)
        else:
            matrix = _packed(call, source, place.path, report)
    place.tie(matrix)
    return matrix


def _packed(call: Call, source: Array, target: str, report: Reported) -> SparseArray:
    kept = value_dtype(source.dtype, call.who)
    item = source.dtype.itemsize
    step = max(1, _SMALL // max(1, source.shape[1] * item))
    # Where all is stored: row, column, mask and value of every element, as they are and as they are written.
    parts = min(step, source.shape[0]) * source.shape[1] * (3 * item + 80)
    rows = 3 * source.nbytes // max(1, source.shape[0]) + source._core.unpack_bytes
    size = source.nbytes // item
    builder = CsrBuilder(
        call, target, source.shape[1], kept, False, beside=parts + rows, narrow=True, entries=size
    )
    with whole_or_nothing(builder):
        for first, block in dense_blocks(call, source, fixed=parts + builder.bytes):
            for start in range(0, len(block), step):
                part = block[start : start + step]
                _, pointers, columns, values = csr_parts(part, call.who)
                builder.append(pointers, columns, values)
            report.at((first + len(block)) * source.shape[1] * item)
        return builder.publish()


def by_rows(who: str, X: Any, memory: int | str | None) -> Any:
    """Return what `to_csr` makes of an operand, made once for a handle; of anything else, itself."""
    dense = isinstance(X, Array) and X.ndim == 2
    if not dense and not (isinstance(X, SparseArray) and X._transposed and not X.lazy):
        return X
    turned = "by rows", is_transposed(X)
    kept = derived(X).get(turned)
    if kept is None:
        call = Call(who, memory)
        kept = to_csr(call, X, Reported(call, X.nbytes))
        if not dense or X.mode == "r":
            derived(X)[turned] = kept
    return kept


def unfolded(call: Call, a: SparseArray, target: str, overwrite: bool) -> SparseArray:
    """Write all elements of a matrix of which one triangle is stored, sorted through bucket files.

    Cost: one read of the triangle; its elements and their mirror images, 12 to 24 bytes each, written and
    read once in bucket files; the matrix written.
    """

    def blocks(work: Work) -> Iterator[Block]:
        for row, pointers, columns, values in row_blocks(call, a, beside=_BESIDE, stored=True):
            rows = np.repeat(np.arange(row, row + len(pointers) - 1), np.diff(pointers))
            columns = columns.astype(np.int64)
            yield rows, columns, values
            below = columns < rows
            yield columns[below], rows[below], np.conj(values[below])

    entries = Triplets(*a.shape, 2 * a.stored_values, a.dtype, blocks, checked=True)
    return build_csr(call, a.path, entries, target, overwrite)


def all_elements(who: str, X: SparseArray, memory: int | str | None) -> SparseArray:
    """Return a matrix with all elements in its rows: itself, or of a triangle what `unfolded` makes.

    Made once for all handles and views, which it goes with; what a view computes is asked of that one.
    """
    if not X.triangle:
        return X
    owner = X._owner
    kept = derived(owner).get("all elements")
    if kept is None:
        call = Call(who, memory)
        place = scratch.Result(scratch.prepare(call.runtime.scratch), "rows")
        with whole_or_nothing(place):
            kept = unfolded(call, owner, place.path, False)
        place.tie(kept)
        derived(owner)["all elements"] = kept
    view: SparseArray = kept._seen(*X._steps)
    return view


def sparse_by_rows(
    who: str, X: SparseArray, memory: int | str | None, *, halves: bool = False, vectors: bool = True
) -> SparseArray:
    """Return a sparse operand stored by rows: itself, or what `by_rows` makes of what it is stored as.

    A stored triangle gets all its elements, unless `halves` are taken; so many rows or columns that no
    vector has a number for each are refused, unless no `vectors` are wanted. Of a view of a matrix that is
    stored by columns (CSC, or a transpose) the matrix is turned round as it is stored, once for all its
    views, and what the view chooses and computes is asked of that one.
    """
    if vectors:
        check_listed(who, X.shape, max(X.shape), "a vector's numbers")
    if not X._transposed:
        return X if halves else all_elements(who, X, memory)
    if not X.lazy:
        rows: SparseArray = by_rows(who, X, memory)
        return rows
    owner = X._owner
    turned = by_rows(who, owner if owner._transposed else owner.T, memory)
    view: SparseArray = turned._seen()
    view._steps = tuple(_other_way(X, kind, what) for kind, what in X._steps)
    view._rows = X._columns
    view._columns = None if X._rows is None else np.asarray(X._rows, np.int64)
    return view


def _other_way(X: SparseArray, kind: str, what: Any) -> tuple[str, Any]:
    """Return a step of a view as one of the matrix turned round: of rows that are seen, of all columns."""
    if kind == "columns":
        return "rows", what if X._columns is None else np.ascontiguousarray(what[X._columns])
    if kind != "rows" or X._rows is None:
        return ("columns", what) if kind == "rows" else (kind, what)
    factors = np.ones(X._stored.rows)
    factors[as_slice(X._rows)] = what
    return "columns", factors


def own_rows(call: Call, X: SparseArray) -> SparseArray:
    """Return a choice of rows as a matrix whose panels are all its own: a copy in scratch.

    Cost of a copy: one read of the panels that hold a chosen row, 3 to 8 bytes written for a stored value.
    """
    runtime = call.runtime
    directory = scratch.prepare(runtime.scratch)
    place = scratch.Result(directory, "rows")
    counted = quota.counting(call.who, directory, runtime.scratch_quota, Path(place.path))
    with whole_or_nothing(place), counted:
        kept = value_dtype(X.dtype, call.who)
        builder = CsrBuilder(
            call, place.path, X.shape[1], kept, False, beside=rows_bytes(X), narrow=True,
            entries=X.stored_values,
        )  # fmt: skip
        with whole_or_nothing(builder):
            for _, pointers, columns, values in row_blocks(call, X, fixed=builder.bytes):
                builder.append(pointers, columns, values)
            matrix = builder.publish()
    place.tie(matrix)
    return matrix


def own_bytes(X: SparseArray) -> int:
    """Return what `own_rows` holds at least."""
    return rows_bytes(X) + writer_bytes(X.shape[1], value_dtype(X.dtype, "rows"), X.stored_values)


def is_view(given: Any) -> bool:
    """Say whether it is a sparse matrix of which some rows or columns are seen."""
    return isinstance(given, SparseArray) and (given._rows is not None or given._columns is not None)


def is_choice(given: Any) -> bool:
    """Say whether it is a sparse matrix by rows of which some are seen."""
    return isinstance(given, SparseArray) and given._rows is not None and not given._transposed


def all_rows(given: Any) -> Any:
    """Return, of a choice of rows, the matrix that it is of, without factors of these rows."""
    if not is_choice(given):
        return given
    view = given._seen()
    view._rows = None
    view._steps = tuple(step for step in given._steps if step[0] != "rows")
    return view
