"""Room for the metadata of Zarr stores: long ones are charged to the limit before they are parsed."""

from __future__ import annotations

from .. import _core
from .call import Call

__all__ = ["ALL_LEVELS", "metadata_room"]

ALL_LEVELS = 64


def metadata_room(who: str, place: str, memory: int | str | None = None, levels: int = 0) -> None:
    """Refuse a limit without room for the metadata of a directory, and of so many levels of members below.

    Costs a look at each file; one longer than 256 KiB is read once, in pieces.
    """
    file, text, parsed = _core.longest_metadata(place, levels)
    if parsed:
        what = f"the metadata in '{file}', {_core.format_bytes(text)} of text"
        Call(who, memory, light=True).room(what, parsed)
