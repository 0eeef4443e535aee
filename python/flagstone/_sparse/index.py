"""What an index of a sparse matrix chooses: rows or columns as they are stored, each once, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.elementwise import Elementwise
from .._array.requests import shape_text
from .._errors.classes import ShapeError

__all__ = ["Chosen", "as_slice", "chosen", "keys_of", "whole", "within"]

#: Increasing numbers of rows or columns.
Chosen = range | NDArray[np.int64]

_AXES = ("row", "column")


def keys_of(key: Any) -> tuple[Any, Any]:
    """Return what an index says of the two axes; what it does not name is all."""
    keys: list[Any] = list(key) if isinstance(key, tuple) else [key]
    dots = [at for at, item in enumerate(keys) if item is Ellipsis]
    if len(dots) > 1 or len(keys) - len(dots) > 2:
        raise IndexError(
            f"index: {len(keys)} indices were given and a SparseArray has 2 dimensions; give rows and "
            "columns."
        )
    missing = [slice(None)] * (2 - (len(keys) - len(dots)))
    at = dots[0] if dots else len(keys)
    both = [*keys[:at], *missing, *keys[at + len(dots) :]]
    return both[0], both[1]


def whole(item: Any, extent: int) -> bool:
    """Say whether a slice leaves nothing out."""
    return isinstance(item, slice) and item.indices(extent) == (0, extent, 1)


def chosen(item: Any, axis: int, extent: int) -> Chosen:
    """Return the rows (axis 0) or columns that one part of an index names.

    A number, a slice with a positive step, a mask, increasing numbers; an Array, an expression or a pending
    reduction is computed first. Cost of a mask: 8 bytes of memory for each that it chooses.
    """
    name = _AXES[axis]
    if isinstance(item, slice):
        start, stop, step = item.indices(extent)
        if step < 0:
            raise ShapeError(_order(name, f"the step is {step}"))
        return range(start, max(start, stop), step)
    if hasattr(item, "__index__") and not isinstance(item, (bool, np.bool_, np.ndarray, Elementwise)):
        number = _within_bounds(item.__index__(), axis, extent)
        return range(number, number + 1)
    given = np.asarray(item)
    if given.ndim == 1 and given.size == 0 and not isinstance(item, (np.ndarray, Elementwise)):
        given = given.astype(np.int64)  # an empty list
    if given.dtype == np.bool_ and given.ndim == 1:
        if given.shape != (extent,):
            raise ShapeError(
                f"index: the mask of {name}s has {len(given)} elements and the matrix {extent} {name}s; "
                "give one for each."
            )
        return _stretch(np.flatnonzero(given))
    if given.ndim != 1 or given.dtype.kind not in "iu":
        what = "None" if item is None else f"{type(item).__name__} of {shape_text(given.shape)} {given.dtype}"
        raise TypeError(
            f"index: {name}s are {what}; give a number, a slice, a mask of {extent} or increasing numbers."
        )
    for number in given[(given >= extent) | (given < -extent)][:1]:
        _within_bounds(int(number), axis, extent)
    numbers = given.astype(np.int64)
    numbers[numbers < 0] += extent
    if len(numbers) > 1 and not (numbers[1:] > numbers[:-1]).all():
        at = int(np.argmax(numbers[1:] <= numbers[:-1]))
        raise ShapeError(_order(name, f"{numbers[at + 1]} comes after {numbers[at]}"))
    return _stretch(numbers)


def _order(name: str, what: str) -> str:
    return (
        f"index: {what}, and a SparseArray gives {name}s in increasing order, each once; sort them "
        "(np.unique), or take to_scipy() for another order."
    )


def _within_bounds(number: int, axis: int, extent: int) -> int:
    if not -extent <= number < extent:
        raise IndexError(f"index: {number} is out of bounds for axis {axis} with {extent} elements.")
    return number % extent


def _stretch(numbers: NDArray[np.int64]) -> Chosen:
    """Return numbers as a range where they are one."""
    if not len(numbers):
        return range(0)
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        return range(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers.astype(np.int64, copy=False)


def as_slice(numbers: Chosen) -> Any:
    """Return what picks them from an ndarray."""
    if isinstance(numbers, range):
        return slice(numbers.start, numbers.stop, numbers.step)
    return numbers


def within(outer: Chosen | None, inner: Chosen) -> Chosen:
    """Return the choice `inner` of what `outer` chose, in the numbers that `outer` has."""
    if outer is None:
        return inner
    if isinstance(inner, range):
        return outer[inner.start : inner.stop : inner.step]
    return outer.start + inner * outer.step if isinstance(outer, range) else outer[inner]
