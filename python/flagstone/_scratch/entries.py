"""What lies in scratch: imports, results, what dead processes left; the listing and who may delete what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .. import _core

__all__ = ["Entry", "clear", "clearable", "entries"]


@dataclass(frozen=True)
class Entry:
    """One thing in scratch."""

    path: Path
    kind: str  # "import" | "result" | "left behind"
    nbytes: int
    source: str


def entries(scratch: Path) -> list[Entry]:
    """List imports and results, built and being built, with the bytes that each holds on disk."""
    rows = _core.scratch_entries(str(scratch))
    return [Entry(Path(path), kind, nbytes, source) for path, kind, nbytes, source in rows]


def clearable(scratch: Path) -> int:
    """Return the bytes that clear() would free."""
    return _core.clearable_scratch(str(scratch))


def clear(scratch: Path) -> tuple[int, int]:
    """Delete imports and what ended processes left; return (entries, bytes). Results in use stay."""
    return _core.clear_scratch(str(scratch))
