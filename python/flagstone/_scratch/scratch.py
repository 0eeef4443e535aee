"""The scratch directory: where it lies, results without a name, places of imported files.

``<scratch>/imports/<key>`` holds a CSR group made from a foreign file; it stays until ``flagstone scratch
--clear``. ``<scratch>/results`` holds results without ``out=``; each goes with its handle, at the latest
with the process (a lock that the process holds tells the next one which are orphans).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import weakref
from pathlib import Path
from typing import Any

from .. import _core
from .._errors.classes import StorageError
from .._errors.messages import storage_error
from .builds import is_at

__all__ = ["Result", "default_directory", "import_path"]

_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}


def file_system(path: Path) -> str:
    """Return the type of the file system that holds `path` (its nearest existing parent), "" when unknown."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    target = str(path.resolve())
    best, kind = "", ""
    try:
        mounts = Path("/proc/self/mounts").read_text()
    except OSError:
        return ""
    for line in mounts.splitlines():
        _, mount, fstype, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        inside = target == mount or target.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fstype
    return kind


def default_directory() -> Path:
    """Return $FLAGSTONE_SCRATCH, else a directory of the user's cache; never one that lives in memory."""
    named = os.environ.get("FLAGSTONE_SCRATCH")
    if named:
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for place in (cache / "flagstone" / "scratch", Path("/var/tmp") / f"flagstone-{os.getuid()}" / "scratch"):
        if file_system(place) not in _IN_MEMORY:
            return place
    raise StorageError(
        "scratch: the user's cache directory and /var/tmp both live in memory (tmpfs); "
        "name a directory on a disk with FLAGSTONE_SCRATCH.",
        errno.ENODEV,
        str(cache),
    )


def free_bytes(directory: Path) -> int:
    """Return the bytes that this user may still write there, quotas apart."""
    system = os.statvfs(directory)
    return system.f_bavail * system.f_frsize


def prepare(directory: Path) -> Path:
    """Create the scratch directory where it is missing and check that it can be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(
            f"scratch: cannot create '{directory}' ({error.strerror}); name another place with "
            "FLAGSTONE_SCRATCH.",
            error.errno or 0,
            str(directory),
        ) from None
    if not os.access(directory, os.W_OK | os.X_OK):
        raise storage_error(
            f"scratch: '{directory}' cannot be written; name another place with FLAGSTONE_SCRATCH.",
            errno.EACCES,
            str(directory),
        )
    return directory


# Results ----------------------------------------------------------------------------------------------------


def _sweep(results: Path) -> None:
    """Remove what dead processes left: their lock can be taken."""
    for lock in results.glob("*.lock"):
        try:
            descriptor = os.open(lock, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place = lock.with_suffix(".zarr")
            shutil.rmtree(place, ignore_errors=True)
            _core.sweep_leftovers(str(place))  # killed while it was built
            lock.unlink(missing_ok=True)
        except OSError:
            pass  # its process lives
        finally:
            os.close(descriptor)


class Result:
    """A place for a result that nobody named; deleted with this object, or with what it is tied to.

    A lock that the process holds tells others that it is in use.
    """

    def __init__(self, scratch: Path, name: str) -> None:
        results = prepare(scratch) / "results"
        while True:
            results.mkdir(exist_ok=True)
            _sweep(results)
            place = results / f"{name}-{os.getpid()}-{os.urandom(4).hex()}.zarr"
            lock = str(place.with_suffix(".lock"))
            try:
                descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # another process found the folder empty and removed it
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if is_at(descriptor, lock):
                break
            os.close(descriptor)  # another process swept it before it was locked
        self.path = str(place)
        self.promise: Any = None  # bytes that nobody else is promised until it is whole
        self._descriptor = descriptor
        self._end = weakref.finalize(self, _discard, os.getpid(), self.path, descriptor)

    def tie(self, handle: Any) -> None:
        """Delete the result, which is whole now, when `handle` dies instead."""
        if self.promise is not None:
            self.promise.release()
        self._end.detach()
        weakref.finalize(handle, _discard, os.getpid(), self.path, self._descriptor)

    def discard(self) -> None:
        """Delete the place now (nothing where it was tied)."""
        self._end()
        if self.promise is not None:
            self.promise.release()


def _discard(process: int, path: str, descriptor: int) -> None:
    os.close(descriptor)
    if os.getpid() != process:
        return  # a forked child must not delete its parent's results
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(Exception):  # at the very end of a process
        _core.sweep_leftovers(path)
    lock = Path(path).with_suffix(".lock")
    lock.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        lock.parent.rmdir()  # only when it is empty


# Imports ----------------------------------------------------------------------------------------------------


def import_path(scratch: Path, source: Path) -> Path:
    """Return where the import of `source`, as it is now, belongs: keyed by inode, size and time."""
    status = source.stat()
    folder = prepare(scratch) / "imports"
    folder.mkdir(exist_ok=True)
    return folder / f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}.zarr"


def describe_import(place: Path, source: Path, seconds: float) -> None:
    """Record where an import came from, for the listing."""
    note = {"source": str(source.absolute()), "seconds": round(seconds, 3)}
    place.with_suffix(".json").write_text(json.dumps(note))
