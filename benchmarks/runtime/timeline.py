"""What a timeline costs: a product with one ÷ the same without, in turn, medians; the size of its file.

A product of matrices on disk (tasks of some 100 ms), and a map of small tiles, the worst case.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness


def product(a: str, b: str, out: str, memory: str, trace: str) -> dict:
    import contextlib

    import flagstone as fl

    left, right = fl.open(a), fl.open(b)
    with harness.measured() as run, fl.timeline(trace) if trace else contextlib.nullcontext():
        fl.matmul(left, right, out=out, memory=memory)
    return {**vars(run), "tasks": fl.stats().tasks}


def small_tiles(out: str, tiles: int, trace: str) -> dict:
    import contextlib

    import numpy as np

    import flagstone as fl

    values = np.ones((16 * tiles, 16), "f4")
    small = fl.create(f"{out}-small", values.shape, "f4", (16, 16), overwrite=True)
    small[...] = values
    with harness.measured() as run, fl.timeline(trace) if trace else contextlib.nullcontext():
        fl.map_tiles(lambda tile: tile, small, out=out)
    return {**vars(run), "tasks": fl.stats().tasks}


def run() -> int:
    args = harness.options(
        __doc__, n=(8192, 768), memory=("512MiB", "128MiB"), tiles=(100_000, 1000), rounds=(7, 1)
    )
    a, b, out, trace = (
        str(args.data / f"timeline-{name}") for name in ("a.npy", "b.npy", "c.zarr", "t.json")
    )
    for path, seed in ((a, 1), (b, 2)):
        harness.random_npy(Path(path), args.n, args.n, seed)
    rows, found = [], {}
    for what, function, given, target in (
        (f"product {args.n}³, {args.memory}", product, {"a": a, "b": b, "memory": args.memory}, "<= 1.02"),
        (
            f"map_tiles of nothing over {args.tiles:,} tiles of 1 KiB",
            small_tiles,
            {"tiles": args.tiles},
            "<= 2",
        ),
    ):
        seconds: dict[str, list[float]] = {"": [], trace: []}
        size = tasks = 0
        for number in range(args.rounds):
            for which in ("", trace)[:: 1 if number % 2 == 0 else -1]:
                harness.remove(Path(out)), harness.remove(Path(trace))
                done = harness.child(__file__, function, args.timeout, out=out, trace=which, **given)
                seconds[which].append(done["seconds"])
                size, tasks = Path(trace).stat().st_size if which else size, done["tasks"]
        with_it, without = (statistics.median(seconds[which]) for which in (trace, ""))
        shown = f"{with_it:.3f} s with, {size / 1e6:.2f} MB", f"{without:.3f} s without, {tasks} tasks"
        rows.append(harness.figure(what, *shown, with_it / without, target, args.full_size))
        found[what] = {"with": seconds[trace], "without": seconds[""]}
    harness.remove(*map(Path, (a, b, out, f"{out}-small", trace)))
    return harness.report(__file__, args, rows, seconds=found)


if __name__ == "__main__":
    harness.main(__file__, run, product, small_tiles)
