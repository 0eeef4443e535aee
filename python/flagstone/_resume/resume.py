"""Going on with what a killed process left: the call is made again from its record."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

from .. import _core
from .._errors.classes import Error, FormatError
from .._errors.messages import path_text, storage_error
from .._runtime.runtime import current
from .leftovers import MEMBER, Leftover, leftovers
from .openers import UnknownOpener
from .record import expecting
from .registers import CALLS

__all__ = ["resume"]


def find(path: str | os.PathLike[str]) -> Leftover:
    """Return what can be gone on with, or say why there is nothing."""
    place = path_text("resume", path)
    found: list[Leftover] = []
    for one in (place, f"{place}/{MEMBER}"):  # an existing array that was the out= lies in its group
        found += leftovers(one)
    live = [one for one in found if one.live]
    if live:
        who = f"process {live[0].process}" if live[0].process else "another process"
        raise storage_error(f"resume: '{place}' is being computed by {who}; wait for it.", errno.EBUSY, place)
    recorded = [one for one in found if one.record]
    if not recorded:
        why = "was left by an operation that starts again" if found else "has nothing to resume"
        raise storage_error(
            f"resume: '{place}' {why}; 'flagstone scratch' lists what can be resumed.",
            errno.ENOENT, place,
        )  # fmt: skip
    best = max(recorded, key=lambda one: (one.resumable, one.done))
    _core.Checkpoint(best.notes, 0)  # FormatError where it is damaged
    return best


def _beside(devices: object) -> str:
    return f"with devices ({devices})" if devices else "without devices"


def call_of(path: str | os.PathLike[str]) -> tuple[Leftover, Any, tuple[Any, ...], dict[str, Any]]:
    """Return the call that goes on with `path`: what was left, routine, operands, options."""
    left = find(path)
    try:
        about = json.loads(left.record)
        told, version, operation = about["arguments"], about["version"], about["operation"]
        kind, threads, language = about["format"], about["threads_per_task"], about.get("language")
    except (ValueError, KeyError, TypeError):
        raise FormatError(
            f"resume: the record of '{left.path}' ({left.notes}/record.json) is damaged; make the call again."
        ) from None
    if language:
        raise Error(
            f"resume: '{left.path}' is computed by a {language} program ({operation}); start that program "
            f"again: it goes on at {left.done:.0%}."
        )
    if kind != _core.record_format or version != _core.__version__ or operation not in CALLS:
        raise Error(
            f"resume: '{left.path}' was begun by version {version} and this is {_core.__version__}; go on "
            "with that version, or make the call again, which starts anew."
        )
    if threads != current().threads_per_task:
        raise Error(
            f"resume: '{left.path}' was begun with threads_per_task={threads}, which decides bits; go on "
            f"inside 'with fl.Runtime(threads_per_task={threads})'."
        )
    if about.get("devices", "") != (here := current().device_bits):
        raise Error(
            f"resume: '{left.path}' was begun {_beside(about.get('devices'))}, and this runtime is "
            f"{_beside(here)}: bits would differ; go on inside 'with fl.Runtime(devices=...)' of that kind."
        )
    try:
        return left, *CALLS[operation](left.path, told)
    except UnknownOpener as unknown:
        raise Error(
            f"resume: {unknown.operand} of '{left.path}' is opened by {unknown.opener!r}, which this "
            f"flagstone does not know; version {version} wrote the record: go on with the build that did, or "
            "make the call again, which starts anew."
        ) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"resume: the record of '{left.path}' ({left.notes}/record.json) is damaged ({error}); make the "
            "call again."
        ) from None


def resume(path: str | os.PathLike[str], *, memory: int | str | None = None) -> Any:
    """Go on with the call that was computing `path` when its process died; the same bits come out.

    Parameters
    ----------
    path : path
        The `out` of that call.
    memory : int or str, optional
        Most resident memory of the process during the call; it may be another one than before.

    Returns
    -------
    What that call returns.

    Raises
    ------
    StorageError
        There is nothing to resume, or another process is computing it.
    FormatError
        An operand was changed since (names it); the record is damaged.

    Notes
    -----
    The same call does the same (``fl.matmul(A, B, out=path)``), and is the way to go on where an operand was
    an array in memory. Costs what was not finished at the last checkpoint; `docs/guide/resume.md` says which
    routines keep which. ``stats().what`` ends with where it began.
    """
    left, routine, operands, options = call_of(path)
    with expecting(left.record):
        return routine(*operands, **options, memory=memory)
