"""Files of bytes, opened without waiting: a pipe would wait for its other end, and hear no Ctrl-C."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from .classes import FormatError

__all__ = ["check_regular", "open_regular"]


def open_regular(who: str, path: str) -> BinaryIO:
    """Open a file for reading; a pipe, a socket or a device is a FormatError, even if it just became one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _strange(who, path) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise _strange(who, path)
    return os.fdopen(descriptor, "rb")


def check_regular(who: str, place: str) -> None:
    """Refuse a pipe, a socket or a device; what is not there, and a directory, are for others to judge."""
    if os.path.exists(place) and not os.path.isfile(place) and not os.path.isdir(place):
        raise _strange(who, place)


def _strange(who: str, place: str) -> FormatError:
    return FormatError(f"{who}: '{place}' is a pipe, a socket or a device; name a file or a directory.")
