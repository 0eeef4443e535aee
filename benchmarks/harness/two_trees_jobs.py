"""What two_trees.py runs in both trees, each in a process of its own; public names alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CHUNK = 512  # a side of a float64 chunk, the default


# --- what both trees run, each in a process of its own ------------------------------------------------------


def rows_of(side: int) -> Iterator[tuple[int, object]]:
    import numpy as np

    rng = np.random.default_rng(0)
    for i in range(0, side, CHUNK):
        yield i, rng.random((min(CHUNK, side - i), side))


def make_zarr(path: str, side: int, codec: str = "raw") -> dict:
    """float64; values of which a codec makes something."""
    import numpy as np

    import flagstone as fl

    array = fl.create(path, (side, side), "float64", overwrite=True, codec=codec)
    with fl.transaction(path):
        for i, block in rows_of(side):
            array[i : i + len(block)] = block if codec == "raw" else np.floor(3 * block)
    array.close()
    return {}


def make_counts(path: str, rows: int, cols: int) -> dict:
    """Counts of a dozen kinds of rows, 6 % stored, as an uncompressed SciPy .npz."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    profiles = rng.gamma(0.3, 0.2, (12, cols)).astype(np.float32)
    blocks = []
    for i in range(0, rows, 2048):
        kinds = rng.integers(0, len(profiles), min(2048, rows - i))
        blocks.append(sp.csr_matrix(rng.poisson(profiles[kinds]).astype(np.float32)))
    part = Path(path).with_suffix(".part.npz")
    sp.save_npz(part, sp.vstack(blocks, format="csr"), compressed=False)
    part.rename(path)
    return {}


def timed(do: Callable[[], object]) -> dict:
    started = time.perf_counter()
    do()
    return {"seconds": time.perf_counter() - started}


def product(a: str, b: str, out: str, memory: str) -> dict:
    import flagstone as fl

    left, right = fl.open(a), fl.open(b)
    return timed(lambda: fl.matmul(left, right, out=out, memory=memory))


def pca(counts: str, k: int, out: str, memory: str) -> dict:
    import flagstone as fl

    x = fl.open(counts)  # imports it into scratch the first time
    return timed(lambda: fl.pca(x, k, out=out, memory=memory))


def vectors(path: str, columns: int) -> dict:
    import numpy as np

    import flagstone as fl

    array = fl.open(path)
    x = np.random.default_rng(1).random((array.shape[1], columns))
    return timed(lambda: array @ x)


def read(path: str, height: int, width: int) -> dict:
    """All of the array in boxes, each into fresh memory."""
    import flagstone as fl

    array = fl.open(path)
    side = array.shape[0]
    height, width = height or side, width or side

    def boxes() -> None:
        for i in range(0, side, height):
            for j in range(0, side, width):
                array[i : i + height, j : j + width]

    return timed(boxes)


def stored_sum(path: str) -> dict:
    import flagstone as fl

    array = fl.open(path)
    return timed(lambda: float(array.sum()))


def memory_sum(mib: int) -> dict:
    """Median seconds of the sum of an ndarray of float64."""
    import numpy as np

    import flagstone as fl

    values = np.random.default_rng(4).random(mib << 17)
    return {"seconds": statistics.median(timed(lambda: float(fl.sum(values)))["seconds"] for _ in range(15))}


def element(path: str, count: int) -> dict:
    """Median seconds of one element at a random place."""
    import random

    import flagstone as fl

    array, rng, taken = fl.open(path), random.Random(2), []
    array[0, 0]  # opens the shard and loads its index
    for _ in range(count):
        i, j = rng.randrange(array.shape[0]), rng.randrange(array.shape[1])
        taken.append(timed(lambda i=i, j=j: array[i, j])["seconds"])
    return {"seconds": statistics.median(taken)}


def transactions(path: str, count: int) -> dict:
    """One chunk each, on the disk when it ends."""
    import numpy as np

    import flagstone as fl

    array = fl.open(path, mode="r+")
    part = np.random.default_rng(3).random((CHUNK, CHUNK))
    across = array.shape[1] // CHUNK

    def commit() -> None:
        for k in range(count):
            i, j = divmod(k % across**2, across)
            with fl.transaction(path):
                array[i * CHUNK : (i + 1) * CHUNK, j * CHUNK : (j + 1) * CHUNK] = part

    return timed(commit)


def quarter(path: str) -> dict:
    """Every fourth chunk in one transaction."""
    import numpy as np

    import flagstone as fl

    array = fl.open(path, mode="r+")
    part = np.random.default_rng(4).random((CHUNK, CHUNK))
    across = array.shape[1] // CHUNK

    def commit() -> None:
        with fl.transaction(path):
            for k in range(0, across**2, 4):
                i, j = divmod(k, across)
                array[i * CHUNK : (i + 1) * CHUNK, j * CHUNK : (j + 1) * CHUNK] = part

    return timed(commit)


def imported() -> dict:
    import importlib

    return timed(lambda: importlib.import_module("flagstone"))
