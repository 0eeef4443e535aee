"""Packed arrays through A[...]: read and written in stripes, against zarr-python and TensorStore.

Small counts as float64, packed with blosc-lz4 and with zstd (level 3). Peers read our array, and one of their
own of chunk files with the same chunks and codec: the faster of the two counts. Cold: caches dropped. Warm:
the second time in one process (ours reads past the page cache: warm means the files' indexes). Medians of
runs in turn, all under one cap (a cgroup, page cache included; where that is not permitted, without, and said
so). Written: new arrays; ours are synced.
"""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.harness.cap import Cap
from benchmarks.storage import storage_jobs as jobs

PEERS = ("zarr", "tensorstore")


def _counts(side: int, rows: int):
    import numpy as np

    rng = np.random.default_rng(0)
    for i in range(0, side, rows):
        yield slice(i, min(i + rows, side)), rng.poisson(0.3, (min(rows, side - i), side)).astype("f8")


def _zarr_codec(codec: str):
    import zarr

    if codec == "zstd":
        return zarr.codecs.ZstdCodec(level=3)
    return zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=8)


def fill(path: str, side: int, rows: int, codec: str, kind: str) -> dict:
    """Make an array and write it in stripes."""
    chunk = jobs.CHUNK
    if kind == "flagstone":
        import flagstone as fl

        out = fl.create(path, (side, side), "float64", overwrite=True, codec=codec)
        during = fl.transaction(path)
    else:
        import zarr

        harness.remove(Path(path))
        made = zarr.create_array(
            path, shape=(side, side), dtype="float64", chunks=(chunk, chunk), compressors=_zarr_codec(codec)
        )
        out, during = made, contextlib.nullcontext()
        if kind == "tensorstore":
            import tensorstore

            store = {"driver": "file", "path": path}
            out = tensorstore.open({"driver": "zarr3", "kvstore": store}, open=True).result()
    parts = list(_counts(side, rows))
    with harness.measured() as run, during:
        for stripe, part in parts:
            if kind == "tensorstore":
                out[stripe, :].write(part).result()
            else:
                out[stripe, :] = part
    return vars(run)


def read(path: str, rows: int, side: int, kind: str, warm: bool) -> dict:
    if warm:
        jobs.read(path, rows, side, kind)
    return jobs.read(path, rows, side, kind)


class Bench:
    """Arrays of one codec, and rows of the table."""

    def __init__(self, args, wrap: list[str], codec: str) -> None:
        self.args, self.wrap, self.codec = args, wrap, codec
        self.ours = args.data / f"packed-{codec}.zarr"
        self.theirs = args.data / f"packed-{codec}-files.zarr"
        self.new = args.data / f"packed-{codec}-new.zarr"

    def ask(self, function, **arguments) -> dict:
        size = {"side": self.args.side, "rows": self.args.rows}
        return harness.child(__file__, function, self.args.timeout, self.wrap, **size, **arguments)

    def reads(self, warm: bool) -> dict:
        array = self.ours / "array"
        runs = {"flagstone": partial(self.ask, read, path=self.ours, kind="flagstone", warm=warm)}
        for kind in PEERS:
            runs[kind] = partial(self.ask, read, path=array, kind=kind, warm=warm)
            runs[f"{kind}, chunk files"] = partial(self.ask, read, path=self.theirs, kind=kind, warm=warm)
        return harness.alternate(self.args.rounds, runs, [self.ours, self.theirs])

    def writes(self) -> dict:
        runs = {
            kind: partial(self.ask, fill, path=self.new, codec=self.codec, kind=kind)
            for kind in ("flagstone", *PEERS)
        }
        return harness.alternate(self.args.rounds, runs, [])

    def row(self, what: str, done: dict) -> harness.Row:
        seconds = {name: harness.median(results) for name, results in done.items()}
        ours = seconds.pop("flagstone")
        best = min(seconds, key=seconds.__getitem__)
        rates = [f"{self.args.side**2 * 8 / s / 1e6:.0f} MB/s" for s in (ours, seconds[best])]
        others = ", ".join(f"{name} {s / ours:.2f}" for name, s in seconds.items() if name != best)
        baseline = f"{rates[1]} {best} ({others})"
        ratio = seconds[best] / ours
        target = ">= 0.8" if what.startswith("written") else ">= 1.0"  # peers' are in the page cache
        name = f"{self.codec}: {what}, times faster"
        return harness.figure(name, rates[0], baseline, ratio, target, self.args.full_size)


def run() -> int:
    args = harness.options(
        __doc__,
        side=(8192, 1024),
        rows=(2048, 512),
        rounds=(5, 1),
        codecs=("blosc-lz4,zstd", "blosc-lz4"),
        only=("cold,warm,write", "cold"),
        memory=("1.5GiB", "1.5GiB"),
    )
    try:
        cap: contextlib.AbstractContextManager = Cap(harness.parse_bytes(args.memory))
        with cap:
            return measure(args, cap.wrap, cap.describe())
    except PermissionError as error:
        harness.note(f"packed: {error} Runs without a cap.")
        return measure(args, [], "no cap")


def measure(args, wrap: list[str], how: str) -> int:
    rows, details = [], {"cap": how}
    for codec in args.codecs.split(","):
        bench = Bench(args, wrap, codec)
        bench.ask(fill, path=bench.ours, codec=codec, kind="flagstone")
        bench.ask(fill, path=bench.theirs, codec=codec, kind="zarr")
        for part in args.only.split(","):
            done = bench.writes() if part == "write" else bench.reads(part == "warm")
            details[f"{codec} {part}"] = done
            what = "written in stripes" if part == "write" else f"read in stripes, {part}"
            rows.append(bench.row(what, done))
        if not args.keep:
            harness.remove(bench.ours, bench.theirs, bench.new)
    return harness.report(__file__, args, rows, **details)


if __name__ == "__main__":
    harness.main(__file__, run, fill, read)
