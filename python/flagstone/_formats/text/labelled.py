"""Text of the Extreme Classification Repository: a header, then rows of "label,label feature:value …"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._errors.classes import FormatError
from ..._errors.messages import storage_error
from ..._runtime.call import Call
from ..._runtime.streaming import Reported
from ..._scratch.builds import whole_or_nothing
from ..._sparse.array import SparseArray
from ..._sparse.builder import CsrBuilder, writer_bytes
from ..._storage.import_cache import cached
from .lines import Lines, most_values

__all__ = ["import_to", "looks_like", "open_file"]

LABELS = "labels"
_ROWS = 1 << 16
_TEXT = 2  # bytes of a label, at least
_HEADER = re.compile(rb"\s*(\d+)\s+(\d+)\s+(\d+)\s*")
_BEGIN = re.compile(rb"(\d+(,\d+)*)?\s+(\d+:\S+\s*)*")  # of a row


class _Rows:
    """Buffers that the core's parser fills."""

    def __init__(self, call: Call, path: str) -> None:
        self._call, self.consumed = call, 0
        self._make(most_values(path, _TEXT))

    def _make(self, values: int) -> None:
        self._call.room("rows of text", 48 * values)
        self.label_pointers, self.pointers = (np.empty(_ROWS + 1, np.int64) for _ in range(2))
        self.labels, self.columns = (np.empty(values, np.int64) for _ in range(2))
        self.values = np.empty(values)

    def grow(self) -> None:
        """Make room for a longer row."""
        self._make(2 * len(self.values))

    def parse(self, text: NDArray[Any]) -> _core.ParsedText:
        """Parse a block of text."""
        done = _core.parse_labelled(
            text, self.label_pointers, self.labels, self.pointers, self.columns, self.values
        )
        self.consumed += done.bytes
        return done


def _header(lines: Lines) -> tuple[int, int, int]:
    found = _HEADER.fullmatch(lines.line().encode())
    if found is None:
        raise FormatError(
            f"open: '{lines.path}', line 1: three whole numbers (rows, features, labels) are needed."
        )
    rows, features, labels = (int(found[i]) for i in (1, 2, 3))
    return rows, features, labels


def _blocks(call: Call, path: str) -> Iterator[tuple[int, _Rows, int]]:
    """Yield (rows, buffers, values), once the header was looked at."""
    with Lines(path, call) as lines:
        expected, features, labels = _header(lines)
        header = lines.text_bytes - lines.unread
        rows, report, seen, empty = _Rows(call, path), Reported(call, lines.nbytes), 0, False
        for done in lines.parsed(rows.parse, rows.grow, report):
            n = min(done.entries, expected - seen)  # empty lines may follow
            seen += n
            last = int(rows.pointers[n - 1]), int(rows.label_pointers[n - 1])
            empty = 0 < n == done.entries and last == (done.values, done.several)
            if done.values > rows.pointers[n] or done.several > rows.label_pointers[n]:
                raise FormatError(f"open: '{path}' has more rows than the {expected} of its first line.")
            for what, most, found in (
                ("feature", features, rows.columns[: done.values]),
                ("label", labels, rows.labels[: done.several]),
            ):
                if len(found) and not (found.min() >= 0 and found.max() < most):
                    bad = found.min() if found.min() < 0 else found.max()
                    raise FormatError(
                        f"open: '{path}' has the {what} {bad} before line {lines.number + 1}, and its first "
                        f"line says {most}; they count from 0."
                    )
            yield n, rows, done.values
        if empty and header + rows.consumed > lines.text_bytes:
            seen -= 1  # it is the end of a line that `Lines` adds to a text
        if seen != expected:
            raise FormatError(
                f"open: '{path}' has {seen} rows and its first line says {expected}; copy it again."
            )


def import_to(
    call: Call, path: str, target: str, replace: bool = False, key: str | None = None, narrow: bool = False
) -> SparseArray:
    """Write points (float64) or labels (a 1 each) of such a file to `target` as a CSR group."""
    with Lines(path, call) as lines:
        _, features, labels = _header(lines)
    wanted, columns = key == LABELS, labels if key == LABELS else features
    dtype, most = np.dtype(np.uint8 if wanted else np.float64), most_values(path, _TEXT)
    call.room("the writer", writer_bytes(columns, dtype, most) + 48 * most)
    builder = CsrBuilder(call, target, columns, dtype, replace, beside=48 * most, entries=most, narrow=narrow)
    with whole_or_nothing(builder):
        for n, rows, values in _blocks(call, path):
            pointers = rows.label_pointers if wanted else rows.pointers
            entries = int(pointers[n])
            if wanted:
                _refuse_twice(path, pointers[: n + 1], rows.labels[:entries])
                builder.append(pointers[: n + 1], rows.labels[:entries], np.ones(entries, np.uint8))
            else:
                builder.append(pointers[: n + 1], rows.columns[:values], rows.values[:values])
        return builder.publish()


def _refuse_twice(path: str, pointers: NDArray[Any], labels: NDArray[Any]) -> None:
    """Labels that stand twice in a row would add up to 2."""
    row = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    order = np.lexsort((labels, row))
    twice = (np.diff(row[order]) == 0) & (np.diff(labels[order]) == 0)
    if twice.any():
        label = labels[order][:-1][twice][0]
        raise FormatError(f"open: '{path}' has the label {label} twice in one row; each may stand once.")


def open_file(place: str, key: str | None, mode: str) -> SparseArray:
    """Return the points (key "labels": the labels) of such a file, imported into scratch once.

    Notes
    -----
    Features and labels count from 0. Reads the text once.
    """
    if key not in (None, "X", LABELS):
        raise storage_error(
            f"open: '{place}' is of the Extreme Classification Repository and has no {key!r}; X and labels "
            "are there.", 2, place,
        )  # fmt: skip
    part = LABELS if key == LABELS else ""
    made = cached(place, part, lambda call, target: import_to(call, place, target, False, key, True))
    assert isinstance(made, SparseArray)
    return made


def looks_like(head: bytes) -> bool:
    """Say whether a file that begins like this is such text: three numbers, then a row."""
    first, _, rest = head.partition(b"\n")
    if _HEADER.fullmatch(first) is None:
        return False
    row = rest.split(b"\n")[0]
    whole = row if b"\n" in rest else row.rpartition(b" ")[0] + b" "
    return not row.strip() or (_BEGIN.fullmatch(whole + b" ") is not None and b":" in whole)
