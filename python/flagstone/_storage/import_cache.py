"""Importing in fixed memory: what was imported already, blocks made ahead, how much has been read."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core
from .._output.destination import MEMBER
from .._resume.record import Record, file_identity, seconds_of
from .._runtime.call import Call, current
from .._scratch import quota, scratch
from .._sparse.array import SparseArray
from ..errors import Error, ExistsError, FormatError

__all__ = ["STEP", "Block", "Built", "Reported", "ahead", "cached", "conversion", "imported", "reopen"]

STEP = 1 << 19  #: entries held at a time
Block = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
Built = Array | SparseArray


T = TypeVar("T")


def ahead(blocks: Iterator[T]) -> Iterator[T]:
    """Make the next block in another thread while this one is used: two blocks are held."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, blocks, end)
        while (block := waiting.result()) is not end:
            waiting = pool.submit(next, blocks, end)
            yield block  # type: ignore[misc]


# What was imported already ----------------------------------------------------------------------------------


def reopen(path: str) -> Built:
    """Open what an import built: a CSR group, an array in a group, or a `.npy`."""
    if _core.is_csr_group(path):
        return SparseArray(_core.open_csr(path))
    inner = f"{path}/{MEMBER}"
    return Array(open_core(inner if os.path.isdir(inner) else path, "r"))


def cached(path: str, part: str, build: Callable[[Call, str], Built], passes: int = 1) -> Built:
    """Return the import of this very file from scratch, building it where it is not there.

    Parameters
    ----------
    path : str
        The foreign file; its inode, size and time are the key.
    part : str
        What of it is wanted, where that is a choice (names of columns); "" for all.
    build : callable
        ``build(call, target)`` writes the import to `target`, whole or not at all.
    passes : int
        How often `build` reads the file, for `stats()`.
    """
    source = Path(path)
    call = Call("open")
    target = _target(call.runtime.scratch, source, part)
    if target.exists():
        try:
            return reopen(str(target))
        except Error:
            remove(target)  # damaged in scratch: the source is still whole
    start = time.perf_counter()
    try:
        counted = quota.counting("open", call.runtime.scratch, call.runtime.scratch_quota, target)
        with call.measured(f"import of {path}", "streaming") as done, counted:
            built = build(call, str(target))
            done.bytes_read = source.stat().st_size * passes
            done.bytes_written = built.stored_bytes if isinstance(built, SparseArray) else built.nbytes
    except ExistsError:
        return reopen(str(target))  # another process was quicker
    except FormatError as error:
        text = str(error)
        raise error if path in text else FormatError(f"open: '{path}': {text}") from None
    built.import_seconds = time.perf_counter() - start
    scratch.describe_import(target, source, built.import_seconds)
    return built


def imported(path: str, part: str = "") -> bool:
    """Say whether an import of this very file (of this part of it), as it is now, is in scratch."""
    with contextlib.suppress(OSError):
        return _target(current().scratch, Path(path), part).exists()
    return False


def _target(folder: Path, source: Path, part: str) -> Path:
    target = scratch.import_path(folder, source)
    return target.with_name(f"{target.stem}-{zlib.crc32(part.encode()):08x}.zarr") if part else target


def remove(target: Path) -> None:
    """Remove a file or a directory."""
    shutil.rmtree(target, ignore_errors=True)
    target.unlink(missing_ok=True)


class Reported:
    """Tells the runtime's progress callback how much of a file has been read."""

    def __init__(self, call: Call, total: int) -> None:
        self._call, self.bytes_read, self.bytes_written, self.flops = call, 0, 0, 0.0
        self.total, self._next = total, 0.0

    def at(self, nbytes: int) -> None:
        """Say that so many bytes have been dealt with; about ten times a second somebody looks."""
        self.bytes_read = nbytes
        now = time.monotonic()
        if self._call.runtime.progress is not None and now >= self._next:
            self._next = now + 0.1
            self._call.runtime.progress(self)


def conversion(call: Call, path: str, key: str | None, replace: bool) -> Record:
    """Return the record of a conversion of a file that is streamed through."""

    def arguments() -> dict[str, Any]:
        return {"file": file_identity(path), "key": key, "overwrite": replace}

    return Record("convert", arguments, seconds_of(0, 8 * os.path.getsize(path)), call.runtime)
