"""Arrays that are computed where they are loaded, as operands."""

from __future__ import annotations

import numpy as np

import flagstone as fl

from .data import SIDE
from .entry import entry


@entry(
    "lazy operands",
    "Expression.__matmul__",
    "Expression.__rmatmul__",
    variants=(
        *("matmul", "packed", "E @ v", "v @ E", "pca"),
        *("rechunk", "transpose", "map_blocks", "fold", "chunks"),
    ),
)
def operands(kind):
    a = fl.open({"packed": "packed.zarr", "chunks": "small.zarr", "pca": "tall.npy"}.get(kind, "a.zarr"))
    e = abs(a * 2) + np.ones(a.shape[1], "f4")
    v = np.ones(SIDE, "f4")
    return {
        "matmul": lambda: fl.matmul(e, fl.open("f.npy"), out="product.zarr"),
        "packed": lambda: fl.matmul(e, fl.open("f.npy"), out="product.zarr"),
        "E @ v": lambda: e @ v,
        "v @ E": lambda: v @ e,
        "pca": lambda: fl.pca(e, 4, method="gram", out="lazy-pca.zarr"),
        "rechunk": lambda: fl.rechunk(e, (100, SIDE), out="lazy.zarr"),
        "transpose": lambda: fl.transpose(e, out="lazy.zarr"),
        "map_blocks": lambda: fl.map_blocks(np.negative, e, out="lazy.zarr"),
        "fold": lambda: fl.fold(np.max, max, fl.concat([e, a])),
        "chunks": lambda: fl.rechunk(e, (100, SIDE), out="lazy.zarr"),
    }[kind]


PLACED = {
    "broadcast_to": lambda a: fl.broadcast_to(a, (2, *a.shape)),
    "concat": lambda a: fl.concat([a, a * 2, fl.open("packed.zarr")], 1),
    "expand_dims": lambda a: fl.expand_dims(a, 1),
    "flip": fl.flip,
    "repeat": lambda a: fl.repeat(a, 2, 0),
    "roll": lambda a: fl.roll(a, 100, 0),
    "squeeze": lambda a: fl.squeeze(fl.expand_dims(a, 0)),
    "stack": lambda a: fl.stack([a, fl.open("small.zarr")]),
    "tile": lambda a: fl.tile(a, (2, 1)),
    "tril": fl.tril,
    "triu": lambda a: fl.triu(a, 5),
    "unstack": lambda a: fl.unstack(fl.stack([a, a]))[1],
}


@entry("at other places", "{}", variants=tuple(PLACED))
def placed(name):
    lazy = PLACED[name](fl.open("a.zarr"))
    return lambda: fl.compute(lazy.sum(), lazy.max(0))


CREATED = {
    "arange": lambda: fl.arange(SIDE * SIDE, dtype="float32"),
    "empty": lambda: fl.empty((SIDE, SIDE), "float32"),
    "empty_like": lambda: fl.empty_like(fl.open("a.npy")),
    "eye": lambda: fl.eye(SIDE, dtype="float32"),
    "from_function": lambda: fl.from_function(lambda i, j: i / (j + 1.0), (SIDE, SIDE), "float32"),
    "full": lambda: fl.full((SIDE, SIDE), 2, "float32"),
    "full_like": lambda: fl.full_like(fl.open("a.npy"), 3),
    "kernel_matrix": lambda: fl.kernel_matrix(np.linspace(0, 9, 3 * SIDE, dtype="f4").reshape(SIDE, 3)),
    "linspace": lambda: fl.linspace(0, 1, SIDE * SIDE),
    "meshgrid": lambda: fl.meshgrid(np.arange(SIDE), np.arange(SIDE))[1],
    "ones": lambda: fl.ones((SIDE, SIDE), "float32"),
    "ones_like": lambda: fl.ones_like(fl.open("a.npy")),
    "zeros": lambda: fl.zeros((SIDE, SIDE), "float32"),
    "zeros_like": lambda: fl.zeros_like(fl.open("a.npy")),
}


@entry("by position", "{}", variants=tuple(CREATED))
def created(name):
    lazy = CREATED[name]()
    return lambda: fl.compute(lazy + 1, out="lazy.zarr")


@entry("structures", "{}", variants=("symmetric", "hermitian", "triangular"))
def structures(name):
    lazy = getattr(fl, name)(fl.open("a.zarr"))
    return lambda: fl.compute(lazy + 1, out="lazy.zarr")


@entry("parts of lazy arrays", variants=("concat", "packed", "flip", "nothing", "steps"))
def parts(kind):
    a = fl.open("packed.zarr" if kind == "packed" else "a.zarr")
    lazy = (
        fl.flip(a, 0)
        if kind == "flip"
        else fl.zeros((SIDE, SIDE))
        if kind == "nothing"
        else fl.concat([a, a + 1])
    )
    key = np.s_[::3, ::2] if kind == "steps" else np.s_[1000:2500]
    return lambda: lazy[key]
