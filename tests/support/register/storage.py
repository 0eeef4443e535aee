"""Arrays made, rewritten, resized, packed, checked, deleted."""

from __future__ import annotations

import shutil

import numpy as np

import flagstone as fl

from .data import SIDE
from .entry import POINTERS, entry


@entry("rechunk", "rechunk", variants=(
    *("a.npy -1,100", "a.zarr -1,64", "small.zarr 1024,1024", "stripes.zarr -1,32", "stripes.zarr 32,32"),
    *("a.npy 16,16", "packed.zarr 100,-1"),
))  # fmt: skip
def rechunk(case):
    name, chunks = case.split()
    a = fl.open(name)
    return lambda: fl.rechunk(a, tuple(int(c) for c in chunks.split(",")), out="rechunked.zarr")


@entry("transpose", "transpose", variants=("a.npy", "f.npy", "a.zarr", "stripes.zarr", "small.zarr"))
def transpose(name):
    a = fl.open(name)
    return lambda: fl.transpose(a, out="transposed-dense.zarr")


@entry("rechunk, other dtype or order", variants=("dtype", "order", "codec"))
def rechunk_otherwise(kind):
    a = fl.open("a.npy")
    how = {"dtype": {"dtype": "float64"}, "order": {"order": "F"}, "codec": {"codec": "zstd:1"}}[kind]
    return lambda: fl.rechunk(a, (1024, 1024), out="rechunked.zarr", **how)


@entry("create", "create")
def create():
    return lambda: fl.create("created.zarr", (SIDE, SIDE), "float32", overwrite=True)


@entry(
    "from_numpy",
    "from_numpy",
    variants=("memory", "fortran", "strided", "memmap", "copy-on-write", "zstd:1", "float64"),
)
def from_numpy(kind):
    mode = {"memmap": "r", "copy-on-write": "c"}.get(kind)
    a = np.load("f.npy" if kind == "fortran" else "a.npy", mmap_mode=mode)
    a = a[:, ::2] if kind == "strided" else a
    codec = kind if ":" in kind else "raw"
    dtype = kind if kind == "float64" else None
    return lambda: fl.from_numpy(a, "made.zarr", overwrite=True, codec=codec, dtype=dtype)


@entry("resize", "Array.resize", variants=("raw", "zstd:1"))
def resize(codec):
    a = fl.create("resized.zarr", (SIDE, SIDE), "float32", codec=codec, overwrite=True)
    a[...] = np.load("a.npy")
    return lambda: a.resize((SIDE - 5, SIDE + 3))


@entry("pack", "pack", variants=("zstd:1", "raw"))
def pack(codec):
    source = "packed.zarr" if codec == "raw" else "a.zarr"
    return lambda: fl.pack(source, "packed-copy.zarr", codec=codec, overwrite=True)


@entry(
    "check",
    "check",
    variants=("a.zarr", "packed.zarr", "small.zarr", "s.zarr", "a.h5", "s.npz"),
    headers=POINTERS,
)
def check(name):
    return lambda: fl.check(name)


@entry("repair", "repair")
def repair():
    return lambda: fl.repair("a.zarr")


@entry("delete", "delete")
def delete():
    shutil.copytree("small.zarr", "gone.zarr", dirs_exist_ok=True)
    return lambda: fl.delete("gone.zarr")


@entry("resume", "resume")
def resume():
    return lambda: nothing_left(fl.resume)


def nothing_left(resume):
    """Who resumes a call that ended hears that nothing is left of it; its data are not read."""
    try:
        resume("a.zarr")
    except (fl.Error, ValueError):
        return


@entry("to_dask", "to_dask", "dask_chunks")
def to_dask():
    a = fl.open("a.zarr")
    return lambda: fl.dask_chunks(a)
