"""NumPy's `.npy`, in place."""

from __future__ import annotations

import errno
import os
from tokenize import TokenError
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, open_array
from .._array.handle import opened_by
from .._errors.classes import FormatError
from .._errors.messages import storage_error
from .._errors.regular import open_regular
from .._expression.times import note_times
from .._runtime.call import Call
from .._runtime.streaming import Reported
from .._storage.copy import copy

__all__ = ["open_file", "write"]


def open_file(place: str, key: str | None, mode: str) -> Array:
    """Open a `.npy` in place: any alignment, both orders; of dates and durations the int64."""
    try:
        return open_array(place, mode)
    except FormatError:
        opened = _times(place, mode)
        if opened is None:
            raise
        return opened


def _times(place: str, mode: str) -> Array | None:
    """Return an array of datetime64 or timedelta64; None of anything else."""
    with open_regular("open", place) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, by_columns, dtype = read(file)
        except (ValueError, SyntaxError, TokenError):  # NumPy parses the header as Python
            return None
        offset = file.tell()
    if dtype.kind not in "mM":
        return None
    if mode != "r":
        raise storage_error(
            f"open: '{place}' holds {dtype}, which is read and not written here; use mode='r'.",
            errno.EROFS, place,
        )  # fmt: skip
    swapped = dtype.newbyteorder("<") != dtype
    order = "F" if by_columns else "C"
    opened = Array(_core.open_raw(place, "int64", list(shape), order, offset, 0, False, swapped))
    kept = (
        os.path.abspath(place),
        np.dtype("i8").newbyteorder(">" if swapped else "<").str,
        shape,
        order,
        offset,
        None,
        "r",
    )
    return note_times(opened_by("flat", *kept, handle=opened), dtype.newbyteorder("="))


def write(call: Call, source: Any, built: str, key: str | None, report: Reported) -> None:
    """Write a dense array to the new file `built`."""
    if not isinstance(source, Array):
        raise FormatError(
            "convert: a .npy holds dense arrays and the source is sparse; write .npz, .mtx, .h5 or Zarr."
        )
    copy(call, source, _core.create_npy(built, list(source.shape), source.dtype.name), report)
