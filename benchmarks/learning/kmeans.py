"""k-means from given seeds in 512 MiB, against a product X Cᵀ per pass and scikit-learn, both in memory.

Default 400,000 x 128 float32 (0.2 GB), k = 256, 10 iterations; --rows 4000000 is the size of the targets
(2 GiB; the baselines hold it twice). Fresh processes in turn, best of the rounds.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness


def ours(npy: str, k: int, iterations: int, memory: str) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(npy)
    seeds = np.asarray(x[:k], float)
    call = {"init": seeds, "iterations": iterations, "tol": 0, "labels": False, "memory": memory}
    plan = fl.kmeans.plan(x, **call)
    with harness.measured() as run:
        found = fl.kmeans(x, **call)
    return {**vars(run), "inertia": found.inertia, "iterations": found.iterations, "plan": plan.as_dict(),
            "stats": fl.stats().as_dict()}  # fmt: skip


def product(npy: str, k: int, iterations: int) -> dict:
    """X Cᵀ in blocks of rows that stay in the cache, once a pass, with all processors."""
    import numpy as np

    x = np.load(npy)
    harness.assert_all_threads()
    c = np.ascontiguousarray(x[:k])
    block = 8192
    out = np.empty((block, k), x.dtype)
    np.matmul(x[:block], c.T, out=out[: len(x[:block])])
    with harness.measured() as run:
        for _ in range(iterations):
            for row in range(0, len(x), block):
                part = x[row : row + block]
                np.matmul(part, c.T, out=out[: len(part)])
    return vars(run)


def scikit_learn(npy: str, k: int, iterations: int) -> dict:
    import warnings

    import numpy as np
    from sklearn.cluster import KMeans

    x = np.load(npy)
    harness.assert_all_threads()
    model = KMeans(k, init=x[:k], n_init=1, max_iter=iterations, tol=0, algorithm="lloyd")
    with harness.measured() as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x)
    return {**vars(run), "inertia": float(model.inertia_), "iterations": int(model.n_iter_)}


def make(rows: int, cols: int, to: str) -> dict:
    """Points around 1,000 centers."""
    import numpy as np

    rng = np.random.default_rng(0)
    centers = 2 * rng.standard_normal((1000, cols), dtype=np.float32)
    out = np.lib.format.open_memmap(to, mode="w+", dtype=np.float32, shape=(rows, cols))
    for row in range(0, rows, 8192):
        number = min(8192, rows - row)
        out[row : row + number] = centers[rng.integers(1000, size=number)]
        out[row : row + number] += rng.standard_normal((number, cols), dtype=np.float32)
    out.flush()
    return {"rows": rows}


def run() -> int:
    args = harness.options(
        __doc__, rows=(400_000, 20_000), cols=(128, 32), k=(256, 16), iterations=(10, 2), rounds=(2, 1),
        memory=("512MiB",) * 2, baselines=("product,scikit_learn", "product"),
    )  # fmt: skip
    npy = args.data / f"points-{args.rows}x{args.cols}.npy"
    if not npy.exists():
        harness.child(__file__, make, args.timeout, rows=args.rows, cols=args.cols, to=npy)
    given = {"npy": npy, "k": args.k, "iterations": args.iterations}
    runs = {"flagstone": partial(harness.child, __file__, ours, args.timeout, memory=args.memory, **given)}
    for name in args.baselines.split(","):
        runs[name] = partial(harness.child, __file__, name, args.timeout, **given)
    try:
        results = harness.alternate(args.rounds, runs, [npy])
    finally:
        if not args.keep:
            harness.remove(npy)
    mine, first = harness.best(results["flagstone"]), results["flagstone"][0]
    judged = args.full_size and args.rows == 4_000_000
    name = f"k-means {args.rows} x {args.cols}, k = {args.k}, {args.iterations} iterations, {args.memory}"
    rows = []
    for other, target in (("product", "<= 1.15"), ("scikit_learn", "<= 0.85")):
        if other in results:
            best = harness.best(results[other])
            shown = f"{mine:.2f} s", f"{best:.2f} s {other}"
            rows.append(harness.figure(f"{name}: time", *shown, mine / best, target, judged))
    peak = max(result["peak"] for result in results["flagstone"])
    limit = harness.parse_bytes(args.memory)
    shown = f"{peak >> 20} MiB", args.memory
    rows.append(harness.figure(f"{name}: peak ÷ limit", *shown, peak / limit, "<= 1.00", judged))
    rows += harness.against_plan(name, first["plan"], {**first["stats"], "seconds": mine}, peak, judged)
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, product, scikit_learn, make)
