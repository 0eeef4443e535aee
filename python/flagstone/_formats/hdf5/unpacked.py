"""Data sets that only the HDF5 library unpacks (szip, n-bit, scale-offset, odd types), into scratch once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._array.array import Array
from ..._array.handle import built_aside
from ..._array.requests import assign
from ..._output.destination import Destination
from ..._runtime.call import Call
from ..._runtime.streaming import Reported, ahead
from ..._scratch.builds import whole_or_nothing
from ..._storage.import_cache import cached

__all__ = ["unpacked"]

_PIECE = (
    4 << 20
)  #: bytes read at a time, and of a chunk of the copy, where a chunk of the source is not longer
_LIBRARY = 24 << 20  #: bytes that HDF5 holds beside chunks: a cache of each data set, conversion of types


def unpacked(dataset: Any, place: str, kind: str) -> _core.Array:
    """Return a data set's elements as an array of type `kind` in scratch, read through the HDF5 library.

    Notes
    -----
    Reads the data set once and writes its elements once, raw; holds four pieces (of 4 MiB, or a chunk)
    and what the library takes.
    """
    copy = cached(place, dataset.name.strip("/"), lambda call, target: _copy(call, dataset, target, kind))
    assert isinstance(copy, Array)
    return copy._core


def _pieces(dataset: Any, item: int) -> tuple[int, ...]:
    """Return the extents of a piece: whole chunks, or rows where there are none."""
    shape = dataset.shape
    piece = list(dataset.chunks or (1,) * len(shape))
    for d in reversed(range(len(shape))):
        while piece[d] < shape[d] and 2 * item * int(np.prod(piece, dtype=object)) <= _PIECE:
            piece[d] *= 2
    return tuple(piece)


def _copy(call: Call, dataset: Any, target: str, kind: str) -> Array:
    dtype, shape = np.dtype(kind), dataset.shape
    piece = _pieces(dataset, dtype.itemsize)
    chunk = int(np.prod(dataset.chunks or (1,), dtype=object)) * dataset.dtype.itemsize
    held = 4 * int(np.prod(piece, dtype=object)) * dtype.itemsize + 4 * chunk
    call.room(f"pieces of {dataset.name}", held + _LIBRARY)
    destination = Destination("open", target, shape, dtype.name, piece, False)
    out, moved = built_aside(destination.core), 0
    report = Reported(call, int(np.prod(shape, dtype=object)) * dtype.itemsize)
    with whole_or_nothing(destination):
        for box, values in ahead(_blocks(dataset, piece, dtype)):
            assign(out, call, box, values)
            moved += values.nbytes
            report.at(moved)
        return destination.publish()


def _blocks(
    dataset: Any, piece: tuple[int, ...], dtype: np.dtype[Any]
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    starts = [range(0, extent, step) for extent, step in zip(dataset.shape, piece, strict=True)]
    for first in itertools.product(*starts):
        box = tuple(
            slice(at, min(at + step, extent))
            for at, step, extent in zip(first, piece, dataset.shape, strict=True)
        )
        yield box, np.asarray(dataset[box]).astype(dtype, copy=False)
