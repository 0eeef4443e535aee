"""A dense matrix as text, column by column: each value is read about once, and every worker formats."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._array.array import Array
from ..._array.handle import Operand, is_transposed
from ..._array.requests import take
from ..._errors.classes import BudgetError
from ..._output.place import Place
from ..._runtime.call import Call
from ..._runtime.streaming import ahead
from ..._scratch.scratch import prepare

__all__ = ["columns_as_text", "entries_as_text"]

_BLOCK, _LEAST = 1 << 16, 1 << 13  # values that one worker formats at a time
_TEXT = 64  # bytes that a value takes meanwhile: itself, its text, and that text as Python has it
_PANEL = 4 << 20  # a request of this size fills a disk
_REQUEST = 100 << 10  # what a request costs, in bytes: the constant of algorithms/restructure
_RUN = 600  # bytes that are known of a run of elements while a copy is planned, and then made
_COPY = 2.2  # a copy in scratch: one write and one read more, in pieces of 1 MiB


def entries_as_text(
    rows: NDArray[Any] | None, columns: NDArray[Any] | None, field: str, values: NDArray[Any]
) -> NDArray[np.uint8]:
    """Return lines of entries, in pages: what a thread takes of the heap stays in that thread's."""
    to = _core.pages(_core.most_text_bytes(len(values), rows is not None, field))
    return to[: _core.format_entries(rows, columns, field, values, to)]


def columns_as_text(
    call: Call, source: Array, field: str, wide: np.dtype[Any]
) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Yield the text of whole blocks of values, and the bytes that they take in the source."""
    workers = call.engine.workers or len(os.sched_getaffinity(0))
    rows, cols = source.shape
    each = (workers + 2) * _TEXT * wide.itemsize // 8 + source.dtype.itemsize
    unpacked = _core.bytes_beside_read(source._core, source.nbytes)
    least = min(_LEAST, max(1, rows * cols))
    most = 2 * min(_BLOCK, max(1, rows * cols))  # the other half is for the panel
    block = max(least, call.share("values as text", each, most, fixed=unpacked, least=least) // 2)

    def text(part: NDArray[Any]) -> NDArray[np.uint8]:
        values = _core.pages(part.size * wide.itemsize)[: part.size * wide.itemsize].view(wide)
        values.reshape(part.shape[::-1])[...] = part.T
        return entries_as_text(None, None, field, values)

    waiting: deque[tuple[Future[NDArray[np.uint8]], int]] = deque()
    with _nothing_kept(), ThreadPoolExecutor(workers, "flagstone-text") as pool:
        for panel in _panels(call, source, block, unpacked + block * each):
            for part in _blocks(panel, block):
                waiting.append((pool.submit(text, part), part.nbytes))
                if len(waiting) > workers:
                    done, nbytes = waiting.popleft()
                    yield done.result(), nbytes
            del part, panel
        while waiting:
            done, nbytes = waiting.popleft()
            yield done.result(), nbytes


@contextlib.contextmanager
def _nothing_kept() -> Iterator[None]:
    """Give back at once what is freed meanwhile: what was shared out is all that the limit leaves."""
    _core.pages_of_job(True)
    try:
        yield
    finally:
        _core.pages_of_job(False)


def _blocks(panel: NDArray[Any], block: int) -> Iterator[NDArray[Any]]:
    """Cut a panel into parts of about `block` values that follow one another in the text."""
    rows, cols = panel.shape
    width = max(1, block // max(1, rows))
    for j in range(0, cols, width):
        for i in range(0, rows, max(1, min(rows, block) if width == 1 else rows)):
            yield panel[i : i + (block if width == 1 else rows), j : j + width]


def _panels(
    call: Call, source: Array, block: int, beside: int, copied: bool = False
) -> Iterator[NDArray[Any]]:
    """Yield all rows of some columns (of one that does not fit, stretches of it), the first columns first."""
    rows, cols = source.shape
    if not rows or not cols:
        return
    item = source.dtype.itemsize
    call.tidy()
    left = max(0, (call.memory - _core.resident_bytes() - beside) * 9 // 10)
    fits = max(1, min(cols, left // (rows * item)))
    wide, narrow = _aligned(source, fits), _aligned(source, min(fits, -(-_PANEL // (rows * item))))
    if _cost(source, narrow) <= 1.1 * _cost(source, wide):
        wide = narrow
    dear = not copied and _cost(source, wide) > _cost(source, cols) + _COPY
    if dear and (copy := _transposed(call, source)) is not None:
        yield from _panels(call, copy, block, beside, True)
        return
    height = rows if wide > 1 else max(1, min(rows, max(left // item, block)))

    def read(width: int) -> Iterator[NDArray[Any]]:
        j = 0
        while j < cols:
            try:
                for i in range(0, rows, height):
                    yield take(source, call, np.s_[i : i + height, j : j + width])
            except BudgetError:  # the process has grown since the width was chosen: panels shrink with it
                if width == 1:
                    raise
                width = _aligned(source, -(-width // 2))
                continue
            j += width

    yield from ahead(read(wide)) if 2 * height * wide * item <= left else read(wide)


def _aligned(source: Array, width: int) -> int:
    """Return whole chunks of columns, as many as fit into `width`; `width` where none does."""
    chunk = max(1, source.chunks[1])
    return width // chunk * chunk if chunk < source.shape[1] and width >= chunk else width


def _cost(source: Array, width: int) -> float:
    """Return what panels of a width cost ÷ one read of the matrix in one request."""
    core, item = Operand.of(source).core, source.dtype.itemsize
    chunk = max(1, min(source.chunks[1], source.shape[1]))
    if core.unpack_bytes or core.verified:  # chunks are read whole
        times = -(-width // chunk) * chunk / width
        run = chunk * min(source.chunks[0], source.shape[0]) * item
    else:
        times = 1.0
        box = [source.shape[0], width]
        run = core.run_bytes(box[::-1] if is_transposed(source) else box)
    return times * (1 + _REQUEST / max(1, run))


def _transposed(call: Call, source: Array) -> Array | None:
    """Return a view of a copy in scratch that lies by columns; None where the limit has no room for one."""
    rows, cols = source.shape
    item = source.dtype.itemsize
    long = min(rows, (1 << 20) // item)
    given = Operand.of(source)
    column = [1, rows] if given.transposed else [rows, 1]
    runs = rows * item // max(1, given.core.run_bytes(column))
    if runs * _RUN > call.memory - _core.resident_bytes():  # already the plan of a column would not fit
        return None
    place = Place(
        call, (cols, rows), source.dtype, None, [max(1, min(cols, (1 << 20) // (long * item))), long]
    )
    scratch = call.runtime.scratch

    def job(to: _core.Array) -> _core.Job:
        axes = [0, 1] if given.transposed else [1, 0]
        directory, quota = str(prepare(scratch)), call.runtime.scratch_quota
        return _core.Restructure(
            given.core, axes, given.conjugated, to, directory, call.who, quota, None
        ).job()

    try:
        call.check_memory(job(place.planned()))
    except BudgetError:
        return None
    with contextlib.ExitStack() as stack:
        call.run(job(place.open(stack)))
        copy: Array = place.close()
    return copy.T
