"""New arrays that users ask for: zeros, or a copy of a NumPy array."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .. import _core
from .._array.array import PIECE, STAGING, Array, from_memory, shape_text
from .._array.handle import built_aside
from .._array.mapped import off_the_map
from .._array.requests import assign, take
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._scratch.builds import whole_or_nothing
from .attributes import encoded
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
    *,
    fill_value: Any = 0,
    attrs: Mapping[str, Any] | None = None,
) -> Array:
    """Create an array of zeros (or of another fill value) on disk and return it, open for assignment.

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
    fill_value : number, optional
        What reads where nothing was written, also behind the old end of an array that grows; default: zero. A
        new version of the array that a routine writes (``out=A``) has zero again.
    attrs : mapping, optional
        Attributes, of names to what JSON can hold; `Array.attrs` reads and changes them.

    Returns
    -------
    Array
        Chunks that are all fill value (bit for bit) take no space. What is assigned is on the disk when
        the assignment returns; `transaction` groups several. Call `flush()` after assigning to a `.npy`.
    """
    extents, name, pieces = check_new("create", shape, dtype, chunks)
    place = path_text("create", path)
    check_dims("create", dims, extents, place)
    check_codec("create", codec, place)
    fill, told = _fill("create", fill_value, name, place), _attributes("create", attrs, place)
    if overwrite:
        check_overwrite("create", place, place.endswith(".npy"))
    nbytes = None if place.endswith(".npy") else 0
    return Destination(
        "create", path, extents, name, pieces, overwrite, nbytes, dims, checksum=checksum, codec=codec,
        attrs=told, fill=fill,
    ).publish()  # fmt: skip


def _fill(who: str, value: Any, dtype: str, place: str) -> bytes:
    """Return the bytes of one element; nothing for zero."""
    kind = np.dtype(dtype)
    try:
        with np.errstate(all="ignore"):
            given = np.asarray(value)
            number = given.ndim == 0 and given.dtype.kind in ("biufc" if kind.kind == "c" else "biuf")
            element = given.astype(kind) if number else given
            same = number and _equal(element, given)
    except (TypeError, ValueError, OverflowError):
        same = False
    if not same:
        raise ShapeError(f"{who}: fill_value is {value!r}; one number that {dtype} holds is needed.")
    if element.tobytes() == bytes(kind.itemsize):
        return b""
    if place.endswith(".npy"):
        raise ShapeError(f"{who}: a .npy file has no fill value; leave fill_value out or write Zarr.")
    return element.tobytes()


def _equal(element: NDArray[Any], given: NDArray[Any]) -> bool:
    """Say whether a number is what was given: exactly, but for the rounding of fractions."""
    if element.dtype.kind in "fc":
        return bool(np.isfinite(element)) == bool(np.isfinite(given))
    return bool(element == given)


def _attributes(who: str, attrs: Mapping[str, Any] | None, place: str) -> str:
    text = encoded(who, attrs)
    if text not in ("", "{}") and place.endswith(".npy"):
        raise FormatError(f"{who}: a .npy file has no attributes; leave attrs out or write Zarr.")
    return text


def from_numpy(
    a: ArrayLike, path: str | os.PathLike[str] | None = None, overwrite: bool = False,
    checksum: str = "sidecar", codec: str = "raw", *,
    chunks: tuple[int, ...] | None = None, dtype: DTypeLike | None = None, fill_value: Any = 0,
    dims: Sequence[str] | None = None, attrs: Mapping[str, Any] | None = None,
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
    chunks, fill_value, dims, attrs
        As for `create`; they belong to what is stored, and need a path.
    dtype : dtype, optional
        Of the elements; converted as ``a.astype`` would, piece by piece where there is a path.

    Returns
    -------
    Array
        Open for assignment. Without a path it shares the memory of an ndarray that can be assigned to.
    """
    call = Call("from_numpy")
    mapped = a if path is None else off_the_map(call, unmasked("from_numpy", a))
    if hasattr(a, "tocsr"):
        raise TypeError(
            f"from_numpy: SciPy's {type(a).__name__} was given; from_blocks([A]) makes a SparseArray of it."
        )
    values = np.asarray(unmasked("from_numpy", a))
    wanted = values.dtype if dtype is None else np.dtype(dtype)
    shape, name, pieces = check_new("from_numpy", values.shape, wanted, chunks)
    if path is None and not (chunks is None and dims is None and attrs is None and fill_value == 0):
        raise ShapeError(
            "from_numpy: chunks, fill_value, dims and attrs belong to what is stored, and no path was given; "
            "give one, or leave them out."
        )
    converted = not isinstance(mapped, Array) and values.dtype.newbyteorder("=") != wanted.newbyteorder("=")
    if not isinstance(mapped, Array) and not (converted and path is not None):
        if converted:
            call.room(f"a copy in {name}", values.size * wanted.itemsize)
        values = values.astype(wanted.newbyteorder("="), copy=False)
    if path is not None:  # else no byte moves, and what takes the result refuses for both
        call.room("the transfer", PIECE + STAGING)
    with call.measured(f"from_numpy {shape_text(shape)} {name}", "row blocks") as done:
        if path is None:
            return from_memory(values, False, False)
        place = path_text("from_numpy", path)
        check_codec("from_numpy", codec, place, auto=True)
        check_dims("from_numpy", dims, shape, place)
        fill, told = _fill("from_numpy", fill_value, name, place), _attributes("from_numpy", attrs, place)
        if overwrite:
            check_overwrite("from_numpy", path, os.fspath(path).endswith(".npy"))
        destination = Destination(
            "from_numpy", path, shape, name, pieces, overwrite, dims=dims, checksum=checksum,
            codec=choose(
                call, codec, shape, pieces or _core.default_chunks(shape, name), wanted,
                lambda key: values[key].astype(wanted, copy=False),
            ),
            attrs=told, fill=fill,
        )  # fmt: skip
        built = built_aside(destination.core)
        with whole_or_nothing(destination):
            if isinstance(mapped, Array):
                _copy(call, mapped, built)
            elif converted:
                _copy(call, values, built)
            else:
                assign(built, call, ..., values)
            done.bytes_written = values.size * wanted.itemsize
            return destination.publish()


def _copy(call: Call, source: Array | NDArray[Any], target: Array) -> None:
    """Copy an array box by box, converted: whole chunks of the target, 8 MiB where they are not larger."""
    call.ready()
    shape, item = source.shape, target.dtype.itemsize
    step = [max(1, min(c, n)) for c, n in zip(target.chunks, shape, strict=True)]
    if target.chunks == shape:  # a flat file
        step = [1] * len(shape)
    for d in reversed(range(len(step))):
        while step[d] < shape[d] and 2 * math.prod(step) * item <= PIECE // 4:
            step[d] = min(2 * step[d], shape[d])
    for first in np.ndindex(*(-(-n // s) for n, s in zip(shape, step, strict=True))):
        box = tuple(slice(i * s, min((i + 1) * s, n)) for i, s, n in zip(first, step, shape, strict=True))
        part = take(source, call, box) if isinstance(source, Array) else source[box]
        assign(target, call, box, part.astype(target.dtype, copy=False))
