"""What the environment says (``FLAGSTONE_*``), read in one place and refused where it makes no sense."""

from __future__ import annotations

import math
import os

from .. import _core
from .._errors.classes import Error

__all__ = [
    "check",
    "checkpoint_seconds",
    "compiles",
    "devices",
    "memory",
    "progress",
    "scratch_quota",
    "traceback",
    "workers",
]

_MOST_WORKERS = 4096


def _said(name: str) -> str | None:
    """Return the text of a variable; one that is empty is not set."""
    return os.environ.get(f"FLAGSTONE_{name}") or None


def _refused(name: str, needed: str) -> ValueError:
    return ValueError(f"FLAGSTONE_{name}: {_said(name)!r} is no {needed}.")


def _bytes(name: str, least: int) -> int | None:
    given = _said(name)
    if given is None:
        return None
    try:
        size = int(_core.parse_bytes(given))
    except Error:
        size = -1
    if not least <= size < 1 << 62:
        raise _refused(name, 'size; give bytes or text such as "512MiB" or "4GiB"')
    return size


def memory() -> int | None:
    """Return the limit in bytes of $FLAGSTONE_MEMORY."""
    return _bytes("MEMORY", 1)


def scratch_quota() -> int | None:
    """Return the bytes of $FLAGSTONE_SCRATCH_QUOTA."""
    return _bytes("SCRATCH_QUOTA", 0)


def workers() -> int | None:
    """Return how many tasks $FLAGSTONE_WORKERS lets run at once."""
    given = _said("WORKERS")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= _MOST_WORKERS:
        needed = f"number of workers; give 1 to {_MOST_WORKERS}, or leave it unset"
        raise _refused("WORKERS", needed)
    return int(given)


def checkpoint_seconds() -> float | None:
    """Return the least seconds between checkpoints of $FLAGSTONE_CHECKPOINT_SECONDS; 0: always."""
    given = _said("CHECKPOINT_SECONDS")
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        needed = "number of seconds; give 0 (at every opportunity) or more, or leave it unset"
        raise _refused("CHECKPOINT_SECONDS", needed)
    return seconds


def progress() -> bool | None:
    """Return whether $FLAGSTONE_PROGRESS asks for bars; None where it is not set."""
    given = _said("PROGRESS")
    if given is None:
        return None
    if given not in ("0", "1"):
        raise _refused("PROGRESS", "answer; give 1 (show bars) or 0 (never), or leave it unset")
    return given == "1"


def compiles() -> bool | None:
    """Return whether $FLAGSTONE_COMPILE asks for compiled kernels; None where it is not set."""
    given = _said("COMPILE")
    if given is None:
        return None
    if given not in ("0", "1"):
        raise _refused("COMPILE", "answer; give 1 (always) or 0 (never), or leave it unset")
    return given == "1"


def devices() -> str | None:
    """Return what $FLAGSTONE_DEVICES names: "auto", or devices with commas; read by those who open them."""
    return _said("DEVICES")


def traceback() -> bool:
    """Say whether $FLAGSTONE_TRACEBACK asks the command line for whole tracebacks."""
    return _said("TRACEBACK") is not None


def check() -> None:
    """Refuse what makes no sense, before any work starts."""
    for read in (memory, scratch_quota, workers, checkpoint_seconds, progress, compiles):
        read()
