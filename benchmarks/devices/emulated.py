"""What devices move, hold and overlap, on emulated ones: counts against formulas, ratios in one run.

Parts (`--only`): `product` in device memories of 64, 128 and 512 MiB; `levels`, where disk, host (256 MiB)
and device (64 MiB) are all too small; `fits` and `quarter`, Cholesky whose factor fits the device or a
quarter of it; `link`, throttled so that copying takes as long as computing; `two` devices by rows; `batches`
of 256² tiles. Every run is held to its plan and to its limits. Nothing here says how fast a card is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring

PARTS = "product,levels,fits,quarter,link,two,batches"
MIB = 1 << 20


def prepare(folder: str, n: int, factor: int, small: int) -> dict:
    import numpy as np

    import flagstone as fl

    for name, seed in (("a", 1), ("b", 2)):
        rng = np.random.default_rng(seed)
        chunk = min(1024, max(128, n // 8))
        array = fl.create(f"{folder}/{name}.zarr", (n, n), "float32", chunks=(chunk, chunk), overwrite=True)
        for row in range(0, n, chunk):
            array[row : row + chunk, :] = rng.random((min(chunk, n - row), n), dtype=np.float32) - 0.5
        array.flush()
    for name, size in (("k", factor), ("small", small)):
        chunk = min(1024, max(128, size // 8))
        array = fl.create(
            f"{folder}/{name}.zarr", (size, size), "float64", chunks=(chunk, chunk), overwrite=True
        )
        for row in range(0, size, chunk):
            rows = np.arange(row, min(size, row + chunk))
            array[row : row + chunk, :] = 0.95 ** np.abs(rows[:, None] - np.arange(size)[None, :])
        array.flush()
    return {}


def run_one(
    routine: str, operands: list[str], memory: str, devices: list[dict], place: str | None = None
) -> dict:
    """A plan and a run in a fresh process."""
    import flagstone as fl

    function = {"matmul": fl.matmul, "cholesky": fl.linalg.cholesky}[routine]
    given = [fl.open(path) for path in operands]
    out = Path(operands[0]).parent / "out.zarr"
    harness.remove(out)
    made = [fl.Device("emulated", **device) for device in devices]
    with fl.Runtime(memory=memory, devices=made, place=place) as runtime:
        plan = function.plan(*given, out=str(out))
        with harness.measured() as run:
            function(*given, out=str(out))
        synchronizing = [device.counts.synchronizing for device in runtime._opened]
    return {
        **vars(run),
        "plan": plan.as_dict(),
        "stats": fl.stats().as_dict(),
        "synchronizing": synchronizing,
    }


def held(rows: list, name: str, done: dict, judged: bool) -> None:
    """Peaks against limits, plan against run: what is asked of every part."""
    planned, took = done["plan"]["seconds"], done["stats"]["seconds"]
    shown = f"{took:.2f} s", f"{planned:.2f} s planned"
    rows.append(
        harness.figure(f"{name}: seconds off plan", *shown, abs(took / planned - 1), "<= 0.25", judged)
    )
    for planned, seen in zip(done["plan"]["spaces"], done["stats"]["spaces"], strict=True):
        if seen["name"] == "host":
            continue
        what = f"{name}, {seen['name']}"
        peak = seen["peak"] / seen["budget"]
        shown = f"{seen['peak'] / MIB:.1f} MiB", f"{seen['budget'] / MIB:.1f} MiB"
        rows.append(harness.figure(f"{what}: peak ÷ limit", *shown, peak, "<= 1.00", judged))
        for key, tolerance in (("bytes_in", 0.01), ("bytes_out", 0.01), ("launches", 0), ("peak", 0.05)):
            off = abs(seen[key] / max(1, planned[key]) - 1) if planned[key] or seen[key] else 0.0
            shown = str(seen[key]), f"{planned[key]} planned"
            rows.append(harness.figure(f"{what}: {key} off plan", *shown, off, f"<= {tolerance}", judged))
    limit, peak = done["stats"]["memory"], done["stats"]["peak_memory"]
    shown = f"{peak / MIB:.0f} MiB", f"{limit / MIB:.0f} MiB"
    rows.append(harness.figure(f"{name}, process: peak ÷ limit", *shown, peak / limit, "<= 1.00", judged))


def product_bytes(n: int, tile: int, depth: int, memory: int) -> tuple[float, int, int]:
    """Bytes in of the best superblock whose C and two steps of operands fit, and its extents in tiles."""
    tiles, s, found = -(-n // tile), 4, []
    for rows in range(1, tiles + 1):
        for cols in range(1, tiles + 1):
            if s * (rows * cols * tile**2 + 2 * (rows + cols) * tile * depth) <= memory or rows * cols == 1:
                found.append((s * n * n * (-(-tiles // cols) + -(-tiles // rows)), rows, cols))
    return min(found)


def product(rows: list, args, base: Path) -> None:
    operands = [str(base / "a.zarr"), str(base / "b.zarr")]
    tile = min(2048, args.n)
    depth = min(1024, args.n)
    for memory in args.devices.split(","):
        call = {
            "routine": "matmul",
            "operands": operands,
            "memory": args.host,
            "devices": [{"memory": memory}],
        }
        done = harness.child(__file__, run_one, args.timeout, **call)
        seen = done["stats"]["spaces"][1]
        formula, p, q = product_bytes(args.n, tile, depth, seen["budget"])
        name = f"product {args.n}² float32, device {memory}"
        shown = f"{seen['bytes_in'] / MIB:.0f} MiB in", f"{formula / MIB:.0f} MiB, {p} x {q} tiles"
        rows.append(
            harness.figure(
                f"{name}: in ÷ formula", *shown, seen["bytes_in"] / formula, "<= 1.05", args.full_size
            )
        )
        out = seen["bytes_out"] / (4 * args.n**2)
        rows.append(harness.figure(f"{name}: out ÷ s mn", "", "", out, "<= 1.00", args.full_size))
        if memory == "512MiB":
            bound = 2 * 4**1.5 * args.n**3 / (512 * MIB) ** 0.5
            rows.append(
                harness.figure(
                    f"{name}: in ÷ bound", "", "", seen["bytes_in"] / bound, "<= 1.6", args.full_size
                )
            )
        held(rows, name, done, args.full_size)
        harness.note(f"{name}: {done['seconds']:.1f} s")


def levels(rows: list, args, base: Path) -> None:
    call = {"routine": "matmul", "operands": [str(base / "a.zarr"), str(base / "b.zarr")], "memory": args.low}
    alone = harness.child(__file__, run_one, args.timeout, **call, devices=[])
    beside = harness.child(__file__, run_one, args.timeout, **call, devices=[{"memory": args.low_device}])
    moved = [sum(one["stats"][key] for key in ("bytes_read", "bytes_written")) for one in (beside, alone)]
    name = f"product {args.n}², host {args.low}, device {args.low_device}: disk bytes ÷ the host's alone"
    shown = f"{moved[0] / MIB:.0f} MiB", f"{moved[1] / MIB:.0f} MiB"
    rows.append(harness.figure(name, *shown, moved[0] / moved[1], "<= 1.15", args.full_size))
    held(rows, "levels", beside, args.full_size)


def cholesky(rows: list, args, base: Path) -> dict:
    return {"routine": "cholesky", "operands": [str(base / "k.zarr")], "memory": args.host}


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def factor_edge(n: int) -> int:
    """The tile of a float64 factor (factor_tile)."""
    eighth = ceil_div(ceil_div(n, 8), 64) * 64
    return min(n, max(256, min(1024, eighth)))


def fits(rows: list, args, base: Path) -> None:
    memory = args.factor**2 * 8
    done = harness.child(
        __file__, run_one, args.timeout, **cholesky(rows, args, base), devices=[{"memory": memory}]
    )
    seen = done["stats"]["spaces"][1]
    t = -(-args.factor // factor_edge(args.factor))
    for key in ("copies_in", "copies_out"):
        shown = str(seen[key]), f"{t * (t + 1) // 2} tiles"
        rows.append(
            harness.figure(
                f"Cholesky that fits: {key} ÷ tiles", *shown, seen[key] / (t * (t + 1) / 2), "<= 1.00", True
            )
        )
    held(rows, "Cholesky that fits", done, args.full_size)


def schedule_bytes(n: int, edge: int, memory: int, workers: int) -> float:
    """Bytes that the left-looking schedule moves in the best block extents (factor/lower_block)."""
    t, least = -(-n // edge), float("inf")
    room = memory / (edge * edge * 8)
    for rows in range(1, t + 1):
        for cols in range(1, rows + 1):
            if rows * cols + 2 * (rows + cols) + workers > room and rows * cols > 1:
                break
            read = 0.0
            for col in range(0, t, cols):
                for row in range(col, t, rows):
                    high = min(rows, t - row)
                    wide = min(cols, t - col, row + high - col)
                    above = min(wide, row - col)
                    read += col * (high + above) + above * (above + 1) / 2
            least = min(least, read)
    return (least + 2 * t * (t + 1) / 2) * edge * edge * 8


def quarter(rows: list, args, base: Path) -> None:
    edge = factor_edge(args.factor)
    t = -(-args.factor // edge)
    memory = max(14, t * (t + 1) // 8) * edge * edge * 8 + MIB
    done = harness.child(
        __file__, run_one, args.timeout, **cholesky(rows, args, base), devices=[{"memory": memory}]
    )
    seen = done["stats"]["spaces"][1]
    formula = schedule_bytes(args.factor, edge, memory, 2)
    moved = seen["bytes_in"] + seen["bytes_out"]
    shown = f"{moved / MIB:.0f} MiB", f"{formula / MIB:.0f} MiB"
    rows.append(
        harness.figure(
            "Cholesky, a quarter of its tiles: in + out ÷ schedule",
            *shown,
            moved / formula,
            "<= 1.10",
            args.full_size,
        )
    )
    held(rows, "Cholesky, a quarter", done, args.full_size)


def link(rows: list, args, base: Path) -> None:
    """The time of one direction's copies is what the kernels take."""
    call = {
        "routine": "matmul",
        "operands": [str(base / "a.zarr"), str(base / "b.zarr")],
        "memory": args.host,
    }
    free = harness.child(__file__, run_one, args.timeout, **call, devices=[{"memory": "512MiB"}])
    space = free["stats"]["spaces"][1]
    compute = space["busy_seconds"]
    bandwidth = space["bytes_in"] / compute
    done = harness.child(
        __file__, run_one, args.timeout, **call, devices=[{"memory": "512MiB", "bandwidth": bandwidth}]
    )
    copy = done["stats"]["spaces"][1]["bytes_in"] / bandwidth
    took, longest = done["stats"]["seconds"], max(copy, compute)
    shown = f"{took:.2f} s", f"copy {copy:.2f} s, compute {compute:.2f} s"
    rows.append(
        harness.figure(
            "throttled link: time ÷ max(copy, compute)", *shown, took / longest, "<= 1.20", args.full_size
        )
    )
    rows.append(
        harness.figure(
            "throttled link: their sum ÷ max", "", "", (copy + compute) / longest, ">= 1.8", args.full_size
        )
    )


