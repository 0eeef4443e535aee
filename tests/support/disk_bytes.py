"""What tests do to the files of a stored array, and see of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest


def flip(path: Path, byte: int, bit: int = 0, quiet: bool = True) -> None:
    """Flip a bit; `quiet`: the times stay, as when a disk lies."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(byte)
        old = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([old ^ 1 << bit]))
    if quiet:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def used(path: Path) -> int:
    """Bytes that the shards below a path take on the disk."""
    return sum(f.stat().st_blocks * 512 for f in path.rglob("c/**/*") if f.is_file())


def shards(path: Path) -> list[Path]:
    return sorted(f for f in path.rglob("c/**/*") if f.is_file())


def inner(path: Path) -> Path:
    return path / "array" if (path / "array").is_dir() else path


def theirs(path: Path, missing: bool = True) -> list[np.ndarray]:
    """The array as the peers read it."""
    zarr = pytest.importorskip("zarr", minversion="3")
    ts = pytest.importorskip("tensorstore")
    folder = str(inner(path))
    store = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": folder}}).result()
    return [zarr.open_array(folder, mode="r")[...], store.read().result()]
