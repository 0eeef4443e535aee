"""Separated values (`.csv`, `.tsv`, plain or gzip) as a dense array: every worker parses, little is held."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._array.array import STAGING, Array
from ..._array.handle import built_aside
from ..._array.requests import assign, empty
from ..._errors.classes import FormatError
from ..._output.column_names import about_left_out, warn_left_out
from ..._output.destination import Destination
from ..._resume.record import UNRECORDED, Record
from ..._runtime.call import Call
from ..._runtime.streaming import Reported, ahead
from ..._scratch.builds import whole_or_nothing
from ..._storage.import_cache import cached
from .csv_layout import CsvLayout, CsvOptions, layout_of
from .csv_writer import write
from .lines import Lines

__all__ = ["about", "import_to", "open_file", "write"]

OPEN_OPTIONS = ("header", "delimiter")  #: of `open_file` and `import_to`
OPTIONS = ("header", "delimiter")  #: of `write`
RECORDED = True  #: `import_to` takes a record

_TEXT = 4 << 20  # bytes of text that one worker parses at a time, about
_LEAST = 64 << 10  # where there is no room for more
_LONGEST = 256 << 20  # one line; beyond that it is no text
_SLACK = 1.25  # room for text ÷ what lines take by their mean
_BESIDE = 3 << 20  # bytes of a file that is read, and unpacked
_GROWTH = 1.5  # of the rows, where more come than the first lines let expect
_REAL, _MISSING = 1, 2  # bits of CsvSeen in storage/formats/csv.hpp


class _NotIntegers(Exception):
    """A value is no integer, though all of the first ones were: everything is read again, as reals."""


@dataclass
class _Block:
    """Whole lines on their way to be rows."""

    text: NDArray[np.uint8]
    rows: NDArray[Any]
    seen: NDArray[np.uint8]


class _Rows:
    """The rows of files of one layout, in order; workers parse blocks of lines."""

    def __init__(self, call: Call, layout: CsvLayout, dtype: np.dtype[Any], fixed: int) -> None:
        """Share what the limit leaves beside `fixed` bytes."""
        self._call, self._layout, self._dtype, self._chunk, self._offset = call, layout, dtype, 1, 0
        self._place = layout.place
        self.seen = np.zeros(len(layout.chosen), np.uint8)
        self.rounded: dict[int, tuple[str, int, str]] = {}  # by column: path, line, text
        self._cut = self._cut_blocks = self._taken_blocks = 0  # records and blocks, in all files
        self._retired: deque[tuple[int, NDArray[np.uint8]]] = (
            deque()
        )  # text, free when so many blocks are taken
        workers = call.engine.workers or len(os.sched_getaffinity(0))
        line = layout.line_bytes
        row = int(_SLACK * line) + len(layout.chosen) * dtype.itemsize + 1
        tall = max(1, min(layout.expected_rows, int(_TEXT / line) + 1))
        least = max(1, min(tall, int(_LEAST / line)))
        held = call.share("blocks of lines", row, (workers + 3) * tall, fixed=fixed, least=4 * least)
        self._blocks = max(2, min(workers + 1, held // tall - 2))
        self._height = max(1, held // (self._blocks + 2))
        self._workers = min(workers, self._blocks)
        self._room = int(_SLACK * line * self._height) + (4 << 10)
        self._free_rows: list[NDArray[Any]] = []
        self._given: deque[NDArray[Any]] = deque()

    def begin(self, dtype: np.dtype[Any], chunk: int, rows: int) -> None:
        """Make rows of `dtype` behind `rows` that are stored, in blocks that end with chunks of so many."""
        self._dtype, self._chunk, self._cut = dtype, max(1, chunk), rows
        if self._chunk <= self._height:
            self._height -= self._height % self._chunk

    def _most(self) -> int:
        """Return how many records the next block takes."""
        over = self._cut % self._chunk
        if self._chunk <= self._height:
            return self._height - over
        return min(self._height, self._chunk - over)

    def of(
        self, path: str, begin: tuple[int, int], report: Reported, before: int
    ) -> Iterator[tuple[NDArray[Any], tuple[int, int]]]:  # fmt: skip
        """Yield blocks of rows of a file, and the place behind each; what was yielded is used again.

        But for the last. A place: bytes of text and lines before it.
        """
        self._offset = begin[0]
        waiting: deque[tuple[_Block, Future[_core.ParsedCsv]]] = deque()
        with Lines(path, self._call) as lines, ThreadPoolExecutor(self._workers, "flagstone-csv") as pool:
            lines.skip(*begin)
            for block in self._lines(lines):
                waiting.append((block, pool.submit(self._parse, block)))
                if len(waiting) > self._blocks - 1:
                    yield self._taken(lines, *waiting.popleft())
                    report.at(before + lines.taken)
            while waiting:
                yield self._taken(lines, *waiting.popleft())

    def _lines(self, lines: Lines) -> Iterator[_Block]:
        """Yield blocks of whole records: as many as a block has where they are, all there are elsewhere."""
        text, at, filled, end = np.empty(0, np.uint8), 0, 0, False
        while True:
            most = self._most()
            used, records = _core.csv_records(text[at:filled], self._layout.delimiter, most)
            if records < most and not end and (at or filled < len(text) - 1 or not used):
                left, old = text[at:filled], text
                text, at = self._text(lines, len(left), grow=not at and not used), 0
                text[: len(left)] = left
                self._retired.append((self._cut_blocks, old))
                filled = len(left) + lines.fill(text[len(left) : -1])
                end = filled < len(text) - 1
                if (
                    end and filled and text[filled - 1] != 10
                ):  # the last line has no end: there is room for one
                    text[filled] = 10
                    filled += 1
                continue
            if not used and at < filled:
                raise FormatError(
                    f"open: '{lines.path}': a quote that is opened behind line {lines.number} is never "
                    "closed."
                )
            if not used:
                self._retired.append((self._cut_blocks, text))
                return
            self._cut += records
            self._cut_blocks += 1
            rows = self._free_rows.pop() if self._free_rows else self._empty()
            yield _Block(text[at : at + used], rows, np.zeros_like(self.seen))
            at += used

    def _text(self, lines: Lines, left: int, grow: bool) -> NDArray[np.uint8]:
        """Return room for text behind `left` bytes of it; `grow`: for a line longer than what there was."""
        if left > _LONGEST:
            raise FormatError(f"open: '{lines.path}', line {lines.number + 1}: it is too long for text.")
        room = max(self._room, 2 * left if grow else left + 2)
        if room > self._room:
            self._call.room(f"a line behind line {lines.number} of '{lines.path}'", 3 * room)
        while self._retired and self._retired[0][0] <= self._taken_blocks:
            free = self._retired.popleft()[1]
            if len(free) == room:
                return free
        return empty((room,), np.dtype(np.uint8))

    def _empty(self) -> NDArray[Any]:
        return empty((self._height, len(self._layout.chosen)), self._dtype)

    def _parse(self, block: _Block) -> _core.ParsedCsv:
        return _core.parse_csv(block.text, self._layout.delimiter, self._place, block.rows, block.seen)

    def _taken(
        self, lines: Lines, block: _Block, parsing: Future[_core.ParsedCsv]
    ) -> tuple[NDArray[Any], tuple[int, int]]:
        parsed = parsing.result()
        if parsed.stop:
            self._refuse(lines, parsed)
        for column, line, text in parsed.rounded:
            self.rounded.setdefault(column, (lines.path, lines.number + line, text))
        lines.number += parsed.lines
        self._taken_blocks += 1
        self.seen |= block.seen
        self._given.append(block.rows)
        if len(self._given) > 2:  # the last one is being written while this one is made
            self._free_rows.append(self._given.popleft())
        self._offset += len(block.text)
        return block.rows[: parsed.rows], (self._offset, lines.number)

    def _refuse(self, lines: Lines, parsed: _core.ParsedCsv) -> None:
        where = f"open: '{lines.path}', line {lines.number + parsed.lines + 1}"
        layout = self._layout
        if parsed.stop == "not_integer":
            raise _NotIntegers
        if parsed.stop == "ragged":
            count = f"{parsed.field} field{'s' if parsed.field != 1 else ''}"
            raise FormatError(
                f"{where}: it has {count} (separated by {layout.separated}), and {layout.fields} are "
                "needed, as "
                "the first line has."
            )
        if parsed.stop == "text":
            raise FormatError(
                f"{where}, column '{layout.name(parsed.field)}': '{parsed.text}' is no number; mend it, "
                "leave the "
                "cell empty, or name the columns that you want with key='a,b'."
            )
        if parsed.stop == "zero":
            raise FormatError(f"{where}: it holds a zero byte, so it is no text.")
        raise FormatError(f"{where}: a quote is opened there and never closed.")

    def let_go(self) -> None:
        """Give back what was held."""
        self._given.clear()
        self._free_rows.clear()
        self._retired.clear()

    def check_exact(self) -> None:
        """Refuse columns of integers of which one is no float64: it would become another number."""
        for column, (path, line, text) in sorted(self.rounded.items()):
            if self.seen[column] & _REAL:
                continue  # a column of reals, which are rounded anyway
            name = self._layout.name(self._layout.chosen[column])
            alone = not self.seen[column] & _MISSING and int(text) < 1 << 63
            way = f"open it alone (key='{name}')" if alone else "fill its gaps, or leave it out"
            raise FormatError(
                f"open: '{path}', line {line}, column '{name}': {text} is an integer that float64, the "
                "type of all "
                f"columns together, cannot hold; {way}."
            )


@dataclass
class _Done:
    """What is stored: rows, of which file, and where in it they end. Saved beside the array as JSON."""

    rows: int = 0
    file: int = 0
    place: tuple[int, int] | None = None  # None: of the file's first row

    @classmethod
    def of(cls, checkpoint: _core.Checkpoint | None, parsed: _Rows) -> _Done:
        """Return what a dead process noted, which `parsed` goes on with."""
        if checkpoint is None or not checkpoint.has("rows"):
            return cls()
        told = json.loads(checkpoint.load("rows"))
        parsed.seen |= np.asarray(told["seen"], np.uint8)
        parsed.rounded.update({int(column): tuple(found) for column, found in told["rounded"]})
        return cls(told["rows"], told["file"], tuple(told["place"]))

    def noted(self, parsed: _Rows) -> tuple[str, bytes]:
        """Return it as a part of a save. What `parsed` has seen of the block behind is seen again."""
        told = {
            "rows": self.rows, "file": self.file, "place": self.place, "seen": parsed.seen.tolist(),
            "rounded": list(parsed.rounded.items()),
        }  # fmt: skip
        return "rows", json.dumps(told).encode()


def import_to(
    call: Call, path: str | Sequence[str], target: str, replace: bool = False, key: str | None = None,
    header: Any = None, delimiter: str | None = None, record: Record = UNRECORDED,
) -> Array:  # fmt: skip
    """Write the columns of numbers of a file, or of files one below the other, to `target`."""
    paths = [path] if isinstance(path, str) else list(path)
    return _import(call, paths, target, replace, CsvOptions.of("open", key, header, delimiter), record)


def _import(
    call: Call, paths: list[str], target: str, replace: bool, options: CsvOptions, record: Record = UNRECORDED
) -> Array:
    layouts = _layouts(call, paths, options)
    made = None
    if all(one.integers for one in layouts):
        made = _written(call, layouts, target, replace, options, np.dtype(np.int64), record)
    if made is None:
        made = _written(call, layouts, target, replace, options, np.dtype(np.float64), record)
    assert made is not None
    return made


def _layouts(call: Call, paths: list[str], options: CsvOptions) -> list[CsvLayout]:
    """Look at the first lines of every file; they must have the columns of the first one."""
    found: list[CsvLayout] = []
    for path in paths:
        with Lines(path, call) as lines:
            one = layout_of(lines, options)
        if found and (one.names != found[0].names or one.fields != found[0].fields):
            raise FormatError(
                f"open: '{path}' has other columns than '{paths[0]}' ({one.told} and {found[0].told}); "
                "files that "
                "are read as one have the same."
            )
        found.append(one)
    return found


def _written(
    call: Call, layouts: list[CsvLayout], target: str, replace: bool, options: CsvOptions,
    dtype: np.dtype[Any], record: Record,
) -> Array | None:  # fmt: skip
    """Read every file once: the array has the rows that are expected first, and those that came at last.

    What a dead process had begun goes on in its dtype. None: of integers were asked for, and others came.
    """
    first, width = layouts[0], len(layouts[0].chosen)
    expected = sum(one.expected_rows for one in layouts)
    about = about_left_out(first.left_out if options.key is None else [])
    staged = min(STAGING, first.expected_rows * width * dtype.itemsize) + _BESIDE
    parsed = _Rows(call, max(layouts, key=lambda one: one.line_bytes), dtype, staged)
    destination = Destination(
        "open", target, (expected, width), dtype.name, None, replace, about=about, columns=first.columns,
        record=record,
    )  # fmt: skip
    with whole_or_nothing(destination), record.kept(destination):
        try:
            rows = _filled(call, layouts, destination, parsed, record.checkpoint)
        except _NotIntegers:
            destination.discard()
            return None
        parsed.check_exact()
        if rows != destination.core.shape[0]:
            parsed.let_go()
            destination.resize(call, (rows, width))
        return destination.publish()


def _filled(
    call: Call, layouts: list[CsvLayout], destination: Destination, parsed: _Rows,
    checkpoint: _core.Checkpoint | None,
) -> int:  # fmt: skip
    """Store the rows of all files, and note now and then how far they came; return how many there are."""
    sizes = [os.path.getsize(one.path) for one in layouts]
    report = Reported(call, sum(sizes))
    done = _Done.of(checkpoint, parsed)
    out, width = built_aside(destination.core), len(layouts[0].chosen)
    parsed.begin(out.dtype, out.chunks[0], done.rows)
    for number, one in enumerate(layouts):
        if number < done.file:
            continue
        begin = done.place if number == done.file and done.place is not None else one.begin
        with (
            closing(parsed.of(one.path, begin, report, sum(sizes[:number]))) as made,  # type: ignore[type-var]
            closing(ahead(made)) as blocks,  # type: ignore[type-var]
        ):
            for block, place in blocks:
                end = done.rows + len(block)
                if end > out.shape[0]:
                    destination.resize(call, (int(_GROWTH * end) + 1, width))
                    out = built_aside(destination.core)
                assign(out, call, np.s_[done.rows : end], block)
                done = _Done(end, number, place)
                # A chunk that is written in parts is read in between: whole ones are noted.
                if checkpoint is not None and end % out.chunks[0] == 0 and checkpoint.due():
                    destination.core.checkpoint()
                    checkpoint.save(report.bytes_read / max(1, report.total), [done.noted(parsed)])
    return done.rows


def open_file(
    place: str, key: str | None, mode: str, header: Any = None, delimiter: str | None = None
) -> Array:
    """Return the columns of numbers of a file (key: their names), imported into scratch once.

    Notes
    -----
    Reads the text once, twice where integers are followed by something else; holds blocks of 4 MiB of text,
    two more than there are workers, and their rows. What is missing becomes NaN.
    """
    options = CsvOptions.of("open", key, header, delimiter)
    found = cached(place, options.part, lambda call, target: _import(call, [place], target, False, options))
    assert isinstance(found, Array)
    if key is None:
        warn_left_out(place, found)
    return found


def about(place: str, key: str | None) -> dict[str, Any]:
    """Return the delimiter and the columns of a file."""
    with Lines(place) as lines:
        layout = layout_of(lines, CsvOptions())
    numbers = [layout.name(field) for field in layout.chosen]
    facts: dict[str, Any] = {
        "delimiter": layout.separated, "header": "yes" if layout.skip else "none",
        "numeric_columns": ", ".join(numbers[:20]),
    }  # fmt: skip
    return facts | ({"other_columns": ", ".join(layout.left_out[:20])} if layout.left_out else {})
