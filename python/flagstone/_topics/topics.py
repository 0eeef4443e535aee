"""Topics of documents that are larger than memory."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from .. import _core
from .._array.array import shape_text
from .._output.path_place import GroupPlace
from .._output.replaceable import check_path
from .._resume.identity import identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags, one_of, real_number, seed_number, whole_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .counts import counts_of
from .result import TopicsResult, read_group
from .where import places_of, told_place

__all__ = ["topics"]

_STEPS = 10  # of weights of a document, in a pass
_MOST = {  # each is a read of X or an array of V numbers, and a task of every plan
    "passes": 10_000, "projected_iterations": 10_000, "iterations": 10_000, "edge_topics": 1_000_000,
}  # fmt: skip
_RANGES = {  # of options: least, most; the first is out of range itself
    "sample": (0.0, 1.0), "eps1": (0.0, 1.0), "eps2": (0.0, 1.0), "eps3": (0.0, 1e6), "rho": (0.0, 1e6),
    "w0": (0.0, 1e6),
}  # fmt: skip


class Topics(Routine[TopicsResult]):
    """The checked arguments of one call."""

    operation = "topics"

    def __init__(self, X: Any, k: int, out: Any, memory: Any, **options: Any) -> None:
        call = Call("topics", memory)
        if out is not None:
            check_path("topics", out)
        counts = {name: options[name] for name in _COUNTS} | {"k": k}
        for name, value in counts.items():
            if name == "seed":
                seed_number("topics", value)
            elif name == "k":
                whole_number("topics", name, value)
            else:
                whole_number("topics", name, value, 0, _MOST[name])
        for name, (above, most) in _RANGES.items():
            told = f"a number above {above:g}, at most {most:g}, is needed"
            real_number("topics", name, options[name], partial(_lies, above, most), told)
        one_of("topics", "solver", options["solver"], "auto", "gram", "krylov", "krylov-schur")
        check_flags("topics", cluster_documents=options["cluster_documents"])
        places: dict[str, Any] = places_of(options.pop("where"))
        self.x, placed = counts_of(call, X, "X")
        self.k = int(k)
        self.asked: dict[str, Any] = {
            name: int(value) if name in _COUNTS else bool(value) if name == "cluster_documents"
            else value if name == "solver" else float(value)
            for name, value in options.items()
        }  # fmt: skip
        self.options = _core.TopicsOptions(self.k, **self.asked, **places)
        self.asked["where"] = places
        _core.check_topics(self.x.operand(), self.options)
        rows, words = self.x.shape
        chunk = _core.weights_rows(_core.Documents(self.x.operand()))
        edges = self.asked["edge_topics"]
        small = 8 * self.k * words + 16 * words + 16 * self.k + rows + edges * (4 * words + 16)
        self.place = GroupPlace(
            call, out, "clusters", ["document"], (rows,), np.dtype(np.int32), (chunk,), 4 * rows + small
        )
        super().__init__(call, [self.place])
        if not placed:
            self.operation = ""  # what is turned, or made of SciPy's, goes with the process
        call.outputs = self.place.named(5)

    @property
    def beside(self) -> int:
        """Bytes of what is found, before it is written."""
        rows, words = self.x.shape
        return super().beside + self.k * words * 4 + rows

    @property
    def what(self) -> str:
        stored = f"{self.x.stored_values:,} stored values"
        return f"topics {shape_text(self.x.shape)} sparse, {stored}, k = {self.k}"

    def job(self, at: At) -> _core.TopicsJob:
        clusters = at(self.place)  # first: the place is open from here on, and has its checkpoint
        return _core.topics_job(self.x.operand(), self.options, clusters, self.place.checkpoint)

    def how(self, job: _core.TopicsJob) -> How:
        passes = self.asked["passes"]
        note = "iterations and reads for catchwords depend on the data: those that are expected are counted"
        if job.documents:  # it has run
            note = f"{job.documents:,} documents of {job.average:.0f} words"
        if job.placed:
            note += "; " + ", ".join(told_place(*one) for one in job.placed)
        return How(f"ISLE, {passes} passes of EM" if passes else "ISLE", job.passes, note)

    def arguments(self) -> dict[str, Any]:
        return {"x": identity(self.x), "k": self.k} | self.asked

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes of all reads."""
        values, k = float(self.x.stored_values), float(self.k)
        reads = 25.0 + self.asked["passes"]
        return values * k * (60 + 4 * _STEPS * self.asked["passes"]), reads * self.x.stored_bytes

    def result(self, job: _core.TopicsJob) -> TopicsResult:
        (rows, words), k = self.x.shape, self.k
        sampled = job.sampled if len(job.sampled) else np.ones(rows, np.uint8)
        self.place.write("topics", job.topics.reshape(k, words), ["topic", "word"])
        self.place.write("isle", job.isle.reshape(k, words), ["topic", "word"])
        self.place.write("thresholds", job.thresholds, ["word"])
        self.place.write("sampled", sampled, ["document"])
        self.place.write("singular_values", job.singular_values, ["topic"])
        self.place.write("catchwords", job.catchwords, ["word"])
        self.place.write("shares", job.shares, ["topic"])
        self.place.write("likelihood", job.likelihood, ["pass"])
        if self.asked["edge_topics"]:
            together = job.together
            self.place.write("edge_pairs", job.pairs.reshape(-1, 2), ["edge", "end"])
            self.place.write("edge_documents", together, ["edge"])
            self.place.write("edge_topics", job.edges.reshape(len(together), words), ["edge", "word"])
        about = {"routine": "topics", "k": k, "documents": job.documents, "average": job.average,
                 "version": _core.__version__}  # fmt: skip
        chosen = {
            name: value for name, value in self.asked.items() if name != "where"
        }  # it changes no result
        made = self.place.close({"flagstone": about | chosen})
        self._warn(job)
        return read_group(self.place.path, self.place.scratch, made)

    def _warn(self, job: _core.TopicsJob) -> None:
        share = self.asked["sample"] * self.asked["eps2"] * self.asked["w0"]
        if math.floor(share * job.documents / (2 * self.k)) < 1:
            warnings.warn(
                f"topics: {job.documents} documents are few for {self.k} topics, and a catchword needs one "
                "alone: take fewer.", stacklevel=4,
            )  # fmt: skip


