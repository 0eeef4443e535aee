"""What a memory map tells: which ndarrays look at one, how their elements lie in its file."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Map", "give_back", "is_behind", "is_mapped", "layout_of", "map_of"]

_SMALL = 1 << 20  #: bytes whose pages may stay
_PAGEOUT = 21  #: MADV_PAGEOUT: pages that somebody changed stay, others go
Map = np.memmap[Any, Any]


def is_mapped(given: Any) -> bool:
    """Say whether an operand lies in a memory map whose pages would count."""
    return isinstance(given, np.ndarray) and given.nbytes >= _SMALL and map_of(given) is not None


def map_of(given: Any) -> Map | None:
    """Return the memmap that an ndarray is, or looks at."""
    seen = given
    while isinstance(seen, np.ndarray):
        if isinstance(seen.base, mmap.mmap):
            return seen if isinstance(seen, np.memmap) else None
        seen = seen.base
    return None


def layout_of(values: NDArray[Any]) -> tuple[str, int] | None:
    """Return order and leading extent (0: dense) as flat files have them; None where it is otherwise."""
    item = values.itemsize
    if values.dtype.kind not in "biufc" or values.dtype.char in "gG":
        return None
    if values.flags.c_contiguous:
        return "C", 0
    if values.flags.f_contiguous:
        return "F", 0
    if values.ndim != 2:
        return None
    (rows, cols), (row, col) = values.shape, values.strides
    if col == item and row % item == 0 and row >= cols * item:
        return "C", row // item
    if row == item and col % item == 0 and col >= rows * item:
        return "F", col // item
    return None


def is_behind(mapped: Map, place: str) -> bool:
    """Say whether the file that is called so is the one that was mapped."""
    try:
        inode = os.stat(place).st_ino
        at = mapped.__array_interface__["data"][0]
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, _, _, _, number = line.split()[:5]
                first, last = (int(part, 16) for part in span.split("-"))
                if first <= at < last:
                    return int(number) == inode
    except (OSError, ValueError):
        pass
    return False


def give_back(mapped: Map) -> None:
    """Let the pages of a map go that were only read; of a shared one all, which the file holds."""
    advice = _PAGEOUT if mapped.mode == "c" else mmap.MADV_DONTNEED
    with contextlib.suppress(OSError, ValueError):  # a kernel without it: they go when memory is short
        mapped.base.madvise(advice)  # type: ignore[union-attr]
