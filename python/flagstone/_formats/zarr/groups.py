"""Zarr directories: arrays, groups with members, CSR and CSC matrices, AnnData."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import _core
from ..._array.array import Array, open_array, shape_text
from ..._array.handle import opened_by
from ..._errors.classes import Error, FormatError
from ..._errors.messages import storage_error
from ..._errors.regular import open_regular
from ..._expression.cf import ATTRIBUTES, note_packing
from ..._expression.times import note_times, times_of
from ..._lazy.structure import note_triangle
from ..._resume.registers import opener
from ..._runtime.metadata_room import metadata_room
from ..._sparse.array import SparseArray, matrix_of

__all__ = ["about", "attributes", "compressed", "holds_times", "listing", "open_directory"]

_DIMENSIONS = "_ARRAY_DIMENSIONS"  # xarray's names of dimensions in Zarr v2
_MOST_TEXT = 64 << 20  # bytes of metadata that are looked through for attributes
_REPLACED = 20  #: times that a directory may be replaced while it is opened


def attributes(place: str) -> dict[str, Any]:
    """Return the attributes of a group; {} where there is none that can be read."""
    try:
        found = json.loads(_core.open_group(place)[0])
    except (FormatError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def binsparse_of(about: Any) -> dict[str, Any]:
    """Return the binsparse descriptor among attributes, however deep its writer put it; {} where none is."""
    inner = about.get("binsparse") if isinstance(about, dict) else None
    while isinstance(inner, dict) and isinstance(inner.get("binsparse"), dict):
        inner = inner["binsparse"]
    return inner if isinstance(inner, dict) else {}


def _is_csc(about: dict[str, Any]) -> bool:
    return about.get("encoding-type") == "csc_matrix" or binsparse_of(about).get("format") == "CSC"


def compressed(place: str) -> Iterator[str]:
    """Yield the groups at or below a directory that are CSR or CSC matrices."""
    if _core.is_csr_group(place) or (_core.is_zarr_group(place) and _is_csc(attributes(place))):
        yield place
    elif _core.is_zarr_group(place) and not _core.is_zarr_array(place):
        for name in _core.open_group(place)[2]:
            yield from compressed(f"{place}/{name}")


#: AnnData's names of the parts of a compressed matrix, and binsparse's.
PARTS = {"data": "values", "indices": "indices_1", "indptr": "pointers_to_1"}


@opener("csc")
def _stored_csc(place: str) -> SparseArray:
    """Open a CSC matrix as what is stored: the CSR matrix of its transpose."""
    about = attributes(place)
    shape = about.get("shape", binsparse_of(about).get("shape"))
    if (
        not isinstance(shape, list)
        or len(shape) != 2
        or not all(isinstance(n, int) and n >= 0 for n in shape)
    ):
        raise FormatError(
            f"open: '{place}': the attribute 'shape' must be two extents; the group is damaged."
        )
    names = [name if os.path.isdir(f"{place}/{name}") else other for name, other in PARTS.items()]
    parts = [_core.open_zarr(f"{place}/{name}") for name in names]
    matrix = SparseArray(_core.csr_of(shape[1], shape[0], parts[0], parts[1], parts[2], place))
    return opened_by("csc", os.path.abspath(place), handle=matrix)


def open_directory(place: str, key: str | None, mode: str) -> Array | SparseArray:
    """Open an array, a sparse matrix or a member of a group; of AnnData's, X where no key is given.

    Where another takes its place meanwhile (results appear by a rename), that one is opened.
    """
    for _ in range(_REPLACED):
        before = _identity(place)
        try:
            return _open(place, key, mode)
        except (Error, OSError):
            if _identity(place) == before:
                raise
    return _open(place, key, mode)


def _identity(place: str) -> tuple[int, int] | None:
    try:
        status = os.stat(place)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _open(place: str, key: str | None, mode: str) -> Array | SparseArray:
    if key is not None:
        inner = os.path.normpath(os.path.join(place, key))
        if not inner.startswith(os.path.normpath(place) + os.sep) or not os.path.isdir(inner):
            raise storage_error(
                f"open: '{place}' has no member {key!r}{_members(place)}.", errno.ENOENT, inner
            )
        return _open(inner, None, mode)
    metadata_room("open", place)
    if _core.is_zarr_array(place):
        return _array(place, mode)
    metadata_room("open", place, levels=1)
    if _core.is_csr_group(place):
        return SparseArray(_core.open_csr(place))
    if not _core.is_zarr_group(place):
        if os.path.exists(f"{place}/zarr.json"):
            return open_array(place, mode)  # says what is wrong with it
        raise FormatError(
            f"open: '{place}' is a directory without zarr.json (or .zarray, .zgroup), so it is no Zarr array "
            "or group."
        )
    told = attributes(place)
    if _is_csc(told):
        return _stored_csc(place).T
    if told.get("encoding-type") == "anndata":
        if os.path.isdir(f"{place}/X"):
            return _open(f"{place}/X", None, mode)
        raise FormatError(
            f"open: '{place}' has no X; it is an AnnData group{_members(place)}; name one with key=."
        )
    for name in damaged(place):
        open_array(f"{place}/{name}", mode)  # says what is wrong with it
    _, arrays, groups = _core.open_group(place)
    if len(arrays) == 1 and not groups:
        return _array(f"{place}/{arrays[0]}", mode)
    if len(groups) == 1 and not arrays:
        return _open(f"{place}/{groups[0]}", None, mode)
    raise FormatError(f"open: '{place}' is a group{_members(place)}; name one with key=.")


def _array(place: str, mode: str) -> Array:
    opened = open_array(place, mode)  # first: it says what is wrong with the metadata
    attributes = _special_attributes(place)
    note_packing(opened, attributes)
    note_triangle(opened, attributes.get("flagstone"))
    if opened.dtype != np.int64 or (times := _times(place)) is None:
        return opened
    if mode != "r":
        raise storage_error(
            f"open: '{place}' holds {times}, which is read and not written here; use mode='r'.",
            errno.EROFS, place,
        )  # fmt: skip
    return note_times(opened, times)


def holds_times(place: str) -> bool:
    """Say whether a Zarr array counts dates or durations, as NumPy's dtypes of them do."""
    return _times(place) is not None


