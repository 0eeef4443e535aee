"""Promises of bytes in scratch, and who writes to an entry that is counted.

The core counts and promises, under one lock for all processes.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator
from pathlib import Path

from .. import _core

__all__ = ["Reservation", "counting", "finished", "grows", "held", "needs", "promise", "wrote"]

Reservation = _core.Reservation


def held(directory: Path) -> int:
    """Return the bytes that count against the quota of a scratch directory, promises included."""
    return _core.scratch_held(str(directory))


def promise(
    who: str, directory: Path, quota: int | None, nbytes: int, entry: Path | None = None
) -> Reservation:
    """Return a promise of bytes in scratch; StorageError (EDQUOT) where the quota does not hold them."""
    made = Reservation(who, str(directory), quota)
    made.take(nbytes, "" if entry is None else str(entry))
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
    if made is not None and os.path.abspath(path) == made.path:
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
