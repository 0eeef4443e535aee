"""The operands of all entries: small, and larger than what a least limit leaves free."""

from __future__ import annotations

import gzip
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp
from scipy.io import netcdf_file

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
    np.save(folder / "definite.npy", (a + a.T) / 200 + 4 * np.eye(SIDE, dtype="f4"))
    fl.from_numpy(a, str(folder / "a.zarr"))
    fl.from_numpy(a.round(1), str(folder / "packed.zarr"), codec="zstd:1")
    small = fl.create(str(folder / "small.zarr"), a.shape, "float32", chunks=(64, 64))
    small[...] = a
    stripes = fl.create(str(folder / "stripes.zarr"), a.shape, "float32", chunks=(32, SIDE))
    stripes[...] = a
    places = np.linspace(0, 1, 9000).reshape(3000, 3)[:, ::-1]
    np.save(folder / "points.npy", places)
    np.save(folder / "targets.npy", np.sin(9 * places[:, 0]))
    np.save(folder / "graph.npy", np.random.default_rng(8).integers(0, 3000, (60_000, 2)))
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
    of_other_programs(folder, a, counts)
    fl.pca(fl.open(str(folder / "tall.npy"))[:5000], 5, out=str(folder / "pca.zarr"))


def of_other_programs(folder: Path, a: np.ndarray, counts: sp.csr_matrix) -> None:
    """10x, both ways, loom, netCDF 3, a folder of Parquet, Zarr in a zip: as their programs write them."""
    genes = np.array([f"gene {i}" for i in range(counts.shape[1])], "S")
    cells = np.array([f"cell {i}" for i in range(counts.shape[0])], "S")
    with h5py.File(folder / "tenx.h5", "w") as file:
        matrix = file.create_group("matrix")
        for name in ("data", "indices", "indptr"):  # genes x cells by columns: cells x genes by rows
            matrix.create_dataset(name, data=getattr(counts, name), chunks=(4096,), compression="gzip")
        matrix["shape"], matrix["barcodes"] = np.array(counts.shape[::-1], np.int32), cells
        matrix["features/name"] = matrix["features/id"] = genes
    tenx = folder / "tenx"
    tenx.mkdir()
    few = counts[:4000].tocoo()
    with gzip.open(tenx / "matrix.mtx.gz", "wt", 1) as text:
        text.write("%%MatrixMarket matrix coordinate integer general\n")
        text.write(f"{few.shape[1]} {few.shape[0]} {few.nnz}\n")
        np.savetxt(text, np.stack([few.col + 1, few.row + 1, few.data.astype(int)], 1), "%d %d %d")
    for name, lines in (("features", genes), ("barcodes", cells[:4000])):
        with gzip.open(tenx / f"{name}.tsv.gz", "wb", 1) as packed:
            packed.write(b"\n".join(lines) + b"\n")
    with h5py.File(folder / "a.loom", "w") as file:
        file.create_dataset("matrix", data=a, chunks=(64, 64))
        file["row_attrs/Gene"] = np.array([f"gene {i}" for i in range(SIDE)], "S")
        file["col_attrs/CellID"] = np.array([f"cell {i}" for i in range(SIDE)], "S")
        file.create_group("layers")
    with netcdf_file(folder / "a.nc", "w") as file:
        for name in ("y", "x"):
            file.createDimension(name, SIDE)
        file.createVariable("a", "f4", ("y", "x"))[:] = a
    tables = folder / "tables"
    tables.mkdir()
    shutil.copy(folder / "tall.parquet", tables / "0.parquet")
    shutil.copy(folder / "tall.parquet", tables / "1.parquet")
    with zipfile.ZipFile(folder / "a.zarr.zip", "w") as packed:
        for place in sorted((folder / "a.zarr").rglob("*")):
            if place.is_file() and "__flagstone" not in place.parts:
                packed.write(place, str(place.relative_to(folder / "a.zarr")))
