"""Names of columns, as tables have them: among the attributes of a Zarr array; `Array.columns` tells them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._array.array import Array
from .._array.handle import derived, is_transposed, owner_of
from .._errors.classes import Error
from .._errors.messages import warn_once
from .._errors.regular import open_regular
from .attributes import with_ours

__all__ = [
    "Columns",
    "about_left_out",
    "columns_of",
    "note_columns",
    "stored_columns",
    "warn_left_out",
    "with_columns",
]

_OURS, _COLUMNS, _LEFT_OUT = "flagstone", "columns", "left_out"  # among the attributes
_MOST_TEXT = 64 << 20  # bytes of metadata that are looked through

Columns = Sequence[str | None]


def with_columns(attributes: str, columns: Columns | None) -> str:
    """Return attributes (JSON text, "" for none) with the names of columns among them."""
    if columns is None:
        return attributes
    return with_ours(attributes, {_COLUMNS: list(columns)})


def note_columns(array: Array, columns: Columns | None) -> Array:
    """Keep beside a handle what its columns are called, where that does not stand in its own metadata."""
    derived(array)[_COLUMNS] = None if columns is None else list(columns)
    return array


def columns_of(array: Array) -> list[str | None] | None:
    """Return the names of the columns of a matrix, one for each; None where there are none."""
    if array.ndim != 2 or is_transposed(array):
        return None
    kept = derived(array)
    if _COLUMNS not in kept:
        kept[_COLUMNS] = stored_columns(owner_of(array).path or "")
    names: list[str | None] | None = kept[_COLUMNS]
    return list(names) if names is not None and len(names) == array.shape[1] else None


def stored_columns(place: str) -> list[str | None] | None:
    """Return the names that the metadata of an array hold; None where they hold none."""
    try:
        with open_regular("columns", f"{place}/zarr.json") as file:
            text = file.read(_MOST_TEXT)
        if b'"columns"' not in text:  # the usual case costs no parsing
            return None
        names = json.loads(text)["attributes"][_OURS][_COLUMNS]
    except (OSError, Error, ValueError, KeyError, TypeError):
        return None
    known = isinstance(names, list) and all(name is None or isinstance(name, str) for name in names)
    return names if known else None


# What a table had beside numbers ----------------------------------------------------------------------------


def about_left_out(names: Sequence[str]) -> str:
    """Return the attributes of the group around an import, which tell what was left out."""
    return json.dumps({_OURS: {_LEFT_OUT: list(names)}}) if names else "{}"


def warn_left_out(place: str, imported: Array) -> None:
    """Warn, of an import, of the columns that hold no numbers and were left out."""
    try:
        made: Any = json.loads(_core.open_group(os.path.dirname(imported.path or ""))[0]).get(_OURS)
    except (Error, OSError, ValueError, AttributeError):
        return
    others = made.get(_LEFT_OUT) if isinstance(made, dict) else None
    if not others:
        return
    named = ", ".join(others[:12]) + (f" and {len(others) - 12} more" if len(others) > 12 else "")
    warn_once(
        f"open: '{os.path.abspath(place)}' has columns that hold no numbers and are left out: {named}; "
        "name the columns that you want with key='a,b' for no warning."
    )
