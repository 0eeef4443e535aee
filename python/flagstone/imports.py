"""Importing in fixed memory: what was imported already, and entries in any order sorted by row."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _core, scratch
from .array import Array, open_core
from .config import Call, current
from .creation import MEMBER, Destination
from .csr_builder import CsrBuilder, value_dtype
from .errors import Error, ExistsError, FormatError
from .scratch import whole_or_nothing
from .sparse import SparseArray
from .stretches import check_rows, stretches

__all__ = [
    "STEP", "Reported", "Triplets", "ahead", "build_csr", "build_dense", "cached", "imported", "reopen",
]  # fmt: skip

STEP = 1 << 19  #: entries held at a time
Block = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
Built = Array | SparseArray


T = TypeVar("T")


def ahead(blocks: Iterator[T]) -> Iterator[T]:
    """Make the next block in another thread while this one is used: two blocks are held."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, blocks, end)
        while (block := waiting.result()) is not end:
            waiting = pool.submit(next, blocks, end)
            yield block  # type: ignore[misc]


# What was imported already ----------------------------------------------------------------------------------


def reopen(path: str) -> Built:
    """Open what an import built: a CSR group, an array in a group, or a `.npy`."""
    if _core.is_csr_group(path):
        return SparseArray(_core.open_csr(path))
    inner = f"{path}/{MEMBER}"
    return Array(open_core(inner if os.path.isdir(inner) else path, "r"))


def cached(path: str, part: str, build: Callable[[Call, str], Built], passes: int = 1) -> Built:
    """Return the import of this very file from scratch, building it where it is not there.

    Parameters
    ----------
    path : str
        The foreign file; its inode, size and time are the key.
    part : str
        What of it is wanted, where that is a choice (names of columns); "" for all.
    build : callable
        ``build(call, target)`` writes the import to `target`, whole or not at all.
    passes : int
        How often `build` reads the file, for `stats()`.
    """
    source = Path(path)
    call = Call("open")
    target = scratch.import_path(call.runtime.scratch, source)
    if part:
        target = target.with_name(f"{target.stem}-{zlib.crc32(part.encode()):08x}.zarr")
    if target.exists():
        try:
            return reopen(str(target))
        except Error:
            remove(target)  # damaged in scratch: the source is still whole
    start = time.perf_counter()
    try:
        with call.measured(f"import of {path}", "streaming") as done:
            built = build(call, str(target))
            done.bytes_read = source.stat().st_size * passes
            done.bytes_written = built.stored_bytes if isinstance(built, SparseArray) else built.nbytes
    except ExistsError:
        return reopen(str(target))  # another process was quicker
    except FormatError as error:
        text = str(error)
        raise error if path in text else FormatError(f"open: '{path}': {text}") from None
    built.import_seconds = time.perf_counter() - start
    scratch.describe_import(target, source, built.import_seconds)
    return built


def imported(path: str) -> bool:
    """Say whether an import of this very file, as it is now, is in scratch."""
    with contextlib.suppress(OSError):
        return bool(scratch.import_path(current().scratch, Path(path)).exists())
    return False


def remove(target: Path) -> None:
    """Remove a file or a directory."""
    shutil.rmtree(target, ignore_errors=True)
    target.unlink(missing_ok=True)


class Reported:
    """Tells the runtime's progress callback how much of a file has been read."""

    def __init__(self, call: Call, total: int) -> None:
        self._call, self.bytes_read, self.bytes_written, self.flops = call, 0, 0, 0.0
        self.total, self._next = total, 0.0

    def at(self, nbytes: int) -> None:
        """Say that so many bytes have been dealt with; about ten times a second somebody looks."""
        self.bytes_read = nbytes
        now = time.monotonic()
        if self._call.runtime.progress is not None and now >= self._next:
            self._next = now + 0.1
            self._call.runtime.progress(self)


# Entries in any order ---------------------------------------------------------------------------------------


@dataclass
class Triplets:
    """Entries (row, column, value) of a matrix, block by block, in any order; `blocks` is called twice."""

    rows: int
    cols: int
    nnz: int  # at least
    dtype: np.dtype[Any]
    blocks: Callable[[], Iterator[Block]]


def check_range(block: Block, rows: int, cols: int, path: str) -> None:
    """Refuse an entry outside the matrix."""
    row, column, _ = block
    bad = (row < 0) | (row >= rows) | (column < 0) | (column >= cols)
    if bad.any():
        at = int(np.argmax(bad))
        raise FormatError(
            f"open: '{path}' has a value at row {row[at]}, column {column[at]}; the matrix is {rows} x "
            f"{cols}."
        )


