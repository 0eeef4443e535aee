"""Arrays put together without a copy: `concat` and `stack`, and `unstack`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._array.array import Array, shape_text
from .._array.dispatch import dispatch
from .._errors.classes import ShapeError
from .._sparse.array import SparseArray
from .mapped import Axis, axis_of, line, mapped, member

__all__ = ["concat", "stack", "unstack"]


def _given(who: str, arrays: Any, dtype: Any) -> list[Any]:
    if isinstance(arrays, (Array, np.ndarray)) or not isinstance(arrays, Sequence) or isinstance(arrays, str):
        raise TypeError(f"{who}: arrays is {type(arrays).__name__}; a list of arrays is needed.")
    if not arrays:
        raise ValueError(f"{who}: the list of arrays is empty; give at least one.")
    found = [member(who, one) for one in arrays]
    if any(one.ndim == 0 for one in found) and who == "concat":
        raise ValueError("concat: an array without dimensions was given; stack joins those.")
    wanted = np.result_type(*(one.dtype for one in found)) if dtype is None else np.dtype(dtype)
    return [one if one.dtype == wanted else member(who, one, wanted) for one in found]


def _named(who: str, number: int, one: Any) -> str:
    path = one.path if isinstance(one, Array) else None
    return f"'{path}'" if path else f"array {number}"


def concat(arrays: Any, /, axis: int | None = 0, *, dtype: Any = None) -> Array:
    """Return one read-only Array over several, one after the other along an axis; nothing is copied.

    Parameters
    ----------
    arrays : list of Array, Expression or ndarray
        Files of any formats, memory and lazy expressions, mixed; equal extents but along `axis`. Sparse
        matrices are joined in scratch, in one that is written: `flagstone.sparse.concat`.
    axis : int, optional
        Along which they are joined; None: of arrays with one dimension alone.
    dtype : dtype, optional
        Of the result; default: NumPy's ``result_type``. Others are converted where they are loaded.

    Returns
    -------
    Array
        An operand of every routine. It holds its members open and is read where they lie; what is assigned to
        a member is seen.

    Raises
    ------
    ShapeError
        Extents differ; names the first array that does not fit.

    Notes
    -----
    Moves no bytes and takes no flops. Reading moves what reading the members does: a box that lies in one
    member travels as it does there, one that crosses members is put together on arrival.
    """
    if isinstance(arrays, Sequence) and any(isinstance(one, SparseArray) for one in arrays):
        if axis is None:
            raise ShapeError("concat: axis is None, which joins one dimension; of matrices give 0 or 1.")
        return dispatch().sparse("concat")(arrays, axis)  # type: ignore[no-any-return]
    given = _given("concat", arrays, dtype)
    if axis is None:
        for one in given:
            line("concat", one)
        axis = 0
    first = given[0]
    along = axis_of("concat", axis, first.ndim)
    for number, one in enumerate(given[1:], 1):
        fits = one.ndim == first.ndim and all(
            n == m or d == along for d, (n, m) in enumerate(zip(one.shape, first.shape, strict=True))
        )
        if not fits:
            raise ShapeError(
                f"concat: {_named('concat', 0, first)} is {shape_text(first.shape)} and "
                f"{_named('concat', number, one)} is {shape_text(one.shape)}; extents must be equal but "
                f"along axis {along}."
            )
    axes: list[Axis] = [("join" if d == along else "same", d, 0) for d in range(first.ndim)]
    return mapped(f"{len(given)} arrays joined", given, axes)


def stack(arrays: Any, /, axis: int = 0, *, dtype: Any = None) -> Array:
    """Return one read-only Array over several of one shape, along a new axis; nothing is copied.

    Parameters
    ----------
    arrays : list of Array, Expression or ndarray
        As for `concat`, of one shape.
    axis : int, optional
        Where the new axis stands in the result.
    dtype : dtype, optional
        As for `concat`.

    Returns
    -------
    Array
        As for `concat`.

    Raises
    ------
    ShapeError
        Shapes differ; names the first array that does not fit.

    Notes
    -----
    Moves no bytes and takes no flops; reading as for `concat`.
    """
    given = _given("stack", arrays, dtype)
    first = given[0]
    for number, one in enumerate(given[1:], 1):
        if one.shape != first.shape:
            raise ShapeError(
                f"stack: {_named('stack', 0, first)} is {shape_text(first.shape)} and "
                f"{_named('stack', number, one)} is {shape_text(one.shape)}; they must be equal."
            )
    along = axis_of("stack", axis, first.ndim + 1)
    axes: list[Axis] = [("same", d, 0) for d in range(first.ndim)]
    axes.insert(along, ("join", -1, 0))
    return mapped(f"{len(given)} arrays stacked", given, axes)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the parts of an array along an axis, which they do not have: Arrays, none loaded.

    Parameters
    ----------
    x : Array, Expression or ndarray
        With one dimension or more.
    axis : int, optional
        Along which it is taken apart.

    Returns
    -------
    tuple of Array
        One for each index.

    Notes
    -----
    Moves no bytes and takes no flops.
    """
    given = member("unstack", x)
    along = axis_of("unstack", axis, given.ndim)
    return tuple(_part(given, along, i) for i in range(given.shape[along]))


def _part(given: Any, along: int, index: int) -> Array:
    axes: list[Axis] = [("select" if d == along else "same", d, index) for d in range(given.ndim)]
    one = mapped("part of an array", [given], axes)
    return mapped("part of an array", [one], [("same", d, 0) for d in range(given.ndim) if d != along])
