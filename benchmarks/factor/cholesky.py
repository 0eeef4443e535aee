"""Cholesky factor of a float64 matrix larger than its memory limit, against LAPACK's dpotrf in memory.

The matrix is Kac, Murdock and Szegő's ρ^|i−j|, whose factor is known. Limits: a quarter and an eighth of the
matrix, 160 MiB added to each. Fresh processes in turn, caches dropped, best of the rounds; dpotrf of the
library that the core links to, all threads, called directly on a matrix by columns (beyond 14,336 rows, which
it cannot do, n³/3 at its rate there). Also bytes submitted against the lower bound, peak against the limit,
plan against actual.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.factor import lapack
from benchmarks.harness import harness

SIZE = 8  # bytes of a float64
#: 0.95 makes entries of 1e-160, whose products are subnormal: ten times slower, ours and LAPACK's.
RHO = 0.99
TIME_TARGET = {4: "<= 1.05", 8: "<= 1.12"}


def rows_of_matrix(n: int, first: int, last: int):
    import numpy as np

    return RHO ** np.abs(np.arange(first, last)[:, None] - np.arange(n)[None, :])


def make_zarr(to: str, n: int) -> dict:
    import flagstone as fl

    array = fl.create(to, (n, n), "float64", chunks=(1024, 1024), overwrite=True)
    for row in range(0, n, 1024):
        array[row : row + 1024, :] = rows_of_matrix(n, row, min(n, row + 1024))
    array.flush()
    return {}


def ours(a: str, out: str, memory: str) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(a)
    plan = fl.linalg.cholesky.plan(x, out=out, memory=memory)
    with harness.measured() as run:
        factor = fl.linalg.cholesky(x, out=out, memory=memory)
    stats = fl.stats().as_dict()
    n, error = factor.shape[0], 0.0
    for i in range(0, n, max(1, n // 16)):  # sampled rows of the factor that is known
        j = np.arange(i + 1)
        known = RHO ** (i - j) * np.where(j == 0, 1, math.sqrt(1 - RHO**2))
        error = max(error, float(np.abs(np.asarray(factor[i : i + 1, :])[0, : i + 1] - known).max()))
    return {
        **vars(run),
        "error_over_eps": error / np.finfo(np.float64).eps / n,
        "stats": stats,
        "plan": plan.as_dict(),
    }


def dpotrf(n: int) -> dict:
    """LAPACK in memory; and dgemm's rate in the same process, which tells whether it was disturbed.

    Of the largest order that it can do: seconds are those of n at its rate.
    """
    import numpy as np

    rate, m = lapack.dgemm_rate(), min(n, lapack.MOST_DPOTRF)
    a = np.empty((m, m), order="F")
    for first in range(0, m, 1024):
        a[:, first : first + 1024] = rows_of_matrix(m, first, min(m, first + 1024)).T
    with harness.measured() as run:
        lapack.dpotrf(a)
    share, run.seconds = m**3 / 3 / run.seconds / rate, run.seconds * (n / m) ** 3
    return {**vars(run), "order": m, "gemm_rate": rate, "share_of_gemm": share}


def bytes_bound(n: int, budget: int) -> float:
    """Beaumont, Eyraud-Dubois, Langou, Verite (arXiv 2202.10217), and what is read and written at least."""
    return SIZE**1.5 * n**3 / (3 * math.sqrt(2 * budget)) + SIZE * n * n


def rows_of(args, part: int, mine: list[dict], theirs: list[dict]) -> list[harness.Row]:
    fastest = min(mine, key=lambda run: run["seconds"])
    limit, peak = limit_of(args.n, part), max(run["peak"] for run in mine)
    stats, name = fastest["stats"], f"Cholesky {args.n}, 1/{part} + 160 MiB"

    def row(what: str, mine: str, theirs: str, value: float, target: str) -> harness.Row:
        return harness.figure(f"{name}: {what}", mine, theirs, value, target, args.full_size)

    seconds, lapack = fastest["seconds"], harness.best(theirs)
    submitted, bound = stats["bytes_read"] + stats["bytes_written"], bytes_bound(args.n, stats["budget"])
    return [
        row("time", f"{seconds:.2f} s", f"{lapack:.2f} s dpotrf", seconds / lapack, TIME_TARGET[part]),
        row(
            "bytes ÷ bound", f"{submitted / 1e9:.2f} GB", f"{bound / 1e9:.2f} GB", submitted / bound, "<= 1.4"
        ),
        row("peak ÷ limit", f"{peak >> 20} MiB", f"{limit >> 20} MiB", peak / limit, "<= 1.00"),
        *harness.against_plan(name, fastest["plan"], stats, peak, args.full_size),
        row("error ÷ (n eps)", "sampled rows", "known factor", fastest["error_over_eps"], "<= 1"),
    ]


def limit_of(n: int, part: int) -> int:
    return n * n * SIZE // part + (160 << 20)


def run() -> int:
    args = harness.options(__doc__, n=(16384, 1536), rounds=(3, 1))
    source, out = args.data / "cholesky-a.zarr", args.data / "cholesky-l.zarr"
    child = partial(harness.child, __file__)
    runs = {
        f"1/{part}": partial(child, ours, args.timeout, a=source, out=out, memory=str(limit_of(args.n, part)))
        for part in TIME_TARGET
    }
    runs["dpotrf"] = partial(child, dpotrf, args.timeout, n=args.n)
    try:
        child(make_zarr, args.timeout, to=source, n=args.n)
        results = harness.alternate(args.rounds, runs, [source])
    finally:
        harness.remove(*(() if args.keep else [source]), out)
    rows = [
        row for part in TIME_TARGET for row in rows_of(args, part, results[f"1/{part}"], results["dpotrf"])
    ]
    share = max(one["share_of_gemm"] for one in results["dpotrf"])
    print(
        f"dpotrf at {share:.2f} of dgemm's rate; below 0.75 it was disturbed, and its time counts for nothing"
    )
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, dpotrf, make_zarr)
