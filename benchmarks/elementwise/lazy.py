"""Lazy operands against stored ones: `pca(A - A.mean(0))`, a product with `log1p(A)`, a sum of joined files.

Each pair runs in turn, in fresh processes with cold caches; medians of their seconds. Making the mean, and
the stored operand, is not counted. Results of a pair are compared: the product to the bit. `--scale` is the
share of the full size in bytes.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

PARTS = ("pca", "product", "concat")
COLUMNS = 1024  # of the tall matrix
FILES = 16


def sides(scale: float) -> tuple[int, int, int]:
    """Rows of the tall matrix, side of the squares, rows of one joined file of COLUMNS columns."""
    return int(2_097_152 * scale), int(16384 * scale**0.5), int(131_072 * scale)


def make(part: str, scale: float, folder: str) -> dict:
    import numpy as np

    import flagstone as fl

    tall, side, rows = sides(scale)
    rng = np.random.default_rng(0)
    place = Path(folder)

    def filled(name: str, shape: tuple[int, int], weights: float | np.ndarray = 1.0) -> None:
        array = fl.create(place / name, shape, "float32", overwrite=True)
        for first in range(0, shape[0], 4096):
            block = rng.standard_normal((min(4096, shape[0] - first), shape[1]), dtype=np.float32)
            array[first : first + len(block)] = block * weights + 1
        array.close()

    if part == "pca":
        filled("tall.zarr", (tall, COLUMNS), np.geomspace(9, 0.1, COLUMNS, dtype="float32"))
    if part == "product":
        filled("a.zarr", (side, side))
        filled("b.zarr", (side, side))
        fl.compute(np.log1p(abs(fl.open(place / "a.zarr"))), out=place / "log.zarr")
    if part == "concat":
        for number in range(FILES):
            filled(f"part-{number:02}.npy", (rows, COLUMNS))
        fl.compute(fl.open(str(place / "part-*.npy")), out=place / "whole.npy")
    return {}


def measure(part: str, lazy: bool, folder: str, memory: str) -> dict:
    import numpy as np

    import flagstone as fl

    place = Path(folder)
    with fl.Runtime(memory=memory):
        if part == "pca":
            a = fl.open(place / "tall.zarr")
            x = a - a.mean(0) if lazy else a
            call = partial(fl.pca, x, 20)
        elif part == "product":
            a = fl.open(place / "a.zarr")
            x = np.log1p(abs(a)) if lazy else fl.open(place / "log.zarr")
            call = partial(fl.matmul, x, fl.open(place / "b.zarr"))
        else:
            x = fl.open(str(place / "part-*.npy")) if lazy else fl.open(place / "whole.npy")
            call = partial(fl.compute, x.sum())
        with harness.measured() as run:
            result = call()
        stats = fl.stats().as_dict()
        if part == "pca":
            told = result.singular_values.tolist()
        elif part == "product":
            told = [float(np.asarray(row, "f8") @ np.arange(len(row))) for row in (result[0], result[-1])]
        else:
            told = [float(result)]
    return {**vars(run), "stats": stats, "told": told}


def agree(part: str, lazy: list[float], stored: list[float]) -> bool:
    """Sums and singular values to rounding (other tiles, other centring); products to the bit."""
    near = all(abs(x - y) <= 1e-4 * abs(y) for x, y in zip(lazy, stored, strict=True))
    return lazy == stored if part == "product" else near


FIGURES = {
    "pca": ("pca of A - A.mean(0) ÷ of A, k = 20", "<= 1.10"),
    "product": ("product with a lazy log1p ÷ with a stored one", "<= 1.08"),
    "concat": (f"sum over {FILES} joined files ÷ over one file", "<= 1.05"),
}


def run() -> int:
    args = harness.options(
        __doc__, scale=(1.0, 1 / 512), memory=("1GiB", "256MiB"), product_memory=("512MiB", "256MiB"),
        rounds=(3, 1), only=(",".join(PARTS), "product,concat"),
    )  # fmt: skip
    rows, runs = [], {}
    folder = args.data / "lazy"
    for part in args.only.split(","):
        folder.mkdir(exist_ok=True)
        memory = args.product_memory if part == "product" else args.memory
        try:
            harness.child(__file__, make, args.timeout, part=part, scale=args.scale, folder=folder)
            pair = {
                kind: partial(
                    harness.child, __file__, measure, args.timeout, part=part, lazy=kind == "lazy",
                    folder=folder, memory=memory,
                )
                for kind in ("lazy", "stored")
            }  # fmt: skip
            results = harness.alternate(args.rounds, pair, sorted(folder.iterdir()))
        finally:
            if not args.keep:
                harness.remove(folder)
        lazy, stored = (harness.median(results[kind]) for kind in ("lazy", "stored"))
        assert agree(part, results["lazy"][0]["told"], results["stored"][0]["told"]), (
            f"{part}: results differ"
        )
        what, target = FIGURES[part]
        rows.append(
            harness.figure(what, f"{lazy:.2f} s", f"{stored:.2f} s", lazy / stored, target, args.full_size)
        )
        runs |= {f"{part} {kind}": found for kind, found in results.items()}
    return harness.report(__file__, args, rows, runs=runs)


if __name__ == "__main__":
    harness.main(__file__, run, make, measure)
