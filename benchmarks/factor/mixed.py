"""Solve in mixed precision against the same in float64, both under a limit: n = 16384, condition 1e3.

A = H₁ D H₂ with reflectors H and D from 1 to 1000, eight right-hand sides, a quarter of the matrix + 160 MiB.
Fresh processes in turn, caches dropped, best of the rounds. Also what was refined, plan against actual, peak.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

SIDES, CONDITION = 8, 1e3


def rows_of_matrix(n: int, first: int, last: int):
    import numpy as np

    rng = np.random.default_rng(7)
    d, u, v = np.geomspace(1, CONDITION, n), rng.standard_normal(n), rng.standard_normal(n)
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    block = np.outer(u[first:last], 4 * (u @ (d * v)) * v - 2 * u * d)
    block -= np.outer(2 * d[first:last] * v[first:last], v)
    block[np.arange(last - first), np.arange(first, last)] += d[first:last]
    return block


def make_zarr(to: str, n: int) -> dict:
    import flagstone as fl

    array = fl.create(to, (n, n), "float64", chunks=(512, 512), overwrite=True)
    for row in range(0, n, 512):
        array[row : row + 512, :] = rows_of_matrix(n, row, min(n, row + 512))
    array.flush()
    return {}


def solved(a: str, memory: str, precision: str) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(a)
    n = x.shape[0]
    b = np.random.default_rng(3).standard_normal((n, SIDES))
    options = {"memory": memory, "precision": precision or None}
    plan = fl.linalg.solve.plan(x, b, **options)
    with harness.measured() as run:
        solution = fl.linalg.solve(x, b, **options)
    stats = fl.stats().as_dict()
    worst = max(
        float(np.abs(x[row : row + 512, :] @ solution - b[row : row + 512]).max()) for row in range(0, n, 512)
    )
    scale = n * CONDITION * float(np.abs(solution).max()) * np.finfo(np.float64).eps
    return {**vars(run), "error_over_eps": worst / scale, "stats": stats, "plan": plan.as_dict()}


def run() -> int:
    args = harness.options(__doc__, n=(16384, 1024), rounds=(3, 1))
    source, limit = args.data / "mixed-a.zarr", args.n * args.n * 8 // 4 + (160 << 20)
    child = partial(harness.child, __file__)
    runs = {
        name: partial(child, solved, args.timeout, a=source, memory=str(limit), precision=name.strip("-"))
        for name in ("mixed", "-")
    }
    try:
        child(make_zarr, args.timeout, to=source, n=args.n)
        results = harness.alternate(args.rounds, runs, [source])
    finally:
        harness.remove(*(() if args.keep else [source]))
    mixed, full = results["mixed"], results["-"]
    fastest = min(mixed, key=lambda one: one["seconds"])
    seconds, double, peak = fastest["seconds"], harness.best(full), max(one["peak"] for one in mixed)
    name = f"mixed solve {args.n}, 1/4 + 160 MiB"

    def row(what: str, mine: str, theirs: str, value: float, target: str) -> harness.Row:
        return harness.figure(f"{name}: {what}", mine, theirs, value, target, args.full_size)

    print(f"{fastest['stats']['method']}, {fastest['stats']['note']}")
    rows = [
        row("time", f"{seconds:.2f} s", f"{double:.2f} s float64", seconds / double, "<= 0.80"),
        row("peak ÷ limit", f"{peak >> 20} MiB", f"{limit >> 20} MiB", peak / limit, "<= 1.00"),
        *harness.against_plan(name, fastest["plan"], fastest["stats"], peak, args.full_size),
        row("error ÷ (n eps ‖A‖ ‖x‖)", "mixed", "1", fastest["error_over_eps"], "<= 1"),
    ]
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, solved, make_zarr)
