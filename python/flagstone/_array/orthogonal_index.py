"""What an index expression selects: the parts of every chunk, and where they lie in the result."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .basic_index import BasicIndexer, Key

__all__ = ["OrthogonalIndexer", "Part", "Piece"]

Place = slice | NDArray[np.intp]


@dataclass
class Part:
    """Some elements of one axis that lie in one cell of a grid."""

    start: int  # of the covering range
    extent: int
    local: Place  # which of the range
    place: Place  # where they go along the axis of the result

    @property
    def dense(self) -> bool:
        """Say whether it is a range that goes to a range."""
        return (
            isinstance(self.place, slice) and isinstance(self.local, slice) and self.local.step in (None, 1)
        )


class Steps:
    """Every `step`-th element of an axis, ascending."""

    def __init__(self, first: int, step: int, count: int) -> None:
        self.first, self.step, self.count = first, step, count

    def parts(self, cell: int, gap: int) -> Iterator[Part]:
        """Yield what lies in each cell; elements more than `gap` apart come one by one."""
        at = 0
        while at < self.count:
            start = self.first + at * self.step
            end = at + 1
            if self.step <= gap:
                last = min(self.first + (self.count - 1) * self.step, (start // cell + 1) * cell - 1)
                end = at + (last - start) // self.step + 1
            yield Part(start, (end - at - 1) * self.step + 1, slice(None, None, self.step), slice(at, end))
            at = end


class Listed:
    """Elements of an axis by their numbers, in any order."""

    def __init__(self, numbers: NDArray[np.intp]) -> None:
        self.order = np.argsort(numbers, kind="stable")
        self.sorted = numbers[self.order]
        self.count = len(numbers)

    def parts(self, cell: int, gap: int) -> Iterator[Part]:
        """Yield what lies in each cell, split where more than `gap` elements lie between two."""
        if not self.count:
            return
        jumps = np.diff(self.sorted)
        ends = np.flatnonzero((np.diff(self.sorted // cell) != 0) | (jumps > gap)) + 1
        for at, end in itertools.pairwise([0, *ends.tolist(), self.count]):
            numbers, place = self.sorted[at:end], self.order[at:end]
            start, extent = int(numbers[0]), int(numbers[-1] - numbers[0]) + 1
            local: Place = numbers - start
            if extent == len(numbers) and (np.diff(place) == 1).all() and (np.diff(numbers) == 1).all():
                yield Part(start, extent, slice(None), slice(int(place[0]), int(place[-1]) + 1))
            else:
                yield Part(start, extent, local, place)


@dataclass
class Piece:
    """A box of the array, and the elements of it that are selected."""

    start: list[int]
    shape: list[int]
    local: tuple[Place, ...]
    place: tuple[Place, ...]
    dense: bool  # the whole box, to a box of the result

    def pick(self, part: NDArray[Any]) -> NDArray[Any]:
        """Return the selected elements of the box."""
        picked: NDArray[Any] = part[crossed(self.local, part.shape)]
        return picked


def crossed(places: tuple[Place, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index that takes the places of every axis independently."""
    if sum(not isinstance(place, slice) for place in places) < 2:
        return places
    numbers = [
        np.arange(n)[place] if isinstance(place, slice) else place
        for place, n in zip(places, shape, strict=True)
    ]
    return np.ix_(*numbers)


