"""A range of a file from front to back, past the page cache, with its CRC-32 (that of zip files)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._errors.classes import StorageError
from ..._errors.messages import storage_error

__all__ = ["DirectReader"]


class DirectReader:
    """Reads `length` bytes at `offset` of a file in order; what `read` returns is valid for one more read."""

    def __init__(self, path: str, offset: int, length: int) -> None:
        self.path = path
        with self._named(offset):
            self._reader = _core.RangeReader(path, offset, length)

    @property
    def crc(self) -> int:
        """The checksum of everything that was read."""
        return self._reader.crc

    def read(self, count: int) -> NDArray[np.uint8]:
        """Return the next `count` bytes; fewer at the end of the range or of the file."""
        with self._named(0):
            return self._reader.read(count)

    @contextlib.contextmanager
    def _named(self, at: int) -> Iterator[None]:
        """Say who reads, and what, of a file that cannot be opened or read."""
        try:
            yield
        except StorageError as error:
            number = error.errno or 0
            reason = os.strerror(number) if number else "unknown reason"
            raise storage_error(
                f"open: '{self.path}' cannot be read ({reason}).", number, self.path, error.offset or at
            ) from None
