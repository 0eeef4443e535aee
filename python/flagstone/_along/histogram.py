"""How many elements lie in each bin: histogram, bincount."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.compute import compute
from .._expression.expression import Expression, cast
from .._expression.reductions import reduce
from .._runtime.call import Call
from .._runtime.plan import Plan
from .._runtime.routine import At, Prepared, routine
from .._runtime.runtime import remember, stats
from .looks import Small, given_value

__all__ = ["bincount", "histogram"]

_NO_WHOLE: NDArray[np.int64] = np.empty(0, np.int64)
_MOST_BINS = 1 << 31


class _Counts(Small):
    """How many elements lie in each bin; without edges how often 0, 1, ... stand there; or their weights."""

    def __init__(
        self, call: Call, given: Expression, bins: int, edges: NDArray[np.float64] | None,
        weights: Expression | None = None,
    ) -> None:  # fmt: skip
        self.edges = edges
        made = ((bins,), np.int64 if weights is None else np.float64)
        super().__init__(call, given, made, made, None, also=weights)

    def job(self, at: At) -> _core.Job:
        """Return the counting as a job."""
        target = at(self.numbers)
        built, value = self.looking()
        bins = None if self.edges is None else _core.Bins(self.edges, _NO_WHOLE, False, False, False)
        if self.also is not None:
            return _core.weigh_bins_job(built, value, self.second, bins, target)
        if bins is None:
            return _core.count_integers_job(built, value, target)
        return _core.count_bins_job(built, value, bins, target)

    def finish(self, numbers: NDArray[Any]) -> Any:
        """Return them."""
        return numbers


def _weights(call: Call, given: Any, of: Expression) -> Expression | None:
    """Return weights as float64, one for each element."""
    if given is None:
        return None
    weights = given_value(call.who, off_the_map(call, given), "biuf")
    if weights.shape != of.shape:
        raise ShapeError(
            f"{call.who}: weights are {shape_text(weights.shape)} and the elements {shape_text(of.shape)}; "
            "one an element is needed."
        )
    return weights


class _Ends:
    """The smallest and the largest element: a pass of its own."""

    def __init__(self, given: Expression, memory: int) -> None:
        self.ends = [reduce(given, name, None, False) for name in ("min", "max")]
        self.memory = memory

    def plan(self) -> Plan:
        """Count it."""
        return compute.plan(*self.ends, memory=self.memory)

    def run(self) -> Any:
        """Return both."""
        return compute(*self.ends, memory=self.memory)


def _ends(given: Expression, call: Call) -> _Ends:
    return _Ends(given, call.memory)


def after(first: Any, then: Any) -> Any:
    """Return plan or statistics of two passes, from those of each."""
    return replace(
        then, passes=first.passes + then.passes, bytes_read=first.bytes_read + then.bytes_read,
        flops=first.flops + then.flops, seconds=first.seconds + then.seconds,
        peak_memory=max(first.peak_memory, then.peak_memory),
        least_memory=max(first.least_memory, then.least_memory),
    )  # fmt: skip


class _Histogram:
    """A histogram whose edges may have to be found by a pass of their own."""

    def __init__(
        self,
        call: Call,
        given: Expression,
        bins: Any,
        between: Any,
        density: bool,
        weights: Expression | None,
    ) -> None:
        self.call, self.given, self.bins, self.between, self.density = call, given, bins, between, density
        self.weights = weights
        self.dtype = np.dtype(np.int64) if weights is None else weights.dtype
        who = call.who
        if isinstance(bins, str):
            raise TypeError(f"{who}: bins is {bins!r}; a number of bins or their edges are needed.")
        if between is not None:
            low, high = between
            if not (np.isfinite(low) and np.isfinite(high) and low <= high):
                raise ValueError(f"{who}: range is {between!r}; finite ones, the lower first, are needed.")
        self.searched = np.ndim(bins) == 0 and between is None and given.size > 0
        if np.ndim(bins) == 0:
            try:
                number = bins.__index__()
            except (TypeError, AttributeError):
                raise TypeError(f"{who}: bins is {bins!r}; a whole number or edges are needed.") from None
            if not 0 < number < _MOST_BINS:
                raise ValueError(f"{who}: bins is {bins!r}; one at least is needed.")
            self.number = number
        else:
            edges = np.asarray(bins)
            if edges.ndim != 1 or len(edges) < 2 or edges.dtype.kind not in "biuf":
                raise ValueError(f"{who}: edges are {shape_text(edges.shape)}; two or more are needed.")
            if np.any(edges[:-1] > edges[1:]):
                raise ValueError(f"{who}: edges decrease; they must increase.")
            self.number = len(edges) - 1

    def edges(self) -> NDArray[Any]:
        """Return NumPy's edges; where no range was given, smallest and largest element are looked for."""
        between = self.between
        if self.searched:
            low, high = _ends(self.given, self.call).run()
            self.first = stats()
            if not (np.isfinite(low) and np.isfinite(high)):
                raise ValueError(f"{self.call.who}: the elements go from {low} to {high}; give range=.")
            between = (low, high)
            sample = np.array([low, high], self.given.dtype)
        else:
            sample = np.empty(0, self.given.dtype)
        return np.histogram_bin_edges(sample, self.bins, between)

    def counts(self, edges: NDArray[Any] | None) -> _Counts:
        """Return the call that counts."""
        double = np.linspace(0.0, 1.0, self.number + 1) if edges is None else edges.astype(np.float64)
        weights = None if self.weights is None else cast(self.weights, np.float64)
        return _Counts(self.call, self.given, self.number, double, weights)

    def plan(self) -> Plan:
        """Count the pass that counts, and the one before it."""
        counted = self.counts(None).plan()
        if not self.searched:
            return counted
        both: Plan = after(_ends(self.given, self.call).plan(), counted)
        return both

    def run(self) -> Any:
        """Do it."""
        self.counts(None).check()
        edges = self.edges()
        number = np.zeros(self.number, self.dtype)
        if self.given.size:
            number = self.counts(edges).run().astype(self.dtype, copy=False)
            if self.searched:
                remember(self.call.runtime, after(self.first, stats()))
        if not self.density:
            return number, edges
        return number / np.diff(edges).astype(np.float64) / number.sum(), edges


