"""Chunk shapes by the rule of N-dimensional storage, from what the disk was measured to need."""

from __future__ import annotations

import math
import operator
import os
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from .._errors.classes import ShapeError
from .._errors.messages import path_text
from .._machine import lookup
from .._runtime.runtime import current
from .._scratch import scratch

__all__ = ["block_shape", "chunk_shape"]

UNIT = 4096  # bytes: the basic access unit of flash and of the page cache


def block_shape(nbytes: int, itemsize: int, dimensions: int) -> tuple[int, ...]:
    """Return the smallest cube of powers of two of at least `nbytes`.

    The rule for building blocks of Liu and Tseng (NDS, MICRO 2021): parallel requests x access unit bytes,
    equal sides. 32 channels of 4 KiB need 128 KiB: 256 x 256 of four bytes, 128 x 128 of eight.
    """
    elements = -(-nbytes // itemsize)
    side = 1
    while side**dimensions < elements:
        side *= 2
    return (side,) * dimensions


def chunk_shape(
    shape: tuple[int, ...],
    dtype: DTypeLike,
    dimensions: int = 2,
    *,
    requests: int | None = None,
    unit: int = UNIT,
    path: str | os.PathLike[str] | None = None,
) -> tuple[int, ...]:
    """Return the smallest chunks with which any slice still keeps the disk busy.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype
    dimensions : {1, 2, 3}
        Over how many of the last dimensions a chunk extends (fewer where there are fewer); 1 elsewhere.
    requests : int, optional
        Requests that the device takes at once (channels of an SSD). Default: measured, as many as are under
        way when the disk delivers its full rate (rate x latency of a request / unit).
    unit : int
        Bytes of the smallest request that the device is made for.
    path : path, optional
        Directory where the array will lie: counts where its device was measured (`calibrate`). Default:
        scratch, which is measured once (a second).

    Returns
    -------
    tuple of int
        For ``fl.create(..., chunks=...)``: powers of two, at least `requests` x `unit` bytes, as square as
        possible; a side that is longer than the array gives what it has left over to the others.

    Notes
    -----
    The default of `create` is larger (2 to 4 MiB) and does not depend on the machine, because tiles, and so
    the bits of results, follow from chunks. Small chunks suit requests that need few rows or columns.

    >>> fl.chunk_shape((16384, 16384), "float32", requests=32)       # doctest: +SKIP
    (256, 256)
    """
    try:
        extents = tuple(operator.index(n) for n in (shape if np.iterable(shape) else (shape,)))
    except TypeError:
        raise ShapeError(f"chunk_shape: the shape is {shape!r}; whole numbers are needed.") from None
    if dimensions not in (1, 2, 3):
        raise ShapeError(f"chunk_shape: dimensions is {dimensions!r}; 1, 2 or 3 are possible.")
    if (requests is not None and requests < 1) or unit < 1:
        raise ShapeError(f"chunk_shape: requests={requests}, unit={unit}; both must be at least 1.")
    nbytes = unit * requests if requests is not None else _busy(path, unit)
    wanted = min(dimensions, len(extents))
    if not wanted:
        return ()
    most = [1 << (n - 1).bit_length() if n > 0 else 1 for n in extents[-wanted:]]
    sides = [
        min(side, m)
        for side, m in zip(block_shape(nbytes, np.dtype(dtype).itemsize, wanted), most, strict=True)
    ]
    while math.prod(sides) * np.dtype(dtype).itemsize < nbytes:
        shorter = [axis for axis in range(wanted) if sides[axis] < most[axis]]
        if not shorter:
            break
        sides[min(shorter, key=lambda axis: sides[axis])] *= 2
    return (*(1 for _ in extents[:-wanted]), *sides)


def _busy(path: str | os.PathLike[str] | None, unit: int) -> int:
    """Bytes under way when the disk is busy, in whole units."""
    places = [] if path is None else [Path(path_text("chunk_shape", path)).absolute()]
    rates = lookup.lookup([*places, scratch.prepare(current().scratch)], current().io).rates
    return unit * max(1, math.ceil(rates["read_bytes_per_second"] * rates["request_seconds"] / unit))
