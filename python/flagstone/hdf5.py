"""HDF5 and `.h5ad` in place: h5py reads the metadata, the engine reads the elements where they lie."""

from __future__ import annotations

import contextlib
import json
import os
from array import array as packed_numbers
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _core
from .array import Array, from_memory, shape_text
from .config import Call
from .errors import Error, FormatError, storage_error
from .export import copy, row_blocks
from .groups import PARTS, binsparse_of
from .imports import Reported
from .journal import recover
from .sparse import SparseArray

__all__ = ["about", "h5py_module", "open_file", "reading", "write"]

#: Filters of HDF5 by their registered numbers, as the core names them, and others by the names people know.
_FILTERS = {
    1: "zlib", 2: "shuffle", 3: "fletcher32", 32000: "lzf", 32001: "blosc", 32015: "zstd",
}  # fmt: skip
_OTHER_FILTERS = {4: "szip", 5: "nbit", 6: "scaleoffset", 32004: "lz4", 32008: "bitshuffle", 32026: "blosc2"}
#: Chunks that one data set may have: 40 bytes of memory each while it is opened.
_MOST_CHUNKS = 1 << 27


def h5py_module(who: str) -> Any:
    """Return h5py, or say how to install it."""
    try:
        import h5py
    except ImportError:
        raise Error(f"{who}: HDF5 files need h5py, which is not installed; pip install h5py.") from None
    return h5py


@contextlib.contextmanager
def reading(place: str) -> Iterator[Any]:
    """Open a file with h5py; what that library says of a damaged one becomes a sentence."""
    h5py = h5py_module("open")
    recover(place)
    try:
        with h5py.File(place, "r") as file:
            yield file
    except Error:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, OSError) and error.errno:
            raise storage_error(
                f"open: '{place}' cannot be read ({os.strerror(error.errno)}).", error.errno, place
            ) from None
        reason = " ".join(str(error).split())
        raise FormatError(f"open: '{place}' is damaged or no HDF5 file ({reason[:200]}).") from None


# What is in a file ------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _encoding(node: Any) -> str:
    """Return what AnnData says of a node, in today's words: csr_matrix, csc_matrix, anndata, ..."""
    if "h5sparse_format" in node.attrs:  # AnnData before 0.7
        return _text(node.attrs["h5sparse_format"]) + "_matrix"
    if "encoding-type" in node.attrs:
        return _text(node.attrs["encoding-type"])
    return {"CSR": "csr_matrix", "CSC": "csc_matrix"}.get(_binsparse(node).get("format", ""), "")


def _binsparse(node: Any) -> dict[str, Any]:
    """Return the binsparse descriptor of a group, or {}."""
    with contextlib.suppress(ValueError):
        return binsparse_of({"binsparse": json.loads(_text(node.attrs.get("binsparse", "{}")))})
    return {}


def _is_matrix(h5py: Any, node: Any) -> bool:
    if isinstance(node, h5py.Dataset):
        return node.dtype.kind in "biufc" and node.shape is not None
    return _encoding(node) in ("csr_matrix", "csc_matrix")


def _members(h5py: Any, file: Any, most: int = 1000) -> list[str]:
    """Names of the arrays and matrices of numbers in a file; the parts of a matrix are not listed.

    Single numbers are listed where there is nothing else: files are full of them.
    """
    found: list[str] = []
    numbers: list[str] = []

    def walk(group: Any, prefix: str) -> None:
        for name in group:
            if len(found) >= most:
                return
            node = group.get(name)
            if node is None:
                continue  # a link that leads nowhere
            if _is_matrix(h5py, node):
                (numbers if getattr(node, "shape", None) == () else found).append(prefix + name)
            elif isinstance(node, h5py.Group) and prefix.count("/") < 8:
                walk(node, f"{prefix}{name}/")

    walk(file, "")
    return found or numbers[:most]


def _default_key(h5py: Any, file: Any, place: str) -> str:
    if "X" in file and (_encoding(file) == "anndata" or place.endswith(".h5ad")):
        return "X"
    if _is_matrix(h5py, file):
        return "/"
    names = _members(h5py, file)
    if len(names) == 1:
        return names[0]
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    holds = f"it holds {listed}" if names else "there are none"
    raise FormatError(f"open: '{place}' is an HDF5 file; name one of its arrays with key= ({holds}).")


def _node(h5py: Any, file: Any, place: str, key: str) -> Any:
    node = file.get(key.strip("/")) if key != "/" else file
    if node is None:
        names = ", ".join(_members(h5py, file, 12))
        raise storage_error(
            f"open: '{place}' has no {key!r}; it holds {names or 'no arrays of numbers'}.", 2, place
        )
    if not _is_matrix(h5py, node):
        kind = f"a data set of {node.dtype}" if isinstance(node, h5py.Dataset) else "a group"
        inside = (
            [f"{key.strip('/')}/{name}" for name in _members(h5py, node, 12)] if kind == "a group" else []
        )
        more = f"; it holds {', '.join(inside)}" if inside else ""
        raise FormatError(f"open: {key!r} of '{place}' is {kind}; an array of numbers is needed{more}.")
    return node


