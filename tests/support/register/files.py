"""Files of other programs, opened, imported and written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import flagstone as fl

from .data import SIDE
from .entry import POINTERS, entry


@entry("open", "open", variants=(
    *("a.npy", "a.zarr", "s.zarr", "s.npz", "packed.npz", "csc.npz", "coo.npz", "a.npz", "s.mtx", "s.mtx.gz"),
    *("tall.mtx", "s.h5ad", "a.h5", "tall.parquet", "tall.csv", "short.csv.gz"),
    *("tenx.h5", "a.loom", "a.nc", "tables", "a.zarr.zip"),
), headers=POINTERS)  # fmt: skip
def open_file(name):
    os.utime(name)  # imported as if for the first time
    return lambda: fl.open(name)


@entry("open_raw", "open_raw")
def open_raw():
    return lambda: fl.open_raw("a.bin", "float32", (SIDE, SIDE))[:100]


@entry("open_raw_csr", "open_raw_csr")
def open_raw_csr():
    names = "csr-values.bin", "csr-columns.bin", "csr-pointers.bin"
    counts = sp.load_npz("s.npz")
    for name, part in zip(names, (counts.data, counts.indices, counts.indptr), strict=True):
        part.tofile(name)
    shape, x = counts.shape, np.ones((counts.shape[1], 4))
    return lambda: fl.open_raw_csr(*names, shape, dtype=counts.dtype, index_dtype=counts.indices.dtype) @ x


DENSE = ("npy", "zarr", "npz", "mtx", "svm", "h5", "h5ad", "parquet", "arrow", "csv")
SPARSE = ("zarr", "npz", "mtx", "mtx.gz", "svm", "h5", "h5ad")


@entry(
    "convert dense",
    "convert",
    variants=(
        *(f"tall.npy {e}" for e in DENSE),
        "short.npy mtx.gz",
        "short.npy csv.gz",
        "stripes.zarr mtx",
        "packed.zarr npy",
    ),
)
def convert_dense(case):
    name, ending = case.split()
    return lambda: fl.convert(name, f"converted.{ending}", overwrite=True)


@entry(
    "convert sparse",
    variants=(*(f"s.zarr {e}" for e in SPARSE), "csc.npz mtx", "csc.npz zarr"),
    headers=POINTERS,
)
def convert_sparse(case):
    name, ending = case.split()
    return lambda: fl.convert(name, f"converted-sparse.{ending}", overwrite=True)


@entry("import", variants=(
    *("s.mtx", "s.mtx.gz", "tall.mtx", "s.npz", "csc.npz", "coo.npz", "packed.npz", "s.h5ad"),
    *("a.h5", "tall.parquet", "a.npz", "tall.csv", "short.csv.gz"),
    *("tenx", "a.nc", "tables"),
), headers=POINTERS)  # fmt: skip
def imports(name):
    os.utime(name)
    return lambda: fl.convert(name, f"imported-{name}.zarr", overwrite=True)


@entry("write_obsm", "write_obsm")
def write_obsm():
    if not Path("obsm.h5ad").exists():
        fl.convert("s.zarr", "obsm.h5ad")
    rows = matrix_rows()
    return lambda: fl.write_obsm("obsm.h5ad", "X_pca", np.ones((rows, 8)))


def matrix_rows() -> int:
    return fl.open("s.zarr").shape[0]


@entry("SVMlight", variants=("open", "convert"), refused_late="how many columns there are, the text tells")
def svmlight(verb):
    os.utime("s.svm")
    if verb == "open":
        return lambda: fl.open("s.svm")
    return lambda: fl.convert("s.svm", "imported-svm.zarr", overwrite=True)
