"""Workloads that put something new in the place of the old: outputs, copies, deletions, journals of pages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from stored import State, Workload

import flagstone as fl
from flagstone import _core
from flagstone._formats.hdf5 import page_journal as journal
from flagstone._resume.leftovers import leftovers


class Outputs(Workload):
    """A new array takes the place of the old one (scheme A)."""

    name = "outputs"

    def first(self) -> State:
        return {"out.zarr": np.zeros((12, 10))}

    def prepare(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        fl.from_numpy(np.zeros((12, 10)), place / "out.zarr", overwrite=True)

    def change(self, k: int, arrays: Any) -> None:
        arrays["out.zarr"][...] = np.arange(120.0).reshape(12, 10) + 1000 * k

    def commit(self, place: Path, k: int) -> None:
        values = np.empty((12, 10))
        self.change(k, {"out.zarr": values})
        fl.from_numpy(values, place / "out.zarr", overwrite=True)

    def arrays(self, place: Path) -> dict[str, Path]:
        return {name: place / name / "array" for name in self.first()}

    def recover(self, place: Path) -> None:
        for name in self.first():
            _core.sweep_leftovers(str(place / name))


class TwoSteps(Outputs):
    """The same where the file system cannot exchange two names."""

    name, exchange = "outputs in two steps", False

    def away(self, place: Path) -> bool:
        """Say whether the path is away between two steps, until its next writer comes."""
        return not all(path.exists() for path in self.arrays(place).values())


class LowerLayer(Outputs):
    """The same where the old one's directory cannot be renamed: a lower layer of an overlay holds it."""

    name, lower = "outputs over a layer", True

    def away(self, place: Path) -> bool:
        """Say whether the path is away while the old one is removed, until its next writer comes."""
        folders = (place / "out.zarr", place / "out.zarr" / "array")
        return not all((folder / "zarr.json").exists() for folder in folders)


