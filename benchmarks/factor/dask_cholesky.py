"""Cholesky factor of a float64 matrix under a limit of a quarter of it, against Dask's in memory without one.

Dask reads the same .zarr and writes its factor to another one, in the chunk of 1024, 2048 or 3072 that is
fastest, threads as many as processors, one BLAS thread each. `--peers PYTHON` names an interpreter that has
dask[array], scipy and zarr. Fresh processes in turn, best of the rounds.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.factor import cholesky
from benchmarks.harness import harness
from benchmarks.learning import peers

CHUNKS = (1024, 2048, 3072)  # Dask takes square ones alone: they divide n


def dask_cholesky(a: str, out: str, chunk: int) -> dict:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy loads it: tasks run side by side
    import dask
    import dask.array as da
    import numpy as np
    import zarr

    x = da.from_zarr(f"{a}/array").rechunk(chunk)
    workers = len(os.sched_getaffinity(0))
    target = zarr.create_array(
        out, shape=x.shape, chunks=(chunk, chunk), dtype=x.dtype, compressors=None, overwrite=True
    )
    with harness.measured() as run, dask.config.set(scheduler="threads", num_workers=workers):
        da.store(da.linalg.cholesky(x, lower=True), target, lock=False)
    row = np.asarray(target[-1, :])
    known = cholesky.RHO ** np.arange(len(row))[::-1] * np.sqrt(1 - cholesky.RHO**2)
    known[0] = cholesky.RHO ** (len(row) - 1)
    assert np.abs(row - known).max() < 1e-8, "Dask's factor is not the one that is known"
    return {**vars(run), "dask": dask.__version__}


def run() -> int:
    args = harness.options(__doc__, n=(12288, 1536), peers=(sys.executable,) * 2, rounds=(2, 1))
    if not peers.has(args.peers, "dask.array, scipy, zarr"):
        harness.note(f"dask_cholesky: {args.peers} has no dask[array], scipy and zarr")
        return 3
    source, out = args.data / "dask-a.zarr", args.data / "dask-l.zarr"
    child = partial(harness.child, __file__)
    limit = cholesky.limit_of(args.n, 4)
    ours = partial(harness.child, cholesky.__file__, cholesky.ours, args.timeout)
    runs = {"flagstone": partial(ours, a=source, out=out, memory=str(limit))}
    for chunk in CHUNKS if args.full_size else (args.n // 3,):
        runs[f"dask {chunk}"] = partial(
            child, dask_cholesky, args.timeout, python=args.peers, a=source, out=out, chunk=chunk
        )
    try:
        harness.child(cholesky.__file__, cholesky.make_zarr, args.timeout, to=source, n=args.n)
        results = harness.alternate(args.rounds, runs, [source])
    finally:
        harness.remove(*(() if args.keep else [source]), out)
    mine = harness.best(results.pop("flagstone"))
    name, theirs = min(((k, harness.best(v)) for k, v in results.items()), key=lambda pair: pair[1])
    version = results[name][0]["dask"]
    shown = f"{mine:.2f} s", f"{theirs:.2f} s, chunks of {name.split()[1]} (Dask {version})"
    title = f"Cholesky {args.n}, 1/4 + 160 MiB: Dask's time ÷ ours"
    row = harness.figure(title, *shown, theirs / mine, ">= 1.70", args.full_size)
    peak = max(one["peak"] for one in results[name])
    print(f"Dask held {peak >> 20} MiB, ours at most {limit >> 20} MiB")
    return harness.report(__file__, args, [row], runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, dask_cholesky)
