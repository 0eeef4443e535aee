"""Row stripes, column stripes and blocks of a float64 array ÷ sequential direct reads; checksums; updates.

"Sequential" is fio, 1 MiB blocks at depth 16. Stripes and blocks are read through `A[...]` into ordinary
memory, one request after the other, all of the array, caches dropped; total times of runs in turn. The cost
of checksums compares two arrays that differ in nothing else. An update replaces every fourth chunk in one
transaction; its bytes are those that the kernel counts for the process.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import harness
import ring


def make(path: str, side: int, checksum: str) -> dict:
    import numpy as np

    import flagstone as fl

    A = fl.create(path, (side, side), "float64", overwrite=True, checksum=checksum)
    rng = np.random.default_rng(0)
    step = A.chunks[0]
    with fl.transaction(path):
        for i in range(0, side, step):
            A[i : i + step] = rng.random((step, side))
    A.close()
    return {}


def read(path: str, height: int, width: int) -> dict:
    import flagstone as fl

    A = fl.open(path)
    with harness.measured() as run:
        for i in range(0, A.shape[0], height):
            for j in range(0, A.shape[1], width):
                A[i : i + height, j : j + width]
    return {**vars(run), "rate": A.nbytes / run.seconds}


def update(path: str) -> dict:
    """Every fourth chunk of every row of chunks; bytes written ÷ bytes changed."""
    import numpy as np

    import flagstone as fl

    def written() -> int:
        os.sync()
        lines = Path("/proc/self/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))

    A = fl.open(path, mode="r+")
    (height, width), (down, across) = A.chunks, list(A.tiles)
    part = np.full((height, width), 3.0)
    before, changed = written(), 0
    with harness.measured() as run, fl.transaction(path):
        for k in range(0, down * across, 4):
            i, j = divmod(k, across)
            A[i * height : (i + 1) * height, j * width : (j + 1) * width] = part
            changed += part.nbytes
    moved = written() - before
    kept = sum(f.stat().st_size for f in Path(path).rglob("__flagstone/*"))
    return {**vars(run), "ratio": moved / changed, "metadata": kept / A.nbytes, "bytes": changed}


def run() -> int:
    args = harness.options(
        __doc__, side=(16384, 2048), rounds=(6, 1), widths=("512,1024,2048,4096", "512,1024")
    )
    if not shutil.which("fio"):
        harness.note("storage: fio was not found; install it (apt-get install fio).")
        return 3
    plain, summed = args.data / "storage-none.zarr", args.data / "storage.zarr"
    file, gib = args.data / "storage-fio", args.side**2 * 8 / 2**30
    rows = []
    try:
        for path, checksum in ((plain, "none"), (summed, "sidecar")):
            harness.child(__file__, make, args.timeout, path=path, side=args.side, checksum=checksum)
        engine = ring.fio_engine(args.data)
        ring.fio("write", file, gib, "1m", "16", engine, args.timeout)
        ask = partial(harness.child, __file__, read, args.timeout)
        shapes = {f"{w} rows": (w, args.side) for w in map(int, args.widths.split(","))}
        shapes |= {f"{w} columns": (args.side, w) for w in map(int, args.widths.split(","))}
        shapes |= {f"{w} x {w} blocks": (w, w) for w in map(int, args.widths.split(","))}
        runs = {what: partial(ask, path=summed, height=h, width=w) for what, (h, w) in shapes.items()}
        first = next(iter(shapes.values()))
        runs["without checksums"] = partial(ask, path=plain, height=first[0], width=first[1])
        runs["fio"] = partial(ring.fio, "read", file, gib, "1m", "16", engine, args.timeout)
        done = harness.alternate(args.rounds, runs, [plain, summed, file])
        total = {name: sum(result["seconds"] for result in results) for name, results in done.items()}
        rates = {name: args.rounds * gib * 2**30 / seconds / 1e6 for name, seconds in total.items()}
        for what in shapes:
            target = ">= 0.95" if what.endswith("rows") else ">= 0.90"
            shown = f"{rates[what]:.0f} MB/s", f"{rates['fio']:.0f} MB/s sequential"
            rows.append(harness.figure(what, *shown, rates[what] / rates["fio"], target, args.full_size))
        what, without = next(iter(shapes)), total["without checksums"]
        shown = f"{total[what]:.2f} s", f"{without:.2f} s without"
        cost = total[what] / without
        rows.append(harness.figure("checksums, time", *shown, cost, "<= 1.03", args.full_size))
        changed = harness.child(__file__, update, args.timeout, path=summed)
        rows.append(
            harness.figure(
                "a quarter of the chunks in place, bytes", f"{changed['ratio']:.4f}", "bytes changed",
                changed["ratio"], "<= 1.05", args.full_size,
            )
        )  # fmt: skip
        rows.append(
            harness.figure(
                "checksums and journal, bytes", f"{changed['metadata']:.6f}", "bytes of the array",
                changed["metadata"], "<= 0.001", args.full_size,
            )
        )  # fmt: skip
    finally:
        if not args.keep:
            harness.remove(plain, summed, file)
    return harness.report(__file__, args, rows, runs=done, update=changed)


if __name__ == "__main__":
    harness.main(__file__, run, make, read, update)
