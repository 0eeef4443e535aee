"""Sums, extremes and counts of sparse matrices along an axis: one read of the matrix each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import NumericalError, ShapeError
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine, planned_by
from .._scratch.scratch import prepare

__all__ = ["ColumnMoments", "RowCounts", "SparseReductions", "Sums", "stored_numbers"]

_EXACT = 2**53  # integers up to here are exact in float64, in which matrices stream


class _Fold(Routine[NDArray[np.float64]]):
    """One job that folds the stored values of a matrix into two words for each row or column of it."""

    def __init__(self, who: str, view: Any, memory: Any, shape: tuple[int, int]) -> None:
        super().__init__(Call(who, memory))  # first: what is prepared from here on counts
        self.call.on(view.path)
        self.view, self.shape = view, shape
        self.places.append(Place(self.call, shape, np.dtype(np.float64), IN_MEMORY, ()))

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = f"{self.view.stored_values:,} stored values"
        return f"{self.call.who} {shape_text(self.view.shape)} sparse, {stored}"

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return How("row panels")

    def job(self, at: At) -> _core.Job:
        """Return the job that writes the words."""
        (place,) = self.places
        return self.fold(at(place))

    def fold(self, out: _core.Array) -> _core.Job:
        """Return the job that writes `out`."""
        raise NotImplementedError

    def run(self) -> NDArray[np.float64]:
        """Read the matrix once and return the words."""
        if 0 in self.shape or 0 in self.view.shape:
            return np.zeros(self.shape)
        return super().run()


def _stored_shape(view: Any) -> tuple[int, int]:
    rows, columns = view.shape[::-1] if view._transposed else view.shape
    return rows, columns


class ColumnMoments(_Fold):
    """Sums and sums of squares of the stored columns, 2 x n."""

    def __init__(self, who: str, view: Any, memory: Any = None) -> None:
        super().__init__(who, view, memory, (2, _stored_shape(view)[1]))

    def fold(self, out: _core.Array) -> _core.Job:
        """Return the job that writes `out`."""
        return _core.csr_statistics_job(self.view.operand(), out)


class _Along(_Fold):
    """A fold of stored values: two words for each stored column (2 x n) or row (m x 2; of sums m x 1)."""

    def __init__(self, who: str, fold: str, view: Any, along: int | None, memory: Any = None) -> None:
        rows, columns = _stored_shape(view)
        self.name, self.rows = fold, along == 1
        words = 1 if fold == "sum" else 2
        super().__init__(who, view, memory, (rows, words) if self.rows else (2, columns))
        # As products see the values; integers as they are.
        self.real = "float32" if view.dtype == np.float32 else "float64"

    def fold(self, out: _core.Array) -> _core.Job:
        """Return the job that writes `out`; partial results may go to scratch."""
        prepare(self.call.runtime.scratch)
        return _core.csr_fold_job(self.view.operand(), self.name, self.rows, self.real, out)

    def words(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the folds and the numbers of stored values."""
        found = self.run()
        return (found[:, 0], found[:, 1]) if self.rows else (found[0], found[1])


class Sums(_Along):
    """Compensated sums along stored columns or rows."""

    def __init__(self, who: str, view: Any, along: int | None, memory: Any = None) -> None:
        super().__init__(who, "sum", view, along, memory)

    def sums(self) -> NDArray[np.float64]:
        """Return the sum of each row or column."""
        found = self.run()
        sums = found[:, 0] if self.rows else found[0]
        if not self.rows:
            np.add(sums, found[1], out=sums, where=np.isfinite(sums))
        return sums

    def total(self) -> float:
        """Return the sum of everything, what rounding took from each column included."""
        found = self.run()
        if not np.isfinite(found[0]).all():
            return float(np.sum(found[0]))
        try:
            return math.fsum(found.flat)
        except OverflowError:  # beyond float64 on the way
            return float(np.sum(found[0]))


class RowCounts(_Along):
    """Sums of the stored rows and the least value below 0 of each (0: none), m x 2: one read sees both."""

    def __init__(self, who: str, view: Any, memory: Any = None) -> None:
        super().__init__(who, "counts", view, 1, memory)


