"""What checksums cost: a cold sequential read of one array with them and without, in turn.

    python benchmarks/checksum.py [--gib 2] [--pairs 12] [--directory DIR]

Reads through `Array[...]`, row blocks into ordinary memory, after dropping the array from the page cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import flagstone as fl


def forget(path: Path) -> None:
    """Drop what the page cache holds of a directory."""
    for file in path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def read(path: Path, rows: int) -> float:
    forget(path)
    array = fl.open(path)
    began = time.perf_counter()
    for first in range(0, array.shape[0], rows):
        array[first : first + rows]
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    side = int((options.gib * 2**30 / 8) ** 0.5) // 1024 * 1024
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        rows = np.random.default_rng(0).normal(size=(1024, side))
        paths = {}
        for checksum in ("none", "sidecar"):
            paths[checksum] = Path(place, f"{checksum}.zarr")
            array = fl.create(paths[checksum], (side, side), "float64", checksum=checksum)
            for first in range(0, side, 1024):
                array[first : first + 1024] = rows
            array.close()
        times: dict[str, list[float]] = {name: [] for name in paths}
        for pair in range(options.pairs):
            for name in list(paths)[:: 1 if pair % 2 else -1]:
                times[name].append(read(paths[name], 1024))
        total = {name: sum(values) for name, values in times.items()}
        nbytes = side * side * 8
        for name, values in times.items():
            print(f"{name:8} {nbytes / statistics.median(values) / 1e6:8.0f} MB/s (median)")
        print(f"cost of checksums, total times: {total['sidecar'] / total['none'] - 1:+.1%}")


if __name__ == "__main__":
    main()
