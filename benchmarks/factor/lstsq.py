"""Least squares of a tall float64 matrix under 1 GiB against LAPACK's dgels in memory; 20 ridge
values against one; normal equations, named, against one read of the file by fio.

Fresh processes in turn, best of the rounds; a baseline below 0.15 of dgemm's rate in the same run was
disturbed and is not judged. `--only qr,ridge,normal` chooses.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.factor import lapack
from benchmarks.harness import harness
from benchmarks.storage import ring

LEAST_SHARE = 0.15


def right_hand_side(m: int):
    import numpy as np

    return np.random.default_rng(1).standard_normal(m)


def normal(a: str, memory: str) -> dict:
    import flagstone as fl

    x = fl.open(a)
    b = right_hand_side(x.shape[0])
    with harness.measured() as run:
        fl.linalg.lstsq(x, b, method="normal", memory=memory)
    return {**vars(run), "stats": fl.stats().as_dict()}


def ours(a: str, memory: str, values: int) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(a)
    b = right_hand_side(x.shape[0])
    ridge = [0.0, *np.geomspace(1, 1e6, values - 1)][:values]
    plan = fl.linalg.lstsq.plan(x, b, ridge=ridge, memory=memory)
    with harness.measured() as run:
        fit = fl.linalg.lstsq(x, b, ridge=ridge, memory=memory)
    stats = fl.stats().as_dict()
    gradient = np.zeros(x.shape[1])
    for i in range(0, x.shape[0], 1 << 16):
        rows = x[i : i + (1 << 16), :]
        gradient += rows.T @ (b[i : i + (1 << 16)] - rows @ fit.x[0])
    error = np.linalg.norm(gradient) / np.linalg.norm(b) / fit.singular_values[0] / np.finfo(np.float64).eps
    return {**vars(run), "error_over_eps": float(error), "stats": stats, "plan": plan.as_dict()}


def baseline(a: str) -> dict:
    import numpy as np

    x = np.asfortranarray(np.load(a))
    b = right_hand_side(x.shape[0])
    rate = lapack.dgemm_rate()
    with harness.measured() as run:
        lapack.dgels(x, b)
    m, n = x.shape
    return {**vars(run), "share_of_dgemm": 2 * n * n * (m - n / 3) / run.seconds / rate}


def against_lapack(args, results: dict) -> list[harness.Row]:
    mine, theirs = results["ours"], results["dgels"]
    share = max(run["share_of_dgemm"] for run in theirs)
    name = f"least squares {args.m} x {args.n}"
    fastest = min(mine, key=lambda run: run["seconds"])
    seconds, lapack_seconds = fastest["seconds"], harness.best(theirs)
    return [
        harness.figure(
            f"{name}: time", f"{seconds:.2f} s", f"{lapack_seconds:.2f} s dgels, {share:.2f} of dgemm",
            seconds / lapack_seconds, "<= 0.65", args.full_size and share >= LEAST_SHARE,
        ),
        *harness.against_plan(
            name, fastest["plan"], fastest["stats"], max(run["peak"] for run in mine), args.full_size
        ),
        harness.figure(
            f"{name}: ‖Aᵀ(b - A x)‖ ÷ (eps ‖A‖ ‖b‖)", "signed entries", "50 √m",
            fastest["error_over_eps"], f"<= {50 * args.m**0.5:.0f}", args.full_size,
        ),
    ]  # fmt: skip


def ratio(args, what: str, mine: list[dict], theirs: list[dict], target: str) -> harness.Row:
    """The best of each."""
    seconds, other = harness.best(mine), harness.best(theirs)
    shown = f"{seconds:.2f} s", f"{other:.2f} s"
    name = f"least squares {args.m} x {args.n}: {what}"
    return harness.figure(name, *shown, seconds / other, target, args.full_size)


def run() -> int:
    args = harness.options(
        __doc__, m=(4_000_000, 40_000), n=(256, 64), rounds=(3, 1), memory=("1GiB", "256MiB"),
        only=("qr,ridge,normal",) * 2,
    )  # fmt: skip
    parts = args.only.split(",")
    if "normal" in parts and not shutil.which("fio"):
        harness.note("lstsq: fio was not found (apt-get install fio); normal equations are left out")
        parts.remove("normal")
    a = harness.random_npy(args.data / "lstsq-a.npy", args.m, args.n, 0, "float64")
    child = partial(harness.child, __file__)
    runs = {}
    if "qr" in parts or "ridge" in parts:
        runs["ours"] = partial(child, ours, args.timeout, a=a, memory=args.memory, values=1)
    if "ridge" in parts:
        runs["20 ridge values"] = partial(child, ours, args.timeout, a=a, memory=args.memory, values=20)
    if "qr" in parts:
        runs["dgels"] = partial(child, baseline, args.timeout, a=a)
    if "normal" in parts:
        engine, gib = ring.fio_engine(args.data), args.m * args.n * 8 / 2**30
        runs["normal"] = partial(child, normal, args.timeout, a=a, memory=args.memory)
        runs["fio"] = partial(ring.fio, "read", a, gib, "1m", "16", engine, args.timeout)
    try:
        results = harness.alternate(args.rounds, runs, [a])
    finally:
        harness.remove(*(() if args.keep else (a,)))
    rows = against_lapack(args, results) if "qr" in parts else []
    if "ridge" in parts:
        found = results["20 ridge values"], results["ours"]
        rows.append(ratio(args, "20 ridge values ÷ one", *found, "<= 1.02"))
    if "normal" in parts:
        found = results["normal"], results["fio"]
        rows.append(ratio(args, "normal equations ÷ one read by fio", *found, "<= 1.15"))
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, normal, baseline)
