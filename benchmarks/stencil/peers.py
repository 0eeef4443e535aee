"""7-point heat, float32, seconds a step: ours inside a limit, beside what people run.

In memory and uncapped: Numba (prange), NumPy, our own. Under the cap that ours has (a cgroup, page cache
counted): Numba on memory maps, Dask map_overlap from chunk files to chunk files. A peer that is not installed
is left out and named; one that the cap kills is told as killed. A fresh process each.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import cap, harness


def _heat() -> dict:
    import flagstone as fl

    return {at: 0.1 * w + (not any(at)) for at, w in fl.laplacian(3).items()}


def make(shape: list[int], to: str) -> dict:
    """A random field as .npy, which all can open."""
    import numpy as np

    import flagstone as fl

    fl.random.default_rng(1).random(shape, np.float32, out=to)
    return {}


def ours(path: str, steps: int, memory: str) -> dict:
    """From disk to disk inside the limit."""
    import flagstone as fl

    out = path.replace("field", "stepped").replace(".npy", ".zarr")
    with harness.measured() as run:
        fl.stencil(_heat(), fl.open(path), steps, memory=memory, out=out)
    fl.delete(out)
    return {**vars(run), "stats": fl.stats().as_dict()}


def ours_in_memory(path: str, steps: int) -> dict:
    """Both states in memory."""
    import numpy as np

    import flagstone as fl

    x = np.load(path)
    out = np.zeros_like(x)
    with harness.measured() as run:
        fl.stencil(_heat(), x, steps, out=out)
    return vars(run)


def _numba_sweep() -> object:
    import numba
    import numpy as np

    middle, side = np.float32(0.4), np.float32(0.1)

    @numba.njit(parallel=True)
    def sweep(u, to):  # type: ignore[no-untyped-def]
        nz, ny, nx = u.shape
        for z in numba.prange(1, nz - 1):
            for y in range(1, ny - 1):
                for x in range(1, nx - 1):
                    around = u[z - 1, y, x] + u[z, y - 1, x] + u[z, y, x - 1]
                    around += u[z, y, x + 1] + u[z, y + 1, x] + u[z + 1, y, x]
                    to[z, y, x] = middle * u[z, y, x] + side * around

    tiny = np.zeros((3, 3, 3), np.float32)
    sweep(tiny, tiny.copy())
    return sweep


def numba_in_memory(path: str, steps: int) -> dict:
    """The plain sweep of two arrays in memory."""
    import numpy as np

    sweep, u = _numba_sweep(), np.load(path)
    to = u.copy()
    with harness.measured() as run:
        for _ in range(steps):
            sweep(u, to)  # type: ignore[operator]
            u, to = to, u
    return vars(run)


def numpy_in_memory(path: str, steps: int) -> dict:
    """Planes of two arrays in memory."""
    import numpy as np

    u = np.load(path)
    to = u.copy()
    middle, side = np.float32(0.4), np.float32(0.1)
    with harness.measured() as run:
        for _ in range(steps):
            for z in range(1, len(u) - 1):
                p = u[z]
                around = u[z - 1, 1:-1, 1:-1] + p[:-2, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + p[2:, 1:-1]
                around += u[z + 1, 1:-1, 1:-1]
                to[z, 1:-1, 1:-1] = middle * p[1:-1, 1:-1] + side * around
            u, to = to, u
    return vars(run)


def numba_mapped(path: str, steps: int) -> dict:
    """The plain sweep of two memory maps."""
    import numpy as np

    sweep = _numba_sweep()
    u = np.load(path, mmap_mode="r")
    maps = [f"{path}.{k}.npy" for k in range(2)]
    states = [np.lib.format.open_memmap(name, "w+", np.float32, u.shape) for name in maps]
    try:
        with harness.measured() as run:
            for k in range(steps):
                sweep(u, states[k % 2])  # type: ignore[operator]
                u = states[k % 2]
            u.flush()  # type: ignore[attr-defined]
    finally:
        for name in maps:
            Path(name).unlink(missing_ok=True)
    return vars(run)


def dask_overlap(path: str, steps: int) -> dict:
    """One task a block and step with halos of one, stored by numpy stacks after each step."""
    import shutil

    import dask
    import dask.array as da
    import numpy as np

    def step(p):  # type: ignore[no-untyped-def]
        to = p.copy()
        around = p[:-2, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 1:-1, :-2]
        around += p[1:-1, 1:-1, 2:] + p[1:-1, 2:, 1:-1] + p[2:, 1:-1, 1:-1]
        to[1:-1, 1:-1, 1:-1] = np.float32(0.4) * p[1:-1, 1:-1, 1:-1] + np.float32(0.1) * around
        return to

    u = da.from_array(np.load(path, mmap_mode="r"), chunks=(16, -1, -1))
    folders = [f"{path}.dask{k}" for k in range(2)]
    try:
        with harness.measured() as run, dask.config.set(scheduler="threads", num_workers=2):
            for k in range(steps):
                made = u.map_overlap(step, depth=1, boundary=0, dtype=u.dtype)
                shutil.rmtree(folders[k % 2], ignore_errors=True)
                da.to_npy_stack(folders[k % 2], made)
                u = da.from_npy_stack(folders[k % 2])
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return vars(run)


_NEEDS = {"numba_in_memory": "numba", "numba_mapped": "numba", "dask_overlap": "dask"}
_CAPPED = ("numba_mapped", "dask_overlap")


def _peer(function: object, path: Path, steps: int, args: object, memory: int) -> dict | None:
    """Seconds a step of a peer; None where it is not installed."""
    name = function.__name__  # type: ignore[attr-defined]
    needed = _NEEDS.get(name)
    if needed and importlib.util.find_spec(needed) is None:
        harness.note(f"{name}: {needed} is not installed")
        return None
    harness.drop_caches([path])
    run = partial(harness.child, __file__, function, args.timeout, path=path, steps=steps)  # type: ignore[attr-defined]
    try:
        if name not in _CAPPED:
            return run()
        with cap.Cap(memory) as limit:
            return run(wrap=limit.wrap)
    except (harness.ChildFailed, PermissionError) as failed:
        harness.note(f"{name}: {failed}")
        return {"failed": str(failed)}


def run() -> int:
    args = harness.options(
        __doc__, shape=("512x512x1024", "48x64x128"), steps=(64, 8), short=(3, 2), memory=("512MiB",) * 2,
    )  # fmt: skip
    shape = [int(n) for n in args.shape.split("x")]
    path, memory = args.data / f"field-{args.shape}.npy", harness.parse_bytes(args.memory)
    harness.child(__file__, make, args.timeout, shape=shape, to=path)
    try:
        mine = harness.child(__file__, ours, args.timeout, path=path, steps=args.steps, memory=args.memory)
        fits = harness.child(__file__, ours_in_memory, args.timeout, path=path, steps=args.steps)
        peers = {
            function.__name__: _peer(function, path, steps, args, memory)
            for function, steps in (
                (numba_in_memory, args.steps), (numpy_in_memory, args.short),
                (numba_mapped, args.short), (dask_overlap, args.short),
            )
        }  # fmt: skip
    finally:
        if not args.keep:
            harness.remove(path)
    each = mine["seconds"] / args.steps
    judged = args.full_size
    rows = [harness.figure(
        "ours inside the limit ÷ ours in memory, a step", f"{each:.3f} s",
        f"{fits['seconds'] / args.steps:.3f} s", mine["seconds"] / fits["seconds"], "<= 1.10", judged,
    )]  # fmt: skip
    for name, target in (("numba_in_memory", "<= 0.72"), ("numpy_in_memory", "<= 0.72")):
        rows += _row(name, peers[name], args, each, target, judged)
    for name, target in (("numba_mapped", "<= 0.167"), ("dask_overlap", "<= 0.05")):
        rows += _row(name, peers[name], args, each, target, judged)
    return harness.report(__file__, args, rows, peers=peers, ours=mine)


def _row(name: str, found: dict | None, args: object, each: float, target: str, judged: bool) -> list:
    if found is None or "failed" in found:
        return []
    steps = args.steps if name == "numba_in_memory" else args.short  # type: ignore[attr-defined]
    theirs = found["seconds"] / steps
    return [
        harness.figure(
            f"ours inside the limit ÷ {name.replace('_', ' ')}, a step", f"{each:.3f} s", f"{theirs:.3f} s",
            each / theirs, target, judged,
        )
    ]  # fmt: skip


if __name__ == "__main__":
    harness.main(
        __file__, run, make, ours, ours_in_memory, numba_in_memory, numpy_in_memory, numba_mapped,
        dask_overlap,
    )  # fmt: skip
