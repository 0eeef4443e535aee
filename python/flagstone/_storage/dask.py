"""Handing arrays to Dask."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from .._array.array import Array
from .._array.handle import is_conjugated, is_lazy, is_transposed
from .._array.pickling import stamp
from .._errors.classes import Error, ShapeError
from .._runtime.arguments import size_bytes

__all__ = ["dask_chunks", "to_dask"]


def dask_chunks(a: Array, nbytes: int | str = "128MiB") -> tuple[int, ...]:
    """Return a good chunk shape for Dask: whole stored chunks, about `nbytes` each.

    Parameters
    ----------
    a : Array
        Any array on disk or in memory.
    nbytes : int or str
        What one chunk may take; Dask holds a few for each of its threads.

    Returns
    -------
    tuple of int
        For ``dask.array.from_zarr(path, component, chunks=...)`` and `to_dask`. No stored chunk falls into
        two, so none is read twice. Zarr: near-square; `.npy` and memory: whole rows (columns where that is
        the order).

    Notes
    -----
    Moves nothing.
    """
    if not isinstance(a, Array):
        raise TypeError(f"dask_chunks: {type(a).__name__} is no Array; open one with fl.open.")
    elements = max(1, size_bytes("dask_chunks: nbytes", nbytes) // a.dtype.itemsize)
    flat = a.chunks == a.shape if is_lazy(a) else a.path is None or os.path.isfile(a.path)
    return _runs(a, elements) if flat else _squares(a, elements)


def _runs(a: Array, elements: int) -> tuple[int, ...]:
    """Fill the dimension that is contiguous first, then the next."""
    order = list(range(a.ndim))
    stored = [*a._core.shape[:1], *[1] * (a.ndim - 1)]
    fortran = a.path is not None and a.ndim > 1 and a._core.run_bytes(stored) > a.dtype.itemsize
    chunks = [1] * a.ndim
    for axis in order if fortran != is_transposed(a) else order[::-1]:
        chunks[axis] = min(max(a.shape[axis], 1), elements)
        elements = max(1, elements // chunks[axis])
    return tuple(chunks)


def _squares(a: Array, elements: int) -> tuple[int, ...]:
    """Double the shortest side of the stored chunk for as long as there is room."""
    chunks = [max(1, min(c, n)) for c, n in zip(a.chunks, a.shape, strict=True)]
    while True:
        growing = [axis for axis, n in enumerate(a.shape) if chunks[axis] < n]
        if not growing:
            return tuple(chunks)
        axis = min(growing, key=lambda one: chunks[one])
        longer = min(2 * chunks[axis], a.shape[axis])
        if math.prod(chunks) // chunks[axis] * longer > elements:
            return tuple(chunks)
        chunks[axis] = longer


def to_dask(a: Array, chunks: Any = None) -> Any:
    """Return a Dask array over an Array; nothing is read until Dask computes.

    Parameters
    ----------
    a : Array
        An array on disk (or in memory), with any views (``a.T``).
    chunks : Dask chunks, optional
        Default: `dask_chunks`.

    Returns
    -------
    dask.array.Array
        Reads through this library; works with processes and machines that see the same path (arrays pickle by
        path). For ordinary Zarr arrays ``dask.array.from_zarr`` does too, through zarr-python.

    Notes
    -----
    Each chunk reads the stored chunks that it touches, under the limit of the Runtime in force in Dask's
    thread: that is the process's default one ($FLAGSTONE_MEMORY).
    """
    if not isinstance(a, Array):
        raise TypeError(
            f"to_dask: {type(a).__name__} is no dense Array; Dask's arrays are dense, a sparse matrix is "
            "multiplied here (A @ X)."
        )
    if a.ndim == 0:
        raise ShapeError("to_dask: the array has no dimensions; take its value with a[()].")
    try:
        import dask.array as da
        from dask.base import tokenize
    except ImportError:
        raise Error("to_dask: Dask is not installed; pip install 'dask[array]'.") from None
    name: str | bool = False
    if a.path is not None:
        token = tokenize(a.path, stamp(a.path), is_transposed(a), is_conjugated(a))
        name = f"flagstone-{token}"
    return da.from_array(
        a,
        chunks=dask_chunks(a) if chunks is None else chunks,
        name=name,
        asarray=True,
        fancy=False,
        meta=np.empty((0,) * a.ndim, a.dtype),
    )
