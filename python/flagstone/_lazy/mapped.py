"""Arrays whose elements are elements of others at other places, and how they are made again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array
from .._array.handle import Lazy, Operand, is_conjugated, lazy_array
from .._errors.classes import ShapeError
from .._expression.expression import Expression, as_expression, cast
from .._expression.operand import as_array
from .._resume.identity import identity
from .._resume.openers import operand, told_values
from .._resume.registers import opener
from .._runtime.call import Call

__all__ = ["Axis", "axis_of", "core_of", "mapped", "member"]

#: What a dimension of the result is, of which dimension of the members (-1: of none), how many times or far.
Axis = tuple[str, int, int]


def member(who: str, given: Any, dtype: np.dtype[Any] | None = None) -> Array | np.ndarray[Any, Any]:
    """Return an operand as elements that lie somewhere, or are computed where they are loaded.

    `dtype`: converted to it, lazily.
    """
    if hasattr(given, "tocsr") or type(given).__name__ == "SparseArray":
        raise TypeError(
            f"{who}: a sparse matrix was given; dense arrays are put together here, convert it first."
        )
    node = as_expression(given, who)
    if dtype is not None:
        node = cast(node, dtype)
    if node.verb == "leaf":
        payload: Array | np.ndarray[Any, Any] = node.payload
        return payload
    if node.verb == "constant":
        return np.asarray(node.payload)
    return as_array(Call(who, light=True), node)


def mapped(text: str, members: Sequence[Array | np.ndarray[Any, Any]], axes: Sequence[Axis]) -> Array:
    """Return the Array that axes make of members of one dtype; nothing is moved."""
    core = _core.mapped_array([core_of(one) for one in members], list(axes))
    told = [list(axis) for axis in axes]
    return lazy_array(core, Lazy(text, tuple(members), "mapped", lambda: [text, _told(members), told]))


def core_of(given: Array | np.ndarray[Any, Any]) -> _core.Array:
    """Return what is read of a member, with its dimensions as they are seen."""
    if isinstance(given, Array) and is_conjugated(given):
        given = as_array(Call("conj", light=True), as_expression(given, "conj"))
    found = Operand.of(given)
    if not found.transposed:
        return found.core
    dims = len(found.shape)
    return _core.mapped_array([found.core], [("same", dims - 1 - d, 0) for d in range(dims)])


def _told(members: Sequence[Array | np.ndarray[Any, Any]]) -> list[Any]:
    return [identity(one) if isinstance(one, Array) else told_values(one) for one in members]


@opener("mapped")
def _again(text: str, told: list[Any], axes: list[Any]) -> Array:
    return mapped(text, [operand("a member", one) for one in told], [tuple(axis) for axis in axes])


def axis_of(who: str, axis: Any, ndim: int) -> int:
    """Return an axis that is not negative; NumPy's error where there is none such."""
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"{who}: axis is {axis!r}; an integer is needed.")
    number = int(axis.__index__())
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return number % ndim


def line(who: str, given: Any) -> None:
    """Refuse what NumPy makes one line of first: that is a reshape."""
    if given.ndim != 1:
        raise ShapeError(
            f"{who}: axis is None and the array has {given.ndim} dimensions, which NumPy would make one line "
            "of; name an axis."
        )


def typed(who: str, given: Any) -> Array | np.ndarray[Any, Any] | Expression:
    """Return an operand whose shape and dtype are known, before anything is made of it."""
    node = as_expression(given, who)
    if node.verb == "leaf":
        payload: Array | np.ndarray[Any, Any] = node.payload
        return payload
    return node