class _Buckets:
    """Entries in files, one for each stretch of rows that fits into memory: an external counting sort.

    The first pass counts entries in coarse ranges of rows, the second writes each to its range's file; a file
    is then sorted by row in memory. Cost: the entries are written to scratch once and read once.
    """

    def __init__(self, call: Call, path: str, triplets: Triplets, kept: np.dtype[Any], folder: str) -> None:
        self._call = call
        rows, cols = triplets.rows, triplets.cols
        self.rows, self.coarse = rows, max(1, -(-rows // 65_536))  # rows of one counted range
        counts = np.zeros(-(-rows // self.coarse) + 1, np.int64)
        for block in triplets.blocks():
            check_range(block, rows, cols, path)
            counts += np.bincount(block[0] // self.coarse, minlength=len(counts))
        per_bucket = max(2 * STEP, int(counts.sum()) // 400)
        _, self.bucket_of = np.unique((np.cumsum(counts) - counts) // per_bucket, return_inverse=True)
        narrow = [np.int32 if extent < 1 << 31 else np.int64 for extent in (rows, cols)]
        self.record = np.dtype([("row", narrow[0]), ("column", narrow[1]), ("value", kept)])
        self._files: list[IO[bytes]] = []
        try:
            for i in range(int(self.bucket_of[-1]) + 1):
                self._files.append(open(f"{folder}/{i}", "w+b"))  # noqa: SIM115
            for row, column, value in triplets.blocks():
                self._put(self.bucket_of[row // self.coarse], row, column, value)
        except BaseException:
            self.close()
            raise

    def _put(
        self, bucket: NDArray[Any], row: NDArray[Any], column: NDArray[Any], value: NDArray[Any]
    ) -> None:
        order = np.argsort(bucket.astype(np.uint16), kind="stable")  # 16 bits: a radix sort
        entries = np.empty(len(order), self.record)
        entries["row"], entries["column"], entries["value"] = row[order], column[order], value[order]
        counts = np.bincount(bucket, minlength=len(self._files))
        ends = np.cumsum(counts)
        for i in np.flatnonzero(counts):
            self._files[i].write(entries[ends[i - 1] if i else 0 : ends[i]].data)

    def sorted(self) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Yield (first row, pointers, columns, values) of stretches of rows, top to bottom."""
        for i, file in enumerate(self._files):
            ranges = np.flatnonzero(self.bucket_of == i)
            first = min(int(ranges[0]) * self.coarse, self.rows)
            last = min((int(ranges[-1]) + 1) * self.coarse, self.rows)
            yield from stretches(self._call, file, self.record, first, last)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


@contextlib.contextmanager
def beside(target: str) -> Iterator[str]:
    """Make a folder for bucket files beside `target`; it goes with the block."""
    folder = tempfile.mkdtemp(prefix=".flagstone-tmp-buckets-", dir=os.path.dirname(os.path.abspath(target)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _held(triplets: Triplets, kept: np.dtype[Any]) -> int:
    """Bytes that blocks, a bucket and its sorting take."""
    return (3 * (16 + kept.itemsize) + 32) * (max(2 * STEP, triplets.nnz // 400) + 2 * STEP)


def build_csr(
    call: Call, path: str, triplets: Triplets, target: str, replace: bool = False, narrow: bool = False
) -> SparseArray:
    """Sort entries by row into a CSR group; duplicates are summed. Holds about 150 MB."""
    kept = value_dtype(triplets.dtype, f"open: '{path}'")
    check_rows(triplets.rows, path, target)
    builder = CsrBuilder(
        call, target, triplets.cols, kept, replace, beside=_held(triplets, kept), narrow=narrow
    )
    with whole_or_nothing(builder), beside(target) as folder:
        buckets = _Buckets(call, path, triplets, kept, folder)
        with contextlib.closing(buckets):
            for _, pointers, columns, values in buckets.sorted():
                builder.append(pointers, columns, values)
        return builder.publish()


def build_dense(call: Call, path: str, triplets: Triplets, target: str, replace: bool = False) -> Array:
    """Sort entries by row into a dense array (complex matrices: CSR groups hold real numbers only)."""
    shape, row = (triplets.rows, triplets.cols), max(1, triplets.cols * triplets.dtype.itemsize)
    most = max(1, (32 << 20) // row)
    call.room("rows and entries", _held(triplets, triplets.dtype) + max(row, 32 << 20))
    destination = Destination("open", target, shape, triplets.dtype.name, None, replace)
    out = Array(destination.core, "r+")
    out._dirty = True  # built aside: no mark is needed
    with whole_or_nothing(destination), beside(target) as folder:
        buckets = _Buckets(call, path, triplets, triplets.dtype, folder)
        with contextlib.closing(buckets):
            for first, pointers, columns, values in buckets.sorted():
                rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
                for start in range(0, len(pointers) - 1, most):
                    end = min(start + most, len(pointers) - 1)
                    part = slice(pointers[start], pointers[end])
                    dense = np.zeros((end - start, triplets.cols), triplets.dtype)
                    np.add.at(dense, (rows[part] - start, columns[part]), values[part])
                    out._assign(call, np.s_[first + start : first + end], dense)
        return destination.publish()
