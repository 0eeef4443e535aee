"""Snapshots of a time loop: what is kept of the field, when, and how xarray finds it."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import ShapeError
from .._output.parts import Part
from .given.arguments import field_number, shown, whole_number
from .given.rows import result_chunks

__all__ = ["AXES", "Snapshot", "given_snapshots"]

AXES = ("z", "y", "x")  # of three dimensions; fewer are the last of these
_CODEC = "blosc-lz4"  # as fast as a disk, and fields are smooth
_NAME = re.compile(r"(?!zarr\.json$)[A-Za-z0-9][A-Za-z0-9_.-]*")
_NEEDED = "(every, key), ([steps], key), or a number of steps alone"


@dataclass
class Snapshot:
    """Points of a box, a stride apart, after some steps."""

    name: str
    steps: list[int]
    first: list[int]
    number: list[int]
    stride: list[int]
    field: int  #: of several
    kept: list[int]  #: dimensions that it has, beside the one of steps

    @property
    def where(self) -> str:
        """Its place in the group."""
        return f"snapshots/{self.name}"

    def part(self, dtype: np.dtype[Any]) -> Part:
        """Return the array of a group that it is: compressed, each time in chunks of its own."""
        shape = [self.number[d] for d in self.kept]
        chunks = [1, *result_chunks(tuple(shape), dtype.itemsize)] if shape else [1]
        axes = AXES[-len(self.number) :]
        dims = ["time", *(axes[d] for d in self.kept)]
        return Part(
            f"{self.where}/{self.name}", [len(self.steps), *shape], chunks, dims, kept=True, codec=_CODEC
        )

    def coordinates(
        self, done: int, spacing: Sequence[float] | None, dt: float | None
    ) -> dict[str, NDArray[Any]]:
        """Return where its points lie in time and space: steps and indices, or seconds and lengths."""
        steps = np.asarray([step for step in self.steps if step <= done], np.int64)
        axes = AXES[-len(self.number) :]
        found: dict[str, NDArray[Any]] = {"time": steps if dt is None else steps * dt}
        for d in self.kept:
            at = self.first[d] + self.stride[d] * np.arange(self.number[d], dtype=np.int64)
            found[axes[d]] = at if spacing is None else at * spacing[d]
        return found

    def tell(self, core: _core.Stencil) -> None:
        """Ask the core for it."""
        core.snapshot(self.steps, self.first, self.number, self.stride, self.kept, self.field)


def given_snapshots(
    who: str, given: Any, shape: tuple[int, ...], steps: int, fields: list[str]
) -> list[Snapshot]:
    """Return what is asked for by name."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise TypeError(f"{who}: snapshots is {shown(given)}; a mapping of names to {_NEEDED} is needed.")
    return [_snapshot(who, name, value, shape, steps, fields) for name, value in given.items()]


def _snapshot(
    who: str, name: Any, given: Any, shape: tuple[int, ...], steps: int, fields: list[str]
) -> Snapshot:
    axes = AXES[-len(shape) :]
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in ("time", *axes):
        raise ValueError(
            f"{who}: a snapshot has the name {shown(name)}; letters, digits, '_', '-' and '.' are possible, "
            f"and no name of a coordinate ({', '.join(('time', *axes))})."
        )
    field = 0
    if fields and isinstance(given, tuple) and len(given) == 3:
        field = field_number(who, f"snapshot '{name}'", given[1], fields)
        given = (given[0], given[2])
    when, key = given if isinstance(given, tuple) and len(given) == 2 else (given, ...)
    if isinstance(when, (list, tuple, range, np.ndarray)):
        chosen = sorted({whole_number(who, f"a step of '{name}'", one, 1, max(1, steps)) for one in when})
    elif hasattr(when, "__index__"):
        every = whole_number(who, f"the steps between two of snapshot '{name}'", when, 1, 1 << 31)
        chosen = list(range(every, steps + 1, every))
    else:
        raise TypeError(f"{who}: snapshot '{name}' is {shown(given)}; {_NEEDED} is needed.")
    if not chosen:
        raise ValueError(
            f"{who}: snapshot '{name}' has no step among the {steps} that are done; ask for one every "
            f"{max(1, steps)} steps at most."
        )
    first, number, stride, kept = _points(who, name, key, shape)
    return Snapshot(name, chosen, first, number, stride, field, kept)


def _points(
    who: str, name: str, key: Any, shape: tuple[int, ...]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return first, number, stride of each dimension, and which are kept, as NumPy's indexing does."""
    keys = list(key) if isinstance(key, tuple) else [key]
    places = [i for i, one in enumerate(keys) if one is Ellipsis]
    if len(places) > 1 or len(keys) - len(places) > len(shape):
        raise ShapeError(
            f"{who}: snapshot '{name}' is {shown(key)} of a field of {len(shape)} dimensions; one index or "
            "slice for each is needed."
        )
    at = places[0] if places else len(keys)
    missing = len(shape) - (len(keys) - len(places))
    keys[at : at + 1] = [slice(None)] * missing
    found: list[tuple[int, int, int]] = []
    kept = []
    for d, (one, n) in enumerate(zip(keys, shape, strict=True)):
        if isinstance(one, slice):
            begin, end, step = _bounds(who, name, one, n)
            found.append((begin, len(range(begin, end, step)), step))
            kept.append(d)
            continue
        try:
            if isinstance(one, (bool, np.bool_)):  # a mask, in NumPy
                raise TypeError
            index = operator.index(one)
        except TypeError:
            raise TypeError(
                f"{who}: snapshot '{name}' has the index {shown(one)}; whole numbers and slices are possible."
            ) from None
        if not -n <= index < n:
            raise ShapeError(f"{who}: snapshot '{name}' has the index {index} along an axis of {n}.")
        found.append((index % n, 1, 1))
    first, number, stride = (list(each) for each in zip(*found, strict=True))
    if 0 in number:
        raise ShapeError(f"{who}: snapshot '{name}' is {shown(key)} and holds no point.")
    return first, number, stride, kept


def _bounds(who: str, name: str, one: slice, n: int) -> tuple[int, int, int]:
    try:
        begin, end, step = one.indices(n)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{who}: snapshot '{name}' has the slice {shown(one)}: {error}.") from None
    if step < 1:
        raise ValueError(f"{who}: snapshot '{name}' has the slice {shown(one)}; forward steps are needed.")
    return begin, end, step
