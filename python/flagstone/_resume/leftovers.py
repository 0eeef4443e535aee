"""What killed calls left of their outputs: found, described, listed, told of before it is thrown away."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from .. import _core

__all__ = ["MEMBER", "Leftover", "LeftoverWarning", "announce", "leftovers", "register", "registered"]


#: Name of the only array of a group: xarray opens arrays in groups only.
MEMBER = "array"


class LeftoverWarning(UserWarning):
    """What a killed call had finished is thrown away."""

    __module__ = "flagstone"


@dataclass(frozen=True)
class Leftover:
    """An output that was not finished, and what is known of it."""

    path: str  # of the output
    build: str
    notes: str
    record: str
    nbytes: int
    live: bool
    operation: str = ""
    done: float = 0.0
    saves: int = 0
    process: int = 0
    age: float = 0.0  # seconds since the last checkpoint

    @property
    def resumable(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return bool(self.record) and self.saves > 0


def _described(row: tuple[str, str, str, str, int, bool]) -> Leftover:
    path, build, notes, record, nbytes, live = row
    operation, state = "", {}
    with contextlib.suppress(ValueError, KeyError, TypeError):
        operation = str(json.loads(record)["operation"])
    place = f"{notes}/state"
    age = 0.0
    with contextlib.suppress(OSError, ValueError):
        with open(place, "rb") as file:
            state = json.loads(file.readline(1 << 20)[9:])
        age = max(0.0, time.time() - os.stat(place).st_mtime)
    return Leftover(
        path, build, notes, record, nbytes, live, operation, float(state.get("done", 0)),
        int(state.get("saves", 0)), int(state.get("process", 0)), age,
    )  # fmt: skip


def leftovers(path: str, below: bool = False) -> list[Leftover]:
    """List what was begun and not finished of the output `path`; `below`: of all in that directory."""
    place = os.path.realpath(path)
    rows = _core.leftovers(place) if below else _core.leftovers_of(place)
    return [_described(row) for row in rows]


def register(scratch: Path | None, path: str) -> None:
    """Note in scratch that an output is built somewhere, for the listing; it outlives this process."""
    if scratch is None:
        return
    place = os.path.realpath(path)
    with contextlib.suppress(OSError):  # the listing is a courtesy
        (scratch / "resume").mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b(place.encode(), digest_size=12).hexdigest()
        (scratch / "resume" / name).write_text(place)


def registered(scratch: Path) -> list[Leftover]:
    """List what is being built, or was left, of outputs that scratch knows of; forget those that are done."""
    found: list[Leftover] = []
    for note in sorted((scratch / "resume").glob("*")):
        try:
            left = [one for one in leftovers(note.read_text()) if one.record]
        except OSError:
            continue
        found += left
        if not left:
            note.unlink(missing_ok=True)
    return found


def _with_article(operation: str) -> str:
    return f"a {operation}" if operation else "an operation, whose record is damaged,"


def announce(path: str, text: str) -> None:
    """Say, before a call throws it away, what another call had finished of the same output."""
    parent = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(parent):
        return
    for one in leftovers(path):
        if one.resumable and not one.live and one.record != text:
            warnings.warn(
                f"'{path}': {_with_article(one.operation)} that was {one.done:.0%} done is thrown away, "
                "because this call is another one (other operands or options); write elsewhere to keep it.",
                LeftoverWarning,
                stacklevel=2,
            )
