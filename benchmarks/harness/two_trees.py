"""Two checkouts in turn: seconds of the old one ÷ seconds of the new one, medians of pairs.

python benchmarks/harness/two_trees.py OLD NEW [--only product,pca] [--pairs 7] [--compile] [--smoke]

Each checkout has an environment of its own (`make build`), whose interpreter runs the rows, one process each.
They use public names alone, so that both trees can run them. Data are made once, by the old tree, and shared;
what is written to has a copy for each. A ratio is the median over pairs, so that a slow minute slows both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.harness.two_trees_jobs import (
    CHUNK,
    element,
    imported,
    make_counts,
    make_zarr,
    memory_sum,
    pca,
    product,
    quarter,
    read,
    stored_sum,
    transactions,
    vectors,
)

#: What a process of either tree runs, by name.
CHILDREN = [
    make_zarr, make_counts, product, pca, vectors, read, stored_sum, memory_sum, element, transactions,
    quarter, imported,
]  # fmt: skip


# --- the two trees ------------------------------------------------------------------------------------------


@dataclass
class Tree:
    name: str
    top: Path
    data: Path

    @property
    def python(self) -> str:
        path = self.top / ".venv" / "bin" / "python"
        if not path.exists():
            raise harness.ChildFailed(f"{path} is not there; run `make build` in {self.top} first")
        return str(path)

    def own(self, name: str) -> str:
        """A file that this tree alone writes to."""
        return str(self.data / f"{self.name}-{name}")

    def run(self, function: Callable, timeout: float, **arguments) -> dict:
        os.environ["FLAGSTONE_SCRATCH"] = self.own("scratch")
        Path(self.own("scratch")).mkdir(exist_ok=True)
        return harness.child(__file__, function, timeout, python=self.python, **arguments)

    def configured(self, folder: Path, *options: str, launcher: str = "") -> Path:
        """A build of this tree in a folder of its own."""
        command = [
            "cmake",
            "-G",
            "Ninja",
            "-S",
            self.top,
            "-B",
            folder,
            "-DCMAKE_BUILD_TYPE=Release",
            *options,
        ]
        command += [f"-DPython_EXECUTABLE={self.python}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}"]
        called(command, self.top)
        return folder


def called(command: list, top: Path) -> None:
    """Runs a command; as the tree's own build does, ccache takes paths relative to it."""
    environment = {**os.environ, "CCACHE_BASEDIR": str(top), "CCACHE_NOHASHDIR": "1"}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise harness.ChildFailed(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr)[-2000:]}")


def ccache() -> str:
    import shutil

    return "ccache" if shutil.which("ccache") else ""


def tasks_program(tree: Tree) -> Path:
    folder = tree.configured(tree.data / f"{tree.name}-build", "-DFLAGSTONE_BENCHMARKS=ON", launcher=ccache())
    called(["cmake", "--build", folder, "--target", "empty_tasks"], tree.top)
    return next(path for path in folder.rglob("empty_tasks") if path.is_file())


def compile_seconds(tree: Tree) -> float:
    """Seconds of all compilations of library and bindings, two at a time, without a cache of them."""
    folder = tree.data / f"{tree.name}-compile"
    harness.remove(folder)
    tree.configured(folder, "-DFLAGSTONE_PYTHON=ON")
    called(["cmake", "--build", folder, "--parallel", "2", "--target", "_core", "flagstone"], tree.top)
    return logged_seconds(folder / ".ninja_log")


def logged_seconds(log: Path) -> float:
    """What the last runs of all compilations took: start, end (ms), time, output, hash in each line."""
    took = {}
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        if output.endswith(".o"):
            took[output] = (int(end) - int(start)) / 1000
    return sum(took.values())


# --- rows ---------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """A line of the table: `run(tree)` gives the seconds of one process."""

    name: str
    what: str
    target: float
    run: Callable[[Tree], float]
    reads: tuple[Path, ...] = ()  # evicted from the page cache before


