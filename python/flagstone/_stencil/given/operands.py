"""Operands of time loops: states, coefficients, as the core reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._array.array import Array, shape_text
from ..._array.handle import Operand
from ..._errors.classes import ShapeError
from ..._expression.expression import Expression, as_expression, cast
from ..._expression.operand import as_array, lazy_operand
from ..._expression.reductions import Reduced
from ..._lazy.places import broadcast_to
from ..._runtime.arguments import held_in, unmasked
from ..._runtime.call import Call
from .arguments import check_field, shown

__all__ = ["StepField", "coefficient", "field_names", "given_states", "operand", "several"]

_KINDS = "iufc"
_NAME = re.compile(r"(?!(snapshots|traces|reductions)$)[A-Za-z][A-Za-z0-9_]*")  # beside these in a group


@dataclass(frozen=True)
class StepField:
    """What a kernel is applied to, and who asks."""

    who: str
    ndim: int
    dtype: np.dtype[Any]
    order: int
    coefficients: int
    names: list[str]  # of fields; empty: one field


def field_names(who: str, what: str, given: Any) -> tuple[str, ...]:
    """Return names that fields of a state can have, each once."""
    listed = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    names = tuple(given) if listed else ()
    known = all(isinstance(name, str) and _NAME.fullmatch(name) for name in names)
    if not listed or not known or len(set(names)) < len(names):
        raise ValueError(
            f"{who}: {what} is {shown(given)}; names of fields, each once, are needed, as ('u', 'v')."
        )
    return names


def given_states(call: Call, state: Any) -> tuple[list[str], list[Operand]]:
    """Return the names of fields (a field alone has none), and the arrays; of a pair now comes first."""
    pair, names = isinstance(state, tuple), []
    if isinstance(state, list) or (pair and len(state) != 2):
        raise TypeError(
            f"{call.who}: state is a {type(state).__name__}; an array, a pair (before, now) or a dict of "
            "fields is needed."
        )
    given = [state[1], state[0]] if pair else [state]
    if isinstance(state, Mapping):
        names, given = list(state), list(state.values())
        if not names or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
            raise TypeError(
                f"{call.who}: the state's fields are {shown(names)}; names that a function's parameters can "
                "have are needed, and none of 'snapshots', 'traces', 'reductions'."
            )
    for one in given:
        check_field(call.who, "the state", one)
    found = [operand(call, one, "the state") for one in given]
    shape, dtype = found[0].shape, found[0].dtype
    if not 1 <= len(shape) <= 3:
        raise ShapeError(f"{call.who}: the state has {len(shape)} dimensions; 1, 2 or 3 are needed.")
    if dtype.kind not in _KINDS or dtype == np.float16:
        raise TypeError(f"{call.who}: the state is {dtype.name}; numbers of 32 bits or more, or integers.")
    for i, one in enumerate(found[1:], 1):
        if (one.shape, one.dtype) != (shape, dtype):
            which = (f"'{names[0]}'", f"'{names[i]}'") if names else ("now", "before")
            raise ShapeError(
                f"{call.who}: the state {which[0]} is {shape_text(shape)} {dtype.name} and {which[1]} "
                f"{shape_text(one.shape)} {one.dtype.name}; all must be equal."
            )
    return names, found


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


def _check_held(who: str, name: str, given: Any, own: np.dtype[Any], dtype: np.dtype[Any]) -> None:
    """Refuse what a field of integers cuts off or wraps around, by its values where they are in memory."""
    if dtype.kind not in "iu" or np.can_cast(own, dtype, "safe"):
        return
    stored = isinstance(given, (Array, Expression, Reduced))
    if stored or held_in(np.asarray(given), dtype) is None:
        raise TypeError(
            f"{who}: {name} is {own.name} and the field {dtype.name}, which does not hold all of it; give it "
            f"as {dtype.name} (.astype)."
        )


def coefficient(call: Call, given: Any, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Operand:
    """Return a coefficient of the field's shape and dtype; one that broadcasts is computed lazily."""
    name = f"coefficient {number}"
    unmasked(call.who, given)
    value = as_expression(given if isinstance(given, Expression) else lazy_operand(call, given), call.who)
    if value.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"{call.who}: {name} is {value.dtype.name} and the field {dtype.name}.")
    _check_held(call.who, name, given, value.dtype, dtype)
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
