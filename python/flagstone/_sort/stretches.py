"""Long arrays in scratch that are made and read stretch by stretch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import STAGING, Array
from .._array.requests import take
from .._runtime.call import Call

__all__ = ["Stretch", "flat", "length_of", "part", "stretches"]

_BLOCK = 8 << 20  # bytes of a stretch
_HELD = 16 << 20  # what reading and writing stretches holds beside them


def length_of(call: Call, extent: int, each: int) -> int:
    """Return how many elements of `extent` are held at a time, where one takes `each` bytes altogether."""
    most = max(1, min(extent, _BLOCK // 8))
    return call.share("a stretch of elements", each, most, fixed=_HELD, least=min(most, 1024))


def part(call: Call, given: Any, first: int, last: int) -> NDArray[Any]:
    """Return elements [first, last) of an array with one dimension."""
    return take(given, call, np.s_[first:last]) if isinstance(given, Array) else given[first:last]


def stretches(call: Call, given: Any, step: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the first place and the elements of each stretch."""
    for first in range(0, given.shape[0], step):
        yield first, part(call, given, first, min(first + step, given.shape[0]))


class Stretch:
    """A new array in scratch that is filled from its begin to its end."""

    def __init__(self, call: Call, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        kind = np.dtype(dtype)
        self.call, self.at = call, 0
        size = int(np.prod(shape, dtype=object))
        self._result = call.result(name, size * kind.itemsize)
        path = self._result.path
        whole = _core.create_npy(path, list(shape), kind.name)
        whole.flush()
        offset = os.path.getsize(path) - size * kind.itemsize if size else 0
        self._path = path
        self._line = _core.open_raw(path, kind.name, [size], "C", offset, 0, True) if size else None

    def append(self, values: NDArray[Any]) -> None:
        """Write the next elements."""
        if self._line is not None and len(values):
            self.call.engine.write_boxes(self._line, [([self.at], np.ascontiguousarray(values))], STAGING)
            self.at += len(values)

    def close(self) -> Array:
        """Return the array, which goes with its last handle."""
        if self._line is not None:
            self._line.flush()
        self.call.tidy()  # temporaries of the stretches come from the heap, which keeps them
        made = Array(_core.open_npy(self._path), "r")
        self._result.tie(made)
        return made


def flat(call: Call, given: Any) -> Any:
    """Return the elements in C order along one dimension: a view of memory, or a copy in scratch."""
    if given.ndim == 1:
        return given
    if not isinstance(given, Array):
        if not given.flags.c_contiguous:
            call.room("the elements in C order", given.nbytes)
        return given.reshape(-1)
    made = Stretch(call, "flat", (given.size,), given.dtype)
    if given.size:
        row = max(1, given.nbytes // given.shape[0])
        step = call.share("a block of rows", 3 * row, max(1, min(given.shape[0], _BLOCK // row)), fixed=_HELD)
        for first in range(0, given.shape[0], step):
            made.append(take(given, call, np.s_[first : first + step]).reshape(-1))
    return made.close()
