"""Peers under one enforced cap: Dask, cubed, blosc2, memmap, scikit-learn, zarr-python, TensorStore, h5py.

Product: float32, n x n x n in 1 GiB, operands in the format that each likes best, chunk sizes tried, the best
counts. Principal components of a dense matrix twice the cap: time to components and scores on disk, and the
error of the singular values. Slices: parts of one array with cold caches, ours, zarr-python and TensorStore
from the very same Zarr files, h5py from HDF5 of like chunks. Where a peer wins, the table says so.

The peers are installed into a virtual environment below --data on the first run (--install no: those that
this Python has). Nothing is installed by --smoke.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.dense import product as dense
from benchmarks.dense import product_memmap
from benchmarks.harness import harness
from benchmarks.harness.cap import Cap
from benchmarks.peers import peers_jobs

MODULES = {
    "dask": "dask[array]",
    "cubed": "cubed",
    "blosc2": "blosc2",
    "sklearn": "scikit-learn",
    "zarr": "zarr>=3",
    "tensorstore": "tensorstore",
    "h5py": "h5py",
}
ALSO = ("numpy", "scipy", "threadpoolctl")
PATTERNS = ("whole rows", "whole columns", "boxes at random", "everything")
JOBS = peers_jobs.__file__


class Peers:
    """Where the peers are installed, and one measured run of theirs or of ours."""

    def __init__(self, args, python: str, cap: Cap) -> None:
        self.args, self.python, self.cap = args, python, cap

    def has(self, module: str) -> bool:
        if self.python == sys.executable:
            return importlib.util.find_spec(module) is not None
        done = subprocess.run([self.python, "-c", f"import {module}"], capture_output=True)
        return done.returncode == 0

    def run(self, script: str, function: Callable | str, ours: bool = False, **arguments) -> dict:
        """Seconds and more; infinite seconds, and why, where it was killed or refused."""
        python = sys.executable if ours else self.python
        try:
            return harness.child(
                script, function, self.args.timeout, self.cap.wrap, python=python, **arguments
            )
        except harness.ChildFailed as failed:
            if ours:
                raise
            harness.note(f"{function if isinstance(function, str) else function.__name__}: {failed}")
            late = f"not done in {self.args.timeout:g} s" if "not done" in str(failed) else "killed"
            return {"seconds": float("inf"), "failed": late if failed.killed else str(failed)[:60]}


def environment(folder: Path) -> str:
    """The Python of a virtual environment with the peers, made on the first run."""
    python = folder / "bin" / "python"
    stamp = folder / "complete"
    if not stamp.exists():
        harness.note(f"installing the peers into {folder}")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*install, *ALSO, *MODULES.values()], check=True)
        stamp.touch()
    return str(python)


def row(
    what: str, peer: str, mine: dict, theirs: dict, target: str, judged: bool, note: str = ""
) -> harness.Row:
    """One line; it says so where the peer wins. Without a target nothing is judged."""
    ratio = theirs["seconds"] / mine["seconds"]
    shown = theirs.get("failed") or f"{theirs['seconds']:.3g} s {peer}{note}"
    if ratio < 1:
        shown += ", PEER WINS"
    line = harness.figure(what, f"{mine['seconds']:.3g} s", shown, ratio, target or ">= 1.0", judged)
    return line if target else {**line, "target": "", "reached": "-"}


# --- the three parts ----------------------------------------------------------------------------------------


def products(peers: Peers) -> tuple[list[harness.Row], dict]:
    args = peers.args
    a, b = (harness.random_npy(args.data / f"product-{x}.npy", args.n, args.n, i) for i, x in enumerate("ab"))
    out, memory = args.data / "peers-out", harness.parse_bytes(args.memory)
    operands = {"a": a, "b": b, "out": out}
    chunks = [int(chunk) for chunk in args.chunks.split(",")]
    kinds = {"dask": None, "cubed": "zarr", "blosc2": "b2nd"}
    details: dict = {}

    def once(script, function, ours=False, **more) -> dict:
        harness.drop_caches([args.data])
        try:
            return peers.run(script, function, ours, **operands, **more)
        finally:
            harness.remove(out, out.with_suffix(".zarr"), Path(f"{out}-work"))

    def mine() -> dict:
        harness.drop_caches([args.data])
        try:
            call = {"a": a, "b": b, "out": out.with_suffix(".zarr"), "memory": args.limit}
            return peers.run(dense.__file__, dense.ours, True, **call)
        finally:
            harness.remove(out.with_suffix(".zarr"))

    best = min((mine() for _ in range(args.rounds)), key=lambda one: one["seconds"])
    details["flagstone"] = best
    rows = []

    def add(peer: str, theirs: dict, how: str) -> None:
        details[peer] = theirs
        what = f"product {args.n}³ under {args.memory}: {peer}"
        rows.append(row(what, how, best, theirs, ">= 1.3" if peer != "memmap" else "", args.full_size))

    for peer, ending in kinds.items():
        if not peers.has(peer):
            harness.note(f"{peer}: not installed, left out")
            continue
        tried = {}
        for chunk in chunks:
            made = [Path(f"{x.with_suffix('')}-{chunk}.{ending}") for x in (a, b)] if ending else []
            try:
                for source, to in zip((a, b), made, strict=False):
                    call = {"source": source, "to": to, "kind": peer if ending == "b2nd" else ending}
                    harness.child(
                        JOBS, peers_jobs.convert, args.timeout, python=peers.python, **call, chunk=chunk
                    )
                tried[chunk] = once(JOBS, f"product_{peer}", chunk=chunk, memory=memory)
            except harness.ChildFailed as failed:
                tried[chunk] = {"seconds": float("inf"), "failed": str(failed)[:60]}
            finally:
                harness.remove(*made)
            harness.note(f"product  {peer:<8} chunks of {chunk:<5} {tried[chunk]['seconds']:8.2f} s")
        chunk = min(tried, key=lambda one: tried[one]["seconds"])
        add(peer, tried[chunk], f"{peer}, chunks of {chunk}")
    loop = partial(once, product_memmap.__file__, product_memmap.blocked, True, prefetch="thread")
    try:
        add("memmap", loop(block=args.block), "memmap + BLAS")
    except harness.ChildFailed as failed:
        add("memmap", {"seconds": float("inf"), "failed": str(failed)[:60]}, "memmap + BLAS")
    if not args.keep:
        harness.remove(a, b)
    return rows, details


def components(peers: Peers) -> tuple[list[harness.Row], dict]:
    args, memory = peers.args, harness.parse_bytes(peers.args.limit)
    x = tall(args.data / "peers-tall.npy", args.rows, args.cols)
    expected = harness.child(JOBS, peers_jobs.truth, args.timeout, x=x, k=args.k)["sigma"]
    rows, details = [], {"truth": expected}

    def once(name: str, ours: bool = False) -> dict:
        out = args.data / ("peers-scores.zarr" if ours else "peers-scores.npy")
        harness.drop_caches([args.data])
        try:
            done = peers.run(JOBS, f"pca_{name}", ours, x=x, k=args.k, memory=memory, out=out)
        finally:
            harness.remove(out)
        if "sigma" in done:
            errors = [abs(s - t) for s, t in zip(done["sigma"], expected, strict=True)]
            done["error"] = max(errors) / expected[0]
        return done

    details["flagstone"] = mine = once("flagstone", True)
    for module, name, label in (
        ("sklearn", "scikit_learn", "IncrementalPCA"),
        ("dask", "dask", "Dask svd_compressed"),
    ):
        if not peers.has(module):
            harness.note(f"{module}: not installed, left out")
            continue
        details[name] = theirs = once(name)
        error = f", σ off by {theirs['error']:.0e} (ours {mine['error']:.0e})" if "error" in theirs else ""
        what = f"pca {args.rows} x {args.cols}, k = {args.k}, under {args.memory}: {label}"
        rows.append(row(what, label, mine, theirs, "", args.full_size, error))
    if not args.keep:
        harness.remove(x)
    return rows, details


def tall(path: Path, rows: int, cols: int) -> Path:
    """A dense float32 matrix whose columns have falling weights, and means."""
    import numpy as np

    slope = np.geomspace(9, 0.5, cols, dtype=np.float32)
    rng = np.random.default_rng(5)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, cols))
    for row in range(0, rows, 16384):
        block = rng.standard_normal((min(16384, rows - row), cols), dtype=np.float32)
        out[row : row + 16384] = block * slope + slope[::-1]
    out.flush()
    return path


def slices(peers: Peers) -> tuple[list[harness.Row], dict]:
    args = peers.args
    source = harness.random_npy(args.data / "product-a.npy", args.n, args.n, 0)
    zarr, h5 = args.data / "peers-slices.zarr", args.data / "peers-slices.h5"
    harness.child(dense.__file__, dense.make_zarr, args.timeout, source=source, to=zarr)
    rows, details = [], {}
    call = {"zarr": zarr, "h5": h5, "n": args.n, "source": source}
    names = [("zarr", "zarr_python"), ("tensorstore", "tensorstore"), ("h5py", "h5py")]
    names = [(module, name) for module, name in names if peers.has(module)]
    try:
        if peers.has("h5py"):
            made = {"source": source, "to": h5, "kind": "h5", "chunk": 1024}
            harness.child(JOBS, peers_jobs.convert, args.timeout, python=peers.python, **made)
        for pattern in PATTERNS:
            runs = {"flagstone": partial(peers.run, JOBS, "slices_flagstone", True, **call, pattern=pattern)}
            for _, name in names:
                runs[name] = partial(peers.run, JOBS, f"slices_{name}", **call, pattern=pattern)
            results = harness.alternate(args.rounds, runs, [args.data])
            mine = min(results.pop("flagstone"), key=lambda one: one["seconds"])
            details[pattern] = {"flagstone": mine, **results}
            for name, several in results.items():
                theirs = min(several, key=lambda one: one["seconds"])
                what = f"slices of {args.n}², {pattern}: {name.replace('_', '-')}"
                rows.append(row(what, name.replace("_", "-"), mine, theirs, "", args.full_size))
    finally:
        harness.remove(zarr, h5, *(() if args.keep else (source,)))
    return rows, details


def run() -> int:
    args = harness.options(
        __doc__,
        n=(16384, 512),
        rounds=(3, 1),
        memory=("1GiB", "512MiB"),  # the cap of all
        limit=("992MiB", "448MiB"),  # our memory=
        chunks=("1024,2048,4096", "256"),
        block=("4096x4096x4096", "256x256x256"),
        rows=(1 << 20, 20_000),
        cols=(512, 64),
        k=(20, 5),
        install=("yes", "no"),
        only=("products,components,slices", "products"),
    )
    python = environment(args.data / "peers-venv") if args.install == "yes" else sys.executable
    rows, details = [], {}
    try:
        with Cap(harness.parse_bytes(args.memory)) as cap:
            peers = Peers(args, python, cap)
            for name in args.only.split(","):
                found, details[name] = {f.__name__: f for f in (products, components, slices)}[name](peers)
                rows += found
            described = cap.describe()
    except PermissionError as error:
        harness.note(f"peers: {error}")
        return 3
    print(f"every process under {described}")
    return harness.report(__file__, args, rows, runs=details, cap=described)


if __name__ == "__main__":
    harness.main(__file__, run)
