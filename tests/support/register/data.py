"""The operands of all entries: small, and larger than what a least limit leaves free."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import flagstone as fl
from tests.support.processes import random_csr

SIDE = 3072  # of the dense squares: 36 MiB of float32
TALL = (100_000, 96)  # 37 MiB
COUNTS = (60_000, 2_000)  # 1.2 million stored values


def prepare(folder: Path) -> None:
    """Write them; 20 seconds of one processor at most, 600 MB."""
    rng = np.random.default_rng(7)
    a = rng.standard_normal((SIDE, SIDE), dtype="float32")
    np.save(folder / "a.npy", a)
    np.save(folder / "f.npy", np.asfortranarray(a))
    np.save(folder / "definite.npy", a / 100 + 4 * np.eye(SIDE, dtype="f4"))  # by its lower triangle
    fl.from_numpy(a, str(folder / "a.zarr"))
    fl.from_numpy(a.round(1), str(folder / "packed.zarr"), codec="zstd:1")
    small = fl.create(str(folder / "small.zarr"), a.shape, "float32", chunks=(64, 64))
    small[...] = a
    stripes = fl.create(str(folder / "stripes.zarr"), a.shape, "float32", chunks=(32, SIDE))
    stripes[...] = a
    places = np.linspace(0, 1, 9000).reshape(3000, 3)[:, ::-1]
    np.save(folder / "points.npy", places)
    np.save(folder / "targets.npy", np.sin(9 * places[:, 0]))
    np.save(folder / "ints.npy", rng.integers(0, 20, (SIDE, SIDE), dtype=np.int32))
    z = a[:1536, :1536]
    np.save(folder / "z.npy", z + 1j * z)
    tall = rng.standard_normal(TALL, dtype="float32") * np.geomspace(9, 0.5, TALL[1], dtype="float32")
    np.save(folder / "tall.npy", tall + 1)
    np.save(folder / "y.npy", tall.sum(1))
    np.save(folder / "short.npy", tall[:6000])  # for formats that take seconds for what others take in one
    counts = random_csr(*COUNTS, 0.01, 3, "float32")
    counts.data = np.ceil(counts.data * 9)
    fl.from_blocks((counts[i : i + 10_000] for i in range(0, COUNTS[0], 10_000)), str(folder / "s.zarr"))
    sp.save_npz(folder / "s.npz", counts, compressed=False)
    sp.save_npz(folder / "packed.npz", counts)
    sp.save_npz(folder / "csc.npz", counts.tocsc(), compressed=False)
    sp.save_npz(folder / "coo.npz", counts.tocoo(), compressed=False)
    for name in ("s.mtx", "s.svm", "s.h5ad"):
        fl.convert(str(folder / "s.zarr"), str(folder / name))
    for name in ("a.h5", "tall.parquet", "a.npz", "tall.mtx", "tall.csv", "short.csv.gz"):
        fl.convert(str(folder / f"{name.split('.')[0]}.npy"), str(folder / name))
    with open(folder / "s.mtx", "rb") as plain, gzip.open(folder / "s.mtx.gz", "wb", 1) as packed:
        shutil.copyfileobj(plain, packed)
    a.tofile(folder / "a.bin")
    fl.pca(fl.open(str(folder / "tall.npy"))[:5000], 5, out=str(folder / "pca.zarr"))
