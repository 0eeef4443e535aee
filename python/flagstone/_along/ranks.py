"""Medians and quantiles, exactly: order statistics by counting the leading bits of elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._expression.reductions import axes_of
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, routine
from .looks import Finished, Small, given_value

__all__ = ["median", "percentile", "quantile"]

_BEYOND = {  # alpha and beta of n q + alpha + q (1 - alpha - beta) - 1, Hyndman and Fan 1996
    "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip
_METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", *_BEYOND, "linear", "lower", "higher",
    "midpoint", "nearest",
)  # fmt: skip


class _Ranks(Small):
    """The checked arguments of one selection."""

    def __init__(
        self, call: Call, given: Expression, axes: tuple[int, ...], keepdims: bool, ranks: NDArray[Any],
        shape: tuple[int, ...], dtype: Any, out: Any,
    ) -> None:  # fmt: skip
        self.axes, self.keepdims = axes, keepdims
        self.ranks = ranks
        self.kept = tuple(n for d, n in enumerate(given.shape) if d not in axes)
        made = (len(ranks), *self.kept)
        more = 3 * math.prod(made) * 8
        super().__init__(call, given, (made, given.dtype), (shape, dtype), out, more)
        self.shape, self.dtype = shape, np.dtype(dtype)

    def job(self, at: At) -> _core.Job:
        """Return the selection as a job."""
        target = at(self.numbers)
        built, value = self.looking()
        reduced = [d in self.axes for d in range(self.given.ndim)]
        self.made = _core.rank_job(built, value, reduced, [int(r) for r in self.ranks], target)
        return self.made

    def how(self, job: Any) -> How:
        """Say how often the array is looked at."""
        made, passes = self.made, self.made.passes
        most = made.most_passes if made.most_passes != made.least_passes else 0
        return How("selection", passes, made.why, most, made.least_passes)


def _checked(
    who: str, a: Any, axis: Any, keepdims: bool, memory: Any
) -> tuple[Call, Expression, tuple[int, ...], tuple[int, ...], int]:
    call = Call(who, memory)
    given = given_value(who, off_the_map(call, a), "biuf")
    axes = axes_of(who, axis, given.ndim)
    kept = tuple(1 if d in axes else n for d, n in enumerate(given.shape) if keepdims or d not in axes)
    return call, given, axes, kept, math.prod(given.shape[d] for d in axes)


class _Median(_Ranks):
    """The mean of the middle one or two."""

    def finish(self, numbers: NDArray[Any]) -> Any:
        """Return it."""
        with np.errstate(all="ignore"):
            value = np.mean(numbers, axis=0).astype(self.dtype, copy=False).reshape(self.shape)
        return value if value.shape else value[()]


@routine
def median(
    a: Any, /, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False, *,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the median along axes, exactly.

    Parameters
    ----------
    a : Array, Expression or ndarray
        Real numbers. NaN where a lane has one.
    axis : int or tuple of int, optional
        Default: all of them.
    out : path, Array or ndarray, optional
        Where the result goes. Default: an ndarray, or a number.
    overwrite_input : bool
        Taken for NumPy's sake; nothing is overwritten.
    keepdims : bool
        Leave what is reduced as dimensions of extent 1.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    ndarray or number
        Of a's dtype, float64 of integers and booleans.

    Raises
    ------
    ShapeError
        `out` does not agree.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Lanes that lie whole in a tile of 32 MiB are partitioned there: one read. Else elements are counted by
    their leading 11 bits (16 where there are few lanes), then those in the bin of the median by the next
    ones: 3 reads of 32 bits, 2 of 16, of 64 bits 3, and up to 6 where very many elements are equal in their
    leading bits. Lanes whose counts (8 KiB each, for each worker) exceed a third of the memory are taken in
    stripes. ``median.plan(...)`` says how often. The result is NumPy's.
    """
    call, given, axes, shape, n = _checked("median", a, axis, keepdims, memory)
    dtype = np.dtype(np.float64) if given.dtype.kind in "biu" else given.dtype
    if n == 0:
        counted = _Median(call, given, axes, keepdims, np.array([0]), shape, dtype, out)
        value = np.full(shape, np.nan, dtype)
        return Finished(counted, lambda: value if shape else value[()], out)
    ranks: NDArray[Any] = np.unique([(n - 1) // 2, n // 2])
    return _Median(call, given, axes, keepdims, ranks, shape, dtype, out)


class _Quantiles(_Ranks):
    """What lies between neighbours in order."""

    weights: tuple[NDArray[Any], NDArray[Any], Any] | NDArray[Any]

    def finish(self, numbers: NDArray[Any]) -> Any:
        """Return it; the arithmetic is NumPy's."""
        if isinstance(self.weights, np.ndarray):
            value = numbers[np.searchsorted(self.ranks, self.weights)]
        else:
            low, high, gamma = self.weights
            one = numbers[np.searchsorted(self.ranks, low)]
            other = numbers[np.searchsorted(self.ranks, high)]
            if isinstance(gamma, np.ndarray):
                gamma = gamma.reshape(gamma.shape + (1,) * (numbers.ndim - 1))
            with np.errstate(all="ignore"):
                apart = other - one if other.dtype != np.bool_ else other ^ one
                value = np.asarray(one + apart * gamma)
                near = np.asarray(other - apart * (1 - gamma), value.dtype)
                value = np.where(np.asarray(gamma) >= 0.5, near, value)
        if numbers.dtype.kind == "f":
            value = np.where(np.isnan(numbers[-1]), numbers.dtype.type(np.nan), value)
        value = np.asarray(value).astype(self.dtype, copy=False).reshape(self.shape)
        return value if value.shape else value[()]


def _virtual(method: str, n: int, q: NDArray[Any]) -> NDArray[Any]:
    """Return where in the order each quantile lies; whole numbers where nothing is interpolated."""
    if method == "linear":
        return (n - 1) * q
    if method in _BEYOND:
        alpha, beta = _BEYOND[method]
        return n * q + (alpha + q * (1 - alpha - beta)) - 1
    if method == "averaged_inverted_cdf":
        return n * q - 1
    if method in ("lower", "higher", "nearest"):
        whole: Any = {"lower": np.floor, "higher": np.ceil, "nearest": np.around}[method]
        return np.asarray(whole((n - 1) * q)).astype(np.intp)
    if method == "midpoint":
        return np.asarray(0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q)))
    index = np.asarray(n * q - 1 - (0.5 if method == "closest_observation" else 0))
    below = np.floor(index)
    stays = index == below
    if method == "closest_observation":
        stays &= below % 2 == 1
    return np.maximum(np.where(stays, below, below + 1), 0).astype(np.intp)


