"""What `topics` returns, and its group on disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, open_core
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text, shown, storage_error
from .._output.attributes import group_told
from .._runtime.arguments import whole_number
from .._runtime.routine import Routine, planned_by
from . import known

__all__ = ["EdgeTopics", "TopicsResult", "open_topics", "read_group"]


@dataclass(frozen=True, eq=False)
class EdgeTopics:
    """Mixtures of two topics that many documents are full of.

    Attributes
    ----------
    pairs : ndarray, e x 2
        int32, topics; the first one's catchwords weigh more.
    documents : ndarray, e
        int64, how many: most first.
    topics : ndarray, e x V
        float32: 0.7 of the first and 0.3 of the second, before the passes.
    """

    pairs: NDArray[np.int32]
    documents: NDArray[np.int64]
    topics: NDArray[np.float32]

    __module__ = "flagstone"


@dataclass(frozen=True, eq=False, repr=False)
class TopicsResult:
    """Topics, and what each step found.

    Attributes
    ----------
    topics : Array, k x V
        float32, the words of each topic; rows add up to 1.
    isle : Array, k x V
        float32, before the passes of EM.
    clusters : Array, D
        int32, of each document its cluster; -1: it took no part.
    thresholds : ndarray, V
        float64, ζ of each word: how often, scaled to a document of mean length, it must occur to count.
    sampled : ndarray, D
        bool, documents that steps 2 to 4 saw.
    singular_values : ndarray, k
        float64, of the thresholded documents.
    catchwords : ndarray, V
        int32, of each word the topic that it is a catchword of, or -1.
    shares : ndarray, k
        float64, of all counts.
    likelihood : ndarray, passes
        float64, mean log-likelihood of a word under the topics that each pass began with.
    edges : EdgeTopics or None
        Where ``edge_topics=`` asked for them.
    """

    topics: Array
    isle: Array
    clusters: Array
    thresholds: NDArray[np.float64]
    sampled: NDArray[np.bool_]
    singular_values: NDArray[np.float64]
    catchwords: NDArray[np.int32]
    shares: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    edges: EdgeTopics | None = None

    __module__ = "flagstone"

    def __repr__(self) -> str:
        k, words = self.topics.shape
        bare = k - len(np.unique(self.catchwords[self.catchwords >= 0]))
        return (
            f"<flagstone.TopicsResult: {k} topics of {words:,} words, {self.clusters.shape[0]:,} documents, "
            f"{np.count_nonzero(self.catchwords >= 0):,} catchwords, {bare} topics without any>"
        )

    def _known(self) -> NDArray[np.float32]:
        return np.asarray(self.topics)

    def _transforming(
        self, Y: Any, *, method: str = "em", out: Any = None, memory: int | str | None = None
    ) -> Routine[Any]:
        return known.weights(Y, self._known(), method, out, memory)

    @planned_by(_transforming)
    def transform(
        self, Y: Any, *, method: str = "em", out: Any = None, memory: int | str | None = None
    ) -> Any:
        """Return how much of each document each topic is.

        Parameters
        ----------
        Y : SparseArray, SciPy matrix, Array, Expression or ndarray, rows x V
            Counts; dense ones are read as they are.
        method : {"em", "mwu"}
            "em": EM until the certificate is 1e-3, 500 steps at most. "mwu": the published 15 steps of
            multiplicative weights.
        out : path, Array or ndarray, optional
            Where they go; default: scratch, in memory where Y is SciPy's or NumPy's.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Returns
        -------
        Array or ndarray
            float32, rows x (k + 1): weights that add up to 1, then the certificate: by how much the mean
            log-likelihood of a word may lie below its maximum. Words that no topic has take no part; an
            empty document has even weights.

        Raises
        ------
        ShapeError
            Y has other columns, or counts below 0.

        Notes
        -----
        Reads Y once; 4 nnz k flops a step. Topics, 8 k V bytes, are in memory.
        ``transform.plan(Y)`` takes the same arguments and counts.
        """
        return self._transforming(Y, method=method, out=out, memory=memory).run()

    def _perplexing(self, Y: Any, *, memory: int | str | None = None) -> Routine[float]:
        return known.perplexity(Y, self._known(), memory)

    @planned_by(_perplexing)
    def perplexity(self, Y: Any, *, memory: int | str | None = None) -> float:
        """Return how surprised the topics are by second halves of documents.

        Parameters
        ----------
        Y : SparseArray, SciPy matrix, Array, Expression or ndarray, rows x V
            Counts of documents that were held out.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Returns
        -------
        float
            exp(-mean log p). Words of a document go to its halves in turn; its weights come from the first
            half, p is the second's, under 0.9999 of the topics and 0.0001 of an even one.

        Raises
        ------
        ShapeError
            Y has other columns, counts below 0, or no document of two words.

        Notes
        -----
        Reads Y once. Nothing is fitted on the second half. ``perplexity.plan(Y)`` counts it.
        """
        return self._perplexing(Y, memory=memory).run()

    def _cohering(
        self, Y: Any, *, number: int = 10, memory: int | str | None = None
    ) -> Routine[NDArray[np.float64]]:
        tops = self._tops("coherence", number)
        return known.coherence(Y, self._known(), tops, memory)

    @planned_by(_cohering)
    def coherence(self, Y: Any, *, number: int = 10, memory: int | str | None = None) -> NDArray[np.float64]:
        """Return how often the first words of each topic share documents.

        Parameters
        ----------
        Y : SparseArray or SciPy matrix, rows x V
            Documents, any counts.
        number : int
            First words of a topic.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Returns
        -------
        ndarray, k
            Mean over pairs of log(p_ij / (p_i p_j)) / -log p_ij, between -1 (never together) and 1; p are
            shares of the documents that have words.

        Raises
        ------
        ShapeError
            Y has other columns.

        Notes
        -----
        Reads Y once; 8 k number² bytes. ``coherence.plan(Y)`` counts it.
        """
        return self._cohering(Y, number=number, memory=memory).run()

    def diversity(self, number: int = 10) -> float:
        """Return the share of different words among the first words of all topics.

        Parameters
        ----------
        number : int
            First words of a topic.

        Returns
        -------
        float
            1: no two topics share one.
        """
        tops = self._tops("diversity", number)
        return float(len(np.unique(tops)) / tops.size)

    def top_words(self, vocabulary: Sequence[str] | None = None, number: int = 10) -> Any:
        """Return the first words of each topic.

        Parameters
        ----------
        vocabulary : sequence of str, optional
            Of all words. Default: their numbers.
        number : int
            How many of each.

        Returns
        -------
        list of list of str, or ndarray, k x number
            The most frequent first, ties by number.

        Raises
        ------
        ShapeError
            The vocabulary has another length.
        """
        words = self.topics.shape[1]
        if vocabulary is not None and _length(vocabulary) != words:
            told = f"has {len(vocabulary):,} words" if _length(vocabulary) >= 0 else f"is {shown(vocabulary)}"
            raise ShapeError(
                f"top_words: the vocabulary {told} and the topics know {words:,}; one for each column of the "
                "counts is needed."
            )
        tops = self._tops("top_words", number)
        return tops if vocabulary is None else [[str(vocabulary[w]) for w in row] for row in tops]

    def _tops(self, who: str, number: int) -> NDArray[np.int64]:
        """Return the first words of each topic, for one of these methods."""
        k, words = self.topics.shape
        number = min(whole_number(who, "number", number), words)
        tops = np.empty((k, number), np.int64)
        for t in range(k):
            row = -np.asarray(self.topics[t])
            few = np.sort(np.argpartition(row, number - 1)[:number])
            tops[t] = few[np.argsort(row[few], kind="stable")]
        return tops


def _length(vocabulary: Any) -> int:
    """Return how many words there are, -1 of what is no sequence."""
    try:
        return len(vocabulary)
    except TypeError:
        return -1


def read_group(path: str, scratch: Any = None, clusters: Array | None = None) -> TopicsResult:
    """Return what a group holds; `scratch`: deleted with the last handle."""

    def stored(name: str) -> Array:
        made = Array(open_core(f"{path}/{name}", "r"), "r")
        if scratch is not None:
            scratch.tie(made)
        return made

    def values(name: str) -> NDArray[Any]:
        return np.array(Array(open_core(f"{path}/{name}", "r"), "r"))

    edges = None
    if Path(path, "edge_pairs").exists():
        edges = EdgeTopics(values("edge_pairs"), values("edge_documents"), values("edge_topics"))
    return TopicsResult(
        stored("topics"), stored("isle"), stored("clusters") if clusters is None else clusters,
        values("thresholds"), values("sampled").astype(bool), values("singular_values"), values("catchwords"),
        values("shares"), values("likelihood"), edges,
    )  # fmt: skip


def open_topics(path: str | os.PathLike[str]) -> TopicsResult:
    """Open the topics that `topics(..., out=path)` wrote.

    Parameters
    ----------
    path : path
        The Zarr group.

    Returns
    -------
    TopicsResult
        As it was returned; numbers of words and topics are read where they are looked at.

    Raises
    ------
    FormatError
        It holds something else.
    """
    path = path_text("open_topics", path)
    if not os.path.exists(path):
        raise storage_error(f"open_topics: '{path}' does not exist.", errno.ENOENT, path)
    if group_told(path).get("routine") != "topics":
        raise FormatError(f"open_topics: '{path}' holds no topics; give a group that fl.topics wrote (out=).")
    return read_group(path)
