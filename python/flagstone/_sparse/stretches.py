"""Entries sorted into stretches of rows, in memory that the number of rows does not decide."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._runtime.call import Call
from ..errors import storage_error

__all__ = ["check_rows", "stretches"]

_ROWS = 1 << 19  # of one stretch: 4 MiB of pointers
_PACKED = 255  # bytes to one, at best: the most that lz4 makes of pointers that all are the same


def check_rows(rows: int, path: str, target: str) -> None:
    """Refuse a number of rows whose pointers cannot fit beside `target`, however well they pack."""
    folder = os.path.dirname(os.path.abspath(target))
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
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
    number = file.seek(0, os.SEEK_END) // record.itemsize
    call.room(
        f"the entries of rows {first} to {last - 1}",
        (2 * record.itemsize + 32) * number + 16 * min(_ROWS, last - first),
    )
    file.seek(0)
    entries = np.frombuffer(file.read(), record)
    row = entries["row"] - first
    if last - first <= 1 << 16:
        row = row.astype(np.uint16)  # a radix sort
    order = np.argsort(row, kind="stable")
    for start in range(0, max(last - first, 1), _ROWS):
        end, part = min(start + _ROWS, last - first), order
        if end - start < last - first:
            edges = np.searchsorted(row, np.array([start, end], row.dtype), sorter=order)
            part = order[edges[0] : edges[1]]
        pointers = np.zeros(end - start + 1, np.int64)
        np.cumsum(np.bincount(row[part] - start, minlength=end - start), out=pointers[1:])
        yield first + start, pointers, entries["column"][part], entries["value"][part]