class SparseReductions:
    """The part of `SparseArray` that reduces it."""

    _transposed: bool
    _stored: _core.CsrMatrix
    shape: Any
    dtype: Any

    def _along(self, axis: int | None) -> int | None:
        """Return the axis in stored order."""
        if axis is None:
            return None
        if axis not in (-2, -1, 0, 1):
            raise np.exceptions.AxisError(axis, 2)
        return (axis % 2) ^ int(self._transposed)

    def _count(self, axis: int | None) -> int:
        return int(self.shape[0] * self.shape[1] if axis is None else self.shape[axis])

    # What each reduction runs, or plans: X.sum.plan(axis=0).

    def _sums(self, axis: int | None = None, *, memory: int | str | None = None, who: str = "sum") -> Sums:
        return Sums(who, self, self._along(axis), memory)

    def _means(self, axis: int | None = None, *, memory: int | str | None = None) -> Sums:
        return self._sums(axis, memory=memory, who="mean")

    def _squares(
        self, axis: int | None = None, *, ddof: float = 0, memory: int | str | None = None
    ) -> _Along | ColumnMoments:
        along = self._along(axis)
        if along == 1:
            return _Along("var", "moments", self, along, memory)
        return ColumnMoments("var", self, memory)

    def _smallest(self, axis: int | None = None, *, memory: int | str | None = None) -> _Along:
        return self._chosen("min", axis, memory)

    def _largest(self, axis: int | None = None, *, memory: int | str | None = None) -> _Along:
        return self._chosen("max", axis, memory)

    def _chosen(self, name: str, axis: int | None, memory: Any) -> _Along:
        if self._count(axis) == 0:
            raise ShapeError(
                f"{name}: {shape_text(self.shape)} has no elements to choose from; give at least one."
            )
        return _Along(name, name, self, self._along(axis), memory)

    def _nonzeros(self, axis: int | None = None, *, memory: int | str | None = None) -> _Along:
        return _Along("count_nonzero", "nonzero", self, self._along(axis), memory)

    @planned_by(_sums)
    def sum(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return compensated sums along `axis` (None: of everything), float64; one read."""
        return self._summed(axis, self._sums(axis, memory=memory))

    def _summed(self, axis: int | None, job: Sums) -> Any:
        return job.total() if axis is None else job.sums()

    @planned_by(_means)
    def mean(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return means along `axis`, zeros that are not stored included; NaN of nothing; one read."""
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = self._summed(axis, self._means(axis, memory=memory))
            return np.float64(1) * sums / self._count(axis)

    @planned_by(_squares)
    def var(self, axis: int | None = None, *, ddof: float = 0, memory: int | str | None = None) -> Any:
        """Return variances along `axis`, from sums and squares in float64; one read.

        Where the mean is x times the standard deviation, x² times the rounding of float64 is the error.
        """
        job, count = self._squares(axis, memory=memory), self._count(axis)
        sums, squares = job.words() if isinstance(job, _Along) else job.run()
        if axis is None:
            sums, squares = sums.sum(), squares.sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            spread: Any = np.maximum(squares - sums * sums / count, 0.0) / max(count - ddof, 0)
        return spread if axis is not None else float(spread)

    @planned_by(_smallest)
    def min(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return minima along `axis`, zeros that are not stored included, NaN where one is; one read."""
        return self._extreme("min", axis, memory)

    @planned_by(_largest)
    def max(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return maxima along `axis`, zeros that are not stored included, NaN where one is; one read."""
        return self._extreme("max", axis, memory)

    def _extreme(self, name: str, axis: int | None, memory: Any) -> Any:
        along = self._along(axis)
        found, stored = self._chosen(name, axis, memory).words()
        better = getattr(np, f"{name}imum")
        length = self._count(along ^ int(self._transposed)) if along is not None else _stored_shape(self)[0]
        found = np.where(stored < length, better(found, 0.0), found)
        if along is None:
            found = np.asarray(getattr(found, name)())
        if self.dtype.kind in "iu" and self.dtype.itemsize == 8 and (np.abs(found) > _EXACT).any():
            raise NumericalError(
                f"{name}: values beyond 2^53 are not exact in float64, in which sparse matrices stream; "
                "store them as float64 or take to_scipy()."
            )
        return found.astype(self.dtype)[()]

    @planned_by(_nonzeros)
    def count_nonzero(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return the number of values that are not zero (NaN is not) along `axis`; one read."""
        counts = self._nonzeros(axis, memory=memory).words()[0].astype(np.int64)
        return counts if axis is not None else int(counts.sum())


def stored_numbers(view: Any) -> NDArray[np.int64]:
    """Return how many values each column of a matrix stores: one read."""
    return _Along("nnz", "nonzero", view, 0).words()[1].astype(np.int64)
