"""What tells an operand from another one, and from a later version of itself."""

from __future__ import annotations

import functools
import hashlib
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core

__all__ = ["file_identity", "identity", "memory_identity", "stored_stamp"]


_PIECE = 64 << 20  # bytes hashed at a time


def stored_stamp(path: str) -> str:
    """Return a hash of what tells an operand from a later version: inode, size and times of its files."""
    return _core.stored_stamp(path)


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