def _times(place: str) -> np.dtype[Any] | None:
    """Return NumPy's dtype of dates or durations, where the metadata of an array of int64 name one."""
    version = 3 if os.path.isfile(f"{place}/zarr.json") else 2
    try:
        with open_regular("open", f"{place}/zarr.json" if version == 3 else f"{place}/.zarray") as file:
            text = file.read(_MOST_TEXT + 1)
        if len(text) > _MOST_TEXT or (b"data_type" in text and b"numpy." not in text):
            return None  # the usual case costs no parsing
        root = json.loads(text)
        if version == 2:
            found = np.dtype(root["dtype"])
        elif isinstance(root["data_type"], dict):
            about = root["data_type"]["configuration"]
            kind = "M" if root["data_type"]["name"] == "numpy.datetime64" else "m"
            unit = "" if about["unit"] == "generic" else f"[{about.get('scale_factor', 1)}{about['unit']}]"
            found = np.dtype(f"{kind}8{unit}")
        else:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found.newbyteorder("=") if found.kind in "mM" else None


def _special_attributes(place: str) -> dict[str, Any]:
    """Return the attributes of an array, where some may be among them that say how it is to be seen."""
    version = 3 if os.path.isfile(f"{place}/zarr.json") else 2
    names = (*ATTRIBUTES, _DIMENSIONS, "triangle")
    try:
        with open_regular("open", f"{place}/zarr.json" if version == 3 else f"{place}/.zattrs") as file:
            text = file.read(_MOST_TEXT + 1)
        if len(text) > _MOST_TEXT or not any(name.encode() in text for name in names):
            return {}  # the usual case costs no parsing
        root = json.loads(text)
        attributes = root.get("attributes", {}) if version == 3 else root
        if version == 2 and _DIMENSIONS in attributes:  # xarray's: the fill value is what is missing
            with open_regular("open", f"{place}/.zarray") as file:
                attributes["_FillValue"] = json.loads(file.read()).get("fill_value")
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
    return attributes if isinstance(attributes, dict) else {}


def damaged(place: str) -> list[str]:
    """Return the members of a group whose metadata cannot be read, or are gone while chunks are there."""
    found = []
    for name in sorted(os.listdir(place)):
        inner = f"{place}/{name}"
        if name.startswith((".", "__")) or not os.path.isdir(inner):
            continue
        if not _core.is_zarr_array(inner) and not _core.is_zarr_group(inner) and _was_member(inner):
            found.append(name)
    return found


