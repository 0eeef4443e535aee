"""Index expressions: which box of an array covers them, and how the result lies in it."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex

import numpy as np

__all__ = ["BasicIndexer", "Key", "without_new_axes"]

Key = Any


def without_new_axes(key: Key) -> tuple[Key, tuple[Any, ...] | None]:
    """Return an index without None, and what adds those dimensions to what it selects; None: there are none.

    Beside arrays and masks NumPy's None moves dimensions: such a key is returned as it is, to be refused.
    """
    items = key if isinstance(key, tuple) else (key,)
    if not any(item is None for item in items):
        return key, None
    kept = [item for item in items if item is not None]
    if not all(item is Ellipsis or isinstance(item, slice) or _is_whole(item) for item in kept):
        return key, None
    stays = [item for item in items if not _is_whole(item)]
    return tuple(kept), tuple(item if item is None or item is Ellipsis else slice(None) for item in stays)


def _is_whole(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)) or np.ndim(item):
        return False
    return hasattr(item, "__index__")


class BasicIndexer:
    """An index expression against a shape: covering box, steps, flips, and the dimensions that stay."""

    def __init__(self, key: Key, shape: tuple[int, ...]) -> None:
        keys = self._expand(key if isinstance(key, tuple) else (key,), len(shape))
        self.start: list[int] = []
        self.step: list[int] = []
        counts: list[int] = []
        kept: list[int] = []
        flips: list[slice] = []
        for axis, (item, extent) in enumerate(zip(keys, shape, strict=True)):
            if isinstance(item, slice):
                first, stop, step = item.indices(extent)
                number = len(range(first, stop, step))
                if step < 0:
                    first, step = first + (number - 1) * step, -step
                flips.append(slice(None, None, -1 if item.step is not None and item.step < 0 else 1))
                kept.append(number)
            else:
                first, step, number = self._integer(item, axis, extent), 1, 1
                flips.append(slice(None))
            self.start.append(max(0, min(first, extent)) if number else 0)
            self.step.append(step)
            counts.append(number)
        self.shape = tuple(counts)  # of the result, integers included as 1
        self.kept = tuple(kept)  # of the result
        self.flips = tuple(flips) if any(f.step == -1 for f in flips) else ()
        self.strided = any(s > 1 and n > 1 for s, n in zip(self.step, self.shape, strict=True))
        self.count = math.prod(counts)

    @staticmethod
    def _expand(keys: tuple[Any, ...], ndim: int) -> list[Any]:
        dots = sum(1 for item in keys if item is Ellipsis)
        if dots > 1:
            raise IndexError("index: only one ellipsis (...) is possible.")
        if len(keys) - dots > ndim:
            raise IndexError(
                f"index: {len(keys) - dots} indices were given and the array has {ndim} dimensions."
            )
        missing = [slice(None)] * (ndim - (len(keys) - dots))
        at = next((i for i, item in enumerate(keys) if item is Ellipsis), len(keys))
        return [*keys[:at], *missing, *keys[at + (1 if dots else 0) :]]

    @staticmethod
    def _integer(item: SupportsIndex, axis: int, extent: int) -> int:
        if isinstance(item, list) or (isinstance(item, np.ndarray) and item.ndim > 0):
            raise TypeError(
                f"index: {type(item).__name__} is not possible here; use integers, slices and '...', or "
                "compute it first and index what flagstone.compute gives."
            )
        if not _is_whole(item):
            raise IndexError(
                f"index: {type(item).__name__} is not possible here; use integers, slices, '...', arrays of "
                "integers and masks (True and False, and None beside arrays or in an assignment, add a "
                "dimension: index what was loaded)."
            )
        index = item.__index__()
        if not -extent <= index < extent:
            raise IndexError(f"index: {index} is out of bounds for axis {axis} with {extent} elements.")
        return index % extent

    @property
    def bounding_row(self) -> int:
        """Elements of the covering box in one row of it."""
        row = 1
        for step, number in zip(self.step[1:], self.shape[1:], strict=True):
            row *= (number - 1) * step + 1
        return row

    def pieces(self, rows: int) -> Any:
        """Yield boxes of about `rows` rows: (start, shape, where in the result, steps inside the box)."""
        if not self.shape:
            yield [], [], (...,), ()  # an ellipsis: a view, where () would give a number
            return
        per = max(1, rows // self.step[0])
        steps = tuple(slice(None, None, s) for s in self.step)
        for first in range(0, self.shape[0], per):
            last = min(first + per, self.shape[0])
            numbers = [last - first, *self.shape[1:]]
            start = [self.start[0] + first * self.step[0], *self.start[1:]]
            shape = [(n - 1) * s + 1 for n, s in zip(numbers, self.step, strict=True)]
            yield start, shape, (slice(first, last),), steps
