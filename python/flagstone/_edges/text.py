"""Lines of edges as blocks of entries: two ids, and a value where there are three columns."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import re
import warnings
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import FormatError
from .._errors.messages import storage_error
from .spool import both_signs

__all__ = ["Lines"]

_PIECE = 1 << 20  # bytes of text that are taken at a time
_COMMENTS = (b"#", b"%")
_BANNER = b"%%matrixmarket"  # no comment: sizes follow, ids count from 1


class Lines:
    """Edges in a text file, of which blank lines and comments (# and %) are left out.

    `shape`: what the three header lines of a UCI docword file say (documents and words, counted from 1).
    `names`: ids may be any numbers of 64 bits.
    """

    def __init__(self, who: str, path: str, names: bool = False) -> None:
        self.who, self.path, self.names = who, path, names
        self.shape: tuple[int, int] | None = None
        self.entries = -1  # as many as a header says
        self._check_banner()
        first = list(itertools.islice(self._data(), 4))
        sizes = [line.split() for _, line in first]
        self._skipped = 0
        if len(first) == 4 and all(len(one) == 1 for one in sizes[:3]) and len(sizes[3]) == 3:
            try:
                rows, cols, self.entries = (int(one[0]) for one in sizes[:3])
            except ValueError:
                raise FormatError(
                    f"{who}: '{path}' begins with three lines of one word each; the counts of a docword "
                    "file are whole numbers."
                ) from None
            self.shape, self._skipped = (rows, cols), 3
        line = first[self._skipped][1] if len(first) > self._skipped else b""
        self._delimiter = "," if b"," in line else None
        self.columns = len(re.split(rb"\s*,\s*|\s+", line.strip())) if line else 2
        if self.columns not in (2, 3):
            raise FormatError(
                f"{who}: '{path}' has {self.columns} columns in line {first[self._skipped][0]}; two ids, or "
                "two ids and a value, are needed."
            )

    def _check_banner(self) -> None:
        with self._open() as file:
            if file.readline(len(_BANNER)).lower() == _BANNER:
                raise FormatError(f"{self.who}: '{self.path}' is MatrixMarket; fl.open reads it.")

    @contextlib.contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        """Open the file, for a body that reads it; what the system or gzip says becomes a sentence."""
        try:
            packed = self.path.endswith(".gz")
            with cast(IO[bytes], gzip.open(self.path)) if packed else open(self.path, "rb") as file:
                yield file
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise FormatError(
                f"{self.who}: '{self.path}' is no gzip file, or was cut; write it again, or leave .gz out of "
                "its name where it is text."
            ) from None
        except OSError as error:
            raise storage_error(
                f"{self.who}: '{self.path}' cannot be read ({error.strerror}).", error.errno or 0, self.path
            ) from None

    def _data(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the text of each line that is no comment."""
        with self._open() as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.lstrip().startswith(_COMMENTS):
                    yield number, line

    def _pieces(self) -> Iterator[bytes]:
        """Yield whole lines, about so many bytes of them as are taken at a time."""
        begun: list[bytes] = []  # of a line
        with self._open() as file:
            while read := file.read(_PIECE):
                end = read.rfind(b"\n") + 1
                if end:
                    yield b"".join([*begun, read[:end]])
                    begun.clear()
                begun.append(read[end:])
        if rest := b"".join(begun):
            yield rest

    def blocks(self) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield (rows, columns) or (rows, columns, values) of some lines at a time."""
        names: list[tuple[str, str]] = [("row", "i8"), ("column", "i8")]
        kind = np.dtype([*names, ("value", "f8")] if self.columns == 3 else names)
        seen, first, skipped = 0, 1, self._skipped
        for piece in self._pieces():
            if self.columns == 2 and self._delimiter is None and (plain := _plain(piece)) is not None:
                first, seen = first + len(plain), seen + len(plain)
                yield plain[:, 0].copy(), plain[:, 1].copy()
                continue
            lines = piece.removesuffix(b"\n").split(b"\n")
            kept = [
                (first + i, line.decode("latin-1"))
                for i, line in enumerate(lines)
                if line.strip() and not line.lstrip().startswith(_COMMENTS)
            ]
            first += len(lines)
            kept, skipped = kept[skipped:], max(0, skipped - len(kept))
            if not kept:
                continue
            made = self._parsed([line for _, line in kept], kind)
            if made is None:
                self._name_the_bad_line(kept, kind)
            seen += len(made)
            rows, columns = made["row"].copy(), made["column"].copy()
            if self.shape is not None:
                rows -= 1
                columns -= 1
            yield (rows, columns) if self.columns == 2 else (rows, columns, made["value"].copy())
        if self.entries >= 0 and seen != self.entries:
            raise FormatError(
                f"{self.who}: '{self.path}' says that it has {self.entries} entries and has {seen}; it was "
                "cut, or its third line is wrong."
            )

    def _parsed(self, lines: list[str], kind: np.dtype[Any]) -> Any:
        made = self._loaded(lines, kind)
        if made is None and self.names:
            made = self._loaded(lines, np.dtype([("row", "u8"), ("column", "u8"), *kind.descr[2:]]))
        return made

    def _loaded(self, lines: list[str], kind: np.dtype[Any]) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)  # 1.5 as an id
                return np.loadtxt(lines, kind, comments=None, delimiter=self._delimiter, ndmin=1)
        except (ValueError, DeprecationWarning, OverflowError):
            return None

    def _is_id(self, text: str) -> bool:
        if not re.fullmatch(r"[+-]?\d+", text):
            return False
        return -(1 << 63) <= int(text) < (1 << 64 if self.names else 1 << 63)

    def _name_the_bad_line(self, lines: list[tuple[int, str]], kind: np.dtype[Any]) -> None:
        for number, line in lines:
            if self._parsed([line], kind) is not None:
                continue
            parts = [one.strip() for one in line.split(self._delimiter)]
            where = f"{self.who}: '{self.path}' line {number}"
            if len(parts) != self.columns:
                raise FormatError(f"{where} has {len(parts)} columns; {self.columns} are needed, as before.")
            for column, text in enumerate(parts, 1):
                if column < 3 and not self._is_id(text):
                    raise FormatError(
                        f"{where}, column {column} is {text!r}; a whole number of 64 bits is needed."
                    )
            raise FormatError(f"{where}, column 3 is {parts[-1]!r}; a number is needed.")
        if self.names:  # each line can be read, all of them by neither dtype
            raise both_signs(self.who)
        raise FormatError(f"{self.who}: '{self.path}' cannot be read as lines of {self.columns} numbers.")


_PLAIN = b"0123456789 \t\n"
_DIGITS = 18  # that int64 always holds


def _plain(text: bytes) -> NDArray[np.int64] | None:
    """Return the numbers of lines of two, without sign, comment or blank line; None where there is more."""
    if text.translate(None, _PLAIN):
        return None
    seen = np.frombuffer(text, np.uint8)
    edges = np.flatnonzero(np.diff(seen >= ord("0"), prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    lines = np.flatnonzero(seen == ord("\n"))
    if len(lines) == 0 or lines[-1] != len(seen) - 1:
        lines = np.append(lines, len(seen))
    two = len(begins) == 2 * len(lines) and bool((begins[1::2] < lines).all())
    if not two or (begins[2::2] < lines[:-1]).any() or (ends - begins).max() > _DIGITS:
        return None
    return np.fromstring(text.decode("ascii"), np.int64, sep=" ").reshape(-1, 2)
