"""Products of flat files in rows of 31000 floats, which begin at no sector, against rows of whole pages.

C (m x n) := A (m x k) B (k x n) in place, as figure 5 of BLAS-on-flash: all files in rows of `wide` (aligned:
the next multiple of 1024) floats, n that width, reduction dimensions k from 1k to that width. The figure is
(in-memory time ÷ ours) unaligned over the same aligned. Four runs of every k in turn, best of the rounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring

FLOAT = 4


def make(paths: list[str], rows: list[int], width: int) -> dict:
    """Random rows; kept where a file of that length is there."""
    import numpy as np

    for seed, (path, count) in enumerate(zip(map(Path, paths), rows, strict=True), 1):
        if path.exists() and path.stat().st_size == count * width * FLOAT:
            continue
        rng = np.random.default_rng(seed)
        with path.open("wb") as out:
            for row in range(0, count, 512):
                out.write(2 * rng.random((min(512, count - row), width), np.float32) - 1)
    return {}


def in_memory(a: str, b: str, m: int, n: int, k: int, width: int) -> dict:
    """NumPy's product of the same operands in memory, with the same leading dimension."""
    import numpy as np

    harness.assert_all_threads()
    left = np.fromfile(a, np.float32, m * width).reshape(m, width)[:, :k]
    right = np.fromfile(b, np.float32, k * width).reshape(k, width)[:, :n]
    with harness.measured() as run:
        left @ right
    return vars(run)


def check(a: str, b: str, c: str, m: int, n: int, k: int, width: int) -> dict:
    """Some of C's elements against float64: the first, middle and last rows in the first and last columns."""
    import numpy as np

    A, B, C = (np.memmap(path, np.float32, "r").reshape(-1, width) for path in (a, b, c))
    for columns in (slice(0, 64), slice(max(0, n - 64), n)):
        through = B[:k, columns].astype(np.float64)
        for row in (0, m // 2, m - 1):
            left = A[row, :k].astype(np.float64)
            size = np.abs(left) @ np.abs(through)
            assert (np.abs(C[row, columns] - left @ through) <= 1e-5 * size).all(), f"row {row} is wrong"
    return {}


def ours(
    program: Path, files: list[Path], m: int, n: int, k: int, width: int, memory: int, timeout: float
) -> dict:
    command = [program, *files, *(str(x) for x in (m, n, k, width, memory))]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise harness.ChildFailed(f"flash_product: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run() -> int:
    args = harness.options(
        __doc__,
        wide=(31000, 1100),
        m=(4000, 300),
        inner=("1000,8000,31000", "1100"),
        memory=("1GiB", "192MiB"),
        rounds=(2, 1),
        build=(harness.built(),) * 2,
    )
    program = ring.build(Path(args.build), "flash_product")
    memory = harness.parse_bytes(args.memory)
    widths = {"unaligned": args.wide, "aligned": -(-args.wide // 1024) * 1024}
    files = {how: [args.data / f"{how}-{x}.raw" for x in "abc"] for how in widths}
    every = [path for paths in files.values() for path in paths]
    rows, results, peak = [], {}, 0
    try:
        for how, width in widths.items():
            of_each = {"paths": list(map(str, files[how])), "rows": [args.m, width, args.m]}
            harness.child(__file__, make, args.timeout, **of_each, width=width)
        for inner in map(int, args.inner.split(",")):
            runs, of = {}, {}
            for how, width in widths.items():
                # The same share of the width, so that the aligned products are as deep in whole pages.
                k = inner if how == "unaligned" else min(width, -(-inner // 512) * 512)
                of[how] = shape = {"m": args.m, "n": width, "k": k, "width": width}
                a, b, _ = files[how]
                runs[f"{how} in memory"] = partial(
                    harness.child, __file__, in_memory, args.timeout, a=a, b=b, **shape
                )
                runs[f"{how} ours"] = partial(
                    ours, program, files[how], **shape, memory=memory, timeout=args.timeout
                )
            found = results[inner] = harness.alternate(args.rounds, runs, every)
            for how, shape in of.items():
                a, b, c = files[how]
                harness.child(__file__, check, args.timeout, a=a, b=b, c=c, **shape)
            ratio = {
                how: harness.best(found[f"{how} in memory"]) / harness.best(found[f"{how} ours"])
                for how in widths
            }
            peak = max(peak, *(r["peak"] for how in widths for r in found[f"{how} ours"]))
            shown = f"{ratio['unaligned']:.3f} of in-memory speed", f"{ratio['aligned']:.3f} aligned"
            rows.append(
                harness.figure(
                    f"rows of {args.wide} floats, k = {inner}: (in memory ÷ ours) unaligned ÷ aligned",
                    *shown, ratio["unaligned"] / ratio["aligned"], ">= 0.95", args.full_size,
                )
            )  # fmt: skip
    finally:
        if not args.keep:
            harness.remove(*every)
    shown = f"{peak >> 20} MiB", args.memory
    rows.append(harness.figure("its peak ÷ limit", *shown, peak / memory, "<= 1.00", True))
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, make, in_memory, check)
