"""Parts of a stored model, read into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array
from .._array.requests import take
from .._runtime.call import Call

__all__ = ["Parts"]


class Parts:
    """The arrays of a model, by name; `who` reads them."""

    def __init__(self, arrays: dict[str, _core.Array], small: bool) -> None:
        self.arrays, self.small = arrays, small

    def part(self, name: str, first: int, number: int) -> NDArray[Any]:
        """Return elements of an array."""
        found: NDArray[Any] = take(Array(self.arrays[name], "r"), Call("tree"), np.s_[first : first + number])
        return found

    def table(self) -> NDArray[np.int64]:
        """Return the table of chunks: level, tree, node, first child, children, and where its parts lie."""
        return self.part("chunks", 0, self.arrays["chunks"].shape[0]).reshape(-1, 10)

    def entries(self, chunk: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return of each weight of a chunk its row, its child and its value, float64."""
        _, _, _, _, children, row, count, entry, number, column = chunk
        places = np.cumsum(self.part("steps", row, count).astype(np.int64))
        rows = np.repeat(places, self.part("counts", row, count))
        child = self.part("children", entry, number).astype(np.int64)
        weights = self.part("weights", entry, number).astype(np.float64)
        if self.small:
            weights = weights * self.part("scales", column, children).astype(np.float64)[child]
        return rows, child, weights

    def singles(self, run: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return rows and values of all weights of chunks of one child that lie one behind the other."""
        number, entries = int(run[:, 6].sum()), int(run[:, 8].sum())
        row, entry, column = (int(run[0, at]) for at in (5, 7, 9))
        steps = np.cumsum(self.part("steps", row, number).astype(np.int64))
        ends = np.cumsum(run[:, 6])
        before = np.concatenate([[0], steps])[ends - run[:, 6]]  # each chunk counts from 0
        places = steps - np.repeat(before, run[:, 6])
        weights = self.part("weights", entry, entries).astype(np.float64)
        if self.small:
            scales = self.part("scales", column, len(run)).astype(np.float64)
            weights = weights * np.repeat(scales, run[:, 8])
        return places[self.part("counts", row, number) > 0], weights
