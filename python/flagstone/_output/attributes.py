"""Attributes and names of dimensions, as xarray reads them: found in files, or noted beside a handle."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array
from .._array.handle import derived, is_transposed, owner_of
from .._errors.classes import FormatError
from .._errors.regular import open_regular

__all__ = [
    "DIMENSIONS", "OURS", "Described", "described", "dims_of", "encoded", "group_told", "note_attributes",
    "plain_attributes", "stored_attributes",
]  # fmt: skip

DIMENSIONS = "_ARRAY_DIMENSIONS"  #: among the attributes of Zarr v2: xarray's names of dimensions
OURS = "flagstone"  #: among the attributes: what we keep there, and do not show
_KEY = "attributes"  # of what is kept beside a handle
_MOST_TEXT = 64 << 20  # bytes of metadata

#: Attributes, and a name (or None) for every stored dimension; None where there are no names.
Described = tuple[dict[str, Any], list[str | None] | None]


def note_attributes(array: Array, read: Callable[[], Described]) -> Array:
    """Keep beside a handle who reads attributes and names of dimensions, at first need."""
    derived(array)[_KEY] = read
    return array


def described(array: Array) -> Described:
    """Return attributes and names of the stored dimensions: those noted, else those in the file."""
    kept = derived(array)
    if callable(found := kept.get(_KEY)):
        found = kept[_KEY] = found()
    if found is None and (path := owner_of(array).path):
        found = stored_attributes(path)  # read each time: another program may change it
    attributes, names = found if found is not None else ({}, None)
    return attributes, names if names is not None and len(names) == array.ndim else None


def dims_of(array: Array) -> tuple[str | None, ...] | None:
    """Return the names of the dimensions as a handle sees them; None where there are none."""
    names = described(array)[1]
    if names is None or not any(names):
        return None
    return tuple(reversed(names)) if is_transposed(array) else tuple(names)


def stored_attributes(path: str) -> Described:
    """Return what the metadata of a Zarr array say; nothing of a file that is none."""
    if not os.path.isdir(path):
        return {}, None
    if os.path.exists(f"{path}/zarr.json"):
        root = _json(f"{path}/zarr.json")
        return _mapping(root.get("attributes")), _names(root.get("dimension_names"))
    if not os.path.exists(f"{path}/.zattrs"):
        return {}, None
    attributes = _json(f"{path}/.zattrs")
    return attributes, _names(attributes.pop(DIMENSIONS, None))


def group_told(path: str) -> dict[str, Any]:
    """Return what we keep among the attributes of a Zarr group; nothing of what is none."""
    if not os.path.isdir(path) or not _core.is_zarr_group(path):
        return {}
    return _mapping(_mapping(json.loads(_core.open_group(path)[0] or "{}")).get(OURS))


def _json(file: str) -> dict[str, Any]:
    try:
        with open_regular("attrs", file) as stream:
            text = stream.read(_MOST_TEXT + 1)
    except IsADirectoryError:
        raise FormatError(f"attrs: '{file}' is a directory; restore the file from a copy.") from None
    if len(text) > _MOST_TEXT:
        raise FormatError(f"attrs: '{file}' is longer than 64 MiB; its attributes are not read.")
    try:
        return _mapping(json.loads(text))
    except ValueError:
        raise FormatError(f"attrs: '{file}' is no JSON; restore it from a copy.") from None


def _mapping(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _names(found: Any) -> list[str | None] | None:
    known = isinstance(found, list) and all(name is None or isinstance(name, str) for name in found)
    return found if known else None


def with_ours(attributes: str, told: Mapping[str, Any]) -> str:
    """Return attributes (JSON text, "" for none) with more of what we keep there."""
    if not told:
        return attributes
    found = json.loads(attributes or "{}")
    return json.dumps(found | {OURS: _mapping(found.get(OURS)) | dict(told)})


def plain_attributes(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a library gave as values that JSON can hold, without those that it cannot (references)."""
    told = {}
    for name, value in found.items():
        with contextlib.suppress(TypeError):
            told[name] = _own(value)
    return told


def _own(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        each = [_own(item) for item in value.ravel()]
        return each[0] if value.size == 1 else each
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(type(value).__name__)


def encoded(who: str, attributes: Mapping[str, Any] | None) -> str:
    """Return attributes as the text of a JSON object, NumPy's numbers and arrays as xarray writes them."""
    if attributes is None:
        return ""
    if not isinstance(attributes, Mapping) or not all(isinstance(name, str) for name in attributes):
        raise TypeError(f"{who}: attrs is {type(attributes).__name__}; a mapping from names is needed.")
    for name in (OURS, DIMENSIONS):
        if name in attributes:
            raise ValueError(f"{who}: the attribute {name!r} is kept by the library; choose another name.")
    for name, value in attributes.items():
        try:
            json.dumps(value, default=_plain, allow_nan=False)
        except (TypeError, ValueError) as failed:
            raise TypeError(
                f"{who}: the attribute {name!r} cannot be written as JSON ({failed}); give texts, finite "
                "numbers, lists or mappings."
            ) from None
    return json.dumps(dict(attributes), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"it is {type(value).__name__}")
