"""Arrays whose elements follow from their places: nothing is stored and nothing is read."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._expression.expression import Expression, as_expression, where
from .._expression.operand import as_array
from .._runtime.call import Call
from .generated import extents, generated, number_dtype
from .mapped import Axis, mapped, member, typed

__all__ = [
    "empty", "empty_like", "eye", "full", "full_like", "meshgrid", "ones", "ones_like", "planned", "tril",
    "triu", "zeros", "zeros_like",
]  # fmt: skip


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
    return generated("one value", "constant", extents("full", shape), value.astype(kind)[()])


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
    return generated("a diagonal", "diagonal", rows, cols, operator.index(k), one)


def _triangle(who: str, given: Any, k: int) -> tuple[Expression, Array]:
    node = as_expression(given, who)
    if node.ndim < 2:
        raise ShapeError(f"{who}: the array has {node.ndim} dimensions; a matrix, or several, is needed.")
    return node, generated("a triangle", "triangle", list(node.shape[-2:]), k)


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
