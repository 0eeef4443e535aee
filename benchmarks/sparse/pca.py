"""Principal components of a sparse matrix in 256 MiB, against scikit-learn in memory without a limit.

Default 400,000 x 5,000 with about 112 million stored counts (float32), k = 50. The matrix is made once per
seed and kept under --data, and so are the singular values from a float64 Gram matrix and LAPACK: the truth.
Fresh processes in turn, best of the rounds; import into scratch, and the baselines' loading, stated apart.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

BASELINES = {"covariance_eigh": ">= 10", "randomized": ">= 1.5"}


def make(rows: int, cols: int, seed: int, to: str) -> dict:
    """`to`: an uncompressed SciPy .npz, written whole and then renamed."""
    import numpy as np
    import scipy.sparse as sp

    from flagstone.datasets import Cells

    blocks = [
        sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, cols), dtype=np.float32)
        for indptr, indices, data in Cells(rows, cols, seed=seed).blocks()
    ]
    matrix = sp.vstack(blocks, format="csr")
    part = Path(to).with_suffix(".part.npz")
    sp.save_npz(part, matrix, compressed=False)
    part.rename(to)
    return {"nnz": int(matrix.nnz)}


def truth(npz: str, k: int) -> dict:
    """Leading singular values in float64, of the matrix as it is and of the centred one."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.linalg import eigh
    from scipy.linalg.blas import dsyrk

    matrix = sp.load_npz(npz).tocsr()
    m, n = matrix.shape
    gram, sums = np.zeros((n, n), order="F"), np.zeros(n)
    for row in range(0, m, 4096):
        block = np.asfortranarray(matrix[row : row + 4096].toarray().T, dtype=np.float64)
        gram = dsyrk(1.0, block, beta=1.0, c=gram, lower=1, overwrite_c=1)
        sums += block.sum(axis=1)
    gram = np.tril(gram) + np.tril(gram, -1).T
    found = {}
    for name, shift in (("plain", 0.0), ("centred", 1.0)):
        shifted = gram - shift * np.outer(sums, sums) / m
        values = eigh(shifted, eigvals_only=True, subset_by_index=(n - k, n - 1))
        found[name] = np.sqrt(np.maximum(values[::-1], 0)).tolist()
    return {**found, "nnz": int(matrix.nnz)}


def ours(npz: str, k: int, memory: str, scores: str) -> dict:
    with harness.measured() as started:
        import flagstone as fl
    with harness.measured() as opened:
        x = fl.open(npz)
    plan = fl.pca.plan(x, k, out=scores, memory=memory)
    with harness.measured() as run:
        result = fl.pca(x, k, out=scores, memory=memory)
    return {
        **vars(run),
        "import_seconds": started.seconds,
        "open_seconds": opened.seconds,
        "sigma": [float(value) for value in result.singular_values],
        "residual": float(max(result.residual) / result.singular_values[0]),
        "stats": fl.stats().as_dict(),
        "plan": plan.as_dict(),
    }


def scikit_learn(npz: str, k: int, method: str) -> dict:
    import scipy.sparse as sp
    from sklearn.decomposition import PCA, TruncatedSVD

    harness.assert_all_threads()
    with harness.measured() as loaded:
        matrix = sp.load_npz(npz).tocsr()
    if method == "randomized":
        model = TruncatedSVD(k, algorithm="randomized", random_state=0)
    else:
        model = PCA(k, svd_solver=method)
    with harness.measured() as run:
        model.fit_transform(matrix)
    return {**vars(run), "load_seconds": loaded.seconds, "sigma": [float(v) for v in model.singular_values_]}


def error(sigma: list[float], true: list[float]) -> float:
    """Largest error of a singular value, relative to the first."""
    return max(abs(a - b) for a, b in zip(sigma, true, strict=True)) / true[0]


def matrix(args) -> Path:
    """The matrix of these sizes, from --data where it is there already."""
    npz = args.data / f"cells-{args.rows}x{args.cols}-{args.seed}.npz"
    if not npz.exists():
        harness.note(f"making {npz.name}")
        harness.child(__file__, make, 3600, rows=args.rows, cols=args.cols, seed=args.seed, to=npz)
    return npz


def known_values(args, npz: Path) -> dict:
    """The truth about it."""
    known = npz.with_name(f"{npz.stem}-k{args.k}-truth.json")
    if not known.exists():
        harness.note("computing the float64 truth")
        known.write_text(json.dumps(harness.child(__file__, truth, 3600, npz=npz, k=args.k)))
    return json.loads(known.read_text())


def run() -> int:
    args = harness.options(
        __doc__,
        rows=(400_000, 10_000),
        cols=(5_000, 300),
        k=(50, 10),
        seed=(0, 0),
        rounds=(3, 1),
        memory=("256MiB",) * 2,
        baselines=(",".join(BASELINES), "randomized"),
    )
    npz = matrix(args)
    true = known_values(args, npz)
    scores = args.data / "pca-scores.zarr"
    runs = {"flagstone": partial(harness.child, __file__, ours, args.timeout, npz=npz, k=args.k)}
    runs["flagstone"] = partial(runs["flagstone"], memory=args.memory, scores=scores)
    for method in args.baselines.split(","):
        call = {"npz": npz, "k": args.k, "method": method}
        runs[method] = partial(harness.child, __file__, scikit_learn, args.timeout, **call)
    try:
        results = harness.alternate(args.rounds, runs, [npz])
    finally:
        harness.remove(scores)
        if not args.keep and args.smoke:
            harness.remove(npz)
    first = results["flagstone"][0]
    mine = harness.best(results["flagstone"])
    limit, judged = harness.parse_bytes(args.memory), args.full_size
    name = f"PCA {args.rows} x {args.cols}, {true['nnz'] / 1e6:.0f}M values, k = {args.k}, {args.memory}"
    rows = []
    for method in args.baselines.split(","):
        best = harness.best(results[method])
        off = error(results[method][0]["sigma"], true["plain" if method == "randomized" else "centred"])
        shown = f"{best:.1f} s scikit-learn {method}, error {off:.1e}"
        target = BASELINES[method]
        rows.append(harness.figure(f"{name}: time", f"{mine:.2f} s", shown, best / mine, target, judged))
    off = max(error(result["sigma"], true["centred"]) for result in results["flagstone"])
    peak = max(result["peak"] for result in results["flagstone"])
    rows += [
        harness.figure(f"{name}: error of σ ÷ σ₁", f"{off:.1e}", "float64 truth", off, "<= 1e-5", judged),
        harness.figure(
            f"{name}: peak ÷ limit", f"{peak >> 20} MiB", args.memory, peak / limit, "<= 1.00", judged
        ),
        *harness.against_plan(name, first["plan"], {**first["stats"], "seconds": mine}, peak, judged),
    ]
    loading = results[method][0]["load_seconds"]
    print(f"method {first['plan']['method']}; import of flagstone {first['import_seconds']:.2f} s;")
    print(f".npz into scratch {first['open_seconds']:.2f} s; scikit-learn's side loads in {loading:.2f} s")
    return harness.report(__file__, args, rows, truth=true, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, scikit_learn, make, truth)
