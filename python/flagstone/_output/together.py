"""Several places of one call under one record: each of them tells it, the first one keeps its checkpoints."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._array.array import Array
from .._errors.classes import Error
from .._resume.openers import old_output
from .._resume.record import Record, seconds_of
from .place import Place

__all__ = ["Together", "old_outputs"]


class Together:
    """Places that one job writes, of which a killed call may have left some.

    Whichever of them is asked to go on, the record there is the same. What is finished of all of them is
    noted beside the first; the others note how far that is, so that they stay as long as it does.
    """

    def __init__(self, places: Sequence[Place | None]) -> None:
        self.places = places
        self._named = [place for place in places if place is not None and not place.nameless]

    def recorded(
        self, operation: str, arguments: Callable[[], dict[str, Any]], flops: float, nbytes: float
    ) -> None:
        """Give each what is built there the record of one `operation`."""
        told = functools.cache(lambda: arguments() | {"outs": [_told(place) for place in self.places]})
        leader: list[Record] = []  # of the place that is opened first

        def record(place: Place) -> Record:
            made = Record(operation, told, seconds_of(flops, nbytes), place.call.runtime)
            for first in leader:
                made.follow(first)
            leader.append(made)
            return made

        for place in self._named:
            place.described(functools.partial(record, place))

    def checkpoint(self, maps: str) -> _core.Checkpoint | None:
        """Return where finished work is noted, once all are open.

        `maps`: what the names of maps of finished units begin with. Such maps speak of all places; where one
        of them is new, because it is nameless, or was damaged or published before the process died, they are
        forgotten.
        """
        if not self._named or self._named[0].checkpoint is None:
            return None
        first = self._named[0]
        made = [place for place in self.places if place is not None and not place.in_memory]
        if first.checkpoint is not None and not all(place.record.resumed for place in made):
            first.checkpoint.forget(maps)
        return first.checkpoint


def _told(place: Place | None) -> Any:
    """Return what the record says of a place: None of scratch, "memory", or where it is."""
    if place is None or place.out is None:
        return None
    if place.in_memory:
        return "memory"
    path: str = place.out.path or "" if isinstance(place.out, Array) else os.fspath(place.out)
    return {"path": os.path.abspath(path)} | place.identity()


def old_outputs(told: Sequence[Any]) -> list[Any]:
    """Return what `out` was: paths, and arrays there, which must be as they were."""
    for number, one in enumerate(told):
        if one == "memory":
            raise Error(
                f"resume: out {number} was an array in memory; make the same call again, with the same "
                "operands and out=."
            )
    return [one if one is None else old_output(one["path"], one) for one in told]