def all_rows(args: argparse.Namespace, trees: list[Tree]) -> list[Row]:
    data, side = args.data, args.side

    def job(function: Callable, out: str = "", fresh: bool = False, **arguments) -> Callable[[Tree], float]:
        def run(tree: Tree) -> float:
            given = dict(arguments)
            if out:
                given["out" if fresh else "path"] = tree.own(out)
            if fresh:
                harness.remove(Path(tree.own(out)))
            found = tree.run(function, args.timeout, **given)["seconds"]
            if fresh:
                harness.remove(Path(tree.own(out)))
            return found

        return run

    programs: dict[str, Path] = {}

    def empty_tasks(tree: Tree) -> float:
        if tree.name not in programs:
            programs[tree.name] = tasks_program(tree)
        command = [programs[tree.name], str(args.tasks), "1000", "2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout, check=False)
        if done.returncode:
            raise harness.ChildFailed(f"empty_tasks: {done.stderr.strip()}")
        return 1e-6 * args.tasks * json.loads(done.stdout)["microseconds_each"]

    a, b, counts = data / "a.npy", data / "b.npy", data / "counts.npz"
    raw, packed = data / "raw.zarr", data / "packed.zarr"
    each, wide_side = args.counts, 4 * side
    wide = {"out": "updated.zarr"}
    return [
        Row("product", f"product {side}³ float32, {args.memory}, .npy", 0.98,
            job(product, "c.zarr", True, a=str(a), b=str(b), memory=args.memory), (a, b)),
        Row("pca", f"PCA of {each:,} x {args.genes:,} counts, {args.sparse_memory}", 0.98,
            job(pca, "scores.zarr", True, counts=str(counts), k=50, memory=args.sparse_memory)),
        Row("vectors", "A @ X, 16 columns", 0.98, job(vectors, path=str(raw), columns=16), (raw,)),
        Row("rows", f"{side}² float64, row stripes of 512", 0.97,
            job(read, path=str(raw), height=CHUNK, width=0), (raw,)),
        Row("columns", f"{side}² float64, column stripes of 512", 0.97,
            job(read, path=str(raw), height=0, width=CHUNK), (raw,)),
        Row("blocks", f"{side}² float64, blocks of 512²", 0.97,
            job(read, path=str(raw), height=CHUNK, width=CHUNK), (raw,)),
        Row("stored sum", f"compensated sum of {8 * wide_side**2 / 2**30:.3g} GiB of float64", 1 / 1.02,
            job(stored_sum, path=str(data / "wide.zarr")), (data / "wide.zarr",)),
        Row("memory sum", f"compensated sum of {args.summed} MiB of float64 in memory", 1 / 1.4,
            job(memory_sum, mib=args.summed)),
        Row("element", "one element", 0.97, job(element, path=str(raw), count=args.elements)),
        Row("packed", f"{side}² float64, blosc-lz4, row stripes of 512", 0.97,
            job(read, path=str(packed), height=CHUNK, width=0), (packed,)),
        Row("transactions", f"{args.commits} transactions of one chunk", 0.97,
            job(transactions, count=args.commits, **wide)),
        Row("quarter", "a transaction of a quarter of the chunks", 0.97, job(quarter, **wide)),
        Row("tasks", f"{args.tasks:,} empty tasks", 0.97, empty_tasks),
        Row("import", "import flagstone", 0.97, job(imported)),
    ]  # fmt: skip


def make_data(args: argparse.Namespace, trees: list[Tree], wanted: set[str]) -> None:
    """What the rows read, once; and what each tree writes to, by itself."""
    old, data, side = trees[0], args.data, args.side
    mark = data / f"made-{side}-{args.counts}-{args.genes}"
    if not mark.exists():
        for path in [*data.glob("made-*"), *data.glob("*.zarr"), *data.glob("*.np?")]:
            harness.remove(path)
        mark.touch()
    if "product" in wanted:
        for seed, name in enumerate(("a.npy", "b.npy")):
            harness.random_npy(data / name, side, side, seed)
    if "pca" in wanted and not (data / "counts.npz").exists():
        old.run(make_counts, args.timeout, path=data / "counts.npz", rows=args.counts, cols=args.genes)
    for name, codec, rows in (
        ("raw.zarr", "raw", {"vectors", "rows", "columns", "blocks", "element"}),
        ("packed.zarr", "blosc-lz4", {"packed"}),
    ):
        if rows & wanted and not (data / name).exists():
            old.run(make_zarr, args.timeout, path=data / name, side=side, codec=codec)
    if "stored sum" in wanted and not (data / "wide.zarr").exists():
        old.run(make_zarr, args.timeout, path=data / "wide.zarr", side=4 * side)
    if {"transactions", "quarter"} & wanted:
        for tree in trees:
            tree.run(make_zarr, args.timeout, path=tree.own("updated.zarr"), side=side)


def evict(paths: tuple[Path, ...]) -> None:
    """Takes files out of the page cache, so that both trees read the disk."""
    for top in paths:
        for path in [top] if top.is_file() else [p for p in top.rglob("*") if p.is_file()]:
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def measured(row: Row, trees: list[Tree], pairs: int) -> dict:
    """Seconds of both trees, pair by pair; every second pair begins with the other one."""
    seconds: dict[str, list[float]] = {tree.name: [] for tree in trees}
    row.run(trees[0]), row.run(trees[1])  # what is made or probed the first time
    for pair in range(pairs):
        for tree in trees[:: 1 if pair % 2 == 0 else -1]:
            evict(row.reads)
            seconds[tree.name].append(row.run(tree))
        old, new = (seconds[tree.name][-1] for tree in trees)
        harness.note(f"{row.name:<13} pair {pair + 1}/{pairs}  old {old:.6g} s  new {new:.6g} s")
    ratio = statistics.median(o / n for o, n in zip(*seconds.values(), strict=True))
    return {"ratio": ratio, **seconds}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, help="the checkout that was")
    parser.add_argument("new", type=Path, help="the checkout that is")
    parser.add_argument(
        "--smoke", action="store_true", help="sizes that take seconds; figures are not judged"
    )
    parser.add_argument("--only", default="", help="names of rows, by commas")
    parser.add_argument("--pairs", type=int, help="pairs of processes a row (7; smoke: 1)")
    parser.add_argument("--compile", action="store_true", help="compile seconds too (minutes)")
    parser.add_argument("--data", type=Path, default=harness.TOP / "out" / "two-trees", help="%(default)s")
    parser.add_argument("--json", type=Path, help="where the results go (DATA/two_trees.json)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds of one process (%(default)s)")
    args = parser.parse_args()
    args.full_size = not args.smoke
    args.pairs = args.pairs or (1 if args.smoke else 7)
    sizes = {
        "side": (8192, 1024), "memory": ("512MiB", "256MiB"), "counts": (100_000, 2000), "genes": (5000, 500),
        "sparse_memory": ("256MiB", "256MiB"), "elements": (2000, 200), "commits": (200, 5),
        "summed": (64, 4), "tasks": (1_000_000, 20_000),
    }  # fmt: skip
    for name, (full, small) in sizes.items():
        setattr(args, name, small if args.smoke else full)
    args.data.mkdir(parents=True, exist_ok=True)
    args.data = args.data.resolve()
    os.environ["XDG_CACHE_HOME"] = str(args.data / "cache")  # rates of this machine: probed once, for both
    (args.data / "cache").mkdir(exist_ok=True)
    return args


