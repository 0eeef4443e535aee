"""Reductions that leave NaN out, and others that are made of several folds of one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._array.elementwise import one_ddof
from .._errors.classes import ShapeError
from .expression import Expression, as_expression, cast, from_ufunc, where
from .reductions import Part, Reduced

__all__ = [
    "average", "nan_to_num", "nanmax", "nanmean", "nanmin", "nanstd", "nansum", "nanvar", "ptp",
]  # fmt: skip

_BOOL = np.dtype(bool)


class Combined(Reduced):
    """Several folds of one pass, and the function that makes the result of them."""

    def __init__(
        self, name: str, source: Expression, parts: Sequence[tuple[Expression, str]],
        make: Callable[..., Any], dtype: Any, axis: Any, keepdims: bool,
    ) -> None:  # fmt: skip
        super().__init__(source, "sum", axis, keepdims)  # shape and axes are those of any reduction
        self.name, self.make = name, make
        self.parts = [_part(value, fold) for value, fold in parts]
        self.dtype = np.dtype(dtype)

    def combine(self, values: list[Any]) -> Any:
        """Return the result from what the parts gave."""
        with np.errstate(all="ignore"):
            out = np.asarray(self.make(*values)).astype(self.dtype, copy=False)
        return out if out.shape else out[()]


def _part(value: Expression, fold: str) -> Part:
    """Return what is folded; sums of booleans count them."""
    if value.dtype == _BOOL and fold == "sum":
        return value, fold, "value", np.dtype(np.int64)
    if value.dtype == np.float16:
        value = cast(value, np.float32)
    return value, fold, "value", value.dtype


def _real(who: str, given: Expression) -> Expression:
    if given.dtype.kind == "c":
        raise TypeError(f"{who}: complex numbers were given; this reduction takes real ones.")
    return given


def _nan(given: Expression) -> Expression | None:
    """Return where NaN stands; None where there can be none."""
    return from_ufunc(np.isnan, (given,)) if given.dtype.kind in "fc" else None


def _there(given: Expression) -> Expression:
    return from_ufunc(np.logical_not, (from_ufunc(np.isnan, (given,)),))


def nansum(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Reduced:
    """Return the sum along `axis`, NaN left out, pending until needed."""
    given = as_expression(x, "nansum")
    nan = _nan(given)
    return Reduced(given if nan is None else where(nan, 0, given), "sum", axis, keepdims, dtype=dtype)


def _smallest(name: str, x: Any, axis: Any, keepdims: bool, neutral: float) -> Reduced:
    given = _real(name, as_expression(x, name))
    fold = name[3:]
    nan = _nan(given)
    if nan is None or not given.size:
        return Reduced(given, fold, axis, keepdims)
    return Combined(
        name, given, [(where(nan, neutral, given), fold), (_there(given), "sum")],
        lambda value, number: np.where(number == 0, np.nan, value), given.dtype, axis, keepdims,
    )  # fmt: skip


def nanmin(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Reduced:
    """Return the minimum along `axis`, NaN left out (NaN where nothing else is), pending until needed."""
    return _smallest("nanmin", x, axis, keepdims, float("inf"))


def nanmax(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Reduced:
    """Return the maximum along `axis`, NaN left out (NaN where nothing else is), pending until needed."""
    return _smallest("nanmax", x, axis, keepdims, float("-inf"))


def nanmean(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Reduced:
    """Return the mean along `axis`, NaN left out, pending until needed."""
    given = as_expression(x, "nanmean")
    nan = _nan(given)
    if nan is None:
        return Reduced(given, "mean", axis, keepdims)
    parts, join = _sums(where(nan, 0, given))
    return Combined(
        "nanmean", given, [*parts, (_there(given), "sum")],
        lambda *values: join(*values[:-1]) / values[-1], given.dtype, axis, keepdims,
    )  # fmt: skip


def _sums(value: Expression) -> tuple[list[tuple[Expression, str]], Callable[..., Any]]:
    """Return what is summed of a value, and what joins it: complex numbers by their parts."""
    if value.dtype.kind != "c":
        return [(value, "sum")], lambda one: one
    return [(value.real, "sum"), (value.imag, "sum")], lambda one, other: one + 1j * other


def _moment(name: str, x: Any, axis: Any, ddof: float, keepdims: bool) -> Reduced:
    given = as_expression(x, name)
    nan = _nan(given)
    if nan is None:
        return Reduced(given, name[3:], axis, keepdims, ddof=ddof)
    mean = nanmean(given, axis, keepdims=True)
    apart = where(nan, 0, from_ufunc(np.subtract, (given, mean)))
    squares = from_ufunc(np.square, (from_ufunc(np.absolute, (apart,)),))

    def make(total: Any, number: Any) -> Any:
        left = number - ddof
        value = np.where(left > 0, total / np.where(left > 0, left, 1), np.nan)
        return np.sqrt(value) if name == "nanstd" else value

    half = given.dtype if given.dtype.kind == "f" else squares.dtype
    return Combined(name, given, [(squares, "sum"), (_there(given), "sum")], make, half, axis, keepdims)


def nanvar(
    x: Any, /, axis: Any = None, ddof: float | None = None, *, keepdims: bool = False,
    correction: float | None = None,
) -> Reduced:  # fmt: skip
    """Return the variance along `axis`, NaN left out, pending until needed; the mean is a pass before."""
    return _moment("nanvar", x, axis, one_ddof("nanvar", ddof, correction), keepdims)


def nanstd(
    x: Any, /, axis: Any = None, ddof: float | None = None, *, keepdims: bool = False,
    correction: float | None = None,
) -> Reduced:  # fmt: skip
    """Return the standard deviation along `axis`, NaN left out, pending until needed; see `nanvar`."""
    return _moment("nanstd", x, axis, one_ddof("nanstd", ddof, correction), keepdims)


def nan_to_num(
    x: Any, /, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Expression:
    """Return, lazily, `x` with NaN and infinities replaced: by `nan`, the largest and the least number."""
    given = as_expression(x, "nan_to_num")
    if not copy:
        raise TypeError("nan_to_num: copy=False is not possible; X[...] = fl.nan_to_num(X) changes X.")
    if given.dtype.kind not in "fc":
        return given
    if given.dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (given.real, given.imag)]
        return from_ufunc(np.add, (parts[0], from_ufunc(np.multiply, (parts[1], 1j))))
    info = np.finfo(given.dtype)
    high, low = info.max if posinf is None else posinf, info.min if neginf is None else neginf
    kind = given.dtype.type
    done = where(from_ufunc(np.isnan, (given,)), kind(nan), given)
    done = where(from_ufunc(np.equal, (done, kind(np.inf))), kind(high), done)
    return where(from_ufunc(np.equal, (given, kind(-np.inf))), kind(low), done)


def ptp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Reduced:
    """Return the largest element less the smallest along `axis`, pending until needed; one pass."""
    given = _real("ptp", as_expression(x, "ptp"))
    if given.dtype == _BOOL:
        raise TypeError("ptp: booleans were given; convert them with astype first.")
    if not given.size:
        return Reduced(given, "max", axis, keepdims)
    return Combined(
        "ptp", given, [(given, "max"), (given, "min")], lambda high, low: high - low, given.dtype, axis,
        keepdims,
    )  # fmt: skip


def average(
    a: Any, /, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """Return the weighted mean along `axis`, pending until needed; with `returned` the weights' sum too."""
    given = as_expression(a, "average")
    if weights is None:
        mean = Reduced(given, "mean", axis, keepdims)
        if not returned:
            return mean
        number = given.size // max(1, mean.size)
        return mean, np.full(mean.shape, number, mean.dtype)
    wide = as_expression(weights, "average")
    if wide.shape != given.shape:
        if not isinstance(axis, (int, np.integer)) or wide.ndim != 1 or wide.shape[0] != given.shape[axis]:
            raise ShapeError(
                "average: weights of another shape are one for each element along the one axis that is given."
            )
        row = [1] * given.ndim
        row[axis] = wide.shape[0]
        wide = as_expression(np.asarray(weights).reshape(row), "average")
    dtype = np.result_type(given.dtype, wide.dtype, *([np.float64] if given.dtype.kind in "biu" else []))
    given, wide = cast(given, dtype), cast(wide, dtype)
    product = from_ufunc(np.multiply, (given, wide))
    spread = where(np.True_, wide, given)  # weights, of the array's shape
    sums, join = _sums(product)
    shares, join_shares = _sums(spread)
    k = len(sums)

    def make(*values: Any) -> Any:
        total = join_shares(*values[k:])
        if np.any(total == 0):
            raise ZeroDivisionError("average: the weights sum to zero; no mean is weighted so.")
        return join(*values[:k]) / total

    mean = Combined("average", product, [*sums, *shares], make, dtype, axis, keepdims)
    if not returned:
        return mean
    return mean, Reduced(spread, "sum", axis, keepdims)
