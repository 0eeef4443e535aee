"""Arrays with their elements at other places: reversed, rolled, repeated, stretched; none is moved."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .mapped import Axis, axis_of, line, mapped, member

__all__ = ["broadcast_to", "expand_dims", "flip", "repeat", "roll", "squeeze", "tile"]


def _axes(who: str, axis: Any, ndim: int) -> tuple[int, ...]:
    found = tuple(axis_of(who, one, ndim) for one in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(found)) != len(found):
        raise ValueError(f"{who}: an axis is named twice; name each once.")
    return found


def _whole(who: str, what: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{who}: {what} is {value!r}; an integer is needed.")
    return operator.index(value)


def _made(what: str, given: Any, axis_at: Callable[[int], Axis]) -> Array:
    return mapped(f"an array, {what}", [given], [axis_at(d) for d in range(given.ndim)])


def expand_dims(a: Any, axis: Any = 0) -> Array:
    """Return the array with new axes of one index; nothing is moved.

    Parameters
    ----------
    a : Array, Expression or ndarray
    axis : int or tuple of int
        Where they stand in the result.

    Returns
    -------
    Array
    """
    given = member("expand_dims", a)
    number = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = _axes("expand_dims", axis, given.ndim + number)
    own = iter(range(given.ndim))
    axes: list[Axis] = [
        ("stretch", -1, 1) if d in new else ("same", next(own), 0) for d in range(given.ndim + number)
    ]
    return mapped("an array with new axes", [given], axes)


def squeeze(a: Any, axis: Any = None) -> Array:
    """Return the array without axes of one index; nothing is moved.

    Parameters
    ----------
    a : Array, Expression or ndarray
    axis : int or tuple of int, optional
        Which; default: all that have one index.

    Returns
    -------
    Array
    """
    given = member("squeeze", a)
    gone = (
        tuple(d for d, n in enumerate(given.shape) if n == 1) if axis is None
        else _axes("squeeze", axis, given.ndim)
    )  # fmt: skip
    if any(given.shape[d] != 1 for d in gone):
        raise ShapeError(
            f"squeeze: the array is {shape_text(given.shape)}; only axes of one index can go, axis is {axis}."
        )
    return mapped(
        "an array without axes", [given], [("same", d, 0) for d in range(given.ndim) if d not in gone]
    )


def flip(m: Any, axis: Any = None) -> Array:
    """Return the array with the order of elements reversed along axes; nothing is moved.

    Parameters
    ----------
    m : Array, Expression or ndarray
    axis : int or tuple of int, optional
        Which; default: all.

    Returns
    -------
    Array
    """
    given = member("flip", m)
    turned = tuple(range(given.ndim)) if axis is None else _axes("flip", axis, given.ndim)
    return _made("reversed", given, lambda d: ("flip" if d in turned else "same", d, 0))


def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    """Return the array with elements moved round along axes: the last come first; none is moved on the disk.

    Parameters
    ----------
    a : Array, Expression or ndarray
    shift : int or tuple of int
        By how many places; one for each axis, or one for all.
    axis : int or tuple of int, optional
        Along which; default: of an array with one dimension.

    Returns
    -------
    Array
    """
    given = member("roll", a)
    if axis is None:
        line("roll", given)
        axis = 0
    named = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(named)
    named = tuple(named) * (len(shifts) if len(named) == 1 else 1)
    if len(shifts) != len(named):
        raise ValueError(f"roll: {len(shifts)} shifts and {len(named)} axes; give one shift for each axis.")
    amount = [0] * given.ndim
    for one, by in zip(named, shifts, strict=True):
        amount[axis_of("roll", one, given.ndim)] += _whole("roll", "shift", by)
    moved = [by % n if n else 0 for by, n in zip(amount, given.shape, strict=True)]
    return _made("rolled", given, lambda d: ("roll" if moved[d] else "same", d, moved[d]))


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Array:
    """Return the array with every element `repeats` times, one after the other; computed as it is loaded.

    Parameters
    ----------
    a : Array, Expression or ndarray
    repeats : int
        How often, the same for all.
    axis : int, optional
        Along which; default: of an array with one dimension.

    Returns
    -------
    Array
    """
    given = member("repeat", a)
    if axis is None:
        line("repeat", given)
        axis = 0
    if np.ndim(repeats):
        raise TypeError("repeat: repeats is an array; one number for all elements is needed.")
    times, along = _whole("repeat", "repeats", repeats), axis_of("repeat", axis, given.ndim)
    if times < 0:
        raise ValueError(f"repeat: repeats is {times}; it must not be negative.")
    if times == 0:
        return _empty(given, along)
    return _made("repeated", given, lambda d: ("repeat" if d == along else "same", d, times))


def tile(A: Any, reps: Any) -> Array:
    """Return the array `reps` times side by side; computed as it is loaded.

    Parameters
    ----------
    A : Array, Expression or ndarray
    reps : int or tuple of int
        How often along each axis, from the last one on; more of them than axes add new ones.

    Returns
    -------
    Array
    """
    given = member("tile", A)
    times = [_whole("tile", "reps", one) for one in (reps if isinstance(reps, (tuple, list)) else (reps,))]
    if any(one < 0 for one in times):
        raise ValueError(f"tile: reps is {tuple(times)}; no number may be negative.")
    if len(times) > given.ndim:
        given = expand_dims(given, tuple(range(len(times) - given.ndim)))
    times = [1] * (given.ndim - len(times)) + times
    if 0 in times:
        return _empty(given, times.index(0), [n * t for n, t in zip(given.shape, times, strict=True)])
    return _made("tiled", given, lambda d: ("tile" if times[d] > 1 else "same", d, times[d]))


def _empty(given: Any, along: int, shape: Sequence[int] | None = None) -> Array:
    from .creation import zeros

    nothing = [0 if d == along else n for d, n in enumerate(given.shape)] if shape is None else list(shape)
    return zeros(tuple(nothing), given.dtype)


def broadcast_to(array: Any, shape: Any) -> Array:
    """Return the array with axes of one index stretched, and new ones in front, as NumPy broadcasts.

    Parameters
    ----------
    array : Array, Expression or ndarray
    shape : int or tuple of int
        Of the result.

    Returns
    -------
    Array
    """
    given = member("broadcast_to", array)
    wanted = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    extents = [_whole("broadcast_to", "an extent", n) for n in wanted]
    new = len(extents) - given.ndim
    if new < 0 or any(n not in (1, m) for n, m in zip(given.shape, extents[new:], strict=True)):
        raise ShapeError(
            f"broadcast_to: the array is {shape_text(given.shape)} and cannot be stretched to "
            f"{shape_text(tuple(extents))}; extents must be equal, or 1 where they differ."
        )
    axes: list[Axis] = [("stretch", -1, n) for n in extents[:new]]
    for d, (n, m) in enumerate(zip(given.shape, extents[new:], strict=True)):
        axes.append(("same", d, 0) if n == m else ("stretch", d, m))
    return mapped("an array, stretched", [given], axes)