class Sparse(Workload):
    """A group of three arrays that must agree takes the place of the old one."""

    name, slow = "sparse", True

    def first(self) -> State:
        return {"s.zarr": np.zeros((30, 20), np.float32)}

    def prepare(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self.commit(place, 0)

    def change(self, k: int, arrays: Any) -> None:
        draw = np.random.default_rng(k)
        fresh = scipy.sparse.random(30, 20, 0.3, random_state=draw, dtype=np.float32).toarray()
        fresh[0, 0] = k
        arrays["s.zarr"][...] = fresh

    def commit(self, place: Path, k: int) -> None:
        values = self.state(k)["s.zarr"]
        source = place.parent / f"{place.name}-{os.getpid()}.npz"
        scipy.sparse.save_npz(source, scipy.sparse.csr_matrix(values))
        fl.convert(source, place / "s.zarr", overwrite=True)
        source.unlink()

    def arrays(self, place: Path) -> dict[str, Path]:
        return {"s.zarr": place / "s.zarr"}

    def recover(self, place: Path) -> None:
        _core.sweep_leftovers(str(place / "s.zarr"))

    def read(self, place: Path) -> State:
        return {"s.zarr": fl.open(place / "s.zarr").to_scipy().toarray()}

    def peers_agree(self, place: Path, candidates: range, peer: Callable[[Path], np.ndarray]) -> bool:
        parts = [peer(place / "s.zarr" / name) for name in ("data", "indices", "indptr")]
        seen = scipy.sparse.csr_matrix(tuple(parts), shape=(30, 20)).toarray()
        return any(np.array_equal(seen, self.state(k)["s.zarr"]) for k in candidates)


class Scores(Workload):
    """Scores in the `obsm` of an HDF5 file: a journal of pages, by Python and another library."""

    name = "obsm"
    needs = ("anndata", "h5py")

    def first(self) -> State:
        return {"X_pca": np.zeros((40, 3))}

    def prepare(self, place: Path) -> None:
        import anndata

        place.mkdir(exist_ok=True)
        anndata.AnnData(np.ones((40, 5))).write_h5ad(place / "cells.h5ad")
        self.commit(place, 0)

    def change(self, k: int, arrays: Any) -> None:
        arrays["X_pca"][...] = np.arange(120.0).reshape(40, 3) + k

    def commit(self, place: Path, k: int) -> None:
        fl.write_obsm(place / "cells.h5ad", "X_pca", self.state(k)["X_pca"])

    def read(self, place: Path) -> State:
        return {"X_pca": np.asarray(fl.open(place / "cells.h5ad", key="obsm/X_pca"))}

    def recover(self, place: Path) -> None:
        fl.open(place / "cells.h5ad", key="obsm/X_pca")

    def arrays(self, place: Path) -> dict[str, Path]:
        return {"X_pca": place / "cells.h5ad"}

    def peers_agree(self, place: Path, candidates: range, peer: Callable[[Path], np.ndarray]) -> bool:
        import h5py

        with h5py.File(place / "cells.h5ad", "r") as file:  # whoever asks: these read no HDF5
            seen = file["obsm/X_pca"][...]
        return any(np.array_equal(seen, self.state(k)["X_pca"]) for k in candidates)

    def renumber(self, place: Path, inodes: dict[int, int]) -> None:
        """A journal names the file that it belongs to; a damaged one stays as it is."""
        path = place / ".cells.h5ad.flagstone-journal"
        data = path.read_bytes() if path.exists() else b""
        if len(data) < journal._END.size:
            return
        end = data[-journal._END.size :]
        magic, pages, size, device, inode, _ = journal._END.unpack(end)
        if magic != journal._MAGIC or 16 * pages > len(data):
            return
        table = data[len(data) - len(end) - 16 * pages : len(data) - len(end)]
        if journal._with_checksum(table, end) == end:
            fresh = journal._END.pack(magic, pages, size, device, inodes.get(inode, 0), 0)
            path.write_bytes(data[: -len(end)] + journal._with_checksum(table, fresh))


class Copies(Workload):
    """A dense copy of a group takes the place of an older one (`fl.pack`); its source lies elsewhere."""

    name, kinds = "pack", 2

    def first(self) -> State:
        return {name: np.zeros((21, 10)) for name in "AB"}

    def change(self, k: int, arrays: Any) -> None:
        for i, name in enumerate(arrays):
            arrays[name][...] = np.arange(210.0).reshape(21, 10) * (i + 1) + 1000 * k

    def prepare(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self.commit(place, 0)

    def commit(self, place: Path, k: int) -> None:
        source = place.parent / f"{place.name}-{os.getpid()}.zarr"
        for name, values in self.state(k).items():
            array = fl.create(source / name, values.shape, "float64", chunks=(8, 8), overwrite=True)
            array[...] = values
        codec, checksum = (("raw", "none"), ("blosc-lz4", "inner"))[k % 2]
        fl.pack(source, place / "packed.zarr", codec=codec, checksum=checksum, overwrite=True)
        fl.delete(source)

    def read(self, place: Path) -> State:
        return {name: np.asarray(fl.open(path)) for name, path in self.arrays(place).items()}

    def arrays(self, place: Path) -> dict[str, Path]:
        return {name: place / "packed.zarr" / name for name in self.first()}

    def recover(self, place: Path) -> None:
        _core.sweep_leftovers(str(place / "packed.zarr"))


class Deletions(Workload):
    """A member of a group that is deleted and written again, beside one that stays."""

    name, kinds = "delete", 2

    def first(self) -> State:
        return {name: np.ones((20, 12)) for name in "AB"}

    def state(self, k: int) -> State:
        if k % 2:
            return {"A": self.first()["A"]}
        return {"A": self.first()["A"], "B": np.full((20, 12), 1.0 + k)}

    def prepare(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        _core.write_group(str(place), "{}")
        for name, values in self.first().items():
            fl.create(place / name, values.shape, "float64", chunks=(8, 8))[...] = values

    def commit(self, place: Path, k: int) -> None:
        if k % 2:
            fl.delete(place, key="B")
        else:
            fl.from_numpy(self.state(k)["B"], place / "B")

    def arrays(self, place: Path) -> dict[str, Path]:
        return {name: place / name for name in "AB" if os.path.lexists(place / name)}

    def read(self, place: Path) -> State:
        return {name: np.asarray(fl.open(path)) for name, path in self.arrays(place).items()}

    def recover(self, place: Path) -> None:
        _core.sweep_leftovers(str(place / "B"))
        super().recover(place)


class LowerDeletions(Deletions):
    """The same where the member's directory cannot be renamed."""

    name, lower = "delete from a layer", True

    def arrays(self, place: Path) -> dict[str, Path]:
        return {name: path for name, path in super().arrays(place).items() if (path / "zarr.json").exists()}


class Resumed(Workload):
    """Calls with a checkpoint at every opportunity: who recovers goes on with them, and dies in that too."""

    name, kinds = "resume", 2
    advances, deaths = True, 80

    def first(self) -> State:
        return {"out.zarr": np.zeros((24, 20))}

    def _factors(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        draw = np.random.default_rng(k % 4)
        return draw.integers(-9, 9, (24, 40)).astype(float), draw.integers(-9, 9, (40, 20)).astype(float)

    def state(self, k: int) -> State:
        if k == 0:
            return self.first()
        a, b = self._factors(k)
        return {"out.zarr": a @ b}

    def _sources(self, place: Path, k: int) -> list[Path]:
        return [place.parent / f"resumed-{name}{k % 4}.zarr" for name in ("a", "b", "ab")]

    def prepare(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        fl.from_numpy(self.first()["out.zarr"], place / "out.zarr", overwrite=True)
        for k in range(4):
            a, b = self._factors(k)
            for path, values in zip(self._sources(place, k), (a, b, a @ b), strict=True):
                fl.create(path, values.shape, "float64", chunks=(8, 8))[...] = values

    def commit(self, place: Path, k: int) -> None:
        a, b, ab = map(fl.open, self._sources(place, k))
        with eager():
            if k % 2:
                fl.matmul(a, b, out=place / "out.zarr")
            else:
                fl.rechunk(ab, (4, 20), out=place / "out.zarr")

    def recover(self, place: Path) -> None:
        go_on(place / "out.zarr")

    def arrays(self, place: Path) -> dict[str, Path]:
        return {"out.zarr": place / "out.zarr" / "array"}

    def renumber(self, place: Path, inodes: dict[int, int]) -> None:
        renumber_builds(place, inodes)


class ResumedSparse(Sparse):
    """Conversions to CSR, of rows and of columns, with checkpoints, which whoever recovers goes on with."""

    name, kinds, advances, deaths = "resume sparse", 2, True, 120

    def _source(self, place: Path, k: int) -> Path:
        return place.parent / f"resumed-sparse{k % 4}.zarr"

    def prepare(self, place: Path) -> None:
        for k in range(4):
            values = scipy.sparse.csr_matrix(self.state(k)["s.zarr"])
            fl.from_blocks([values.T.tocsr() if k % 2 else values], self._source(place, k))
        place.mkdir(exist_ok=True)
        self.commit(place, 0)

    def first(self) -> State:
        return self.state(0)

    def state(self, k: int) -> State:
        fresh = super().first()
        self.change(k % 4, fresh)
        return fresh

    def commit(self, place: Path, k: int) -> None:
        source = fl.open(self._source(place, k))
        with eager():
            fl.convert(source.T if k % 2 else source, place / "s.zarr", overwrite=True)

    def recover(self, place: Path) -> None:
        go_on(place / "s.zarr")

    def renumber(self, place: Path, inodes: dict[int, int]) -> None:
        renumber_builds(place, inodes)


def go_on(out: Path) -> None:
    """Resume what can be resumed, or sweep what was left."""
    if any(one.resumable for one in leftovers(str(out))):
        with eager():
            fl.resume(out)
    _core.sweep_leftovers(str(out))


def renumber_builds(place: Path, inodes: dict[int, int]) -> None:
    """Builds say which directory they are before they take its place."""
    for note in place.glob(".*.notes/build"):
        text = note.read_text()
        if text.isdigit():
            note.write_text(str(inodes.get(int(text), 0)))


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Let calls keep records however short they are, and save at every opportunity."""
    os.environ["FLAGSTONE_CHECKPOINT_SECONDS"] = "0"
    try:
        yield
    finally:
        del os.environ["FLAGSTONE_CHECKPOINT_SECONDS"]
