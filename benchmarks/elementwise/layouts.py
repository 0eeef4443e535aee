"""Layouts on which element-wise work and reductions might read many times over: time and bytes ÷ the least.

Pairs (a reduction and the same of the transposed view) alternate in one process, in opposite order every
second round; the best of the rounds.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring


def make(folder: str, side: int, stripe: int) -> dict:
    """`c.npy` and `f.npy` (Fortran order), stripes of rows, and packed chunks of one array."""
    import numpy as np

    import flagstone as fl

    values = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    np.save(f"{folder}/c.npy", values)
    np.save(f"{folder}/f.npy", np.asfortranarray(values))
    for name, chunks, codec in (
        ("rows", (stripe, side), "raw"),
        ("columns", (side, stripe), "raw"),
        ("packed", (side // 12, side // 12), "zstd:1"),
    ):
        array = fl.create(f"{folder}/{name}.zarr", (side, side), "f4", chunks, codec=codec, overwrite=True)
        array[...] = values
        array.close()
    return {}


def seconds_of(job: Callable[[], Any]) -> tuple[float, Any]:
    with harness.measured() as run:
        result = job()
    return run.seconds, result


def bytes_read() -> int:
    """What this process has had from the disk, past the page cache too."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def reductions(folder: str, rounds: int) -> dict:
    import numpy as np

    import flagstone as fl

    f = fl.open(f"{folder}/f.npy")
    pairs = {"sum(0)": (f.sum, 0, f.T.sum, 1), "mean(1)": (f.mean, 1, f.T.mean, 0)}
    result: dict[str, Any] = {}
    for name, (mine, axis, theirs, turned) in pairs.items():
        taken: list[list[float]] = [[], []]
        given = [partial(mine, axis), partial(theirs, turned)]
        for turn in range(rounds):
            found = {}
            for which in (0, 1) if turn % 2 else (1, 0):
                seconds, found[which] = seconds_of(lambda which=which: fl.compute(given[which]()))  # noqa: B023
                taken[which].append(seconds)
            assert np.array_equal(found[0], found[1]), f"{name} differs from that of the transpose"
        result[name] = [min(times) for times in taken]
    return result


