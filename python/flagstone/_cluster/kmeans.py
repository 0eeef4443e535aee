"""k-means of points that are larger than memory."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import Error, ShapeError
from .._output.path_place import GroupPlace
from .._output.place import Place
from .._output.replaceable import check_path
from .._resume.identity import memory_identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags, one_of, real_number, seed_number, whole_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .points import centers_of, points_of, weights_of
from .result import KMeansResult

__all__ = ["batch_step", "kmeans"]

_USUAL = 20  # iterations, for what is worth a record
_COUNTED = 30  # iterations of a plan at most, as the core counts


class KMeans(Routine[KMeansResult]):
    """The checked arguments of one call."""

    operation = "kmeans"
    whole = False  #: all points are one batch

    def __init__(
        self, X: Any, k: int | None, init: Any, iterations: int, tol: float, weights: Any, metric: str,
        labels: bool, seed: int, out: Any, memory: Any, method: str = "lloyd",
    ) -> None:  # fmt: skip
        call = Call("kmeans", memory)
        method = one_of("kmeans", "method", method, "lloyd", "minibatch")
        metric = one_of("kmeans", "metric", metric, "euclidean", "cosine")
        tol = real_number("kmeans", "tol", tol, lambda v: 0 <= v < 1, "a number from 0 to 1 is needed")
        seed = seed_number("kmeans", seed)
        self.seeds = out if isinstance(out, (Array, np.ndarray)) else None  # overwritten where they stand
        if self.seeds is not None:
            out = None
        elif out is not None:
            check_path("kmeans", out)
        self.x = points_of(call, X)
        rows, columns = self.x.shape
        self.weights = weights_of(call, weights, rows)
        self.centres = None if isinstance(init, str) else centers_of(call, init, columns)
        self.k = self._k(k)
        check_flags("kmeans", labels=labels)
        self.metric, self.labels = metric, bool(labels)
        self.input = self.x.input("kmeans", self.weights, unit=metric == "cosine")
        named = init if isinstance(init, str) else "k-means||"
        steps = whole_number("kmeans", "iterations", iterations)
        centres = None if self.centres is None else _core.memory_array(self.centres)
        self.options = _core.KMeansOptions(self.k, named, centres, steps, tol, seed, self.labels)
        self.asked: dict[str, Any] = {
            "k": self.k, "init": named, "iterations": steps, "tol": tol, "metric": metric,
            "labels": self.labels, "seed": seed, "method": method,
        }  # fmt: skip
        self.options.minibatch, self.options.whole = method == "minibatch", self.whole
        _core.check_kmeans(self.input, self.options)
        self.into = None if self.seeds is None else self._into(call, self.seeds, columns)
        self.place = self._place(call, out, rows, columns)
        super().__init__(call, [self.place])
        if self.x.turned:
            self.operation = ""  # what is turned into scratch goes with the process: it begins again
        call.on(*self.x.paths)
        call.outputs = 4

    def _k(self, k: int | None) -> int:
        if self.centres is None:
            if k is None:
                raise ShapeError(
                    "kmeans: k is not given; a number of clusters is needed, or centers as init."
                )
            return whole_number("kmeans", "k", k)
        if k is not None and whole_number("kmeans", "k", k) != len(self.centres):
            raise ShapeError(
                f"kmeans: k is {k} and init holds {len(self.centres)} centers; they must agree (leave k out)."
            )
        return len(self.centres)

    def _into(self, call: Call, seeds: Any, columns: int) -> Place:
        """Return the place of centers that overwrite an array."""
        if seeds.dtype.kind != "f" or seeds.dtype.itemsize not in (4, 8):
            raise ShapeError(
                f"kmeans: out is {shape_text(tuple(seeds.shape))} {seeds.dtype}; centers overwrite seeds of "
                "float32 or float64."
            )
        shape = self.k, columns
        return Place(call, shape, np.dtype(seeds.dtype), seeds, shape, called="matrix of centers")

    def _overwrite(self, centers: NDArray[np.float64]) -> None:
        """Let the centers stand where the seeds stood, at once and whole."""
        if self.into is None:
            return
        with contextlib.ExitStack() as stack:
            core = self.into.open(stack)
            values = np.ascontiguousarray(centers, self.into.dtype)
            self.call.engine.write_boxes(core, [([0, 0], values)], 1 << 20)
            self.into.close()

    def _place(self, call: Call, out: Any, rows: int, columns: int) -> GroupPlace:
        small = 8 * (self.k * (columns + 1) + 1)
        if not self.labels:
            return GroupPlace(
                call, out, "centers", ["cluster", "column"], (self.k, columns), np.dtype(np.float64),
                (self.k, columns), small,
            )  # fmt: skip
        return GroupPlace(
            call, out, "labels", ["row"], (rows,), np.dtype(np.int32), (_core.label_rows(self.input),),
            4 * rows + small,
        )  # fmt: skip

    @property
    def what(self) -> str:
        kind = self.x.dtype.name if self.x.sparse is None else f"sparse, {self.x.values:,.0f} stored values"
        return f"kmeans {shape_text(self.x.shape)} {kind}, k = {self.k}"

    def job(self, at: At) -> _core.KMeansJob:
        out = at(self.place)  # first: the place is open from here on, and has its checkpoint
        return _core.kmeans_job(self.input, self.options, out, self.place.checkpoint)

    def how(self, job: _core.KMeansJob) -> How:
        seeds = "given seeds" if self.centres is not None else f"{self.asked['init']} seeds"
        steps = int(self.asked["iterations"])
        note = f"{min(_COUNTED, steps)} iterations are counted; {steps} at most" if steps > _COUNTED else ""
        if job.decided:  # it has run
            note = f"float64 decided {job.decided:,.0f} labels"
        return How(f"{self.asked['method']}, {seeds}", job.passes, note)

    def arguments(self) -> dict[str, Any]:
        return self.asked | {
            "x": self.x.identity,
            "weights": None if self.weights is None else self.weights.identity,
            "centres": None if self.centres is None else memory_identity(self.centres),
        }

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes of the usual iterations."""
        steps = min(_USUAL, int(self.asked["iterations"])) + 6
        return 2.0 * self.x.values * self.k * steps, self.x.nbytes * steps

    def result(self, job: _core.KMeansJob) -> KMeansResult:
        centers = np.array(job.centres).reshape(self.k, self.x.shape[1])
        counts: NDArray[Any] = np.array(job.weights)
        if self.weights is None:
            counts = counts.astype(np.int64)
        if self.labels:
            self.place.write("centers", centers, ["cluster", "column"])
        self.place.write("counts", counts, ["cluster"])
        about = {
            "routine": "kmeans", "inertia": job.inertia, "iterations": job.iterations,
            "converged": job.converged, "metric": self.metric, "version": _core.__version__,
        }  # fmt: skip
        made = self.place.close({"flagstone": about})
        self._overwrite(centers)
        if empty := int(np.count_nonzero(counts == 0)):
            warnings.warn(
                f"kmeans: {empty} of {self.k} clusters have no points; X has fewer distinct rows than k, or "
                "more iterations are needed.", stacklevel=4,
            )  # fmt: skip
        return KMeansResult(
            centers, made if self.labels else None, counts, job.inertia, job.iterations, job.converged,
            self.metric,
        )  # fmt: skip


