"""Opening what lies on disk: Zarr directories and the formats of single files."""

from __future__ import annotations

import errno
import os

from .. import _core
from .._array.array import Array
from .._array.handle import opened_by
from .._errors.classes import FormatError
from .._errors.messages import path_text, storage_error
from .._resume.openers import opener
from .._sparse.array import SparseArray
from .raw import behind_user_block, check_regular
from .registry import FORMATS, of_file
from .zarr.groups import open_directory

__all__ = ["head_of", "open_path"]


@opener("path")
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
    return _verified_again(path) if mode == "r" else Array(_core.open_zarr(path, True, True), mode)


@opener("verified")
def _verified_again(path: str) -> Array:
    return opened_by("verified", path, handle=Array(_core.open_zarr(path, False, True), "r"))


def head_of(place: str) -> bytes:
    """Return the first bytes of a file, by which formats are told apart."""
    check_regular("open", place)
    try:
        with open(place, "rb") as file:
            head = file.read(4096)
            if not any(one.recognises(head) for one in FORMATS):
                head = behind_user_block(file) or head
    except OSError as error:
        raise storage_error(
            f"open: '{place}' cannot be read ({error.strerror}).", error.errno or 0, place
        ) from None
    if not head:
        raise FormatError(f"open: '{place}' is empty.")
    return head
