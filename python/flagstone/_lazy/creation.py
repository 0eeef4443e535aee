"""Arrays whose elements follow from their places: nothing is stored and nothing is read."""

from __future__ import annotations

import base64
import math
import operator
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Lazy, lazy_array
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._expression.expression import Expression, as_expression, cast, from_ufunc, where
from .._expression.operand import as_array
from .._resume.registers import opener
from .._runtime.arguments import whole_number
from .._runtime.call import Call
from .mapped import Axis, mapped, member, typed

__all__ = [
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like",
    "planned", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def number_dtype(who: str, dtype: Any, default: Any = np.float64) -> np.dtype[Any]:
    """Return a dtype of numbers, in native byte order."""
    kind: np.dtype[Any] = np.dtype(default if dtype is None else dtype)
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


# What the core generates ------------------------------------------------------------------------------------


def _text(value: Any) -> list[str]:
    values = np.asarray(value)
    return [values.dtype.name, base64.b64encode(values.tobytes()).decode("ascii")]


def _value(told: list[str]) -> Any:
    return np.frombuffer(base64.b64decode(told[1]), np.dtype(told[0])).reshape(())


def _generated(what: str, kind: str, *arguments: Any) -> Array:
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
    return _generated(what, kind, *arguments)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """Return a read-only Array of one value; nothing is stored (`create` makes what can be assigned).

    Parameters
    ----------
    shape : int or tuple of int
    fill_value : number
    dtype : dtype, optional
        Default: NumPy's of the value.

    Returns
    -------
    Array
    """
    value = np.asarray(fill_value)
    if value.ndim:
        raise ShapeError(
            f"full: fill_value is {shape_text(value.shape)}; one number is needed (broadcast_to stretches an "
            "array)."
        )
    kind = number_dtype("full", dtype, value.dtype)
    return _generated("one value", "constant", extents("full", shape), value.astype(kind)[()])


def planned(shape: Any, dtype: Any = None, *, chunks: Any = None) -> Array:
    """Return an Array that is a shape alone: what plans take for an operand that does not exist yet.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional
        Default: float64.
    chunks : tuple of int, optional
        How it would be stored; default as `create`.

    Returns
    -------
    Array
        Reading it, or running a routine on it, is refused.

    Examples
    --------
    >>> A = fl.planned((200_000, 200_000))
    >>> plan = fl.matmul.plan(A, A, memory="64GiB")
    """
    kind, whole = number_dtype("planned", dtype), extents("planned", shape)
    cut = [] if chunks is None else extents("planned", chunks)
    return Array(_core.planned_array(whole, kind.name, cut))


def zeros(shape: Any, dtype: Any = None) -> Array:
    """Return a read-only Array of zeros; nothing is stored (`create` makes what can be assigned).

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional
        Default: float64.

    Returns
    -------
    Array
    """
    return full(shape, 0, number_dtype("zeros", dtype))


def ones(shape: Any, dtype: Any = None) -> Array:
    """Return a read-only Array of ones, as `zeros`.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional
        Default: float64.

    Returns
    -------
    Array
    """
    return full(shape, 1, number_dtype("ones", dtype))


def empty(shape: Any, dtype: Any = None) -> Array:
    """Return a read-only Array of zeros: it has no elements of its own, and nothing else to show.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional
        Default: float64.

    Returns
    -------
    Array
    """
    return full(shape, 0, number_dtype("empty", dtype))


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Array:
    """Return `full` of the shape and dtype of an array, or of those that are given.

    Parameters
    ----------
    a : Array, Expression or ndarray
    fill_value : number
    dtype : dtype, optional
    shape : int or tuple of int, optional

    Returns
    -------
    Array
    """
    like = typed("full_like", a)
    return full(like.shape if shape is None else shape, fill_value, like.dtype if dtype is None else dtype)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None) -> Array:
    """Return `zeros` of the shape and dtype of an array, or of those that are given.

    Parameters
    ----------
    a : Array, Expression or ndarray
    dtype : dtype, optional
    shape : int or tuple of int, optional

    Returns
    -------
    Array
    """
    return full_like(a, 0, dtype, shape)


