"""Reading and assigning parts of arrays."""

from __future__ import annotations

from functools import partial

import numpy as np
import zarr

import flagstone as fl

from .data import SIDE
from .entry import entry

KEYS = {
    "box": np.s_[100:2900, 17:3000],
    "rows": np.s_[:1500],
    "steps": np.s_[::2, ::3],
    "backwards": np.s_[::-1],
    "mask": np.arange(SIDE) % 3 == 0,
    "list": ([0, 5, 3071], slice(None)),
    "scalar": np.s_[7, 9],
}
STORED = ("a.npy", "f.npy", "a.zarr", "packed.zarr", "small.zarr", "stripes.zarr")
CASES = tuple(f"{name} {key}" for name in STORED for key in KEYS)


@entry("A[key]", "Array.__getitem__", variants=CASES)
def read_part(case):
    name, key = case.split()
    a = fl.open(name)
    return lambda: a[KEYS[key]]


@entry("A.T[key]", variants=CASES)
def read_transposed(case):
    name, key = case.split()
    a = fl.open(name).T
    return lambda: a[KEYS[key]]


@entry("A.oindex[key]", "Array.oindex", variants=STORED)
def read_orthogonal(name):
    a = fl.open(name)
    return lambda: a.oindex[::5, np.arange(SIDE) % 2 == 0]


@entry("np.asarray(A)", "Array.__array__", variants=STORED)
def read_all(name):
    a = fl.open(name)
    return lambda: np.asarray(a)


@entry("for row in A", "Array.__iter__", "Array.__len__", variants=STORED)
def iterate(name):
    a = fl.open(name)

    def rows():
        for i, row in enumerate(a):
            if i == 40:
                return
            assert row.shape == (SIDE,)

    return rows


@entry("A.segments", "Array.segments", "Array.each_segment", variants=("segments", "each_segment"))
def segments(verb):
    a = fl.open("a.zarr")
    if verb == "segments":
        return lambda: sum(1 for _ in a.segments(nbytes="8MiB"))
    return lambda: a.each_segment(lambda where, part: None, nbytes="8MiB")


def fresh(**options) -> fl.Array:
    """An array to assign to, as large as a.npy."""
    return fl.create("assigned.zarr", (SIDE, SIDE), "float32", overwrite=True, **options)


@entry("A[key] = ndarray", "Array.__setitem__", variants=("float32", "float64", "fortran", "transposed"))
def assign(kind):
    values = np.load("a.npy")
    values = np.asfortranarray(values) if kind == "fortran" else values
    values = values.astype("float64") if kind == "float64" else values
    a = fresh().T if kind == "transposed" else fresh()
    return partial(a.__setitem__, ..., values)


@entry("A[key] = number", variants=("box", "rows", "steps", "mask"))
def assign_number(key):
    return partial(fresh().__setitem__, KEYS[key], 3)


@entry("A[packed, steps] = ndarray", variants=("zstd:1", "raw"))
def assign_steps(codec):
    return partial(fresh(codec=codec).__setitem__, np.s_[::2, ::3], np.ones((SIDE // 2, SIDE // 3)))


@entry("A[...] = memmap", variants=("a.npy", "f.npy"))
def assign_memmap(name):
    return partial(fresh().__setitem__, ..., np.load(name, mmap_mode="r"))


@entry("A[...] = Array", variants=("a.npy", "a.zarr", "packed.zarr", "f.npy"))
def assign_array(name):
    return partial(fresh().__setitem__, ..., fl.open(name))


@entry("A[...] = expression", variants=("a.npy", "small.zarr"))
def assign_expression(name):
    return partial(fresh().__setitem__, ..., fl.open(name) * 2)


@entry("A[key] = ndarray of another program's", variants=("raw 2", "raw 3", "zstd 3"))
def assign_foreign(how):
    codec, version = how.split()
    more = {"compressors": None} if codec == "raw" else {}
    made = zarr.create_array(
        "foreign.zarr", shape=(SIDE, SIDE), chunks=(512, 512), dtype="f4", overwrite=True,
        zarr_format=int(version), **more,
    )  # fmt: skip
    made[:512] = np.ones((512, SIDE), "f4")
    a, values = fl.open("foreign.zarr", mode="r+", decode=False), np.load("a.npy")
    return partial(a.__setitem__, np.s_[:, 100:], values[:, 100:])


@entry("A.oindex[key] = ndarray")
def assign_orthogonal():
    a, values = fresh(), np.ones((SIDE // 4, SIDE // 2), "float32")
    return partial(a.oindex.__setitem__, np.s_[::4, ::2], values)


@entry("flat[key] = ndarray", "Array.flush", "Array.close")
def assign_flat():
    np.lib.format.open_memmap("flat.npy", "w+", "float32", (SIDE, SIDE)).flush()
    values = np.ones((SIDE, SIDE), "float32")

    def assign_and_close():
        with fl.open("flat.npy", mode="r+") as a:
            a[...] = values
            a.flush()

    return assign_and_close


@entry("with transaction", "transaction", variants=("rows", "whole", "odd", "wide"))
def in_transaction(how):
    a = fresh(chunks=(512, 512))
    if how == "wide":  # a stripe of chunks is larger than what may wait
        a = fl.create("assigned.zarr", (SIDE, SIDE), "float64", chunks=(512, 512), overwrite=True)
    row = np.ones((1, SIDE), a.dtype)
    whole = np.ones((SIDE, SIDE), "float32")

    def update():
        with fl.transaction("assigned.zarr"):
            if how == "whole":
                a[...] = whole
            for i in range(0, SIDE if how != "whole" else 0, 16 if how == "rows" else 97):
                a[i : i + 1] = row

    return update


@entry("epochs", "epochs", "Epochs.commit", "Epochs.next", "Epochs.current", "Epochs.close")
def epochs():
    steps = fl.epochs("steps.zarr", (SIDE, SIDE), "float32", overwrite=True)
    values = np.ones((SIDE, SIDE), "float32")

    def commit():
        steps.next[...] = values
        steps.commit({"step": 1})
        return steps.current[0]

    return commit
