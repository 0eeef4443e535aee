"""Attributes and names of dimensions of stored arrays, changed: one small file is replaced."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from .. import _core
from .._array.array import Array
from .._array.handle import Operand, is_transposed, owner_of, writing
from .._array.transactions import open_transactions
from .._errors.classes import Error, FormatError
from .._errors.messages import storage_error
from .._output.attributes import OURS, described, encoded, note_attributes
from .._output.destination import check_dims
from .._runtime.metadata_room import metadata_room
from .resize import forget_consolidated

__all__ = ["Attributes", "describe"]


class Attributes(MutableMapping[str, Any]):
    """The attributes of an Array; what is assigned stands in its metadata at once."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def _shown(self) -> dict[str, Any]:
        return {name: value for name, value in described(self._array)[0].items() if name != OURS}

    def __getitem__(self, name: str) -> Any:
        return self._shown()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        describe(self._array, self._shown() | {name: value})

    def __delitem__(self, name: str) -> None:
        left = self._shown()
        del left[name]
        describe(self._array, left)

    def update(self, *given: Any, **more: Any) -> None:
        """Take several at once: the metadata are replaced once."""
        describe(self._array, self._shown() | dict(*given, **more))

    def clear(self) -> None:
        """Take all away, at once."""
        describe(self._array, {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._shown())

    def __len__(self) -> int:
        return len(self._shown())

    def __repr__(self) -> str:
        return repr(self._shown())


def describe(
    array: Array, attributes: Mapping[str, Any] | None, dims: Sequence[str | None] | None = None
) -> None:
    """Give an array other attributes, or other names of dimensions (none at all: an empty sequence)."""
    who, owner = "attrs" if dims is None else "dims", owner_of(array)
    old, names = described(array)
    kept = {OURS: old[OURS]} if OURS in old else {}
    told = old if attributes is None else kept | json.loads(encoded(who, attributes))
    if dims is not None:
        chosen: list[str | None] = [] if isinstance(dims, str) else list(dims)
        if isinstance(dims, str) or chosen:
            check_dims(who, dims if isinstance(dims, str) else _named(chosen), array.shape, owner.path or "")
        names = chosen[::-1] if is_transposed(array) else chosen
    path = owner.path
    if path is None:
        note_attributes(owner, lambda: (told, names or None))
        return
    if not os.path.isdir(path) or Operand.of(owner).core.in_place:
        what = "a state of a ring of epochs" if os.path.isdir(path) else "no Zarr array"
        raise FormatError(f"{who}: '{path}' is {what}, and its {who} are not written; convert it to Zarr.")
    if array.mode != "r+":
        raise storage_error(
            f"{who}: '{path}' is open for reading; open it with mode='r+'.", errno.EACCES, path
        )
    if any(one.covers(path) for one in open_transactions):
        raise Error(f"{who}: '{path}' belongs to an open transaction; change its {who} before or after.")
    metadata_room(who, path)
    with writing(owner):
        array.flush()
        forget_consolidated(path)
        _core.set_attributes(path, json.dumps(told), [name or "" for name in names or []])


def _named(dims: Sequence[str | None]) -> list[str]:
    """Return names of which each is one, so that those without are no reason for a refusal."""
    return [f"\0{d}" if name is None else name for d, name in enumerate(dims)]
