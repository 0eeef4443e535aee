"""Several places of one call under one record: each of them tells it, the first one keeps its checkpoints."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .. import _core
from .._array.array import Array, open_core
from .._errors.classes import Error, FormatError
from .._errors.messages import storage_error
from .._resume.identity import stored_stamp
from .._resume.leftovers import MEMBER, Leftover, LeftoverWarning, leftovers
from .._resume.openers import old_output
from .._resume.record import Record, seconds_of, sync_tree
from .._runtime.call import Call
from .place import Place, inside

__all__ = ["Together", "Unfinished", "finished", "old_outputs", "unfinished"]

_WHOLE = "whole"  # the note: all is built, and names are being exchanged; both versions of each
_ALWAYS = 1e9  # seconds that are worth a record


class Together:
    """Places that one job writes, of which a killed call may have left some.

    Whichever of them is asked to go on, the record there is the same. What is finished of all of them is
    noted beside the first; the others note how far that is, so that they stay as long as it does.
    """

    def __init__(self, places: Sequence[Place | None], read: Sequence[str | None] = ()) -> None:
        """`read`: paths of the operands; where a place is one of them, results appear all or not at all."""
        self.places = places
        self._named = [place for place in self.places if place is not None and not place.nameless]
        over = {os.path.realpath(path) for path in read if path}
        named = [os.path.realpath(_path(place)) for place in self._named]
        self._over = any(_contains(place, path) for place in named for path in over)

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
        done. Where operands are exchanged a note says so, beside the first named place, which appears last,
        with what tells the old versions and the new ones; `finish` does what is left where it still finds
        them. Cost of the note: one sync of everything, one look at every file's times, and a file.
        """
        given = [place for place in places if place is not None]
        for place in given:
            if place.destination is not None:
                place.destination.core.flush()
        if self._over and (first := self._named[0].checkpoint) is not None:
            for place in self._named:
                assert place.destination is not None
                sync_tree(place.destination.built)
            first.save(1.0, [(_WHOLE, json.dumps([_note(place) for place in self._named]).encode())])
        last = self._named[:1]
        made = {id(place): place.close() for place in sorted(given, key=lambda one: one in last)}
        return [made[id(place)] for place in given]

    def finish(self, operation: str, arguments: Callable[[], dict[str, Any]]) -> list[str]:
        """Finish a killed call over operands of this one; return the paths that it exchanged, [] for none.

        Where it had exchanged nothing and this is another call (operands, options), what it built is thrown
        away with a `LeftoverWarning`. FormatError where it had, and what is there now is not what it left:
        whether rows still belong together only the user knows.
        """
        found = unfinished(operation, [_path(place) for place in self._named]) if self._over else None
        if found is None:
            return []
        changed = found.changed()
        if changed and found.begun:
            raise FormatError(
                f"{operation}: a killed call had exchanged some outputs, and '{changed[0]}' changed since: "
                "rows may be torn apart; sort copies of the arrays of before, or delete "
                f"'{found.builds[0]}', which it left, to sort what is there."
            )
        told = arguments() | {"outs": [_told(place) for place in self.places]}
        if changed or not (found.begun or found.is_of(told)):
            found.throw_away(operation)
            return []
        return found.publish()


class Unfinished:
    """Outputs of a killed call that had built all of them, and had some names left to exchange."""

    def __init__(self, record: str, outs: Sequence[str], noted: Sequence[dict[str, Any]]) -> None:
        self.record, self.outs, self._noted = record, list(outs), noted
        self._left = [next(_of_record(out, record), None) for out in outs]

    @property
    def builds(self) -> list[str]:
        """What is built and has not appeared: that of the first output, which the note lies beside, first."""
        return [one.build for one in self._left if one is not None]

    @property
    def begun(self) -> bool:
        """Whether an output is there that was exchanged, as it was built or written to since.

        A place whose directory is another one was brought back, or made anew, by somebody.
        """
        there = zip(self.outs, self._noted, self._left, strict=True)
        return any(left is None and _number(out) == noted["number"] for out, noted, left in there)

    def changed(self) -> list[str]:
        """Return the places that hold neither what was to be exchanged nor what was built."""
        there = zip(self.outs, self._noted, self._left, strict=True)
        return [out for out, noted, left in there if not _as_noted(out, noted, left)]

    def is_of(self, told: dict[str, Any]) -> bool:
        """Say whether a call with these arguments left it."""
        same: bool = json.loads(self.record)["arguments"] == json.loads(json.dumps(told))
        return same

    def check(self) -> None:
        """Refuse to publish over what is newer: FormatError, which names it."""
        changed = self.changed()
        if not self.begun:  # operands that are no outputs, too: nothing is torn yet
            told = json.loads(self.record)["arguments"].get("arrays", [])
            paths = [(one["path"], one["stamp"]) for one in told if "path" in one]
            changed += [path for path, stamp in paths if os.path.exists(path) and stored_stamp(path) != stamp]
        if changed:
            raise FormatError(
                f"resume: {_names(dict.fromkeys(changed))} changed since, and what was built is of the old "
                "version; nothing was replaced; make the call again."
            )

    def publish(self) -> list[str]:
        """Do the renames that are left; return all places."""
        for out in [*self.outs[1:], self.outs[0]]:  # the note goes with the first one
            for one in _of_record(out, self.record):
                built = _core.Output(one.path, True, 0, one.record)
                if built.adopted:
                    built.publish()
        self._sweep()  # what was exchanged by the process that died
        return self.outs

    def throw_away(self, operation: str) -> None:
        """Remove what was built, and say so first."""
        warnings.warn(
            f"{_names(self.outs)}: what a killed {operation} had built is thrown away, because this call is "
            "another one (other operands or options).",
            LeftoverWarning,
            stacklevel=2,
        )
        self._sweep()

    def _sweep(self) -> None:
        for out in self.outs:
            _core.sweep_leftovers(os.path.realpath(out))