@routine
def kmeans(
    X: Any, k: int | None = None, *, init: Any = "k-means||", iterations: int = 300, tol: float = 1e-4,
    weights: Any = None, metric: str = "euclidean", method: str = "lloyd", labels: bool = True, seed: int = 0,
    out: str | os.PathLike[str] | Any = None, memory: int | str | None = None,
) -> Prepared[KMeansResult]:  # fmt: skip
    """Return k clusters of points by Lloyd's algorithm or by mini-batches, inside a memory limit.

    Parameters
    ----------
    X : Array, Expression, SparseArray, ndarray or SciPy matrix, m x d
        Real points, one a row, on disk, in memory or lazy, transposed or not (``X.T``: columns are points).
        Each value of a sparse matrix is stored once; what is stored by columns is turned into scratch first.
    k : int, optional
        Clusters, between 1 and m. Not needed where `init` holds centers.
    init : {"k-means||", "k-means++", "random"} or matrix, k x d
        Seeds. "k-means||" takes six reads of X, "k-means++" one for each center, "random" one; centers that
        are given take none.
    iterations : int
        At most so many.
    tol : float
        Centers stay where the sum of their squared moves is at most `tol` times the mean variance of the
        columns; 0: where they move by no more than sums round. Mini-batches also end where an iteration
        lowers the inertia, as they meet it, by less than `tol` of itself (not with 0).
    weights : Array or ndarray, m, optional
        Of points, 0 or more: in sums, counts, inertia and draws.
    metric : {"euclidean", "cosine"}
        "cosine": rows and centers as unit vectors (a row of zeros stays one).
    method : {"lloyd", "minibatch"}
        "minibatch": centers move after each batch of stored panels (some 8 MiB each, at most four, an eighth
        of X), by the share that it has among all points they have met (Sculley 2010); batches come in an
        order that is drawn anew in each iteration, which is one read of X. Another result than Lloyd's, near
        it after a read or two.
    labels : bool
        Return labels too, and inertia and counts of the centers that are returned: one more pass. False:
        inertia and counts are those of the last update.
    seed : int
        Of the draws; the same seed gives the same bits for every memory limit and worker count.
    out : path, Array or ndarray, optional
        A Zarr group that will hold labels, centers and counts; replaced at once and whole. Default: scratch;
        deleted when the last handle on the labels dies. An Array or ndarray, k x d of float32 or float64:
        overwritten with the centers, at once and whole; it may be `init`, the seeds themselves. The labels
        go to scratch then.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    KMeansResult
        ``centers, labels, counts, inertia, iterations, converged``, with ``predict(Y)`` and ``transform(Y)``.

    Raises
    ------
    ShapeError
        k is out of range; seeds or weights do not fit; X is complex.
    NumericalError
        X holds NaN or Inf, or weights are negative; names a row.
    BudgetError
        The limit is too small; names the least that works.

    Warns
    -----
    UserWarning
        Clusters have no points in the end: there are fewer distinct rows than k.

    Notes
    -----
    An iteration is one read of X (less what the cache still holds: panels go there and back) and 2 m d k
    flops (sparse: 2 nnz k) in float32; labels, distances and sums are float64's, whatever the offset of the
    data: rows whose best two centers float32 cannot tell apart are decided in float64. Centers and their
    sums, about (28 + 8 (workers + log2(panels))) k d bytes, stay in memory. Clusters that lose all points
    start anew at the farthest ones. ``kmeans.plan(...)`` takes the same arguments and counts: at most 30
    iterations. Sources: Lloyd 1982; Arthur and Vassilvitskii 2007; Bahmani et al. 2012.
    """
    return KMeans(X, k, init, iterations, tol, weights, metric, labels, seed, out, memory, method)


