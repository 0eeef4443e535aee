"""Layouts on which element-wise work and reductions might read many times over: time and bytes ÷ the least.

Pairs (a reduction and the same of the transposed view) alternate in one process, in opposite order every
second round; the best of the rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness


def make(folder: str, side: int, stripe: int) -> dict:
    """`c.npy` and `f.npy` (Fortran order), stripes of rows, and packed chunks of one array."""
    import numpy as np

    import flagstone as fl

    values = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    np.save(f"{folder}/c.npy", values)
    np.save(f"{folder}/f.npy", np.asfortranarray(values))
    for name, chunks, codec in (
        ("rows", (stripe, side), "raw"),
        ("packed", (side // 12, side // 12), "zstd:1"),
    ):
        array = fl.create(f"{folder}/{name}.zarr", (side, side), "f4", chunks, codec=codec, overwrite=True)
        array[...] = values
        array.close()
    return {}


def seconds_of(job: Callable[[], Any]) -> tuple[float, Any]:
    with harness.measured() as run:
        result = job()
    return run.seconds, result


def reductions(folder: str, rounds: int) -> dict:
    import numpy as np

    import flagstone as fl

    f = fl.open(f"{folder}/f.npy")
    pairs = {"sum(0)": (f.sum, 0, f.T.sum, 1), "mean(1)": (f.mean, 1, f.T.mean, 0)}
    result: dict[str, Any] = {}
    for name, (mine, axis, theirs, turned) in pairs.items():
        taken: list[list[float]] = [[], []]
        given = [partial(mine, axis), partial(theirs, turned)]
        for turn in range(rounds):
            found = {}
            for which in (0, 1) if turn % 2 else (1, 0):
                seconds, found[which] = seconds_of(lambda which=which: fl.compute(given[which]()))  # noqa: B023
                taken[which].append(seconds)
            assert np.array_equal(found[0], found[1]), f"{name} differs from that of the transpose"
        result[name] = [min(times) for times in taken]
    return result


def reduction_rows(found: dict, judged: bool) -> list[harness.Row]:
    rows = []
    for name, (mine, theirs) in found.items():
        what = f"F.{name} ÷ the same of F.T, Fortran .npy"
        rows.append(harness.figure(what, f"{mine:.3f} s", f"{theirs:.3f} s", mine / theirs, "<= 1.3", judged))
    return rows


def run() -> int:
    args = harness.options(__doc__, side=(6144, 768), stripe=(64, 8), rounds=(25, 3), only=("all", "all"))
    parts: dict[str, tuple[Callable[..., dict], dict[str, Any], Callable[..., list[harness.Row]]]] = {
        "reductions": (reductions, {"rounds": args.rounds}, reduction_rows),
    }
    wanted = list(parts) if args.only == "all" else args.only.split(",")
    folder = args.data / "layouts"
    folder.mkdir(exist_ok=True)
    found, rows = {}, []
    try:
        harness.child(__file__, make, args.timeout, folder=folder, side=args.side, stripe=args.stripe)
        for name in wanted:
            part, options, as_rows = parts[name]
            found[name] = harness.child(__file__, part, args.timeout, folder=folder, **options)
            rows += as_rows(found[name], args.full_size)
    finally:
        harness.remove(*([] if args.keep else [folder]))
    return harness.report(__file__, args, rows, parts=found)


if __name__ == "__main__":
    harness.main(__file__, run, make, reductions)
