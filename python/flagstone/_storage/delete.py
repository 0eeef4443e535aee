"""Arrays and groups that go: at once and whole."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator

from .. import _core
from .._errors.messages import path_text, storage_error
from .._output.replaceable import exists, foreign, is_npy
from .._resume.record import sync_folder
from .resize import forget_consolidated

__all__ = ["delete"]


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
    It disappears by one rename; then its files are removed. Who has it open keeps what is held open. What a
    lower layer of an overlay holds cannot be renamed: its metadata go first, then the rest.
    """
    place = path_text("delete", path)
    if key is not None:
        if not isinstance(key, str) or not key or ".." in key.split("/") or key.startswith("/"):
            raise ValueError(f"delete: key is {key!r}; name a member of the group.")
        place = f"{place}/{key}"
    if not exists(place):
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
        other = foreign(place) if known else ""
        if known and not other:
            return
        what = f"holds '{other}', which is no part of a Zarr store" if other else "is no Zarr array or group"
    elif place.endswith(".npy") and os.path.isfile(place) and is_npy(place):
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
    aside = f"{parent}/.{name}{_core.build_mark}{os.urandom(8).hex()}"
    with contextlib.ExitStack() as stack:
        try:
            forget_consolidated(place)
            stack.callback(_core.FileLock.make(f"{aside}.lock").close)
            os.rename(place, aside)
        except OSError as failed:
            with contextlib.suppress(OSError):
                os.unlink(f"{aside}.lock")
            if failed.errno == errno.EXDEV and os.path.isdir(place):  # of a lower layer of an overlay
                _core.Output(place, True).remove_replaced()
                return
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
