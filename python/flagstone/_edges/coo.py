"""Entries (row, column, value) in any order and any number, as a sparse matrix in fixed memory."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array
from .._array.mapped import off_the_map
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text, storage_error
from .._lazy.creation import ones, zeros
from .._lazy.join import concat
from .._lazy.spaced import arange
from .._output.destination import in_group
from .._output.replaceable import check_overwrite, check_suffix, exists
from .._runtime.call import Call
from .._scratch import quota, scratch
from .._scratch.builds import whole_or_nothing
from .._sort.records import Records
from .._sort.stretches import part, stretches
from .._sparse.array import SparseArray
from .._sparse.builder import CsrBuilder, check_fits, value_dtype
from .._sparse.validation import words_of
from .spool import check_id, check_ids, columns_of, spooled

__all__ = ["built", "check_duplicates", "from_coo"]

_STEP = 1 << 17  # entries that are joined at a time
_ROWS = 1 << 17  # rows of one block of pointers


class _Entries:
    """Entries in the order of rows and columns, equal places in the order they came in."""

    def __init__(self, call: Call, columns: Sequence[Any], symmetric: bool, loops: bool) -> None:
        self.call, self.symmetric, self.loops = call, symmetric, loops
        self.valued = len(columns) == 3
        given, keys = list(columns), 2
        if symmetric:  # each also the other way round
            (rows, cols), values = columns[:2], [concat([one, one]) for one in columns[2:]]
            given = [concat([rows, cols]), concat([cols, rows]), self._marks(rows.shape[0]), *values]
            keys += len(values)
        self.length = given[0].shape[0]
        self.sorted = [np.empty(0, np.dtype(one.dtype)) for one in given]
        if self.length:
            kept = [True] * len(given) + [False]
            self.sorted = Records(call, given, keys, False, kept, [None] * len(kept)).run()
            call.begin()

    def _marks(self, number: int) -> Array:
        """Return marks of entries, even, and of the same the other way round, odd.

        Where there are values marks are keys too: what a place and its mirror image hold is met in one order,
        so that sums are equal to the bit, and the first is the same one.
        """
        if self.valued:
            return concat([arange(first, 2 * number, 2, dtype="int64") for first in (0, 1)])
        return concat([zeros(number, "uint8"), ones(number, "uint8")])

    def extents(self, shape: tuple[int, int] | None, square: bool) -> tuple[int, int]:
        """Return rows and columns; refuse ids that are outside, or none at all."""
        who, (lowest, highest) = self.call.who, self._ends()
        columns = (0, -1)
        for _, block in stretches(self.call, self.sorted[1], _STEP):
            columns = min(columns[0], int(block.min())), max(columns[1], int(block.max()))
        if lowest < 0 or columns[0] < 0:
            raise FormatError(
                f"{who}: an entry has the {'row' if lowest < 0 else 'column'} {min(lowest, columns[0])}; "
                "ids of 0 and more are needed."
            )
        check_id(who, max(highest, columns[1]), "an entry")
        if shape is None:
            made = highest + 1, columns[1] + 1
            return (max(made), max(made)) if square else made
        for name, largest, extent in (("row", highest, shape[0]), ("column", columns[1], shape[1])):
            if largest >= extent:
                raise FormatError(
                    f"{who}: an entry has the {name} {largest} and the shape is {shape[0]} x {shape[1]}; "
                    "give a larger shape, or none."
                )
        return shape

    def _ends(self) -> tuple[int, int]:
        if not self.length:
            return 0, -1
        ends = [part(self.call, self.sorted[0], at, at + 1) for at in (0, self.length - 1)]
        return int(ends[0][0]), int(ends[1][0])

    def whole_rows(self) -> Iterator[list[NDArray[Any]]]:
        """Yield the columns of stretches that end with a row."""
        kept: list[NDArray[Any]] | None = None
        for first in range(0, self.length, _STEP):
            last = min(first + _STEP, self.length)
            block = [part(self.call, one, first, last) for one in self.sorted]
            if kept is not None:
                held = 2 * sum(one.nbytes for one in kept)
                self.call.room("the entries of a row", held)
                block = [np.concatenate(both) for both in zip(kept, block, strict=True)]
            cut = int(np.searchsorted(block[0], block[0][-1])) if last < self.length else len(block[0])
            kept = [one[cut:] for one in block] if cut < len(block[0]) else None
            if cut:
                yield [one[:cut] for one in block]


def _joined(
    entries: _Entries, block: list[NDArray[Any]], duplicates: str, made: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return rows, columns and values of one entry a place."""
    if not entries.loops:
        apart = block[0] != block[1]
        block = [one[apart] for one in block]
    elif entries.symmetric:
        once = (block[0] != block[1]) | (block[2] % 2 == 0)
        block = [one[once] for one in block]
    rows, cols = block[0], block[1]
    new = np.ones(len(rows), bool)
    new[1:] = (rows[1:] != rows[:-1]) | (cols[1:] != cols[:-1])
    begins = np.flatnonzero(new)
    if duplicates == "error" and len(begins) < len(rows):
        at = int(np.argmin(new))
        raise FormatError(
            f"{entries.call.who}: row {rows[at]}, column {cols[at]} is there twice; say duplicates='sum' or "
            "'first'."
        )
    if not entries.valued:
        counts = np.diff(begins, append=len(rows)) if duplicates == "sum" else np.ones(len(begins), np.int64)
        check_fits(entries.call.who, counts, made, None, asked=True)
        return rows[begins], cols[begins], counts.astype(made)
    check_fits(entries.call.who, block[-1], made, None, asked=True)
    values = block[-1].astype(made, copy=False)
    joined = np.add.reduceat(values, begins) if duplicates == "sum" and len(begins) else values[begins]
    if made.kind in "iu":  # sums of integers are 64 bits wide
        check_fits(entries.call.who, joined, made, None, asked=True)
    return rows[begins], cols[begins], joined


