"""k-means whose centers lie on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._output.parts import Part, PartsPlace
from .._runtime.arguments import one_of
from .._runtime.call import Call
from .._runtime.routine import At, How
from .clustering import KMeans
from .points import dense_points
from .result import KMeansResult

__all__ = ["StoredKMeans", "centers_place"]


def centers_place(where: Any) -> str:
    """Return where centers lie: "memory" or "disk"."""
    if where is None:
        return "memory"
    if not isinstance(where, Mapping):
        raise TypeError(f"kmeans: where is {shown(where)}; a dict of operands and their places is needed.")
    for name in where:
        if name != "centers":
            raise ShapeError(f"kmeans: where names {shown(name)}; what has a place is 'centers'.")
    return one_of("kmeans", "where['centers']", where.get("centers", "memory"), "memory", "disk")


class StoredKMeans(KMeans):
    """The checked arguments of one call, with centers on disk."""

    def _seeds(self, call: Call, init: Any, columns: int) -> int:
        self.centres = None
        if isinstance(init, str):  # they are found, and lie on disk too
            self.stored, self.seeds_input = None, _core.StoredCentres()
            return 0
        self.stored = dense_points(call, init, "init")
        self.seeds_input = _core.StoredCentres(self.stored.core, self.stored.transposed)
        call.on(*self.stored.paths)
        return int(self.stored.shape[0])

    def _place(self, call: Call, out: Any, rows: int, columns: int) -> PartsPlace:
        _core.check_stored(self.input, self.options, self.seeds_input)
        chunks = _core.block_rows(self.k, self.input), columns
        parts = [Part("centers", (self.k, columns), chunks, ["cluster", "column"])]
        if self.labels:
            parts.append(Part("labels", (rows,), (_core.label_rows(self.input),), ["row"], "int32"))
        return PartsPlace(call, out, parts, np.dtype(np.float64), {})

    def job(self, at: At) -> _core.KMeansJob:
        """Return the job that writes where `at` says."""
        made: Any = at(self.place)
        labels = made[1] if self.labels else None
        return _core.stored_kmeans_job(
            self.input, self.options, self.seeds_input, labels, made[0], self.place.checkpoint
        )

    def how(self, job: _core.KMeansJob) -> How:
        """Say how the job does it."""
        told = super().how(job)
        where = f"centers on disk: {job.order}"
        return told._replace(note=f"{where}, {told.note}" if told.note else where)

    def arguments(self) -> dict[str, Any]:
        """Return what decides the bits."""
        return super().arguments() | {
            "centres": None if self.stored is None else self.stored.identity, "where": "disk",
        }  # fmt: skip

    def result(self, job: _core.KMeansJob) -> KMeansResult:
        """Put counts beside the centers and return the clusters."""
        counts = self.counts(job)
        self.place.put("counts", counts, ["cluster"])
        self.place.tell({"flagstone": self.about(job)})
        made = self.place.close()
        self._copy(made[0])
        self.warn(counts)
        return KMeansResult(
            made[0], made[1] if self.labels else None, counts, job.inertia, job.iterations, job.converged,
            self.metric,
        )  # fmt: skip

    def _copy(self, centers: Array) -> None:
        """Let the centers stand where the seeds stood, some rows of chunks at a time."""
        if self.into is None:
            return
        with contextlib.ExitStack() as stack:
            core = self.into.open(stack)
            step = min(_core.block_rows(self.k, self.input), int(core.chunks[0]))
            for first in range(0, self.k, step):
                values = np.ascontiguousarray(centers[first : first + step], self.into.dtype)
                self.call.engine.write_boxes(core, [([first, 0], values)], 1 << 20)
            self.into.close()
