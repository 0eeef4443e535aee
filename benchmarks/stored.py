"""Things that commit, with a model of what each commit stores: for crash.py and power_loss.py.

State k of a workload is what commit k leaves; state 0 is what `prepare` leaves. Every state differs from
the one before it in all that a commit touches.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import flagstone as fl
from flagstone import _core

State = dict[str, np.ndarray]


class Workload:
    """Base: arrays in one group, all changed by one commit."""

    name = ""
    exchange = True  # renameat2 with flags is allowed
    #: whether the path may be away for a moment when its writer died (until the next writer comes)
    gaps = False
    slow = False  # to judge
    replayed = True  # by power_loss.py, unless it is asked for
    slow_peers: tuple[str, ...] = ()  # that are asked seldom

    needs: tuple[str, ...] = ()  # packages

    @classmethod
    def can_run(cls) -> bool:
        """Say whether what it needs is installed."""
        return all(importlib.util.find_spec(name) for name in cls.needs)

    def __init__(self) -> None:
        self._states: dict[int, State] = {}

    def prepare(self, place: Path) -> None:
        """Store state 0."""
        raise NotImplementedError

    def commit(self, place: Path, k: int) -> None:
        """Turn state k - 1 into state k, durably."""
        raise NotImplementedError

    def first(self) -> State:
        """Return state 0."""
        raise NotImplementedError

    def change(self, k: int, arrays: Any) -> None:
        """Do to arrays, or to their model, what commit k does."""
        raise NotImplementedError

    def state(self, k: int) -> State:
        """Return what commit k leaves."""
        if not self._states:
            self._states[0] = self.first()
        latest = max(n for n in self._states if n <= k)
        for n in range(latest + 1, k + 1):
            fresh = {name: values.copy() for name, values in self._states[n - 1].items()}
            self.change(n, fresh)
            self._states[n] = fresh
            self._states.pop(n - 12, None) if n > 12 else None
        return self._states[k]

    def read(self, place: Path) -> State:
        """Read all of it through flagstone, for reading only."""
        return {name: np.asarray(fl.open(place / name)) for name in self.first()}

    def found(self, place: Path, candidates: range) -> int:
        """Return which state is stored; -1: none of these."""
        seen = self.read(place)
        for k in reversed(candidates):
            if all(np.array_equal(values, seen[name]) for name, values in self.state(k).items()):
                return k
        return -1

    def recover(self, place: Path) -> None:
        """Come as the next writer, and change nothing."""
        for path in self.arrays(place).values():
            core = _core.Transaction()
            core.add(_core.open_zarr(str(path), True))
            core.rollback()

    def arrays(self, place: Path) -> dict[str, Path]:
        """Return the plain arrays that peers open, by the name in a state."""
        return {name: place / name for name in self.first()}

    def whole(self, place: Path) -> bool:
        """Say whether `fl.check` finds nothing."""
        return all(fl.check(path).ok for path in self.arrays(place).values())

    def peers_agree(self, place: Path, candidates: range, peer: Callable[[Path], np.ndarray]) -> bool:
        """Say whether another program reads every element as one of these states has it."""
        states = [self.state(k) for k in candidates]
        for name, path in self.arrays(place).items():
            seen = peer(path)
            if not np.logical_or.reduce([seen == state[name] for state in states]).all():
                return False
        return True


class Updates(Workload):
    """One transaction over three arrays: checksums beside, inside or none; shards grow by spare slots."""

    name = "updates"
    shape, chunks = (40, 24), (8, 8)

    def first(self) -> State:
        return {name: np.zeros(self.shape) for name in "ABC"}

    def prepare(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        _core.write_group(str(place), "{}")
        for name, checksum in zip(self.first(), ("sidecar", "inner", "none"), strict=False):
            fl.create(place / name, self.shape, "float64", chunks=self.chunks, checksum=checksum)

    def change(self, k: int, arrays: Any) -> None:
        draw = random.Random(k)
        for name in arrays:
            for _ in range(draw.randint(1, 3)):
                i, j = draw.randrange(self.shape[0]), draw.randrange(self.shape[1])
                arrays[name][i : i + draw.randint(1, 30), j : j + draw.randint(1, 24)] = k + draw.random()
            arrays[name][k % 40, :] = -k

    def commit(self, place: Path, k: int) -> None:
        opened = {name: fl.open(place / name, mode="r+") for name in self.first()}
        with fl.transaction(place):
            self.change(k, opened)


class Shards(Updates):
    """One transaction over two shards, whose indexes are longer than a page: a kill may tear them."""

    name = "shards"
    shape, chunks = (4100, 4), (1, 4)
    replayed = False  # many chunks, and nothing that `updates` does not do
    slow_peers = ("zarr-python",)  # half a second for each read of so many chunks

    def first(self) -> State:
        return {"T": np.zeros(self.shape)}

    def change(self, k: int, arrays: Any) -> None:
        draw = random.Random(k)
        for row in (draw.randrange(4100), 5, 2049 + k % 2, 4099):
            arrays["T"][row, :] = k


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

    name, exchange, gaps = "outputs in two steps", False, True


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


class Ring(Workload):
    """Two arrays of a state that exchange roles with the next one (epoch commit)."""

    name = "epochs"

    def first(self) -> State:
        return {name: np.zeros((20, 12)) for name in ("x", "r")}

    def prepare(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        fields = dict.fromkeys(self.first(), ((20, 12), "float64"))
        fl.epochs(place / "ring.zarr", fields, chunks=(8, 8)).close()

    def change(self, k: int, arrays: Any) -> None:
        for i, name in enumerate(("x", "r")):
            arrays[name][...] = np.arange(240.0).reshape(20, 12) * (i + 1) + k

    def commit(self, place: Path, k: int) -> None:
        with fl.epochs(place / "ring.zarr") as ring:
            if ring.epoch != k - 1:
                raise RuntimeError(f"epoch {ring.epoch} where {k - 1} is stored")
            self.change(k, ring.next)
            ring.commit({"k": k})

    def read(self, place: Path) -> State:
        with fl.epochs(place / "ring.zarr", mode="r") as ring:
            return {name: np.asarray(array) for name, array in ring.current.items()}

    def recover(self, place: Path) -> None:
        fl.epochs(place / "ring.zarr").close()

    def arrays(self, place: Path) -> dict[str, Path]:
        about = json.loads((place / "ring.zarr" / "zarr.json").read_text())
        current = about["attributes"]["flagstone"]["epochs"]["current"]
        return {name: place / "ring.zarr" / current / name for name in self.first()}


class Scores(Workload):
    """Scores in the `obsm` of an HDF5 file: a journal of pages, by Python and another library."""

    name = "obsm"
    needs = ("anndata", "h5py")
    replayed = False  # its journal names the inode of the file, which a rebuilt disk does not have

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


WORKLOADS: dict[str, type[Workload]] = {
    kind.name: kind for kind in (Updates, Shards, Outputs, TwoSteps, Sparse, Ring, Scores)
}


def peers() -> dict[str, Callable[[Path], np.ndarray]]:
    """Return how other programs read an array: those that are installed."""
    found: dict[str, Callable[[Path], np.ndarray]] = {}
    try:
        import zarr

        found["zarr-python"] = lambda path: np.asarray(zarr.open_array(str(path), mode="r")[...])
    except ImportError:
        pass
    try:
        import tensorstore

        def read(path: Path) -> np.ndarray:
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
            return np.asarray(tensorstore.open(spec, read=True).result().read().result())

        found["TensorStore"] = read
    except ImportError:
        pass
    return found
