"""What lies beyond the edges, as users say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._array.array import shape_text
from ..._resume.openers import told_values
from ..._runtime.arguments import held_in
from .arguments import check_field, shown, told_number

__all__ = ["set_edges"]

_RULES = ("fixed", "periodic", "neumann", "mirror")


def set_edges(
    who: str, core: _core.Stencil, boundary: Any, shape: tuple[int, ...], dtype: np.dtype[Any], steps: int
) -> tuple[str, list[Any], bool]:
    """Tell the core the rule of each axis and side.

    Returns how plans name them, all of them as JSON, and whether one changes with the steps.
    """
    each = _by_axis(who, boundary, len(shape))
    told, sides = [], []
    for dimension, given in enumerate(each):
        pair = list(given) if isinstance(given, (tuple, list)) else [given, given]
        if len(pair) != 2:
            raise ValueError(
                f"{who}: the boundary of axis {dimension} is {shown(given)}; a rule, or a pair (low, high), "
                "is needed."
            )
        face = shape[:dimension] + shape[dimension + 1 :]
        rules = [_rule(who, side, dtype, face, steps) for side in pair]
        if (rules[0][0] == "periodic") != (rules[1][0] == "periodic"):
            raise ValueError(f"{who}: axis {dimension} is periodic on one side only; both sides are needed.")
        for high_side, (name, what, values) in enumerate(rules):
            core.edge(dimension, bool(high_side), name, values, what)
        names = [name for name, _, _ in rules]
        sides.append([
            [name, what, told_number(values[()]) if what == "number" else told_values(values)]
            for name, what, values in rules
        ])  # fmt: skip
        told.append(names[0] if names[0] == names[1] else "/".join(names))
    changes = any(what == "series" for axis in sides for _, what, _ in axis)
    return told[0] if len(set(told)) == 1 else ", ".join(told), sides, changes


def _by_axis(who: str, boundary: Any, ndim: int) -> list[Any]:
    if isinstance(boundary, (str, Mapping)):
        return [boundary] * ndim
    given = list(boundary) if isinstance(boundary, (list, tuple)) else None
    if given is None or len(given) != ndim:
        raise ValueError(
            f"{who}: boundary is {shown(boundary)}; a word, {{'fixed': value}}, or one of these for each of "
            f"{ndim} axes is needed (a pair for an axis: low, high)."
        )
    return given


def _rule(
    who: str, given: Any, dtype: np.dtype[Any], face: tuple[int, ...], steps: int
) -> tuple[str, str, NDArray[Any]]:
    value: Any = 0
    if isinstance(given, Mapping):
        if set(given) != {"fixed"}:
            raise ValueError(f"{who}: boundary {shown(given)} is not possible; {{'fixed': value}} is.")
        given, value = "fixed", given["fixed"]
    if not isinstance(given, str) or given not in _RULES:
        raise ValueError(f"{who}: there is no boundary {shown(given)}; choose one of {', '.join(_RULES)}.")
    if callable(value):
        each = [_numbers(who, value(t), dtype) for t in range(steps)]
        if any(one.ndim for one in each):
            raise ValueError(f"{who}: a fixed boundary's function returned an array; one number is needed.")
        return given, "series" if each else "number", np.array(each or 0, dtype)
    values = _numbers(who, value, dtype)
    if values.ndim and values.shape != face:
        needed = f"one number, or an array of {shape_text(face)}, is" if face else "one number is"
        raise ValueError(
            f"{who}: a fixed boundary is {values.ndim}-dimensional ({shape_text(values.shape)}); {needed} "
            "needed."
        )
    return given, "face" if values.ndim else "number", values


def _numbers(who: str, value: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return what was given in the field's dtype, or refuse what is cut off or wraps around there."""
    check_field(who, "a fixed boundary", value)
    held = held_in(np.asarray(value), dtype)
    if held is None:
        raise TypeError(f"{who}: a fixed boundary is {shown(value)}; a number of {dtype.name} is needed.")
    return held
