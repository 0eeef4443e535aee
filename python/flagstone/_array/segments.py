"""An array in pieces: a large part, while the next piece still loads; row after row, each chunk once."""

from __future__ import annotations

import errno
import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from .. import _core
from .._errors.classes import BudgetError
from .._errors.messages import storage_error
from .._runtime import pending_writes
from .._runtime.arguments import size_bytes
from .._runtime.call import Call
from .basic_index import BasicIndexer, Key
from .requests import PIECE, STAGING, Array, take

__all__ = ["rows", "segments"]


def segments(array: Array, key: Key, nbytes: int | str) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Yield (where in the result, part), the next one being read meanwhile."""
    box, most = BasicIndexer(key, array.shape), size_bytes("segments: nbytes", nbytes)
    call = Call("segments")
    wanted = _cut(array, key, box, most)
    largest = max((math.prod(len(r) for r in one) for one in wanted()), default=0) * array.dtype.itemsize
    call.room("two segments", 2 * largest + min(largest, STAGING) + array._core.unpack_bytes)
    array._join()
    moment = array._core.look()

    def load(ranges: tuple[range, ...]) -> NDArray[Any]:
        part = take(array, call, tuple(_as_slice(r) for r in ranges) or ...)
        if array._core.look() != moment:
            raise storage_error(
                f"segments: '{array.path}' was changed while it was read; read it again, or change it inside "
                "one fl.transaction.",
                errno.EAGAIN,
                array.path or "",
            )
        return part

    keys = BasicIndexer._expand(_tuple(key), len(array.shape))
    kept = [axis for axis, item in enumerate(keys) if isinstance(item, slice)]
    firsts = [_range(item, n) for item, n in zip(keys, array.shape, strict=True)]
    pool = ThreadPoolExecutor(1, "flagstone-segments")
    try:
        ahead = None
        for ranges in itertools.chain(wanted(), [None]):
            if ahead is not None:
                where = tuple(_inside(firsts[axis], ahead[0][axis]) for axis in kept)
                try:
                    part = ahead[1].result()
                except BudgetError:  # it was begun while the caller still held the one before
                    part = load(ahead[0])
            now, ahead = ahead, (ranges, pool.submit(load, ranges)) if ranges is not None else None
            if now is None:
                continue
            del now
            yield where, part.reshape([w.stop - w.start for w in where])
            del part
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _tuple(key: Key) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _range(item: Any, extent: int) -> range:
    if isinstance(item, slice):
        return range(extent)[item]
    at = item.__index__() % extent
    return range(at, at + 1)


def _as_slice(numbers: range) -> slice:
    stop = numbers.start + len(numbers) * numbers.step
    return slice(numbers.start, stop if stop >= 0 else None, numbers.step)


def _inside(whole: range, part: range) -> slice:
    first = (part.start - whole.start) // whole.step if len(part) else 0
    return slice(first, first + len(part))


def _cut(array: Array, key: Key, box: BasicIndexer, most: int) -> Callable[[], Iterator[tuple[range, ...]]]:
    """Cut a selection along chunks into segments of at most `most` bytes (or parts of one chunk)."""
    keys = BasicIndexer._expand(_tuple(key), len(array.shape))
    axes = [_range(item, n) for item, n in zip(keys, array.shape, strict=True)]
    cells = [max(1, c) for c in array.chunks]

    def size() -> int:
        each = (min(len(r), -(-c // abs(r.step))) for r, c in zip(axes, cells, strict=True))
        return math.prod(each) * array.dtype.itemsize

    for axis in range(len(cells)):  # a chunk that is larger than that: rows of it
        while cells[axis] > 1 and size() > most:
            cells[axis] = -(-cells[axis] // 2)
    for axis in reversed(range(len(cells))):
        while cells[axis] < array.shape[axis] and size() < most:
            cells[axis] *= 2
            if size() > most:
                cells[axis] //= 2
                break
        if cells[axis] < array.shape[axis]:
            break

    def along(numbers: range, cell: int) -> list[range]:
        out, at = [], 0
        while at < len(numbers):
            first = numbers[at]
            if numbers.step > 0:
                end = at + ((first // cell + 1) * cell - 1 - first) // numbers.step + 1
            else:
                end = at + (first - first // cell * cell) // -numbers.step + 1
            out.append(numbers[at:end])
            at = min(end, len(numbers))
        return out

    parts = [along(r, c) for r, c in zip(axes, cells, strict=True)]
    return lambda: itertools.product(*parts)


# Row after row ----------------------------------------------------------------------------------------------


def rows(array: Array) -> Iterator[Any]:
    """Yield ``array[0]``, ``array[1]``, ..., copies; a stripe of chunks is held while its rows are given out.

    A stripe is read again where somebody committed a change meanwhile, so that a row is what ``array[i]``
    would be. Row by row is read what no commit guards (a flat file that may be assigned, an open
    transaction), and where the limit has no room for a stripe.
    """
    first = 0
    while first < array.shape[0]:  # asked each time: the array may be resized by the loop
        call = Call("iter", light=True)
        core = array._core
        moment = core.look()
        height = _height(array)
        last = min(first // height * height + height, array.shape[0])
        if last - first < 2 or not _guarded(array) or not _fits(array, call, last - first):
            yield _row(array, call, first)
            first += 1
            continue
        stripe = take(array, call, slice(first, last))
        for at in range(last - first):
            if core.look() != moment or not _guarded(array):
                break
            first += 1
            row = stripe[at]
            yield row.copy() if row.shape else row


def _row(array: Array, call: Call, at: int) -> NDArray[Any] | Any:
    row = take(array, call, at)
    return row if row.shape else row[()]


def _height(array: Array) -> int:
    """Return the rows of a stripe: of packed chunks all, of others as many as one request carries."""
    chunk = max(1, array.chunks[0])
    if array._core.unpack_bytes:
        return chunk
    return max(1, min(chunk, PIECE // max(1, _row_bytes(array))))


def _row_bytes(array: Array) -> int:
    return math.prod(array.shape[1:]) * array.dtype.itemsize


def _guarded(array: Array) -> bool:
    """Say whether what changes the elements changes the number that `look` gives, or nothing can."""
    if pending_writes.of(array._core) is not None or array.path is None:
        return False
    return array.mode == "r" or array._core.look() != 0


def _fits(array: Array, call: Call, height: int) -> bool:
    nbytes = height * _row_bytes(array)
    try:
        call.room("a stripe of chunks", nbytes + _core.bytes_beside_read(array._core, nbytes))
    except BudgetError:
        return False
    return True
