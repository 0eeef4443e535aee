"""Flat binary files, described by whoever opens them."""

from __future__ import annotations

import errno
import operator
import os
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._array.array import Array
from .._array.handle import opened_by
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text, storage_error
from .._errors.regular import check_regular
from .._resume.registers import opener
from .._sparse.array import SparseArray
from .registry import SIGNATURE

__all__ = ["behind_user_block", "open_raw", "open_raw_csr"]


def open_raw(
    path: str | os.PathLike[str], dtype: DTypeLike, shape: int | tuple[int, ...], *, order: str = "C",
    offset: int = 0, leading: int | None = None, mode: str = "r",
) -> Array:  # fmt: skip
    """Open a flat binary file as an array; nothing is loaded and nothing is copied.

    Parameters
    ----------
    path : path
        A file with the elements one after the other, as Fortran, C, MATLAB's `fwrite` or
        `numpy.tofile` write.
    dtype : dtype
        Type of the elements; big-endian ones (``">f4"``) are read and written as they are.
    shape : int or tuple of int
        Extent of every dimension.
    order : {"C", "F"}
        "C": the last dimension is contiguous (rows); "F": the first is (columns).
    offset : int
        Bytes before the first element; any number.
    leading : int, optional
        Elements from the start of one row (order "F": column) to the start of the next, as in BLAS. What lies
        between them is neither read as elements nor ever written.
    mode : {"r", "r+"}
        "r+" allows assignment, in place: bytes beside the elements keep their values.

    Returns
    -------
    Array

    Notes
    -----
    Cost: none until parts are asked for; then the 512-byte blocks around every contiguous run are read, or
    one span over all runs where the gaps are small. Assignments are in place and not atomic.
    """
    return _open_flat("open_raw", path, dtype, shape, order, offset, leading, mode)


def _open_flat(
    who: str, path: str | os.PathLike[str], dtype: DTypeLike, shape: Any, order: str = "C", offset: int = 0,
    leading: int | None = None, mode: str = "r",
) -> Array:  # fmt: skip
    """Open a flat file for the routine `who`."""
    if mode not in ("r", "r+"):
        raise ValueError(f"{who}: mode is {mode!r}; choose 'r' or 'r+'.")
    if order not in ("C", "F"):
        raise ValueError(f"{who}: order is {order!r}; choose 'C' or 'F'.")
    place = path_text(who, path)
    kind = np.dtype(dtype)
    if kind.kind not in "biufc" or kind.name not in _core_dtypes:
        raise ShapeError(f"{who}: dtype {kind} is not supported; use bool, integers, floats or complex.")
    try:
        extents = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,))]
        start, step = operator.index(offset), operator.index(0 if leading is None else leading)
    except TypeError:
        raise ShapeError(
            f"{who}: shape {shape!r}, offset {offset!r} and leading {leading!r} must be whole numbers."
        ) from None
    if start < 0 or step < 0 or (leading is not None and step == 0):
        raise ShapeError(
            f"{who}: offset {offset} and leading {leading}; offset must be 0 or more and leading 1 or more."
        )
    if os.path.isdir(place):
        raise FormatError(f"{who}: '{place}' is a directory; name a flat file, or use fl.open.")
    if not os.path.exists(place):
        raise storage_error(f"{who}: '{place}' does not exist.", errno.ENOENT, place)
    big_endian = kind.newbyteorder("<") != kind and kind.itemsize > 1
    check_regular(who, place)
    core = _core.open_raw(place, kind.name, extents, order, start, step, mode == "r+", big_endian)
    again = (os.path.abspath(place), kind.str, tuple(extents), order, start, leading, mode)
    return opened_by("flat", *again, handle=Array(core, mode))


@opener("flat")
def _open_raw_again(
    path: str, dtype: str, shape: tuple[int, ...], order: str, offset: int, leading: int | None, mode: str
) -> Array:
    return open_raw(path, dtype, tuple(shape), order=order, offset=offset, leading=leading, mode=mode)


def open_raw_csr(
    values: str | os.PathLike[str], indices: str | os.PathLike[str], pointers: str | os.PathLike[str],
    shape: tuple[int, int], *, dtype: DTypeLike, index_dtype: DTypeLike = "int64",
) -> SparseArray:  # fmt: skip
    """Open three flat binary files as a sparse matrix by rows; nothing is loaded and nothing is copied.

    Parameters
    ----------
    values, indices, pointers : path
        The stored values, their columns (from 0, increasing in a row) and ``rows + 1`` pointers from 0 on,
        one after the other without a header, as BLAS-on-flash and ``numpy.tofile`` write.
    shape : tuple of int
        Rows and columns.
    dtype : dtype
        Of the values: a real number.
    index_dtype : dtype
        Of indices and pointers: int64 or int32.

    Returns
    -------
    SparseArray
        Of as many values as the last pointer says.

    Raises
    ------
    FormatError
        Files are shorter than that, or pointers do not begin at 0.
    ShapeError
        `shape` or a dtype is none.

    Notes
    -----
    Cost: two pointers, until something is computed; the first time all pointers, to cut the matrix into
    panels. Columns and pointers are looked at where they are read.
    """
    who = "open_raw_csr"
    try:
        rows, cols = (operator.index(n) for n in shape)
    except (TypeError, ValueError):
        raise ShapeError(
            f"{who}: shape is {shape!r}; two whole numbers, rows and columns, are needed."
        ) from None
    narrow = np.dtype(index_dtype)
    if narrow not in (np.int32, np.int64):
        raise ShapeError(f"{who}: index_dtype is {narrow}; int64 or int32 is needed.")
    if rows < 0 or cols < 0:
        raise ShapeError(f"{who}: shape is {shape!r}; extents must not be negative.")
    if np.dtype(dtype).kind not in "iufc":
        raise ShapeError(f"{who}: dtype is {np.dtype(dtype)}; values are numbers.")
    ends = _open_flat(who, pointers, narrow, rows + 1)
    number = int(ends[rows])
    if number < 0:
        raise FormatError(
            f"{who}: '{path_text(who, pointers)}' ends with the pointer {number}; the number of values is "
            "needed."
        )
    data = _open_flat(who, values, dtype, number)
    columns = _open_flat(who, indices, narrow, number)
    place = path_text(who, values)
    matrix = SparseArray(_core.csr_of(rows, cols, data._core, columns._core, ends._core, place))
    files = [os.path.abspath(path_text(who, one)) for one in (values, indices, pointers)]
    return opened_by("flat csr", *files, rows, cols, np.dtype(dtype).str, narrow.str, handle=matrix)


@opener("flat csr")
def _open_raw_csr_again(
    values: str, indices: str, pointers: str, rows: int, cols: int, dtype: str, index_dtype: str
) -> SparseArray:
    return open_raw_csr(values, indices, pointers, (rows, cols), dtype=dtype, index_dtype=index_dtype)


_core_dtypes = frozenset(
    ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def behind_user_block(file: BinaryIO) -> bytes:
    """Return the head of the HDF5 file that a long block of the user's own hides; b"" where none is."""
    at, length = 4096, os.fstat(file.fileno()).st_size
    while at < length:
        file.seek(at)
        if (head := file.read(512)).startswith(SIGNATURE):
            return head
        at *= 2  # where HDF5 allows it to begin
    return b""
