"""The pairs of "Performance Tuning SLATE" as switches: what came after ÷ what was before.

Cholesky with a barrier after each step against look-ahead; the diagonal tile of a rank-k update inside its
column's task against on its own; the two algorithms of `ttmqr`; a partial sum for every tile column against
one for every worker. Here on two workers, in turn, best of the rounds; then the same graphs on 16 simulated
workers. Built with cmake.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring

PAIRS = {
    "lookahead": "barrier after each step / look-ahead",
    "diagonal": "diagonal inside the panel's task / on its own",
    "ttmqr": "ttmqr: algorithm 1 / 2",
    "norm": "a partial sum for every tile column / for every worker",
}


def seconds(program: Path, pair: str, variant: str, args, workers: int, how: str) -> dict:
    command = [program, pair, variant, args.tiles, args.edge, workers, how]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=args.timeout)
    if done.returncode:
        raise harness.ChildFailed(f"report_pairs: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run() -> int:
    args = harness.options(
        __doc__, tiles=(20, 4), edge=(512, 64), workers=(2, 2), simulated=(16, 16), rounds=(3, 1),
        build=(harness.built(),) * 2,
    )  # fmt: skip
    program, rows, found = ring.build(Path(args.build), "report_pairs"), [], {}
    for pair, text in PAIRS.items():
        taken: dict[str, list[float]] = {"before": [], "after": []}
        for _ in range(args.rounds):
            for variant, times in taken.items():
                times.append(seconds(program, pair, variant, args, args.workers, "run")["seconds"])
        planned = {one: seconds(program, pair, one, args, args.simulated, "plan") for one in taken}
        found[pair] = {"taken": taken, "planned": planned}
        best = {one: min(times) for one, times in taken.items()}
        for where, of in (
            (f"{args.workers} workers", best),
            (f"{args.simulated} simulated", {one: told["seconds"] for one, told in planned.items()}),
        ):
            rows.append(harness.figure(
                f"{text}, {where}: after ÷ before", f"{of['after']:.3f} s", f"{of['before']:.3f} s",
                of["after"] / of["before"], "<= 1.0", args.full_size,
            ))  # fmt: skip
    return harness.report(__file__, args, rows, pairs=found)


if __name__ == "__main__":
    harness.main(__file__, run)
