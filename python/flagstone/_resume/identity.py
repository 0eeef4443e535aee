"""What tells an operand from another one, and from a later version of itself."""

from __future__ import annotations

import functools
import hashlib
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["file_identity", "identity", "memory_identity", "stored_stamp"]


_PIECE = 64 << 20  # bytes hashed at a time


def stored_stamp(path: str) -> str:
    """Return a hash of what tells an operand from a later version: inode, size and times of its files.

    Where no checksums would notice other bytes, the time of the last change of an inode is among them,
    which nobody can set.
    """
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)  # a member of an HDF5 file
    found = hashlib.blake2b(digest_size=16)

    def add(name: str, status: os.stat_result, verified: bool) -> None:
        told = f"{name}\0{status.st_ino}\0{status.st_size}\0{status.st_mtime_ns}"
        found.update(f"{told}\n".encode() if verified else f"{told}\0{status.st_ctime_ns}\n".encode())

    if not os.path.isdir(path):
        add("", os.stat(path), False)
        return found.hexdigest()
    verified = False
    top = ""
    for folder, folders, names in os.walk(path):
        if not (verified and folder.startswith(top)):  # an array's directories follow it
            top, verified = f"{folder}/", os.path.exists(f"{folder}/__flagstone/chunks.bin")
        folders[:] = sorted(name for name in folders if name != "__flagstone")  # locks and journals
        for name in sorted(names):
            place = os.path.join(folder, name)
            add(os.path.relpath(place, path), os.lstat(place), verified)
    return found.hexdigest()


def memory_identity(values: NDArray[Any]) -> dict[str, Any]:
    """Return what tells an operand in memory from another: shape, dtype and a hash of its elements."""
    found = hashlib.blake2b(digest_size=16)
    rows = max(1, _PIECE // max(1, values.nbytes // max(1, len(values)))) if values.ndim else 1
    for first in range(0, len(values) if values.ndim else 1, rows):
        part = values[first : first + rows] if values.ndim else values
        found.update(np.ascontiguousarray(part).view(np.uint8).data if part.size else b"")
    return {"memory": found.hexdigest(), "shape": list(values.shape), "dtype": values.dtype.str}


@functools.singledispatch
def identity(operand: Any) -> dict[str, Any]:
    """Return what tells an operand from another one, and how it is opened again.

    Operands in memory, and sparse views with pending steps, can be told apart, not opened again. Each kind of
    operand registers its own beside its class.
    """
    raise TypeError(f"resume: {type(operand).__name__} is no operand.")


identity.register(np.ndarray, memory_identity)


def file_identity(path: str) -> dict[str, Any]:
    """Return what tells a file that is streamed through from a later version of it."""
    place = os.path.abspath(path)
    return {"path": place, "stamp": stored_stamp(place)}
