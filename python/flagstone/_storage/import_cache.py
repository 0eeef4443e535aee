"""Imports of foreign files in scratch: once a file as it is now, opened again from there."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import _core
from .._array.array import Array, open_core
from .._errors.classes import Error, ExistsError, FormatError
from .._resume.identity import file_identity
from .._resume.leftovers import MEMBER
from .._resume.record import Record, seconds_of
from .._runtime.call import Call
from .._runtime.runtime import current
from .._scratch import quota, scratch
from .._sparse.array import SparseArray

__all__ = ["Built", "cached", "conversion", "imported", "reopen"]

Built = Array | SparseArray


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
    folder = call.runtime.scratch
    target = _target(folder, source, part)
    if _in_use(target):
        try:
            return reopen(str(target))
        except Error:
            remove(target)  # damaged in scratch: the source is still whole
    scratch.sweep_imports(folder)
    start = time.perf_counter()
    try:
        counted = quota.counting("open", call.runtime.scratch, call.runtime.scratch_quota, target)
        with call.measured(f"import of {path}", "streaming") as done, counted:
            built = build(call, str(target))
            done.bytes_read = source.stat().st_size * passes
            done.bytes_written = built.stored_bytes if isinstance(built, SparseArray) else built.nbytes
    except ExistsError:
        _in_use(target)
        return reopen(str(target))  # another process was quicker
    except FormatError as error:
        text = str(error)
        raise error if path in text else FormatError(f"open: '{path}': {text}") from None
    built.import_seconds = time.perf_counter() - start
    scratch.describe_import(target, source, built.import_seconds)
    _in_use(target)
    return built


#: By path: while this process has its lock, nobody sweeps the import. Views live longer than handles.
_used: dict[str, _core.FileLock] = {}


def _in_use(target: Path) -> bool:
    """Say whether an import is there; if so, tell the others that this process uses it, until it ends."""
    if not target.exists():
        return False
    place, held = str(target), _used.get(str(target))
    if held is None or not held.is_at(str(target.with_suffix(".used"))):
        held = _used[place] = _core.use_import(place)
    if held:
        with contextlib.suppress(OSError):
            os.utime(held.fileno())
    return target.exists()  # it may have been swept meanwhile


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


def conversion(
    call: Call, paths: Sequence[str], key: str | None, replace: bool, reading: dict[str, Any],
    folder: str = "",
) -> Record:  # fmt: skip
    """Return the record of a conversion of streamed files.

    `reading`: the options of opening them; `folder`: what was named, where they are what is read of a folder.
    """

    def arguments() -> dict[str, Any]:
        first, *others = map(file_identity, paths)
        told: dict[str, Any] = {"file": first, "key": key, "overwrite": replace}
        if others:
            told["files"] = others
        if folder:
            told["folder"] = os.path.abspath(folder)
        return told | ({"reading": reading} if reading else {})

    there = [path for path in paths if os.path.exists(path)]  # whoever opens the others says so
    return Record("convert", arguments, seconds_of(0, 8 * sum(map(os.path.getsize, there))), call.runtime)
