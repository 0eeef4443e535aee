"""Stripes, blocks and single elements of a float64 array against the disk and peers; writes; updates.

"Sequential" is fio's best of a block-size x depth grid of direct reads, which then runs in turn with ours.
Boxes are read through `A[...]` into fresh memory, one request after the other, all of the array, caches
dropped; figures are total times of runs in turn, all under one cap (a cgroup, page cache included; where
that is not permitted, without, and said so). The cost of checksums compares two arrays that differ in
nothing else. Bytes written are those that the kernel counts for the process.

--only rows,columns,blocks,small,peers,elements,writes,checksums,updates chooses parts; each says how long
it took. Peers read the same numbers in chunks of the same shape: zarr-python and TensorStore a Zarr v3 array
of unpacked chunk files, h5py, memmap. All of them run once; those within a third of the best go on in turn
with ours. "small" are chunks of 16 KiB; there peers read our shards.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.harness.cap import Cap
from benchmarks.storage import ring
from benchmarks.storage import storage_jobs as jobs

PARTS = "rows,columns,blocks,small,peers,elements,writes,checksums,updates"
PEERS = {"zarr": "zarr", "tensorstore": "tensorstore", "h5py": "h5py", "memmap": "numpy"}


class Bench:
    """Files, child processes under the cap, and rows of the table."""

    def __init__(self, args, wrap: list[str]) -> None:
        self.args, self.wrap = args, wrap
        self.summed, self.plain = args.data / "storage.zarr", args.data / "storage-none.zarr"
        self.file = args.data / "storage-fio"
        self.bytes = args.side**2 * 8
        self.engine = ring.fio_engine(args.data)
        self.rows: list[harness.Row] = []
        self.details: dict = {}
        self.seconds: dict[str, float] = {}  # of the parts
        self.made: set[Path] = set()

    def ask(self, function, **arguments) -> dict:
        return harness.child(jobs.__file__, function, self.args.timeout, self.wrap, **arguments)

    def array(self, path: Path, checksum: str = "sidecar") -> Path:
        if path not in self.made:
            self.made.add(path)
            self.ask(jobs.make, path=path, side=self.args.side, checksum=checksum)
        return path

    def fio(self, verb: str, block: str, depth: str) -> dict:
        return ring.fio(verb, self.file, self.bytes / 2**30, block, depth, self.engine, self.args.timeout)

    def sequential(self) -> tuple[str, str]:
        """Block size and depth with which fio reads fastest."""
        if self.file not in self.made:
            self.made.add(self.file)
            self.fio("write", "1m", "16")
        if "grid" not in self.details:
            rates = {}
            for block, depth in product(self.args.blocks.split(","), self.args.depths.split(",")):
                harness.drop_caches([self.file])
                rates[block, depth] = self.fio("read", block, depth)["rate"]
            self.details["grid"] = {" x ".join(way): rate for way, rate in rates.items()}
            self.best = max(rates, key=rates.get)
        return self.best

    def total(self, done: dict[str, list[dict]]) -> dict[str, float]:
        return {name: sum(result["seconds"] for result in results) for name, results in done.items()}

    def rate(self, seconds: float, pairs: int) -> str:
        return f"{pairs * self.bytes / seconds / 1e6:.0f} MB/s"

    def installed(self, module: str) -> bool:
        there = not subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode
        if not there:
            harness.note(f"storage: {module} is not installed; it is left out.")
        return there

    def row(self, what: str, ours: str, theirs: str, value: float, target: str) -> None:
        self.rows.append(harness.figure(what, ours, theirs, value, target, self.args.full_size))


def slices(bench: Bench, kind: str) -> None:
    """All of the array in boxes of one kind, every width in turn with fio."""
    path, best = bench.array(bench.summed), bench.sequential()
    side, pairs = bench.args.side, bench.args.pairs
    shape = {"rows": lambda w: (w, side), "columns": lambda w: (side, w), "blocks": lambda w: (w, w)}[kind]
    widths = [int(width) for width in bench.args.widths.split(",")]
    runs = {}
    for width in widths:
        height, across = shape(width)
        runs[f"{kind} {width}"] = partial(bench.ask, jobs.read, path=path, height=height, width=across)
    runs["fio"] = partial(bench.fio, "read", *best)
    if kind == "blocks":
        runs["fio 2m x 1"] = partial(bench.fio, "read", "2m", "1")
    done = harness.alternate(pairs, runs, [path, bench.file])
    bench.details[f"{kind} in turn"] = done
    total = bench.total(done)
    for width in widths:
        one = kind == "blocks" and width == jobs.CHUNK  # one chunk a request: one request in flight
        base = "fio 2m x 1" if one else "fio"
        shown = "with one request of 2 MiB" if one else f"sequential, {best[0]} x {best[1]}"
        target = ">= 0.95" if kind == "rows" or one else ">= 0.90"
        what = f"{width} x {width} blocks" if kind == "blocks" else f"{kind[:-1]} stripes of {width}"
        mine = total[f"{kind} {width}"]
        theirs = f"{bench.rate(total[base], pairs)} {shown}"
        bench.row(what, bench.rate(mine, pairs), theirs, total[base] / mine, target)


rows, columns, blocks = (partial(slices, kind=kind) for kind in ("rows", "columns", "blocks"))


def peers(bench: Bench) -> None:
    path, side = bench.array(bench.summed), bench.args.side
    width = int(bench.args.widths.split(",")[-1])
    tasks = {
        "rows": ({"height": width, "width": side}, ">= 1.0"),
        "columns": ({"height": side, "width": width}, ">= 1.05"),
        "blocks in random order": ({"height": width, "width": width, "shuffled": True}, ">= 1.0"),
    }
    kinds = {"flagstone": path} | peer_stores(bench)
    if len(kinds) == 1:
        return
    for what, (box, target) in tasks.items():
        runs = {kind: partial(bench.ask, jobs.read, path=p, kind=kind, **box) for kind, p in kinds.items()}
        done = harness.alternate(1, runs, list(kinds.values()))
        first = {kind: seconds for kind, seconds in bench.total(done).items() if kind != "flagstone"}
        near = {kind for kind, seconds in first.items() if seconds <= 4 / 3 * min(first.values())}
        again = {kind: run for kind, run in runs.items() if kind in near | {"flagstone"}}
        for kind, results in harness.alternate(bench.args.peer_pairs, again, list(kinds.values())).items():
            done[kind] += results
        bench.details[f"peers, {what}"] = done
        mean = {kind: seconds / len(done[kind]) for kind, seconds in bench.total(done).items()}
        mine = mean.pop("flagstone")
        best = min((kind for kind in mean if kind in near), key=mean.get)
        others = ", ".join(f"{kind} {bench.rate(mean[kind], 1)}" for kind in sorted(mean, key=mean.get))
        shown = f"{width} {what}, against the best of peers"
        bench.row(shown, bench.rate(mine, 1), others, mean[best] / mine, target)


def small(bench: Bench) -> None:
    """Chunks of 16 KiB in shards: all of the array in boxes of four kinds; peers read the same files."""
    path, side = bench.args.data / "storage-small.zarr", min(8192, bench.args.side)
    if path not in bench.made:
        bench.made.add(path)
        bench.ask(jobs.make_small, path=path, side=side)
    best, nbytes = bench.sequential(), side**2 * 4
    width = min(512, side)
    boxes = {
        f"row stripes of {width}": (width, side),
        f"column stripes of {width}": (side, width),
        f"{width} x {width} blocks": (width, width),
        "all at once": (side, side),
    }
    disk = harness.alternate(1, {"fio": partial(bench.fio, "read", *best)}, [bench.file])["fio"][0]["rate"]
    kinds = {"flagstone": path} | {
        kind: path / "array" for kind in ("tensorstore", "zarr") if bench.installed(kind)
    }
    for what, (height, across) in boxes.items():
        runs = {
            kind: partial(bench.ask, jobs.read, path=p, kind=kind, height=height, width=across)
            for kind, p in kinds.items()
        }
        done = harness.alternate(1, runs, [path])
        again = {kind: run for kind, run in runs.items() if kind != "zarr"}  # which takes ten times as long
        for kind, results in harness.alternate(bench.args.peer_pairs, again, [path]).items():
            done[kind] += results
        bench.details[f"small chunks, {what}"] = done
        rates = {
            kind: len(results) * nbytes / 1e6 / total
            for kind, results in done.items()
            if (total := sum(result["seconds"] for result in results))
        }
        mine = rates.pop("flagstone")
        shown = [f"{kind} {rate:.0f} MB/s" for kind, rate in rates.items()] + [f"disk {disk / 1e6:.0f} MB/s"]
        best_rate = max(rates.values(), default=mine)
        bench.row(
            f"chunks of 16 KiB, {what}", f"{mine:.0f} MB/s", ", ".join(shown), mine / best_rate, ">= 1.0"
        )


def peer_stores(bench: Bench) -> dict[str, Path]:
    """The array as every installed peer stores it."""
    stores = {}
    for kind, module in PEERS.items():
        if not bench.installed(module):
            continue
        name = {"memmap": "peer.npy", "h5py": "peer.h5"}.get(kind, "peer.zarr")
        stores[kind] = store = bench.args.data / name
        if store not in bench.made:
            bench.made.add(store)
            maker = "zarr" if store.suffix == ".zarr" else kind
            bench.ask(jobs.make_peer, kind=maker, path=store, side=bench.args.side)
    return stores


def fio_latency(bench: Bench, count: int) -> float:
    """Median seconds of a direct read of 4 KiB at a random place, one at a time."""
    command = ["fio", "--name=r", f"--filename={bench.file}", "--rw=randread", "--direct=1", "--bs=4k"]
    command += ["--iodepth=1", f"--ioengine={bench.engine}", f"--size={bench.bytes // 2**20}m"]
    command += [f"--number_ios={count}", "--randrepeat=0", "--lat_percentiles=1", "--output-format=json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=bench.args.timeout)
    if done.returncode:
        raise harness.ChildFailed(f"fio: {(done.stderr or done.stdout).strip()[-400:]}")
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]
    return job["lat_ns"]["percentile"]["50.000000"] / 1e9


def elements(bench: Bench) -> None:
    path, count = bench.array(bench.summed), bench.args.elements
    bench.sequential()
    ours, disk = [], []
    for _ in range(min(5, bench.args.pairs)):
        harness.drop_caches([path, bench.file])
        ours.append(bench.ask(jobs.elements, path=path, count=count)["median"])
        harness.drop_caches([path, bench.file])
        disk.append(fio_latency(bench, count))
    bench.details["elements"] = {"ours": ours, "fio": disk}
    mine, base = (sorted(times)[len(times) // 2] * 1e6 for times in (ours, disk))
    shown = f"{mine:.0f} us", f"{base:.0f} us, 4 KiB"
    bench.row("one element, cold: microseconds beyond the disk's", *shown, mine - base, "<= 41")


def writes(bench: Bench) -> None:
    path = bench.args.data / "storage-new.zarr"
    bench.made.add(path)
    runs = {
        "rows": partial(bench.ask, jobs.write, path=path, side=bench.args.side),
        "fio": partial(bench.fio, "write", "1m", "16"),
    }
    pairs = min(8, bench.args.pairs)
    done = harness.alternate(pairs, runs, [path, bench.file])
    bench.details["writes"] = done
    total = bench.total(done)
    theirs = f"{bench.rate(total['fio'], pairs)} sequential"
    value = total["fio"] / total["rows"]
    bench.row("write in row order", bench.rate(total["rows"], pairs), theirs, value, ">= 0.95")


def checksums(bench: Bench) -> None:
    box = {"height": int(bench.args.widths.split(",")[0]), "width": bench.args.side}
    paths = {"with": bench.array(bench.summed), "without": bench.array(bench.plain, "none")}
    runs = {name: partial(bench.ask, jobs.read, path=path, **box) for name, path in paths.items()}
    done = harness.alternate(bench.args.pairs, runs, list(paths.values()))
    bench.details["checksums"] = done
    total = bench.total(done)
    cost = total["with"] / total["without"]
    bench.row(
        "checksums, time", f"{total['with']:.2f} s", f"{total['without']:.2f} s without", cost, "<= 1.03"
    )


def updates(bench: Bench) -> None:
    path = bench.array(bench.summed)
    changed = bench.ask(jobs.update, path=path)
    small = bench.ask(jobs.small_rows, path=path, rows=jobs.CHUNK)
    bench.details["updates"] = [changed, small]
    ratio, kept = changed["ratio"], changed["metadata"]
    bench.row("a quarter of the chunks in place, bytes", f"{ratio:.4f}", "bytes changed", ratio, "<= 1.05")
    bench.row("rows one by one, bytes", f"{small['ratio']:.4f}", "bytes changed", small["ratio"], "<= 1.05")
    bench.row("checksums and journal, bytes", f"{kept:.6f}", "bytes of the array", kept, "<= 0.001")


def run() -> int:
    args = harness.options(
        __doc__,
        side=(16384, 2048),
        pairs=(12, 1),
        peer_pairs=(5, 0),
        widths=("512,1024,2048,4096", "512"),
        blocks=("512k,1m,2m,4m", "1m"),
        depths=("4,8,16,32", "16"),
        elements=(2000, 50),
        memory=("1.2GiB", "1GiB"),
        only=(PARTS, "rows,elements,writes"),
    )
    if unknown := set(args.only.split(",")) - set(PARTS.split(",")):
        harness.note(f"storage: --only {','.join(sorted(unknown))} is no part; choose from {PARTS}.")
        return 2
    if not shutil.which("fio"):
        harness.note("storage: fio was not found; install it (apt-get install fio).")
        return 3
    with contextlib.ExitStack() as stack:
        try:
            cap = stack.enter_context(Cap(harness.parse_bytes(args.memory)))
            wrap, described = cap.wrap, cap.describe()
        except PermissionError as error:
            harness.note(f"storage: {error} Measured without a cap.")
            wrap, described = [], "none"
        bench = Bench(args, wrap)
        try:
            for name in args.only.split(","):
                started = time.perf_counter()
                globals()[name](bench)
                bench.seconds[name] = round(time.perf_counter() - started, 1)
                harness.note(f"storage: {name} took {bench.seconds[name]:.0f} s")
        finally:
            if not args.keep:
                harness.remove(*bench.made)
    return harness.report(__file__, args, bench.rows, cap=described, seconds=bench.seconds, **bench.details)


if __name__ == "__main__":
    harness.main(__file__, run)
