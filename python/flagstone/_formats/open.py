"""Opening what lies on disk: Zarr directories, the formats of single files, flat binary files."""

from __future__ import annotations

import errno
import operator
import os
from typing import BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._array.array import Array
from .._sparse.array import SparseArray
from ..errors import FormatError, ShapeError, path_text, storage_error
from .registry import FORMATS, SIGNATURE, of_file
from .zarr.groups import open_directory

__all__ = ["head_of", "open_path", "open_raw"]


def open_path(
    path: str | os.PathLike[str], key: str | None = None, mode: str = "r", *, verify: bool = False
) -> Array | SparseArray:
    """Open an array or a sparse matrix; nothing is loaded.

    Parameters
    ----------
    path : path
        In place: a Zarr array or group (v2, v3), a CSR or CSC group (ours or AnnData's), `.npy`, HDF5 and
        `.h5ad` (needs h5py). Imported into scratch once, by streaming (`import_seconds` says how long): SciPy
        `.npz`, MatrixMarket `.mtx[.gz]`, SVMlight, numeric columns of Parquet and Arrow (needs pyarrow).
    key : str, optional
        Which member: of a group or an HDF5 file its path ("layers/counts"; AnnData's X by default), of
        Parquet and Arrow names of columns with commas (all numeric ones by default), of SVMlight "labels".
    mode : {"r", "r+"}
        "r+" allows assignment, where the format is written in place (Zarr made here, `.npy`).
    verify : bool
        Verify parts too: of a Zarr array every chunk that a request touches is read whole and compared with
        its checksum, which costs the rest of the chunk. Without it chunks are verified where all of a chunk
        is asked for.

    Returns
    -------
    Array or SparseArray
        A CSC matrix is the transpose of a CSR one: products take it, `fl.convert` turns it round.
    """
    if mode not in ("r", "r+"):
        raise ValueError(f"open: mode is {mode!r}; choose 'r' or 'r+'.")
    place = path_text("open", path)
    if not os.path.exists(place):
        raise storage_error(f"open: '{place}' does not exist.", errno.ENOENT, place)
    if os.path.isdir(place):
        opened = open_directory(place, key, mode)
        return _verified(opened, mode) if verify else opened
    if verify:
        raise FormatError(f"open: '{place}' is a file, which has no checksums of chunks; leave verify out.")
    one = of_file(place, head_of(place))
    if key is not None and not one.members:
        raise FormatError(f"open: '{place}' is a file and has no member {key!r}; leave key out.")
    if mode != "r" and one.imported:
        raise storage_error(
            f"open: '{place}' ({one.name}) is imported for reading; use mode='r', or fl.convert it and "
            "open that.",
            errno.EROFS, place,
        )  # fmt: skip
    found: Array | SparseArray = one.module().open_file(place, key, mode)
    return found


def _verified(opened: Array | SparseArray, mode: str) -> Array:
    """Return the same array, which verifies whatever it reads."""
    if not isinstance(opened, Array) or opened.path is None:
        raise FormatError(
            "open: verify=True is for dense arrays; the chunks of a sparse matrix are read whole, and "
            "verified, anyway."
        )
    path = os.path.abspath(opened.path)
    array = Array(_core.open_zarr(path, mode == "r+", True), mode)
    if mode == "r":
        array._opened = (_verified_again, (path,))
    return array


def _verified_again(path: str) -> Array:
    return Array(_core.open_zarr(path, False, True), "r")


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
    if mode not in ("r", "r+"):
        raise ValueError(f"open_raw: mode is {mode!r}; choose 'r' or 'r+'.")
    if order not in ("C", "F"):
        raise ValueError(f"open_raw: order is {order!r}; choose 'C' or 'F'.")
    place = path_text("open_raw", path)
    kind = np.dtype(dtype)
    if kind.kind not in "biufc" or kind.name not in _core_dtypes:
        raise ShapeError(f"open_raw: dtype {kind} is not supported; use bool, integers, floats or complex.")
    try:
        extents = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,))]
        start, step = operator.index(offset), operator.index(0 if leading is None else leading)
    except TypeError:
        raise ShapeError(
            f"open_raw: shape {shape!r}, offset {offset!r} and leading {leading!r} must be whole numbers."
        ) from None
    if start < 0 or step < 0 or (leading is not None and step == 0):
        raise ShapeError(
            f"open_raw: offset {offset} and leading {leading}; offset must be 0 or more and leading 1 or "
            "more."
        )
    if os.path.isdir(place):
        raise FormatError(f"open_raw: '{place}' is a directory; name a flat file, or use fl.open.")
    if not os.path.exists(place):
        raise storage_error(f"open_raw: '{place}' does not exist.", errno.ENOENT, place)
    big_endian = kind.newbyteorder("<") != kind and kind.itemsize > 1
    _check_regular("open_raw", place)
    core = _core.open_raw(place, kind.name, extents, order, start, step, mode == "r+", big_endian)
    array = Array(core, mode)
    array._opened = (
        _open_raw_again,
        (os.path.abspath(place), kind.str, tuple(extents), order, start, leading, mode),
    )
    return array


def _open_raw_again(
    path: str, dtype: str, shape: tuple[int, ...], order: str, offset: int, leading: int | None, mode: str
) -> Array:
    return open_raw(path, dtype, shape, order=order, offset=offset, leading=leading, mode=mode)


_core_dtypes = frozenset(
    ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def _check_regular(who: str, place: str) -> None:
    """Refuse what is no file of bytes: opening a pipe would wait for whoever writes into it."""
    if os.path.exists(place) and not os.path.isfile(place):
        raise FormatError(f"{who}: '{place}' is a pipe, a socket or a device; name a file or a directory.")


def _behind_user_block(file: BinaryIO) -> bytes:
    """Return the head of the HDF5 file that a long block of the user's own hides; b"" where none is."""
    at, length = 4096, os.fstat(file.fileno()).st_size
    while at < length:
        file.seek(at)
        if (head := file.read(512)).startswith(SIGNATURE):
            return head
        at *= 2  # where HDF5 allows it to begin
    return b""


def head_of(place: str) -> bytes:
    """Return the first bytes of a file, by which formats are told apart."""
    _check_regular("open", place)
    try:
        with open(place, "rb") as file:
            head = file.read(4096)
            if not any(one.recognises(head) for one in FORMATS):
                head = _behind_user_block(file) or head
    except OSError as error:
        raise storage_error(
            f"open: '{place}' cannot be read ({error.strerror}).", error.errno or 0, place
        ) from None
    if not head:
        raise FormatError(f"open: '{place}' is empty.")
    return head
