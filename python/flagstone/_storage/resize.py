"""Arrays that grow, shrink and go."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from typing import Any

from .. import _core
from .._array.array import STAGING, Array, open_core
from .._array.elementwise import operations
from .._array.transactions import _open as open_transactions
from .._output.destination import check_new
from .._output.replaceable import _foreign, _is_npy
from .._resume.record import sync_folder
from .._runtime.call import Call
from ..errors import Error, FormatError, ShapeError, StorageError, path_text, storage_error

__all__ = ["delete"]


def _resize(array: Array, shape: Any, memory: Any) -> None:
    call = Call("resize", memory)
    owner, path = array._owner, array.path
    extents = check_new("resize", shape, array.dtype)[0]
    if len(extents) != array.ndim:
        raise ShapeError(
            f"resize: the array has {array.ndim} dimensions and {len(extents)} extents were given; give one "
            "for each."
        )
    if array._transposed:
        extents = extents[::-1]
    if path is None or not os.path.isdir(path):
        where = f"'{path}' is no Zarr array" if path else "an array in memory has no chunks"
        raise FormatError(f"resize: {where}; only Zarr arrays grow in place (fl.convert makes one).")
    if array.mode != "r+":
        raise storage_error(
            f"resize: '{path}' is open for reading; open it with mode='r+'.", errno.EACCES, path
        )
    if any(one.covers(path) for one in open_transactions):
        raise Error(f"resize: '{path}' belongs to an open transaction; resize it before or after.")
    chunk = owner._core.unpack_bytes + _chunk_bytes(owner)
    call.room("chunks at the edge", 2 * chunk + STAGING)
    with owner._writing:
        array.flush()
        forget_consolidated(path)
        try:
            call.engine.resize(path, list(extents), STAGING)
        except BaseException as failed:  # it has one shape or the other
            owner._handle = open_core(path, "r+")
            if not isinstance(failed, StorageError) or tuple(owner._core.shape) != tuple(extents):
                raise
            raise storage_error(
                f"resize: '{path}' has its new shape, and what lay outside it could not be cleaned away "
                f"({os.strerror(failed.errno or 0)}); resize it once more when that is mended.",
                failed.errno or 0, path,
            ) from failed  # fmt: skip
        owner._handle = open_core(path, "r+")


def _chunk_bytes(array: Array) -> int:
    nbytes = array.dtype.itemsize
    for extent in array.chunks:
        nbytes *= extent
    return nbytes


def forget_consolidated(path: str) -> None:
    """Remove the copies of an array's metadata from the groups above it: they would not know of a change."""
    place = os.path.dirname(os.path.abspath(path))
    while os.path.isdir(place) and _core.is_zarr_group(place):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{place}/.zmetadata")
        file = f"{place}/zarr.json"
        if os.path.exists(file):
            with open(file, encoding="utf-8") as text:
                root = json.load(text)
            if root.pop("consolidated_metadata", None) is not None:
                with open(f"{file}.part", "w", encoding="utf-8") as text:
                    text.write(json.dumps(root, indent=2))
                    text.flush()
                    os.fsync(text.fileno())
                os.replace(f"{file}.part", file)
        place = os.path.dirname(place)


def delete(path: str | os.PathLike[str], key: str | None = None) -> None:
    """Delete an array, or a group with all it holds, from the disk: at once and whole.

    Parameters
    ----------
    path : path
        A Zarr array or group, or a `.npy` file. Anything else, and a directory where other files lie too, is
        refused.
    key : str, optional
        Which member of the group ("A", "obsm/X_pca"). Default: all of it.

    Raises
    ------
    StorageError
        There is nothing, or something else, or somebody writes to it now.

    Notes
    -----
    It disappears by one rename; then its files are removed. Who has it open keeps what is held open.
    """
    place = path_text("delete", path)
    if key is not None:
        if not isinstance(key, str) or not key or ".." in key.split("/") or key.startswith("/"):
            raise ValueError(f"delete: key is {key!r}; name a member of the group.")
        place = f"{place}/{key}"
    if not os.path.lexists(place):
        raise storage_error(f"delete: '{place}' does not exist.", errno.ENOENT, place)
    _refuse_unless_ours(place)
    locks = [_core.WriterLock(array) for array in _arrays(place) if os.path.isdir(f"{array}/__flagstone")]
    _remove(place)
    del locks  # held until all is gone


def _refuse_unless_ours(place: str) -> None:
    if os.path.islink(place):
        what = "is a link; delete what it names"
    elif os.path.isdir(place):
        known = _core.is_zarr_array(place) or _core.is_zarr_group(place)
        foreign = _foreign(place) if known else ""
        if known and not foreign:
            return
        what = (
            f"holds '{foreign}', which is no part of a Zarr store" if foreign else "is no Zarr array or group"
        )
    elif place.endswith(".npy") and _is_npy(place):
        return
    else:
        what = "is no Zarr array or group and no .npy file"
    raise storage_error(f"delete: '{place}' {what}; it is left as it is.", errno.EINVAL, place)


def _arrays(place: str) -> Iterator[str]:
    for folder, folders, _ in os.walk(place):
        if _core.is_zarr_array(folder):
            folders.clear()
            yield folder


def _remove(place: str) -> None:
    parent, name = os.path.split(os.path.abspath(place))
    # Named and locked as what an output builds aside: the next writer of this name removes what we do not.
    aside = f"{parent}/.{name}.flagstone-tmp-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        try:
            forget_consolidated(place)
            lock = stack.enter_context(open(f"{aside}.lock", "w", encoding="utf-8"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(place, aside)
        except OSError as failed:
            with contextlib.suppress(OSError):
                os.unlink(f"{aside}.lock")
            raise storage_error(
                f"delete: '{place}' is left as it is, because its directory cannot be changed "
                f"({os.strerror(failed.errno or 0)}).", failed.errno or 0, place,
            ) from None  # fmt: skip
        try:
            sync_folder(parent)
            shutil.rmtree(aside) if os.path.isdir(aside) else os.unlink(aside)
            os.unlink(f"{aside}.lock")
        except OSError as failed:  # the files stay until the name is known to have gone from the disk
            raise storage_error(
                f"delete: '{place}' is deleted for everybody, but it could not be synced, or not all files "
                f"removed ({os.strerror(failed.errno or 0)}); the next writer of that path does that.",
                failed.errno or 0, place,
            ) from None  # fmt: skip


operations["resize"] = _resize
