"""What `out=` may replace, looked at before any work starts: never what is no result."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array
from .._array.handle import opener_of, owner_of, values_of
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text, storage_error
from .._errors.regular import check_regular, open_regular

__all__ = ["check_apart", "check_overwrite", "check_path", "check_replaceable", "exists"]

# Whoever dies while it replaces metadata leaves the new ones beside the old; the next one removes them.
_METADATA = frozenset({"zarr.json", "zarr.json.part"})

# What lies beside the metadata of an array: its only chunk (Zarr v3), chunks named by dots (v2).
_CHUNK = re.compile(r"c|\d+(\.\d+)*")


def check_replaceable(who: str, out: Array) -> None:
    """Refuse an Array whose file is not ours to exchange: a flat file has offsets and readers of its own."""
    path, opened = out.path, opener_of(out)
    if path is not None and owner_of(out)._core.in_place:
        raise storage_error(
            f"{who}: out '{path}' is a slot of a ring of epochs, and a result is built aside and exchanged; "
            "assign it (ring.next[...] = result) or write it by tasks.",
            errno.EINVAL,
            path,
        )
    if path is None or (opened is None and (os.path.isdir(path) or path.endswith(".npy"))):
        return
    raise storage_error(
        f"{who}: out '{path}' is a file that is written in place, and a result is built aside and exchanged; "
        "give another out and assign it (out[...] = result).",
        errno.EINVAL,
        path,
    )


def check_path(who: str, path: str | os.PathLike[str]) -> None:
    """Refuse a path where something lies that is no array, no result and no empty directory."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{who}: out is {type(path).__name__}; a path is needed.")
    place = path_text(who, path)
    if not os.path.isdir(place):
        check_regular(who, place)
    if not exists(place):
        check_suffix(who, place)
        return
    if os.path.isdir(place):
        known = _core.is_zarr_array(place) or not os.listdir(place) or _is_result(place)
    else:
        known = place.endswith(".npy") and is_npy(place)
    if not known:
        raise storage_error(
            f"{who}: out '{place}' exists and is no single array and no earlier result, so it is not "
            "replaced; remove it or name another place.",
            errno.EEXIST,
            place,
        )


def exists(place: str) -> bool:
    """Say whether something has this path; what a dead process was removing there is removed first."""
    if os.path.isdir(place) and not (_core.is_zarr_array(place) or _core.is_zarr_group(place)):
        _core.sweep_leftovers(os.path.abspath(place))
    return os.path.lexists(place)


def check_suffix(who: str, place: str) -> None:
    """Refuse a name that asks for a file of another format: a directory of that name would surprise."""
    suffix = os.path.splitext(place.rstrip("/"))[1]
    if suffix not in (".zarr", ".npy") and (suffix[1:].isalpha() or suffix in (".h5", ".hdf5", ".h5ad")):
        raise FormatError(
            f"{who}: out '{place}' asks for a {suffix} file, which is not written here; end it in .zarr or "
            ".npy, or leave the ending out for a Zarr directory (fl.convert writes other formats)."
        )


def check_overwrite(who: str, path: str | os.PathLike[str], file: bool = False) -> None:
    """Refuse to replace, even where somebody says overwrite=True, a directory that is no array store.

    `file`: what is written is a single file, which may replace a file.
    """
    place = os.fspath(path)
    if not os.path.isdir(place):
        check_regular(who, place)
    if not exists(place):
        return
    if os.path.isdir(place):
        known = _core.is_zarr_array(place) or _core.is_zarr_group(place) or not os.listdir(place)
        other = foreign(place) if known else ""
        if known and not other and not file:
            return
        what = f"holds '{other}', which is no part of a Zarr store" if other else "is no Zarr array or group"
        what = "is a directory" if known and not other else what
    elif file or (os.path.isfile(place) and place.endswith(".npy") and is_npy(place)):
        return
    else:
        what = "is a file, and a Zarr directory would take its place"
    raise storage_error(
        f"{who}: '{place}' {what}, so it is not replaced; remove it or name another place.",
        errno.EEXIST,
        place,
    )


def foreign(place: str) -> str:
    """Return a file in a Zarr directory that no Zarr writer puts there, "" where there is none."""
    for folder, folders, names in os.walk(place):
        if os.path.exists(f"{folder}/zarr.json") or any(name.startswith(".z") for name in names):
            if _core.is_zarr_array(folder):
                folders.clear()  # chunks
                names = [name for name in names if not _CHUNK.fullmatch(name)]
            names = [name for name in names if name not in _METADATA and not name.startswith(".")]
        if names:
            return os.path.relpath(os.path.join(folder, names[0]), place)
    return ""


def _is_result(place: str) -> bool:
    """Say whether a directory is a group of one array, or of what a decomposition wrote, and nothing else."""
    if not _core.is_zarr_group(place):
        return False
    text, arrays, groups = _core.open_group(place)
    attributes = json.loads(text or "{}")
    ours = isinstance(attributes, dict) and "flagstone" in attributes
    others = {name for name in os.listdir(place) if not name.startswith(".")}
    return (ours or (len(arrays) <= 1 and not groups)) and others <= {*_METADATA, *arrays, *groups}


def is_npy(place: str) -> bool:
    with open_regular("out", place) as file:
        return file.read(6) in (b"\x93NUMPY", b"")


def check_apart(who: str, outs: Iterable[Any]) -> None:
    """Refuse results of one call that would lie on, or inside, each other: the last one would be both.

    Parts of one ndarray that have no element in common are places of their own.
    """
    paths: list[str] = []
    memory: list[NDArray[Any]] = []
    for out in outs:
        path = out.path if isinstance(out, Array) else out
        values = values_of(out) if isinstance(out, Array) else out
        if isinstance(path, (str, os.PathLike)):
            place = os.path.realpath(os.fspath(path))
            for other in paths:
                if os.path.commonpath([place, other]) in (place, other):
                    raise ShapeError(
                        f"{who}: two results would go to '{other}' and '{place}'; give each its own place."
                    )
            paths.append(place)
        elif isinstance(values, np.ndarray):
            if any(_shared(values, other) for other in memory):
                raise ShapeError(
                    f"{who}: two results would go to the same memory; give each an array of its own."
                )
            memory.append(values)


#: Candidates that are looked at; what is open then counts as shared. Any: the stubs of NumPy know 0 and -1.
_EFFORT: Any = 1 << 20


def _shared(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Say whether two arrays have an element in common, not only bounds: halves of columns have none."""
    try:
        return np.shares_memory(one, other, max_work=_EFFORT)
    except np.exceptions.TooHardError:
        return True
