"""Parts of expressions: what slices, np.asarray and assignment need."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array import requests
from .._array.array import PIECE, Array, shape_text
from .._array.basic_index import BasicIndexer, Key
from .._array.elementwise import Elementwise
from .._array.handle import is_conjugated, is_lazy, is_transposed, members_of, values_of
from .._array.mapped import off_the_map
from .._array.transactions import updating
from .._errors.classes import ShapeError
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .compute import Pass, compute
from .expression import Expression, as_expression, constant, where
from .program import leaves

__all__ = ["assign", "part"]

_SECOND = 10 << 20  # that the first run leaves resident, of what is held back: code, rings, stacks


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
    item = _pass(call, given, start, shape)
    item.run()
    found: NDArray[Any] = item.stores[0][1].result
    return found


def _pass(call: Call, given: Expression, start: Sequence[int], shape: tuple[int, ...]) -> Pass:
    item = Pass(call, shape)
    item.start = list(start)
    item.store(given, Place(call, shape, given.dtype, IN_MEMORY, None))
    return item


def assign(target: Array, key: Key, value: Any) -> None:
    """Store an expression into part of an Array, by pieces; whole first where the two overlap otherwise."""
    call = Call("setitem")
    requests.check_writable(target)
    if isinstance(key, Elementwise):
        mask = as_expression(key, "setitem")
        if mask.dtype != np.bool_ or mask.shape != target.shape:
            requests.assign(target, call, _indices(target, mask), np.asarray(value))
            return
        key, value = ..., _masked(target, mask, value)
    given = as_expression(off_the_map(call, value), "setitem")
    box = BasicIndexer(key, target.shape)
    simple = box.kept == box.shape and not box.flips and given.shape == box.kept and box.count > 0
    same = [
        leaf.payload for leaf in leaves(given)
        if isinstance(leaf.payload, Array) and leaf.payload._core.id == target._core.id
    ]  # fmt: skip
    whole = box.kept == target.shape and not box.strided
    aside = any(_looks_at(leaf.payload, target) for leaf in leaves(given))
    if aside or (same and not (
        whole and all(is_transposed(a) == is_transposed(target) and a.shape == given.shape for a in same)
    )):  # fmt: skip
        given = as_expression(compute(given), "setitem")
    if not simple:
        call.room("the value and the transfer", given.nbytes + 2 * PIECE + requests.STAGING)
        requests.assign(target, call, key, np.asarray(given))
        return
    if whole and (item := _at_once(call, target, given)) is not None:
        item.run()
        return
    rows = _rows(call, target, given, box)
    with updating([target]):
        _store(call, target, given, box, rows)
    call.tidy()  # staging of the pieces


class _InPlace:
    """A whole array as the place of a result: its new elements are one transaction."""

    beside, where = 0, ""

    def __init__(self, array: Array) -> None:
        self.array, self.chunks = array, array.chunks

    def planned(self) -> _core.Array:
        """Return the array, which the planner only looks at."""
        return self.array._core

    def recorded(self, *_: Any) -> None:
        """Note nothing: an assignment that was killed has not been."""

    def open(self, stack: contextlib.ExitStack) -> _core.Array:
        """Begin the transaction, which ends with `stack`."""
        stack.enter_context(updating([self.array]))
        return self.array._core

    def close(self) -> Array:
        """Return the array."""
        return self.array


def _at_once(call: Call, target: Array, given: Expression) -> Pass | None:
    """Return the pass that writes tiles of the array while others are computed; None where pieces are better.

    Where there is no room for it, where elements are converted, of flat files and arrays of other programs.
    """
    ours = target.path is not None and os.path.isdir(target.path) and not target._core.by_chunks
    turned = is_transposed(target) or is_conjugated(target)
    if not ours or turned or given.dtype != target.dtype:
        return None
    for leaf in leaves(given):
        if isinstance(leaf.payload, Array):
            leaf.payload.flush()
    item = Pass(call, target.shape)
    item.store(given, _InPlace(target))
    return item if item.least() <= call.memory + _core.allowed_drift else None


def _looks_at(payload: Any, target: Array) -> bool:
    """Say whether a lazy Array is computed from the one that is assigned to, at other places perhaps."""
    if not isinstance(payload, Array) or not is_lazy(payload):
        return False
    ours, memory = target._core, values_of(target)
    for one in members_of(payload):
        values = values_of(one) if isinstance(one, Array) else one
        if values is not None:
            if memory is not None and np.may_share_memory(values, memory):
                return True
        elif one._core.id == ours.id or (ours.located is not None and one._core.located == ours.located):
            return True
    return False


def _masked(target: Array, mask: Expression, value: Any) -> Expression:
    """Return the array with one number where the mask is true."""
    if np.ndim(value) != 0:
        raise ShapeError(
            f"setitem: the value is {shape_text(np.shape(value))} and the mask is lazy; one number is needed "
            "(a value for each place: Z[...] = fl.where(mask, value, Z))."
        )
    return where(mask, constant(np.asarray(value, target.dtype)), target)


def _indices(target: Array, mask: Expression) -> NDArray[Any]:
    """Return a lazy key of fewer dimensions, which fits in memory as any key does."""
    if mask.dtype.kind not in "biu" or (mask.dtype == np.bool_ and mask.ndim >= len(target.shape)):
        raise ShapeError(
            f"setitem: the mask is {shape_text(mask.shape)} {mask.dtype.name} and the array "
            f"{shape_text(target.shape)}; booleans of its shape are needed."
        )
    return np.asarray(mask)


def _rows(call: Call, target: Array, given: Expression, box: BasicIndexer) -> int:
    """Return how many rows are computed at a time: PIECE bytes in whole chunks, fewer under a low limit.

    Looked at before any is computed: they must fit while they are computed, and while they are written.
    """
    chunk = target.chunks[0] if target.chunks and target.chunks[0] < target.shape[0] else 1
    row = max(1, given.nbytes // box.shape[0])
    rows = max(1, PIECE // max(1, box.bounding_row * target.dtype.itemsize))
    rows = min(max(chunk, rows // chunk * chunk), box.shape[0])
    while True:
        computed = _pass(call, given, [0] * given.ndim, (rows, *given.shape[1:])).least()
        written = (
            _core.resident_bytes() + rows * row + requests.transfer_bytes(target, rows * row, given.dtype)
        )
        again = _SECOND if rows < box.shape[0] else 0
        least = max(computed, written + _core.allowed_drift) + again
        if least <= call.memory + _core.allowed_drift:
            return rows
        call.tidy()  # what counting took
        if rows <= chunk:
            call.check_least(least)
            return rows
        rows = max(chunk, rows // 2 // chunk * chunk)


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
        del values  # before the next are computed
