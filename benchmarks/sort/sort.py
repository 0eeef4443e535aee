"""An external sort of int64, against NumPy's in memory and two reads and two writes at the disk's rate.

Keys: random; two values, one of which stands in half of the places ("skewed"); sorted already. Fresh
processes in turn, caches dropped, medians. The disk's rate is what one read and one write of the file take
through the library (`fl.convert`), in the same rounds. Also bytes moved, peak against the limit, plan against
actual.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

KEYS = ("random", "skewed", "sorted")


def make(folder: str, n: int) -> dict:
    import numpy as np

    import flagstone as fl

    rng, step = np.random.default_rng(1), 1 << 22
    for keys in KEYS:
        array = fl.create(f"{folder}/{keys}.zarr", (n,), "int64", overwrite=True)
        for first in range(0, n, step):
            last = min(n, first + step)
            values = rng.integers(-(1 << 62), 1 << 62, last - first)
            if keys == "skewed":
                values[rng.random(last - first) < 0.5] = 7
            array[first:last] = np.arange(first, last) if keys == "sorted" else values
        array.flush()
    return {}


def ours(given: str, out: str, memory: int) -> dict:
    import flagstone as fl

    x = fl.open(given)
    plan = fl.sort.plan(x, out=out, memory=memory)
    with harness.measured() as run:
        found = fl.sort(x, out=out, memory=memory)
    stats = fl.stats().as_dict()
    before = None
    for first in range(0, len(found), 1 << 22):
        part = found[first : first + (1 << 22)]
        assert (part[1:] >= part[:-1]).all(), "not in order"
        assert before is None or before <= part[0], "not in order"
        before = part[-1]
    return {**vars(run), "stats": stats, "plan": plan.as_dict()}


def copied(given: str, out: str, memory: int) -> dict:
    """One read and one write of the file."""
    import flagstone as fl

    with harness.measured() as run:
        fl.convert(given, out, overwrite=True, memory=memory)
    return vars(run)


def numpy_sort(given: str) -> dict:
    """NumPy's, in memory: loading not counted."""
    import numpy as np

    import flagstone as fl

    values = np.asarray(fl.open(given))
    with harness.measured() as run:
        values.sort()
    return vars(run)


def run() -> int:
    args = harness.options(__doc__, n=(1 << 30, 1 << 19), memory=("1GiB", "256MiB"), rounds=(3, 1))
    folder, memory = args.data / "sort", harness.parse_bytes(args.memory)
    folder.mkdir(exist_ok=True)
    given, out = {keys: folder / f"{keys}.zarr" for keys in KEYS}, folder / "out.zarr"
    child = partial(harness.child, __file__)
    runs = {
        keys: partial(child, ours, args.timeout, given=path, out=out, memory=memory)
        for keys, path in given.items()
    }
    runs["copy"] = partial(child, copied, args.timeout, given=given["random"], out=out, memory=memory)
    runs["numpy"] = partial(child, numpy_sort, args.timeout, given=given["random"])
    try:
        child(make, args.timeout, folder=folder, n=args.n)
        results = harness.alternate(args.rounds, runs, [folder])
    finally:
        harness.remove(*(() if args.keep else [folder]))
    seconds = {name: harness.median(result) for name, result in results.items()}
    floor = max(2 * seconds["copy"], seconds["numpy"])
    one = results["random"][-1]
    moved, peak = (
        one["stats"]["bytes_read"] + one["stats"]["bytes_written"],
        max(r["peak"] for r in results["random"]),
    )
    name = f"sort {args.n} int64, {args.memory}"

    def row(what: str, mine: str, theirs: str, value: float, target: str) -> harness.Row:
        return harness.figure(f"{name}: {what}", mine, theirs, value, target, args.full_size)

    floors = f"two copies {2 * seconds['copy']:.2f} s, NumPy {seconds['numpy']:.2f} s"
    rows = [
        row("time ÷ the larger floor", f"{seconds['random']:.2f} s", floors, seconds["random"] / floor,
            "<= 1.3"),
        *[
            row(f"{keys} ÷ random", f"{seconds[keys]:.2f} s", f"{seconds['random']:.2f} s",
                seconds[keys] / seconds["random"], "<= 1.2")
            for keys in KEYS[1:]
        ],
        row("bytes ÷ (2 reads + 2 writes)", f"{moved / 1e9:.2f} GB", f"{32 * args.n / 1e9:.2f} GB",
            moved / (32 * args.n), "<= 1.01"),
        row("peak ÷ limit", f"{peak >> 20} MiB", args.memory, peak / memory, "<= 1.00"),
        *harness.against_plan(name, one["plan"], one["stats"], peak, args.full_size),
    ]  # fmt: skip
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, copied, numpy_sort, make)
