"""What time loops take, checked before anything else looks at it: one sentence where it is something else."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._array.array import Array, shape_text
from ..._errors.classes import ShapeError
from ..._expression.expression import Expression
from ..._expression.reductions import Reduced
from ..._runtime.arguments import held_in, unmasked

__all__ = [
    "all_held",
    "check_field",
    "extents",
    "field_number",
    "listed",
    "number",
    "point_in",
    "series_of",
    "shown",
    "told_number",
    "whole_number",
]

_MOST_SHOWN = 60  # characters
_STRETCH = 1 << 16  # values that are looked at together


def shown(given: Any) -> str:
    """Return what was given, short enough for a sentence of one line."""
    try:
        text = " ".join(repr(given).split())
    except Exception:  # somebody else's repr
        text = ""
    return text if 0 < len(text) <= _MOST_SHOWN else f"a {type(given).__name__}"


def whole_number(who: str, name: str, given: Any, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`."""
    if isinstance(given, (bool, np.bool_)) or not hasattr(given, "__index__"):
        raise TypeError(f"{who}: {name} is {shown(given)}; a whole number is needed.")
    try:
        found = operator.index(given)
    except TypeError:  # an array of several
        raise TypeError(f"{who}: {name} is {shown(given)}; a whole number is needed.") from None
    if found < least:
        raise ValueError(f"{who}: {name} is {shown(found)}; {least} or more is needed.")
    if found > most:
        raise ValueError(f"{who}: {name} is {shown(found)}; {most} at most is possible.")
    return found


def extents(who: str, name: str, given: Any, length: int, needed: str) -> list[int]:
    """Return so many positive whole numbers; `needed` says what they are."""
    try:
        found = [] if isinstance(given, (str, bytes)) else [operator.index(n) for n in given]
    except TypeError:
        found = []
    if len(found) != length or min(found) < 1:
        raise ShapeError(f"{who}: {name} is {shown(given)}; {needed} is needed.")
    return [min(n, np.iinfo(np.int64).max) for n in found]


def number(who: str, name: str, given: Any) -> float:
    """Return a finite real number."""
    try:
        found = math.nan if isinstance(given, (str, bytes, bool)) else float(given)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{who}: {name} is {shown(given)}; a finite number is needed.")
    return found


def told_number(value: Any) -> list[float]:
    """Return a number as JSON."""
    return [float(value.real), float(value.imag)]


def listed(who: str, name: str, given: Any, each: str) -> list[Any]:
    """Return the members of a sequence; `each` says what they are."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, (Iterable, Sequence, np.ndarray)):
        raise TypeError(f"{who}: {name} is {shown(given)}; a list of {each} is needed.")
    try:
        return list(given)
    except TypeError:  # an array without dimensions
        raise TypeError(f"{who}: {name} is {shown(given)}; a list of {each} is needed.") from None


def series_of(who: str, given: Any, steps: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return what a source adds, one value a step, in the field's dtype."""
    try:
        values = np.asarray(unmasked(who, given))
    except ValueError:  # rows of several lengths
        values = np.asarray(None)
    if values.dtype.kind not in "biufc":
        raise TypeError(f"{who}: the series of a source is {shown(given)}; {steps} numbers are needed.")
    if values.shape != (steps,):
        raise ShapeError(
            f"{who}: the series of a source is {shape_text(values.shape) if values.ndim else 'one number'}; "
            f"{steps} values, one a step, are needed."
        )
    if values.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(
            f"{who}: the series of a source is {values.dtype.name} and the field {dtype.name}; give its real "
            "part, or a complex field."
        )
    held = held_in(values, dtype)
    if held is None:
        raise TypeError(
            f"{who}: the series of a source has values that {dtype.name} does not hold; give such as the "
            "field can have."
        )
    return held


def all_held(values: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Say whether another dtype holds all values; looks at them a stretch at a time, copies none for long."""
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    with np.nditer(values, flags, buffersize=_STRETCH) as stretches:
        return all(held_in(np.asarray(one), dtype) is not None for one in stretches)


def point_in(
    who: str, what: str, index: Any, shape: tuple[int, ...], fields: list[str]
) -> tuple[list[int], int]:
    """Return the place of a point inside a field, and the number of the field: a name before its index."""
    at = index if isinstance(index, (tuple, list, np.ndarray)) else (index,)
    field = 0
    if fields and len(at) > 0 and isinstance(at[0], str):
        field, at = field_number(who, f"a {what}", at[0], fields), at[1:]
    try:
        given = tuple(operator.index(i) for i in at)
    except TypeError:
        raise ShapeError(
            f"{who}: a {what} is at {shown(index)}; whole numbers, one for each axis, are needed."
        ) from None
    if len(given) != len(shape) or not all(0 <= i < n for i, n in zip(given, shape, strict=True)):
        raise ShapeError(
            f"{who}: a {what} is at {shown(given)} and the field is {shape_text(shape)}; an index inside is "
            "needed."
        )
    return list(given), field


def field_number(who: str, what: str, name: Any, fields: list[str]) -> int:
    """Return the number of a field by its name."""
    if name not in fields:
        raise ValueError(f"{who}: {what} is of the field {shown(name)}; choose among {', '.join(fields)}.")
    return fields.index(name)


def check_field(who: str, name: str, given: Any) -> None:
    """Refuse what is no array of numbers."""
    if isinstance(given, (Array, Expression, Reduced)):
        return
    unmasked(who, given)
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{who}: {name} is the text {shown(given)}; open it first, with fl.open(path).")
    if hasattr(given, "tocsr"):
        raise TypeError(f"{who}: {name} is a sparse {type(given).__name__}; a dense array is needed.")
    try:
        dtype = np.asarray(given).dtype
    except ValueError:
        dtype = np.dtype(object)
    if dtype.kind not in "biufc":
        raise TypeError(f"{who}: {name} is a {type(given).__name__}; an array of numbers is needed.")
    if dtype.char in "gG":
        raise TypeError(f"{who}: {name} is {dtype.name}; numbers of at most 64 bits a part are needed.")
