"""What it costs to be able to go on: a product with checkpoints against one without, and one killed at half.

The product of two n x n float32 matrices. "kept": checkpoints every --every seconds (thirty times as often as
by default). "broken": the process is killed (SIGKILL) at the first checkpoint beyond half (it takes one after
every superblock), another one resumes it; seconds of both together, start of the interpreter aside. Results
are compared bit for bit.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

NEVER = "1e9"


def run() -> int:
    args = harness.options(
        __doc__, n=(8192, 2048), memory=("256MiB", "100MiB"), rounds=(3, 1), every=(1.0, 0.0)
    )
    folder = args.data / "resume"
    folder.mkdir(exist_ok=True)
    files = [
        harness.random_npy(folder / f"{name}.npy", args.n, args.n, seed) for seed, name in enumerate("ab")
    ]
    call = {"folder": folder, "memory": args.memory}

    def one(function, every):
        os.environ["FLAGSTONE_CHECKPOINT_SECONDS"] = str(every)
        return harness.child(__file__, function, args.timeout, **call)

    try:
        done = harness.alternate(
            args.rounds,
            {
                "plain": lambda: one(product, NEVER),
                "kept": lambda: one(product, args.every),
                "broken": lambda: one(broken, 0),
            },
            files,
        )
    finally:
        if not args.keep:
            harness.remove(folder)
    assert len({one["digest"] for runs in done.values() for one in runs}) == 1, "the bits differ"
    plain, kept, cut = (harness.best(done[name]) for name in ("plain", "kept", "broken"))
    saves, where = done["kept"][0]["saves"], done["broken"][0]["where"]
    rows = [
        harness.figure(
            f"product {args.n}^3 float32, {saves} checkpoints ÷ none: seconds", f"{kept:.2f}", f"{plain:.2f}",
            kept / plain, "<= 1.01", args.full_size,
        ),
        harness.figure(
            f"the same killed at {where:.0%} and resumed ÷ unbroken: seconds", f"{cut:.2f}", f"{plain:.2f}",
            cut / plain, "<= 1.1", args.full_size,
        ),
    ]  # fmt: skip
    return harness.report(__file__, args, rows, runs=done)


def product(folder: str, memory: str) -> dict:
    import flagstone as fl
    from flagstone._resume import record

    saves = []
    record.saved = saves.append
    place = Path(folder)
    start = time.perf_counter()
    fl.matmul(fl.open(place / "a.npy"), fl.open(place / "b.npy"), out=place / "c.zarr", memory=memory)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "saves": len(saves), "digest": digest(place / "c.zarr")}


def broken(folder: str, memory: str) -> dict:
    """The first part in a process that dies, the second here."""
    import flagstone as fl
    from flagstone._resume import record
    from flagstone._resume.leftovers import leftovers

    place = Path(folder)
    start = time.perf_counter()
    child = os.fork()
    if child == 0:

        def saved(_: int) -> None:
            if leftovers(str(place / "c.zarr"))[0].done >= 0.5:
                os.kill(os.getpid(), signal.SIGKILL)

        record.saved = saved
        fl.matmul(fl.open(place / "a.npy"), fl.open(place / "b.npy"), out=place / "c.zarr", memory=memory)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "no checkpoint was taken; lower --every or --memory"
    where = leftovers(str(place / "c.zarr"))[0].done
    fl.resume(place / "c.zarr", memory=memory)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "where": where, "digest": digest(place / "c.zarr")}


def digest(group: Path) -> str:
    """Of the result, which goes then."""
    found = hashlib.blake2b()
    for file in sorted(p for p in group.rglob("*") if p.is_file() and "__flagstone" not in p.parts):
        found.update(file.read_bytes())
    harness.remove(group)
    return found.hexdigest()


if __name__ == "__main__":
    harness.main(__file__, run, product, broken)
