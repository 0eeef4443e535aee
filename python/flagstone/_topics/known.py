"""Topics that are known, against documents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._output.place import IN_MEMORY, Place
from .._runtime.arguments import one_of
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .._sparse.array import SparseArray
from .counts import Documents, counts_of, documents_of

__all__ = ["coherence", "perplexity", "planned_weights", "weights"]


class _Known(Routine[Any]):
    """One pass over documents; topics are in memory, and counted."""

    def __init__(
        self, who: str, Y: Any, topics: NDArray[np.float32], memory: Any, *, sparse: bool = False
    ) -> None:
        call, words = Call(who, memory), topics.shape[1]
        self.y = Documents(counts_of(call, Y, "Y", words)[0]) if sparse else documents_of(call, Y, "Y", words)
        self.topics = np.ascontiguousarray(topics, np.float32)
        super().__init__(call)

    @property
    def what(self) -> str:
        kind = "sparse" if self.y.sparse is not None else "dense"
        return f"{self.call.who} {shape_text(self.y.shape)} {kind}, k = {len(self.topics)}"

    def how(self, job: Any) -> How:
        return How("row panels")


class _Weights(_Known):
    def __init__(
        self, Y: Any, topics: NDArray[np.float32], method: str, out: Any, memory: Any, who: str = "transform"
    ) -> None:
        one_of(who, "method", method, "em", "mwu")
        super().__init__(who, Y, topics, memory)
        self.method = method
        if out is None and not isinstance(Y, (SparseArray, Array, Expression)):
            out = IN_MEMORY
        shape = (self.y.shape[0], len(topics) + 1)
        rows = _core.weights_rows(self.y.core())
        self.places = [Place(self.call, shape, np.dtype(np.float32), out, (rows, shape[1]))]

    def job(self, at: At) -> _core.Job:
        topics = _core.memory_array(self.topics)
        return _core.infer_topics_job(self.y.core(), topics, self.method == "mwu", at(self.places[0]))


class _Perplexity(_Known):
    def job(self, at: At) -> _core.CompletionJob:
        return _core.complete_documents_job(self.y.core(), _core.memory_array(self.topics))

    def result(self, job: _core.CompletionJob) -> float:
        if not job.counted > 0:
            raise ShapeError("perplexity: no document has two words; one half is to tell the other.")
        return float(np.exp(-job.likelihood / job.counted))


class _Coherence(_Known):
    def __init__(self, Y: Any, topics: NDArray[np.float32], tops: NDArray[np.int64], memory: Any) -> None:
        super().__init__("coherence", Y, topics, memory, sparse=True)
        self.tops = tops

    def job(self, at: At) -> _core.PairsJob:
        assert self.y.sparse is not None
        return _core.count_pairs_job(self.y.sparse.operand(), self.tops.ravel().tolist(), self.tops.shape[1])

    def result(self, job: _core.PairsJob) -> NDArray[np.float64]:
        k, n = self.tops.shape
        together, documents = np.array(job.pairs[:-1]).reshape(k, n, n), int(job.pairs[-1])
        return np.full(k, np.nan) if n < 2 else _npmi(together, max(1, documents))


def _npmi(together: NDArray[np.float64], documents: int) -> NDArray[np.float64]:
    """Return the mean NPMI of pairs of words of each topic: of how many documents have both."""
    alone = np.einsum("tii->ti", together)  # documents of each word
    first, second = np.triu_indices(together.shape[1], 1)
    # Words stand in the order of their places among the topic's slots: the upper triangle holds each pair.
    both = together[:, first, second] / documents
    apart = alone[:, first] * alone[:, second] / documents**2
    with np.errstate(divide="ignore", invalid="ignore"):
        npmi = np.where(both >= 1, 1.0, np.log(both / apart) / -np.log(both))
    npmi[~(both > 0)] = -1
    made: NDArray[np.float64] = npmi.mean(axis=1)
    return made


def weights(Y: Any, topics: NDArray[np.float32], method: str, out: Any, memory: Any) -> Routine[Any]:
    """Prepare the weights of topics in each document, and the certificates."""
    return _Weights(Y, topics, method, out, memory)


def planned_weights(Y: Any, topics: NDArray[np.float32], method: str) -> tuple[int, Array]:
    """Return the least limit of `weights`, and a result that only planners use: of a chain of calls."""
    routine = _Weights(Y, topics, method, None, None)
    return routine.least(), Array(routine.places[0].planned())


def perplexity(Y: Any, topics: NDArray[np.float32], memory: Any) -> Routine[float]:
    """Prepare exp(-mean log p) of second halves of documents, told by the first."""
    return _Perplexity("perplexity", Y, topics, memory)


def coherence(
    Y: Any, topics: NDArray[np.float32], tops: NDArray[np.int64], memory: Any
) -> Routine[NDArray[np.float64]]:
    """Prepare the mean NPMI of pairs of words of each topic, by documents."""
    return _Coherence(Y, topics, tops, memory)
