"""Opening what lies on disk: Zarr v3 arrays and groups, CSR groups, `.npy`, SciPy `.npz`."""

from __future__ import annotations

import errno
import os

from . import _core
from .array import Array, open_array
from .errors import FormatError, storage_error
from .sparse import SparseArray

__all__ = ["open_path"]


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
            f"open: '{place}' is a directory without zarr.json, so it is no Zarr v3 array or group."
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
