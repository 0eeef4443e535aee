"""What `flagstone info` tells: what a file holds, how it is stored, what is wrong with it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .array import Array
from .config import Call
from .errors import Error
from .files import head_of, open_path
from .formats import of_file
from .groups import about as about_group
from .sparse import SparseArray

__all__ = ["describe"]

_PIECE = 16 << 20


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
        if os.path.exists(path):
            facts["bytes_on_disk"] = disk_bytes(path)
        if os.path.isfile(path):
            one = of_file(path, head_of(path))
            facts["format"], facts["opened"] = one.name, "by import" if one.imported else "in place"
            if about := one.offers("about"):
                facts |= about(path, key)
            if one.imported and about is not None and not check:
                return facts
        opened = open_path(path, key)
        facts |= _of_opened(opened)
        if os.path.isdir(path):
            facts |= {"opened": "in place"} | about_group(opened)
        if check:
            facts["checked"] = _read_all(opened)
    except (Error, OSError, MemoryError) as error:
        facts["problem"] = str(error)
    return facts


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
        kind = "sparse matrix (CSC)" if opened._transposed else "sparse matrix (CSR)"
        return {
            "kind": kind, "shape": list(opened.shape), "dtype": opened.dtype.name,
            "stored_values": opened.nnz, "density": f"{density:.3%}", "bytes_in_memory": opened.nbytes,
            "bytes_on_disk": opened.stored_bytes, "packed": _ratio(opened.nbytes, opened.stored_bytes),
        }  # fmt: skip
    stored = int(opened._core.stored_bytes)
    return {
        "kind": "array", "shape": list(opened.shape), "dtype": opened.dtype.name, "bytes": opened.nbytes,
        "chunks": list(opened.chunks), "tiles": list(opened.tiles), "bytes_of_one_read": stored,
        "packed": _ratio(opened.nbytes, stored),
    }  # fmt: skip


def _ratio(unpacked: int, stored: int) -> str:
    return f"{unpacked / stored:.2f} to 1" if stored else "nothing is stored"


def _read_all(opened: Array | SparseArray) -> str:
    """Read every element; the first damage is an exception that names the place."""
    call = Call("info")
    if isinstance(opened, SparseArray):
        parts = [Array(p) for p in (opened._matrix.data, opened._matrix.indices, opened._matrix.indptr)]
        opened.operand()  # looks at all row pointers
    else:
        parts = [opened]
    read = 0
    for part in parts:
        row = max(1, part.nbytes // max(1, part.shape[0])) if part.shape else 1
        rows = max(1, _PIECE // row)
        chunk = part.chunks[0] if part.chunks else 1
        rows = max(chunk, rows // max(1, chunk) * chunk) if part.shape and chunk < part.shape[0] else rows
        for first in range(0, part.shape[0] if part.shape else 1, rows):
            read += part._take(call, np.s_[first : first + rows] if part.shape else ...).nbytes
    return f"every chunk was read and unpacked ({read:,} bytes)"
