"""The Gram operator Aᵀ(A X) with 16 columns on the matrix of pca.py: unpacked bytes a second ÷ raw disk.

Unpacked: 8 bytes a stored value (float32 + 32-bit index). The raw read rate is fio's with direct I/O, 1 MiB
blocks at depth 16, taken in turn with ours; medians. One read of A each; caches dropped; import is not timed.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.sparse import pca
from benchmarks.storage import ring


def gram(npz: str, columns: int, memory: str, repeats: int) -> dict:
    import numpy as np

    import flagstone as fl

    a = fl.open(npz)
    x = np.random.default_rng(3).standard_normal((a.shape[1], columns)).astype(np.float32)
    runs = []
    with fl.Runtime(memory=memory):
        for _ in range(repeats):
            with harness.measured() as run:
                y = a.gram(x)
            runs.append({**vars(run), "stats": fl.stats().as_dict()})
        # Symmetry of the operator: (A v)ᵀ(A X) = vᵀ(AᵀA X).
        through = np.asarray(a @ x[:, :1].astype(np.float64))
        error = abs((x[:, 0] @ y[:, 0]) / (through**2).sum() - 1)
    assert error < 1e-4, f"Gram operator: xᵀ(AᵀA x) is off ‖A x‖² by {error:.1e}"
    return min(runs, key=lambda run: run["seconds"]) | {"nnz": a.nnz}


def run() -> int:
    args = harness.options(
        __doc__,
        rows=(400_000, 20_000),
        cols=(5_000, 600),
        k=(50, 10),
        seed=(0, 0),
        rounds=(5, 1),
        columns=(16, 16),
        memory=("256MiB", "256MiB"),
        gib=(4.0, 0.125),
    )
    if not shutil.which("fio"):
        harness.note("sparse_stream: fio was not found; install it (apt-get install fio).")
        return 3
    npz = pca.matrix(args)
    file = args.data / "sparse-fio"
    engine = ring.fio_engine(args.data)
    fio = partial(ring.fio, "read", file, args.gib, "1m", "16", engine, args.timeout)
    ours = partial(harness.child, __file__, gram, args.timeout, npz=npz, columns=args.columns)
    ours = partial(ours, memory=args.memory, repeats=3)
    try:
        ring.fio("write", file, args.gib, "1m", "16", engine, args.timeout)
        ours()  # imports into scratch
        results = harness.alternate(args.rounds, {"flagstone": ours, "fio": fio}, [npz, file])
    finally:
        harness.remove(file)
    nnz, seconds = results["flagstone"][0]["nnz"], harness.median(results["flagstone"])
    rate, raw = 8 * nnz / seconds, harness.median(results["fio"], "rate")
    read = results["flagstone"][0]["stats"]["bytes_read"]
    packed = f"{read / nnz:.2f} bytes a value read"
    what = f"Gram operator, {args.columns} columns, {nnz / 1e6:.0f}M values ({packed})"
    shown = f"{rate / 1e9:.2f} GB/s unpacked", f"{raw / 1e9:.2f} GB/s raw (fio)"
    peak = max(result["peak"] for result in results["flagstone"])
    limit = harness.parse_bytes(args.memory)
    rows = [
        harness.figure(what, *shown, rate / raw, ">= 1.5", args.full_size),
        harness.figure("its peak ÷ limit", f"{peak >> 20} MiB", args.memory, peak / limit, "<= 1.00", True),
    ]
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, gram)