def _quantiles(
    who: str, a: Any, q: Any, scale: int, axis: Any, out: Any, method: str, keepdims: bool, weights: Any,
    memory: Any,
) -> Prepared[Any]:  # fmt: skip
    if method not in _METHODS:
        raise ValueError(f"{who}: method is {method!r}; choose one of {', '.join(_METHODS)}.")
    if weights is not None:
        raise TypeError(f"{who}: weights are not taken; leave them out.")
    call, given, axes, shape, n = _checked(who, a, axis, keepdims, memory)
    weak = type(q) in (int, float)
    wanted = np.asanyarray(q)
    wanted = np.asarray(np.true_divide(wanted, scale)) if scale != 1 else wanted
    if wanted.dtype.kind not in "biuf" or not ((wanted >= 0) & (wanted <= 1)).all():
        raise ValueError(f"{who}: q is {q!r}; numbers from 0 to {scale} are needed.")
    if n == 0:
        raise ShapeError(f"{who}: there are no elements to choose from; give at least one.")
    virtual = np.asarray(_virtual(method, n, wanted))
    if given.dtype.kind == "b" and virtual.dtype.kind == "f":
        raise TypeError(f"{who}: booleans were given; convert them with astype first.")
    result: Any
    if virtual.dtype.kind in "iu":
        places: Any = np.asarray(np.clip(virtual, 0, n - 1))
        needed, result = [places.ravel(), [n - 1]], given.dtype
    else:
        low = np.floor(virtual)
        high = low + 1
        last, first = virtual >= n - 1, virtual < 0
        low, high = (
            np.where(last, n - 1, np.where(first, 0, low)),
            np.where(last, n - 1, np.where(first, 0, high)),
        )
        gamma = np.asarray(virtual - np.where(last, -1, low))
        if method == "averaged_inverted_cdf":
            gamma = np.where(gamma == 0, 0.5, 1.0)
        elif method == "midpoint":
            gamma = np.where(virtual % 1 == 0, 0.0, 0.5)
        gamma = np.asarray(gamma, virtual.dtype)
        weight = float(gamma) if weak else gamma
        one = np.ones((1,) if gamma.shape else (), given.dtype)
        result = ((one - one) * weight + one).dtype
        places = (np.asarray(low).astype(np.intp), np.asarray(high).astype(np.intp), weight)
        needed = [places[0].ravel(), places[1].ravel(), [n - 1]]
    ranks = np.unique(np.concatenate(needed)).astype(np.int64)
    if (
        given.dtype.kind != "f" and ranks[-1] == n - 1 and not (np.concatenate(needed[:-1]) == n - 1).any()
    ):  # the last is looked at for NaN alone
        ranks = ranks[:-1]
    routine = _Quantiles(call, given, axes, keepdims, ranks, (*wanted.shape, *shape), result, out)
    routine.weights = places
    return routine


@routine
def quantile(
    a: Any, q: Any, /, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return quantiles along axes, exactly.

    Parameters
    ----------
    a : Array, Expression or ndarray
        Real numbers. NaN where a lane has one.
    q : float or array of float
        From 0 to 1. Its dimensions come first in the result.
    axis, out, overwrite_input, keepdims, memory
        As for `median`.
    method : str
        NumPy's: "linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf",
        "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased",
        "normal_unbiased".
    weights : optional
        Not taken.

    Returns
    -------
    ndarray or number

    Raises
    ------
    ShapeError
        `out` does not agree; there is no element.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    All quantiles in the same passes: as many as `median` takes, whose counts are needed for each of them.
    """
    return _quantiles("quantile", a, q, 1, axis, out, method, keepdims, weights, memory)


@routine
def percentile(
    a: Any, q: Any, /, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return percentiles along axes, exactly.

    Parameters
    ----------
    a : Array, Expression or ndarray
        Real numbers. NaN where a lane has one.
    q : float or array of float
        From 0 to 100. Its dimensions come first in the result.
    axis, out, overwrite_input, method, keepdims, weights, memory
        As for `quantile`.

    Returns
    -------
    ndarray or number

    Raises
    ------
    ShapeError
        `out` does not agree; there is no element.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    As `quantile`, of ``q / 100``.
    """
    return _quantiles("percentile", a, q, 100, axis, out, method, keepdims, weights, memory)
