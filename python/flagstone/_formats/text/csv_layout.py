"""What the first lines of separated values tell: the delimiter, the header, which columns are numbers."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._errors.classes import FormatError
from ..._errors.messages import storage_error
from .lines import Lines

__all__ = ["CsvLayout", "CsvOptions", "layout_of"]

_HEAD = 256 << 10  # bytes of text that are looked at
_ROWS, _FIELDS = 100, 1 << 14  # lines, and fields of them, in which columns are judged
_MORE = 1.01  # rows that are expected beyond what the first lines let expect
_LONGEST = 64 << 20  # bytes of one line; beyond that it is no text
_DELIMITERS = ",\t;|"
_SPELLED = {"\t": "tab", " ": "blank"}
#: As in src/flagstone/storage/formats/csv.cpp.
_MISSING = frozenset(
    (
        *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "NULL", "null", "None"),
        *("-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "nan", "NaN", "-nan", "-NaN"),
    )
)
_TRUTH = frozenset(("True", "true", "TRUE", "False", "false", "FALSE"))


@dataclass(frozen=True)
class CsvOptions:
    """What a caller says of separated values.

    Attributes
    ----------
    key : str or None
        Names of columns with commas (without names their numbers, from 0).
    header : bool or tuple of str or None
        Whether the first line is one; names, where the file has none. None: it is found.
    delimiter : str or None
        None: it is guessed.
    """

    key: str | None = None
    header: bool | tuple[str, ...] | None = None
    delimiter: str | None = None

    @classmethod
    def of(cls, who: str, key: str | None, header: Any, delimiter: Any) -> CsvOptions:
        """Make it of arguments, or say what is wrong with them."""
        if delimiter is not None and (
            not isinstance(delimiter, str) or len(delimiter.encode()) != 1 or delimiter in '"\r\n\0'
        ):
            raise ValueError(
                f"{who}: delimiter is {delimiter!r}; one character is needed, such as ',' or '\\t', and "
                "no quote."
            )
        if header is None or isinstance(header, bool):
            return cls(key, header, delimiter)
        if (
            isinstance(header, str)
            or not isinstance(header, Sequence)
            or not all(isinstance(name, str) for name in header)
        ):
            raise TypeError(f"{who}: header is {header!r}; True, False or a sequence of names is needed.")
        return cls(key, tuple(header), delimiter)

    @property
    def part(self) -> str:
        """What tells imports of one file from one another; "" for that of everything as it is found."""
        return "" if self == CsvOptions() else repr(self)


@dataclass
class CsvLayout:
    """How the lines of a file are read.

    Attributes
    ----------
    path : str
        Whose they are, for messages.
    delimiter : str
        Between fields.
    skip : bool
        Whether the first line is a header.
    names : list of (str or None) or None
        Of all fields; None where there are none.
    numeric : list of bool
        Of all fields, by the first lines.
    chosen : list of int
        Fields that become columns, in their order.
    integers : bool
        Whether all of those held integers, and none was missing, in the first lines.
    line_bytes : float
        Mean length of these lines.
    begin : (int, int)
        Bytes and lines in front of the first row: a byte order mark, the header.
    expected_rows : int
        By the length of the file; exact where all of it was looked at.
    """

    path: str
    delimiter: str
    skip: bool
    names: list[str | None] | None
    numeric: list[bool]
    chosen: list[int]
    integers: bool
    line_bytes: float
    begin: tuple[int, int]
    expected_rows: int

    @property
    def fields(self) -> int:
        """How many fields a line has."""
        return len(self.numeric)

    @property
    def place(self) -> NDArray[np.int32]:
        """The column that each field goes to; -1: none."""
        place = np.full(self.fields, -1, np.int32)
        place[self.chosen] = np.arange(len(self.chosen))
        return place

    @property
    def columns(self) -> list[str | None] | None:
        """Names of the columns that are kept."""
        return None if self.names is None else [self.names[field] for field in self.chosen]

    @property
    def left_out(self) -> list[str]:
        """Names of the columns that hold no numbers."""
        return [self.name(field) for field, yes in enumerate(self.numeric) if not yes]

    def name(self, field: int) -> str:
        """Return the name of a field, as messages have it."""
        given = None if self.names is None or field >= len(self.names) else self.names[field]
        return str(field) if given is None else given

    @property
    def told(self) -> str:
        """Number and names of the columns, for messages."""
        named = ", ".join(self.name(field) for field in range(min(6, self.fields)))
        return f"{self.fields}: {named}{', ...' if self.fields > 6 else ''}"

    @property
    def separated(self) -> str:
        """The delimiter as a person reads it."""
        return _SPELLED.get(self.delimiter, f"'{self.delimiter}'")


def spelled(delimiter: str) -> str:
    """Return a delimiter as an argument has it."""
    return repr(delimiter)


def layout_of(lines: Lines, options: CsvOptions) -> CsvLayout:
    """Look at the first lines, and go back to the first one."""
    text, mark, whole = _head(lines, options.delimiter or ",")
    delimiter = options.delimiter or _guessed(lines.path, text)
    records = _records(lines.path, text, delimiter)
    if not records:
        raise FormatError(
            f"open: '{lines.path}' has no rows; lines of numbers between delimiters are needed."
        )
    rows = records[1:]
    skip = options.header if isinstance(options.header, bool) else _is_header(records)
    names: list[str | None] | None = None
    if isinstance(options.header, tuple):
        skip, names = False, list(options.header)
    elif skip:
        names = [name.strip() or None for name in records[0]]
    if not skip:
        rows = records
    fields = len(records[0])
    _check_delimiter(lines.path, records, delimiter, options.delimiter is None)
    if names is not None and len(names) != fields:
        raise FormatError(
            f"open: '{lines.path}' has {fields} fields a line (separated by {spelled(delimiter)}) and header "
            f"gives {len(names)} names; give one for each."
        )
    numeric = [_is_numeric(row[field] for row in rows if field < len(row)) for field in range(fields)]
    layout = CsvLayout(lines.path, delimiter, bool(skip), names, numeric, [], False, 1.0, (mark, 0), 0)
    layout.chosen = _chosen(layout, options)
    layout.integers = bool(rows) and all(
        _is_integer(row[field]) for row in rows for field in layout.chosen if field < len(row)
    )
    if skip:
        end, count = _header_end(text, delimiter)
        layout.begin = mark + end, count
        text, whole = text[end:], whole - end
    taken, count = _core.csv_records(np.frombuffer(text, np.uint8), delimiter, 1 << 40)
    layout.line_bytes = max(1.0, taken / max(1, count))
    layout.expected_rows = count if whole <= taken else int(_MORE * whole / layout.line_bytes) + 1
    return layout


def _head(lines: Lines, delimiter: str) -> tuple[bytes, int, float]:
    """Return the first lines (whole ones), the bytes of the mark in front of them, and those of all text."""
    text, wanted = b"", min(_HEAD, max(1 << 12, lines.nbytes if not lines.packed else _HEAD))
    while True:
        more = lines.read(wanted)
        text += more
        if len(more) < wanted:
            text = text if text.endswith(b"\n") else text + b"\n"
            break
        if _core.csv_records(np.frombuffer(text, np.uint8), delimiter, 2)[1] == 2:
            break
        if len(text) > _LONGEST:
            raise FormatError(f"open: '{lines.path}', line 1: it is too long for text.")
        wanted = len(text)
    ended = len(more) < wanted
    length = len(text) if ended else lines.nbytes * len(text) / max(1, lines.taken)
    lines.skip(0, 0)
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FormatError(
            f"open: '{lines.path}' is UTF-16 text; UTF-8 is read here (iconv -f UTF-16 -t UTF-8)."
        )
    if b"\0" in text:
        at = text.partition(b"\0")[0].count(b"\n") + 1
        raise FormatError(f"open: '{lines.path}', line {at}: it holds a zero byte, so it is no text.")
    mark = 3 if text.startswith(b"\xef\xbb\xbf") else 0
    text = text[mark:]
    end = _core.csv_records(np.frombuffer(text, np.uint8), delimiter, 1 << 40)[0]
    if not end:
        raise FormatError(f"open: '{lines.path}', line 1: a quote is opened and never closed.")
    return text[:end], mark, length - mark


def _header_end(text: bytes, delimiter: str) -> tuple[int, int]:
    """Return how many bytes and lines the first record takes, with the empty lines in front of it."""
    at = 0
    while True:
        block = np.frombuffer(text, np.uint8)[at:]
        end = at + _core.csv_records(block, delimiter, 1)[0]
        if text[at:end].strip() or end in (at, len(text)):
            return end, text.count(b"\n", 0, end)
        at = end


def _records(path: str, text: bytes, delimiter: str) -> list[list[str]]:
    """Return the fields of the first lines that are not empty."""
    end = _core.csv_records(np.frombuffer(text, np.uint8), delimiter, _ROWS)[0]
    told = io.StringIO(text[: end or len(text)].decode("utf-8", "replace"), newline="")
    rows: list[list[str]] = []
    fields = 0
    try:
        for row in csv.reader(told, delimiter=delimiter):
            if "".join(row).strip() or (len(row) > 1 and delimiter != " "):
                rows.append(row)
                fields += len(row)
            if fields > _FIELDS and len(rows) > 1:
                break
    except csv.Error as error:
        raise FormatError(f"open: '{path}', line {len(rows) + 1}: {error}.") from None
    return rows


def _guessed(path: str, text: bytes) -> str:
    """Return the delimiter that stands equally often, and most often, in the first lines."""
    best, score = ",", (0, 0)
    for delimiter in (*_DELIMITERS, " "):
        counts = [len(row) - 1 for row in _records(path, text, delimiter)[:20]]
        if not counts or (delimiter == " " and score[1]):
            continue
        alike = sum(n == statistics.mode(counts) for n in counts)
        found = (int(alike == len(counts) and counts[0] > 0), statistics.mode(counts))
        if found > score:
            best, score = delimiter, found
    return best


def _is_numeric(words: Any) -> bool:
    """Judge a column by the first value that is there."""
    first = next((word for word in (w.strip() for w in words) if word not in _MISSING), None)
    return first is None or _is_number(first)


def _is_number(word: str) -> bool:
    word = word.strip()
    if word in _TRUTH:
        return True
    if "_" in word or not word.isascii():
        return False
    try:
        float(word)
    except ValueError:
        return False
    return True


def _is_integer(word: str) -> bool:
    word = word.strip()
    if word in _TRUTH:
        return True
    digits = word[1:] if word[:1] in ("+", "-") else word
    return digits.isdecimal() and digits.isascii() and -(1 << 63) <= int(word) < 1 << 63


def _is_header(records: list[list[str]]) -> bool:
    """Say whether the first line names columns: text above numbers, or the numbers that pandas counts by."""
    first, rows = [word.strip() for word in records[0]], records[1:]
    if not rows:
        return not any(_is_number(word) for word in first)
    for field, word in enumerate(first):
        below = [row[field] for row in rows if field < len(row)]
        if word not in _MISSING and not _is_number(word) and _is_numeric(below):
            return True
    counted = [word for word in first if word]
    return len(counted) > 1 and counted == [str(i) for i in range(len(counted))] and "" not in first[1:]


def _check_delimiter(path: str, records: list[list[str]], delimiter: str, guessed: bool) -> None:
    """Refuse a delimiter that stands nowhere, where another one does."""
    if len(records[0]) == 1 and not guessed and not _is_numeric(row[0] for row in records[1:]):
        others = [one for one in _DELIMITERS if one in records[0][0]]
        if others:
            raise FormatError(
                f"open: '{path}' has one field a line when {spelled(delimiter)} separates them, and "
                f"{spelled(others[0])} stands in it; pass delimiter={spelled(others[0])}."
            )


def _chosen(layout: CsvLayout, options: CsvOptions) -> list[int]:
    """Return the fields that `key` names; by default those that hold numbers."""
    numeric = [field for field, yes in enumerate(layout.numeric) if yes]
    named = ", ".join(layout.name(field) for field in range(layout.fields)[:12])
    if options.key is None:
        if not numeric:
            raise FormatError(
                f"open: '{layout.path}' has no columns of numbers (separated by {spelled(layout.delimiter)}: "
                f"{named[:200]}); pass delimiter= where that is another."
            )
        return numeric
    known = {layout.name(field): field for field in reversed(range(layout.fields))}
    chosen = []
    for name in (one.strip() for one in options.key.split(",")):
        if name not in known:
            raise storage_error(
                f"open: the column '{name}' of '{layout.path}' is not there; it has {named[:200]}.",
                2,
                layout.path,
            )
        if known[name] in chosen:
            raise FormatError(f"open: the column '{name}' of '{layout.path}' is named twice; name it once.")
        chosen.append(known[name])
    return chosen
