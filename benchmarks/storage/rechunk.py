"""Row stripes of a float32 array to square tiles, and its transpose, in 256 MiB: bytes and time ÷ the least.

The least number of bytes is one read and one write of the array. The least time is what fio takes for the
same with direct I/O, 1 MiB blocks at depth 16, one after the other and in turn with ours; medians; caches
dropped. Everything counts, until the result is on the disk under its name. Results are checked on rows.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring


def make(path: str, side: int, stripe: int) -> dict:
    import numpy as np

    import flagstone as fl

    A = fl.create(path, (side, side), "float32", (stripe, side), overwrite=True)
    rng = np.random.default_rng(0)
    step = max(stripe, 1024 // stripe * stripe)
    for i in range(0, side, step):
        A[i : i + step] = rng.random((min(step, side - i), side), dtype=np.float32)
    A.close()
    return {}


def restructure(path: str, out: str, what: str, tile: int, memory: str) -> dict:
    import numpy as np

    import flagstone as fl

    A = fl.open(path)
    if what == "transpose":
        call = partial(fl.transpose, A, chunks=(tile, tile))
    else:
        call = partial(fl.rechunk, A, (tile, tile))
    plan = call.func.plan(*call.args, **call.keywords, out=out, memory=memory)
    with harness.measured() as run:
        B = call(out=out, memory=memory)
    stats = fl.stats()
    for row in (0, A.shape[0] // 2, A.shape[0] - 1):
        found = B[:, row] if what == "transpose" else B[row]
        assert np.array_equal(found, A[row]), f"row {row} is wrong"
    moved = stats.bytes_read + stats.bytes_written
    return {**vars(run), "bytes": moved, "passes": stats.passes, "note": stats.note, "plan": plan.as_dict()}


def run() -> int:
    args = harness.options(
        __doc__,
        side=(16384, 1536),
        stripe=(64, 16),
        tile=(1024, 256),
        memory=("256MiB", "256MiB"),
        rounds=(3, 1),
    )
    if not shutil.which("fio"):
        harness.note("rechunk: fio was not found; install it (apt-get install fio).")
        return 3
    source, out, file = args.data / "rechunk.zarr", args.data / "rechunk-out.zarr", args.data / "rechunk-fio"
    engine, nbytes = ring.fio_engine(args.data), args.side**2 * 4
    gib = max(nbytes / 2**30, 1 / 1024)
    fio = partial(ring.fio, file=file, gib=gib, block="1m", depth="16", engine=engine, timeout=args.timeout)

    def ours(what: str) -> dict:
        harness.remove(Path(out))
        options = {"path": source, "out": out, "what": what, "tile": args.tile, "memory": args.memory}
        return harness.child(__file__, restructure, args.timeout, **options)

    try:
        harness.child(__file__, make, args.timeout, path=source, side=args.side, stripe=args.stripe)
        fio("write")
        runs = {
            "rechunk": partial(ours, "rechunk"),
            "fio write": partial(fio, "write"),
            "transpose": partial(ours, "transpose"),
            "fio read": partial(fio, "read"),
        }
        results = harness.alternate(args.rounds, runs, [source, file])
    finally:
        harness.remove(file, Path(out), *([] if args.keep else [source]))
    rates = {verb: harness.median(results[f"fio {verb}"], "rate") for verb in ("read", "write")}
    disk = nbytes / rates["read"] + nbytes / rates["write"]
    rows = []
    for what in ("rechunk", "transpose"):
        moved, seconds = harness.median(results[what], "bytes"), harness.median(results[what])
        peak = max(result["peak"] for result in results[what])
        shown = (
            f"{seconds:.2f} s",
            f"{disk:.2f} s ({rates['read'] / 1e9:.2f} + {rates['write'] / 1e9:.2f} GB/s)",
        )
        least, judged = 2 * nbytes, args.full_size
        rows += [
            harness.figure(
                f"{what}, bytes ÷ (2 × array)", f"{moved:.0f}", f"{least}", moved / least, "<= 1.02", judged
            ),
            harness.figure(
                f"{what}, time ÷ one read and one write", *shown, seconds / disk, "<= 1.2", judged
            ),
            harness.figure(
                f"{what}, peak ÷ limit", f"{peak >> 20} MiB", args.memory,
                peak / harness.parse_bytes(args.memory), "<= 1.00", True,
            ),
        ]  # fmt: skip
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, make, restructure)
