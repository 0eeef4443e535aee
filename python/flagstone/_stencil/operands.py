"""Operands of time loops: states, coefficients, as the core reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array.array import Array, shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.expression import Expression, as_expression, cast
from .._expression.operand import as_array, lazy_operand
from .._lazy.places import broadcast_to
from .._runtime.call import Call

__all__ = ["coefficient", "operand", "several"]


def several(given: Any) -> list[Any]:
    """Return the members of a sequence, or what was given alone."""
    return list(given) if isinstance(given, (tuple, list)) else [given]


def operand(call: Call, given: Any, name: str) -> Operand:
    """Return an array as it is seen: turned where it is read."""
    given = lazy_operand(call, given)
    if isinstance(given, Array):
        given.flush()
    found = Operand.plain(call, given, name)
    if (found.transposed and len(found.shape) > 1) or found.conjugated:
        found = Operand.plain(call, broadcast_to(given, found.shape), name)
    return found


def coefficient(call: Call, given: Any, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Operand:
    """Return a coefficient of the field's shape and dtype; one that broadcasts is computed lazily."""
    name = f"coefficient {number}"
    value = as_expression(given if isinstance(given, Expression) else lazy_operand(call, given), call.who)
    if value.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"{call.who}: {name} is {value.dtype.name} and the field {dtype.name}.")
    try:
        fits = np.broadcast_shapes(value.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{call.who}: {name} is {shape_text(value.shape)} and does not broadcast to {shape_text(shape)}."
        )
    value = cast(value, dtype)
    seen = value.payload if value.verb == "leaf" else as_array(call, value)
    return operand(call, seen if value.shape == shape else broadcast_to(seen, shape), name)
