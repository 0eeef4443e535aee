"""Opening what lies on disk: Zarr v3 arrays and groups, CSR groups, `.npy`, SciPy `.npz`."""

from __future__ import annotations

import errno
import operator
import os

import numpy as np
from numpy.typing import DTypeLike

from . import _core
from .array import Array, open_array
from .errors import FormatError, ShapeError, storage_error
from .sparse import SparseArray

__all__ = ["open_path", "open_raw"]


def open_path(path: str | os.PathLike[str], key: str | None = None, mode: str = "r") -> Array | SparseArray:
    """Open an array or a sparse matrix; nothing is loaded.

    Parameters
    ----------
    path : path
        A Zarr v3 array or group, a CSR group (ours or AnnData's), a `.npy` file (in place, any alignment and
        order) or a SciPy `.npz` (csr, csc, coo: imported into scratch once, by streaming; `import_seconds`
        says how long).
    key : str, optional
        Which member of a group.
    mode : {"r", "r+"}
        "r+" allows assignment.

    Returns
    -------
    Array or SparseArray
    """
    if mode not in ("r", "r+"):
        raise ValueError(f"open: mode is {mode!r}; choose 'r' or 'r+'.")
    place = os.fspath(path)
    if not os.path.exists(place):
        raise storage_error(f"open: '{place}' does not exist.", errno.ENOENT, place)
    if os.path.isdir(place):
        return _open_directory(place, key, mode)
    if key is not None:
        raise FormatError(f"open: '{place}' is a file and has no member {key!r}; leave key out.")
    return _open_file(place, mode)


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
    place = os.fspath(path)
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


def _open_directory(place: str, key: str | None, mode: str) -> Array | SparseArray:
    if key is not None:
        inner = os.path.normpath(os.path.join(place, key))
        if not inner.startswith(os.path.normpath(place) + os.sep) or not os.path.isdir(inner):
            raise storage_error(
                f"open: '{place}' has no member {key!r}{_members(place)}.", errno.ENOENT, inner
            )
        return _open_directory(inner, None, mode)
    if _core.is_csr_group(place):
        return SparseArray(_core.open_csr(place))
    if _core.is_zarr_array(place):
        return open_array(place, mode)
    if not _core.is_zarr_group(place):
        if os.path.exists(f"{place}/zarr.json"):
            return open_array(place, mode)  # says what is wrong with it
        raise FormatError(
            f"open: '{place}' is a directory without zarr.json (or .zarray, .zgroup), so it is no Zarr array "
            "or group."
        )
    _, arrays, groups = _core.open_group(place)
    if len(arrays) == 1 and not groups:
        return open_array(f"{place}/{arrays[0]}", mode)
    if len(groups) == 1 and not arrays:
        return _open_directory(f"{place}/{groups[0]}", None, mode)
    raise FormatError(f"open: '{place}' is a group{_members(place)}; name one with key=.")


def _members(place: str) -> str:
    try:
        _, arrays, groups = _core.open_group(place)
    except (FormatError, OSError):
        return ""
    names = [*arrays, *(f"{name}/" for name in groups)]
    return f" that holds {', '.join(names) if names else 'nothing'}"


def _open_file(place: str, mode: str) -> Array | SparseArray:
    try:
        with open(place, "rb") as file:
            magic = file.read(6)
    except OSError as error:
        raise storage_error(
            f"open: '{place}' cannot be read ({error.strerror}).", error.errno or 0, place
        ) from None
    if not magic:
        raise FormatError(f"open: '{place}' is empty.")
    if magic == b"\x93NUMPY":
        return open_array(place, mode)
    if magic[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        from .npz import import_npz  # with zipfile, which most processes do not need

        return import_npz(place)
    raise FormatError(
        f"open: '{place}' is no format that is read here: Zarr v3 (a directory), .npy, or .npz from "
        "scipy.sparse."
    )
