"""Parts of expressions: what slices, np.asarray and assignment need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array import requests
from .._array.array import PIECE, Array, updating
from .._array.basic_index import BasicIndexer, Key
from .._array.handle import is_transposed
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .compute import Pass, compute
from .expression import Expression, as_expression, leaves

__all__ = ["assign", "part"]


def part(given: Expression, box: BasicIndexer, who: str) -> Any:
    """Compute a part into memory."""
    call = Call(who)
    shape = tuple((n - 1) * s + 1 if n else 0 for n, s in zip(box.shape, box.step, strict=True))
    found = _box(call, given, box.start, shape) if box.count else np.empty(shape, given.dtype)
    found = found[tuple(slice(None, None, s) for s in box.step)]
    if box.flips:
        found = found[box.flips]
    out = found.reshape(box.kept)
    return out[()] if not out.shape else out


def _box(call: Call, given: Expression, start: Sequence[int], shape: tuple[int, ...]) -> NDArray[Any]:
    for leaf in leaves(given):
        if isinstance(leaf.payload, Array):
            leaf.payload.flush()
    item = Pass(call, shape)
    item.start = list(start)
    place = Place(call, shape, given.dtype, IN_MEMORY, None)
    item.store(given, place)
    item.run()
    found: NDArray[Any] = place.result
    return found


def assign(target: Array, key: Key, value: Any) -> None:
    """Store an expression into part of an Array, by pieces; whole first where the two overlap otherwise."""
    given = as_expression(value, "setitem")
    call = Call("setitem")
    box = BasicIndexer(key, target.shape)
    simple = box.kept == box.shape and not box.flips and given.shape == box.kept and box.count > 0
    same = [
        leaf.payload for leaf in leaves(given)
        if isinstance(leaf.payload, Array) and leaf.payload._core.id == target._core.id
    ]  # fmt: skip
    whole = box.kept == target.shape and not box.strided
    if same and not (
        whole and all(is_transposed(a) == is_transposed(target) and a.shape == given.shape for a in same)
    ):
        given = as_expression(compute(given), "setitem")
    if not simple:
        requests.assign(target, call, key, np.asarray(given))
        return
    rows = max(1, PIECE // max(1, box.bounding_row * target.dtype.itemsize))
    chunk = target.chunks[0] if target.chunks else 1
    rows = max(chunk, rows // chunk * chunk) if chunk < target.shape[0] else rows
    with updating([target]):
        _store(call, target, given, box, rows)


def _store(call: Call, target: Array, given: Expression, box: BasicIndexer, rows: int) -> None:
    for first in range(0, box.shape[0], rows):
        last = min(first + rows, box.shape[0])
        values = _box(call, given, [first, *[0] * (given.ndim - 1)], (last - first, *given.shape[1:]))
        step = box.step[0]
        head = slice(box.start[0] + first * step, box.start[0] + (last - 1) * step + 1, step)
        tail = [
            slice(s, s + (n - 1) * step + 1, step)
            for s, n, step in zip(box.start[1:], box.shape[1:], box.step[1:], strict=True)
        ]
        requests.assign(target, call, (head, *tail), values)
