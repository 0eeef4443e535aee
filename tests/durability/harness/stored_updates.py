"""Workloads that change arrays where they lie: transactions, resizes, epochs, repairs."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
from stored import State, Workload

import flagstone as fl
from flagstone import _core


class Updates(Workload):
    """One transaction over three arrays: checksums beside, inside or none; shards grow by spare slots."""

    name, mixed = "updates", True
    shape, chunks = (40, 24), (8, 8)
    unsummed: tuple[str, ...] = ("C",)

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

    def whole(self, place: Path) -> bool:
        """Say whether nothing is damaged, and every chunk that was stored has the checksum it was given."""
        reports = {name: fl.check(path) for name, path in self.arrays(place).items()}
        return all(
            report.ok and (name in self.unsummed or report.verified == report.stored)
            for name, report in reports.items()
        )


class Shards(Updates):
    """One transaction over two shards, whose indexes are longer than a page: a kill may tear them."""

    name, mixed = "shards", False
    shape, chunks = (4100, 4), (1, 4)
    replayed = False  # many chunks, and nothing that `updates` does not do
    slow_peers = ("zarr-python",)  # half a second for each read of so many chunks

    def first(self) -> State:
        return {"T": np.zeros(self.shape)}

    def change(self, k: int, arrays: Any) -> None:
        draw = random.Random(k)
        for row in (draw.randrange(4100), 5, 2049 + k % 2, 4099):
            arrays["T"][row, :] = k


class Several(Updates):
    """One transaction over three arrays of six shards each: indexes and checksums are written one by one."""

    name, slow = "several shards", True
    unsummed = ()
    shape, shards, chunks = (40, 24), (16, 16), (8, 8)

    def prepare(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        _core.write_group(str(place), "{}")
        for name, codec in zip(self.first(), ("raw", "raw", "blosc-lz4"), strict=False):
            array = fl.create(place / name, self.shards, "float64", chunks=self.chunks, codec=codec)
            array.resize(self.shape)  # an array that grew keeps its shards


class Resizes(Several):
    """A shape that grows and shrinks (scheme D), in turns with a transaction that fills what there is."""

    name, kinds, slow, mixed = "resize", 4, False, False

    def first(self) -> State:
        return {"A": np.zeros(self.shape)}

    def change(self, k: int, arrays: Any) -> None:
        arrays["A"][...] = k + np.arange(arrays["A"].size).reshape(arrays["A"].shape) / 1024

    def state(self, k: int) -> State:
        """Fill (k even) or cut and extend what state k - 1 has."""
        if k == 0:
            return self.first()
        if k % 2 == 0:
            filled = {"A": np.zeros(self._shape_of(k))}
            self.change(k, filled)
            return filled
        before, after = self.state(k - 1)["A"], np.zeros(self._shape_of(k))
        rows, columns = np.minimum(before.shape, after.shape)
        after[:rows, :columns] = before[:rows, :columns]
        return {"A": after}

    def _shape_of(self, k: int) -> tuple[int, int]:
        return ((40, 24), (13, 41))[(k + 1) // 2 % 2]

    def commit(self, place: Path, k: int) -> None:
        with fl.open(place / "A", mode="r+") as array:
            if k % 2:
                array.resize(self._shape_of(k))
            else:
                self.change(k, {"A": array})


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


class Repairs(Updates):
    """An index or a file of checksums that is damaged and repaired; then a transaction."""

    name, kinds, mixed = "repair", 3, False
    damaged = 0  # the last commit before which it was

    def first(self) -> State:
        return {"A": np.zeros(self.shape)}

    def _damage(self, place: Path, k: int) -> None:
        sums = k % 3 == 2
        path = place / "A" / ("__flagstone/chunks.bin" if sums else "c/0/0")
        if not path.exists():
            return
        with open(path, "r+b", buffering=0) as file:
            if k % 3 == 0:
                file.truncate(path.stat().st_size - 1000)
            else:
                file.seek(-900 if k % 3 == 1 else 100, os.SEEK_END if k % 3 == 1 else os.SEEK_SET)
                file.write(b"damaged!")

    def commit(self, place: Path, k: int) -> None:
        if self.damaged != k:  # tried again, it would be damaged beyond what can be repaired
            self.damaged = k
            self._damage(place, k)
        self.recover(place)
        super().commit(place, k)

    def away(self, place: Path) -> bool:
        """Say whether reading says that it is damaged: with these words, and no others."""
        try:
            self.read(place)
        except fl.FormatError as error:
            if not any(word in str(error) for word in ("index", "are damaged themselves")):
                raise
            return True
        return False

    def recover(self, place: Path) -> None:
        report = fl.repair(place)
        if report.lost:
            raise RuntimeError(str(report.lost))

    def whole(self, place: Path) -> bool:
        """Say whether checksums count, too, for every chunk that is stored."""
        reports = [fl.check(path) for path in self.arrays(place).values()]
        return all(report.ok and report.verified == report.stored for report in reports)
