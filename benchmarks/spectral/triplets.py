"""Leading singular triplets of a bag of words: ours on disk, ARPACK and scikit-learn in memory.

Random documents by Zipf's law and a few planted topics, as tf-idf would weigh them (or ``--matrix X.npz``).
Peers hold the matrix in memory, without a limit: ARPACK (SciPy's svds), scikit-learn's randomized SVD with as
many iterations as its residuals need to equal ours, and, with ``--primme PYTHON`` (the Python of an
environment with SciPy and PRIMME linked to OpenBLAS), PRIMME. Residuals ‖Aᵀu − σ v‖ ÷ σ of all are measured
by one function, in float64. Reads of A are counted, not timed. ``--methods`` compares ``method="auto"`` with
every named one instead. The default takes two minutes; the targets' size: ``--rows 1000000 --cols 100000 --k
200 --memory 512MiB``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness


def made(rows: int, cols: int, to: str) -> dict:
    """Writes a bag of words of 20 planted topics to SciPy's .npz."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, cols + 1)
    topics = [rng.permutation(cols) for _ in range(20)]
    ends = np.cumsum(share / share.sum())
    parts = []
    for first in range(0, rows, 4096):
        number = min(4096, rows - first)
        ranks = np.searchsorted(ends, rng.random((number, 140))).clip(0, cols - 1)
        of = rng.integers(0, 20, number)
        words = np.where(
            rng.random((number, 140)) < 0.5,
            ranks,
            np.stack([topics[t][r] for t, r in zip(of, ranks, strict=True)]),
        )
        counts = sp.coo_matrix(
            (np.ones(words.size, "f4"), (np.repeat(np.arange(number), 140), words.ravel())), (number, cols)
        )
        parts.append(counts.tocsr())
    bag = sp.vstack(parts).tocsr()
    bag.data = np.log1p(bag.data)
    weights = np.log((1 + rows) / (1 + np.bincount(bag.indices, minlength=cols))) + 1
    bag = (bag @ sp.diags(weights.astype("f4"))).tocsr()
    sp.save_npz(to, bag, compressed=False)
    return {"values": int(bag.nnz)}


def residual(a, u, s, vt) -> float:
    import numpy as np

    return float((np.linalg.norm(a.T @ u - vt.T * s, axis=0) / s).max())


def ours(a: str, k: int, tol: float, memory: str, method: str = "auto") -> dict:
    import numpy as np
    import scipy.sparse as sp

    import flagstone as fl

    matrix = fl.open(a)
    with harness.measured() as run:
        found = fl.linalg.svds(matrix, k, tol=tol, method=method, memory=memory)
    u, s, vt = found
    off = residual(sp.load_npz(a), np.asarray(u), s, np.asarray(vt))
    return vars(run) | {"reads": found.passes, "residual": off, "sum": float(s.sum()), "method": found.method}


def arpack(a: str, k: int, tol: float) -> dict:
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.linalg import svds

    matrix = sp.load_npz(a).astype("f8")
    with harness.measured() as run:
        u, s, vt = svds(matrix, k, tol=tol, v0=np.random.default_rng(0).standard_normal(min(matrix.shape)))
    return vars(run) | {"residual": residual(matrix, u, s, vt), "sum": float(s.sum())}


def scikit_learn(a: str, k: int, tol: float) -> dict:
    """Iterations are doubled until the residuals are those asked for; the last one's time counts."""
    import scipy.sparse as sp
    from sklearn.utils.extmath import randomized_svd

    matrix, iterations = sp.load_npz(a), 4
    while True:
        with harness.measured() as run:
            u, s, vt = randomized_svd(matrix, k, n_iter=iterations, random_state=0)
        off = residual(matrix.astype("f8"), u, s, vt)
        if off <= tol or iterations >= 64:
            return vars(run) | {"residual": off, "iterations": iterations, "sum": float(s.sum())}
        iterations *= 2


