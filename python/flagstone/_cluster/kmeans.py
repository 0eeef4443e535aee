"""k-means of points that are larger than memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import Error
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.routine import At, Prepared, routine
from .clustering import KMeans
from .result import KMeansResult
from .stored import StoredKMeans, centers_place

__all__ = ["batch_step", "kmeans"]


@routine
def kmeans(
    X: Any, k: int | None = None, *, init: Any = "k-means||", iterations: int = 300, tol: float = 1e-4,
    weights: Any = None, metric: str = "euclidean", method: str = "lloyd", labels: bool = True,
    where: Mapping[str, str] | None = None, seed: int = 0,
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
    where : dict, optional
        ``{"centers": "disk"}``: centers and their sums lie in scratch while they move, and the result's are
        an Array on disk: k d may exceed memory, `init` on disk too. Lloyd's algorithm is needed; the bits are
        those of centers in memory. Default: "memory".
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
    sums, about (28 + 8 (workers + log2(panels))) k d bytes, stay in memory. Centers on disk meet the points
    in blocks of 4 MiB: either stay in memory while the other stream past, whatever moves fewer bytes, which
    are s m d a read of X (as many as the plan says) and 12 k d a read of the centers; 24 m bytes of scratch
    hold what is nearest so far (a sparse X is decoded once a block, of 16 centers at least). Seeds that are
    to be found lie on disk as well, and are those of centers in memory: 16 m bytes more, and for "k-means||"
    its 5 k candidates, 40 k d bytes, which greedy k-means++ reads k times; where these do not fit,
    "random" or seeds that are given move less.

    Clusters that lose all points start anew at the farthest ones. ``kmeans.plan(...)`` takes the same
    arguments and counts: at most 30 iterations. Sources: Lloyd 1982; Arthur and Vassilvitskii 2007; Bahmani
    et al. 2012.
    """
    made: Any = KMeans if centers_place(where) == "memory" else StoredKMeans
    return made(X, k, init, iterations, tol, weights, metric, labels, seed, out, memory, method)  # type: ignore[no-any-return]


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
    stored = told.get("where") == "disk"
    if told["centres"] is not None and not stored:
        raise Error("resume: kmeans was begun with centers, which are in no file; make the same call again.")
    options = {
        name: told[name] for name in ("init", "iterations", "tol", "metric", "method", "labels", "seed")
    }
    if stored:
        options |= {"where": {"centers": "disk"}}
        if told["centres"] is not None:
            options["init"] = operand("init", told["centres"])
    if told["weights"] is not None:
        options["weights"] = operand("weights", told["weights"])
    return kmeans, (operand("X", told["x"]), told["k"]), options | {"out": path}