def mixed(folder: str, what: str, memory: int, rounds: int) -> dict:
    """Bytes and the best seconds of `R + R.T`, of the same through fl.transpose, or of four layouts."""
    import numpy as np

    import flagstone as fl

    rows = fl.open(f"{folder}/rows.zarr")
    side, out = rows.shape[0], f"{folder}/out.zarr"
    values = np.load(f"{folder}/c.npy", mmap_mode="r")

    def through() -> Any:
        return fl.compute(rows + fl.transpose(rows, chunks=rows.chunks, memory=memory), **where)

    where: dict[str, Any] = {"out": out, "memory": memory}
    if what == "four":
        others = [fl.open(f"{folder}/{name}") for name in ("f.npy", "rows.zarr", "columns.zarr")]
        total = fl.open(f"{folder}/c.npy") + others[0] + others[1] + others[2]
        jobs: dict[str, Callable[[], Any]] = {"ours": lambda: fl.compute(total, **where)}
    else:
        jobs = {"ours": lambda: fl.compute(rows + rows.T, **where)}
        if rounds > 1:
            jobs["transpose"] = through
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    moved = 0
    for turn in range(rounds):
        for name in list(jobs)[:: 1 if turn % 2 else -1]:
            with harness.measured() as run:
                result = jobs[name]()
            taken[name].append(run.seconds)
            if name == "ours":
                moved = fl.stats().bytes_read + fl.stats().bytes_written
            for i in (0, side // 3, side - 1):
                row = values[i]
                wanted = row + row + row + row if what == "four" else row + values[:, i]
                assert np.array_equal(result[i], wanted), f"{name}: row {i} is wrong"
    once = side * side * 4
    return {"bytes": moved, "once": once, **{name: min(times) for name, times in taken.items()}}


def mixed_rows(found: dict, judged: bool) -> list[harness.Row]:
    rows = []
    for what, target in (("all fits", "<= 1.1"), ("a quarter + 160 MiB", "<= 3.2")):
        one = found[what]
        shown = f"{one['bytes'] >> 20} MiB", f"{2 * one['once'] >> 20} MiB"
        value = one["bytes"] / one["once"] / 2
        rows.append(
            harness.figure(
                f"R + R.T, stripes of rows, {what}: bytes ÷ (2 × array)", *shown, value, target, judged
            )
        )
    one = found["all fits"]
    rows.append(
        harness.figure(
            "the same, all fits: time ÷ through fl.transpose", f"{one['ours']:.2f} s",
            f"{one['transpose']:.2f} s", one["ours"] / one["transpose"], "<= 1.05", judged,
        )
    )  # fmt: skip
    one = found["four"]
    disk = one["disk"]
    rows.append(
        harness.figure(
            "four operands in four layouts, 512 MiB: time ÷ (bytes ÷ the disk's rate)",
            f"{one['ours']:.2f} s", f"{disk:.2f} s", one["ours"] / disk, "<= 2.5", judged,
        )
    )  # fmt: skip
    return rows


def mixed_layouts(folder: Path, timeout: float, rounds: int, memory: str, four_memory: str) -> dict:
    child = partial(harness.child, __file__, mixed, timeout, folder=folder)
    once = (folder / "c.npy").stat().st_size
    found = {
        "all fits": child(what="turned", memory=harness.parse_bytes(memory), rounds=rounds),
        "a quarter + 160 MiB": child(what="turned", memory=once // 4 + (160 << 20), rounds=1),
        "four": child(what="four", memory=harness.parse_bytes(four_memory), rounds=rounds),
    }
    gib = max(1 / 64, once / 2**30)
    fio = partial(
        ring.fio, file=folder / "fio", gib=gib, block="1m", depth="16", engine=ring.fio_engine(folder)
    )
    rates = {verb: max(fio(verb, timeout=timeout)["rate"] for _ in range(3)) for verb in ("write", "read")}
    found["four"]["disk"] = 4 * once / rates["read"] + once / rates["write"]
    return found


def reduction_rows(found: dict, judged: bool) -> list[harness.Row]:
    rows = []
    for name, (mine, theirs) in found.items():
        what = f"F.{name} ÷ the same of F.T, Fortran .npy"
        rows.append(harness.figure(what, f"{mine:.3f} s", f"{theirs:.3f} s", mine / theirs, "<= 1.3", judged))
    return rows


def text(folder: str, rounds: int) -> dict:
    """`.npy` to `.mtx`: bytes read, and seconds beside scipy.io.mmwrite of the array in memory."""
    import numpy as np
    import scipy.io

    import flagstone as fl

    values = np.load(f"{folder}/c.npy")
    source = fl.open(f"{folder}/c.npy")
    taken: dict[str, list[float]] = {"ours": [], "scipy": []}
    read = 0
    for turn in range(rounds):
        for name in ("ours", "scipy") if turn % 2 else ("scipy", "ours"):
            before = bytes_read()
            with harness.measured() as run:
                if name == "ours":
                    fl.convert(source, f"{folder}/ours.mtx", overwrite=True)
                else:
                    scipy.io.mmwrite(f"{folder}/scipy.mtx", values)
            taken[name].append(run.seconds)
            read = bytes_read() - before if name == "ours" else read
    with open(f"{folder}/ours.mtx") as file:
        first = [float(line) for line in itertools.islice(file, 2, 52)]
    assert np.array_equal(np.asarray(first, "f4"), values[:50, 0]), "the text is wrong"
    return {"read": read, "file": values.nbytes, **{name: min(times) for name, times in taken.items()}}


def text_rows(found: dict, judged: bool) -> list[harness.Row]:
    shown = f"{found['read'] >> 20} MiB", f"{found['file'] >> 20} MiB"
    times = f"{found['ours']:.2f} s", f"{found['scipy']:.2f} s"
    once, faster = found["read"] / found["file"], found["scipy"] / found["ours"]
    return [
        harness.figure(".npy to .mtx: bytes read ÷ file", *shown, once, "<= 1.1", judged),
        harness.figure("scipy.io.mmwrite of the array in memory ÷ ours", *times, faster, ">= 1.0", judged),
    ]


def loops(folder: str, count: int, calls: int) -> dict:
    """Bytes that a loop over rows reads ÷ those of the chunks they lie in; seconds of map_tiles a tile."""
    import numpy as np

    import flagstone as fl

    packed = fl.open(f"{folder}/packed.zarr")
    height = packed.chunks[0]
    files = [file for file in Path(f"{folder}/packed.zarr").rglob("c/**/*") if file.is_file()]
    stored = sum(file.stat().st_size for file in files) * -(-count // height) * height / packed.shape[0]
    values = np.load(f"{folder}/c.npy", mmap_mode="r")
    before = bytes_read()
    for i, row in zip(range(count), packed, strict=False):
        assert np.array_equal(row, values[i]), f"row {i} is wrong"
    read = bytes_read() - before

    def nothing(tile: Any) -> Any:
        return tile

    small = fl.create(f"{folder}/small.zarr", (16 * calls, 16), "f4", (16, 16), overwrite=True)
    small[...] = values[: 16 * calls, :16] if 16 * calls <= len(values) else 1
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        fl.map_tiles(nothing, small, out=f"{folder}/mapped.zarr")
        taken.append(time.perf_counter() - start)
    return {"read": read, "stored": stored, "call": min(taken) / calls}


def loop_rows(found: dict, judged: bool) -> list[harness.Row]:
    shown = f"{found['read'] / 2**20:.1f} MiB", f"{found['stored'] / 2**20:.1f} MiB"
    value = found["read"] / found["stored"]
    call = found["call"] * 1e6
    return [
        harness.figure(
            "for row in P, packed: bytes read ÷ those of its chunks", *shown, value, "<= 1.1", judged
        ),
        harness.figure(
            "map_tiles of an empty function: µs a tile", f"{call:.0f}", "-", call, "<= 45", judged
        ),
    ]


def run() -> int:
    args = harness.options(
        __doc__,
        side=(6144, 768),
        stripe=(64, 8),
        rounds=(25, 3),
        pairs=(7, 2),
        memory=("1GiB", "512MiB"),
        four_memory=("512MiB", "256MiB"),
        text_rounds=(5, 1),
        rows=(300, 40),
        calls=(4096, 256),
        only=("all", "all"),
    )
    if {"all", "mixed"} & set(args.only.split(",")) and not shutil.which("fio"):
        harness.note("layouts: fio (for mixed layouts) was not found; install it (apt-get install fio).")
        return 3
    folder = args.data / "layouts"
    alone = partial(harness.child, __file__, timeout=args.timeout, folder=folder)
    parts: dict[str, tuple[Callable[[], dict], Callable[[dict, bool], list[harness.Row]]]] = {
        "reductions": (partial(alone, reductions, rounds=args.rounds), reduction_rows),
        "mixed": (
            partial(mixed_layouts, folder, args.timeout, args.pairs, args.memory, args.four_memory),
            mixed_rows,
        ),
        "text": (partial(alone, text, rounds=args.text_rounds), text_rows),
        "loops": (partial(alone, loops, count=args.rows, calls=args.calls), loop_rows),
    }
    wanted = list(parts) if args.only == "all" else args.only.split(",")
    folder.mkdir(exist_ok=True)
    found, rows = {}, []
    try:
        harness.child(__file__, make, args.timeout, folder=folder, side=args.side, stripe=args.stripe)
        for name in wanted:
            measure, as_rows = parts[name]
            found[name] = measure()
            rows += as_rows(found[name], args.full_size)
    finally:
        harness.remove(*([] if args.keep else [folder]))
    return harness.report(__file__, args, rows, parts=found)


if __name__ == "__main__":
    harness.main(__file__, run, make, reductions, mixed, text, loops)