def two(rows: list, args, base: Path) -> None:
    memory = args.factor**2 * 8
    call = cholesky(rows, args, base) | {"place": "rows", "devices": [{"memory": memory}] * 2}
    done = harness.child(__file__, run_one, args.timeout, **call)
    spaces = done["stats"]["spaces"][1:]
    busiest = max(one["tasks"] for one in spaces) / (sum(one["tasks"] for one in spaces) / 2)
    shown = " and ".join(str(one["tasks"]) for one in spaces), "tasks"
    rows.append(
        harness.figure("two devices by rows: largest ÷ mean work", *shown, busiest, "<= 1.10", args.full_size)
    )
    t = -(-args.factor // factor_edge(args.factor))
    # Each tile comes in where its row is; of L it also goes where a later row needs it.
    of_row = [(t - 1 - row) // 2 % 2 ^ (t - 1 - row) % 2 for row in range(t)]
    between = sum(1 for k in range(t) for j in range(k, t) if 1 - of_row[j] in of_row[j + 1 :])
    formula, moved = t * (t + 1) // 2 + between, sum(one["copies_in"] for one in spaces)
    rows.append(
        harness.figure(
            "two devices by rows: tiles in ÷ formula",
            str(moved),
            str(formula),
            moved / formula,
            "<= 1.05",
            True,
        )
    )
    held(rows, "two devices", done, args.full_size)


def batches(rows: list, args, base: Path) -> None:
    """A product in 256² tiles, whose tasks are many; and a factor: 29 launches of 156 at the least."""
    program = ring.build(Path(args.build), "batches")
    command = [program, str(args.small), "256"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    if done.returncode:
        raise harness.ChildFailed(f"batches: {done.stderr.strip()}")
    seen = json.loads(done.stdout)
    shown = f"{seen['launches']} launches", f"{seen['tasks']} tasks, {seen['planned']} launches planned"
    ratio, name = seen["launches"] / seen["tasks"], f"product {args.small}² in 256² tiles"
    rows.append(harness.figure(f"{name}: launches ÷ tasks", *shown, ratio, "<= 0.125", args.full_size))
    calls = seen["synchronizing"] / seen["tasks"]
    rows.append(harness.figure("synchronising calls ÷ tasks", "", "", calls, "<= 0", True))
    call = {"routine": "cholesky", "operands": [str(base / "small.zarr")], "memory": args.host}
    factor = harness.child(__file__, run_one, args.timeout, **call, devices=[{"memory": args.small**2 * 8}])
    space = factor["stats"]["spaces"][1]
    harness.note(
        f"Cholesky {args.small}² in 256² tiles: {space['launches']} launches of {space['tasks']} tasks"
    )
    held(rows, "256² tiles", factor, args.full_size)


def run() -> int:
    args = harness.options(
        __doc__,
        n=(16384, 1024),
        factor=(8192, 1100),
        small=(2048, 1100),
        host=("5GiB", "1GiB"),
        devices=("64MiB,128MiB,512MiB", "64MiB"),
        low=("420MiB", "420MiB"),  # the process itself holds some 160 MiB
        low_device=("64MiB", "64MiB"),
        build=(harness.built(),) * 2,
        only=(PARTS, "product,fits,two,batches"),
    )
    base = args.data / "devices"
    base.mkdir(exist_ok=True)
    parts = {one.__name__: one for one in (product, levels, fits, quarter, link, two, batches)}
    rows: list = []
    try:
        sizes = {"n": args.n, "factor": args.factor, "small": args.small}
        harness.child(__file__, prepare, args.timeout, folder=base, **sizes)
        for name in args.only.split(","):
            parts[name](rows, args, base)
    finally:
        if not args.keep:
            harness.remove(base)
    return harness.report(__file__, args, rows)


if __name__ == "__main__":
    harness.main(__file__, run, prepare, run_one)
