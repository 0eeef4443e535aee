"""The scratch directory: results without a name, imported files, and who may delete what.

``<scratch>/imports/<key>`` holds a CSR group made from a foreign file; it stays until ``flagstone scratch
--clear``. ``<scratch>/results`` holds results without ``out=``; each goes with its handle, at the latest
with the process (a lock that the process holds tells the next one which are orphans).
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import fcntl
import json
import os
import secrets
import shutil
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _core
from ..errors import StorageError, storage_error

__all__ = [
    "Entry", "Result", "alive", "clear", "clearable", "default_directory", "disk_bytes", "entries",
    "entry_name", "import_path",
]  # fmt: skip

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


#: Whether a file system was met, in the call that runs, that cannot reserve space.
unreserved: contextvars.ContextVar[bool] = contextvars.ContextVar("unreserved", default=False)


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


@contextlib.contextmanager
def whole_or_nothing(*built: Any) -> Iterator[None]:
    """Call discard() of what is being built when the body fails: a traceback may keep it alive for long."""
    try:
        yield
    except BaseException:
        for one in built:
            if one is not None:
                one.discard()
        raise


def is_at(descriptor: int, path: str) -> bool:
    """Say whether an open file still has this name."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


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
            place = results / f"{name}-{os.getpid()}-{secrets.token_hex(4)}.zarr"
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


# Listing ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One thing in scratch."""

    path: Path
    kind: str  # "import" | "result" | "left behind"
    nbytes: int
    source: str


def disk_bytes(path: Path) -> int:
    """Return what a file or a directory takes on the disk; what goes meanwhile takes nothing."""
    total = 0
    with contextlib.suppress(FileNotFoundError):
        total = os.lstat(path).st_blocks * 512 if path.is_file() else 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def alive(lock: Path) -> bool:
    """Say whether the process that locked a file lives."""
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def entries(scratch: Path) -> list[Entry]:
    """List imports and results, built and being built, with the bytes that each holds on disk."""
    found = []
    for place in sorted((scratch / "imports").glob("*.zarr")):
        try:
            source = json.loads(place.with_suffix(".json").read_text())["source"]
        except (OSError, ValueError, KeyError):
            source = "unknown"
        found.append(Entry(place, "import", disk_bytes(place), source))
    for place in _unfinished(scratch / "imports"):
        live = alive(Path(f"{place}.lock"))
        kind, source = ("import", "in progress") if live else ("left behind", "an unfinished import")
        found.append(Entry(place, kind, disk_bytes(place), source))
    for place in (*sorted((scratch / "results").glob("*.zarr")), *_unfinished(scratch / "results")):
        whose = Path(scratch / "results" / entry_name(place))
        live = alive(whose.with_suffix(".lock"))
        source = f"process {whose.stem.split('-')[-2]}" + ("" if live else ", ended")
        found.append(Entry(place, "result" if live else "left behind", disk_bytes(place), source))
    return found


_PART = ".flagstone-tmp-"


def _unfinished(folder: Path) -> list[Path]:
    return sorted(place for place in folder.glob(f".*{_PART}*") if place.is_dir())


def entry_name(place: Path) -> str:
    """Return the name of the result or import that a path of scratch belongs to, built or being built."""
    name = place.name
    return name[1:].split(_PART)[0] if name.startswith(".") and _PART in name[1:] else name


def _gone(scratch: Path) -> list[Entry]:
    return [e for e in entries(scratch) if e.kind != "result" and e.source != "in progress"]


def clearable(scratch: Path) -> int:
    """Return the bytes that clear() would free."""
    return sum(entry.nbytes for entry in _gone(scratch))


def clear(scratch: Path) -> tuple[int, int]:
    """Delete imports and what ended processes left; return (entries, bytes). Results in use stay."""
    gone = _gone(scratch)
    for entry in gone:
        shutil.rmtree(entry.path, ignore_errors=True)
        if entry.path.is_file():
            entry.path.unlink(missing_ok=True)
        for end in (".json", ".lock"):
            entry.path.with_suffix(end).unlink(missing_ok=True)
        Path(f"{entry.path}.lock").unlink(missing_ok=True)
    return len(gone), sum(entry.nbytes for entry in gone)
