"""Your own functions on disk: a product as a graph of tasks, a smoothing filter with halos, a histogram."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl

n, tile = 768, 256


def gemm(a, b, c):
    """One task: NumPy views of three tiles; c is the tile of the result itself."""
    c += a @ b


def smooth(x):
    """A block with one row more above and below, of which the outer ones are cut off afterwards."""
    return (x + np.roll(x, 1, 0) + np.roll(x, -1, 0)) / 3


with tempfile.TemporaryDirectory(dir=".") as name:
    folder = Path(name)
    rng = np.random.default_rng(0)
    A = fl.create(folder / "a.zarr", (n, n), "float32", chunks=(tile, tile))
    A[...] = rng.standard_normal((n, n), dtype=np.float32)
    B = fl.create(folder / "b.zarr", (n, n), "float32", chunks=(tile, tile))
    B[...] = rng.standard_normal((n, n), dtype=np.float32)
    C = fl.create(folder / "c.zarr", (n, n), "float32", chunks=(tile, tile))

    with fl.graph(memory="1GiB") as g:  # dependencies follow from what tasks touch
        for i in range(C.tiles[0]):
            for j in range(C.tiles[1]):
                for k in range(A.tiles[1]):
                    g.add(gemm, fl.read(A.tiles[i, k]), fl.read(B.tiles[k, j]), fl.update(C.tiles[i, j]))
    print(g.stats)
    assert np.allclose(np.asarray(C), np.asarray(A) @ np.asarray(B), rtol=1e-3, atol=1e-3)

    S = fl.map_blocks(smooth, C, halo=(1, 0), edge="periodic", out=folder / "s.zarr")
    x = np.asarray(C)
    assert np.allclose(np.asarray(S), (x + np.roll(x, 1, 0) + np.roll(x, -1, 0)) / 3, rtol=1e-4, atol=1e-4)

    # Two functions fold a whole array: one takes a block, the other combines two results, in a fixed order.
    edges = np.linspace(-100, 100, 21)
    counts = fl.fold(lambda block: np.histogram(block, edges)[0], np.add, fl.clip(S, -99, 99))
    assert counts.sum() == S.size
    print("histogram", counts)
