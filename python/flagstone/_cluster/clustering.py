"""The checked arguments of k-means, the job they make, what it returns."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._output.path_place import GroupPlace
from .._output.place import Place
from .._output.replaceable import check_path
from .._resume.identity import memory_identity
from .._runtime.arguments import check_flags, one_of, real_number, seed_number, whole_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .points import centers_of, points_of, weights_of
from .result import KMeansResult

__all__ = ["KMeans"]

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
        told = "a number of 0 or more, below 1, is needed"
        tol = real_number("kmeans", "tol", tol, lambda v: 0 <= v < 1, told)
        seed = seed_number("kmeans", seed)
        self.seeds = out if isinstance(out, (Array, np.ndarray)) else None  # overwritten where they stand
        if self.seeds is not None:
            out = None
        elif out is not None:
            check_path("kmeans", out)
        self.x = points_of(call, X)
        rows, columns = self.x.shape
        self.weights = weights_of(call, weights, rows)
        self.given = self._seeds(call, init, columns)
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
        self.place: Any = self._place(call, out, rows, columns)
        super().__init__(call, [self.place])
        if self.x.turned:
            self.operation = ""  # what is turned into scratch goes with the process: it begins again
        call.on(*self.x.paths)
        call.outputs = self.place.named(4) + (0 if self.into is None else self.into.named())

    def _seeds(self, call: Call, init: Any, columns: int) -> int:
        """Take the seeds; return how many there are, 0 where they are to be found."""
        self.centres = None if isinstance(init, str) else centers_of(call, init, columns)
        return 0 if self.centres is None else len(self.centres)

    def _k(self, k: int | None) -> int:
        if not self.given:
            if k is None:
                raise ShapeError(
                    "kmeans: k is not given; a number of clusters is needed, or centers as init."
                )
            return whole_number("kmeans", "k", k)
        if k is not None and whole_number("kmeans", "k", k) != self.given:
            raise ShapeError(
                f"kmeans: k is {k} and init holds {self.given} centers; they must agree (leave k out)."
            )
        return self.given

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

    def _place(self, call: Call, out: Any, rows: int, columns: int) -> Any:
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
        """Return what plans and statistics call it."""
        kind = self.x.dtype.name if self.x.sparse is None else f"sparse, {self.x.values:,.0f} stored values"
        return f"kmeans {shape_text(self.x.shape)} {kind}, k = {self.k}"

    def job(self, at: At) -> _core.KMeansJob:
        """Return the job that writes where `at` says."""
        out = at(self.place)  # first: the place is open from here on, and has its checkpoint
        return _core.kmeans_job(self.input, self.options, out, self.place.checkpoint)

    def how(self, job: _core.KMeansJob) -> How:
        """Say how the job does it."""
        seeds = "given seeds" if self.given else f"{self.asked['init']} seeds"
        steps = int(self.asked["iterations"])
        note = f"{min(_COUNTED, steps)} iterations are counted; {steps} at most" if steps > _COUNTED else ""
        if job.decided:  # it has run
            note = f"float64 decided {job.decided:,.0f} labels"
        return How(f"{self.asked['method']}, {seeds}", job.passes, note)

    def arguments(self) -> dict[str, Any]:
        """Return what decides the bits."""
        return self.asked | {
            "x": self.x.identity,
            "weights": None if self.weights is None else self.weights.identity,
            "centres": None if self.centres is None else memory_identity(self.centres),
        }

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes of the usual iterations."""
        steps = min(_USUAL, int(self.asked["iterations"])) + 6
        return 2.0 * self.x.values * self.k * steps, self.x.nbytes * steps

    def counts(self, job: _core.KMeansJob) -> NDArray[Any]:
        """Return what each cluster has."""
        counts: NDArray[Any] = np.array(job.weights)
        return counts.astype(np.int64) if self.weights is None else counts

    def warn(self, counts: NDArray[Any]) -> None:
        """Tell of clusters that have nothing."""
        if empty := int(np.count_nonzero(counts == 0)):
            warnings.warn(
                f"kmeans: {empty} of {self.k} clusters have no points; X has fewer distinct rows than k, or "
                "more iterations are needed.", stacklevel=6,
            )  # fmt: skip

    def about(self, job: _core.KMeansJob) -> dict[str, Any]:
        """Return what the group says of itself."""
        return {
            "routine": "kmeans", "inertia": job.inertia, "iterations": job.iterations,
            "converged": job.converged, "metric": self.metric, "version": _core.__version__,
        }  # fmt: skip

    def result(self, job: _core.KMeansJob) -> KMeansResult:
        """Put small arrays beside the labels and return the clusters."""
        centers = np.array(job.centres).reshape(self.k, self.x.shape[1])
        counts = self.counts(job)
        if self.labels:
            self.place.write("centers", centers, ["cluster", "column"])
        self.place.write("counts", counts, ["cluster"])
        made = self.place.close({"flagstone": self.about(job)})
        self._overwrite(centers)
        self.warn(counts)
        return KMeansResult(
            centers, made if self.labels else None, counts, job.inertia, job.iterations, job.converged,
            self.metric,
        )  # fmt: skip
