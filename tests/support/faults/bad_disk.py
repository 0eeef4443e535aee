"""A disk that is full, over its quota, unreadable, read-only, or lacks what others have (`bad_disk.cpp`)."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl

SOURCE = Path(__file__).with_suffix(".cpp")
_LOADED = "FLAGSTONE_BAD_DISK"
_KINDS = {"grow": 0, "read": 1, "change": 2}
FOREVER = 1 << 40


@functools.cache
def _library() -> tuple[str, tempfile.TemporaryDirectory]:
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
    if compiler is None:
        pytest.skip("a C++ compiler is needed to make a disk bad")
    folder = tempfile.TemporaryDirectory(prefix="flagstone-bad-disk-")
    library = f"{folder.name}/bad_disk.so"
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-o", library, str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library, folder


def environment() -> dict[str, str]:
    """What a process needs in its environment to have a `Disk`."""
    library = _library()[0]
    return {"LD_PRELOAD": library, _LOADED: library, "OMP_NUM_THREADS": "1"}


class Disk:
    """What happens below one directory, in the process that runs."""

    def __init__(self, directory: str | Path) -> None:
        library = ctypes.CDLL(os.environ[_LOADED])
        self._fail = library.bad_disk_fail
        self._fail.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_long]
        self._count = library.bad_disk_count
        self._count.argtypes, self._count.restype = [ctypes.c_int], ctypes.c_long
        self._without = library.bad_disk_without
        self._lower = library.bad_disk_lower
        self._lower.argtypes = [ctypes.c_char_p]
        library.bad_disk_watch.argtypes = [ctypes.c_char_p]
        library.bad_disk_watch(os.path.realpath(directory).encode())

    def fail(self, number: int, at: int = 1, times: int = FOREVER, kinds: str = "grow") -> None:
        """Let steps of these kinds fail, from their `at`th on; counts begin at zero."""
        for kind in kinds.split():
            self._fail(_KINDS[kind], at, number, times)

    def heal(self) -> None:
        """Everything works again; counts begin at zero."""
        for kind in _KINDS.values():
            self._fail(kind, 0, 0, 0)

    def count(self, kind: str = "grow") -> int:
        """How many steps there were."""
        return int(self._count(_KINDS[kind]))

    def lacks(self, *, flags: bool = False, fallocate: bool = False) -> None:
        """The file system has no flags of renameat2, or no fallocate."""
        self._without(int(flags), int(fallocate))

    def lower(self, path: str | Path) -> None:
        """This directory, as it is now, cannot be renamed: as if a lower layer of an overlay held it."""
        self._lower(os.fspath(path).encode())


def moments(count: int, most: int) -> list[int]:
    """Some of the steps 1 to `count`: the first, the last, and others evenly between."""
    return sorted({1 + round(i * (count - 1) / max(1, most - 1)) for i in range(min(count, most))})


def told(folder: Path) -> list[str]:
    """Names in a folder, hidden ones too."""
    return sorted(p.name for p in Path(folder).iterdir())


# Calls that write. Each: what is made before, and the call; the result is compared bit for bit. ----------


def _values(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((300, 200))


def _zarr(path: Path, values: np.ndarray) -> fl.Array:
    a = fl.create(path, values.shape, values.dtype, chunks=(64, 64))
    a[...] = values
    return a


class Calls:
    """Calls whose result goes to `out`, inside a folder that is bad; operands lie in another."""

    def __init__(self, operands: Path, folder: Path) -> None:
        import scipy.sparse as sp

        self.operands, self.folder, self.out = operands, folder, folder / "out.zarr"
        self.a = _zarr(operands / "a.zarr", _values())
        np.save(operands / "b.npy", _values(2))
        self.blocks = [sp.random(200, 300, 0.3, format="csr", random_state=i) for i in range(3)]
        sp.save_npz(operands / "s.npz", sp.vstack(self.blocks).tocsr())
        sp.save_npz(operands / "coo.npz", sp.vstack(self.blocks).tocoo())
        self.s = fl.from_blocks(self.blocks, operands / "s.zarr")

    def old(self, fresh: bool) -> None:
        """What lies at `out` before the call."""
        if not fresh:
            fl.from_numpy(np.full((5, 4), 7.0), self.out, overwrite=True)

    def matmul(self):
        return fl.matmul(self.a, self.a.T, out=self.out)[...]

    def pca(self):
        return fl.pca(self.a, 4, out=self.out, seed=3).scores[...]

    def rechunk(self):
        return fl.rechunk(self.a, (100, 200), out=self.out)[...]

    def compute(self):
        return fl.compute(self.a * 2 + 1, out=self.out)[...]

    def from_numpy(self):
        return fl.from_numpy(_values(4), self.out, overwrite=True)[...]

    def packed(self):
        return fl.from_numpy(np.arange(60_000.0).reshape(300, 200), self.out, overwrite=True, codec="zstd")[
            ...
        ]

    def from_blocks(self):
        return fl.from_blocks(self.blocks, self.out, overwrite=True).to_scipy().toarray()

    def convert(self):
        fl.convert(self.operands / "b.npy", self.out, overwrite=True)
        return fl.open(self.out)[...]

    def pack(self):
        fl.pack(self.operands / "a.zarr", self.out, overwrite=True)
        return fl.open(self.out)[...]

    def h5ad(self):
        fl.convert(self.operands / "s.zarr", self.folder / "out.h5ad", overwrite=True)
        return fl.open(self.folder / "out.h5ad").to_scipy().toarray()

    def npy(self):
        return fl.matmul(self.a, self.a.T, out=self.folder / "out.npy")[...]


CALLS = [
    "matmul",
    "pca",
    "rechunk",
    "compute",
    "from_numpy",
    "packed",
    "from_blocks",
    "convert",
    "pack",
    "npy",
    "h5ad",
]
