"""A range of a file from front to back, past the page cache, with its CRC-32 (that of zip files)."""

from __future__ import annotations

import errno
import mmap
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from . import _core
from .errors import storage_error

__all__ = ["StraightReader"]

_PAGE = 4096
#: Blocks that stay valid: one is used, one was read ahead, one is being read.
_BUFFERS = 3


class StraightReader:
    """Reads `length` bytes at `offset` of a file in order; what `read` returns is valid for two more reads.

    Direct I/O where the file system has it: a copy through the page cache costs 0.2 ns a byte, a third of
    what an import may take.
    """

    def __init__(self, path: str, offset: int, length: int) -> None:
        self.path, self.crc = path, 0
        self._at, self._left = offset, length
        self._buffers: list[mmap.mmap | None] = [None] * _BUFFERS
        self._turn = 0
        self._pool = ThreadPoolExecutor(1)
        self._file = -1
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system without direct I/O
                raise self._failed(error) from None
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def _failed(self, error: OSError) -> Exception:
        reason = error.strerror or "unknown reason"
        return storage_error(
            f"open: '{self.path}' cannot be read ({reason}).", error.errno or 0, self.path, self._at
        )

    def read(self, count: int) -> NDArray[np.uint8]:
        """Return the next `count` bytes; fewer at the end of the range or of the file."""
        count = min(count, self._left)
        skipped = self._at % _PAGE
        cover = -(-(skipped + count) // _PAGE) * _PAGE
        buffer = self._buffers[self._turn]
        if buffer is None or len(buffer) < cover:
            buffer = mmap.mmap(-1, max(cover, _PAGE))
            self._buffers[self._turn] = buffer
        self._turn = (self._turn + 1) % _BUFFERS
        middle = cover // 2 // _PAGE * _PAGE  # two requests on their way keep a disk busier than one
        other = self._pool.submit(self._fill, buffer, middle, cover)
        got = self._fill(buffer, 0, middle)
        rest = other.result()
        got += rest if got == middle else 0
        values = np.frombuffer(buffer, np.uint8)[skipped : max(skipped, min(got, skipped + count))]
        self.crc = _core.crc32(values, self.crc)
        self._at += len(values)
        self._left -= len(values)
        return values

    def _fill(self, buffer: mmap.mmap, first: int, end: int) -> int:
        """Read what belongs at [first, end) of the buffer; fewer bytes at the end of the file."""
        got, view, start = first, memoryview(buffer), self._at - self._at % _PAGE
        while got < end:
            try:
                part = os.preadv(self._file, [view[got:end]], start + got)
            except OSError as error:
                raise self._failed(error) from None
            got += part
            if part == 0 or got % _PAGE:
                break  # the end of the file
        return got - first

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)