@routine
def histogram(
    a: Any, /, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None, *,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return how many elements lie in each bin, and the edges of the bins.

    Parameters
    ----------
    a : Array, Expression or ndarray
        Real numbers of any shape.
    bins : int or array
        How many, equally wide, or their edges.
    range : (float, float), optional
        From where to where; default: from the smallest to the largest element, which takes a read more.
    density : bool
        Divide by width and number, so that the integral is 1.
    weights : Array, Expression or ndarray, optional
        What each element counts, of the same shape; real numbers, added in float64.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    counts, edges : ndarray
        Counts in int64, or of the dtype of the weights.

    Raises
    ------
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    One read, two without `range` and edges. Edges and counts are NumPy's: ``edges[i] <= x < edges[i + 1]``,
    compared in float64, the last edge in the last bin. Weights come in the same read, and are added in an
    order that neither the limit nor the workers change.
    """
    call = Call("histogram", memory)
    given = given_value("histogram", off_the_map(call, a), "biuf")
    return _Histogram(call, given, bins, range, bool(density), _weights(call, weights, given))


class _BinCount:
    """How often each whole number stands there; the largest is looked for first."""

    def __init__(self, call: Call, given: Expression, minlength: int, weights: Expression | None) -> None:
        self.call, self.given, self.minlength = call, given, minlength
        self.weights = None if weights is None else cast(weights, np.float64)

    def counts(self, number: int) -> _Counts:
        """Return the call that counts so many numbers."""
        return _Counts(self.call, self.given, max(number, self.minlength), None, self.weights)

    def plan(self) -> Plan:
        """Count the pass before, and the one that counts, into as many numbers as are known."""
        counted = self.counts(1).plan()
        both: Plan = after(_ends(self.given, self.call).plan(), counted)
        return both

    def run(self) -> Any:
        """Do it."""
        if self.given.size == 0:
            return np.zeros(self.minlength, np.int64 if self.weights is None else np.float64)
        self.counts(1).check()
        low, high = _ends(self.given, self.call).run()
        first = stats()
        if low < 0:
            raise ValueError(f"bincount: {low} is among the elements; none may be below 0.")
        numbers = self.counts(int(high) + 1).run()
        remember(self.call.runtime, after(first, stats()))
        return numbers


@routine
def bincount(
    x: Any, /, weights: Any = None, minlength: int = 0, *, memory: int | str | None = None
) -> Prepared[Any]:
    """Return how often each whole number from 0 on stands in an array.

    Parameters
    ----------
    x : Array, Expression or ndarray
        One dimension of integers, none below 0.
    weights : Array, Expression or ndarray, optional
        What each number counts, of the same shape; real numbers, added in float64.
    minlength : int
        How many counts there are at least.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    ndarray
        int64; float64 with weights.

    Raises
    ------
    BudgetError
        The limit is too small for the counts; the largest number is found by a read.

    Notes
    -----
    Two reads: the largest number, then the counts.
    """
    call = Call("bincount", memory)
    given = given_value("bincount", off_the_map(call, x), "iub")
    if given.ndim != 1:
        raise ShapeError(f"bincount: the array is {shape_text(given.shape)}; one dimension is needed.")
    if minlength < 0:
        raise ValueError(f"bincount: minlength is {minlength}; 0 or more is needed.")
    return _BinCount(call, given, int(minlength), _weights(call, weights, given))
