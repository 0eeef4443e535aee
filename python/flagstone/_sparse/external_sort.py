"""Entries of a matrix in any order, sorted by row in fixed memory: an external counting sort."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.requests import empty
from .._errors.classes import FormatError
from .._errors.messages import storage_error
from .._resume.record import UNRECORDED, Record, sync_folder
from .._runtime.call import Call
from .._runtime.streaming import STEP, Block, ahead
from .._scratch.builds import whole_or_nothing
from .._scratch.spill import beside, reserve, spilling
from .array import SparseArray
from .builder import CsrBuilder, Work, value_dtype

__all__ = [
    "Triplets", "Work", "build_csr", "bytes_held", "check_rows", "piece_bytes", "record_of", "sorted_rows",
    "stretches",
]  # fmt: skip


@dataclass
class Triplets:
    """Entries (row, column, value) of a matrix, block by block, in any order.

    `blocks` is called twice with the same `Work`, and gives the same blocks both times; once where `major`
    gives their rows alone for less.
    """

    rows: int
    cols: int
    nnz: int  # at least
    dtype: np.dtype[Any]
    blocks: Callable[[Work], Iterator[Block]]
    major: Callable[[], Iterator[NDArray[Any]]] | None = None
    checked: bool = False  #: that columns are in range
    #: The same entries by columns: (first column, pointers from 0, rows, values) of some whole columns.
    turned: Callable[[], Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]] | None = None

    def rows_only(self, work: Work) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """Yield (rows, columns) of blocks; None: columns are in range."""
        if self.major is not None:
            for row in self.major():
                yield row, None
            return
        for row, column, _ in self.blocks(work):
            yield row, None if self.checked else column


_BUCKET = STEP // 4  # entries of one file, at least
_PIECE = 1 << 16  # columns of a piece at most: records count them in 16 bits


class _Buckets:
    """Entries in files, one for each stretch of rows that fits into memory: an external counting sort.

    The first pass counts entries in coarse ranges of rows, the second writes each to its range's file; a file
    is then sorted by row in memory. Cost: the entries are written to `work` once and read once.
    """

    _form = "entries"  #: what is in the files

    def __init__(self, call: Call, path: str, triplets: Triplets, kept: np.dtype[Any], work: Work) -> None:
        self._call, self._who = call, f"open: '{path}'"
        rows, cols = triplets.rows, triplets.cols
        self.rows, self.shift = rows, max(0, (max(rows, 1) - 1).bit_length() - 16)
        self.coarse = 1 << self.shift  # rows of one counted range: at most 65,536 of them
        self.record, self._kept = record_of(rows, cols, kept), kept
        self._work, self._files = work, list[IO[bytes]]()
        told = work.told("buckets")
        if told is not None and self._reopen(told):
            return
        counts = np.zeros(-(-rows // self.coarse) + 1, np.int64)
        for row, column in triplets.rows_only(work):
            self._count(row, column, cols, counts, path)
        per_bucket = max(_BUCKET, int(counts.sum()) // 400)
        _, bucket_of = np.unique((np.cumsum(counts) - counts) // per_bucket, return_inverse=True)
        self.bucket_of = bucket_of.astype(np.uint16)
        try:
            with spilling(self._who, work.folder):
                for i in range(int(self.bucket_of[-1]) + 1):
                    self._files.append(open(f"{work.folder}/{i}", "w+b"))  # noqa: SIM115
            numbers = np.bincount(self.bucket_of, weights=counts).astype(np.int64)
            self._fill(triplets, numbers)
        except BaseException:
            self.close()
            raise
        work.forget("spool")
        self.note()

    def _fill(self, triplets: Triplets, numbers: NDArray[np.int64]) -> None:
        """Write all entries, so many to each file."""
        reserve(self._who, self._work.folder, self._files, [int(n) * self.record.itemsize for n in numbers])
        for row, column, value in triplets.blocks(self._work):
            self._put(row, column, value)
        with spilling(self._who, self._work.folder):
            for file in self._files:
                file.flush()

    def _ranges(self, bucket: int) -> tuple[int, int]:
        """Return the first row of a bucket and the one behind its last."""
        of = np.flatnonzero(self.bucket_of == bucket)
        return min(int(of[0]) * self.coarse, self.rows), min((int(of[-1]) + 1) * self.coarse, self.rows)

    def note(self) -> None:
        """Note that the buckets are whole."""
        if self._work.checkpoint is None:
            return
        self._work.note("buckets", self._about(), 0.5, self._sync)

    def parts(self) -> list[tuple[str, bytes]]:
        """Return what goes into every later checkpoint: the buckets, once they are on the disk."""
        if "buckets" not in self._work.notes:
            self._sync()
            self._work.notes["buckets"] = json.dumps(self._about()).encode()
        return list(self._work.notes.items())

    def _about(self) -> dict[str, Any]:
        lengths = [os.fstat(file.fileno()).st_size for file in self._files]
        return {"bucket_of": self.bucket_of.tolist(), "bytes": lengths, "form": self._form}

    def _sync(self) -> None:
        for file in self._files:
            _core.sync_file(file.fileno(), self._work.folder)
        sync_folder(self._work.folder)
        sync_folder(os.path.dirname(self._work.folder))

    def _reopen(self, told: dict[str, Any]) -> bool:
        """Take over the files of a dead process, where they are as it noted."""
        if told.get("form") != self._form:
            self._work.forget("buckets")
            return False
        self.bucket_of = np.array(told["bucket_of"], np.uint16)
        try:
            for i, length in enumerate(told["bytes"]):
                self._files.append(open(f"{self._work.folder}/{i}", "r+b"))  # noqa: SIM115
                if os.fstat(self._files[-1].fileno()).st_size != length:
                    raise OSError
        except OSError:
            self.close()
            self._files.clear()
            self._work.forget("buckets")
            return False
        return True

    def _count(
        self, row: NDArray[Any], column: NDArray[Any] | None, cols: int, counts: NDArray[np.int64], path: str
    ) -> None:
        """Count the rows of a block, or refuse an entry outside the matrix."""
        row = integers(row)
        at = _core.count_rows(row, self.rows, self.shift, counts)
        if at < 0 and column is not None:
            column = integers(column)
            at = _core.count_rows(column, cols, 63, np.zeros(1, np.int64))
        if at >= 0:
            where = f"row {row[at]}" if column is None else f"row {row[at]}, column {column[at]}"
            raise FormatError(f"open: '{path}' has a value at {where}; the matrix is {self.rows} x {cols}.")

    def _put(self, row: NDArray[Any], column: NDArray[Any], value: NDArray[Any]) -> None:
        entries = _pages(len(row), self.record)
        ends = np.zeros(len(self._files), np.int64)
        _core.scatter_entries(
            integers(row), integers(column), _bytes(np.ascontiguousarray(value, self._kept)), self.bucket_of,
            self.shift, *_widths(self.record), ends, _bytes(entries),
        )  # fmt: skip
        starts = np.concatenate([[0], ends[:-1]])
        with spilling(self._who, self._work.folder):
            for i in np.flatnonzero(ends > starts):
                self._files[i].write(entries[starts[i] : ends[i]].data)

    def sorted(self, held: int = 0) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Yield (first row, pointers, columns, values) of stretches of rows, top to bottom.

        Stretches of which the first `held` rows leave nothing are left out.
        """
        for i, file in enumerate(self._files):
            first, last = self._ranges(i)
            if last > held:
                yield from self._rows(file, first, last)

    def _rows(
        self, file: IO[bytes], first: int, last: int
    ) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        yield from stretches(self._call, file, self.record, first, last)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


