"""Kernels as they are given: functions of neighbours or of rows ÷ native weights, compiled ÷ fused; speed.

7-point heat, float32, default 128 x 512 x 1024, 32 steps: weights, a function of neighbours compiled and by
the fused kernel, a function of rows. Gray and Scott's two fields, float32, as many points in two dimensions:
traced and compiled, fused, as a function of rows. Everything in memory, `auto` chooses; fresh processes in
turn, best of the rounds, compiling left out (a first loop of one step makes it).
"""

from __future__ import annotations

import math
import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.stencil.speed import heat


def neighbours(u):
    """The heat of `speed`, in the association of its weights."""
    around = u[-1, 0, 0] + u[0, -1, 0] + u[0, 0, -1] + u[0, 0, 1] + u[0, 1, 0] + u[1, 0, 0]
    return around * 0.1 + u[0, 0, 0] * 0.4


def react(u, v):
    """Gray and Scott."""
    around_u = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]
    around_v = v[-1, 0] + v[1, 0] + v[0, -1] + v[0, 1] - 4 * v[0, 0]
    made = u[0, 0] * v[0, 0] * v[0, 0]
    return {
        "u": u[0, 0] + 0.16 * around_u - made + 0.035 * (1 - u[0, 0]),
        "v": v[0, 0] + 0.08 * around_v + made - 0.095 * v[0, 0],
    }


def of_rows(what: str):
    """The same as functions of rows."""
    import numpy as np

    import flagstone as fl

    tenth, rest, four, one = (np.float32(x) for x in (0.1, 0.4, 4, 1))
    spread_u, spread_v, feed, loss = (np.float32(x) for x in (0.16, 0.08, 0.035, 0.095))

    def heat_rows(to, u):
        for i in range(len(to)):
            around = u[0][1][i + 1] + u[1][0][i + 1] + u[1][1][i] + u[1][1][i + 2]
            to[i] = (around + u[1][2][i + 1] + u[2][1][i + 1]) * tenth + u[1][1][i + 1] * rest

    def react_rows(to_u, to_v, u, v):
        for i in range(len(to_u)):
            x, y = u[1][i + 1], v[1][i + 1]
            around_u = u[0][i + 1] + u[2][i + 1] + u[1][i] + u[1][i + 2] - four * x
            around_v = v[0][i + 1] + v[2][i + 1] + v[1][i] + v[1][i + 2] - four * y
            made = x * y * y
            to_u[i] = x + spread_u * around_u - made + feed * (one - x)
            to_v[i] = y + spread_v * around_v + made - loss * y

    if what == "heat":
        return fl.row_kernel(heat_rows, (1, 1, 1), dtype="float32")
    return fl.row_kernel(react_rows, (1, 1), dtype="float32", fields=("u", "v"))


def loop(what: str, way: str, shape: list[int], steps: int) -> dict:
    """Points and steps a second of a loop in memory."""
    os.environ["FLAGSTONE_COMPILE"] = "0" if way == "fused" else "1"
    import numpy as np

    import flagstone as fl

    rng = np.random.default_rng(1)
    kernel = of_rows(what) if way == "rows" else react if what == "fields" else neighbours
    if way == "weights":
        kernel = heat()
    if what == "fields":
        shape = [shape[0] * shape[1] // 16, 16 * shape[2]]
    state = rng.random(shape, np.float32)
    state = {"u": state, "v": 0.5 * state} if what == "fields" else state
    out = {name: np.zeros_like(x) for name, x in state.items()} if what == "fields" else np.zeros_like(state)
    fl.stencil(kernel, state, 1, out=out, boundary="periodic")
    with harness.measured() as run:
        fl.stencil(kernel, state, steps, out=out, boundary="periodic")
    told = fl.stats()
    return {
        **vars(run),
        "speed": math.prod(shape) * steps / told.seconds,
        "what": told.what,
        "note": told.note,
    }


def run() -> int:
    args = harness.options(
        __doc__, shape=("128x512x1024", "32x32x128"), steps=(32, 4), rounds=(2, 1),
        only=("heat,fields", "fields"),
    )  # fmt: skip
    shape = [int(n) for n in args.shape.split("x")]
    ways = {"heat": ("weights", "compiled", "fused", "rows"), "fields": ("compiled", "fused", "rows")}
    runs = {
        f"{what} {way}": partial(
            harness.child, __file__, loop, args.timeout, what=what, way=way, shape=shape, steps=args.steps
        )
        for what in args.only.split(",")
        for way in ways[what]
    }
    results = harness.alternate(args.rounds, runs, [])
    speed = {name: max(result["speed"] for result in told) for name, told in results.items()}
    rows = []
    pairs = [
        ("heat compiled", "heat weights", ">= 0.90"), ("heat fused", "heat weights", ">= 0.25"),
        ("heat rows", "heat weights", ">= 0.90"), ("fields compiled", "fields fused", ">= 1.00"),
        ("fields rows", "fields compiled", ">= 0.90"),
    ]  # fmt: skip
    for mine, other, target in pairs:
        if mine in speed:
            shown = f"{speed[mine] / 1e9:.2f} Gupd/s", f"{speed[other] / 1e9:.2f} Gupd/s"
            rows.append(
                harness.figure(
                    f"{mine} ÷ {other}: speed", *shown, speed[mine] / speed[other], target, args.full_size
                )
            )
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, loop)
