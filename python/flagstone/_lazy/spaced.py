"""Evenly spaced numbers: nothing is stored and nothing is read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._array.array import Array
from .._errors.messages import shown
from .._expression.expression import as_expression, cast, from_ufunc
from .._expression.operand import as_array
from .._runtime.arguments import whole_number
from .._runtime.call import Call
from .generated import generated, number_dtype

__all__ = ["arange", "linspace"]


def _as(array: Array, kind: np.dtype[Any]) -> Array:
    if array.dtype == kind:
        return array
    return as_array(Call("astype", light=True), cast(as_expression(array, "astype"), kind))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    """Return evenly spaced numbers from `start` (0, where one number is given) up to `stop`, lazily.

    Parameters
    ----------
    start, stop, step : number
        As for NumPy's ``arange``.
    dtype : dtype, optional
        Default: NumPy's of the numbers.

    Returns
    -------
    Array
        Read-only; the same numbers as NumPy's.
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: step is 0; another number is needed.")
    common = np.result_type(*(np.arange(x, x, step).dtype for x in (start, stop)))
    kind = number_dtype("arange", dtype, common)
    if kind.kind == "c" or any(isinstance(x, complex) for x in (start, stop, step)):
        raise TypeError("arange: complex numbers have no order; add a real range and an imaginary one.")
    number = max(0, math.ceil((stop - start) / step))
    # NumPy counts on from the first two elements in the dtype of the result (half precision in float32).
    counted = np.dtype({"f2": "f4", "f4": "f4"}.get(kind.str[1:], "f8") if kind.kind == "f" else "i8")
    if kind == np.uint64:
        counted = kind
    first, second = (np.asarray(x).astype(kind).astype(counted)[()] for x in (start, start + step))
    with np.errstate(over="ignore"):
        each = second - first
    return _as(generated(f"{number} numbers", "linear", number, first, each), kind)


def _check_real(name: str, given: Any) -> None:
    try:
        value = np.asarray(given)
    except ValueError:  # rows of several lengths
        value = np.empty(1)
    if value.ndim or value.dtype.kind not in "biuf":
        raise TypeError(f"linspace: {name} is {shown(given)}; a real number is needed.")


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None) -> Array:
    """Return `num` evenly spaced numbers from `start` to `stop`, lazily.

    Parameters
    ----------
    start, stop : number
        Real.
    num : int
        How many.
    endpoint : bool
        Whether `stop` is the last one.
    dtype : dtype, optional
        Default: float64, or the numbers' own; integers are rounded down.

    Returns
    -------
    Array
        Read-only; computed in float64, then converted. The same numbers as NumPy's; where both `start` and
        `stop` are of float32 or float16, NumPy computes in that dtype, and its numbers are less exact.
    """
    number = whole_number("linspace", "num", num, 0, (1 << 60) - 1)  # bytes are counted in 63 bits
    _check_real("start", start)
    _check_real("stop", stop)
    # As NumPy does of ends of float64; of narrower ones it computes in their dtype, which loses digits.
    kind = number_dtype("linspace", dtype, np.result_type(start, stop, 0.0))
    call = Call("linspace", light=True)
    steps = number - 1 if endpoint else number
    first, last = np.float64(start), np.float64(stop)
    each = np.float64((last - first) / steps if steps > 0 else np.nan)
    if number == 1:
        each = np.float64(0)
    if np.isfinite(last - first):
        first = first + 0 * (
            last - first
        )  # NumPy adds no step to it: -0.0 becomes 0.0, unless steps are negative
    ends = [last] if endpoint and number > 1 else []
    made = generated(f"{number} numbers", "linear", number, first, each, *ends)
    if (
        each == 0 and number > 1 and first != last
    ):  # below the least float64: NumPy divides what it counts instead
        counted = generated(f"{number} numbers", "linear", number, np.float64(0), np.float64(1))
        shares = from_ufunc(np.divide, (counted, np.float64(steps)))
        made = as_array(call, from_ufunc(np.add, (from_ufunc(np.multiply, (shares, last - first)), first)))
    if kind.kind in "iu":
        return as_array(call, cast(from_ufunc(np.floor, (made,)), kind))
    return _as(made, kind)