class _Pieces(_Buckets):
    """The same of entries that come by columns: files hold pieces, records of 4 bytes beside the value.

    A piece is what some columns leave in one bucket of rows, in their order (`_core.split_block`); wider
    buckets than 65,536 rows take 6 bytes.
    """

    _form = "pieces"

    @functools.cached_property
    def _wide(self) -> bool:
        return max(last - first for first, last in map(self._ranges, range(len(self._files)))) > 1 << 16

    def _fill(self, triplets: Triplets, numbers: NDArray[np.int64]) -> None:
        assert triplets.turned is not None
        first = np.array([self._ranges(i)[0] for i in range(len(self._files))], np.int64)
        self._piece = (6 if self._wide else 4) + self._kept.itemsize
        cut = triplets.nnz // STEP + triplets.cols // _PIECE + 2
        sizes = [int(n) * self._piece + 16 * min(int(n), cut) for n in numbers]
        reserve(self._who, self._work.folder, self._files, sizes)
        for to, ends in ahead(self._split(triplets.turned(), first)):
            starts = np.concatenate([[0], ends[:-1]])
            with spilling(self._who, self._work.folder):
                for i in np.flatnonzero(ends > starts):
                    self._files[i].write(to[starts[i] : ends[i]].data)
        with spilling(self._who, self._work.folder):
            for file in self._files:
                file.flush()
                os.ftruncate(file.fileno(), file.tell())

    def _split(
        self, blocks: Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]], first: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        """Yield the pieces of stretches of columns, and where each bucket's one ends."""
        wide = self._wide
        for column, pointers, rows, values in ahead(blocks):
            for low in range(0, len(pointers) - 1, _PIECE):
                ends = pointers[low : low + _PIECE + 1]
                own = np.s_[int(ends[0]) : int(ends[-1])]
                number = own.stop - own.start
                to = _pages(number * self._piece + 16 * min(number, len(self._files)), np.dtype(np.uint8))
                filled = np.zeros(len(self._files), np.int64)
                _core.split_block(
                    column + low, np.ascontiguousarray(ends - ends[0], np.int64), _bytes(rows[own]),
                    rows.itemsize, _bytes(np.ascontiguousarray(values[own], self._kept)), self._kept.itemsize,
                    self.bucket_of, self.shift, first, wide, filled, to,
                )  # fmt: skip
                yield to, filled

    def _rows(
        self, file: IO[bytes], first: int, last: int
    ) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        size, wide = os.fstat(file.fileno()).st_size, self._wide
        column, value = self.record["column"], self.record["value"]
        each = 2 * value.itemsize + column.itemsize + 6
        self._call.room(
            f"the entries of rows {first} to {last - 1}",
            each * (size // (4 + value.itemsize)) + 16 * min(_ROWS, last - first),
        )
        pieces = _pages(size, np.dtype(np.uint8))
        _read(file.fileno(), pieces)
        for start in range(0, last - first, _ROWS):
            end = min(start + _ROWS, last - first)
            number = size // (4 + value.itemsize)  # at most
            if last - first > _ROWS:
                number = _core.records_between(pieces, value.itemsize, wide, start, end)
            pointers = _pages(end - start + 1, np.dtype(np.int64))
            columns, values = (_pages(max(0, number), kept) for kept in (column, value))
            whole = number >= 0 and _core.join_pieces(
                pieces, value.itemsize, wide, last - first, start, column.itemsize == 8, pointers,
                _bytes(columns), _bytes(values),
            )  # fmt: skip
            if not whole:
                raise FormatError(
                    f"open: a temporary file has an entry outside rows {first} to {last - 1}; the disk "
                    "changed it."
                )
            number = int(pointers[-1])
            yield first + start, pointers, columns[:number], values[:number]


def integers(given: NDArray[Any]) -> NDArray[Any]:
    """Return integers as the core reads them: int32 or int64, one after the other."""
    return np.ascontiguousarray(given, np.int32 if given.dtype == np.int32 else np.int64)


def _bytes(given: NDArray[Any]) -> NDArray[np.uint8]:
    return given.view(np.uint8).reshape(-1)


def _pages(number: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return memory that goes back whole: what a thread's heap frees last stays in it."""
    return empty((number,), dtype)


def _widths(record: np.dtype[Any]) -> tuple[int, int, int]:
    return record["row"].itemsize, record["column"].itemsize, record["value"].itemsize


def record_of(rows: int, cols: int, kept: np.dtype[Any]) -> np.dtype[Any]:
    """Return what an entry is in a bucket file."""
    narrow = [np.int32 if extent < 1 << 31 else np.int64 for extent in (rows, cols)]
    return np.dtype([("row", narrow[0]), ("column", narrow[1]), ("value", kept)])


def _in_pieces(rows: int, nnz: int) -> bool:
    """Say whether entries that come by columns go through pieces: each is looked at once for 2^19 rows."""
    return rows < 1 << 31 and rows <= max(1 << 24, 4 * nnz)


def piece_bytes(rows: int, cols: int, nnz: int, kept: np.dtype[Any]) -> int:
    """Return about what an entry that comes by columns takes on its way."""
    if not _in_pieces(rows, nnz):
        return record_of(rows, cols, kept).itemsize
    buckets = min(400, max(1, nnz // _BUCKET))
    return (4 if rows <= buckets << 16 else 6) + kept.itemsize


def bytes_held(rows: int, nnz: int, kept: np.dtype[Any]) -> int:
    """Return what blocks, a bucket and its sorting take."""
    bucket = min(nnz, max(2 * _BUCKET, nnz // 400))
    blocks = min(2 * STEP, 2 * nnz)
    return (3 * (16 + kept.itemsize) + 32) * (bucket + blocks) + 16 * min(_ROWS, rows)


@contextlib.contextmanager
def sorted_rows(
    call: Call, path: str, triplets: Triplets, target: str
) -> Iterator[Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]]:
    """Give (first row, pointers, columns, values) of stretches of rows; columns of a row in any order.

    Entries lie in bucket files beside `target` and nowhere else: for whoever wants rows, not a matrix, of any
    number of columns. Holds `bytes_held`.
    """
    kept = value_dtype(triplets.dtype, f"open: '{path}'")
    call.room("sorted entries", bytes_held(triplets.rows, triplets.nnz, kept))
    with beside(target) as folder:
        buckets = _Buckets(call, path, triplets, kept, Work(folder))
        with contextlib.closing(buckets):
            yield ahead(buckets.sorted())


@contextlib.contextmanager
def _work(target: str, builder: CsrBuilder) -> Iterator[Work]:
    """Give a folder for bucket files: beside `target`, or in the notes of a call that can be resumed."""
    if builder.notes is None:
        with beside(target) as folder:
            yield Work(folder)
        return
    folder = f"{builder.notes}/work"  # it goes with the notes
    os.makedirs(folder, exist_ok=True)
    yield Work(folder, builder.checkpoint)


def build_csr(
    call: Call, path: str, triplets: Triplets, target: str, replace: bool = False, narrow: bool = False,
    record: Record = UNRECORDED,
) -> SparseArray:  # fmt: skip
    """Sort entries by row into a CSR group; duplicates are summed. Holds about 150 MB."""
    kept = value_dtype(triplets.dtype, f"open: '{path}'")
    check_rows(triplets.rows, path, target)
    held = bytes_held(triplets.rows, triplets.nnz, kept)
    builder = CsrBuilder(
        call, target, triplets.cols, kept, replace, beside=held, narrow=narrow,
        record=record, entries=triplets.nnz,
    )  # fmt: skip
    with whole_or_nothing(builder), record.kept(builder), _work(target, builder) as work:
        by_pieces = triplets.turned is not None and _in_pieces(triplets.rows, triplets.nnz)
        kind = _Pieces if by_pieces else _Buckets
        buckets = kind(call, path, triplets, kept, work)
        with contextlib.closing(buckets):
            for first, pointers, columns, values in ahead(buckets.sorted(builder.held)):
                builder.rows = first
                builder.append(pointers, columns, values)
                builder.offer(0.5 + 0.5 * builder.rows / max(1, triplets.rows), buckets.parts)
        return builder.publish()


_ROWS = 1 << 19  # of one stretch: 4 MiB of pointers
_READ = 1 << 30  # bytes of one read: the system's calls take 2 GiB at most
_PACKED = 255  # bytes to one, at best: the most that lz4 makes of pointers that all are the same


def check_rows(rows: int, path: str, target: str) -> None:
    """Refuse a number of rows whose pointers cannot fit beside `target`, however well they pack."""
    folder = os.path.dirname(os.path.abspath(target))
    free = _core.free_bytes(folder)
    if 8 * rows // _PACKED > free:
        raise storage_error(
            f"open: '{path}' says that it has {rows} rows: their pointers take "
            f"{_core.format_bytes(min(8 * rows // _PACKED, 1 << 62))} at least, and there are "
            f"{_core.format_bytes(free)} of space left. It is damaged, or needs a roomier FLAGSTONE_SCRATCH.",
            errno.ENOSPC, folder,
        )  # fmt: skip


def stretches(
    call: Call, file: IO[bytes], record: np.dtype[Any], first: int, last: int
) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield (first row, pointers, columns, values) of rows from `first` to `last`; `file` has their entries.

    Holds the entries three times, and pointers of 2^19 rows.
    """
    number = os.fstat(file.fileno()).st_size // record.itemsize
    call.room(
        f"the entries of rows {first} to {last - 1}",
        (2 * record.itemsize + 32) * number + 16 * min(_ROWS, last - first),
    )
    entries = _pages(number, record)
    _read(file.fileno(), _bytes(entries))
    if last - first <= _ROWS:
        yield first, *_by_row(entries, first, last)
        return
    row = entries["row"] - first
    order = np.argsort(row, kind="stable")
    for start in range(0, last - first, _ROWS):
        end = min(start + _ROWS, last - first)
        edges = np.searchsorted(row, np.array([start, end], row.dtype), sorter=order)
        part = entries[order[edges[0] : edges[1]]]
        yield first + start, *_by_row(part, first + start, first + end)


def _read(descriptor: int, to: NDArray[np.uint8]) -> None:
    """Fill `to` from a file's start; no other reader's or writer's place in it is moved."""
    at = 0
    while at < len(to):
        at += (got := os.preadv(descriptor, [to[at : at + _READ].data], at))
        if not got:
            raise FormatError("open: a temporary file is shorter than what was written; the disk cut it.")


def _by_row(entries: NDArray[Any], first: int, last: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return pointers, columns and values of rows from `first` to `last`."""
    record = entries.dtype
    pointers = _pages(last - first + 1, np.dtype(np.int64))
    columns, values = (_pages(len(entries), record[name]) for name in ("column", "value"))
    whole = _core.sort_entries(
        _bytes(entries), *_widths(record), first, pointers, _bytes(columns), _bytes(values)
    )
    if not whole:
        raise FormatError(
            f"open: a temporary file has an entry outside rows {first} to {last - 1}; the disk changed it."
        )
    return pointers, columns, values
