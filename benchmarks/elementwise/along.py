"""Medians, running sums, groups, random arrays and lazy masks: time ÷ the bytes that must move.

What one read and one write take is the disk's rate (fio, the same folder, the best of three) for these bytes.
Baselines in memory are NumPy's, in one process; random numbers meet `default_rng` in two processes at once.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring

COLUMNS = 512
GROUPS = 1000


def make(folder: str, nbytes: int, rows: int) -> dict:
    """`m.npy`, float32, for medians; `a.zarr`, float32, for what reads and writes."""
    import numpy as np

    import flagstone as fl

    rng = fl.random.default_rng(1)
    rng.standard_normal((rows, COLUMNS), np.float32, out=f"{folder}/m.npy")
    rng.standard_normal((nbytes // 4 // COLUMNS, COLUMNS), np.float32, out=f"{folder}/a.zarr")
    return {}


def median(folder: str, memory: int, rounds: int) -> dict:
    """Passes and the best seconds of the median along the rows, and NumPy's of the array in memory."""
    import numpy as np

    import flagstone as fl

    A = fl.open(f"{folder}/m.npy")
    taken = []
    for _ in range(rounds):
        with harness.measured() as run:
            found = fl.median(A, 0, memory=memory)
        taken.append(run.seconds)
    passes = fl.stats().passes
    values = np.load(f"{folder}/m.npy")
    theirs = []
    for _ in range(rounds):
        with harness.measured() as run:
            wanted = np.median(values, axis=0)
        theirs.append(run.seconds)
    assert np.array_equal(found, wanted), "another median than NumPy's"
    return {"passes": passes, "ours": min(taken), "numpy": min(theirs)}


def timed(folder: str, what: str, memory: int, rounds: int) -> dict:
    """The best seconds of one routine over `a.zarr`."""
    import numpy as np

    import flagstone as fl

    A = fl.open(f"{folder}/a.zarr", mode="r+")
    labels = np.random.default_rng(3).integers(0, GROUPS, A.shape[0])
    out = f"{folder}/out.zarr"
    rng = fl.random.default_rng(2)

    def masked() -> None:
        A[A > 0.5] = 0

    jobs: dict[str, Any] = {
        "cumulative_sum": lambda: fl.cumulative_sum(A, axis=0, out=out, memory=memory),
        "diff": lambda: fl.diff(A, axis=0, out=out, memory=memory),
        "group_sum": lambda: fl.group_sum(A, labels, memory=memory),
        "random": lambda: rng.standard_normal((A.nbytes // 8 // COLUMNS, COLUMNS), out=out, memory=memory),
        "mask": masked,
    }
    taken = []
    for _ in range(rounds):
        with harness.measured() as run:
            jobs[what]()
        taken.append(run.seconds)
        shutil.rmtree(out, ignore_errors=True)
    return {"seconds": min(taken)}


def _numbers(numbers: int) -> None:
    import numpy as np

    rng, block = np.random.default_rng(1), np.empty(1 << 20)
    for _ in range(-(-numbers // len(block))):
        rng.standard_normal(out=block)


def numpy_numbers(numbers: int, rounds: int) -> dict:
    """NumPy's normal numbers in two processes at once, half of them each, nothing written."""
    taken = []
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_numbers, [1 << 20] * 2))
        for _ in range(rounds):
            with harness.measured() as run:
                list(pool.map(_numbers, [numbers // 2] * 2))
            taken.append(run.seconds)
    return {"seconds": min(taken)}


TARGETS = {"cumulative_sum": "<= 1.15", "diff": "<= 1.15", "group_sum": "<= 1.1", "mask": "<= 1.15"}


def run() -> int:
    args = harness.options(
        __doc__,
        size=("8GiB", "16MiB"),
        rows=(1_048_576, 20_000),
        memory=("256MiB", "256MiB"),
        rounds=(3, 1),
        only=("all", "all"),
    )
    if not shutil.which("fio"):
        harness.note("along: fio was not found; install it (apt-get install fio).")
        return 3
    folder, nbytes, memory = (
        args.data / "along",
        harness.parse_bytes(args.size),
        harness.parse_bytes(args.memory),
    )
    child = partial(harness.child, __file__, timeout=args.timeout)
    wanted = ["median", *TARGETS, "random"] if args.only == "all" else args.only.split(",")
    folder.mkdir(exist_ok=True)
    rows, found = [], {}
    try:
        child(make, folder=folder, nbytes=nbytes, rows=args.rows)
        fio = partial(
            ring.fio, file=folder / "fio", gib=max(1 / 64, nbytes / 2**30), block="1m", depth="16",
            engine=ring.fio_engine(folder),
        )  # fmt: skip
        rates = {
            verb: max(fio(verb, timeout=args.timeout)["rate"] for _ in range(3)) for verb in ("write", "read")
        }
        (folder / "fio").unlink(missing_ok=True)
        read, written = nbytes / rates["read"], nbytes / rates["write"]
        for name in wanted:
            if name == "median":
                one = found[name] = child(median, folder=folder, memory=memory, rounds=args.rounds)
                what = f"median(axis=0), {args.rows} x {COLUMNS} float32, {args.memory}"
                shown = f"{one['ours']:.2f} s", f"{one['numpy']:.2f} s"
                rows.append(
                    harness.figure(
                        f"{what}: passes", str(one["passes"]), "-", one["passes"], "<= 4", args.full_size
                    )
                )
                rows.append(
                    harness.figure(
                        f"{what}: × as fast as NumPy in memory", *shown, one["numpy"] / one["ours"], ">= 1.0",
                        args.full_size,
                    )
                )  # fmt: skip
                continue
            one = found[name] = child(timed, folder=folder, what=name, memory=memory, rounds=args.rounds)
            if name == "random":
                theirs = child(numpy_numbers, numbers=nbytes // 8, rounds=args.rounds)["seconds"]
                least, target = max(written, theirs), "<= 1.1"
                what = f"random.standard_normal, {args.size} ÷ slower of one write and NumPy twice"
                one |= {"write": written, "numpy": theirs}
            else:
                least, target = read + (0 if name == "group_sum" else written), TARGETS[name]
                what = f"{name}, {args.size} ÷ one read" + ("" if name == "group_sum" else " and one write")
            shown = f"{one['seconds']:.2f} s", f"{least:.2f} s"
            rows.append(harness.figure(what, *shown, one["seconds"] / least, target, args.full_size))
    finally:
        harness.remove(*([] if args.keep else [folder]))
    return harness.report(__file__, args, rows, parts=found)


if __name__ == "__main__":
    harness.main(__file__, run, make, median, timed, numpy_numbers)
