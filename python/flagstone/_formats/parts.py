"""Several files as one array: their rows one after the other, where they lie."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Callable, Sequence
from typing import Any

from .._array.array import Array, shape_text
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text, storage_error
from .._expression.expression import Expression
from .._lazy.join import concat

__all__ = ["open_parts", "parts_of"]


def parts_of(path: Any) -> list[str] | None:
    """Return the files of a list of paths, or of a pattern, sorted; None where it is one path."""
    if isinstance(path, (list, tuple)):
        if not path:
            raise ValueError("open: the list of parts is empty; name one file or more.")
        return [path_text("open", one) for one in path]
    if not isinstance(path, (str, os.PathLike)):
        return None
    place = os.fspath(path)
    if not isinstance(place, str) or not glob.has_magic(place) or os.path.exists(place):
        return None
    found = sorted(glob.glob(place))
    if not found:
        raise storage_error(
            f"open: '{place}' matches nothing; give a pattern of files that exist.", errno.ENOENT, place
        )
    return found


def open_parts(places: Sequence[str], mode: str, open_one: Callable[[str], Any]) -> Array:
    """Return one Array over the rows of several files; nothing is copied."""
    if mode != "r":
        raise storage_error(
            "open: several parts are one array for reading; open the part that is to change alone, with "
            "mode='r+'.",
            errno.EROFS, places[0],
        )  # fmt: skip
    parts = [_dense(place, open_one(place)) for place in places]
    first = parts[0]
    for place, part in zip(places, parts, strict=True):
        if part.shape[1:] != first.shape[1:]:
            raise ShapeError(
                f"open: '{places[0]}' is {shape_text(first.shape)} and '{place}' is {shape_text(part.shape)}"
                "; parts must agree in all dimensions but the first."
            )
        if part.dtype != first.dtype:
            raise FormatError(
                f"open: '{places[0]}' is {first.dtype.name} and '{place}' is {part.dtype.name}; parts must "
                "have one dtype (fl.concat converts them as it reads)."
            )
    return concat(parts)


def _dense(place: str, opened: Any) -> Array | Expression:
    if not isinstance(opened, (Array, Expression)):
        raise FormatError(
            f"open: '{place}' is no dense array, and parts are joined where they are dense; open it alone."
        )
    if not opened.shape:
        raise ShapeError(f"open: '{place}' has no dimensions; parts are joined along their first.")
    return opened
