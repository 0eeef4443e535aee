"""The small products of the array-API standard: inner, outer and tensor products, diagonals, traces."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .._array.array import shape_text
from .._array.dispatch import dispatch
from .._array.elementwise import Elementwise
from .._errors.classes import ShapeError
from .._expression.expression import Expression, as_expression, from_ufunc
from .._expression.reductions import Reduced
from .._lazy.places import expand_dims
from .._output.create import from_numpy

__all__ = ["diagonal", "dot", "matrix_transpose", "outer", "tensordot", "trace", "vecdot"]

_BOX = 1024  # elements of a diagonal that one box holds, where chunks do not say


def _lazy(given: Any) -> Any:
    return given if isinstance(given, Elementwise) else np.asarray(given)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Reduced:
    """Return the sums of conj(x1) x2 along `axis`, pending until needed; one read of both.

    Parameters
    ----------
    x1, x2 : Array, Expression or ndarray
        Which broadcast; both have the axis, with one extent.
    axis : int
        Negative: counted from the last dimension.

    Returns
    -------
    Reduced
    """
    a, b = (as_expression(_lazy(x), "vecdot") for x in (x1, x2))
    if (axis >= 0 and a.ndim != b.ndim) or not all(-x.ndim <= axis < x.ndim for x in (a, b)):
        raise ShapeError(
            f"vecdot: axis is {axis}, of {a.ndim} and {b.ndim} dimensions; give one of both, from -1 down."
        )
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError(
            f"vecdot: the vectors have {a.shape[axis]} and {b.shape[axis]} elements; they must have as many."
        )
    product = from_ufunc(np.multiply, (from_ufunc(np.conj, (a,)), b))
    return Reduced(product, "sum", axis, False, dtype=product.dtype)


def dot(a: Any, b: Any, /) -> Any:
    """Return what ``np.dot`` does of numbers, vectors and matrices, without loading a matrix.

    Parameters
    ----------
    a, b : Array, Expression or ndarray
        Of at most two dimensions; `a` may be a stack.

    Returns
    -------
    Array, Expression or number
        Of two vectors the sum of products, nothing conjugated; with a number the products, lazily; else
        ``a @ b``.

    Notes
    -----
    The bytes and flops of `matmul`.
    """
    first = a if isinstance(a, Elementwise) or isinstance(b, Elementwise) else from_numpy(np.asarray(a))
    seen: Any = first if isinstance(first, Elementwise) else b
    return dispatch().numpy_function(seen, np.dot, (first, b), {})


def outer(x1: Any, x2: Any, /) -> Expression:
    """Return, lazily, the products of each element of a vector with each of another.

    Parameters
    ----------
    x1, x2 : Array, Expression or ndarray
        Of one dimension, n and m long.

    Returns
    -------
    Expression
        n x m; nothing is stored before somebody needs it.
    """
    a, b = _lazy(x1), _lazy(x2)
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise ShapeError(
            f"outer: the operands have {len(a.shape)} and {len(b.shape)} dimensions; vectors are needed."
        )
    return from_ufunc(np.multiply, (_column(a), b))


def _column(given: Any) -> Any:
    return given[:, None] if isinstance(given, np.ndarray) else expand_dims(given, 1)


def matrix_transpose(x: Any, /) -> Any:
    """Return a matrix transposed: a view, as ``x.T`` is.

    Parameters
    ----------
    x : Array or Expression
        Of two dimensions.

    Returns
    -------
    Array or Expression
    """
    given = _lazy(x)
    if len(given.shape) != 2:
        raise ShapeError(
            f"matrix_transpose: x is {shape_text(tuple(given.shape))}; a matrix is needed "
            "(flagstone.transpose stores other orders of dimensions)."
        )
    return given.T


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonal of a matrix, in memory.

    Parameters
    ----------
    x : Array or Expression
        m x n.
    offset : int
        Above the main diagonal, below where negative.

    Returns
    -------
    Array
        In memory. Read are the boxes that the diagonal crosses: of chunks of b x b elements about n b.
    """
    given = _lazy(x)
    if len(given.shape) != 2:
        raise ShapeError(f"diagonal: x is {shape_text(tuple(given.shape))}; a matrix is needed.")
    k = operator.index(offset)
    rows, cols = given.shape
    row, col = max(-k, 0), max(k, 0)
    n = max(0, min(rows - row, cols - col))
    found = np.empty(n, given.dtype)
    chunks = getattr(given, "chunks", None) or (_BOX, _BOX)
    step = max(1, min(int(chunks[0]), int(chunks[1]), 4 * _BOX))
    first = 0
    while first < n:
        # to the end of the row of chunks, so that no chunk is looked at twice for its rows
        last = min(n, first + step - (row + first) % step)
        box = given[row + first : row + last, col + first : col + last]
        found[first:last] = np.diagonal(np.asarray(box))
        first = last
    return from_numpy(found)


