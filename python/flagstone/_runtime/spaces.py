"""What one memory and its processors did, or would do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core

__all__ = ["Space", "rows_of", "spaces_of", "together"]


@dataclass(frozen=True)
class Space:
    """One memory of a call: the host's, or a device's.

    Attributes
    ----------
    name : str
        "host", "cuda:0".
    budget, peak : int
        Bytes that tiles, results and workspaces may take there, and most that they took.
    bytes_in, bytes_out : int
        Copied from the host and back; of the host, read from disk and written.
    copies_in, copies_out : int
        In so many tiles.
    launches, tasks : int
        Batches of tasks with equal calls, and the tasks in them.
    busy_seconds : float
        During which at least one launch was under way; of the host, of all its workers.
    """

    name: str
    budget: int
    peak: int
    bytes_in: int
    bytes_out: int
    copies_in: int
    copies_out: int
    launches: int
    tasks: int
    busy_seconds: float


_ADDED = ("bytes_in", "bytes_out", "copies_in", "copies_out", "launches", "tasks", "busy_seconds")


def spaces_of(counted: _core.Statistics) -> tuple[Space, ...]:
    """Return the memories of a run or a plan; none without devices."""
    return tuple(
        Space(**{name: getattr(one, name) for name in Space.__dataclass_fields__}) for one in counted.spaces
    )


def together(parts: Iterable[Sequence[Space]]) -> tuple[Space, ...]:
    """Return the memories of calls that are made one after the other."""
    told: dict[str, dict[str, Any]] = {}
    for part in parts:
        for one in part:
            seen = told.setdefault(one.name, {"name": one.name, "budget": one.budget, "peak": 0})
            seen["peak"] = max(seen["peak"], one.peak)
            seen.update({name: seen.get(name, 0) + getattr(one, name) for name in _ADDED})
    return tuple(Space(**one) for one in told.values())


def rows_of(spaces: Sequence[Space]) -> list[tuple[str, str]]:
    """Return a row of a table for each device."""
    sizes = _core.format_bytes
    return [
        (
            one.name,
            f"{sizes(one.bytes_in)} in, {sizes(one.bytes_out)} out; "
            f"{one.tasks} tasks in {one.launches} launches; "
            f"peak {sizes(one.peak)} of {sizes(one.budget)}",
        )
        for one in spaces[1:]
    ]
