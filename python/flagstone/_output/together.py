"""Several places of one call under one record: each of them tells it, the first one keeps its checkpoints."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import _core
from .._array.array import Array, open_core
from .._errors.classes import Error
from .._resume.leftovers import Leftover, leftovers
from .._resume.openers import old_output
from .._resume.record import Record, seconds_of, sync_tree
from .place import Place, inside

__all__ = ["Together", "finish", "old_outputs", "opened"]

_WHOLE = "whole"  # the note: all is built, and names are being exchanged
_ALWAYS = 1e9  # seconds that are worth a record


class Together:
    """Places that one job writes, of which a killed call may have left some.

    Whichever of them is asked to go on, the record there is the same. What is finished of all of them is
    noted beside the first; the others note how far that is, so that they stay as long as it does.
    """

    def __init__(self, places: Sequence[Place | None], read: Sequence[str | None] = ()) -> None:
        """`read`: paths of the operands; where a place is one of them, results appear all or not at all."""
        self.places = places
        self._named = [place for place in places if place is not None and not place.nameless]
        over = {os.path.realpath(path) for path in read if path}
        self._over = any(os.path.realpath(_path(place)) in over for place in self._named)

    def recorded(
        self, operation: str, arguments: Callable[[], dict[str, Any]], flops: float, nbytes: float
    ) -> None:
        """Give each what is built there the record of one `operation`."""
        told = functools.cache(lambda: arguments() | {"outs": [_told(place) for place in self.places]})
        leader: list[Record] = []  # of the place that is opened first
        seconds = _ALWAYS if self._over else seconds_of(flops, nbytes)

        def record(place: Place) -> Record:
            made = Record(operation, told, seconds, place.call.runtime)
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

    def publish(self, places: Sequence[Place | None]) -> list[Any]:
        """Publish these places, the call's own and others, and return what callers get, in their order.

        All is written before the first appears: a kill between two of them finds nothing but renames to be
        done. Where operands are exchanged a note says so, beside the first named place, which appears last;
        `finish` does what is left. Cost of the note: one sync of everything, and a file.
        """
        given = [place for place in places if place is not None]
        for place in given:
            if place.destination is not None:
                place.destination.core.flush()
        if self._over and (first := self._named[0].checkpoint) is not None:
            for place in self._named:
                assert place.destination is not None
                sync_tree(place.destination.built)
            first.save(1.0, [(_WHOLE, b"")])
        last = self._named[:1]
        made = {id(place): place.close() for place in sorted(given, key=lambda one: one in last)}
        return [made[id(place)] for place in given]

    def finish(self, operation: str) -> list[str]:
        """Do so for a call over the same operands as this one, as `finish` says."""
        return finish(operation, [_path(place) for place in self._named]) if self._over else []


def finish(operation: str, paths: Sequence[str]) -> list[str]:
    """Publish what a killed call had built whole when it died among its renames; return the paths it had.

    `paths`: of any of its places. Nothing is done, and [] returned, where no such call is found.
    """
    for path in paths:
        for left in leftovers(os.path.abspath(path)):
            outs = _outs_of(left, operation)
            if outs and any(_is_whole(one) for one in _of_record(outs[0], left.record)):
                for out in [*outs[1:], outs[0]]:  # the note goes with the first one
                    for one in _of_record(out, left.record):
                        built = _core.Output(one.path, True, 0, one.record)
                        if built.adopted:
                            built.publish()
                for out in outs:
                    _core.sweep_leftovers(out)  # what was exchanged by the process that died
                return outs
    return []


def opened(paths: Sequence[str], *, memory: int | str | None = None) -> list[Array]:
    """Return the results that `finish` published: a call to be made in place of the one that is finished."""
    return [Array(open_core(inside(path), "r+"), "r+") for path in paths]


def _outs_of(left: Leftover, operation: str) -> list[str]:
    """Return the places that a record names; [] of another operation, or where it is damaged."""
    try:
        about = json.loads(left.record)
        outs = about["arguments"]["outs"] if about["operation"] == operation else []
        return [one["path"] for one in outs if isinstance(one, dict)]
    except (ValueError, KeyError, TypeError):
        return []


def _of_record(path: str, record: str) -> Iterator[Leftover]:
    return (one for one in leftovers(path) if one.record == record and not one.live)


def _is_whole(left: Leftover) -> bool:
    return left.saves > 0 and _core.Checkpoint(left.notes, 0).has(_WHOLE)


def _path(place: Place) -> str:
    return place.out.path or "" if isinstance(place.out, Array) else os.fspath(place.out)


def _told(place: Place | None) -> Any:
    """Return what the record says of a place: None of scratch, "memory", or where it is."""
    if place is None or place.out is None:
        return None
    if place.in_memory:
        return "memory"
    return {"path": os.path.abspath(_path(place))} | place.identity()


def old_outputs(told: Sequence[Any]) -> list[Any]:
    """Return what `out` was: paths, and arrays there, which must be as they were."""
    for number, one in enumerate(told):
        if one == "memory":
            raise Error(
                f"resume: out {number} was an array in memory; make the same call again, with the same "
                "operands and out=."
            )
    return [one if one is None else old_output(one["path"], one) for one in told]
