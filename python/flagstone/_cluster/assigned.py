"""Points against centers that are known: the nearest of each, or all distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .._sparse.array import SparseArray
from .._sparse.to_csr import is_choice
from .points import points_of, weights_of

__all__ = ["Assigned", "distances", "inertia", "labels"]


_TILE = 4 << 20  # bytes of distances of a panel of sparse points that are written at a time
_HELD = 64 << 20  # of all chosen rows, of which no panel is a tile: they are put together in memory


class Assigned(Routine[Any]):
    """One pass over points."""

    def __init__(
        self, who: str, Y: Any, centers: NDArray[np.float64] | Array, metric: str, out: Any, memory: Any,
        whole: bool = False, weights: Any = None,
    ) -> None:  # fmt: skip
        call = Call(who, memory)
        self.y = points_of(call, Y, "Y")
        rows, columns = self.y.shape
        if columns != centers.shape[1]:
            raise ShapeError(
                f"{who}: Y is {shape_text(self.y.shape)}; {centers.shape[1]} columns are needed, as in "
                "the fit."
            )
        self.weights = weights_of(call, weights, rows)
        self.input = self.y.input(who, self.weights, unit=metric == "cosine")
        self.stored = isinstance(centers, Array)
        self.centers = Operand.of(centers if self.stored else np.ascontiguousarray(centers))
        self.whole, self.k = whole, int(centers.shape[0])
        if out is None and not isinstance(Y, (Array, Expression, SparseArray)):
            out = IN_MEMORY
        shape = (rows, self.k) if whole else (rows,)
        chunks = self._tiles() if whole else (_core.label_rows(self.input),)
        dtype = np.dtype(np.float64 if whole else np.int32)
        super().__init__(call, [Place(call, shape, dtype, out, chunks)])
        call.on(*self.y.paths, *self.centers.paths)

    def _tiles(self) -> tuple[int, int]:
        """Return rows and columns of the tiles of all distances."""
        across = _core.block_rows(self.k, self.input) if self.stored else self.k
        if self.y.dense is not None:
            return _core.query_rows(self.y.dense.core, self.y.dense.transposed), across
        rows = _core.label_rows(self.input)
        fits = min(across, _TILE // (8 * rows))
        if is_choice(self.y.sparse):
            fits = min(fits, _HELD // (8 * self.y.shape[0]))
        return rows, max(1, fits)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.y.shape)}, k = {self.k}"

    def how(self, job: Any) -> How:
        """Say that points come in panels of rows."""
        return How("row panels")

    def job(self, at: At) -> _core.Job:
        """Return the pass as a job."""
        to, centers = at(self.places[0]), self.centers.core
        if self.whole:
            return _core.distances_job(self.input, centers, to)
        if self.stored:
            return _core.stored_labels_job(self.input, _core.StoredCentres(centers, False), to)
        return _core.labels_job(self.input, centers, to)


class _Inertia(Assigned):
    def result(self, job: Any) -> float:
        self.places[0].close()
        return float(job.inertia)


def inertia(Y: Any, centers: NDArray[np.float64] | Array, metric: str, weights: Any, memory: Any) -> float:
    """Return the weighted sum of squared distances of points from their nearest centers."""
    made: float = _Inertia("score", Y, centers, metric, None, memory, weights=weights).run()
    return made


def labels(Y: Any, centers: NDArray[np.float64] | Array, metric: str, out: Any, memory: Any) -> Assigned:
    """Prepare the nearest center of each point."""
    return Assigned("predict", Y, centers, metric, out, memory)


def distances(Y: Any, centers: NDArray[np.float64] | Array, metric: str, out: Any, memory: Any) -> Assigned:
    """Prepare the distances of points from all centers."""
    return Assigned("transform", Y, centers, metric, out, memory, whole=True)
