"""Rank-k updates larger than their memory limit, against NumPy in memory.

`A @ A.T` in float32 to a stored triangle, against NumPy's `A @ B.T` (all flops) and `A @ A.T` (BLAS's syrk
too); a relationship matrix of int8 genotypes, standardised where they are loaded, against NumPy's `Z @ Z.T`
of the float32 Z, standardising not counted. Fresh processes in turn, caches dropped, best of the rounds.
NumPy's `A @ A.T` of 32768 rows ends with signal 11 (OpenBLAS's syrk): its time is n² at the rate of 24576.
Bytes against (s^1.5 n² k / √(2 M) + A + the triangle), M = the run's budget.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

MOST_SYRK = 24576  # rows that NumPy's A @ A.T does


def genotypes(to: str, n: int, k: int) -> dict:
    import numpy as np

    import flagstone as fl

    rng = np.random.default_rng(0)
    X = fl.create(to, (n, k), "int8", overwrite=True)
    for i in range(0, n, 512):
        X[i : i + 512] = rng.integers(0, 3, (min(512, n - i), k), dtype=np.int8)
    X.close()
    return {}


def ours(a: str, out: str, memory: str, standardised: bool) -> dict:
    import numpy as np

    import flagstone as fl

    A = fl.open(a)
    more = (
        {"center": np.ones(A.shape[1]), "scale": np.full(A.shape[1], math.sqrt(2 / 3))}
        if standardised
        else {}
    )
    plan = fl.linalg.rank_k_update.plan(A, uplo="lower", out=out, memory=memory, **more)
    with harness.measured() as run:
        C = fl.linalg.rank_k_update(A, uplo="lower", out=out, memory=memory, **more)
    stats = fl.stats().as_dict()
    z = A[:64].astype(float)
    z = (z - 1) / math.sqrt(2 / 3) if standardised else z
    error = np.abs(np.tril(np.asarray(C[:64, :64]) - z @ z.T)).max()
    assert error <= 4 * np.finfo(np.float32).eps * math.sqrt(A.shape[1]) * (z**2).sum(1).max(), error
    return {**vars(run), "stats": stats, "plan": plan.as_dict()}


def numpy_in_memory(a: str, other: bool, standardised: bool) -> dict:
    import numpy as np

    harness.assert_all_threads()
    if standardised:
        import flagstone as fl

        X = fl.open(a)
        left = np.empty(X.shape, np.float32)
        for i in range(0, X.shape[0], 512):
            left[i : i + 512] = (X[i : i + 512] - np.float32(1)) * np.float32(math.sqrt(1.5))
    else:
        left = np.load(a)
    n, left = len(left), left if other else left[:MOST_SYRK]
    right = left.copy() if other else left
    with harness.measured() as run:
        left @ right.T
    run.seconds *= (n / len(left)) ** 2
    return vars(run)


def bound(n: int, k: int, budget: int, item: int) -> float:
    """Bytes: Beaumont et al.'s bound, the operand once, the triangle once."""
    return 4**1.5 * n * n * k / math.sqrt(2 * budget) + item * n * k + 4 * n * n / 2


def run() -> int:
    args = harness.options(
        __doc__, n=(32768, 1500), k=(2048, 300), animals=(8192, 1000), markers=(65536, 3000),
        memory=("512MiB", "320MiB"), rounds=(3, 1), only=("update,genotypes", "update,genotypes"),
    )  # fmt: skip
    child = partial(harness.child, __file__)
    rows: list[harness.Row] = []
    details = {}
    out = args.data / "rank_k.zarr"

    def case(name: str, a: Path, n: int, k: int, item: int, against: dict[str, tuple[bool, str]]) -> None:
        standardised = name == "genotypes"
        runs = {"flagstone": partial(
            child, ours, args.timeout, a=a, out=out, memory=args.memory, standardised=standardised
        )}  # fmt: skip
        for label, (other, _) in against.items():
            runs[label] = partial(
                child, numpy_in_memory, args.timeout, a=a, other=other, standardised=standardised
            )
        results = details[name] = harness.alternate(args.rounds, runs, [a])
        fastest = min(results["flagstone"], key=lambda one: one["seconds"])
        moved = fastest["stats"]["bytes_read"] + fastest["stats"]["bytes_written"]
        budget = harness.parse_bytes(args.memory) - (160 << 20)
        for label, (_, target) in against.items():
            theirs = harness.best(results[label])
            shown = f"{fastest['seconds']:.2f} s", f"{theirs:.2f} s"
            what = f"{name} {n} x {k}: time against {label}"
            rows.append(harness.figure(what, *shown, fastest["seconds"] / theirs, target, args.full_size))
        limit = bound(n, k, budget, item) if name == "update" else item * n * k + 2 * n * n
        shown = f"{moved / 1e9:.2f} GB", f"{limit / 1e9:.2f} GB"
        target = "<= 1.3" if name == "update" else "<= 1.1"
        rows.append(harness.figure(f"{name}: bytes ÷ bound", *shown, moved / limit, target, args.full_size))

    try:
        if "update" in args.only:
            a = harness.random_npy(args.data / "rank_k-a.npy", args.n, args.k, 0)
            against = {"NumPy's A @ B.T": (True, "<= 0.60"), "NumPy's A @ A.T": (False, "<= 1.0")}
            case("update", a, args.n, args.k, 4, against)
        if "genotypes" in args.only:
            a = args.data / "rank_k-x.zarr"
            child(genotypes, args.timeout, to=a, n=args.animals, k=args.markers)
            case("genotypes", a, args.animals, args.markers, 1, {"NumPy's Z @ Z.T": (False, "<= 1.10")})
    finally:
        names = () if args.keep else (args.data / "rank_k-a.npy", args.data / "rank_k-x.zarr")
        harness.remove(out, *names)
    return harness.report(__file__, args, rows, runs=details)


if __name__ == "__main__":
    harness.main(__file__, run, genotypes, ours, numpy_in_memory)
