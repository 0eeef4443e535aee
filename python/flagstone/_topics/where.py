"""Where operands of steps lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._runtime.arguments import one_of

__all__ = ["places_of", "told_place"]

_OPERANDS = ("thresholded", "basis", "projection", "centers", "buckets")
_PLACES = ("memory", "disk", "auto")


def places_of(where: Any) -> dict[str, str]:
    """Return the place of each operand; None: all "auto"."""
    if where is None:
        where = {}
    if not isinstance(where, Mapping):
        raise TypeError(f"topics: where is {shown(where)}; a dict of operands and their places is needed.")
    for name in where:
        if name not in _OPERANDS:
            raise ShapeError(
                f"topics: where names {shown(name)}; operands that have a place are "
                f"{', '.join(map(repr, _OPERANDS[:-1]))} and {_OPERANDS[-1]!r}."
            )
    return {
        name: one_of("topics", f"where[{name!r}]", where.get(name, "auto"), *_PLACES) for name in _OPERANDS
    }


def told_place(operand: str, place: str, size: int, how: str) -> str:
    """Return what a plan says of one."""
    lies = {"memory": "in memory", "disk": "in scratch"}
    if place not in lies:
        return f"{operand} seen through X"
    return f"{operand} {_core.format_bytes(size)} {lies[place]}{f' ({how})' if how else ''}"
