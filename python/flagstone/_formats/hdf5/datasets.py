"""Data sets of HDF5 as arrays of the engine: where their elements lie, and how they are packed."""

from __future__ import annotations

from array import array as packed_numbers
from typing import Any

import numpy as np

from ... import _core
from ..._array.array import from_memory
from ..._errors.classes import Error, FormatError
from ..._runtime.call import Call
from .unpacked import unpacked

__all__ = ["FILTERS", "OTHER_FILTERS", "by_library", "core_array", "h5py_module", "text"]

#: Filters of HDF5 by their registered numbers, as the core names them, and others by the names people know.
FILTERS = {
    1: "zlib", 2: "shuffle", 3: "fletcher32", 32000: "lzf", 32001: "blosc", 32015: "zstd",
}  # fmt: skip
OTHER_FILTERS = {4: "szip", 5: "nbit", 6: "scaleoffset", 32004: "lz4", 32008: "bitshuffle", 32026: "blosc2"}
#: Chunks that one data set may have: 40 bytes of memory each while it is opened.
_MOST_CHUNKS = 1 << 27


def h5py_module(who: str) -> Any:
    """Return h5py, or say how to install it."""
    try:
        import h5py
    except ImportError:
        raise Error(f"{who}: HDF5 files need h5py, which is not installed; pip install h5py.") from None
    return h5py


def text(value: Any) -> str:
    """Return a name as h5py gave it, bytes or str, as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _steps(properties: Any, name: str) -> list[tuple[str, int]]:
    """Return the filters as codec steps, in the order in which they were applied."""
    steps = []
    for i in range(properties.get_nfilters()):
        code, _, values, label = properties.get_filter(i)
        known = FILTERS.get(code)
        if known is None:
            said = OTHER_FILTERS.get(code) or text(label) or str(code)
            raise FormatError(
                f"open: {name}: the filter '{said}' is read neither here nor by the HDF5 library that h5py "
                "has; import hdf5plugin first, or rewrite the data set with gzip, lzf or none (h5repack -f "
                "GZIP=1)."
            )
        if missing := _core.missing_library(known):
            raise FormatError(
                f"open: {name}: its chunks are packed with {known}, and this build was made without "
                f"{missing}; install it and build again."
            )
        steps.append((known, int(values[0]) if known == "shuffle" and values else 1))
    return steps


def _places(dataset: Any, grid: tuple[int, ...], name: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Offset, bytes and filter mask of every chunk, C order of the grid; absent ones are zeros."""
    number = int(np.prod(grid, dtype=object))
    if number > _MOST_CHUNKS:
        raise FormatError(
            f"open: {name}: {number} chunks are more than the {_MOST_CHUNKS} that are possible here; "
            "rewrite it with larger chunks."
        )
    Call("open").room("the places of its chunks", 80 * number)
    places = np.zeros((number, 3), np.uint64)
    found, chunks, ndim = packed_numbers("Q"), dataset.chunks, len(grid)

    def note(info: Any) -> None:
        found.extend(info.chunk_offset)
        found.extend((info.byte_offset, info.size, info.filter_mask))

    identifier = dataset.id
    if hasattr(identifier, "chunk_iter"):
        identifier.chunk_iter(note)
    else:
        for i in range(identifier.get_num_chunks()):
            note(identifier.get_chunk_info(i))
    if found:
        rows = np.frombuffer(found, np.uint64).reshape(-1, ndim + 3)
        at = [rows[:, d] // np.uint64(chunks[d]) for d in range(ndim)]
        inside = np.all([at[d] < grid[d] for d in range(ndim)], axis=0)
        flat = np.ravel_multi_index([a[inside].astype(np.int64) for a in at], grid)
        if rows[inside, ndim + 1].max(initial=0) >= 1 << 32:
            raise FormatError(f"open: {name}: a chunk takes 4 GiB or more; rewrite it with smaller chunks.")
        places[flat] = rows[inside, ndim:]
    return places


def _check_type(dataset: Any, name: str) -> tuple[str, bool]:
    """Return the dtype's name and whether its bytes are big-endian."""
    dtype = dataset.dtype
    if dtype.name not in _NAMES:
        raise FormatError(
            f"open: {name}: its elements are {dtype}, which has no place here; bool, integers, floats of at "
            "most 64 bits and complex numbers of two such have."
        )
    return dtype.name, dtype.itemsize > 1 and dtype.newbyteorder("<") != dtype


def by_library(h5py: Any, dataset: Any) -> bool:
    """Say whether only the HDF5 library unpacks its elements: a filter, or a type, that it alone knows."""
    if not dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype, logical=True)):
        return True
    properties = dataset.id.get_create_plist()
    codes = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    others = [code for code in codes if code not in FILTERS]
    return bool(others) and all(h5py.h5z.filter_avail(code) for code in others)


_NAMES = frozenset(
    ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def core_array(h5py: Any, dataset: Any, place: str) -> _core.Array:
    """Map a data set: flat, a table of chunks, or (what HDF5 keeps among its metadata) in memory.

    What only the HDF5 library unpacks is copied into scratch, once.
    """
    name = f"{place}{dataset.name}"
    kind, big_endian = _check_type(dataset, name)
    properties, shape = dataset.id.get_create_plist(), list(dataset.shape)
    layout = properties.get_layout()
    if layout == h5py.h5d.VIRTUAL or properties.get_external_count() > 0:
        raise FormatError(
            f"open: {name}: its elements lie in other files; copy them into one (h5repack), or open those."
        )
    if by_library(h5py, dataset):
        return unpacked(dataset, place, kind)
    if layout == h5py.h5d.CHUNKED:
        grid = tuple(-(-n // c) for n, c in zip(shape, dataset.chunks, strict=True))
        places = _places(dataset, grid, name)
        return _core.open_chunk_table(
            place, name, shape, list(dataset.chunks), kind, big_endian, _steps(properties, name),
            _fill(dataset, kind), places,
        )  # fmt: skip
    offset = dataset.id.get_offset()
    if layout == h5py.h5d.CONTIGUOUS and offset is not None:
        return _core.open_raw(place, kind, shape, offset=offset, big_endian=big_endian)
    # Compact (at most 64 KiB), empty, or never written: nothing that could be mapped.
    values = np.broadcast_to(np.frombuffer(_fill(dataset, kind), kind)[0], shape)
    if layout == h5py.h5d.COMPACT:
        values = dataset[...].astype(kind)
    elif values.size:
        return _core.open_chunk_table(
            place, name, shape, shape, kind, False, [], _fill(dataset, kind), np.zeros((1, 3), np.uint64)
        )
    return from_memory(np.ascontiguousarray(values), False, False)._core


def _fill(dataset: Any, kind: str) -> bytes:
    """Return the fill value; asked for only where the file has one: damaged, it may crash the library."""
    try:
        if (
            dataset.id.get_create_plist().fill_value_defined()
            != h5py_module("open").h5d.FILL_VALUE_USER_DEFINED
        ):
            return np.zeros((), kind).tobytes()
        return np.asarray(dataset.fillvalue).astype(kind).tobytes()
    except (RuntimeError, TypeError, ValueError):
        return np.zeros((), kind).tobytes()