class OrthogonalIndexer:
    """An index expression with steps, integer arrays or masks, against a shape.

    Its elements are held as a dense array of `shape`: one axis for every axis of the array (an integer counts
    as one element, an array of any shape is flattened), or, where arrays are paired, the points first and
    then the axes that slices select. `result` gives NumPy's view of it and `source` is the inverse.
    """

    def __init__(self, key: Key, shape: tuple[int, ...], *, orthogonal: bool = False) -> None:
        keys, basic = _normal(key, shape), slice(None)
        self.arrays = {axis: item for axis, item in enumerate(keys) if isinstance(item, np.ndarray)}
        rest = BasicIndexer(
            tuple(basic if axis in self.arrays else item for axis, item in enumerate(keys)), shape
        )
        self.slices = [axis for axis, item in enumerate(keys) if isinstance(item, slice)]
        integers = [
            axis for axis, item in enumerate(keys) if axis not in self.arrays and axis not in self.slices
        ]
        advanced = sorted([*self.arrays, *(integers if not orthogonal else [])]) if self.arrays else []
        self.flips = {axis for axis in self.slices if rest.flips and rest.flips[axis].step == -1}
        self.points = not orthogonal and not _crossing(list(self.arrays.values()))
        axes: list[Steps | Listed] = [
            Steps(*three) for three in zip(rest.start, rest.step, rest.shape, strict=True)
        ]
        if self.points:
            given = [self.arrays.get(axis, np.intp(rest.start[axis])) for axis in advanced]
            try:
                paired = np.broadcast_arrays(*given)
            except ValueError:
                shapes = " and ".join(str(np.shape(a)) for a in given if np.ndim(a))
                raise IndexError(
                    f"index: arrays of {shapes} cannot be paired; give arrays of one shape, or np.ix_(...) "
                    "or .oindex[...] for all combinations."
                ) from None
            self.paired = {axis: np.ravel(a) for axis, a in zip(advanced, paired, strict=True)}
            self._spread = [paired[0].shape]
            front = [paired[0].size]
        else:
            for axis, numbers in self.arrays.items():
                axes[axis] = Listed(numbers.ravel())
            self.paired, front = {}, []
            flat = len(self.arrays) > 1
            self._spread = [(a.size,) if flat else a.shape for a in self.arrays.values()]
        self.axes = {axis: one for axis, one in enumerate(axes) if axis not in self.paired}
        self.shape = (*front, *(one.count for one in self.axes.values()))
        self.count = int(np.prod(self.shape, dtype=object))
        self._order(advanced, orthogonal)

    def _order(self, advanced: list[int], orthogonal: bool) -> None:
        """Find where NumPy puts the dimensions: those of arrays together, first where slices lie between."""
        together = not advanced or advanced[-1] - advanced[0] + 1 == len(advanced)
        spread = iter(self._spread)
        dims: list[tuple[str, tuple[int, ...]]] = []  # as they lie in the dense array
        if self.points:
            dims.append(("array", next(spread)))
        for axis, one in self.axes.items():
            if axis in self.arrays:
                dims.append(("array", next(spread)))
            elif axis in self.slices:
                dims.append(("slice", (one.count,)))
        self._spelled = tuple(n for _, extents in dims for n in extents)
        which = [kind for kind, extents in dims for _ in extents]
        arrays = [i for i, kind in enumerate(which) if kind == "array"]
        others = [i for i, kind in enumerate(which) if kind == "slice"]
        if orthogonal or not advanced or (together and not self.points):
            order = list(range(len(which)))
        else:
            before = sum(axis < advanced[0] for axis in self.slices) if together else 0
            order = [*others[:before], *arrays, *others[before:]]
        self._forward = order
        self.kept = tuple(self._spelled[i] for i in order)

    @property
    def index_bytes(self) -> int:
        """What the arrays of numbers take."""
        listed = sum(one.count for one in self.axes.values() if isinstance(one, Listed))
        return 24 * listed + 24 * sum(a.size for a in self.paired.values())

    def _flipped(self) -> tuple[slice, ...]:
        turn = [slice(None, None, -1 if axis in self.flips else 1) for axis in self.axes]
        return (*([slice(None)] if self.points else []), *turn)

    def result(self, dense: NDArray[Any]) -> NDArray[Any]:
        """Return NumPy's view of the selected elements."""
        if self.flips:
            dense = dense[self._flipped()]
        return dense.reshape(self._spelled).transpose(self._forward)

    def source(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the elements to assign, as `pieces` places them; `values` has NumPy's shape."""
        spelled = values.transpose(np.argsort(self._forward)) if self._forward else values
        dense = spelled.reshape(self.shape)
        return dense[self._flipped()] if self.flips else dense

    def pieces(self, cells: list[int], gaps: list[int]) -> Iterator[Piece]:
        """Yield what is selected of every cell of a grid, each once, in the order of storage."""
        if not self.count:
            return
        parts = {axis: list(one.parts(cells[axis], gaps[axis])) for axis, one in self.axes.items()}
        if not self.points:
            for chosen in itertools.product(*parts.values()):
                yield Piece(
                    [p.start for p in chosen], [p.extent for p in chosen], tuple(p.local for p in chosen),
                    tuple(p.place for p in chosen), all(p.dense for p in chosen),
                )  # fmt: skip
            return
        for group, start, extent, local in self._groups(cells):
            for chosen in itertools.product(*parts.values()):
                at = dict(zip(self.axes, chosen, strict=True))
                axes = range(len(self.axes) + len(start))
                yield PointPiece(
                    [at[d].start if d in at else start[d] for d in axes],
                    [at[d].extent if d in at else extent[d] for d in axes],
                    tuple(p.local for p in chosen), (group, *(p.place for p in chosen)), False, local,
                )  # fmt: skip

    def _groups(
        self, cells: list[int]
    ) -> Iterator[tuple[NDArray[np.intp], dict[int, int], dict[int, int], dict[int, NDArray[np.intp]]]]:
        """Yield the points of every cell: their places, and the box around them."""
        cell = [numbers // cells[axis] for axis, numbers in self.paired.items()]
        order = np.lexsort(cell[::-1])
        changes = np.zeros(max(0, len(order) - 1), bool)
        for one in cell:
            changes |= np.diff(one[order]) != 0
        for group in np.split(order, np.flatnonzero(changes) + 1):
            group.sort()  # in the order in which they were given: of equal points the last one stays
            start = {axis: int(n[group].min()) for axis, n in self.paired.items()}
            extent = {axis: int(n[group].max()) + 1 - start[axis] for axis, n in self.paired.items()}
            yield group, start, extent, {axis: n[group] - start[axis] for axis, n in self.paired.items()}


@dataclass
class PointPiece(Piece):
    """A box, and single points of it along some axes."""

    points: dict[int, NDArray[np.intp]]

    def _first(self, part: NDArray[Any]) -> NDArray[Any]:
        return np.moveaxis(part, list(self.points), range(len(self.points)))

    def pick(self, part: NDArray[Any]) -> NDArray[Any]:
        """Return the selected elements of the box: points first."""
        chosen = self._first(part)[tuple(self.points.values())]
        picked: NDArray[Any] = chosen[(slice(None), *crossed(self.local, chosen.shape[1:]))]
        return picked


def put(piece: Piece, part: NDArray[Any], start: list[int], dense: NDArray[Any]) -> None:
    """Assign the elements of `dense` that belong to a piece to a box around it that begins at `start`."""
    inside = part[
        tuple(slice(a - b, a - b + n) for a, b, n in zip(piece.start, start, piece.shape, strict=True))
    ]
    if not isinstance(piece, PointPiece):
        inside[crossed(piece.local, inside.shape)] = dense[crossed(piece.place, dense.shape)]
        return
    group, *places = piece.place
    values = dense[group][(slice(None), *crossed(tuple(places), dense.shape[1:]))]
    first = piece._first(inside)
    if all(isinstance(local, slice) for local in piece.local):
        first[(*piece.points.values(), *piece.local)] = values
        return
    chosen = first[tuple(piece.points.values())]
    chosen[(slice(None), *crossed(piece.local, chosen.shape[1:]))] = values
    first[tuple(piece.points.values())] = chosen


def _crossing(arrays: list[NDArray[np.intp]]) -> bool:
    """Say whether arrays select every combination: at most one, or what np.ix_ makes."""
    if len(arrays) < 2:
        return True
    number = len(arrays)
    return all(
        a.ndim == number and all(n == 1 for axis, n in enumerate(a.shape) if axis != which)
        for which, a in enumerate(arrays)
    )


def _normal(key: Key, shape: tuple[int, ...]) -> list[Any]:
    """Return one item for every axis: integers and slices as they are, arrays as numbers from 0 on."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [
        np.asarray(item, np.intp) if isinstance(item, range)
        else np.asarray(item) if isinstance(item, (list, np.ndarray))
        else item
        for item in keys
    ]  # fmt: skip
    masks = [item.ndim - 1 for item in keys if isinstance(item, np.ndarray) and item.dtype == bool]
    dots = [i for i, item in enumerate(keys) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("index: only one ellipsis (...) is possible.")
    used = len(keys) - len(dots) + sum(masks)
    if used > len(shape):
        raise IndexError(f"index: {used} indices were given and the array has {len(shape)} dimensions.")
    at = dots[0] if dots else len(keys)
    keys[at : at + 1] = [slice(None)] * (len(shape) - used)
    out: list[Any] = []
    for item in keys:
        out.extend(_numbers(item, shape, len(out)) if isinstance(item, np.ndarray) else [item])
    return out


def _numbers(item: NDArray[Any], shape: tuple[int, ...], axis: int) -> list[Any]:
    if item.dtype == bool:
        covered = shape[axis : axis + item.ndim]
        if item.ndim == 0 or item.shape != covered:
            raise IndexError(
                f"index: a mask of {item.shape} was given for dimensions of {covered}; they must be the same."
            )
        return list(np.nonzero(item))
    if item.size == 0 and item.dtype.kind == "f" and item.ndim == 1:
        item = item.astype(np.intp)  # an empty list
    if item.dtype.kind not in "iu":
        raise IndexError(
            f"index: an array of {item.dtype} was given; integers or a mask of booleans are needed."
        )
    if item.ndim == 0:
        return [item.item()]
    extent = shape[axis]
    wrong = (item < -extent) | (item >= extent)
    if wrong.any():
        raise IndexError(
            f"index: {item[wrong].flat[0]} is out of bounds for axis {axis} with {extent} elements."
        )
    return [np.where(item < 0, item + extent, item).astype(np.intp)]