def unfinished(operation: str, paths: Sequence[str]) -> Unfinished | None:
    """Find the killed call of which one of `paths` was an output, where it died among its renames."""
    for path in paths:
        place = os.path.abspath(path)
        # Of a group of one array, whichever of the two was named then.
        for near in (place, f"{place}/{MEMBER}", os.path.dirname(place)):
            for left in leftovers(near):
                outs = _outs_of(left, operation)
                if outs and (noted := _noted(outs, left.record)) is not None:
                    _check_idle(operation, outs, left.record)
                    return Unfinished(left.record, outs, noted)
    return None


def finished(found: Unfinished, *, memory: int | str | None = None) -> list[Array]:
    """Publish what is left and return the results: a call to be made in place of the one that was killed."""
    call = Call("resume", memory, light=True)
    found.check()
    with call.measured(f"{len(found.outs)} outputs, exchanged", "renames"):
        paths = found.publish()
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


def _check_idle(operation: str, outs: Sequence[str], record: str) -> None:
    """Refuse to look at names that somebody else is exchanging now."""
    for out in outs:
        if any(one.live and one.record == record for one in leftovers(out)):
            raise storage_error(
                f"{operation}: another process finishes '{out}' now; wait for it.", errno.EBUSY, out
            )


def _noted(outs: Sequence[str], record: str) -> list[dict[str, Any]] | None:
    """Return what the note beside the first of `outs` says of each; None: there is none, or it is damaged."""
    for left in _of_record(outs[0], record):
        try:
            checkpoint = _core.Checkpoint(left.notes, 0)
            noted = json.loads(checkpoint.load(_WHOLE)) if checkpoint.has(_WHOLE) else []
        except (FormatError, ValueError):
            continue
        if isinstance(noted, list) and len(noted) == len(outs):
            return noted
    return None


def _note(place: Place) -> dict[str, Any]:
    """Return what tells, after a kill, which of the two versions lies at a place, or that none does."""
    assert place.destination is not None
    built = place.destination.built
    return {"old": _version(_path(place)), "built": _version(built), "number": _number(built)}


def _as_noted(out: str, noted: dict[str, Any], left: Leftover | None) -> bool:
    """Say whether a place holds what was built or, where that is still aside, what it is to replace."""
    if left is None:
        return bool(_version(out) == noted["built"])
    if _version(left.build) != noted["built"]:
        return False
    return not os.path.lexists(out) or _being_removed(out, left) or _version(out) == noted["old"]


def _being_removed(out: str, left: Leftover) -> bool:
    """Say whether its writer died while it removed the old version file by file (overlays)."""
    with contextlib.suppress(OSError), open(f"{left.build}.lock", "rb") as lock:
        return lock.read(1) == b"r" and not (_core.is_zarr_array(out) or _core.is_zarr_group(out))
    return False


def _version(path: str) -> str:
    """Return what tells one version from another whatever its name: a rename sets a file's change time."""
    if not os.path.exists(path):
        return ""
    if os.path.isdir(path):
        return stored_stamp(path)
    status = os.stat(path)
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def _number(path: str) -> int:
    return os.stat(path).st_ino if os.path.exists(path) else 0


def _names(paths: Iterable[str]) -> str:
    return ", ".join(f"'{path}'" for path in paths)


def _contains(one: str, other: str) -> bool:
    """Say whether one path is the other, or lies in it: an array in its group."""
    return os.path.commonpath([one, other]) in (one, other)


def _path(place: Place) -> str:
    return place.out.path or "" if isinstance(place.out, Array) else os.fspath(place.out)


def _told(place: Place | None) -> Any:
    """Return what the record says of a place: None of scratch, "memory", or where it is."""
    if place is None:
        return None
    if place.in_memory:
        return "memory"
    if place.nameless:
        return None
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
