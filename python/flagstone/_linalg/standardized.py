"""Columns centred, scaled and filled where they are loaded: what a rank-k update takes in place of a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._array.array import shape_text
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._expression.compute import compute
from .._expression.expression import Expression, as_expression, cast, from_ufunc, where
from .._expression.operand import lazy_operand
from .._expression.reductions import Reduced
from .._runtime.arguments import a_number, dtype_of, numbers_of, unmasked
from .._runtime.call import Call

__all__ = ["standardized"]

_SHORT = (np.dtype("i1"), np.dtype("u1"), np.dtype("i2"), np.dtype("u2"), np.dtype(bool))


def standardized(call: Call, a: Any, center: Any, scale: Any, missing: Any, dtype: DTypeLike | None) -> Any:
    """Return (a - center) / scale, what is `missing` as the mean, in a dtype that is multiplied; lazy."""
    a = off_the_map(call, a)
    if not hasattr(a, "dtype") or not hasattr(a, "shape"):
        a = np.asarray(unmasked(call.who, a))
    if len(a.shape) != 2:
        raise ShapeError(
            f"{call.who}: A has {len(a.shape)} dimensions ({shape_text(tuple(a.shape))}); 2 are needed."
        )
    kind = dtype_of(call.who, dtype) if dtype is not None else _accumulated(a.dtype)
    if kind.char not in "fdFD":
        raise ShapeError(f"{call.who}: dtype is {kind}; float32, float64, complex64 or complex128 is needed.")
    if center is None and scale is None and missing is None and a.dtype == kind:
        return lazy_operand(call, a)
    given = as_expression(a, call.who)
    value = cast(given, kind)
    gaps = _gaps(call.who, given, missing)
    if gaps is not None and center is None:
        value = where(gaps, np.asarray(_means(given, gaps), kind), value)
    if center is not None:
        value = from_ufunc(np.subtract, (value, _row(call.who, "center", center, a.shape[1], kind)))
    if scale is not None:
        by = _row(call.who, "scale", scale, a.shape[1], kind)
        if not np.all(by):
            where_zero = int(np.argmin(by != 0))
            raise ShapeError(f"{call.who}: scale is 0 at {where_zero}; leave out columns that do not vary.")
        value = from_ufunc(np.multiply, (value, (1 / by.astype(np.result_type(kind, "f8"))).astype(kind)))
    if gaps is not None and center is not None:
        value = where(gaps, kind.type(0), value)
    return lazy_operand(call, value)


def _accumulated(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind in "biu":
        return np.dtype(np.float32 if dtype in _SHORT else np.float64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _gaps(who: str, given: Expression, missing: Any) -> Expression | None:
    """Return where there is no value: exactly what `missing` is in A's dtype, which must have it."""
    if missing is None:
        return None
    code = a_number(who, "missing", missing)
    if code != code and given.dtype.kind in "fc":
        return from_ufunc(np.isnan, (given,))
    if np.iscomplexobj(code) and given.dtype.kind in "f":
        raise ShapeError(f"{who}: missing is {shown(missing)} and A {given.dtype}; a real number is needed.")
    if not _holds(given.dtype, code):
        raise ShapeError(
            f"{who}: missing is {shown(missing)} and A {given.dtype}, which cannot hold it; give a code "
            "that A may hold, or leave missing out."
        )
    return from_ufunc(np.equal, (given, given.dtype.type(code)))


def _holds(dtype: np.dtype[Any], code: Any) -> bool:
    if dtype.kind in "biu":
        info = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return bool(np.isrealobj(code) and info[0] <= code <= info[1] and int(code) == code)
    with np.errstate(over="ignore"):
        return bool(np.isinf(code) or not np.isinf(dtype.type(code)))


def _means(given: Expression, gaps: Expression) -> NDArray[Any]:
    """Return the means of columns without what is missing: one read."""
    wide = cast(given, np.result_type(given.dtype, np.float64))
    total, missed = compute(
        Reduced(where(gaps, wide.dtype.type(0), wide), "sum", 0, False), Reduced(gaps, "sum", 0, False)
    )
    left = given.shape[0] - np.asarray(missed)
    return np.asarray(np.asarray(total) / np.maximum(left, 1))


def _row(who: str, name: str, given: Any, n: int, kind: np.dtype[Any]) -> NDArray[Any]:
    row = numbers_of(who, name, given)
    if row.dtype.kind not in ("biufc" if kind.kind == "c" else "biuf"):
        raise ShapeError(f"{who}: {name} is {row.dtype}; numbers that {kind} can hold are needed.")
    if row.ndim == 0:
        row = np.full(n, row)
    if row.shape != (n,):
        raise ShapeError(
            f"{who}: {name} is {shape_text(row.shape)} and A has {n} columns; give a number for each column."
        )
    return row.astype(kind)