# Data sets --------------------------------------------------------------------------------------------------


def _steps(properties: Any, name: str) -> list[tuple[str, int]]:
    """Return the filters as codec steps, in the order in which they were applied."""
    steps = []
    for i in range(properties.get_nfilters()):
        code, _, values, label = properties.get_filter(i)
        known = _FILTERS.get(code)
        if known is None:
            said = _OTHER_FILTERS.get(code) or _text(label) or str(code)
            raise FormatError(
                f"open: {name}: the filter '{said}' is not read here; rewrite the data set with gzip, lzf or "
                "none (h5repack -f GZIP=1)."
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


def _check_type(h5py: Any, dataset: Any, name: str) -> tuple[str, bool]:
    """Return the dtype's name and whether its bytes are big-endian."""
    dtype = dataset.dtype
    plain = h5py.h5t.py_create(dtype, logical=True)
    if dtype.name not in _NAMES or not dataset.id.get_type().equal(plain):
        raise FormatError(
            f"open: {name}: its elements are {dtype}, stored in a way that is not read here; plain "
            "numbers are."
        )
    return dtype.name, dtype.itemsize > 1 and dtype.newbyteorder("<") != dtype


_NAMES = frozenset(
    ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def _array(h5py: Any, dataset: Any, place: str) -> _core.Array:
    """Map a data set: flat, a table of chunks, or (what HDF5 keeps among its metadata) in memory."""
    name = f"{place}{dataset.name}"
    kind, big_endian = _check_type(h5py, dataset, name)
    properties, shape = dataset.id.get_create_plist(), list(dataset.shape)
    layout = properties.get_layout()
    if layout == h5py.h5d.VIRTUAL or properties.get_external_count() > 0:
        raise FormatError(
            f"open: {name}: its elements lie in other files; copy them into one (h5repack), or open those."
        )
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


def _stored(place: str, key: str) -> Array | SparseArray:
    """Open a member as it is stored: of a CSC matrix, the CSR matrix of its transpose."""
    h5py = h5py_module("open")
    with reading(place) as file:
        node = _node(h5py, file, place, key)
        again = (_stored, (os.path.abspath(place), key))
        if isinstance(node, h5py.Dataset):
            opened = Array(_array(h5py, node, place))
            opened._opened = again
            return opened
        shape = [int(n) for n in node.attrs.get("shape", node.attrs.get("h5sparse_shape", ()))]
        shape = shape or [n for n in _binsparse(node).get("shape", ()) if isinstance(n, int) and n >= 0]
        if len(shape) != 2:
            raise FormatError(f"open: {place}{node.name}: 'shape' must be two extents; the file is damaged.")
        rows, cols = shape if _encoding(node) == "csr_matrix" else shape[::-1]
        parts = []
        for part, other in PARTS.items():
            name = part if part in node else other
            if name not in node or not isinstance(node[name], h5py.Dataset):
                raise FormatError(f"open: {place}{node.name}: '{part}' is missing; the file is damaged.")
            parts.append(_array(h5py, node[name], place))
        matrix = SparseArray(_core.csr_of(rows, cols, parts[0], parts[1], parts[2], f"{place}{node.name}"))
        matrix._opened = again
        return matrix


def open_file(place: str, key: str | None, mode: str) -> Array | SparseArray:
    """Open an array or a sparse matrix of an HDF5 file; of AnnData's, X where no key is given."""
    if mode != "r":
        raise storage_error(
            f"open: '{place}' is HDF5, which is opened for reading only; use mode='r', or copy the array "
            "with "
            "fl.convert.", 30, place
        )  # fmt: skip
    h5py = h5py_module("open")
    with reading(place) as file:
        name = key or _default_key(h5py, file, place)
        columns = _encoding(_node(h5py, file, place, name)) == "csc_matrix"
    opened = _stored(place, name)
    return opened.T if columns else opened


# What people want to know -----------------------------------------------------------------------------------


def about(place: str, key: str | None) -> dict[str, Any]:
    """Return what `info` says of a file beside what its array says: members, layout, filters."""
    h5py = h5py_module("info")
    with reading(place) as file:
        whole = ["/"] if _is_matrix(h5py, file) else []
        facts: dict[str, Any] = {"members": whole or _members(h5py, file, 40)}
        name = key or ("X" if "X" in file else facts["members"][0] if len(facts["members"]) == 1 else None)
        if name is None:
            return facts
        node = _node(h5py, file, place, name)
        facts["member"] = name
        if isinstance(node, h5py.Dataset):
            facts |= _tell(h5py, node)
        else:
            facts["encoding"] = _encoding(node)
            for part in ("data", "indices"):
                name = part if part in node else PARTS[part]
                facts[part] = ", ".join(f"{k} {v}" for k, v in _tell(h5py, node[name]).items())
        return facts


def _tell(h5py: Any, dataset: Any) -> dict[str, str]:
    """Return layout, chunks and filters of a data set as text."""
    properties = dataset.id.get_create_plist()
    layout = {0: "compact", 1: "contiguous", 2: "chunked", 3: "virtual"}.get(
        properties.get_layout(), "unknown"
    )
    facts = {"layout": layout, "stored_as": str(dataset.dtype)}
    if dataset.chunks:
        facts["chunks"] = shape_text(dataset.chunks)
        codes = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        facts["filters"] = " + ".join(_FILTERS.get(c, _OTHER_FILTERS.get(c, str(c))) for c in codes) or "none"
    return facts


# Writing ----------------------------------------------------------------------------------------------------


def _reserve(h5py: Any, group: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Make a contiguous data set whose elements are written by the engine later; return where it lies."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple(shape)
    kind = h5py.h5t.py_create(dtype, logical=True)
    made = h5py.h5d.create(group.id, name.encode(), kind, space, dcpl=properties)
    h5py.Dataset(made).attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    offset = made.get_offset()
    return -1 if offset is None else int(offset)


def _sparse_parts(source: SparseArray) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    index = np.dtype(np.int32 if max(source.nnz, *source.shape) < 2**31 else np.int64)
    rows = source._matrix.rows
    return {
        "data": ((source.nnz,), source.dtype),
        "indices": ((source.nnz,), index),
        "indptr": ((rows + 1,), index),
    }


def _axis(h5py: Any, file: Any, name: str, length: int) -> None:
    """Write what AnnData needs of an axis: a table without columns, whose rows are called "0", "1", ..."""
    group = file.create_group(name)
    group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
    group.attrs["column-order"] = np.array([], h5py.string_dtype())
    width = len(str(max(length - 1, 0)))
    names = group.create_dataset("_index", (length,), h5py.string_dtype("ascii", width))
    names.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
    for first in range(0, length, 1 << 16):
        end = min(first + (1 << 16), length)
        names[first:end] = np.arange(first, end).astype(f"S{width}")


def _annotated(h5py: Any, built: str, shape: tuple[int, ...]) -> None:
    """Make an AnnData file of one that holds X."""
    with h5py.File(built, "r+", libver="earliest") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        for name, length in zip(("obs", "var"), shape, strict=True):
            _axis(h5py, file, name, length)
        for name in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
            file.create_group(name).attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})


def write(call: Call, source: Any, built: str, key: str | None, report: Reported) -> None:
    """Write one array (X) to the new file `built`, contiguous; sparse, and `key` "h5ad", as AnnData does."""
    h5py = h5py_module("convert")
    if key == "h5ad" and len(source.shape) != 2:
        raise FormatError(
            f"convert: AnnData holds matrices and the source has {len(source.shape)} dimensions; write .h5."
        )
    name = "X"
    sparse = isinstance(source, SparseArray)
    parts = _sparse_parts(source) if sparse else {name: (tuple(source.shape), source.dtype)}
    with h5py.File(built, "x", libver="earliest") as file:
        node: Any = file
        if sparse:
            node = file.require_group(name)
            node.attrs["encoding-type"] = "csc_matrix" if source._transposed else "csr_matrix"
            node.attrs["encoding-version"] = "0.1.0"
            node.attrs["shape"] = np.array(source.shape, np.int64)
        places = {part: _reserve(h5py, node, part, shape, dtype) for part, (shape, dtype) in parts.items()}
    if key == "h5ad":
        _annotated(h5py, built, tuple(source.shape))
    targets = {
        part: _core.open_raw(built, dtype.name, list(shape), offset=places[part], writable=True)
        for part, (shape, dtype) in parts.items() if places[part] >= 0
    }  # fmt: skip
    if not sparse:
        for target in targets.values():
            copy(call, source, target, report)
        return
    _write_sparse(call, source, targets, report)


def _write_sparse(call: Call, source: SparseArray, targets: dict[str, _core.Array], report: Reported) -> None:
    out = {part: Array(target, "r+") for part, target in targets.items()}
    for array in out.values():
        array._dirty = True  # built aside: no mark is needed
    at = 0
    for row, pointers, columns, values in row_blocks(call, source):
        end = at + len(values)
        if len(values):
            out["data"]._assign(call, np.s_[at:end], values)
            out["indices"]._assign(call, np.s_[at:end], columns)
        first = 0 if row == 0 else 1
        out["indptr"]._assign(call, np.s_[row + first : row + len(pointers)], pointers[first:] + at)
        at = end
        report.at(at * (source.dtype.itemsize + 4))
    if source._matrix.rows == 0:
        out["indptr"]._assign(call, np.s_[0:1], np.zeros(1))
    for target in targets.values():
        target.flush()
