"""PCA of some of the rows of a sparse matrix against half of the time of all, in 256 MiB.

The matrix of pca.py. Timed in turn, in one fresh process each round: all rows, the first half, a random half
by a mask (every panel is still read and unpacked); medians. Bytes: 1 % of the rows from the middle, against
the packed chunks of values, columns and pointers that their panels lie in. Statistics that ingest kept are
not used for chosen rows: their pass is part of the time.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.sparse import pca


def halves(npz: str, k: int, method: str, memory: str, seed: int) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(npz)
    rows = x.shape[0]
    mask = np.random.default_rng(seed).permutation(rows) < rows // 2
    views = {"all": x, "first half": x[: rows // 2], "random half": x[mask]}
    found = {}
    for name, view in views.items():
        with harness.measured() as run:
            result = fl.pca(view, k, method=method, memory=memory)
        stats = fl.stats()
        found[name] = {
            "seconds": run.seconds, "passes": stats.passes, "read": stats.bytes_read,
            "peak": stats.peak_memory, "method": stats.method, "sigma": float(result.singular_values[0]),
        }  # fmt: skip
        del result
    return found


def stretch(npz: str, memory: str) -> dict:
    """One read of 1 % of the rows, and what is packed of the panels that hold them."""
    import numpy as np

    import flagstone as fl
    from flagstone._array.array import Array

    x = fl.open(npz)
    rows, stored = x.shape[0], x._stored
    first, last = rows // 2, rows // 2 + max(1, rows // 100)
    view = x[first:last]
    height = x.operand().panel_rows
    top, bottom = first // height * height, min(rows, -(-last // height) * height)
    pointers = Array(stored.indptr)
    low, high = int(pointers[top]), int(pointers[bottom])
    parts = ((stored.data, low, high), (stored.indices, low, high), (stored.indptr, top, bottom + 1))
    packed, share = 0.0, 0.0
    for part, begin, end in parts:
        length, chunk = part.shape[0], part.chunks[0]
        chunks, touched = -(-length // chunk), (end - 1) // chunk - begin // chunk + 1
        packed += part.stored_bytes * touched / chunks
        share += part.stored_bytes * (end - begin) / length
    with fl.Runtime(memory=memory):
        y = view @ np.ones((x.shape[1], 1), np.float32)
        read = fl.stats().bytes_read
        np.testing.assert_allclose(y[:, 0], np.asarray(view.sum(1)), rtol=1e-4)
    whole = sum(part.stored_bytes for part, _, _ in parts)
    panels = (bottom - top) // height
    return {"read": read, "packed": packed, "share": share, "whole": whole, "panels": panels, "seconds": 0.0}


def run() -> int:
    args = harness.options(
        __doc__,
        rows=(400_000, 20_000),
        cols=(5_000, 300),
        k=(50, 10),
        seed=(0, 0),
        rounds=(3, 1),
        method=("auto", "auto"),
        memory=("256MiB", "256MiB"),
    )
    npz = pca.matrix(args)
    shared = {"npz": npz, "memory": args.memory}
    ours = partial(harness.child, __file__, halves, args.timeout, **shared)
    ours = partial(ours, k=args.k, method=args.method, seed=args.seed)
    try:
        read = harness.child(__file__, stretch, args.timeout, **shared)  # imports into scratch
        results = harness.alternate(args.rounds, {"flagstone": ours}, [npz])["flagstone"]
    finally:
        if not args.keep and args.smoke:
            harness.remove(npz)
    judged, limit = args.full_size, harness.parse_bytes(args.memory)
    every = harness.median([one["all"] for one in results])
    name = f"PCA {args.rows} x {args.cols}, k = {args.k}, {args.memory}"
    rows = []
    for half, target in (("first half", "<= 1.2"), ("random half", "<= 1.4")):
        mine = harness.median([one[half] for one in results])
        about = results[0][half]
        shown = f"{mine:.2f} s, {about['method']}, {about['passes']} passes"
        whole = f"{every:.2f} s for all, {results[0]['all']['method']}, {results[0]['all']['passes']} passes"
        rows.append(
            harness.figure(f"{name}: {half} ÷ half of all", shown, whole, 2 * mine / every, target, judged)
        )
    peak = max(run["peak"] for one in results for run in one.values())
    what = f"1 % of the rows, {read['panels']} panels: bytes read ÷ their packed chunks"
    shown = f"{read['read'] / 2**20:.2f} MiB", f"{read['packed'] / 2**20:.2f} MiB"
    rows += [
        harness.figure(what, *shown, read["read"] / read["packed"], "<= 1.3", judged),
        harness.figure(
            f"{name}: peak ÷ limit", f"{peak >> 20} MiB", args.memory, peak / limit, "<= 1.00", judged
        ),
    ]
    print(f"the panels' share of the values: {read['share'] / 2**20:.2f} MiB of {read['whole'] / 2**20:.1f}")
    return harness.report(__file__, args, rows, stretch=read, runs={"flagstone": results})


if __name__ == "__main__":
    harness.main(__file__, run, halves, stretch)
