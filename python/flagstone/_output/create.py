"""New arrays that users ask for: zeros, or a copy of a NumPy array."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .. import _core
from .._array.array import PIECE, STAGING, Array, from_memory, shape_text
from .._array.handle import built_aside
from .._array.mapped import off_the_map
from .._array.requests import assign, take
from .._errors.messages import path_text
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._scratch.builds import whole_or_nothing
from .codec_choice import check_codec, choose
from .destination import Destination, check_dims, check_new
from .replaceable import check_overwrite

__all__ = ["create", "from_numpy"]


def create(
    path: str | os.PathLike[str],
    shape: tuple[int, ...] | int,
    dtype: DTypeLike,
    chunks: tuple[int, ...] | None = None,
    overwrite: bool = False,
    dims: Sequence[str] | None = None,
    checksum: str = "sidecar",
    codec: str = "raw",
) -> Array:
    """Create an array of zeros on disk and return it, open for assignment.

    Parameters
    ----------
    path : path
        A Zarr v3 group that will hold the array (``"a.zarr"``), a member of a group (``"data.zarr/a"``), or a
        file ending in ``.npy``.
    shape : tuple of int
        Extents; any number of dimensions.
    dtype : dtype
        bool, integers of 8 to 64 bits, float16 to float64, complex64 and complex128.
    chunks : tuple of int, optional
        The stored unit; default: near-square over the last two dimensions, at most 4 MiB.
    overwrite : bool
        Replace, at once and whole, what is there.
    dims : sequence of str, optional
        Names of the dimensions, for xarray. Arrays of one group that share a name must agree in its extent;
        default: ``dim_0, dim_1, ...``, in a group of several arrays ``NAME_dim_0, ...``.
    checksum : {"sidecar", "inner", "none"}
        Where the crc32c of every chunk goes, which is looked at whenever a whole chunk is read: beside the
        chunks, or, for archives, behind each of them (Zarr's crc32c codec: other programs verify it too, and
        reading takes one more copy). A `.npy` file has none.
    codec : str
        How every chunk is packed: "raw", or ``CODEC[:LEVEL][+SHUFFLE]`` with CODEC "zstd" (levels 1 to 22,
        default 3), "gzip" (0 to 9, default 5) or "blosc-lz4", "blosc-lz4hc", "blosc-blosclz", "blosc-zlib",
        "blosc-zstd" (0 to 9, default 5), whose SHUFFLE is "shuffle" (default), "bitshuffle" or "noshuffle".
        Numbers come back bit for bit; zarr-python and TensorStore read all of these. Raw chunks are read
        straight into the memory that is computed on, packed ones take a copy of unpacking more.

    Returns
    -------
    Array
        Chunks that are all zero (bit for bit) take no space. What is assigned is on the disk when
        the assignment returns; `transaction` groups several. Call `flush()` after assigning to a `.npy`.
    """
    extents, name, pieces = check_new("create", shape, dtype, chunks)
    place = path_text("create", path)
    check_dims("create", dims, extents, place)
    check_codec("create", codec, place)
    if overwrite:
        check_overwrite("create", place, place.endswith(".npy"))
    nbytes = None if place.endswith(".npy") else 0
    return Destination(
        "create", path, extents, name, pieces, overwrite, nbytes, dims, checksum=checksum, codec=codec
    ).publish()


def from_numpy(
    a: ArrayLike, path: str | os.PathLike[str] | None = None, overwrite: bool = False,
    checksum: str = "sidecar", codec: str = "raw",
) -> Array:  # fmt: skip
    """Return an Array of a NumPy array: written to `path`, or without a path the same memory, not a copy.

    Parameters
    ----------
    a : array_like
        The elements.
    path : path, optional
        As for `create`. Writes ``a.nbytes``; appears whole.
    overwrite : bool
        Replace what is there.
    checksum : {"sidecar", "inner", "none"}
        As for `create`.
    codec : str
        As for `create`, or "auto": some chunks are packed, and what they shrink to is held against the rates
        of the disk and the processors (the gauge's); `flagstone info` tells what was taken and why.

    Returns
    -------
    Array
        Open for assignment. Without a path it shares the memory of an ndarray that can be assigned to.
    """
    call = Call("from_numpy")
    mapped = a if path is None else off_the_map(call, unmasked("from_numpy", a))
    values = np.asarray(unmasked("from_numpy", a))
    shape, dtype, _ = check_new("from_numpy", values.shape, values.dtype)
    if not isinstance(mapped, Array):
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
    call.room("the transfer", 0 if path is None else PIECE + STAGING)
    with call.measured(f"from_numpy {shape_text(shape)} {dtype}", "row blocks") as done:
        if path is None:
            return from_memory(values, False, False)
        place = path_text("from_numpy", path)
        check_codec("from_numpy", codec, place, auto=True)
        if overwrite:
            check_overwrite("from_numpy", path, os.fspath(path).endswith(".npy"))
        destination = Destination(
            "from_numpy", path, shape, dtype, None, overwrite, checksum=checksum,
            codec=choose(
                call, codec, shape, _core.default_chunks(shape, dtype), values.dtype, values.__getitem__
            ),
        )  # fmt: skip
        built = built_aside(destination.core)
        with whole_or_nothing(destination):
            if isinstance(mapped, Array):
                _copy(call, mapped, built)
            else:
                assign(built, call, ..., values)
            done.bytes_written = values.nbytes
            return destination.publish()


def _copy(call: Call, source: Array, target: Array) -> None:
    """Copy an array box by box: whole chunks of the target, 8 MiB where they are not larger."""
    call.ready()
    shape, item = source.shape, source.dtype.itemsize
    step = [max(1, min(c, n)) for c, n in zip(target.chunks, shape, strict=True)]
    if target.chunks == shape:  # a flat file
        step = [1] * len(shape)
    for d in reversed(range(len(step))):
        while step[d] < shape[d] and 2 * math.prod(step) * item <= PIECE // 4:
            step[d] = min(2 * step[d], shape[d])
    for first in np.ndindex(*(-(-n // s) for n, s in zip(shape, step, strict=True))):
        box = tuple(slice(i * s, min((i + 1) * s, n)) for i, s, n in zip(first, step, shape, strict=True))
        assign(target, call, box, take(source, call, box))
