"""What was chosen without trial runs ÷ the best of twenty points around it: time, for al1, al3 and al4.

7-point heat, float32, default 512 x 512 x 1024 (1 GiB a state), 64 steps, in 512 MiB. Around the depth and
the blocks that a method chose by counts and rates lie five depths and four blocks (of al4: batches and
strips); those that the limit has room for run once each, then the fastest and the choice in alternating
pairs, fresh processes, medians. `--memory`, `--shape`, `--steps`, `--only` choose.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.stencil.speed import heat, make

Point = tuple[int, tuple[int, ...]]  # depth, block (of al4 cache block)


def chosen(path: str, steps: int, memory: str, method: str) -> dict:
    """What the method chooses; nothing runs but the kernel's probe."""
    import flagstone as fl

    told = fl.stencil.plan(heat(), fl.open(path), steps, memory=memory, method=method).stencil
    return {"depth": told.depth, "block": list(told.cache_block if method == "al4" else told.block)}


def timed(path: str, steps: int, memory: str, method: str, depth: int, block: list[int]) -> dict:
    """One point from disk to disk inside the limit; of one that does not fit no seconds."""
    import flagstone as fl

    a, out = fl.open(path), path.replace("field", "tuned")
    given = {"cache_block" if method == "al4" else "block": tuple(block), "depth": depth}
    try:
        fl.stencil.plan(heat(), a, steps, memory=memory, method=method, out=out, **given)
    except fl.BudgetError:
        return {"seconds": None}
    with harness.measured() as run:
        fl.stencil(heat(), a, steps, memory=memory, method=method, out=out, **given)
    fl.delete(out)
    return vars(run)


def around(method: str, depth: int, block: list[int], shape: list[int], steps: int) -> list[Point]:
    """Five depths and four blocks; what lies beyond the loop or the field is drawn in, and named once."""
    depths = [depth // 2, depth * 3 // 4, depth, depth * 3 // 2, depth * 2]
    if method == "al4":
        planes, rows, levels = block
        blocks = [(planes, rows * k // 2, levels) for k in (1, 2, 4)] + [(planes * 2, rows, levels)]
        most = [shape[0], shape[1], steps]
    else:
        blocks = [(block[0] * k // 2, *block[1:]) for k in (1, 2, 4)] + [(block[0], block[1] // 2, block[2])]
        most = list(shape)
    inside = [tuple(max(1, min(b, n)) for b, n in zip(one, most, strict=True)) for one in blocks]
    points = [(max(1, min(d, steps)), one) for d in depths for one in inside]
    return list(dict.fromkeys(points))


def best_around(
    run: partial, files: list[Path], method: str, choice: dict, shape: list[int], steps: int
) -> tuple[Point, dict[str, float]]:
    """The fastest of the points that fit, one run each; and what each took."""
    took: dict[Point, float] = {}
    for depth, block in around(method, choice["depth"], choice["block"], shape, steps):
        harness.drop_caches(files)
        seconds = run(depth=depth, block=list(block))["seconds"]
        if seconds is not None:
            took[depth, block] = seconds
    return min(took, key=took.__getitem__), {f"{d} {b}": seconds for (d, b), seconds in took.items()}


def run() -> int:
    args = harness.options(
        __doc__, shape=("512x512x1024", "48x64x128"), steps=(64, 8), memory=("512MiB",) * 2,
        pairs=(5, 1), only=("al1,al3,al4", "al4"),
    )  # fmt: skip
    shape = [int(n) for n in args.shape.split("x")]
    path = args.data / f"field-{args.shape}.zarr"
    if not path.exists():
        harness.child(__file__, make, args.timeout, shape=shape, to=path)
    rows, details = [], {}
    try:
        for method in args.only.split(","):
            given = {"path": path, "steps": args.steps, "memory": args.memory, "method": method}
            choice = harness.child(__file__, chosen, args.timeout, **given)
            one = partial(harness.child, __file__, timed, args.timeout, **given)
            best, took = best_around(one, [path], method, choice, shape, args.steps)
            pair = {
                "chosen": partial(one, depth=choice["depth"], block=choice["block"]),
                "best": partial(one, depth=best[0], block=list(best[1])),
            }
            runs = harness.alternate(args.pairs, pair, [path])
            mine, other = (harness.median(runs[name]) for name in pair)
            told = f"{choice['depth']} {tuple(choice['block'])}", f"{best[0]} {best[1]}"
            shown = f"{told[0]}: {mine:.2f} s", f"{told[1]} of {len(took)}: {other:.2f} s"
            title = f"heat {args.shape}, {args.steps} steps, {args.memory}, {method}: chosen ÷ best"
            rows.append(harness.figure(title, *shown, mine / other, "<= 1.05", args.full_size))
            details[method] = {"points": took, "runs": runs}
    finally:
        if not args.keep:
            harness.remove(path)
    return harness.report(__file__, args, rows, **details)


if __name__ == "__main__":
    harness.main(__file__, run, make, chosen, timed)
