"""What lies beyond the edges, as users say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from .arguments import check_field, shown, told_number

__all__ = ["set_edges"]

_RULES = ("fixed", "periodic", "neumann", "mirror")


def set_edges(
    who: str, core: _core.Stencil, boundary: Any, ndim: int, dtype: np.dtype[Any]
) -> tuple[str, list[Any]]:
    """Tell the core the rule of each axis and side; return how plans name them, and all of them as JSON."""
    each = _by_axis(who, boundary, ndim)
    told, sides = [], []
    for dimension, given in enumerate(each):
        pair = list(given) if isinstance(given, (tuple, list)) else [given, given]
        if len(pair) != 2:
            raise ValueError(
                f"{who}: the boundary of axis {dimension} is {shown(given)}; a rule, or a pair (low, high), "
                "is needed."
            )
        low, high = pair
        rules = [_rule(who, side, dtype) for side in (low, high)]
        if (rules[0][0] == "periodic") != (rules[1][0] == "periodic"):
            raise ValueError(f"{who}: axis {dimension} is periodic on one side only; both sides are needed.")
        for high_side, (name, value) in enumerate(rules):
            core.edge(dimension, bool(high_side), name, value)
        names = [name for name, _ in rules]
        sides.append([[name, told_number(value[()])] for name, value in rules])
        told.append(names[0] if names[0] == names[1] else "/".join(names))
    return told[0] if len(set(told)) == 1 else ", ".join(told), sides


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


def _rule(who: str, given: Any, dtype: np.dtype[Any]) -> tuple[str, NDArray[Any]]:
    value: Any = 0
    if isinstance(given, Mapping):
        if set(given) != {"fixed"}:
            raise ValueError(f"{who}: boundary {shown(given)} is not possible; {{'fixed': value}} is.")
        given, value = "fixed", given["fixed"]
    if not isinstance(given, str) or given not in _RULES:
        raise ValueError(f"{who}: there is no boundary {shown(given)}; choose one of {', '.join(_RULES)}.")
    check_field(who, "a fixed boundary", value)
    values = np.asarray(value)
    if values.ndim:
        raise ValueError(f"{who}: a fixed boundary is {values.ndim}-dimensional; one number is needed.")
    fits = values.dtype.kind != "c" or dtype.kind == "c"
    if fits and dtype.kind in "iu":  # what wraps around or is cut off is no longer what was given
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        fits = bool(np.isfinite(values)) and low <= values.item() <= high and values.item() == int(values)
    if not fits:
        raise TypeError(f"{who}: a fixed boundary is {shown(value)}; a number of {dtype.name} is needed.")
    return given, values.astype(dtype)
