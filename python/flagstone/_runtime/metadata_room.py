"""Room for the metadata of Zarr stores: long ones are charged to the limit before they are parsed."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .. import _core
from .._errors.classes import Error
from .call import Call

__all__ = ["ALL_LEVELS", "metadata_room"]

ALL_LEVELS = 64

_FILES = ("zarr.json", ".zarray", ".zgroup", ".zattrs")  # .zmetadata is never read
_SHORT = 256 << 10  # bytes of a file that takes next to nothing
_MOST = 256 << 20  # longer ones are refused unread
_COPIES = 8  # of its text, at most, that are held together: read, parsed, written again (by pack), compared
_VALUE = 80  # bytes of a parsed value beside its text: a node of the tree, places kept for the next ones
_PIECE = 1 << 20


def metadata_room(who: str, place: str, memory: int | str | None = None, levels: int = 0) -> None:
    """Refuse a limit without room for the metadata of a directory, and of so many levels of members below.

    Costs a look at each file; one longer than 256 KiB is read once, in pieces.
    """
    most, longest = 0, ""
    for file in _files(place, levels):
        if (nbytes := _parsed_bytes(file)) > most:
            most, longest = nbytes, file
    if most:
        size = _core.format_bytes(os.path.getsize(longest))
        Call(who, memory, light=True).room(f"the metadata in '{longest}', {size} of text", most)


def _files(folder: str, levels: int) -> Iterator[str]:
    long = [file for name in _FILES if _SHORT < _size(file := f"{folder}/{name}") <= _MOST]
    yield from long
    try:
        if levels == 0 or (not long and _core.is_zarr_array(folder)):  # whose members are chunks
            return
        with os.scandir(folder) as entries:
            members = [
                entry.path
                for entry in entries
                if not entry.name.startswith("__") and entry.is_dir(follow_symlinks=levels == 1)
            ]
    except (Error, OSError):
        return  # who reads it says what is wrong
    for member in members:
        yield from _files(member, levels - 1)


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _parsed_bytes(file: str) -> int:
    """Return what parsing a file takes: by its length, and by the commas and brackets in it."""
    length = values = 0
    with open(file, "rb") as text:
        while piece := text.read(_PIECE):
            length += len(piece)
            values += sum(piece.count(mark) for mark in (b",", b"[", b"{"))
    return _COPIES * length + _VALUE * values
