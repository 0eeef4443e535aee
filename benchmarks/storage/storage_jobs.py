"""What storage.py runs, each in a process of its own: writing, slices, single elements; ours and peers'."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

CHUNK = 512  # a side: the default of float64
SMALL = 64  # a side of chunks that are worth one request only together


def _blocks(side: int, step: int):
    """Rows of an array, a few at a time: what every format is filled with."""
    import numpy as np

    rng = np.random.default_rng(0)
    for i in range(0, side, step):
        yield i, rng.random((min(step, side - i), side))


def make(path: str, side: int, checksum: str) -> dict:
    import flagstone as fl

    A = fl.create(path, (side, side), "float64", overwrite=True, checksum=checksum)
    with fl.transaction(path):
        for i, block in _blocks(side, A.chunks[0]):
            A[i : i + len(block)] = block
    A.close()
    return {}


def make_small(path: str, side: int) -> dict:
    """float32 in chunks of 16 KiB, in shards of some MiB, every element another."""
    import numpy as np

    import flagstone as fl

    A = fl.create(path, (side, side), "float32", chunks=(SMALL, SMALL), overwrite=True)
    for i, block in _blocks(side, 1024):
        A[i : i + len(block)] = block.astype(np.float32)
    A.close()
    return {}


def make_peer(kind: str, path: str, side: int) -> dict:
    """The same numbers in a peer's own format: chunks of the same shape, not packed."""
    import numpy as np

    if kind == "memmap":
        out = np.lib.format.open_memmap(path, mode="w+", dtype="float64", shape=(side, side))
    elif kind == "h5py":
        import h5py

        file = h5py.File(path, "w")
        out = file.create_dataset("a", (side, side), "float64", chunks=(CHUNK, CHUNK))
    else:
        import zarr

        out = zarr.create_array(
            path, shape=(side, side), dtype="float64", chunks=(CHUNK, CHUNK), compressors=None
        )
    for i, block in _blocks(side, CHUNK):
        out[i : i + len(block)] = block
    if kind == "h5py":
        file.close()
    elif kind == "memmap":
        out.flush()
    return {}


def open_peer(kind: str, path: str):
    """Return (side, what loads a box)."""
    import numpy as np

    if kind == "flagstone":
        import flagstone as fl

        A = fl.open(path)
    elif kind == "memmap":
        A = np.load(path, mmap_mode="r")
        return A.shape[0], lambda rows, columns: np.array(A[rows, columns])
    elif kind == "h5py":
        import h5py

        A = h5py.File(path)["a"]
    elif kind == "tensorstore":
        import tensorstore

        store = {"driver": "file", "path": path}
        A = tensorstore.open({"driver": "zarr3", "kvstore": store}, read=True).result()
        return A.shape[0], lambda rows, columns: A[rows, columns].read().result()
    else:
        import zarr

        A = zarr.open_array(path, mode="r")
    return A.shape[0], lambda rows, columns: A[rows, columns]


def read(path: str, height: int, width: int, kind: str = "flagstone", shuffled: bool = False) -> dict:
    """All of the array in boxes, one request after the other, each into fresh memory."""
    import random

    side, load = open_peer(kind, path)
    boxes = [(i, j) for i in range(0, side, height) for j in range(0, side, width)]
    if shuffled:
        random.Random(1).shuffle(boxes)
    moved = 0
    with harness.measured() as run:
        for i, j in boxes:
            part = load(slice(i, i + height), slice(j, j + width))
            moved += part.nbytes
            del part  # two of the largest do not fit under the cap
    assert moved in (side * side * 4, side * side * 8), f"{kind}: {moved} bytes"
    return {**vars(run), "rate": moved / run.seconds}


def elements(path: str, count: int) -> dict:
    """Median seconds of A[i, j] at random places."""
    import random
    import statistics

    import flagstone as fl

    A, rng, taken = fl.open(path), random.Random(2), []
    A[0, 0]  # opens the shard and loads its index
    with harness.measured() as run:
        for _ in range(count):
            i, j = rng.randrange(A.shape[0]), rng.randrange(A.shape[1])
            started = time.perf_counter()
            A[i, j]
            taken.append(time.perf_counter() - started)
    return {**vars(run), "median": statistics.median(taken)}


def write(path: str, side: int) -> dict:
    """A new array in row order, in one transaction: on the disk when it ends."""
    import numpy as np

    import flagstone as fl

    A = fl.create(path, (side, side), "float64", overwrite=True)
    block = np.random.default_rng(0).random((A.chunks[0], side))
    with harness.measured() as run, fl.transaction(path):
        for i in range(0, side, len(block)):
            A[i : i + len(block), :] = block
    A.close()
    return vars(run)


def _written() -> int:
    os.sync()
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def update(path: str) -> dict:
    """Every fourth chunk of every row of chunks; bytes written ÷ bytes changed."""
    import numpy as np

    import flagstone as fl

    A = fl.open(path, mode="r+")
    (height, width), (down, across) = A.chunks, list(A.tiles)
    part = np.full((height, width), 3.0)
    before, changed = _written(), 0
    with harness.measured() as run, fl.transaction(path):
        for k in range(0, down * across, 4):
            i, j = divmod(k, across)
            A[i * height : (i + 1) * height, j * width : (j + 1) * width] = part
            changed += part.nbytes
    moved = _written() - before
    kept = sum(f.stat().st_size for f in Path(path).rglob("__flagstone/*"))
    return {**vars(run), "ratio": moved / changed, "metadata": kept / A.nbytes, "bytes": changed}


def small_rows(path: str, rows: int) -> dict:
    """Rows assigned one by one in one transaction; bytes written ÷ bytes changed."""
    import numpy as np

    import flagstone as fl

    A = fl.open(path, mode="r+")
    row, before = np.full(A.shape[1], 5.0), _written()
    with harness.measured() as run, fl.transaction(path):
        for i in range(rows):
            A[i] = row
    return {**vars(run), "ratio": (_written() - before) / (rows * row.nbytes)}


if __name__ == "__main__":
    harness.main(__file__, lambda: 2, make, make_small, make_peer, read, elements, write, update, small_rows)
