"""SVMlight / libsvm text: rows of "label index:value ...", imported by streaming."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._array.array import Array, shape_text
from ..._array.handle import built_aside
from ..._array.requests import assign, take
from ..._errors.classes import FormatError, ShapeError
from ..._errors.messages import storage_error
from ..._output.destination import Destination
from ..._resume.record import UNRECORDED, Record, sync_folder
from ..._runtime.call import Call
from ..._runtime.streaming import Reported
from ..._scratch.builds import whole_or_nothing
from ..._sparse.array import SparseArray
from ..._sparse.builder import CsrBuilder, writer_bytes
from ..._sparse.row_blocks import row_blocks
from ..._sparse.to_csr import to_csr
from ..._storage.import_cache import cached
from .lines import Lines, most_values

__all__ = ["import_to", "looks_like", "may_be", "open_file", "write"]

LABELS = "labels"
RECORDED = True  # conversions can be resumed
OPTIONS = ("labels", "zero_based")  #: of `write`
_ROWS = 1 << 16
_TEXT = 4  # bytes of a value, at least


class _Rows:
    """Buffers that the core's parser fills."""

    def __init__(self, call: Call, path: str) -> None:
        self._call = call
        self._make(most_values(path, _TEXT))

    def _make(self, values: int) -> None:
        self._call.room("rows of text", 32 * values + min(24 << 20, 64 * values))
        self.labels, self.pointers = np.empty(_ROWS), np.empty(_ROWS + 1, np.int64)
        self.columns, self.values = np.empty(values, np.int64), np.empty(values)

    def grow(self) -> None:
        """Make room for a longer row."""
        self._make(2 * len(self.values))

    def parse(self, text: NDArray[Any]) -> _core.ParsedText:
        """Parse a block of text."""
        return _core.parse_svmlight(text, self.labels, self.pointers, self.columns, self.values)


def _blocks(
    call: Call, path: str, begin: dict[str, int] | None = None, one_label: bool = False
) -> Iterator[tuple[int, _Rows, int, dict[str, int]]]:
    """Yield (rows, buffers, values, place behind them) of blocks of rows, behind the place `begin`.

    `one_label`: rows with several labels are refused.
    """
    with Lines(path, call) as lines:
        if begin is not None:
            lines.skip(begin["offset"], begin["lines"])
        rows, report = _Rows(call, path), Reported(call, 2 * lines.nbytes)
        for done in lines.parsed(rows.parse, rows.grow, report):
            if one_label and done.several:
                raise FormatError(
                    f"open: '{path}' has {done.several} rows with several labels ('1,2 3:4') before line "
                    f"{lines.number + 1}; key='labels' gives one number a row. The matrix opens without it."
                )
            yield done.entries, rows, done.values, {"offset": lines.offset, "lines": lines.number}


def _labels(call: Call, path: str, target: str, replace: bool) -> Array:
    number = sum(n for n, *_ in _blocks(call, path, one_label=True))
    destination = Destination("open", target, (number,), "float64", None, replace)
    out, at = built_aside(destination.core), 0
    with whole_or_nothing(destination):
        for n, rows, *_ in _blocks(call, path):
            assign(out, call, np.s_[at : at + n], rows.labels[:n])
            at += n
        return destination.publish()


def _extent(call: Call, path: str, checkpoint: _core.Checkpoint | None) -> dict[str, int]:
    """Return rows, smallest and largest index: the first pass, unless a dead process noted what it found."""
    if checkpoint is not None and checkpoint.has("extent"):
        return dict(json.loads(checkpoint.load("extent")))
    smallest, largest, seen = 1, -1, 0
    for n, rows, values, _ in _blocks(call, path):
        seen += n
        if values:
            smallest = min(smallest, int(rows.columns[:values].min()))
            largest = max(largest, int(rows.columns[:values].max()))
    if smallest < 0:
        raise FormatError(f"open: '{path}' has the index {smallest}; indices count from 0 or 1.")
    if not seen:
        raise FormatError(f"open: '{path}' has no rows; lines of 'label index:value ...' are needed.")
    return {"rows": seen, "smallest": smallest, "largest": largest}


