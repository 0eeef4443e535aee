"""What killed calls left of their outputs: found, described, listed; the core's words."""

from __future__ import annotations

from pathlib import Path

from .. import _core

__all__ = ["MEMBER", "Leftover", "LeftoverWarning", "leftovers", "registered"]


#: Name of the only array of a group: xarray opens arrays in groups only.
MEMBER = "array"

#: An output that was not finished, and what is known of it.
Leftover = _core.Leftover


class LeftoverWarning(UserWarning):
    """What a killed call had finished is thrown away."""

    __module__ = "flagstone"


def leftovers(path: str) -> list[Leftover]:
    """List what was begun and not finished of the output `path`."""
    return _core.leftovers_of(path)


def registered(scratch: Path) -> list[Leftover]:
    """List what is being built, or was left, of outputs that scratch knows of; forget those that are done."""
    return _core.registered_outputs(str(scratch))
