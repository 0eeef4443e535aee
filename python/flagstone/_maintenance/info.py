"""What `flagstone info` tells: what a file holds, how it is stored, what is wrong with it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array
from .._array.handle import is_transposed
from .._errors.classes import Error, FormatError
from .._errors.messages import storage_error
from .._expression.cf import packing_of
from .._formats import tenx
from .._formats.open import head_of, open_path
from .._formats.registry import of_file
from .._formats.table_folders import about_folder, is_table_folder
from .._formats.tables import part_of
from .._formats.zarr.groups import about as about_group
from .._formats.zarr.groups import listing
from .._lazy.structure import triangle_of
from .._runtime.call import Call
from .._runtime.metadata_room import metadata_room
from .._sparse.array import SparseArray
from .._storage.import_cache import imported
from .check import check as find_damage
from .check import read_all

__all__ = ["describe"]


def describe(path: str, key: str | None = None, check: bool = False) -> dict[str, Any]:
    """Return what a person wants to know of a file or directory.

    Parameters
    ----------
    path : str
        Anything; what cannot be opened gives a "problem" instead of an exception, with what is known of it.
    key : str, optional
        Which member.
    check : bool
        Read everything and unpack it, so that damage in any chunk is found.

    Notes
    -----
    Reads metadata and the indexes of shards; with `check`, all of it. Files that are opened by import are
    imported only with `check`, or where that was done before.
    """
    facts: dict[str, Any] = {"path": path}
    try:
        if not os.path.exists(path):
            raise storage_error(f"info: '{path}' does not exist; it is a link that leads nowhere.", 2, path)
        if os.path.isfile(path):
            facts["bytes_on_disk"] = disk_bytes(path)
            _of_file(facts, path, key, check)
        else:
            metadata_room("info", path, levels=1)
            _of_directory(facts, path, key, check)
    except (Error, OSError, MemoryError) as error:
        facts["problem"] = str(error)
    return facts


def _of_file(facts: dict[str, Any], path: str, key: str | None, check: bool) -> None:
    one = of_file(path, head_of(path))
    imports = one.imports(path, key)
    facts["format"], facts["opened"] = one.name, "by import" if imports else "in place"
    if about := one.offers("about"):
        facts |= about(path, key)
    member = facts.get("member", "") if not imports and facts["opened"] == "by import" else ""
    imports = imports or bool(member)
    if imports and not check and not imported(path, member.strip("/")):
        facts["note"] = "it was not imported yet; opening it does that, and so does --check"
        return
    several = len(facts.get("members", [])) > 1
    if key is None and (several or "note" in facts) and "member" not in facts:
        facts.setdefault("note", "it has several members; name one with --key to hear more of it")
        return
    opened = open_path(path, key, decode=False)
    if isinstance(opened, np.ndarray):
        facts |= {"kind": "values of a category, or texts", "shape": list(opened.shape)}
        return
    told = _of_opened(opened)
    if imports:  # what it takes in scratch is not what the file takes
        told = {name: value for name, value in told.items() if name not in ("kind", "packed")}
        told["bytes_of_import"] = told.pop("bytes_of_one_read")
    facts |= told
    if check:
        facts["checked"] = f"everything was read and unpacked ({read_all(Call('info'), opened):,} bytes)"


def _of_directory(facts: dict[str, Any], path: str, key: str | None, check: bool) -> None:
    inner = os.path.join(path, key) if key else path
    facts["bytes_on_disk"] = disk_bytes(inner if os.path.isdir(inner) else path)
    if key is None and (told := listing(path)):
        facts |= {"opened": "in place"} | told
        if check:
            facts["checked"] = _verified(path, key)
        return
    if key is None and not os.path.exists(f"{path}/zarr.json") and tenx.is_10x_folder(path):
        facts |= tenx.about(path)
        if not check and not imported(tenx.matrix_file(path), "cells"):
            facts["note"] = "it was not imported yet; opening it does that, and so does --check"
            return
        facts |= {name: value for name, value in _of_opened(open_path(path)).items() if name != "packed"}
        return
    if key is None and not _core.is_zarr_group(path) and is_table_folder(path):
        facts |= about_folder(path)
        if not check and not imported(path, part_of(path, None)):
            facts["note"] = "it was not imported yet; opening it does that, and so does --check"
            return
        told = _of_opened(opened := open_path(path))
        facts |= {name: value for name, value in told.items() if name not in ("kind", "packed")}
        if check:
            facts["checked"] = f"everything was read ({read_all(Call('info'), opened):,} bytes)"
        return
    opened = open_path(path, key, decode=False)
    facts |= _of_opened(opened) | {"opened": "in place"} | about_group(opened)
    if check:
        facts["checked"] = _verified(path, key)


def _verified(path: str, key: str | None) -> str:
    report = find_damage(path, key)
    if not report.ok:
        raise FormatError("; ".join(map(str, report.damages)))
    return str(report).partition(": ")[2].partition("\n")[0]


def disk_bytes(path: str) -> int:
    """Return the bytes that a file or a directory takes on the disk."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    total = 0
    for folder, _, names in os.walk(path):
        total += sum(os.lstat(os.path.join(folder, name)).st_blocks * 512 for name in names)
    return total


def _of_opened(opened: Array | SparseArray) -> dict[str, Any]:
    if isinstance(opened, SparseArray):
        density = opened.nnz / max(1, opened.shape[0] * opened.shape[1])
        kind = "sparse matrix (CSC)" if is_transposed(opened) else "sparse matrix (CSR)"
        return {
            "kind": kind, "shape": list(opened.shape), "dtype": opened.dtype.name,
            "stored_values": opened.nnz, "density": f"{density:.3%}", "bytes_in_memory": opened.nbytes,
            "bytes_of_one_read": opened.stored_bytes, "packed": _ratio(opened.nbytes, opened.stored_bytes),
            "layout": opened.layout,
            "bytes_a_stored_value": round(opened.stored_bytes / max(1, opened.stored_values), 3),
        }  # fmt: skip
    stored = int(opened._core.stored_bytes)
    facts: dict[str, Any] = {
        "kind": "array", "shape": list(opened.shape), "dtype": opened.dtype.name, "bytes": opened.nbytes,
        "chunks": list(opened.chunks), "tiles": list(opened.tiles), "bytes_of_one_read": stored,
        "packed": _ratio(opened.nbytes, stored),
    }  # fmt: skip
    if (triangle := triangle_of(opened)) is not None:
        facts["structure"] = f"{triangle[0]}, its {triangle[1]} triangle is stored"
    if (packing := packing_of(opened)) is not None:
        facts["conventions"] = (
            f"packed as CF has it ({packing.told}); decode=True opens the true values, {packing.dtype.name}"
        )
    return facts


def _ratio(unpacked: int, stored: int) -> str:
    if not stored:
        return "nothing is stored"
    return (
        f"{unpacked / stored:.2f} to 1" if unpacked >= stored else "not worth while: whole pages are stored"
    )