class _Step(KMeans):
    """One batch: all points that are given."""

    whole = True

    def __init__(
        self, X: Any, k: int, init: Any, met: NDArray[np.float64] | None, weights: Any, metric: str,
        seed: int, memory: Any,
    ) -> None:  # fmt: skip
        super().__init__(X, k, init, 1, 0.0, weights, metric, False, seed, None, memory, "minibatch")
        self.options.met = [] if met is None else met.tolist()
        self.operation, self.places = "", []
        self._centers = np.empty((self.k, self.x.shape[1]))

    def job(self, at: At) -> _core.KMeansJob:
        return _core.kmeans_job(self.input, self.options, _core.memory_array(self._centers), None)

    def result(self, job: _core.KMeansJob) -> Any:
        return self._centers, np.array(job.met), float(job.inertia)


def batch_step(
    X: Any, k: int, init: Any, met: NDArray[np.float64] | None, weights: Any, metric: str, seed: int,
    memory: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:  # fmt: skip
    """Move centers by one batch; return them, what they have met, and the inertia before they moved."""
    made: Any = _Step(X, k, init, met, weights, metric, seed, memory).run()
    return made  # type: ignore[no-any-return]


@resumable("kmeans")
def _again(path: str, told: dict[str, Any]) -> Again:
    if told["centres"] is not None:
        raise Error("resume: kmeans was begun with centers, which are in no file; make the same call again.")
    options = {
        name: told[name] for name in ("init", "iterations", "tol", "metric", "method", "labels", "seed")
    }
    if told["weights"] is not None:
        options["weights"] = operand("weights", told["weights"])
    return kmeans, (operand("X", told["x"]), told["k"]), options | {"out": path}
