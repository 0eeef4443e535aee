"""Pictures of a matrix in some order of its vertices: how many values lie in each of 512 x 512 boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.row_blocks import row_blocks

__all__ = ["SIDE", "densities", "places_of"]

SIDE = 512
_BESIDE = 40  # bytes of an entry: boxes of both ends, their number, a mask


def places_of(
    n: int, vertices: NDArray[np.int64], order: NDArray[np.int64] | None = None
) -> NDArray[np.int16]:
    """Return the stripe of each of n vertices, -1 of those that are not shown; `order`: of the vertices."""
    found = np.full(n, -1, np.int16)
    shown = vertices if order is None else vertices[order]
    found[shown] = np.arange(len(shown)) * min(SIDE, len(shown)) // max(1, len(shown))
    return found


def densities(call: Call, A: SparseArray, places: Sequence[NDArray[np.int16]]) -> list[NDArray[np.int64]]:
    """Count the values of a square matrix in boxes, once for each order of its vertices; one read of A."""
    sides = [int(place.max(initial=0)) + 1 for place in places]
    counted = [np.zeros(side * side, np.int64) for side in sides]
    for first, pointers, columns, values in row_blocks(call, A, beside=_BESIDE, fixed=8 * SIDE * SIDE * 2):
        del values
        counts = np.diff(pointers)
        for place, side, found in zip(places, sides, counted, strict=True):
            near = np.repeat(place[first : first + len(counts)].astype(np.int32), counts)
            far = place[columns]
            boxes = (near * side + far)[(near >= 0) & (far >= 0)]
            found += np.bincount(boxes, minlength=side * side)
    return [found.reshape(side, side) for found, side in zip(counted, sides, strict=True)]