def _write(
    call: Call, entries: _Entries, shape: tuple[int, int], target: str, duplicates: str, made: np.dtype[Any],
    layout: str,
) -> SparseArray:  # fmt: skip
    held = _STEP * 6 * sum(one.dtype.itemsize for one in entries.sorted) + 16 * _ROWS
    builder = CsrBuilder(
        call, target, shape[1], made, False, beside=held, entries=entries.length, layout=layout
    )
    with whole_or_nothing(builder):
        row = 0

        def append(rows: NDArray[Any], cols: NDArray[Any], values: NDArray[Any], end: int) -> None:
            nonlocal row
            while row < end:  # rows without entries too, some at a time
                stop = min(end, row + _ROWS)
                edges = np.searchsorted(rows, np.arange(row, stop + 1))
                builder.append(edges, cols[edges[0] : edges[-1]], values[edges[0] : edges[-1]])
                row = stop

        for block in entries.whole_rows():
            rows, cols, values = _joined(entries, block, duplicates, made)
            if "triangle" in layout:
                lower = cols <= rows
                rows, cols, values = rows[lower], cols[lower], values[lower]
            if len(rows):
                append(rows.astype(np.int64), cols.astype(np.int64), values, int(rows[-1]) + 1)
        none = np.empty(0, np.int64)
        append(none, none, np.empty(0, made), shape[0])
        return builder.publish()


def _check_rows(call: Call, rows: int, target: str, scratched: bool) -> None:
    """Refuse rows whose pointers the disk does not hold: writing those of a stray id would never end."""
    folder = os.path.abspath(target)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    left, limit = _core.free_bytes(folder), call.runtime.scratch_quota if scratched else None
    if limit is not None:
        left = min(left, max(0, limit - quota.held(call.runtime.scratch)))
    if 8 * (rows + 1) > left:
        raise FormatError(
            f"{call.who}: the last row is {rows - 1}, every row up to it takes a pointer of 8 bytes, and "
            f"{_core.format_bytes(left)} are left in '{folder}'; give smaller ids or a smaller shape "
            "(fl.open_edges(path, ids='dense') numbers ids anew)."
        )


def check_duplicates(who: str, duplicates: Any) -> None:
    """Refuse another word, before anything is read."""
    if duplicates not in ("sum", "first", "error"):
        raise ValueError(f"{who}: duplicates is {duplicates!r}; choose 'sum', 'first' or 'error'.")


def _shape(who: str, shape: Any) -> tuple[int, int] | None:
    if shape is None:
        return None
    given = tuple(shape) if isinstance(shape, Sequence) else ()
    if len(given) != 2 or not all(isinstance(n, (int, np.integer)) and n >= 0 for n in given):
        raise ShapeError(f"{who}: shape is {shape!r}; two whole numbers, rows and columns, are needed.")
    return int(given[0]), int(given[1])


def _is_columns(entries: Any) -> bool:
    """Say whether these are columns, and no blocks of columns: arrays, or a tuple of lists of numbers."""
    if isinstance(entries, (tuple, list)) and any(isinstance(one, (Array, np.ndarray)) for one in entries):
        return True
    return (
        isinstance(entries, tuple)
        and len(entries) in (2, 3)
        and all(isinstance(one, list) for one in entries)
        and all(isinstance(n, (int, float, np.number)) for one in entries for n in one)
    )


def _columns(call: Call, entries: Any, dtype: np.dtype[Any] | None) -> list[Any]:
    if _is_columns(entries):
        columns = [off_the_map(call, one) for one in columns_of(call.who, entries)]
        check_ids(call.who, columns, "entries")
        return columns
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{call.who}: entries is {type(entries).__name__}; (rows, columns), (rows, columns, values), "
            "blocks of these or a SciPy coo matrix is needed."
        )
    columns = spooled(call, entries, dtype)
    return columns or [np.empty(0, np.int64), np.empty(0, np.int64)]


def _dtype(who: str, dtype: Any) -> np.dtype[Any] | None:
    try:
        return None if dtype is None else value_dtype(np.dtype(dtype), who)
    except TypeError:
        raise TypeError(f"{who}: dtype is {dtype!r}; one of numbers is needed.") from None


