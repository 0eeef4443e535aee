"""Files for what passes through the disk once: their space is taken first, and a dead process's are swept."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .. import _core
from .._errors.classes import Error
from .._errors.messages import storage_error, with_advice
from . import quota
from .scratch import free_bytes

__all__ = ["beside", "reserve", "spilling"]


@contextlib.contextmanager
def spilling(who: str, folder: str) -> Iterator[None]:
    """Say, of a disk that refuses what the body writes, where that is and how much is free."""
    try:
        yield
    except Error:
        raise
    except OSError as error:
        number = error.errno or 0
        text = f"{who}: cannot write a temporary file in '{folder}' ({os.strerror(number)})"
        told = with_advice(text, number, folder)
        raise storage_error(told if told != text else f"{text}; write elsewhere.", number, folder) from None


def reserve(who: str, folder: str, files: list[IO[bytes]], sizes: list[int]) -> None:
    """Take the space of files in `folder` before they are written; StorageError (ENOSPC, EDQUOT)."""
    needed = sum(sizes)
    quota.grows(needed)
    free = free_bytes(Path(folder))
    if needed > free:  # a reservation that fails fills the disk for everybody first
        raise storage_error(
            f"{who}: sorting takes {_core.format_bytes(needed)} and {_core.format_bytes(free)} are free in "
            f"'{folder}'; free some space or write elsewhere.",
            errno.ENOSPC,
            folder,
        )
    with spilling(who, folder):
        for file, nbytes in zip(files, sizes, strict=True):
            if nbytes:
                os.posix_fallocate(file.fileno(), 0, nbytes)


@contextlib.contextmanager
def beside(target: str) -> Iterator[str]:
    """Make a folder beside `target`; it goes with the block, or with the next writer of `target`.

    It is called like something that is being built (of which a lock says whether its process lives).
    """
    build = _core.Output(target, True)  # never published
    try:
        os.mkdir(build.directory)
        yield build.directory
    finally:
        del build
