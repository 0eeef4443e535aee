"""How operands are opened again: by a name that stands in pickles and records, never by a module's path."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, TypeVar

from .. import _core
from .._errors.classes import Error, FormatError
from .._errors.messages import storage_error
from .identity import stored_stamp

__all__ = ["OPENERS", "UnknownOpener", "check_unchanged", "opener", "operand"]

Opener = TypeVar("Opener", bound=Callable[..., Any])

#: Name: the function that opens, registered where it stands.
OPENERS: dict[str, Callable[..., Any]] = {}


def opener(name: str) -> Callable[[Opener], Opener]:
    """Register a function that opens what it opened before, given the same arguments (JSON)."""

    def register(function: Opener) -> Opener:
        OPENERS[name] = function
        return function

    return register


class UnknownOpener(LookupError):
    """An operand of a record is opened by a name that nobody registered."""

    def __init__(self, operand: str, opener: str) -> None:
        self.operand, self.opener = operand, opener


def operand(name: str, told: dict[str, Any]) -> Any:
    """Open an operand of a record, or say what became of it."""
    if "memory" in told or "steps" in told:
        what = "was an array in memory" if "memory" in told else "was a view with pending steps"
        raise Error(f"resume: {name} {what}; make the same call again, with the same {name} and out=.")
    path = told["path"]
    known, arguments = told.get("opener") or ("csr" if _core.is_csr_group(path) else "path", [path])
    if known not in OPENERS:
        raise UnknownOpener(name, known)
    place = path
    while not os.path.exists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    if place != path and not os.path.isfile(place):
        raise storage_error(
            f"resume: {name} '{path}' went away since; it cannot be gone on.", errno.ENOENT, path
        )
    check_unchanged(name, told)
    opened = OPENERS[known](*arguments)
    if told.get("transposed"):
        opened = opened.T
    return opened.conj() if told.get("conjugated") else opened


def check_unchanged(name: str, told: dict[str, Any]) -> None:
    """Refuse a file that is another one than the record's."""
    if stored_stamp(told["path"]) != told["stamp"]:
        raise FormatError(
            f"resume: {name} '{told['path']}' was changed since; what was computed is of its old version. "
            "Start the call again."
        )
