"""Memory maps as operands and values: the file behind one is read in place, its pages are not.

Pages of a mapping that somebody touches count as resident like any others, and nobody gives them back. So a
map of a file is opened as flat files are. What no file holds as it is seen (copy-on-write, steps along a row,
a file that went away) is copied into scratch piece by piece.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._runtime.call import Call
from .._runtime.memory_map import give_back, is_behind, is_mapped, layout_of, map_of
from .array import Array
from .requests import STAGING

__all__ = ["in_place", "off_the_map"]

_PIECE = 2 << 20  # bytes copied at a time: less than what is held back of every limit


def off_the_map(call: Call, given: Any) -> Any:
    """Return `given`, or where it lies in a memory map of a file an Array of the same elements.

    Costs nothing, or one write of the elements into scratch where no file holds them as they are seen: once
    the limit was found to be enough, before the job of `call` runs.
    """
    if not is_mapped(given):
        return given
    kept = call.copies.get(id(given))
    if kept is None:
        opened = in_place(given)
        call.copies[id(given)] = kept = given, _copied(call, given) if opened is given else opened
    return kept[1]


def in_place(given: Any) -> Any:
    """Return `given`, or where it is a memory map and its file holds the elements as they are, that file."""
    if not is_mapped(given):
        return given
    mapped, layout = map_of(given), layout_of(given)
    if mapped is None or layout is None or mapped.filename is None or mapped.mode == "c":
        return given
    place, kind = os.path.abspath(mapped.filename), given.dtype
    if not is_behind(mapped, place):
        return given
    order, leading = layout
    offset = mapped.offset + _address(given) - _address(mapped)
    if mapped.mode != "r":
        mapped.flush()
    swapped = kind.newbyteorder("<") != kind and kind.itemsize > 1
    core = _core.open_raw(place, kind.name, list(given.shape), order, offset, leading, False, swapped)
    array = Array(core)
    array._opened = "flat", (place, kind.str, given.shape, order, offset, leading or None, "r")
    return array


def _address(values: NDArray[Any]) -> int:
    return int(values.__array_interface__["data"][0])


def _copied(call: Call, values: NDArray[Any]) -> Array:
    """Return an Array in scratch that the elements come into before the job runs."""
    kind = values.dtype.newbyteorder("=")
    place = call.result("mapped", values.nbytes)
    core = _core.create_npy(place.path, list(values.shape), kind.name)
    array = Array(core)
    place.tie(array)

    def copy() -> None:
        mapped = map_of(values)
        rows = max(1, _PIECE // max(1, values.nbytes // len(values)))
        for first in range(0, len(values), rows):
            piece = np.ascontiguousarray(values[first : first + rows], kind)
            call.engine.write_boxes(core, [([first] + [0] * (values.ndim - 1), piece)], STAGING)
            if mapped is not None:
                give_back(mapped)
        core.flush()

    call.before_run.append(copy)
    return array