def run() -> int:
    args = options()
    trees = [Tree(name, getattr(args, name).resolve(), args.data) for name in ("old", "new")]
    rows = all_rows(args, trees)
    wanted = {row.name for row in rows} if not args.only else set(args.only.split(","))
    if unknown := wanted - {row.name for row in rows}:
        raise harness.ChildFailed(f"--only {', '.join(unknown)}: rows are {', '.join(r.name for r in rows)}")
    make_data(args, trees, wanted)
    figures, found = [], {}
    for row in rows:
        if row.name in wanted:
            found[row.name] = measured(row, trees, args.pairs)
            old, new = (statistics.median(found[row.name][tree.name]) for tree in trees)
            ratio = found[row.name]["ratio"]
            figures.append(compared(args, row.what, old, new, ratio, f">= {row.target}", ratio >= row.target))
    if args.compile:
        old, new = (compile_seconds(tree) for tree in trees)
        found["compile"] = {"old": [old], "new": [new]}
        figures.append(compared(args, "compile seconds", old, new, old / new, "<= 290 s", new <= 290))
    for tree in trees:
        harness.remove(Path(tree.own("scratch")), Path(tree.own("updated.zarr")))
    return harness.report(__file__, args, figures, seconds=found)


def compared(
    args: argparse.Namespace, what: str, old: float, new: float, ratio: float, target: str, reached: bool
) -> harness.Row:
    return {
        "figure": what,
        "old": f"{old:.4g} s",
        "new": f"{new:.4g} s",
        "old ÷ new": ratio,
        "to reach": target,
        "reached": ("yes" if reached else "NO") if args.full_size else "-",
    }


if __name__ == "__main__":
    harness.main(__file__, run, *CHILDREN)
