"""What a time loop's snapshots, reductions and epochs cost: time, bytes read, peak, beside the loop alone.

7-point heat, float32. A slice every 8 steps and a quarter-resolution volume every 32; the largest change and
the sum of every step; epochs saved every five seconds. Default 512 x 512 x 1024 (1 GiB a state), 64 steps,
512 MiB. Fresh processes in turn, best of the rounds.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.stencil.speed import heat, make

KINDS = ("alone", "snapshots", "change", "sum", "epochs")
#: Of exact sums and changes nobody asks for a figure: what they are expected to cost.
TARGETS = {"snapshots": "<= 1.03", "change": "<= 2.00", "sum": "<= 10.00", "epochs": "<= 1.02"}


def stepped(path: str, steps: int, memory: str, method: str, kind: str) -> dict:
    """From disk to disk inside the limit, with one kind of output more."""
    import numpy as np

    import flagstone as fl

    a, out = fl.open(path), path.replace("field", kind)
    middle = a.shape[1] // 2
    more = {
        "snapshots": {
            "snapshots": {"cut": (8, np.s_[:, middle, :]), "volume": (min(32, steps), np.s_[::4, ::4, ::4])}
        },
        "change": {"reductions": ["change"]},
        "sum": {"reductions": ["sum"]},
    }.get(kind, {})
    # A record from the first second on for epochs; for the others none.
    with fl.Runtime(checkpoint=5 if kind == "epochs" else 1e6), harness.measured() as run:
        fl.stencil(heat(), a, steps, memory=memory, method=method, out=out, **more)
    done = fl.stats()
    fl.delete(out) if kind != "snapshots" else harness.remove(Path(out))
    return {**vars(run), "read": done.bytes_read, "depth": done.stencil.depth}


def run() -> int:
    args = harness.options(
        __doc__, shape=("512x512x1024", "48x64x128"), steps=(64, 16), memory=("512MiB",) * 2,
        rounds=(3, 1), method=("al4", "al4"),
    )  # fmt: skip
    shape = [int(n) for n in args.shape.split("x")]
    path = args.data / f"field-{args.shape}.zarr"
    if not path.exists():
        harness.child(__file__, make, args.timeout, shape=shape, to=path)
    given = {"path": path, "steps": args.steps, "memory": args.memory, "method": args.method}
    runs = {
        kind: partial(harness.child, __file__, stepped, args.timeout, kind=kind, **given) for kind in KINDS
    }
    try:
        results = harness.alternate(args.rounds, runs, [path])
    finally:
        if not args.keep:
            harness.remove(path)
    alone, first = harness.best(results["alone"]), results["alone"][0]
    judged, limit = args.full_size, harness.parse_bytes(args.memory)
    rows = []
    for kind in KINDS[1:]:
        mine, one = harness.best(results[kind]), results[kind][0]
        shown = f"{mine:.2f} s", f"{alone:.2f} s"
        rows.append(harness.figure(f"{kind}: time ÷ alone", *shown, mine / alone, TARGETS[kind], judged))
        if kind == "snapshots":
            both = f"{one['read'] >> 20} MiB", f"{first['read'] >> 20} MiB"
            ratio = one["read"] / first["read"]
            rows.append(harness.figure(f"{kind}: bytes read ÷ alone", *both, ratio, "<= 1.00", judged))
        peak = max(result["peak"] for result in results[kind])
        both = f"{peak >> 20} MiB", args.memory
        rows.append(harness.figure(f"{kind}: peak ÷ limit", *both, peak / limit, "<= 1.00", judged))
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, make, stepped)