def _target(who: str, path: Any) -> str:
    """Return where the matrix goes, once nothing is in its way."""
    target = path_text(who, path)
    if exists(target):
        raise storage_error(f"{who}: '{target}' exists; delete it first.", errno.EEXIST, target)
    if target.endswith(".npy"):
        raise ShapeError(f"{who}: path '{target}' is for a dense array; give that of a directory.")
    check_suffix(who, target)
    check_overwrite(who, target)
    in_group(who, target)
    return target


def built(
    call: Call, columns: Sequence[Any], path: str | None, shape: tuple[int, int] | None, duplicates: str,
    symmetric: bool, dtype: np.dtype[Any] | None, *, square: bool = False, loops: bool = True,
    layout: str = "csr",
) -> SparseArray:  # fmt: skip
    """Sort checked columns of entries and write the matrix to a checked path.

    `square`: as many columns as rows by default. Without `loops` entries on the diagonal are left out, not
    their rows.
    """
    who = call.who
    place = scratch.Result(scratch.prepare(call.runtime.scratch), "matrix") if path is None else None
    target = place.path if place is not None else str(path)
    natural = np.dtype(columns[2].dtype) if len(columns) == 3 else np.dtype(np.int32)
    made = value_dtype(natural, who) if dtype is None else dtype
    found = _Entries(call, columns, symmetric, loops)
    del columns
    counted: Any = contextlib.nullcontext()
    if place is not None:
        runtime = call.runtime
        counted = quota.counting(who, runtime.scratch, runtime.scratch_quota, Path(place.path))
    with whole_or_nothing(place), counted, call.measured(who, "sorted entries") as done:
        extents = found.extents(shape, square or symmetric)
        _check_rows(call, extents[0], target, place is not None)
        matrix = _write(call, found, extents, target, duplicates, made, layout)
        done.bytes_read = sum(one.nbytes for one in found.sorted)
        done.bytes_written = matrix.stored_bytes
    if place is not None:
        place.tie(matrix)
    return matrix


def from_coo(
    entries: Any, path: str | os.PathLike[str] | None = None, *, shape: tuple[int, int] | None = None,
    duplicates: str = "sum", symmetric: bool = False, dtype: Any = None, layout: str = "csr",
    memory: int | str | None = None,
) -> SparseArray:  # fmt: skip
    """Build a sparse matrix from entries in any order, in fixed memory.

    Parameters
    ----------
    entries : tuple of Array, ndarray or list, SciPy coo matrix, or iterable of such tuples of arrays
        ``(rows, columns)`` or ``(rows, columns, values)`` of one length, in memory or on disk, or blocks
        of such (which are kept in scratch first; the first block decides the dtype of values where none is
        given). Without values every entry counts 1.
    path : path, optional
        Where the matrix goes (a directory); default: scratch, until the handle dies.
    shape : tuple of int, optional
        Rows and columns; default: that of the SciPy matrix, else one more than the largest ids.
    duplicates : {"sum", "first", "error"}
        Entries at one place: added in the order they come in, the first one taken, or refused.
    symmetric : bool
        Every entry also the other way round, those on the diagonal once; the default shape is square.
    dtype : dtype, optional
        Of the stored values; default: that of values (of the first block), int32 where there are none.
    layout : str
        As for `convert`; a triangle of what was made symmetric.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    SparseArray
        Canonical CSR: columns increase in every row, each once.

    Raises
    ------
    FormatError
        An id is negative, beyond `shape`, or so large that the disk does not hold pointers up to it; an
        entry is there twice (``duplicates="error"``).
    ShapeError
        Lengths or `shape` do not agree; values (of which none may be cut off, wrap around or become infinite)
        or how many entries stand at one place do not fit into `dtype` or that of the first block.
    StorageError
        `path` exists.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    A sort of records (row, column, value): two reads and two writes where they do not fit into memory, then
    one read and about 3 to 8 bytes written for a stored value. O(n log n) steps; an addition for each
    duplicate. The entries of one row fit into memory. Pointers are stored for every row; of columns
    nothing is held but sums of at most 2^20, so that there may be 2^40.
    """
    who = "from_coo"
    call = Call(who, memory)
    check_duplicates(who, duplicates)
    if all(hasattr(entries, name) for name in ("row", "col", "data")):  # SciPy's coo
        shape = entries.shape if shape is None else shape
        entries = entries.row, entries.col, entries.data
    wanted = _shape(who, shape)
    if symmetric and wanted is not None and wanted[0] != wanted[1]:
        raise ShapeError(f"{who}: shape is {wanted[0]} x {wanted[1]}; a symmetric matrix is square.")
    made = _dtype(who, dtype)
    words = words_of(who, layout)
    if "triangle" in words and not symmetric:
        raise ShapeError(f"{who}: layout is {layout!r}; a triangle is of a matrix made with symmetric=True.")
    target = None if path is None else _target(who, path)
    columns = _columns(call, entries, made)
    if "triangle" in words and len(columns) == 3 and np.dtype(columns[2].dtype).kind == "c":
        raise ShapeError(
            f"{who}: values are complex, and entries are mirrored without conjugation; a stored triangle is "
            "Hermitian."
        )
    return built(call, columns, target, wanted, duplicates, symmetric, made, layout=words)
