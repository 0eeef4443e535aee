"""All neighbours within a radius, of points that are larger than memory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any

import numpy as np

from .. import _core
from .._array.array import shape_text
from .._errors.classes import BudgetError
from .._resume.openers import operand
from .._resume.record import seconds_of
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags, one_of, real_number
from .._runtime.call import Call
from .._runtime.plan import Plan
from .._runtime.routine import Prepared, routine
from .._sparse.array import SparseArray
from .._sparse.builder import CsrBuilder, writer_bytes
from .._sparse_algebra.written import SparseResult
from .points import METRICS, neighbour_points

__all__ = ["radius_neighbors"]


_ROOM = 85  # bytes of the limit for a neighbour, which waits in 34: half of four fifths is for these


class RadiusNeighbors(SparseResult):
    """The checked arguments of one call: one graph of tasks makes the rows, a stretch at a time."""

    operation = "radius_neighbors"

    def __init__(
        self, Q: Any, X: Any, radius: float, metric: str, exclude_self: bool, out: Any, memory: Any
    ) -> None:
        call = Call("radius_neighbors", memory)
        check_flags(call.who, exclude_self=exclude_self)
        metric = one_of(call.who, "metric", metric, *METRICS)
        radius = real_number(call.who, "radius", radius, lambda _: True)  # the core says which fit the metric
        q, x = self.queries, self.points = neighbour_points(call, Q, X, exclude_self)
        self.metric, self.radius, self.exclude_self = metric, radius, bool(exclude_self)
        self.input = _core.RadiusInput(
            q.core, q.transposed, x.core, x.transposed, self.radius, metric, self.exclude_self
        )
        _core.check_radius(self.input)
        shape = q.shape[0], x.shape[0]
        super().__init__(call, [], shape, np.float64, shape[0] * shape[1], out)
        call.on(*q.paths, *x.paths)

    @property
    def what(self) -> str:
        of = "itself" if self.points is self.queries else shape_text(self.points.shape)
        q = self.queries
        return f"radius_neighbors {shape_text(q.shape)} {q.dtype} with {of}, radius {self.radius:g}"

    @property
    def working(self) -> int:
        """What the graph holds is charged to its run."""
        return 0

    @property
    def seconds(self) -> float:
        q, x = self.queries, self.points
        return seconds_of(2.0 * q.shape[0] * x.shape[0] * q.shape[1], float(x.shape[0] * x.shape[1]) * 8)

    def arguments(self) -> dict[str, Any]:
        x = None if self.points is self.queries else self.points.identity
        return {
            "q": self.queries.identity, "x": x, "radius": self.radius, "metric": self.metric,
            "exclude_self": self.exclude_self,
        }  # fmt: skip

    def _job(self, builder: CsrBuilder | None = None, touched: int = 0) -> _core.RadiusJob:
        """Return the job that gives its rows to `builder`; without one, for the planner.

        `touched`: bytes that the writer holds already.
        """
        held = writer_bytes(self.shape[1], self.dtype, max(1, self.bound))
        recorded = self.out is not None and _core.worth_a_record(self.seconds)
        whole = 3 * held if recorded else held  # a state is copied twice on its way
        self.input.beside = max(0, whole - touched)
        self.input.first = 0 if builder is None else builder.held
        if builder is None:
            return _core.radius_job(self.input, None)

        def use(pointers: Any, columns: Any, values: Any) -> None:
            builder.append(pointers, columns, values)
            builder.offer(builder.rows / self.shape[0])

        return _core.radius_job(self.input, use)

    @staticmethod
    def _note(job: _core.RadiusJob, known: bool) -> str:
        of = f"{job.stretches} stretches of queries" if job.stretches > 1 else "one stretch of queries"
        if not known:
            return f"at least {of}, more where neighbours do not fit; X is read once for each"
        begun = f", {job.again} begun again" if job.again else ""
        return f"{job.pairs:,.0f} neighbours; {of}{begun}: X is read once for each"

    def _refused(self, job: _core.RadiusJob) -> BudgetError:
        """Return what is raised of a query whose neighbours have no room, were it all points."""
        least = self.call.rounded(self.call.memory + _ROOM * (self.shape[1] - job.room))
        return BudgetError(
            f"{self.call.who}: row {job.too_many} of Q has more than {job.room:,} neighbours, for which the "
            f"limit of {_core.format_bytes(self.call.memory)} has room; a smaller radius is needed, or "
            f"{_core.format_bytes(least)} at most.", least,
        )  # fmt: skip

    def plan(self) -> Plan:
        """Count it on a virtual clock, as if there were few neighbours."""
        job = self._job()
        self.call.use_profile()  # what its probe takes is resident when the least is asked for
        needed = self.call.engine.least_memory(job)
        least, counted = self.call.rounded(needed), self.call.plan(job, needed)
        note = self._note(job, known=False)
        return self.call.to_plan(
            counted, least, self.what, f"exact, {self.metric}", max(1, job.stretches), note
        )

    def run(self) -> SparseArray:
        """Do it."""
        self.call.check_memory(self._job())
        with contextlib.ExitStack() as stack:
            self.call.tidy()
            before = _core.resident_bytes()
            builder, place, record = self.begin(stack)
            job = self._job(builder, max(0, _core.resident_bytes() - before))
            done = self.call.run(job)
            if job.too_many >= 0:
                raise self._refused(job)
            matrix = self.end(builder, place)
            kept = self.call.record(
                done, self.what + record.where, f"exact, {self.metric}", max(1, job.stretches),
                self._note(job, known=True),
            )  # fmt: skip
            peak = max(kept.peak_memory, _core.peak_resident_bytes())
            self.call.keep(dataclasses.replace(kept, bytes_written=matrix.stored_bytes, peak_memory=peak))
        return matrix


@routine
def radius_neighbors(
    Q: Any, X: Any = None, radius: float = 1.0, *, metric: str = "euclidean", exclude_self: bool = False,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Prepared[SparseArray]:  # fmt: skip
    """Return all points within a radius of each query, exactly, inside a memory limit.

    Parameters
    ----------
    Q : Array, Expression or ndarray, m x d
        Real queries, one a row, on disk, in memory or lazy, transposed or not.
    X : the same, n x d, optional
        Points to choose from. Default: Q itself, the graph of its neighbours.
    radius : float
        Distances of at most that are stored; of "inner" products of at least that.
    metric : {"euclidean", "cosine", "inner"}
        Euclidean distances; 1 - cos (of a row of zeros 1); products.
    exclude_self : bool
        Without X: a row is not its own neighbour (rows that are equal to it may be).
    out : path, optional
        Where the matrix goes (a directory), replaced at once and whole. Default: scratch, until the handle
        dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    SparseArray
        m x n by rows, float64: the distances, zeros among them stored too. May exceed memory.

    Raises
    ------
    ShapeError
        The radius is negative or not finite; columns do not agree; something is complex.
    NumericalError
        Q or X hold NaN or Inf; names a row and column.
    BudgetError
        The limit is too small; names the least that works. During the run: a query has more neighbours than
        the limit has room for, 34 bytes each; what was written before it is kept where there is a record.

    Notes
    -----
    Reads Q once and X once for each stretch of queries whose rows and neighbours (34 bytes each) fit the
    limit; 2 m n d flops in float32, and 3 d in float64 for each neighbour, which is scored again by
    differences: what is stored and which pairs are, float64 decides, at any offset of the data. Writes about
    12 bytes a neighbour. A stretch whose neighbours prove too many is begun again with fewer queries. The
    same bits for every limit and number of workers; of Q with itself the matrix is symmetric. A plan counts
    stretches as if there were few neighbours; how many there are, the data says. A killed call with `out`
    goes on at the last stretch that was noted.
    """
    return RadiusNeighbors(Q, X, radius, metric, exclude_self, out, memory)


@resumable("radius_neighbors")
def _again(path: str, told: dict[str, Any]) -> Again:
    points = None if told["x"] is None else operand("X", told["x"])
    options = {name: told[name] for name in ("metric", "exclude_self")}
    return radius_neighbors, (operand("Q", told["q"]), points, told["radius"]), options | {"out": path}
