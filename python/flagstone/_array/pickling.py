"""Which file a handle was made for, so that whoever gets it by path can tell whether it is still that one."""

from __future__ import annotations

import errno
import os

from .._errors.classes import FormatError
from .._errors.messages import storage_error

__all__ = ["check_stamp", "stamp"]


def stamp(path: str) -> tuple[int, ...]:
    """Return inode, size and time of a Zarr array's or group's metadata; inode and size of a file.

    Metadata is written once, so any later time is another array. A file's elements may be assigned in place,
    which changes its time but not what it is.
    """
    status = os.stat(path)
    for name in ("zarr.json", ".zarray", ".zgroup"):
        metadata = os.path.join(path, name)
        if os.path.isfile(metadata):
            status = os.stat(metadata)
            return status.st_ino, status.st_size, status.st_mtime_ns
    return status.st_ino, status.st_size


def check_stamp(path: str, expected: tuple[int, ...]) -> None:
    """Refuse a path whose array is gone or is another one than when the stamp was taken."""
    try:
        found = stamp(path)
    except OSError as error:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise
        raise storage_error(
            f"unpickle: '{path}' went away since the array was pickled; arrays travel by path, so keep the "
            "file (a result without out= goes with its last handle).",
            errno.ENOENT,
            path,
        ) from None
    if found != expected:
        raise FormatError(
            f"unpickle: '{path}' was replaced since the array was pickled; open the new one and pickle that."
        )
