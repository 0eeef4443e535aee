"""The scratch budget: bytes that may lie in scratch, and to whom they were promised.

What lies there is counted on the disk, whoever wrote it. What somebody is about to write is a promise: a file
in ``<scratch>/promises`` that its process keeps locked, with the bytes and the entry that they are for. A
promise and its entry count once, the longer of the two; files without a name (tiles between two passes) are
known by their promise alone. Counting and promising happen under one lock, so two
calls are never promised the same bytes.
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import fcntl
import json
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

from .. import _core
from .._errors.messages import storage_error
from . import entries, scratch

__all__ = ["Reservation", "counting", "finished", "grows", "held", "needs", "promise", "wrote"]

_LOOK = 64 << 20  # bytes of unknown length that are written between two looks at the disk


def _on_disk(directory: Path) -> dict[str, int]:
    """Return the bytes of every import and result, by name."""
    found: dict[str, int] = {}
    for folder in ("imports", "results"):
        with contextlib.suppress(OSError):
            for entry in (directory / folder).iterdir():
                name = f"{folder}/{entries.entry_name(entry)}"
                found[name] = found.get(name, 0) + entries.disk_bytes(entry)
    return found


@contextlib.contextmanager
def _gate(directory: Path) -> Iterator[Path]:
    """Count and promise one after the other; others wait for the time of a walk over scratch."""
    promises = scratch.prepare(directory) / "promises"
    promises.mkdir(exist_ok=True)
    descriptor = os.open(promises / "gate", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.suppress(OSError):  # where there are no locks: counted without
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield promises
    finally:
        os.close(descriptor)


def _promised(promises: Path, own: str = "", sweep: bool = False) -> list[tuple[str, int]]:
    """Return what is promised (entry, bytes), but for `own`; `sweep`, inside the gate: the dead's go."""
    found: list[tuple[str, int]] = []
    for file in promises.glob("*.lock"):
        if file.name == own:
            continue
        if not entries.alive(file):
            if sweep:
                file.unlink(missing_ok=True)
            continue
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(file.read_text())
            found.append((str(told["for"]), int(told["bytes"])))
    return found


def _sum(on_disk: dict[str, int], promised: list[tuple[str, int]]) -> int:
    longest = dict(on_disk)
    nameless = 0
    for name, nbytes in promised:
        if name:
            longest[name] = max(longest.get(name, 0), nbytes)
        else:
            nameless += nbytes
    return nameless + sum(longest.values())


def held(directory: Path) -> int:
    """Return the bytes that count against the quota of a scratch directory, promises included."""
    promises = directory / "promises"
    return _sum(_on_disk(directory), _promised(promises) if promises.is_dir() else [])


class Reservation:
    """Bytes of scratch that one piece of work may take, until release(), or until its process ends."""

    def __init__(self, who: str, directory: Path, quota: int | None) -> None:
        self.who, self.directory, self.quota, self.nbytes = who, directory, quota, 0
        self._entry = self._name = ""
        self._unseen = 0
        self._descriptor = -1
        self._end: weakref.finalize[..., Reservation] | None = None

    @property
    def path(self) -> Path:
        """The entry that it is for."""
        return self.directory.absolute() / self._entry

    def take(self, nbytes: int, entry: Path | None = None) -> None:
        """Take so many bytes altogether, for an entry of scratch (None: for files without a name), or refuse.

        StorageError (EDQUOT), which leaves what was promised before.
        """
        self._entry = str(entry.relative_to(self.directory)) if entry is not None else self._entry
        with _gate(self.directory) as promises:
            others = _promised(promises, self._name, sweep=True)
            if self.quota is not None:
                on_disk = _on_disk(self.directory)
                own = on_disk.pop(self._entry, 0)
                there = _sum(on_disk, others)
                if there + max(own, nbytes) > self.quota:
                    self._refuse(nbytes, there + own)
            self._write(promises, nbytes)
        self.nbytes = nbytes

    def wrote(self, nbytes: int) -> None:
        """Tell of bytes on their way to an entry whose length nobody knew; refuse where they are too many."""
        self._unseen += nbytes
        if self.quota is None or self._unseen < min(_LOOK, max(1, self.quota // 16)):
            return
        self.look()

    def look(self) -> None:
        """Take what its entry has on the disk by now; refuse where that is too much."""
        self._unseen = 0
        if self.quota is not None and (there := _on_disk(self.directory).get(self._entry, 0)) > self.nbytes:
            self.take(there)

    def grow(self, nbytes: int) -> None:
        """Take so many bytes more than the entry has on the disk."""
        self.take(max(self.nbytes, _on_disk(self.directory).get(self._entry, 0) + nbytes))

    def release(self) -> None:
        """Give back what was not used: from now on what is on the disk counts."""
        if self._end is not None:
            self._end()

    def _write(self, promises: Path, nbytes: int) -> None:
        if self._descriptor < 0:
            self._name = f"{os.getpid()}-{os.urandom(4).hex()}.lock"
            place = str(promises / self._name)
            self._descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            self._end = weakref.finalize(self, _give_up, os.getpid(), place, self._descriptor)
        text = json.dumps({"bytes": nbytes, "for": self._entry}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def _refuse(self, nbytes: int, others: int) -> None:
        size = _core.format_bytes
        freed = entries.clearable(self.directory)
        clear = (
            f", {size(freed)} of them imports and leftovers that 'flagstone scratch --clear' frees"
            if freed
            else ""
        )
        raise storage_error(
            f"{self.who}: needs {size(nbytes)} of scratch, and '{self.directory}' holds {size(others)} of "
            f"its quota of {size(self.quota or 0)}{clear}. Clear it, let results there go, raise the quota "
            "(scratch_quota=, FLAGSTONE_SCRATCH_QUOTA) or name out=.",
            errno.EDQUOT,
            str(self.directory),
        )


def _give_up(process: int, place: str, descriptor: int) -> None:
    os.close(descriptor)
    if os.getpid() == process:  # a forked child's copy gives nothing up
        with contextlib.suppress(OSError):
            os.unlink(place)


def promise(
    who: str, directory: Path, quota: int | None, nbytes: int, entry: Path | None = None
) -> Reservation:
    """Return a promise of bytes in scratch; StorageError (EDQUOT) where the quota does not hold them."""
    made = Reservation(who, directory, quota)
    made.take(nbytes, entry)
    return made


# What is written by code that knows of no quota ------------------------------------------------------------

_active: contextvars.ContextVar[Reservation | None] = contextvars.ContextVar("promise", default=None)


@contextlib.contextmanager
def counting(who: str, directory: Path, quota: int | None, entry: Path) -> Iterator[None]:
    """Count, in the body, what is written to an entry of scratch whose length is not known yet."""
    made = promise(who, directory, quota, 0, entry)
    token = _active.set(made)
    try:
        yield
    finally:
        _active.reset(token)
        made.release()


def needs(path: str, nbytes: int) -> None:
    """Tell the length of what is about to be written; refuse it where it is an entry that is counted."""
    made = _active.get()
    if made is not None and os.path.abspath(path) == str(made.path):
        made.take(nbytes)


def wrote(nbytes: int) -> None:
    """Tell of bytes that went to the entry that is counted, if there is one."""
    made = _active.get()
    if made is not None:
        made.wrote(nbytes)


def finished() -> None:
    """Tell that all of the entry that is counted, if there is one, was written; it has not appeared yet."""
    made = _active.get()
    if made is not None:
        made.look()


def grows(nbytes: int) -> None:
    """Tell that the entry that is counted, if there is one, is about to take so many bytes more."""
    made = _active.get()
    if made is not None:
        made.grow(nbytes)
