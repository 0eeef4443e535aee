"""Calls that can be made again from their record; each routine registers its own, beside itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._errors.classes import FormatError
from .identity import stored_stamp
from .openers import OPENERS

__all__ = ["CALLS", "Again", "old_output", "resumable", "written"]

#: Routine, operands, options.
Again = tuple[Any, tuple[Any, ...], dict[str, Any]]

#: Operation: what makes of an output's path and the arguments of its record the call that they stand for.
CALLS: dict[str, Callable[[str, dict[str, Any]], Again]] = {}


def resumable(
    operation: str,
) -> Callable[[Callable[[str, dict[str, Any]], Again]], Callable[[str, dict[str, Any]], Again]]:
    """Register, under the name that its records have, how a call is made again."""

    def register(again: Callable[[str, dict[str, Any]], Again]) -> Callable[[str, dict[str, Any]], Again]:
        CALLS[operation] = again
        return again

    return register


def old_output(path: str, told: dict[str, Any]) -> Any:
    """Return what `out` was: the path, or the array there, which must be as it was."""
    if "old" in told and stored_stamp(path) != told["old"]:
        raise FormatError(f"resume: '{path}', which is replaced, was changed since; start the call again.")
    return OPENERS["path"](path, mode="r+") if told["into"] else path


def written(path: str, told: dict[str, Any]) -> dict[str, Any]:
    """Return the options that say how the output is written."""
    return {"out": old_output(path, told)} | {name: told[name] for name in ("checksum", "codec", "order")}
