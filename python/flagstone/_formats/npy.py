"""NumPy's `.npy`, in place."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._array.array import Array, open_array
from .._errors.classes import FormatError
from .._runtime.call import Call
from .._runtime.streaming import Reported
from .._storage.copy import copy

__all__ = ["open_file", "write"]


def open_file(place: str, key: str | None, mode: str) -> Array:
    """Open a `.npy` in place: any alignment, both orders."""
    return open_array(place, mode)


def write(call: Call, source: Any, built: str, key: str | None, report: Reported) -> None:
    """Write a dense array to the new file `built`."""
    if not isinstance(source, Array):
        raise FormatError(
            "convert: a .npy holds dense arrays and the source is sparse; write .npz, .mtx, .h5 or Zarr."
        )
    copy(call, source, _core.create_npy(built, list(source.shape), source.dtype.name), report)
