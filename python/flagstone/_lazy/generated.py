"""Arrays that the core generates, and how a record makes them again; what shapes and dtypes may be."""

from __future__ import annotations

import base64
import operator
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Lazy, lazy_array
from .._errors.classes import ShapeError
from .._resume.registers import opener
from .._runtime.arguments import dtype_of

__all__ = ["below_diagonal", "extents", "generated", "number_dtype"]


def number_dtype(who: str, dtype: Any, default: Any = np.float64) -> np.dtype[Any]:
    """Return a dtype of numbers, in native byte order."""
    kind = dtype_of(who, default if dtype is None else dtype)
    if kind.kind not in "biufc" or kind.char in "gG":
        raise TypeError(f"{who}: dtype is {kind}; choose a number.")
    native: np.dtype[Any] = kind.newbyteorder("=")
    return native


def extents(who: str, shape: Any) -> list[int]:
    """Return the extents that a shape is."""
    given = tuple(shape) if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    try:
        found = [operator.index(n) for n in given]
    except TypeError:
        raise TypeError(f"{who}: shape is {shape!r}; an integer or a tuple of integers is needed.") from None
    if any(n < 0 for n in found):
        raise ShapeError(f"{who}: shape is {shape_text(tuple(found))}; extents must not be negative.")
    return found


def _text(value: Any) -> list[str]:
    values = np.asarray(value)
    return [values.dtype.name, base64.b64encode(values.tobytes()).decode("ascii")]


def _value(told: list[str]) -> Any:
    return np.frombuffer(base64.b64decode(told[1]), np.dtype(told[0])).reshape(())


def generated(what: str, kind: str, *arguments: Any) -> Array:
    """Return an array of the core; its arguments are whole numbers, lists of them and values of its dtype."""
    make: Any = {
        "constant": _core.constant_array, "linear": _core.linear_array, "diagonal": _core.diagonal_array,
        "triangle": _core.lower_triangle,
    }[kind]  # fmt: skip
    given = [np.ascontiguousarray(one) if isinstance(one, np.generic) else one for one in arguments]
    told = [["value", *_text(one)] if isinstance(one, np.generic) else one for one in arguments]
    return lazy_array(make(*given), Lazy(what, (), "generated", lambda: [what, kind, told]))


@opener("generated")
def _again(what: str, kind: str, told: list[Any]) -> Array:
    arguments = [
        _value(one[1:])[()] if isinstance(one, list) and one and one[0] == "value" else one for one in told
    ]
    return generated(what, kind, *arguments)


def below_diagonal(n: int, k: int) -> Array:
    """Return which elements of an n x n matrix lie on or below the diagonal `k`; nothing is stored."""
    return generated("a triangle", "triangle", [n, n], k)
