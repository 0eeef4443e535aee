"""1, inf, max and Frobenius norm of a float64 matrix on disk: time ÷ one read at the disk's raw rate.

The raw rate is fio's with direct I/O, 1 MiB blocks at depth 16, measured in turn with each norm: a shared
disk moves by half within a minute, so a norm answers for the reads beside it alone. Medians; caches dropped.
The norms are checked against NumPy's of row blocks.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring

ORDERS = ("fro", "max", 1, float("inf"))


def make(path: str, rows: int, cols: int) -> dict:
    import numpy as np

    import flagstone as fl

    rng = np.random.default_rng(0)
    X = fl.create(path, (rows, cols), "float64", overwrite=True)
    for i in range(0, rows, 1024):
        X[i : i + 1024] = rng.standard_normal((min(1024, rows - i), cols))
    X.close()
    return {}


def norms(path: str, memory: str, order: str) -> dict:
    import numpy as np

    import flagstone as fl

    X = fl.open(path)
    asked = [one for one in ORDERS if order in ("all", str(one))]
    with fl.Runtime(memory=memory):
        with harness.measured() as run:
            found = fl.compute(*(fl.linalg.matrix_norm(X, ord=one) for one in asked))
        stats = fl.stats().as_dict()
    values = dict(zip(asked, np.atleast_1d(found).tolist(), strict=True))
    if order == "all":
        squares, most, columns, row = 0.0, 0.0, 0.0, 0.0
        for i in range(0, X.shape[0], 1024):
            part = np.abs(X[i : i + 1024])
            squares += float((part**2).sum())
            most, row, columns = max(most, part.max()), max(row, part.sum(1).max()), columns + part.sum(0)
        wanted = {"fro": squares**0.5, "max": most, 1: np.max(columns), float("inf"): row}
        for one, value in values.items():
            assert abs(value - wanted[one]) <= 1e-12 * wanted[one], f"norm {one} is wrong"
    return {**vars(run), "stats": stats}


def run() -> int:
    args = harness.options(
        __doc__, rows=(32768, 2048), cols=(32768, 1500), memory=("1GiB", "512MiB"), rounds=(3, 1),
        gib=(8.0, 0.125),
    )  # fmt: skip
    if not shutil.which("fio"):
        harness.note("norms: fio was not found; install it (apt-get install fio).")
        return 3
    source, file = args.data / "norms.zarr", args.data / "fio"
    engine, nbytes = ring.fio_engine(args.data), args.rows * args.cols * 8
    fio = partial(
        ring.fio, file=file, gib=args.gib, block="1m", depth="16", engine=engine, timeout=args.timeout
    )
    child = partial(harness.child, __file__)
    orders = [*(str(one) for one in ORDERS), "all"]
    try:
        child(make, args.timeout, path=source, rows=args.rows, cols=args.cols)
        fio("write")
        results = {}
        for order in orders:
            run = partial(child, norms, args.timeout, path=source, memory=args.memory, order=order)
            pair = {f"norm {order}": run, f"fio beside {order}": partial(fio, "read")}
            results |= harness.alternate(args.rounds, pair, [source, file])
    finally:
        harness.remove(file, *([] if args.keep else [source]))
    rows = []
    for order in orders:
        seconds = harness.median(results[f"norm {order}"])
        rate = harness.median(results[f"fio beside {order}"], "rate")
        shown = f"{seconds:.2f} s", f"{nbytes / rate:.2f} s ({rate / 1e9:.2f} GB/s)"
        what = f"norm {order} of {nbytes / 2**30:.3g} GiB: seconds ÷ one read"
        rows.append(harness.figure(what, *shown, seconds * rate / nbytes, "<= 1.05", args.full_size))
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, make, norms)