def ones_like(a: Any, dtype: Any = None, shape: Any = None) -> Array:
    """Return `ones` of the shape and dtype of an array, or of those that are given.

    Parameters
    ----------
    a : Array, Expression or ndarray
    dtype : dtype, optional
    shape : int or tuple of int, optional

    Returns
    -------
    Array
    """
    return full_like(a, 1, dtype, shape)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None) -> Array:
    """Return `empty` of the shape and dtype of an array, or of those that are given.

    Parameters
    ----------
    prototype : Array, Expression or ndarray
    dtype : dtype, optional
    shape : int or tuple of int, optional

    Returns
    -------
    Array
    """
    return full_like(prototype, 0, dtype, shape)


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
    return _as(_generated(f"{number} numbers", "linear", number, first, each), kind)


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
    made = _generated(f"{number} numbers", "linear", number, first, each, *ends)
    if (
        each == 0 and number > 1 and first != last
    ):  # below the least float64: NumPy divides what it counts instead
        counted = _generated(f"{number} numbers", "linear", number, np.float64(0), np.float64(1))
        shares = from_ufunc(np.divide, (counted, np.float64(steps)))
        made = as_array(call, from_ufunc(np.add, (from_ufunc(np.multiply, (shares, last - first)), first)))
    if kind.kind in "iu":
        return as_array(call, cast(from_ufunc(np.floor, (made,)), kind))
    return _as(made, kind)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """Return a read-only matrix of zeros with ones on a diagonal.

    Parameters
    ----------
    N, M : int
        Rows; columns (default: as many).
    k : int
        Which diagonal: above the main one where it is positive.
    dtype : dtype, optional
        Default: float64.

    Returns
    -------
    Array
    """
    rows, cols = extents("eye", (N, N if M is None else M))
    one = np.ones((), number_dtype("eye", dtype))[()]
    return _generated("a diagonal", "diagonal", rows, cols, operator.index(k), one)


def below_diagonal(n: int, k: int) -> Array:
    """Return which elements of an n x n matrix lie on or below the diagonal `k`; nothing is stored."""
    return _generated("a triangle", "triangle", [n, n], k)


def _triangle(who: str, given: Any, k: int) -> tuple[Expression, Array]:
    node = as_expression(given, who)
    if node.ndim < 2:
        raise ShapeError(f"{who}: the array has {node.ndim} dimensions; a matrix, or several, is needed.")
    return node, _generated("a triangle", "triangle", list(node.shape[-2:]), k)


def tril(m: Any, k: int = 0) -> Array:
    """Return the lower triangle of a matrix (of each of several), zeros above the diagonal `k`; lazily.

    Parameters
    ----------
    m : Array, Expression or ndarray
        Two dimensions or more.
    k : int
        The last diagonal that is kept.

    Returns
    -------
    Array
    """
    node, lower = _triangle("tril", m, operator.index(k))
    return as_array(Call("tril", light=True), where(lower, node, node.dtype.type(0)))


def triu(m: Any, k: int = 0) -> Array:
    """Return the upper triangle of a matrix (of each of several), zeros below the diagonal `k`; lazily.

    Parameters
    ----------
    m : Array, Expression or ndarray
        Two dimensions or more.
    k : int
        The first diagonal that is kept.

    Returns
    -------
    Array
    """
    node, below = _triangle("triu", m, operator.index(k) - 1)
    return as_array(Call("triu", light=True), where(below, node.dtype.type(0), node))


def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False) -> tuple[Array, ...]:
    """Return the coordinates of a grid: each array stretched along the axes of the others, lazily.

    Parameters
    ----------
    *xi : Array, Expression or ndarray
        Coordinates along each axis, of one dimension (or numbers).
    indexing : {"xy", "ij"}
        Whether the first two axes change places ("xy"), as in pictures.
    sparse : bool
        One index along the axes of the others instead.

    Returns
    -------
    tuple of Array
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}; choose 'xy' or 'ij'.")
    given = [member("meshgrid", x) for x in xi]
    if any(x.ndim > 1 for x in given):
        raise ShapeError("meshgrid: an array of several dimensions was given; each must have one.")
    order = list(range(len(given)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    result = []
    for number, x in enumerate(given):
        axes: list[Axis] = []
        for d in order:
            n = 1 if sparse else given[d].size
            axes.append(
                ("same", 0, 0) if d == number and x.ndim else ("stretch", -1, n if d != number else 1)
            )
        result.append(mapped("coordinates", [x], axes))
    return tuple(result)
