"""7-point heat, float32: time an update inside a limit ÷ our plain sweep with everything in memory.

Default 512 x 512 x 1024 (1 GiB a state), 64 steps, 512 MiB: the two arrays of an in-memory run are 4 times
the limit. The engine with everything in memory is measured too. Fresh processes in turn, best of the rounds.
The plain sweep is the method "sweep" on arrays in memory, uncapped: it gathers blocks and writes them, and is
no peer's.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness


def heat() -> dict:
    """Weights of one step."""
    import flagstone as fl

    return {at: 0.1 * w + (not any(at)) for at, w in fl.laplacian(3).items()}


def make(shape: list[int], to: str) -> dict:
    """A random field."""
    import numpy as np

    import flagstone as fl

    fl.random.default_rng(1).random(shape, np.float32, out=to)
    return {}


def limited(path: str, steps: int, memory: str, method: str) -> dict:
    """From disk to disk inside the limit."""
    import flagstone as fl

    a, out = fl.open(path), path.replace("field", "stepped")
    plan = fl.stencil.plan(heat(), a, steps, memory=memory, method=method)
    with harness.measured() as run:
        fl.stencil(heat(), a, steps, memory=memory, method=method, out=out)
    fl.delete(out)
    return {**vars(run), "plan": plan.as_dict(), "stats": fl.stats().as_dict()}


def in_memory(path: str, steps: int, method: str) -> dict:
    """The same with both states in memory, uncapped."""
    import numpy as np

    import flagstone as fl

    x = np.asarray(fl.open(path))
    out = np.zeros_like(x)
    with harness.measured() as run:
        fl.stencil(heat(), x, steps, method=method, out=out)
    return vars(run)


def run() -> int:
    args = harness.options(
        __doc__, shape=("512x512x1024", "48x64x128"), steps=(64, 8), memory=("512MiB",) * 2,
        rounds=(3, 1), only=("al4,al1", "al4"),
    )  # fmt: skip
    shape = [int(n) for n in args.shape.split("x")]
    path = args.data / f"field-{args.shape}.zarr"
    if not path.exists():
        harness.child(__file__, make, args.timeout, shape=shape, to=path)
    given = {"path": path, "steps": args.steps}
    runs = {
        name: partial(
            harness.child, __file__, limited, args.timeout, memory=args.memory, method=name, **given
        )
        for name in args.only.split(",")
    }
    runs |= {
        f"{name} in memory": partial(harness.child, __file__, in_memory, args.timeout, method=name, **given)
        for name in ("sweep", "al4")
    }
    try:
        results = harness.alternate(args.rounds, runs, [path])
    finally:
        if not args.keep:
            harness.remove(path)
    plain, fitting = (harness.best(results[f"{name} in memory"]) for name in ("sweep", "al4"))
    judged = args.full_size and args.shape == "512x512x1024"
    rows = []
    for name in args.only.split(","):
        mine = harness.best(results[name])
        title = f"heat {args.shape}, {args.steps} steps, {args.memory}, {name}: time"
        target = "<= 0.72" if name == "al4" else "<= 1.33"
        rows.append(
            harness.figure(
                f"{title} ÷ plain", f"{mine:.2f} s", f"{plain:.2f} s", mine / plain, target, judged
            )
        )
        if name == "al4":
            shown = f"{mine:.2f} s", f"{fitting:.2f} s"
            rows.append(
                harness.figure(f"{title} ÷ everything in memory", *shown, mine / fitting, "<= 1.10", judged)
            )
        peak = max(result["peak"] for result in results[name])
        limit = harness.parse_bytes(args.memory)
        shown = f"{peak >> 20} MiB", args.memory
        rows.append(harness.figure(f"{name}: peak ÷ limit", *shown, peak / limit, "<= 1.00", judged))
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, make, limited, in_memory)
