"""What a loop over an array gives: one row after the other, each chunk unpacked once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from .. import _core
from .._errors.classes import BudgetError
from .._runtime import pending_writes
from .._runtime.call import Call
from .requests import PIECE, Array, take

__all__ = ["rows"]


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
