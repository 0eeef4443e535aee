"""A graph with planted communities, written as text as fast as a disk takes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Communities"]

_BLOCK = 1 << 18  # edges of one block
_LOWEST, _RANGE = 1_000_000, 9_000_000  # ids have seven digits, in no order
_FACTOR = 3_846_157  # has no divisor in common with the range
_DIGITS = 7


@dataclass(frozen=True)
class Communities:
    """So many edges between vertices of equally likely communities; a share stays inside one.

    The same fields give the same lines, whatever was made before.

    Attributes
    ----------
    edges, vertices, communities : int
        How many; some edges are drawn twice.
    inside : float
        Share of edges whose ends are drawn from one community (of the rest some are by chance).
    seed : int
        Of everything random.
    """

    edges: int
    vertices: int
    communities: int = 16
    inside: float = 0.35
    seed: int = 0

    def labels(self) -> NDArray[np.uint8]:
        """Return the planted community of every vertex."""
        rng = np.random.default_rng([self.seed, 1])
        return rng.integers(0, self.communities, self.vertices, dtype=np.uint8)

    @staticmethod
    def ids(vertices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what the file calls vertices."""
        return _LOWEST + vertices * _FACTOR % _RANGE

    @staticmethod
    def vertices_of(ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the vertices that the file calls so."""
        return (ids - _LOWEST) * pow(_FACTOR, -1, _RANGE) % _RANGE

    def blocks(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the ends of edges, as vertices."""
        labels = self.labels()
        members = np.argsort(labels, kind="stable").astype(np.int32)
        sizes = np.bincount(labels, minlength=self.communities)
        begins = np.cumsum(sizes) - sizes
        for number, first in enumerate(range(0, self.edges, _BLOCK)):
            rng = np.random.default_rng([self.seed, 2, number])
            count = min(_BLOCK, self.edges - first)
            one = rng.integers(0, self.vertices, count)
            other = rng.integers(0, self.vertices, count)
            stays = np.flatnonzero(rng.random(count, dtype=np.float32) < self.inside)
            community = labels[one[stays]]
            place = (rng.random(len(stays)) * sizes[community]).astype(np.int64)
            other[stays] = members[begins[community] + place]
            yield one, other

    def lines(self) -> Iterator[bytes]:
        """Yield lines of two ids."""
        for ends in self.blocks():
            text = np.empty((len(ends[0]), 2, _DIGITS + 1), np.uint8)
            for side, vertices in enumerate(ends):
                left = self.ids(vertices).astype(np.uint32)
                for digit in reversed(range(_DIGITS)):
                    left, text[:, side, digit] = left // 10, ord("0") + left % 10
            text[:, 0, _DIGITS], text[:, 1, _DIGITS] = ord("\t"), ord("\n")
            yield text.tobytes()