def primme(a: str, k: int, tol: float) -> dict:
    import time

    import scipy.sparse as sp
    from primme import svds

    matrix = sp.load_npz(a).astype("f8")
    start = time.perf_counter()
    u, s, vt = svds(matrix, k, tol=tol)
    return {
        "seconds": time.perf_counter() - start,
        "residual": residual(matrix, u, s, vt),
        "sum": float(s.sum()),
    }


def run() -> int:
    args = harness.options(
        __doc__,
        rows=(100_000, 2000),
        cols=(20_000, 600),
        k=(50, 6),
        tol=(1e-4, 1e-4),
        memory=("512MiB", "512MiB"),
        rounds=(1, 1),
        matrix=("", ""),
        primme=("", ""),
        methods=("", ""),
    )
    a = Path(args.matrix or args.data / "triplets.npz").resolve()
    child = partial(harness.child, __file__, timeout=args.timeout)
    if not args.matrix:
        child(made, rows=args.rows, cols=args.cols, to=a)
    asked = {"a": a, "k": args.k, "tol": args.tol}
    name = (
        f"{args.k} triplets, {args.matrix or f'{args.rows} x {args.cols}'}, tol {args.tol:g}, {args.memory}"
    )
    try:
        if args.methods:
            runs = {
                one: partial(child, ours, **asked, memory=args.memory, method=one)
                for one in ("auto", *args.methods.split(","))
            }
            found = harness.alternate(args.rounds, runs)
            best = min(harness.median(found[one]) for one in found if one != "auto")
            auto = harness.median(found["auto"])
            rows = [
                harness.figure(
                    f"{name}: auto ({found['auto'][0]['method']}) ÷ best named",
                    f"{auto:.2f} s",
                    f"{best:.2f} s",
                    auto / best,
                    "<= 1.2",
                    args.full_size,
                )
            ]
            return harness.report(__file__, args, rows, runs=found)
        runs = {
            "flagstone": partial(child, ours, **asked, memory=args.memory),
            "ARPACK": partial(child, arpack, **asked),
        }
        try:
            import sklearn  # noqa: F401

            runs["scikit-learn"] = partial(child, scikit_learn, **asked)
        except ImportError:
            harness.note("scikit-learn is not installed: left out")
        if args.primme:
            runs["PRIMME"] = partial(child, primme, **asked, python=args.primme)
        found = harness.alternate(args.rounds, runs)
    finally:
        if not args.keep and not args.matrix:
            harness.remove(a)
    mine = harness.median(found["flagstone"])
    first = found["flagstone"][0]
    rows = [
        harness.figure(
            f"{name}: {peer} in memory ÷ ours",
            f"{mine:.2f} s, residual {first['residual']:.1e}",
            f"{harness.median(runs):.2f} s, {runs[0]['residual']:.1e}",
            harness.median(runs) / mine,
            ">= 5" if peer == "PRIMME" else ">= 3",
            args.full_size,
        )
        for peer, runs in found.items()
        if peer != "flagstone"
    ]
    peak, limit = max(one["peak"] for one in found["flagstone"]), harness.parse_bytes(args.memory)
    rows += [
        harness.figure(
            f"{name}: reads of A, the last pass included",
            str(first["reads"]),
            "ARPACK 141-171",
            first["reads"],
            "<= 10",
            args.full_size,
        ),
        harness.figure(
            f"{name}: largest residual ÷ tol",
            f"{first['residual']:.1e}",
            f"{args.tol:g}",
            first["residual"] / args.tol,
            "<= 1.0",
            args.full_size,
        ),
        harness.figure(
            f"{name}: peak ÷ limit", f"{peak >> 20} MiB", args.memory, peak / limit, "<= 1.00", args.full_size
        ),
    ]
    return harness.report(__file__, args, rows, runs=found)


if __name__ == "__main__":
    harness.main(__file__, run, made, ours, arpack, scikit_learn, primme)
