"""Sums, extremes and counts of sparse matrices along an axis: pending, one read of the matrix for several."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ShapeError
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine, planned_by
from .pending import SparsePass, SparseReduced, stored_shape

__all__ = ["ColumnMoments", "RowCounts", "SparseReductions", "stored_numbers"]


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


class ColumnMoments(_Fold):
    """Sums and sums of squares of the stored columns, 2 x n."""

    def __init__(self, who: str, view: Any, memory: Any = None) -> None:
        super().__init__(who, view, memory, (2, stored_shape(view)[1]))

    def fold(self, out: _core.Array) -> _core.Job:
        """Return the job that writes `out`."""
        return _core.csr_statistics_job(self.view.operand(self.call.memory), out)


class RowCounts(_Fold):
    """Sums of the stored rows and the least value below 0 of each (0: none), m x 2: one read sees both."""

    def __init__(self, who: str, view: Any, memory: Any = None) -> None:
        super().__init__(who, view, memory, (stored_shape(view)[0], 2))

    def fold(self, out: _core.Array) -> _core.Job:
        """Return the job that writes `out`."""
        self.call.scratch_in_run()
        real = "float32" if self.view.dtype == np.float32 else "float64"
        return _core.csr_folds_job(
            self.view.operand(self.call.memory), real, [_core.CsrFold("counts", True, out)]
        )


class SparseReductions:
    """The part of `SparseArray` that reduces it.

    Each returns a pending `Reduced`, which acts as an ndarray (a number where `axis` is None); with
    ``memory=`` it is computed at once, inside that limit. ``S.sum.plan(axis=0)`` counts one; `fl.compute`
    takes several in one read. Of complex values they are computed at once, one read for each part.
    """

    shape: Any
    dtype: Any

    def _reduced(
        self, name: str, axis: int | None, memory: int | str | None, ddof: float = 0
    ) -> SparseReduced | Any:
        if self.dtype.kind == "c":
            return self._complex_reduced(name, axis, memory, ddof)
        pending = SparseReduced(self, name, axis, ddof)
        return pending if memory is None else pending.computed(memory)

    def _complex_reduced(self, name: str, axis: int | None, memory: int | str | None, ddof: float) -> Any:
        """Return a reduction of complex values, computed at once: of both parts, one read each."""
        seen: Any = self
        if name in ("min", "max"):
            raise ShapeError(
                f"{name}: the matrix is {self.dtype}, and no complex number is larger than another; take "
                "abs(A), A.real or A.imag."
            )
        if name == "count_nonzero":
            found = SparseReduced(seen.astype(bool), name, axis).computed(memory)
        else:
            real, imag = (
                SparseReduced(one, name, axis, ddof).computed(memory) for one in (seen.real, seen.imag)
            )
            found = real + imag if name == "var" else real + 1j * imag
        return found

    # What each reduction runs, or plans: X.sum.plan(axis=0).

    def _sums(self, axis: int | None = None, *, memory: int | str | None = None) -> SparsePass:
        return SparseReduced(self, "sum", axis).alone(memory)

    def _means(self, axis: int | None = None, *, memory: int | str | None = None) -> SparsePass:
        return SparseReduced(self, "mean", axis).alone(memory)

    def _squares(
        self, axis: int | None = None, *, ddof: float = 0, memory: int | str | None = None
    ) -> SparsePass:
        return SparseReduced(self, "var", axis, ddof).alone(memory)

    def _smallest(self, axis: int | None = None, *, memory: int | str | None = None) -> SparsePass:
        return SparseReduced(self, "min", axis).alone(memory)

    def _largest(self, axis: int | None = None, *, memory: int | str | None = None) -> SparsePass:
        return SparseReduced(self, "max", axis).alone(memory)

    def _nonzeros(self, axis: int | None = None, *, memory: int | str | None = None) -> SparsePass:
        return SparseReduced(self, "count_nonzero", axis).alone(memory)

    @planned_by(_sums)
    def sum(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return the pending compensated sums along `axis` (None: of everything), float64; one read."""
        return self._reduced("sum", axis, memory)

    @planned_by(_means)
    def mean(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return the pending means along `axis`, unstored zeros included; NaN of nothing; one read."""
        return self._reduced("mean", axis, memory)

    @planned_by(_squares)
    def var(self, axis: int | None = None, *, ddof: float = 0, memory: int | str | None = None) -> Any:
        """Return the pending variances along `axis`, from sums and squares in float64; one read.

        Where the mean is x times the standard deviation, x² times the rounding of float64 is the error.
        """
        return self._reduced("var", axis, memory, ddof)

    @planned_by(_smallest)
    def min(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return the pending minima along `axis`, unstored zeros included, NaN where one is; one read."""
        return self._reduced("min", axis, memory)

    @planned_by(_largest)
    def max(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return the pending maxima along `axis`, unstored zeros included, NaN where one is; one read."""
        return self._reduced("max", axis, memory)

    @planned_by(_nonzeros)
    def count_nonzero(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return the pending number of values that are not zero (NaN is not) along `axis`; one read."""
        return self._reduced("count_nonzero", axis, memory)


def stored_numbers(view: Any, rows: bool = False, memory: int | str | None = None) -> NDArray[np.int64]:
    """Return how many values each stored column (row) of a matrix stores: one read."""
    if 0 in view.shape:
        return np.zeros(stored_shape(view)[0 if rows else 1], np.int64)
    magnitudes = abs(view) if view.dtype.kind == "c" else view
    found = SparsePass(Call("nnz", memory), magnitudes, "float64")
    place = found.fold("nonzero", rows)
    found.run()
    words = np.asarray(place.result)
    return (words[:, 1] if rows else words[1]).astype(np.int64)
