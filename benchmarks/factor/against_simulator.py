"""Seconds and bytes that a simulated machine tells against runs here: product, Cholesky, LU, QR.

The machine is measured first (`flagstone calibrate --kernels --machine`), never corrected by the runs. Plans
and runs in fresh processes, in turn, medians of the rounds. Limits: a quarter, a half and twice the matrix,
160 MiB added to each.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

SHARES = {"1/4": 0.25, "1/2": 0.5, "2": 2.0}
ROUTINES = ("product", "cholesky", "lu", "qr")


def make(to: str, n: int) -> dict:
    """Signed numbers, n added to the diagonal: positive definite as far as the lower triangle tells."""
    import numpy as np

    import flagstone as fl

    array = fl.create(to, (n, n), "float64", chunks=(512, 512), overwrite=True)
    for row in range(0, n, 512):
        block = np.random.default_rng([11, row]).uniform(-1, 1, (min(512, n - row), n))
        block[np.arange(len(block)), row + np.arange(len(block))] += n
        array[row : row + len(block), :] = block
    array.flush()
    return {}


def done(routine: str, source: str, out: str, memory: str, machine: str) -> dict:
    """One call on what lies there; with a machine, its plan."""
    import flagstone as fl

    x = fl.open(source)
    given = [x, x] if routine == "product" else [x]
    call, options = {
        "product": (fl.matmul, {"out": out}),
        "cholesky": (fl.linalg.cholesky, {"out": out}),
        "lu": (fl.linalg.lu_factor, {"out": out}),
        "qr": (fl.linalg.qr, {"out": out, "mode": "r"}),
    }[routine]
    if machine:
        return {"plan": call.plan(*given, memory=memory, machine=machine, **options).as_dict()}
    with harness.measured() as run:
        call(*given, memory=memory, **options)
    return {**vars(run), "stats": fl.stats().as_dict()}


def run() -> int:
    args = harness.options(__doc__, n=(8192, 768), rounds=(3, 1), only=(",".join(ROUTINES), "cholesky"))
    source, out, machine = (args.data / f"simulated-{name}" for name in ("a.zarr", "out.zarr", "node.toml"))
    child, rows, found = partial(harness.child, __file__), [], {}
    child(make, args.timeout, to=source, n=args.n)
    program = Path(sys.executable).with_name("flagstone")
    calibrate = [program, "calibrate", str(args.data), "--kernels", "--machine", str(machine)]
    subprocess.run(list(map(str, calibrate)), check=True, capture_output=True, timeout=args.timeout)
    try:
        for routine in args.only.split(","):
            for text, share in SHARES.items():
                memory = str(int(args.n**2 * 8 * share) + (160 << 20))
                of = {"source": source, "out": out, "memory": memory, "routine": routine}
                results = harness.alternate(args.rounds, {
                    "plan": partial(child, done, args.timeout, machine=machine, **of),
                    "run": partial(child, done, args.timeout, machine="", **of),
                }, [source])  # fmt: skip
                found[f"{routine} {text}"] = results
                told, taken = results["plan"], results["run"]
                seconds = statistics.median(one["plan"]["seconds"] for one in told), harness.median(taken)
                moved = [
                    one["bytes_read"] + one["bytes_written"] for one in (told[0]["plan"], taken[0]["stats"])
                ]
                name = f"{routine} {args.n}, {text} of the matrix + 160 MiB"
                for what, (planned, actual), target, shown in (
                    ("seconds", seconds, "<= 0.15", "{:.2f} s"),
                    ("bytes", moved, "<= 0.01", "{:.4g} B"),
                ):
                    rows.append(harness.figure(
                        f"{name}: {what}, simulated off by", shown.format(planned), shown.format(actual),
                        abs(planned / max(actual, 1e-9) - 1), target, args.full_size,
                    ))  # fmt: skip
    finally:
        harness.remove(*(() if args.keep else [source]), out, machine)
    return harness.report(__file__, args, rows, runs=found)


if __name__ == "__main__":
    harness.main(__file__, run, make, done)