def _lies(above: float, most: float, value: float) -> bool:
    return above < value <= most


_COUNTS = (*_MOST, "seed")
_NAMES = (*_COUNTS, *_RANGES, "cluster_documents", "solver")


@routine
def topics(
    X: Any, k: int, *, passes: int = 5, sample: float | None = None, eps1: float = 1 / 60,
    eps2: float = 1 / 3, eps3: float = 1.0, rho: float = 1.1, w0: float = 1.0,
    cluster_documents: bool = False, projected_iterations: int = 10, iterations: int = 10,
    solver: str = "auto", edge_topics: int = 0, where: Mapping[str, str] | None = None, seed: int = 0,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Prepared[TopicsResult]:  # fmt: skip
    """Return k topics of documents, inside a memory limit: ISLE's five steps, then passes of EM.

    Parameters
    ----------
    X : SparseArray or SciPy matrix, D x V
        Counts of 0 or more, documents x words; fractions are allowed. Empty documents take no part.
    k : int
        Topics, between 1 and min(D, V).
    passes : int
        Of EM over all documents, from what ISLE found. 0: ISLE alone.
    sample : float, optional
        Share of the documents that steps 2 to 4 see, drawn by importance: without replacement, in proportion
        to what thresholds leave of them. Default: all.
    eps1, eps2, eps3, rho, w0 : float
        Constants of the paper: of ties at thresholds, of the rank of catchwords, of the documents that make a
        topic, of how far a catchword must lead, of the share of the rarest topic.
    cluster_documents : bool
        A topic's mean takes all documents of its cluster too. The published code: True, with ``eps3=5`` and
        ``passes=0``.
    projected_iterations, iterations : int
        Of k-means in the span of the singular vectors, then in all words, at most.
    solver : {"auto", "gram", "krylov", "krylov-schur"}
        Of the singular vectors. "auto": by shapes alone: the Gram matrix up to 1,024 words, else block
        Krylov, with a basis on disk where it takes more than 64 MiB.
    edge_topics : int
        So many mixtures of two topics that most documents are full of.
    where : dict, optional
        Where operands of steps lie, each "memory", "disk" (scratch: tiles leave memory where their room is
        needed) or "auto" (default). "thresholded": what thresholds leave, a byte a stored value; "auto": kept
        where that is a quarter of the budget at most, else seen through X in each read. "basis": of solver
        "krylov-schur", V x its columns in float64; "auto": disk. "projection": of each document what lies
        beside the singular vectors and its nearest seed, 24 bytes; "auto": disk. "centers": of k-means in all
        words, V x k in float64, and their sums, while they move; "auto": memory; "disk": in blocks, as
        `kmeans` has them there. "buckets": frequencies of documents, brought together by cluster while
        catchwords are looked for, 16 bytes each: two reads of X, and counts of words for a few clusters at a
        time; "auto": X is read instead, as often as it takes, and counts are those of all clusters. No place
        changes a bit.
    seed : int
        Of the random start, seeds and sample; the same seed gives the same bits for every memory limit and
        worker count.
    out : path, optional
        A Zarr group that `open_topics` opens; replaced at once and whole. Default: scratch; deleted when
        the last handle on its arrays dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    TopicsResult
        ``topics``, and what each step found: ``thresholds, sampled, singular_values, clusters, catchwords,
        isle, shares, edges``; with ``transform, perplexity, coherence, top_words``.

    Raises
    ------
    ShapeError
        Counts are negative; k or a constant is out of range; all documents are empty; `where` names an
        operand or a place that there is not, or the basis of a solver that has none on disk.
    NumericalError
        X holds NaN or Inf.
    BudgetError
        The limit is too small; names the least that works.

    Warns
    -----
    UserWarning
        There are fewer than 6 k documents: a catchword is one of a single document.

    Notes
    -----
    About 30 reads of X and one a pass (fewer where iterations come to rest); 4 nnz b q flops for q
    applications to b vectors, 2 nnz k for each iteration, 44 nnz k a pass. Numbers of words and topics (16
    to 24 bytes for each of V k, for every worker one sum in float64 more) and about 30 bytes a document
    stay in memory, documents on disk. A frequency is average · count ÷ length. Sources: Bansal,
    Bhattacharyya and Kannan 2014; microsoft/ISLE; Efraimidis and Spirakis 2006. EM with Dirichlet
    parameters 1.02 (of weights) and 1.01 (of words), 1.8 times as far in all passes but the last, as long as
    that raises the likelihood (Salakhutdinov and Roweis 2003).
    """
    return Topics(
        X, k, out, memory, passes=passes, sample=1.0 if sample is None else sample, eps1=eps1, eps2=eps2,
        eps3=eps3, rho=rho, w0=w0, cluster_documents=cluster_documents, solver=solver,
        projected_iterations=projected_iterations, iterations=iterations, edge_topics=edge_topics,
        where=where, seed=seed,
    )  # fmt: skip


@resumable("topics")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {name: told[name] for name in _NAMES} | {"where": told.get("where")}
    return topics, (operand("X", told["x"]), told["k"]), options | {"out": path}
