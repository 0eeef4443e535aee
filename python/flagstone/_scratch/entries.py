"""What lies in scratch: imports, results, what dead processes left; the listing and who may delete what."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Entry", "alive", "clear", "clearable", "disk_bytes", "entries", "entry_name"]


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
