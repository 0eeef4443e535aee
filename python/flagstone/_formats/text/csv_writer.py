"""Arrays as separated values: rows in panels, every worker formats."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._array.array import Array, shape_text
from ..._array.requests import empty
from ..._errors.classes import FormatError
from ..._output.column_names import columns_of
from ..._runtime.call import Call
from ..._runtime.streaming import Reported
from ..._sparse.to_csr import dense_blocks
from .csv_layout import CsvOptions

__all__ = ["write"]

_PANEL = 1 << 20  # bytes of rows that one worker formats at a time
_WIDE = {"b": np.bool_, "i": np.int64, "u": np.uint64}


def write(
    call: Call, source: Any, built: str, key: str | None, report: Reported, *,
    header: Any = None, delimiter: str | None = None,
) -> None:  # fmt: skip
    """Write rows to the new file `built`, with the names of the columns first where there are some.

    `header`: names, or False for none; `key`: "tsv" and "gz" of the name. Holds a panel of 1 MiB for each
    worker and two more, and their text.
    """
    if not isinstance(source, Array):
        raise FormatError(
            "convert: CSV holds dense columns and the source is sparse; end the name in .npz, .svm, "
            ".mtx, .h5ad "
            "or .zarr."
        )
    if source.ndim not in (1, 2) or source.dtype.kind not in "biuf":
        raise FormatError(
            f"convert: CSV holds columns of real numbers and the source is {shape_text(source.shape)} "
            f"{source.dtype.name}; one or two dimensions are needed."
        )
    kinds = (key or "").split(".")
    options = CsvOptions.of("convert", None, header, delimiter)
    mark = options.delimiter or ("\t" if "tsv" in kinds else ",")
    columns = source.shape[1] if source.ndim == 2 else 1
    names = _names(options, source, columns)
    plain: IO[bytes] = open(built, "wb")  # noqa: SIM115
    with plain, gzip.GzipFile("", "wb", 6, plain) if "gz" in kinds else plain as file:
        if names is not None:
            file.write(_header(names, mark))
        if source.shape[0] and columns:
            _rows(call, source, file, mark, report)


def _names(options: CsvOptions, source: Array, columns: int) -> list[str] | None:
    """Return the names that stand first; None: none do."""
    if isinstance(options.header, tuple):
        if len(options.header) != columns:
            raise FormatError(
                f"convert: header gives {len(options.header)} names and the source has {columns} columns; "
                "give one "
                "for each."
            )
        return list(options.header)
    kept = None if options.header is False else columns_of(source)
    if options.header and kept is None:
        raise FormatError("convert: the source has no names of columns; give them as header=['a', 'b', ...].")
    return None if kept is None else [name or "" for name in kept]


def _header(names: list[str], delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(names)
    return text.getvalue().encode("utf-8")


def _rows(call: Call, source: Array, file: Any, delimiter: str, report: Reported) -> None:
    workers = call.engine.workers or len(os.sched_getaffinity(0))
    wide = _WIDE.get(source.dtype.kind) or (np.float64 if source.dtype.itemsize == 8 else np.float32)
    itemsize = np.dtype(wide).itemsize
    row = max(1, source.nbytes // source.shape[0])
    values = source.shape[1] if source.ndim == 2 else 1
    # Of each worker's block: itself, its values as they are written, its text; one more is being written.
    each = row + values * (itemsize + _core.most_csv)
    beside = -(-(workers + 1) * each // row)
    free: list[NDArray[np.uint8]] = []
    moved = 0

    def text(block: NDArray[Any], room: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int]:
        rows: NDArray[Any] = np.ascontiguousarray(block.reshape(len(block), -1), wide)
        return room, _core.format_csv(rows, delimiter, room)

    def put(done: Future[tuple[NDArray[np.uint8], int]], nbytes: int) -> int:
        room, length = done.result()
        file.write(room[:length].data)
        free.append(room)
        report.at(moved + nbytes)
        return nbytes

    waiting: deque[tuple[Future[tuple[NDArray[np.uint8], int]], int]] = deque()
    with ThreadPoolExecutor(workers, "flagstone-csv") as pool:
        for _, block in dense_blocks(call, source, _PANEL, beside=beside):
            needed = block.size * _core.most_csv
            room = free.pop() if free and len(free[-1]) >= needed else empty((needed,), np.dtype(np.uint8))
            waiting.append((pool.submit(text, block, room), block.nbytes))
            while len(waiting) > workers:
                moved += put(*waiting.popleft())
        while waiting:
            moved += put(*waiting.popleft())
