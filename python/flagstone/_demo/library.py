"""Documents about planted subjects: counts of words, made by row blocks as fast as a disk takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .subjects import COMMON, SUBJECTS
from .synthetic import Block, inverse

__all__ = ["Library"]

_ROWS = 2048  # of one block
_BITS = 16  # of the tables that turn random bits into words
_COMMON = 0.3  # share of common words
_MIXED = 0.08  # Dirichlet parameter of a document's subjects: one or two of them
_VALUES = 101  # stored values of a document, nearly


@dataclass(frozen=True)
class Library:
    """So many documents of subjects that are mixed; some words belong to two subjects, some to all.

    The same fields give the same counts, whatever was made before.

    Attributes
    ----------
    documents : int
        Rows.
    length : int
        Words of a document, on average.
    seed : int
        Of everything random.
    """

    documents: int
    length: int = 240
    seed: int = 0

    @property
    def nnz(self) -> int:
        """Stored values, nearly."""
        return _VALUES * self.documents

    @staticmethod
    def names() -> list[str]:
        """Return the subjects."""
        return list(SUBJECTS)

    @staticmethod
    def vocabulary() -> list[str]:
        """Return the words, in order."""
        return sorted({*COMMON, *(word for words in SUBJECTS.values() for word in words)})

    def topics(self) -> NDArray[np.float64]:
        """Return the share of every word in every subject (subjects x words): Zipf's law in both lists."""
        place = {word: number for number, word in enumerate(self.vocabulary())}
        made = np.zeros((len(SUBJECTS), len(place)))
        for t, own in enumerate(SUBJECTS.values()):
            for words, share in ((own, 1 - _COMMON), (COMMON, _COMMON)):
                falling = 1 / (np.arange(len(words)) + 3.0)
                np.add.at(made[t], [place[word] for word in words], share * falling / falling.sum())
        return made

    def blocks(self) -> Iterator[Block]:
        """Yield row blocks as (indptr, indices, data); columns are sorted, none is stored twice."""
        topics = self.topics()
        words = np.stack([inverse(one, _BITS) for one in topics]).astype(np.int32)
        for b in range(-(-self.documents // _ROWS)):
            rng = np.random.default_rng([self.seed, 1, b])
            rows = min(_ROWS, self.documents - b * _ROWS)
            mixed = rng.dirichlet(np.full(len(topics), _MIXED), rows)
            lengths = 1 + rng.poisson(self.length - 1, rows)
            of_topic = rng.multinomial(lengths, mixed)
            topic = np.repeat(np.tile(np.arange(len(topics), dtype=np.int32), rows), of_topic.ravel())
            word = words[topic, rng.integers(0, 1 << _BITS, len(topic), dtype=np.uint16)]
            word += np.repeat(np.arange(rows, dtype=np.int32) * topics.shape[1], lengths)
            counts = np.bincount(word, minlength=rows * topics.shape[1])
            there = np.flatnonzero(counts)
            row, column = np.divmod(there, topics.shape[1])
            pointers = np.searchsorted(row, np.arange(rows + 1)).astype(np.int64)
            yield pointers, column.astype(np.int32), counts[there].astype(np.float32)
