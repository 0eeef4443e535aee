"""Copying all elements of an array into another one, box by box, in fixed memory."""

from __future__ import annotations

import numpy as np

from .. import _core
from .._array.array import PIECE, STAGING, Array
from .._array.handle import built_aside
from .._array.requests import assign, take
from .._runtime.call import Call
from .._runtime.streaming import Reported

__all__ = ["copy", "room_to_copy"]


def _step(source: Array, target: _core.Array) -> list[int]:
    """Return the box that is copied at a time: whole chunks of the target (a flat one: of the source)."""
    shape, item = source.shape, source.dtype.itemsize
    whole = tuple(shape)
    step = list(target.chunks) if tuple(target.chunks) != whole else list(source.chunks)
    if tuple(step) == whole:
        step = [1] * len(shape)
    step = [max(1, min(s, n)) for s, n in zip(step, shape, strict=True)]
    while step and int(np.prod(step, dtype=object)) * item > PIECE:  # a chunk that is larger than that
        largest = int(np.argmax(step))
        step[largest] = -(-step[largest] // 2)
    for d in reversed(range(len(step))):
        while step[d] < shape[d] and 2 * int(np.prod(step, dtype=object)) * item <= PIECE:
            step[d] = min(2 * step[d], shape[d])
    return step


def room_to_copy(call: Call, source: Array) -> None:
    """Refuse a limit in which `copy` has no room."""
    size = source.nbytes
    held = 2 * min(PIECE, size) + min(STAGING, size) + source._core.unpack_bytes
    call.room("two boxes and the transfers", held)


def copy(
    call: Call, source: Array, target: _core.Array, report: Reported,
    checkpoint: _core.Checkpoint | None = None, flat: bool = False,
) -> int:  # fmt: skip
    """Copy all elements, box by box; the target is built aside. Holds two boxes of 32 MiB at most.

    `checkpoint`: where finished boxes are counted; those that a dead process counted, and the target still
    holds, are not copied again. `flat`: the target has no chunks. Returns the bytes that were copied.
    """
    out = built_aside(target)
    step, shape, moved = _step(source, target), source.shape, 0
    room_to_copy(call, source)
    grid = [range(0, n, s) for n, s in zip(shape, step, strict=True)]
    numbers = [len(g) for g in grid]
    boxes = int(np.prod(numbers, dtype=object))
    had = int.from_bytes(checkpoint.load("boxes"), "little") if checkpoint and checkpoint.has("boxes") else 0
    # A chunk that is written in parts is read in between: what is counted must be whole chunks.
    whole = flat or all(s % c == 0 or s >= n for s, c, n in zip(step, target.chunks, shape, strict=True))
    for number, first in enumerate(np.ndindex(*numbers)):
        start = [g[i] for g, i in zip(grid, first, strict=True)]
        extents = [min(s, n - at) for s, n, at in zip(step, shape, start, strict=True)]
        if number < had and target.stored(start, extents):
            continue
        key = tuple(slice(at, at + n) for at, n in zip(start, extents, strict=True))
        part = take(source, call, key)
        assign(out, call, key, part)
        moved += part.nbytes
        report.at(moved)
        if checkpoint is not None and whole and checkpoint.due():
            target.checkpoint()
            checkpoint.save((number + 1) / boxes, [("boxes", (number + 1).to_bytes(8, "little"))])
    target.flush()
    return moved
