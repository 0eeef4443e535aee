"""The scratch directory: where it lies, results without a name, places of imported files.

``<scratch>/imports/<key>`` holds what was made from a foreign file; it stays until ``flagstone scratch
--clear``. ``<scratch>/results`` holds results without ``out=``; each goes with its handle, at the latest
with the process.
"""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

from .. import _core

__all__ = [
    "Result",
    "default_directory",
    "describe_import",
    "file_system",
    "free_bytes",
    "import_path",
    "prepare",
    "sweep_imports",
]


def file_system(path: Path) -> str:
    """Return the type of the file system that holds `path` (its nearest existing parent), "" when unknown."""
    return _core.file_system(str(path))


def default_directory() -> Path:
    """Return $FLAGSTONE_SCRATCH, else a directory of the user's cache; never one that lives in memory."""
    return Path(_core.default_scratch())


def free_bytes(directory: Path) -> int:
    """Return the bytes that this user may still write there, quotas apart."""
    return _core.free_bytes(str(directory))


def prepare(directory: Path) -> Path:
    """Create the scratch directory where it is missing and check that it can be written."""
    _core.prepare_scratch(str(directory))
    return directory


class Result:
    """A place for a result that nobody named; deleted with this object, or with what it is tied to."""

    def __init__(self, scratch: Path, name: str) -> None:
        self._place = _core.ScratchResult(str(scratch), name)
        self.path = self._place.path
        self.promise: _core.Reservation | None = None  # bytes that nobody else is promised until it is whole
        self._end = weakref.finalize(self, self._place.discard)

    def tie(self, handle: Any) -> None:
        """Delete the result, which is whole now, when `handle` dies instead."""
        if self.promise is not None:
            self.promise.release()
        self._end.detach()
        weakref.finalize(handle, self._place.discard)

    def discard(self) -> None:
        """Delete the place now (nothing where it was tied)."""
        self._end()
        if self.promise is not None:
            self.promise.release()


def import_path(scratch: Path, source: Path) -> Path:
    """Return where the import of `source`, as it is now, belongs: keyed by inode, size and time."""
    return Path(_core.import_path(str(scratch), str(source)))


def sweep_imports(scratch: Path, days: float = 30) -> int:
    """Remove imports whose file has gone or changed, or that nobody used for so long; return bytes."""
    return _core.sweep_imports(str(scratch), days)


def describe_import(place: Path, source: Path, seconds: float) -> None:
    """Record where an import came from, for the listing."""
    _core.describe_import(str(place), str(source), seconds)