def _was_member(inner: str) -> bool:
    names = set(os.listdir(inner))
    return bool(names & {"zarr.json", ".zarray", ".zgroup", "c", "__flagstone"})


def _members(place: str) -> str:
    try:
        _, arrays, groups = _core.open_group(place)
    except (FormatError, OSError):
        return ""
    names = [*arrays, *(f"{name}/" for name in groups)]
    return f" that holds {', '.join(names) if names else 'nothing'}"


# What people want to know -----------------------------------------------------------------------------------


def listing(place: str) -> dict[str, Any]:
    """Return the members of a group that holds several and has none that opens by itself, else {}."""
    if _core.is_zarr_array(place) or _core.is_csr_group(place) or not _core.is_zarr_group(place):
        return {}
    about = attributes(place)
    if _is_csc(about) or os.path.isdir(f"{place}/X"):
        return {}
    _, arrays, groups = _core.open_group(place)
    if len(arrays) + len(groups) < 2:
        return {}
    made = about.get("flagstone")
    facts: dict[str, Any] = {"kind": "group"}
    if isinstance(made, dict) and "routine" in made:
        facts["kind"] = f"result of {made['routine']}"
        if told := ", ".join(f"{name} {value}" for name, value in made.items() if name != "routine"):
            facts["made_with"] = told
    members = []
    for name in arrays:
        try:
            one = _core.open_zarr(f"{place}/{name}")
            members.append(f"{name}: {shape_text(tuple(one.shape))} {one.dtype}")
        except Error as error:
            members.append(f"{name}: {error}")
    return facts | {"members": members + [f"{name}/" for name in groups]}


def about(opened: Array | SparseArray) -> dict[str, Any]:
    """Return version, codecs and shards of a Zarr array, or of the parts of a sparse matrix."""
    if isinstance(opened, SparseArray):
        matrix = matrix_of(opened, half=True)
        parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        facts = {name: _codecs(part.path) for name, part in parts.items()}
        return {
            name: f"{parts[name].dtype}, {', '.join(map(str, f.values()))}" for name, f in facts.items() if f
        }
    facts, times = _codecs(opened.path or ""), times_of(opened)
    return facts if times is None else {"holds": str(times.dtype), **facts}


def _codecs(place: str) -> dict[str, Any]:
    try:
        if os.path.exists(f"{place}/zarr.json"):
            with open_regular("info", f"{place}/zarr.json") as file:
                facts = _v3(json.load(file))
        else:
            with open_regular("info", f"{place}/.zarray") as file:
                facts = _v2(json.load(file))
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if "shards" not in facts:  # of another program
        facts["changed"] = "chunk by chunk: each is replaced whole, an assignment to several is not"
    return facts


def _v3(root: dict[str, Any]) -> dict[str, Any]:
    codecs = root["codecs"]
    facts: dict[str, Any] = {"format": "Zarr v3"}
    names, levels, chunk = [], [], root["chunk_grid"]["configuration"]["chunk_shape"]
    while codecs and codecs[-1]["name"] == "sharding_indexed":
        levels.append(chunk)
        names += [codec["name"] for codec in codecs[:-1]]
        chunk, codecs = (codecs[-1]["configuration"][name] for name in ("chunk_shape", "codecs"))
    if levels:
        facts["shards"] = levels[0] if len(levels) == 1 else levels  # outermost first, as they are stored
    for codec in codecs:
        settings = codec.get("configuration", {})
        detail = settings.get("cname") or ("big-endian" if settings.get("endian") == "big" else "")
        names.append(codec["name"] + (f" ({detail})" if detail else ""))
    facts["codecs"] = " + ".join(names)
    chosen = root.get("attributes", {}).get("flagstone", {})
    if isinstance(chosen, dict) and isinstance(chosen.get("codec"), str):
        facts["codec_chosen"] = chosen["codec"]
    return facts


def _v2(root: dict[str, Any]) -> dict[str, Any]:
    names = [one["id"] for one in root.get("filters") or []]
    compressor = root.get("compressor")
    if compressor:
        names.append(compressor["id"] + (f" ({compressor['cname']})" if "cname" in compressor else ""))
    return {"format": "Zarr v2", "order": root.get("order", "C"), "codecs": " + ".join(names) or "none"}
