"""Sparse matrices written as `scipy.sparse.save_npz` does, member after member, inside the limit."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ..._array.array import Array
from ..._array.handle import is_transposed
from ..._array.requests import take
from ..._runtime.call import Call
from ..._runtime.streaming import STEP as _STEP
from ..._runtime.streaming import Reported
from ..._sparse.array import SparseArray, matrix_of
from ..._sparse.row_blocks import row_blocks
from ..._sparse.validation import check_columns, check_pointers
from . import dense

__all__ = ["write"]


def _put(archive: zipfile.ZipFile, name: str, values: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w") as file:
        npy_format.write_array(file, values)


def write(call: Call, source: Any, built: str, key: str | None, report: Reported) -> None:
    """Write to the new file `built` what `scipy.sparse.save_npz(compressed=False)` or `np.savez` would."""
    if not isinstance(source, SparseArray):
        dense.write(call, source, built, report)
        return
    index = np.dtype(np.int32 if max(source.nnz, *source.shape) < 2**31 else np.int64)
    if source.lazy:
        _write_view(call, source, built, index, report)
        return
    core = matrix_of(source)
    parts = {
        "indptr": (core.indptr, index),
        "indices": (core.indices, index),
        "data": (core.data, source.dtype),
    }
    unpacked = max(part.unpack_bytes for part, _ in parts.values())
    most = max(1, min(_STEP, max(part.shape[0] for part, _ in parts.values())))
    step = call.share("pieces of the matrix", 64, most, fixed=unpacked, least=1 << 15)
    moved = 0
    with zipfile.ZipFile(built, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, (stored, dtype) in parts.items():
            part, length = Array(stored), stored.shape[0]
            with _vector(archive, name, length, dtype) as file:
                for first in range(0, length, step):
                    taken = take(part, call, np.s_[first : first + step + (name == "indptr")])
                    if name == "indices":
                        check_columns(taken, core.cols, first, source.path)
                    if name == "indptr":
                        wide = taken.astype(np.int64, copy=False)
                        check_pointers(wide, first, core.rows, core.nnz, source.path)
                    values = np.ascontiguousarray(taken[:step], dtype)
                    file.write(values.data)
                    moved += values.nbytes if name == "data" else 0
                    report.at(moved)
        _put_kind(archive, source)


@contextlib.contextmanager
def _vector(archive: zipfile.ZipFile, name: str, length: int, dtype: np.dtype[Any]) -> Iterator[Any]:
    """Open a member for so many elements."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": (length,)}
        npy_format.write_array_header_1_0(file, header)
        yield file


def _put_kind(archive: zipfile.ZipFile, source: SparseArray) -> None:
    _put(archive, "format", np.array(b"csc" if is_transposed(source) else b"csr"))
    _put(archive, "shape", np.array(source.shape, np.int64))


def _write_view(call: Call, source: SparseArray, built: str, index: np.dtype[Any], report: Reported) -> None:
    """Write what a view sees; it is read once for each of the three parts, which lie one after the other."""
    rows = source.shape[int(is_transposed(source))]
    parts = {"indptr": (rows + 1, index), "indices": (source.nnz, index), "data": (source.nnz, source.dtype)}
    moved = 0
    with zipfile.ZipFile(built, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, (length, dtype) in parts.items():
            with _vector(archive, name, length, dtype) as file:
                end = 0
                if name == "indptr":
                    file.write(np.zeros(1, index).data)
                for _, pointers, columns, values in row_blocks(call, source, beside=16):
                    part = {"indptr": pointers[1:] + end, "indices": columns, "data": values}[name]
                    file.write(np.ascontiguousarray(part, dtype).data)
                    end += len(values)
                    moved += values.nbytes // len(parts)
                    report.at(moved)
        _put_kind(archive, source)
