"""HDF5 and `.h5ad` written anew: h5py makes the data sets, the engine fills them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core
from ..._array.handle import built_aside, is_transposed
from ..._array.requests import assign
from ..._errors.classes import FormatError
from ..._output.axis_names import Names, names_of
from ..._runtime.call import Call
from ..._runtime.streaming import Reported
from ..._sparse.array import SparseArray
from ..._sparse.row_blocks import row_blocks, rows_bytes
from ..._sparse.validation import check_listed
from ..._storage.copy import copy, room_to_copy
from .datasets import h5py_module

__all__ = ["write"]


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
    rows = source.shape[int(is_transposed(source))]
    return {
        "data": ((source.nnz,), source.dtype),
        "indices": ((source.nnz,), index),
        "indptr": ((rows + 1,), index),
    }


def _axis(h5py: Any, file: Any, name: str, length: int, given: Names | None) -> None:
    """Write what AnnData needs of an axis: a table without columns; its rows have names, or "0", "1" ..."""
    group = file.create_group(name)
    group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
    group.attrs["column-order"] = np.array([], h5py.string_dtype())
    if given is not None:
        names = group.create_dataset("_index", (length,), h5py.string_dtype("utf-8"))
        names.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
        for first in range(0, length, 1 << 16):
            names[first : first + (1 << 16)] = given[first : first + (1 << 16)].astype(object)
        return
    width = len(str(max(length - 1, 0)))
    names = group.create_dataset("_index", (length,), h5py.string_dtype("ascii", width))
    names.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
    for first in range(0, length, 1 << 16):
        end = min(first + (1 << 16), length)
        names[first:end] = np.arange(first, end).astype(f"S{width}")


def _annotated(h5py: Any, built: str, source: Any) -> None:
    """Make an AnnData file of one that holds X."""
    with h5py.File(built, "r+", libver="earliest") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        for axis, name in enumerate(("obs", "var")):
            _axis(h5py, file, name, source.shape[axis], names_of(source, axis))
        for name in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
            file.create_group(name).attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})


def _beside(source: SparseArray) -> int:
    """Return what writing an entry holds beside it."""
    return 2 * source.dtype.itemsize + 24


def write(call: Call, source: Any, built: str, key: str | None, report: Reported) -> None:
    """Write one array (X) to the new file `built`, contiguous; sparse, and `key` "h5ad", as AnnData does."""
    h5py = h5py_module("convert")
    if key == "h5ad" and len(source.shape) != 2:
        raise FormatError(
            f"convert: AnnData holds matrices and the source has {len(source.shape)} dimensions; write .h5."
        )
    name = "X"
    sparse = isinstance(source, SparseArray)
    if sparse:
        call.room("rows of the matrix", rows_bytes(source, _beside(source)))
    else:
        room_to_copy(call, source)
    if sparse and key == "h5ad":
        check_listed(call.who, source.shape, max(source.shape), "names")
    parts = _sparse_parts(source) if sparse else {name: (tuple(source.shape), source.dtype)}
    with h5py.File(built, "x", libver="earliest") as file:
        node: Any = file
        if sparse:
            node = file.require_group(name)
            node.attrs["encoding-type"] = "csc_matrix" if is_transposed(source) else "csr_matrix"
            node.attrs["encoding-version"] = "0.1.0"
            node.attrs["shape"] = np.array(source.shape, np.int64)
        places = {part: _reserve(h5py, node, part, shape, dtype) for part, (shape, dtype) in parts.items()}
    if key == "h5ad":
        _annotated(h5py, built, source)
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
    out = {part: built_aside(target) for part, target in targets.items()}
    at = 0
    for row, pointers, columns, values in row_blocks(call, source, beside=_beside(source)):
        end = at + len(values)
        if len(values):
            assign(out["data"], call, np.s_[at:end], values)
            assign(out["indices"], call, np.s_[at:end], columns)
        first = 0 if row == 0 else 1
        assign(out["indptr"], call, np.s_[row + first : row + len(pointers)], pointers[first:] + at)
        at = end
        report.at(at * (source.dtype.itemsize + 4))
    if source.shape[int(is_transposed(source))] == 0:
        assign(out["indptr"], call, np.s_[0:1], np.zeros(1))
    for target in targets.values():
        target.flush()
