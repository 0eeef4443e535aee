"""Regions: which box of an array a task reads, writes or updates, with a halo for reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from .._errors.classes import ShapeError
from .basic_index import BasicIndexer, Key

__all__ = ["Region", "Tiles"]


class Region:
    """A box of an array, as a task names it: ``X.tiles[i, j]``, ``fl.Region(X, (slice(0, 9), 3))``.

    Parameters
    ----------
    array : Array
        The whole.
    key : index
        Integers (kept as dimensions of extent 1) and slices without steps.
    halo : int or tuple of int
        So many elements more on either side, for reads.
    edge : {"clip", "periodic"}
        What lies beyond the array's edge: nothing (the view is smaller there), or its other side.
    """

    __module__ = "flagstone"

    def __init__(
        self, array: Any, key: Key = ..., halo: int | tuple[int, ...] = 0, edge: str = "clip"
    ) -> None:
        box = BasicIndexer(key, array.shape)
        if box.strided or box.flips:
            raise ShapeError("region: slices with steps are not boxes; use slices of step 1.")
        if edge not in ("clip", "periodic"):
            raise ValueError(f"region: edge is {edge!r}; choose 'clip' or 'periodic'.")
        self.array = array
        self.start, self.shape = tuple(box.start), tuple(box.shape)
        given = tuple(halo) if isinstance(halo, (tuple, list)) else (halo,) * len(self.shape)
        whole = all(hasattr(h, "__index__") and not isinstance(h, bool) for h in given)
        if not whole or len(given) != len(self.shape) or any(h < 0 for h in given):
            raise ShapeError(f"region: halo is {halo}; give one number, not negative, for each dimension.")
        if edge == "periodic" and any(h > n for h, n in zip(given, array.shape, strict=True)):
            raise ShapeError(f"region: a periodic halo of {given} is wider than the array {array.shape}.")
        self.halo: tuple[int, ...] = tuple(given)
        self.edge = edge

    def grow(self, halo: int | tuple[int, ...], edge: str = "clip") -> Region:
        """Return the region with a halo, for reads.

        Parameters
        ----------
        halo : int or tuple of int
            Elements beyond the box, along each dimension.
        edge : {"clip", "periodic"}
            What is beyond the array's edge: nothing, or its other side.
        """
        key = tuple(slice(s, s + n) for s, n in zip(self.start, self.shape, strict=True))
        return Region(self.array, key, halo, edge)

    @property
    def before(self) -> tuple[int, ...]:
        """Elements of the halo before the box along each dimension (fewer at a clipped edge)."""
        if self.edge == "periodic":
            return self.halo
        return tuple(min(h, s) for h, s in zip(self.halo, self.start, strict=True))

    @property
    def outer(self) -> tuple[int, ...]:
        """Shape with the halo."""
        if self.edge == "periodic":
            return tuple(n + 2 * h for n, h in zip(self.shape, self.halo, strict=True))
        ends = zip(self.start, self.shape, self.halo, self.array.shape, strict=True)
        return tuple(min(s + n + h, e) - max(s - h, 0) for s, n, h, e in ends)

    def boxes(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[slice, ...]]]:
        """Yield the boxes that make up the region with its halo: start, shape, place in the view."""
        first = [s - b for s, b in zip(self.start, self.before, strict=True)]
        runs = []
        for begin, length, extent in zip(first, self.outer, self.array.shape, strict=True):
            pieces, at = [], 0
            while at < length:
                inside = (begin + at) % extent if extent else 0
                step = min(length - at, extent - inside)
                pieces.append((inside, step, slice(at, at + step)))
                at += step
            runs.append(pieces)
        for combination in itertools.product(*runs):
            yield (
                tuple(c[0] for c in combination),
                tuple(c[1] for c in combination),
                tuple(c[2] for c in combination),
            )

    @property
    def name(self) -> str:
        """Where it is, for messages."""
        where = self.array.path or "an array in memory"
        return f"{' x '.join(map(str, self.shape))} at {' x '.join(map(str, self.start))} of '{where}'"

    def __repr__(self) -> str:
        return f"<flagstone.Region {self.name}>"


class Tiles(tuple[int, ...]):
    """Number of chunks along every dimension; ``X.tiles[i, j]`` is the region of one (1-d: ``tiles[i,]``)."""

    _array: Any

    def __new__(cls, array: Any, counts: tuple[int, ...]) -> Tiles:
        """Make it of an array and its counts."""
        self = super().__new__(cls, counts)
        self._array = array
        return self

    def __getitem__(self, key: Any) -> Any:
        """Return a count (integer, slice), or the region of a tile (tuple)."""
        if not isinstance(key, tuple):
            return super().__getitem__(key)
        if len(key) != len(self):
            raise IndexError(
                f"tiles: {len(key)} indices were given and the array has {len(self)} dimensions."
            )
        parts = []
        for index, number, chunk, extent in zip(
            key, self, self._array.chunks, self._array.shape, strict=True
        ):
            i = index.__index__()
            if not -number <= i < number:
                raise IndexError(f"tiles: {i} is out of bounds for {number} tiles.")
            i %= number
            parts.append(slice(i * chunk, min((i + 1) * chunk, extent)))
        return Region(self._array, tuple(parts))
