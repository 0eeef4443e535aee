"""Functions of users, run on tiles."""

from __future__ import annotations

import numpy as np

import flagstone as fl

from .data import SIDE
from .entry import entry


@entry("map_tiles", "map_tiles", "map_blocks", variants=("tiles", "blocks", "halo"))
def maps(kind):
    a = fl.open("a.zarr")
    if kind == "tiles":
        return lambda: fl.map_tiles(np.abs, a, out="mapped.zarr", scratch="1MiB")
    halo = 2 if kind == "halo" else 0
    return lambda: fl.map_blocks(np.abs, a, block=(512, 512), halo=halo, out="mapped.zarr", scratch="2MiB")


@entry("fold", "fold", variants=("scalars", "large"))
def fold(kind):
    a = fl.open("a.npy")
    if kind == "scalars":
        return lambda: fl.fold(lambda x: x.sum(), np.add, a, scratch="1MiB")
    return lambda: fl.fold(lambda x: x.sum(0), np.add, a, scratch="1MiB", partial=SIDE * 4)


@entry(
    "graph",
    "graph",
    "Graph.add",
    "Graph.run",
    "Graph.plan",
    "{}",
    variants=("read", "write", "update", "reduce"),
)
def graph(verb):
    a = fl.open("a.zarr")
    b = fl.create("tasks.zarr", a.shape, a.dtype, chunks=a.chunks, overwrite=True)
    total = fl.create("total.zarr", a.chunks, a.dtype, chunks=a.chunks, overwrite=True)

    def work(x, y):
        y[...] = 1

    def run():
        with fl.graph() as g:
            for i in range(a.tiles[0]):
                for j in range(a.tiles[1]):
                    where = total.tiles[0, 0] if verb == "reduce" else b.tiles[i, j]
                    access = fl.write if verb == "read" else getattr(fl, verb)
                    g.add(work, fl.read(a.tiles[i, j]), access(where))

    return run
