"""1,000,000 empty C++ tasks with one `update` each, added and run: microseconds for each task.

Tiles of memory, few and many, and of a file, fewer than the lookahead (else each task writes its tile
back); two workers, medians. Built with cmake.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring


def each(program: Path, tasks: int, tiles: int, workers: int, where: str, timeout: float) -> float:
    command = [program, str(tasks), str(tiles), str(workers), *(["disk"] if where == "disk" else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise harness.ChildFailed(f"empty_tasks: {done.stderr.strip()}")
    return json.loads(done.stdout)["microseconds_each"]


def run() -> int:
    args = harness.options(
        __doc__,
        tasks=(1_000_000, 20_000),
        workers=(2, 2),
        rounds=(5, 1),
        build=(harness.built(),) * 2,
    )
    program = ring.build(Path(args.build), "empty_tasks")
    rows, found = [], {}
    for tiles, where in ((1000, "memory"), (100_000, "memory"), (1000, "disk")):
        times = [
            each(program, args.tasks, tiles, args.workers, where, args.timeout) for _ in range(args.rounds)
        ]
        median = statistics.median(times)
        found[f"{tiles} {where}"] = times
        what = f"{args.tasks:,} empty tasks on {tiles:,} tiles ({where}), {args.workers} workers: us each"
        shown = f"{median:.2f} us", "no work"
        rows.append(harness.figure(what, *shown, median, "<= 5", args.full_size))
    return harness.report(__file__, args, rows, microseconds=found)


if __name__ == "__main__":
    harness.main(__file__, run)
