"""Exact nearest neighbours of points that are larger than memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import _core
from .._array.array import shape_text
from .._output.parts import Part, PartsPlace
from .._resume.openers import operand
from .._resume.record import seconds_of
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags, one_of, whole_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .points import METRICS, neighbour_points
from .result import KnnResult

__all__ = ["knn"]


class Knn(Routine[KnnResult]):
    """The checked arguments of one call."""

    operation = "knn"

    def __init__(
        self, Q: Any, X: Any, k: int, metric: str, exclude_self: bool, out: Any, memory: Any
    ) -> None:
        call = Call("knn", memory)
        self.k = whole_number("knn", "k", k)
        check_flags("knn", exclude_self=exclude_self)
        metric = one_of("knn", "metric", metric, *METRICS)
        q, x = self.queries, self.points = neighbour_points(call, Q, X, exclude_self)
        self.input = _core.KnnInput(
            q.core, q.transposed, x.core, x.transposed, self.k, metric, bool(exclude_self)
        )
        _core.check_knn(self.input)
        self.metric, self.exclude_self = metric, bool(exclude_self)
        shape, rows = (q.shape[0], self.k), _core.query_rows(q.core, q.transposed)
        dims = ["row", "neighbour"]
        parts = [
            Part("distances", shape, (rows, self.k), dims, kept=True),
            Part("indices", shape, (rows, self.k), dims, "int64", kept=True),
        ]
        about = {"routine": "knn", "metric": metric, "version": _core.__version__}
        self.place = PartsPlace(call, out, parts, np.dtype(np.float64), {"flagstone": about})
        self.input.noted = not self.place.nameless and _core.worth_a_record(seconds_of(*self.effort()))
        super().__init__(call, [self.place])
        call.on(*q.paths, *x.paths)
        call.outputs = self.place.named(2)

    @property
    def what(self) -> str:
        of = "itself" if self.points is self.queries else shape_text(self.points.shape)
        return f"knn {shape_text(self.queries.shape)} {self.queries.dtype} with {of}, k = {self.k}"

    def job(self, at: At) -> _core.KnnJob:
        made: Any = at(self.place)
        distances, indices = made
        return _core.knn_job(self.input, distances, indices, self.place.checkpoint)

    def arguments(self) -> dict[str, Any]:
        x = None if self.points is self.queries else self.points.identity
        return {
            "q": self.queries.identity, "x": x, "k": self.k, "metric": self.metric,
            "exclude_self": self.exclude_self,
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, each of points and queries once."""
        q, x = self.queries, self.points
        return 2.0 * q.shape[0] * x.shape[0] * q.shape[1], 8.0 * (q.shape[0] + x.shape[0]) * q.shape[1]

    def how(self, job: _core.KnnJob) -> How:
        blocks = f"{job.blocks} blocks of queries" if job.blocks > 1 else "one block of queries"
        return How(f"exact, {self.metric}", max(1, job.blocks), f"{blocks}: X is read once for each")

    def result(self, job: _core.KnnJob) -> KnnResult:
        return KnnResult(*self.place.close())


@routine
def knn(
    Q: Any, X: Any = None, k: int = 10, *, metric: str = "euclidean", exclude_self: bool = False,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Prepared[KnnResult]:  # fmt: skip
    """Return the k nearest points of each query, exactly, inside a memory limit.

    Parameters
    ----------
    Q : Array, Expression or ndarray, m x d
        Real queries, one a row, on disk, in memory or lazy, transposed or not.
    X : the same, n x d, optional
        Points to choose from. Default: Q itself, the graph of its nearest neighbours.
    k : int
        Neighbours, between 1 and n.
    metric : {"euclidean", "cosine", "inner"}
        Euclidean distances; 1 - cos (of a row of zeros 1); products, the largest first.
    exclude_self : bool
        Without X: a row is not its own neighbour (rows that are equal to it may be).
    out : path, optional
        A Zarr group that will hold distances and indices; replaced at once and whole. Default: scratch;
        deleted when the last handle on the arrays dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    KnnResult
        ``distances, indices``: m x k, float64 and int64, on disk; may exceed memory.

    Raises
    ------
    ShapeError
        k is out of range; columns do not agree; something is complex.
    NumericalError
        Q or X hold NaN or Inf; names a row and column.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Reads Q once and X once for each block of queries that fits the limit, as the plan says; 2 m n d flops in
    float32, of Q with itself half of that: a pair of rows is multiplied once and serves the lists of both.
    What may be among the k is scored again in float64 by differences, so indices are those of float64 at any
    offset of the data; equal distances are ordered by index. Writes 16 m k bytes. The matrix of distances
    never exists. The same bits for every limit and number of workers. ``knn.plan(...)`` takes the same
    arguments and counts. A killed call with `out` goes on behind the last block of queries that was noted.
    """
    return Knn(Q, X, k, metric, exclude_self, out, memory)


@resumable("knn")
def _again(path: str, told: dict[str, Any]) -> Again:
    points = None if told["x"] is None else operand("X", told["x"])
    options = {name: told[name] for name in ("metric", "exclude_self")}
    return knn, (operand("Q", told["q"]), points, told["k"]), options | {"out": path}
