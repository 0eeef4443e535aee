"""QR of a float64 matrix under a limit of a quarter of it, against LAPACK's dgeqrf (and dorgqr) in memory.

R alone and explicit Q; fresh processes in turn, best of the rounds; a baseline below 0.3 of dgemm's rate in
the same run was disturbed and is not judged.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.factor import lapack
from benchmarks.harness import harness

LEAST_SHARE = 0.3  # of dgemm's rate: dgeqrf on a machine that does nothing else


def ours(a: str, out: str, mode: str, memory: int) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(a)
    plan = fl.linalg.qr.plan(x, mode=mode, out=out, memory=memory)
    with harness.measured() as run:
        made = fl.linalg.qr(x, mode=mode, out=out, memory=memory)
    stats = fl.stats().as_dict()
    r = np.triu(np.asarray(made if mode == "r" else made.R))
    v = np.random.default_rng(0).standard_normal((r.shape[1], 4))
    through = np.concatenate([x[i : i + 512, :] @ v for i in range(0, x.shape[0], 512)])
    # ‖R v‖ = ‖A v‖, to what norms of R can tell without Q.
    error = abs(np.linalg.norm(r @ v) / np.linalg.norm(through) - 1) / np.finfo(np.float64).eps
    return {**vars(run), "error_over_eps": error, "stats": stats, "plan": plan.as_dict()}


def baseline(a: str, mode: str) -> dict:
    import numpy as np

    x = np.asfortranarray(np.load(a))
    rate = lapack.dgemm_rate()
    with harness.measured() as run:
        tau = lapack.dgeqrf(x)
        if mode == "reduced":
            lapack.dorgqr(x, tau)
    m, n = x.shape
    flops = 2 * n * n * (m - n / 3) * (2 if mode == "reduced" else 1)
    return {**vars(run), "share_of_dgemm": flops / run.seconds / rate}


def run() -> int:
    args = harness.options(__doc__, m=(12288, 1536), n=(6144, 768), rounds=(3, 1), modes=("r,reduced", "r"))
    a = harness.random_npy(args.data / "qr-a.npy", args.m, args.n, 0, "float64")
    out = args.data / "qr-out.zarr"
    memory = args.m * args.n * 8 // 4 + (160 << 20)
    child = partial(harness.child, __file__)
    runs = {}
    for mode in args.modes.split(","):
        runs[f"ours {mode}"] = partial(child, ours, args.timeout, a=a, out=out, mode=mode, memory=memory)
        runs[f"lapack {mode}"] = partial(child, baseline, args.timeout, a=a, mode=mode)
    try:
        results = harness.alternate(args.rounds, runs, [a])
    finally:
        harness.remove(out, *(() if args.keep else (a,)))
    rows = []
    for mode, target in (("r", "<= 0.80"), ("reduced", "<= 0.85")):
        if f"ours {mode}" not in results:
            continue
        mine, theirs = results[f"ours {mode}"], results[f"lapack {mode}"]
        share = max(run["share_of_dgemm"] for run in theirs)
        name = f"QR {args.m} x {args.n}, {mode}"
        shown = f"{harness.best(mine):.2f} s", f"{harness.best(theirs):.2f} s LAPACK, {share:.2f} of dgemm"
        judged = args.full_size and share >= LEAST_SHARE
        rows.append(
            harness.figure(f"{name}: time", *shown, harness.best(mine) / harness.best(theirs), target, judged)
        )
        fastest = min(mine, key=lambda run: run["seconds"])
        peak = max(run["peak"] for run in mine)
        rows += harness.against_plan(name, fastest["plan"], fastest["stats"], peak, args.full_size)
        rows.append(harness.figure(f"{name}: error ÷ eps", "norm of R v", "n", fastest["error_over_eps"],
                                   f"<= {args.n}", args.full_size))  # fmt: skip
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, baseline)