def import_to(
    call: Call, path: str, target: str, replace: bool = False, key: str | None = None,
    narrow: bool = False, record: Record = UNRECORDED,
) -> Array | SparseArray:  # fmt: skip
    """Write the matrix of an SVMlight file to `target` as a CSR group (float64), or its labels."""
    if key == LABELS:
        return _labels(call, path, target, replace)
    most, dtype = most_values(path, _TEXT), np.dtype(np.float64)
    # What the second pass needs but for its columns, which the first one counts: one limit is named, not two.
    call.room("the writer", writer_bytes(0, dtype, most) * (2 if record.text else 1) + 64 * most)
    output: _core.Output | None = record.output(target, replace, 0)
    checkpoint = record.checkpoint
    extent = _extent(call, path, checkpoint)
    notes = [("extent", json.dumps(extent).encode())]
    if checkpoint is not None and not checkpoint.has("extent") and checkpoint.due():
        assert output is not None
        os.makedirs(output.directory, exist_ok=True)  # what has no build is not gone on with
        sync_folder(os.path.dirname(output.directory))
        checkpoint.save(0.4, notes)
    shift = 0 if extent["smallest"] == 0 else 1  # as scikit-learn decides
    builder = CsrBuilder(
        call, target, extent["largest"] + 1 - shift, dtype, replace,
        beside=64 * most, entries=most, narrow=narrow, record=record, output=output,
    )  # fmt: skip
    output = None  # the builder's: it goes with that
    begin = json.loads(checkpoint.load("text")) if checkpoint is not None and builder.held else None
    builder.rows = builder.held
    with whole_or_nothing(builder), record.kept(builder):
        for n, rows, values, place in _blocks(call, path, begin):
            builder.append(rows.pointers[: n + 1], rows.columns[:values] - shift, rows.values[:values])
            text = ("text", json.dumps(place).encode())
            builder.offer(0.4 + 0.6 * builder.rows / extent["rows"], lambda text=text: [*notes, text])  # type: ignore[misc]
        return builder.publish()


def open_file(place: str, key: str | None, mode: str) -> Array | SparseArray:
    """Return the matrix (key "labels": the labels) of an SVMlight file, imported into scratch once.

    Notes
    -----
    Indices count from 0 where a 0 occurs, else from 1. Reads the text twice; holds about 60 MB.
    """
    if key not in (None, "X", LABELS):
        raise storage_error(
            f"open: '{place}' is SVMlight and has no {key!r}; X and labels are there.", 2, place
        )
    part = LABELS if key == LABELS else ""
    return cached(place, part, lambda call, target: import_to(call, place, target, False, key, True), 2)


# Writing ----------------------------------------------------------------------------------------------------


def _labels_of(labels: Any, rows: int) -> Array | NDArray[Any]:
    """Return one number a row from what the caller gave: an Array or what NumPy makes an array of."""
    found = labels if isinstance(labels, Array) else np.asarray(labels)
    if found.shape != (rows,) or np.dtype(found.dtype).kind not in "biuf":
        raise ShapeError(
            f"convert: labels are {shape_text(found.shape)} {found.dtype}; one real number for each of the "
            f"{rows} rows is needed."
        )
    return found


def write(
    call: Call, source: Any, built: str, key: str | None, report: Reported, *,
    labels: Any = None, zero_based: bool = False,
) -> None:  # fmt: skip
    """Write rows of "label index:value ..." to the new file `built`; `labels`: zeros where none are given."""
    if source.ndim != 2 or source.dtype.kind not in "biuf":
        raise FormatError(
            f"convert: SVMlight holds matrices of real numbers and the source is {shape_text(source.shape)} "
            f"{source.dtype.name}."
        )
    if source.dtype == np.uint64:
        raise FormatError("convert: uint64 does not fit SVMlight's numbers as they are read elsewhere.")
    given = None if labels is None else _labels_of(labels, source.shape[0])
    matrix = to_csr(call, source, report)
    field, wide = ("real", np.float64) if source.dtype.kind == "f" else ("integer", np.int64)
    plain: IO[bytes] = open(built, "wb")  # noqa: SIM115
    moved = 0
    with plain, gzip.GzipFile("", "wb", 6, plain) if key == "gz" else plain as file:
        for first, pointers, columns, values in row_blocks(call, matrix, beside=120):
            rows = len(pointers) - 1
            told = np.zeros(rows) if given is None else _some(call, given, first, first + rows)
            file.write(
                _core.format_svmlight(
                    np.ascontiguousarray(told, np.float64), pointers, columns.astype(np.int64),
                    0 if zero_based else 1, field, values.astype(wide),
                )
            )  # fmt: skip
            moved += values.nbytes
            report.at(moved)


def _some(call: Call, labels: Array | NDArray[Any], first: int, end: int) -> NDArray[Any]:
    return take(labels, call, np.s_[first:end]) if isinstance(labels, Array) else labels[first:end]


# Telling ----------------------------------------------------------------------------------------------------


def looks_like(head: bytes) -> bool:
    """Say whether a file that begins like this is SVMlight text."""
    lines = head.split(b"\n")[:-1] or [head.rpartition(b" ")[0]]  # the first row may be longer than the head
    for line in lines:
        words = line.split(b"#")[0].split()
        if not words:
            continue
        if words[0][:1] not in b"+-0123456789." or not all(b":" in w for w in words[1:]):
            return False
        if len(words) > 1:  # a row without entries says nothing yet
            return True
    return False


def may_be(head: bytes) -> bool:
    """Say whether a file that begins like this, and whose name says so, is SVMlight: rows may be empty."""
    lines = [line.split(b"#")[0].split() for line in head.split(b"\n")]
    words = next((line for line in lines if line), [])
    return bool(words) and re.fullmatch(rb"[-+0-9.eE,]+", words[0]) is not None
