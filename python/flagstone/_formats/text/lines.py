"""Text files, plain or gzip, as blocks of whole lines for the core's parsers."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._errors.classes import FormatError
from ..._errors.messages import storage_error
from ..._errors.regular import open_regular
from ..._runtime.call import Call
from ..._runtime.streaming import STEP, Reported

__all__ = ["Lines", "most_values"]

_BLOCK = 4 << 20  # of text
_PADDING = 256 << 20  # zeros behind a gzip file; a file with a hole has 2^42 of them
_ZEROS = bytes(_BLOCK)
_HEAD = 64 << 10  # of text, where single lines are asked for: a header may be all that is read
_LONGEST = 256 << 20  # one line; beyond that it is no text
_UNPACKED = 1032  # bytes of text to one of gzip, at most


def most_values(path: str, each: int) -> int:
    """Return how many values of `each` bytes of text or more are held at a time: no more than a file has.

    Buffers as long as that: of one that is longer than what comes in a huge page is touched, 2 MiB.
    """
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return min(STEP, (_UNPACKED if packed else 1) * os.path.getsize(path) // each + 1024)


class _Padded:
    """A packed file whose padding is skipped in blocks: gzip looks at zeros behind it one by one."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._zeros = file, 0

    def read(self, size: int = -1) -> bytes:
        """Return bytes; where many zeros were asked for alone, which only padding is, what follows them."""
        data = self._file.read(size)
        self._zeros = self._zeros + 1 if size == 1 and data == b"\0" else 0
        if self._zeros < 512:
            return data
        for _ in range(_PADDING // _BLOCK):
            more = self._file.read(_BLOCK)
            if more != _ZEROS:
                self._file.seek(-len(more.lstrip(b"\0")), os.SEEK_CUR)
                return self.read(1)
        raise gzip.BadGzipFile("zeros without end are behind it")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Lines:
    """A text file read from front to back: single lines, then blocks for a parser."""

    def __init__(self, path: str, call: Call | None = None) -> None:
        """`call`: whose limit a long line must fit."""
        self._call = call
        self.path, self.number = path, 0  # lines read so far
        try:
            self._raw: IO[bytes] = open_regular("open", path)
        except OSError as error:
            raise storage_error(
                f"open: '{path}' cannot be read ({error.strerror}).", error.errno or 0, path
            ) from None
        self.packed = packed = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._file: Any = gzip.GzipFile(fileobj=_Padded(self._raw)) if packed else self._raw
        self.nbytes = os.fstat(self._raw.fileno()).st_size
        self._left, self._taken = b"", 0
        self.offset = 0  # in the text: behind what `parsed` has given

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def read(self, count: int) -> bytes:
        """Return up to `count` bytes; a damaged gzip is a sentence."""
        try:
            data = bytes(self._file.read(count))
            self._taken += len(data)
            return data
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(
                f"open: '{self.path}' is damaged after line {self.number} (gzip: {error}); copy it again."
            ) from None

    def fill(self, room: NDArray[Any]) -> int:
        """Put as many bytes into `room` as it holds and the file has; return how many."""
        view, at = memoryview(room.data), 0
        while at < len(view):
            try:
                count = int(self._file.readinto(view[at:]))
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise FormatError(
                    f"open: '{self.path}' is damaged after line {self.number} (gzip: {error}); copy it again."
                ) from None
            if not count:
                break
            at += count
        self._taken += at
        return at

    @property
    def text_bytes(self) -> int:
        """Bytes of text, unpacked, that were read."""
        return self._taken

    @property
    def unread(self) -> int:
        """Bytes of text that were read and not given."""
        return len(self._left)

    @property
    def taken(self) -> int:
        """Bytes of the file, packed where it is, that were read."""
        return self._raw.tell()

    def line(self) -> str:
        """Return the next line without its end; "" at the end of the file."""
        while b"\n" not in self._left:
            more = self.read(_HEAD)
            if not more or len(self._left) > _BLOCK:
                break
            self._left += more
        text, _, self._left = self._left.partition(b"\n")
        self.number += 1
        return text[:2000].decode("utf-8", "replace").rstrip("\r")

    def skip(self, offset: int, number: int) -> None:
        """Go to a place that `offset` and `number` were noted at."""
        try:
            self._file.seek(offset)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(f"open: '{self.path}' is damaged (gzip: {error}); copy it again.") from None
        self._left, self._taken, self.number = b"", offset, number

    def more(self) -> bool:
        """Say whether anything is left."""
        if not self._left:
            self._left = self.read(_BLOCK)
        return bool(self._left)

    def parsed(
        self, parse: Callable[[NDArray[Any]], _core.ParsedText], grow: Callable[[], None] | None = None,
        report: Reported | None = None,
    ) -> Iterator[_core.ParsedText]:  # fmt: skip
        """Yield what `parse` makes of one block of text after the other, until the end.

        `grow` is called when one line has more than `parse` has room for.
        """
        end = False
        while not end:
            data = self.read(_BLOCK)
            end = not data
            if b"\0" in data:  # a hole, whose zeros would be looked at as one line
                at = self.number + 1 + (self._left + data).partition(b"\0")[0].count(b"\n")
                raise FormatError(f"open: '{self.path}', line {at}: it holds a zero byte, so it is no text.")
            text = self._left + (data or b"\n")
            block, at = np.frombuffer(text, np.uint8), 0
            while True:
                done = parse(block[at:])
                at += done.bytes
                self.number += done.lines
                self.offset = self._taken - (len(text) - at)
                if done.entries:
                    yield done
                if done.error:
                    raise FormatError(f"open: '{self.path}', line {self.number + 1}: {done.error}.")
                if done.bytes == 0 and b"\n" in text[at:]:
                    if grow is None:
                        self._left = text[at:]
                        return  # everything that was expected is there
                    grow()
                elif done.bytes == 0 or at == len(text):
                    break
            self._left = text[at:]
            if len(self._left) > _LONGEST:
                raise FormatError(f"open: '{self.path}', line {self.number + 1}: it is too long for text.")
            if self._call is not None and len(self._left) > _BLOCK:  # it is copied behind what it had
                what = f"line {self.number + 1} of '{self.path}'"
                self._call.room(what, len(self._left) + 3 * _BLOCK)
            if report is not None:
                report.at(self._raw.tell())
