"""What the tasks of a graph name: one handle for the same elements, and each region once where it changes."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._array.array import Array
from .._array.handle import owner_of
from .._array.regions import Region
from .._errors.classes import ShapeError

__all__ = ["Handles", "Named", "check_named_once"]


class Handles:
    """Of all handles of the same elements the one that a graph goes by: dependencies follow from it alone.

    The same elements are those of one file (the one that was opened, whatever its path is by now), of one
    shape, dtype and layout. Other arrays of one file are compared byte by byte when the graph runs.
    """

    def __init__(self, replace: Any) -> None:
        self._replace = replace  # told to put one core array for another in what was added
        self._keys: dict[int, tuple[Array, Any]] = {}  # by the handle's id
        self._known: dict[Any, Array] = {}
        self.read: dict[int, Array] = {}
        self.changed: dict[int, Array] = {}

    def of(self, array: Array, changes: bool) -> Array:
        """Return the handle to use for `array`, which a task reads or changes: the first that is changed."""
        owner = owner_of(array)
        if id(owner) not in self._keys:
            core = owner._core
            at = core.located
            key = id(owner) if at is None else (at, *core.shape, core.dtype, *core.chunks)
            self._keys[id(owner)] = owner, key
        key = self._keys[id(owner)][1]
        known = self._known.setdefault(key, owner)
        if changes and id(known) not in self.changed and known is not owner:  # it is perhaps open for reading
            self._replace(known._core, owner._core)
            if self.read.pop(id(known), None) is not None:
                self.read[id(owner)] = owner
            self._known[key] = known = owner
        (self.changed if changes else self.read)[id(known)] = known
        return known


class Named(NamedTuple):
    """One box of what a task names, along the stored axes."""

    mode: str
    array: Array
    start: tuple[int, ...]
    shape: tuple[int, ...]
    region: Region

    def meets(self, other: Named) -> bool:
        """Whether they share an element."""
        return self.array is other.array and all(
            a < b + m and b < a + n
            for a, n, b, m in zip(self.start, self.shape, other.start, other.shape, strict=True)
        )


def check_named_once(task: str, named: list[Named]) -> None:
    """Refuse a task that changes elements that it names twice: two views would lie on one memory."""
    for i, one in enumerate(named):
        if one.mode == "read":
            continue
        for j, other in enumerate(named):
            if (j < i and other.mode != "read") or j == i or not one.meets(other):
                continue
            raise ShapeError(
                f"graph: task '{task}' is to {one.mode} {one.region.name} and to {other.mode} "
                f"{other.region.name}, which share elements; name what it changes once (fl.update gives the "
                "old values too), or read from another array."
            )
