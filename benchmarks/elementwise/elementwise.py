"""`log1p(2 X + 3)` with row means, X float32 on disk: time ÷ one read and one write at the disk's raw rate.

The raw rates are fio's with direct I/O, 1 MiB blocks at depth 16, taken in turn with ours; medians; caches
dropped. The result is checked on a sample of rows against NumPy.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring


def make(path: str, rows: int, cols: int) -> dict:
    import numpy as np

    import flagstone as fl

    rng = np.random.default_rng(0)
    X = fl.create(path, (rows, cols), "float32", overwrite=True)
    for i in range(0, rows, 1024):
        X[i : i + 1024] = rng.random((min(1024, rows - i), cols), dtype=np.float32)
    X.close()
    return {}


def chain(path: str, out: str, memory: str) -> dict:
    import numpy as np

    import flagstone as fl

    X = fl.open(path)
    y = np.log1p(2 * X + 3)
    with fl.Runtime(memory=memory):
        plan = fl.compute.plan(y, y.mean(1), out=[out, None])
        with harness.measured() as run:
            Y, means = fl.compute(y, y.mean(1), out=[out, None])
        stats = fl.stats().as_dict()
        for row in (0, X.shape[0] // 2, X.shape[0] - 1):
            wanted = np.log1p(2 * X[row] + np.float32(3))
            assert np.allclose(Y[row], wanted, rtol=5e-7, atol=0), f"row {row} is wrong"
            assert abs(means[row] - wanted.mean(dtype=np.float64)) < 1e-6, f"the mean of row {row} is wrong"
    return {**vars(run), "stats": stats, "plan": plan.as_dict()}


def run() -> int:
    args = harness.options(
        __doc__,
        rows=(65536, 2048),
        cols=(32768, 1500),
        memory=("1GiB", "512MiB"),
        rounds=(3, 1),
        gib=(8.0, 0.125),
    )
    if not shutil.which("fio"):
        harness.note("elementwise: fio was not found; install it (apt-get install fio).")
        return 3
    source, out, file = args.data / "elementwise.zarr", args.data / "elementwise-out.zarr", args.data / "fio"
    engine = ring.fio_engine(args.data)
    nbytes = args.rows * args.cols * 4
    fio = partial(
        ring.fio, file=file, gib=args.gib, block="1m", depth="16", engine=engine, timeout=args.timeout
    )

    def ours() -> dict:
        result = harness.child(__file__, chain, args.timeout, path=source, out=out, memory=args.memory)
        harness.remove(Path(out))
        return result

    try:
        harness.child(__file__, make, args.timeout, path=source, rows=args.rows, cols=args.cols)
        runs = {"flagstone": ours, "fio write": partial(fio, "write"), "fio read": partial(fio, "read")}
        fio("write")
        results = harness.alternate(args.rounds, runs, [source, file])
    finally:
        harness.remove(file, Path(out), *([] if args.keep else [source]))
    seconds = harness.median(results["flagstone"])
    rates = {verb: harness.median(results[f"fio {verb}"], "rate") for verb in ("read", "write")}
    disk = nbytes / rates["read"] + nbytes / rates["write"]
    peak = max(result["peak"] for result in results["flagstone"])
    limit = harness.parse_bytes(args.memory)
    shown = f"{seconds:.2f} s", f"{disk:.2f} s ({rates['read'] / 1e9:.2f} + {rates['write'] / 1e9:.2f} GB/s)"
    what = f"log1p(2 X + 3) and row means, {nbytes / 2**30:.3g} GiB"
    rows = [
        harness.figure(
            f"{what}: seconds ÷ one read and one write", *shown, seconds / disk, "<= 1.1", args.full_size
        ),
        harness.figure("its peak ÷ limit", f"{peak >> 20} MiB", args.memory, peak / limit, "<= 1.00", True),
    ]
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, make, chain)
