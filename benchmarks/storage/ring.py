"""Sequential read and write of a 4 GiB Zarr array through the ring ÷ the best of a grid of `fio --direct=1`.

The grid is block size x depth; each point runs once, then the two fastest run in turn with ours; medians.
Writes of both go to freshly allocated files and end with a sync. The program behind ours is built with cmake.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness


def build(folder: Path, name: str = "ring_throughput") -> Path:
    """The program NAME.cpp of one of these folders, configured once in `folder`."""
    program = folder / "benchmarks" / name
    define = {"FLAGSTONE_BENCHMARKS": "ON"}
    if not (folder / "CMakeCache.txt").exists():
        define |= {"CMAKE_BUILD_TYPE": "Release", "Python_EXECUTABLE": sys.executable}
    configure = ["cmake", "-S", harness.TOP, "-B", folder, *(f"-D{key}={on}" for key, on in define.items())]
    for command in (configure, ["cmake", "--build", folder, "--target", name]):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            raise harness.ChildFailed(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr)[-2000:]}")
    return program


def ours(program: Path, verb: str, array: Path, gib: float, io: str, timeout: float) -> dict:
    if verb == "write":
        harness.remove(array)
    done = subprocess.run(
        [program, verb, array, str(gib), io, "16"], capture_output=True, text=True, timeout=timeout
    )
    if done.returncode:
        raise harness.ChildFailed(f"ring_throughput {verb}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return {**result, "rate": result["bytes"] / result["seconds"]}


def fio(verb: str, file: Path, gib: float, block: str, depth: str, engine: str, timeout: float) -> dict:
    if verb == "write":
        file.unlink(missing_ok=True)
    command = [
        "fio",
        "--name=ring",
        f"--filename={file}",
        f"--rw={verb}",
        "--direct=1",
        f"--size={int(gib * 1024)}m",
    ]
    command += [f"--bs={block}", f"--iodepth={depth}", f"--ioengine={engine}", "--output-format=json"]
    command += ["--end_fsync=1", "--fallocate=native", "--invalidate=1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise harness.ChildFailed(f"fio: {(done.stderr or done.stdout).strip()[-400:]}")
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0][verb]
    return {
        "bytes": job["io_bytes"],
        "seconds": job["runtime"] / 1e3,
        "rate": job["io_bytes"] * 1e3 / job["runtime"],
    }


def fio_engine(folder: Path) -> str:
    """io_uring where this fio and this kernel have it, else libaio."""
    probe = folder / "fio-probe"
    try:
        fio("write", probe, 1 / 64, "64k", "4", "io_uring", 60)
        return "io_uring"
    except harness.ChildFailed:
        return "libaio"
    finally:
        probe.unlink(missing_ok=True)


def raw_read_rate(folder: Path, gib: float, timeout: float, rounds: int = 3) -> float:
    """Bytes a second of sequential direct reads by fio, 1 MiB blocks at depth 16: the disk's raw rate."""
    engine, file = fio_engine(folder), folder / "fio-raw"
    try:
        fio("write", file, gib, "1m", "16", engine, timeout)
        return max(fio("read", file, gib, "1m", "16", engine, timeout)["rate"] for _ in range(rounds))
    finally:
        file.unlink(missing_ok=True)


def run() -> int:
    args = harness.options(
        __doc__,
        gib=(4.0, 0.125),
        rounds=(5, 1),
        io=("auto", "auto"),
        blocks=("256k,1m,4m,16m", "1m"),
        depths=("4,8,16,32", "8,16"),
        build=(harness.built(),) * 2,
    )
    if not shutil.which("fio"):
        harness.note(
            "ring: fio was not found, so there is nothing to compare with; install it (apt-get install fio)."
        )
        return 3
    program, engine = build(Path(args.build)), fio_engine(args.data)
    array, file = args.data / "ring.zarr", args.data / "ring-fio"
    rows, details = [], {}
    try:
        for verb in ("write", "read"):
            grid = {}
            for block, depth in product(args.blocks.split(","), args.depths.split(",")):
                harness.drop_caches([file] if file.exists() else [])
                grid[block, depth] = fio(verb, file, args.gib, block, depth, engine, args.timeout)["rate"]
                harness.note(f"fio {verb:<5} {block:>4} x {depth:>2}  {grid[block, depth] / 1e9:6.3f} GB/s")
            finalists = sorted(grid, key=grid.get, reverse=True)[:2]
            runs = {
                f"fio {block} x {depth}": partial(
                    fio, verb, file, args.gib, block, depth, engine, args.timeout
                )
                for block, depth in finalists
            }
            runs["flagstone"] = partial(ours, program, verb, array, args.gib, args.io, args.timeout)
            results = harness.alternate(args.rounds, runs, [array, file])
            medians = {name: harness.median(done, "rate") for name, done in results.items()}
            mine = medians.pop("flagstone")
            name = max(medians, key=medians.get)
            what = f"sequential {verb} of {args.gib:g} GiB ({results['flagstone'][0]['io']})"
            shown = f"{mine / 1e9:.3f} GB/s", f"{medians[name] / 1e9:.3f} GB/s {name}"
            rows.append(harness.figure(what, *shown, mine / medians[name], ">= 0.95", args.full_size))
            details[verb] = {"grid": {" x ".join(way): rate for way, rate in grid.items()}, "runs": results}
    finally:
        if not args.keep:
            harness.remove(array, file)
    return harness.report(__file__, args, rows, engine=engine, **details)


if __name__ == "__main__":
    harness.main(__file__, run)
