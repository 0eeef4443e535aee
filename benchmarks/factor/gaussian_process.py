"""Exact Gaussian process whose kernel matrix is larger than the memory limit, fit with its log-likelihood.

Time against n³/3 flops at the rate of LAPACK's dpotrf in the same run, and against scikit-learn's regressor
in memory without a cap (of as many points, `--rival`, as SciPy's Cholesky does: beyond, its process ends with
signal 11); bytes written against half of K; the error at places held out. Fresh processes in turn, best of
the rounds. Limit: a quarter of K and 160 MiB.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.factor.cholesky import dpotrf, limit_of
from benchmarks.factor.lapack import MOST_DPOTRF
from benchmarks.harness import harness

NOISE, LENGTH = 0.05, 0.3


def soundings(n: int, seed: int):
    import numpy as np

    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (n, 3))
    truth = np.sin(6 * x[:, 0]) * np.cos(4 * x[:, 1]) + x[:, 2]
    return x, truth, truth + NOISE * rng.standard_normal(n)


def ours(n: int, out: str, memory: str) -> dict:
    import numpy as np

    import flagstone as fl
    from flagstone.estimators import GaussianProcessRegressor

    x, _, y = soundings(n, 0)
    model = GaussianProcessRegressor("matern52", alpha=NOISE**2, length_scale=LENGTH, out=out, memory=memory)
    plan = model.fit.plan(x, y)
    with harness.measured() as run:
        model.fit(x, y)
    stats = fl.stats().as_dict()
    new, truth, _ = soundings(200, 1)
    error = float(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
    return {**vars(run), "stats": stats, "plan": plan.as_dict(), "error": error}


def theirs(n: int) -> dict:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern

    x, _, y = soundings(n, 0)
    model = GaussianProcessRegressor(Matern(LENGTH, nu=2.5), alpha=NOISE**2, optimizer=None)
    with harness.measured() as run:
        model.fit(x, y)
    return vars(run)


def rows_of(args, results: dict, limit: int) -> list[harness.Row]:
    n, mine = args.n, min(results["ours"], key=lambda run: run["seconds"])
    name, stats = f"Gaussian process, {n} points", mine["stats"]

    def row(what: str, mine: str, theirs: str, value: float, target: str) -> harness.Row:
        return harness.figure(f"{name}: {what}", mine, theirs, value, target, args.full_size)

    lapack = harness.best(results["dpotrf"]) * (n / args.lapack) ** 3
    peak, seconds = mine["peak"], mine["seconds"]
    few, rival = (harness.best(results[who]) for who in ("ours, rival's points", "theirs"))
    written = stats["bytes_written"]
    return [
        row(
            "time ÷ n³/3 at dpotrf's rate", f"{seconds:.2f} s", f"{lapack:.2f} s", seconds / lapack, "<= 1.12"
        ),
        row(
            f"scikit-learn's time ÷ ours, {args.rival} points",
            f"{few:.2f} s",
            f"{rival:.2f} s",
            rival / few,
            ">= 1.4",
        ),
        row("written ÷ half of K", f"{written / 1e9:.2f} GB", "", written / (4 * n * n), "<= 1.1"),
        row("peak ÷ limit", f"{peak >> 20} MiB", f"{limit >> 20} MiB", peak / limit, "<= 1.00"),
        *harness.against_plan(name, mine["plan"], stats, peak, args.full_size),
        row("error ÷ noise", f"{mine['error']:.4f}", f"{NOISE}", mine["error"] / NOISE, "<= 0.5"),
    ]


def run() -> int:
    args = harness.options(
        __doc__, n=(20480, 1024), rival=(MOST_DPOTRF, 768), lapack=(12288, 1024), rounds=(3, 1)
    )
    out, limit = args.data / "gaussian-process.zarr", limit_of(args.n, 4)
    child = partial(harness.child, __file__)
    runs = {
        "ours": partial(child, ours, args.timeout, n=args.n, out=out, memory=str(limit)),
        "ours, rival's points": partial(
            child, ours, args.timeout, n=args.rival, out=out, memory=str(limit_of(args.rival, 4))
        ),
        "theirs": partial(child, theirs, args.timeout, n=args.rival),
        "dpotrf": partial(child, dpotrf, args.timeout, n=args.lapack),
    }
    try:
        results = harness.alternate(args.rounds, runs, [])
    finally:
        harness.remove(out)
    share = max(one["share_of_gemm"] for one in results["dpotrf"])
    print(
        f"dpotrf at {share:.2f} of dgemm's rate; below 0.75 it was disturbed, and its time counts for nothing"
    )
    return harness.report(__file__, args, rows_of(args, results, limit), runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, theirs, dpotrf)