def trace(x: Any, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Return the sum of the diagonal of a matrix.

    Parameters
    ----------
    x : Array or Expression
        m x n.
    offset : int
        Above the main diagonal, below where negative.
    dtype : dtype, optional
        Of the sum; default: as ``np.trace``.

    Returns
    -------
    number
        Of NumPy. Read is what `diagonal` reads.
    """
    values = np.asarray(diagonal(x, offset=offset))
    return dispatch().reduce(values, "sum", None, False, dtype=dtype)[()]


def tensordot(x1: Any, x2: Any, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    """Return the sums of products over pairs of axes, of vectors and matrices.

    Parameters
    ----------
    x1, x2 : Array, Expression or ndarray
        Of at most two dimensions (of any, where no axis or every axis is summed).
    axes : int, or two sequences of int
        How many of the last axes of x1 and the first of x2 are summed; or which of each, in pairs.

    Returns
    -------
    Array, Expression or Reduced
        No axis: lazy products. All axes of both: a pending sum. One axis: `flagstone.matmul`.
    """
    a, b = _lazy(x1), _lazy(x2)
    left, right = _pairs(axes, len(a.shape), len(b.shape))
    if any(a.shape[i] != b.shape[j] for i, j in zip(left, right, strict=True)):
        raise ShapeError(
            f"tensordot: axes {left} of {shape_text(tuple(a.shape))} and {right} of "
            f"{shape_text(tuple(b.shape))} are summed; they must have the same extents."
        )
    if not left:
        for _ in b.shape:
            a = a[..., None] if isinstance(a, np.ndarray) else expand_dims(a, len(a.shape))
        return from_ufunc(np.multiply, (a, b))
    if len(left) == len(a.shape) == len(b.shape):
        order = [right[left.index(d)] for d in range(len(left))]
        if order == sorted(order):
            return Reduced(from_ufunc(np.multiply, (a, b)), "sum", None, False)
        if order == sorted(order, reverse=True):
            return Reduced(from_ufunc(np.multiply, (a, b.T)), "sum", None, False)
    if len(left) == 1 and len(a.shape) <= 2 and len(b.shape) <= 2:
        a = a.T if left[0] == 0 and len(a.shape) == 2 else a
        b = b.T if right[0] == 1 else b
        return dispatch().matmul(a, b)
    raise ShapeError(
        f"tensordot: {len(left)} axes of {shape_text(tuple(a.shape))} and {shape_text(tuple(b.shape))} are "
        "summed; matrices with one axis, or all axes of both, are possible here."
    )


def _pairs(axes: Any, a: int, b: int) -> tuple[list[int], list[int]]:
    if hasattr(axes, "__index__"):
        n = operator.index(axes)
        if not 0 <= n <= min(a, b):
            raise ShapeError(
                f"tensordot: axes is {n}, of {a} and {b} dimensions; at most as many are summed."
            )
        return list(range(a - n, a)), list(range(n))
    one, other = (
        [operator.index(d) for d in (part if isinstance(part, Sequence) else [part])] for part in axes
    )
    if len(one) != len(other):
        raise ShapeError(f"tensordot: axes names {len(one)} and {len(other)} of them; they come in pairs.")
    return [d % a for d in one], [d % b for d in other]
