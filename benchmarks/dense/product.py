"""float32 product n x n x n, larger than its memory limit, against NumPy in memory.

Operands `.npy` at 1 GiB and 512 MiB, Zarr at 256 MiB; output Zarr; caches dropped; fresh processes in turn,
best of the rounds. Also bytes submitted against the bound, peak against the limit, plan against actual.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

SIZE = 4  # bytes of a float32
TIME_TARGET = {"1GiB": "<= 1.02", "512MiB": "<= 1.05", "256MiB": "<= 1.15"}
BYTES_TARGET = {"1GiB": "<= 0.9", "256MiB": "<= 1.35"}


def make_zarr(source: str, to: str) -> dict:
    import numpy as np

    import flagstone as fl

    rows = np.load(source, mmap_mode="r")
    array = fl.create(to, rows.shape, rows.dtype, overwrite=True)
    for row in range(0, rows.shape[0], 1024):
        array[row : row + 1024, :] = rows[row : row + 1024]
    array.flush()
    return {}


def ours(a: str, b: str, out: str, memory: str) -> dict:
    started = time.perf_counter()
    import numpy as np

    import flagstone as fl

    import_seconds = time.perf_counter() - started
    left, right = fl.open(a), fl.open(b)
    plan = fl.matmul.plan(left, right, out=out, memory=memory)
    with harness.measured() as run:
        product = fl.matmul(left, right, out=out, memory=memory)
    stats = fl.stats().as_dict()
    n = product.shape[0]
    x = np.random.default_rng(9).standard_normal((n, 4))
    difference, scale = 0.0, 0.0
    through = np.concatenate([right[i : i + 512, :].astype(np.float64) @ x for i in range(0, n, 512)])
    for i in range(0, n, 512):
        expected = left[i : i + 512, :].astype(np.float64) @ through
        difference += abs(product[i : i + 512, :].astype(np.float64) @ x - expected).sum()
        scale += abs(expected).sum()
    return {
        **vars(run),
        "import_seconds": import_seconds,
        "error_over_eps": difference / scale / np.finfo(np.float32).eps,
        "stats": stats,
        "plan": plan.as_dict(),
    }


def numpy_in_memory(a: str, b: str) -> dict:
    import numpy as np

    harness.assert_all_threads()
    left, right = np.load(a), np.load(b)
    with harness.measured() as run:
        left @ right
    return vars(run)


def blas_floor(n: int, tile: int = 2048) -> dict:
    """Seconds for 2n³ flops by single-threaded gemm on tiles that stay in memory, one thread a processor."""
    import ctypes

    import numpy as np
    import scipy_openblas32

    library = next(Path(scipy_openblas32.get_lib_dir()).glob("libscipy_openblas.so*"))
    blas = ctypes.CDLL(str(library))
    blas.scipy_openblas_set_num_threads(1)
    sgemm, floats, number = blas.scipy_cblas_sgemm, ctypes.POINTER(ctypes.c_float), ctypes.c_float
    repeats = max(1, min(24, n**3 // tile**3))

    def work() -> None:
        a, b, c = (np.ones((tile, tile), np.float32).ctypes.data_as(floats) for _ in range(3))
        for _ in range(repeats):
            sgemm(101, 111, 111, tile, tile, tile, number(1), a, tile, b, tile, number(1), c, tile)

    threads = [threading.Thread(target=work) for _ in os.sched_getaffinity(0)]
    with harness.measured() as run:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rate = 2 * tile**3 * repeats * len(threads) / run.seconds
    return {**vars(run), "flops_per_second": rate, "seconds": 2 * n**3 / rate}


def bytes_bound(n: int, memory: int) -> float:
    return 2 * SIZE**1.5 * n**3 / math.sqrt(memory) + 3 * SIZE * n * n


def rows_of(args, label: str, memory: str, mine: list[dict], theirs: list[dict]) -> list[harness.Row]:
    """Time, bytes, peak and plan of one case: operands of one kind under one limit."""
    fastest = min(mine, key=lambda run: run["seconds"])
    limit, peak = harness.parse_bytes(memory), max(run["peak"] for run in mine)
    submitted = fastest["stats"]["bytes_read"] + fastest["stats"]["bytes_written"]
    bound = bytes_bound(args.n, limit)
    name = f"product {args.n}³, {label}"

    def row(what: str, mine: str, theirs: str, value: float, target: str) -> harness.Row:
        return harness.figure(f"{name}: {what}", mine, theirs, value, target, args.full_size)

    seconds, numpy_seconds = fastest["seconds"], harness.best(theirs)
    shown = f"{seconds:.2f} s", f"{numpy_seconds:.2f} s NumPy"
    rows = [row("time", *shown, seconds / numpy_seconds, TIME_TARGET.get(memory, "<= 1.15"))]
    if memory in BYTES_TARGET:
        shown = f"{submitted / 1e9:.2f} GB", f"{bound / 1e9:.2f} GB"
        rows.append(row("bytes ÷ bound", *shown, submitted / bound, BYTES_TARGET[memory]))
    return [
        *rows,
        row("peak ÷ limit", f"{peak / 2**20:.0f} MiB", memory, peak / limit, "<= 1.00"),
        *harness.against_plan(name, fastest["plan"], fastest["stats"], peak, args.full_size),
        row(
            "error ÷ eps",
            "signed entries",
            "√2n",
            fastest["error_over_eps"],
            f"<= {math.sqrt(2 * args.n):.0f}",
        ),
    ]


def run() -> int:
    args = harness.options(
        __doc__,
        n=(16384, 1024),
        rounds=(3, 1),
        npy_memory=("1GiB,512MiB", "256MiB"),
        zarr_memory=("256MiB", ""),
    )
    npy = tuple(
        harness.random_npy(args.data / f"product-{x}.npy", args.n, args.n, i) for i, x in enumerate("ab")
    )
    zarr = tuple(path.with_suffix(".zarr") for path in npy)
    out = args.data / "product-c.zarr"
    cases = [(f".npy, {memory}", memory, npy) for memory in args.npy_memory.split(",") if memory]
    cases += [(f"Zarr, {memory}", memory, zarr) for memory in args.zarr_memory.split(",") if memory]
    child = partial(harness.child, __file__)
    runs = {
        label: partial(child, ours, args.timeout, a=operands[0], b=operands[1], out=out, memory=memory)
        for label, memory, operands in cases
    }
    runs["numpy"] = partial(child, numpy_in_memory, args.timeout, a=npy[0], b=npy[1])
    try:
        for source, to in zip(npy, zarr, strict=True) if args.zarr_memory else ():
            child(make_zarr, args.timeout, source=source, to=to)
        dropped = harness.drop_caches(npy)
        floor = child(blas_floor, args.timeout, n=args.n)
        results = harness.alternate(args.rounds, runs, [*npy, *zarr])
    finally:
        harness.remove(*zarr, *(() if args.keep else npy), out)
    rows = [
        row
        for label, memory, _ in cases
        for row in rows_of(args, label, memory, results[label], results["numpy"])
    ]
    rate = floor["flops_per_second"] / 1e9
    print(f"caches: {dropped}; BLAS floor {floor['seconds']:.2f} s ({rate:.0f} Gflop/s)")
    return harness.report(__file__, args, rows, caches=dropped, floor=floor, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, numpy_in_memory, blas_floor, make_zarr)
