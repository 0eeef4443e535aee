"""A X with everything on disk against SciPy in memory: csrmm of BLAS-on-flash's figure, scaled down.

A is m x n in float32 with a share of its elements stored, X n x c; A, X and the product lie on disk, caches
are dropped before each run, inside the limit. SciPy holds its operands in memory, without a limit, on one
thread, and multiplies 64 of the columns: its time is scaled up. Processes of their own, in turn, medians. The
default takes half a minute; figure 6 there: ``--rows 1048576 --cols 131072 --columns 1024 --memory 1GiB``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

BESIDE = 64  # columns that SciPy multiplies


def blocks(rows: int, cols: int, share: float, seed: int = 1):
    """Give blocks of a random matrix: as many values in every row, in columns that increase."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    each, step = max(1, round(cols * share)), 1 << 15
    for first in range(0, rows, step):
        number = min(step, rows - first)
        columns = (rng.random((number, each), "f4") * (cols // each - 1)).astype("i4")
        columns += np.arange(each, dtype="i4") * (cols // each)
        values = rng.random(number * each, "f4")
        yield sp.csr_matrix((values, columns.ravel(), np.arange(number + 1) * each), (number, cols))


def on_disk(folder: str, memory: str) -> dict:
    import flagstone as fl

    a, x = fl.open(f"{folder}/a.zarr"), fl.open(f"{folder}/x.zarr")
    with harness.measured() as run:
        fl.matmul(a, x, out=f"{folder}/y.zarr", memory=memory)
    return vars(run) | {"stats": fl.stats().as_dict(), "nnz": a.nnz}


def in_memory(folder: str, rows: int, cols: int, share: float) -> dict:
    import numpy as np
    import scipy.sparse as sp

    import flagstone as fl

    a = sp.vstack(list(blocks(rows, cols, share))).tocsr()
    x = fl.open(f"{folder}/x.zarr")
    width = min(BESIDE, x.shape[1])
    some = np.ascontiguousarray(x[:, :width])
    with harness.measured() as run:
        product = a @ some
    ours = np.asarray(fl.open(f"{folder}/y.zarr")[:1000, :width])
    bound = 8 * a.indptr[1] * np.finfo("f4").eps * (abs(a[:1000]) @ abs(some))
    assert (abs(ours - product[:1000]) <= bound).all(), "the products differ"
    return vars(run) | {"seconds": run.seconds * x.shape[1] / width}


def run() -> int:
    args = harness.options(
        __doc__, rows=(1 << 17, 4000), cols=(1 << 16, 2000), columns=(256, 20), share=(1e-3, 1e-2),
        memory=("512MiB", "512MiB"), rounds=(3, 1),
    )  # fmt: skip
    import flagstone as fl

    folder = args.data / "csrmm"
    harness.remove(folder)
    folder.mkdir()
    try:
        shape = {"rows": args.rows, "cols": args.cols, "share": args.share}
        fl.from_blocks(blocks(**shape), folder / "a.zarr")
        fl.random.default_rng(2).standard_normal((args.cols, args.columns), "float32", out=folder / "x.zarr")
        one = partial(harness.child, __file__, timeout=args.timeout, folder=str(folder))
        runs = harness.alternate(
            args.rounds, {"flagstone": partial(one, on_disk, memory=args.memory),
                          "SciPy": partial(one, in_memory, **shape)}, [folder],
        )  # fmt: skip
    finally:
        if not args.keep:
            harness.remove(folder)
    ours, theirs = (harness.median(runs[name]) for name in ("flagstone", "SciPy"))
    first = runs["flagstone"][0]
    each = ours / first["nnz"] / args.columns * 1e9
    peak, limit = max(one["peak"] for one in runs["flagstone"]), harness.parse_bytes(args.memory)
    name = f"A X {args.rows} x {args.cols} x {args.columns}, {first['nnz']:,} values, on disk, {args.memory}"
    shown = f"{ours:.2f} s, {each:.2f} ns a value and column", f"{theirs:.2f} s"
    rows = [
        harness.figure(f"{name}: SciPy in memory ÷ ours", *shown, theirs / ours, ">= 2.0", args.full_size),
        harness.figure(f"{name}: peak ÷ limit", f"{peak >> 20} MiB", args.memory, peak / limit, "<= 1.00",
                       args.full_size),
    ]  # fmt: skip
    return harness.report(__file__, args, rows, runs=runs)


if __name__ == "__main__":
    harness.main(__file__, run, on_disk, in_memory)
