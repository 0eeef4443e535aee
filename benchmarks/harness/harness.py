"""What every benchmark shares: fresh child processes, cold caches, peak memory, alternation, tables."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Row = dict[str, Any]
TOP = Path(__file__).resolve().parents[2]
MARK = "@result "
#: Options that choose what is run or how often, not the size that a target is about.
NEUTRAL = {"rounds", "finalists", "grid", "blocks", "depths", "build", "io", "verify", "only"}
NEUTRAL |= {"npy_memory", "zarr_memory", "install", "chunks", "block", "pairs", "peer_pairs"}
NEUTRAL |= {"widths", "codecs", "baselines", "peers"}


class ChildFailed(RuntimeError):
    """A measured process ended badly; `killed` when the system took it away (the cap, or time)."""

    def __init__(self, text: str, killed: bool = False):
        super().__init__(text)
        self.killed = killed


# --- options ----------------------------------------------------------------------------------------------


def options(doc: str, argv: Sequence[str] | None = None, **pairs: tuple[Any, Any]) -> argparse.Namespace:
    """Command line of a benchmark. `pairs`: option=(full-size default, smoke default)."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--smoke", action="store_true", help="sizes that take seconds; figures are not judged"
    )
    parser.add_argument(
        "--data", type=Path, default=TOP / "out" / "bench", help="folder for big files (%(default)s)"
    )
    parser.add_argument("--json", type=Path, help="where the results go (DATA/NAME.json)")
    parser.add_argument("--keep", action="store_true", help="do not delete the big files")
    parser.add_argument(
        "--timeout", type=float, default=900, help="seconds that one process may take (%(default)s)"
    )
    for name, (full, smoke) in pairs.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(full), default=None, help=f"{full} (smoke: {smoke})"
        )
    args = parser.parse_args(argv)
    args.full_size = not args.smoke
    for name, (full, smoke) in pairs.items():
        if getattr(args, name) is None:
            setattr(args, name, smoke if args.smoke else full)
        elif getattr(args, name) != full and name not in NEUTRAL:
            args.full_size = False  # another size: the table's targets do not apply
    args.data.mkdir(parents=True, exist_ok=True)
    args.data = args.data.resolve()
    # Scratch and the kept rates of this machine are the benchmark's own: probed afresh, removed by report().
    for variable, name in (("FLAGSTONE_SCRATCH", "scratch"), ("XDG_CACHE_HOME", "cache")):
        os.environ[variable] = str(args.data / name)
        remove(args.data / name)
        (args.data / name).mkdir()
    return args


def main(script: str, run: Callable[[], int], *children: Callable[..., dict]) -> None:
    """`script --child NAME JSON` runs one of `children` and prints what it returns; otherwise `run`."""
    if len(sys.argv) > 3 and sys.argv[1] == "--child":
        function = {child.__name__: child for child in children}[sys.argv[2]]
        print(MARK + json.dumps(function(**json.loads(sys.argv[3])), default=float), flush=True)
        return
    try:
        sys.exit(run())
    except ChildFailed as error:
        sys.exit(f"{Path(script).stem}: {error}")


# --- processes --------------------------------------------------------------------------------------------


def child(
    script: str,
    function: Callable | str,
    timeout: float = 900,
    wrap: Sequence[str] = (),
    python: str = sys.executable,
    **arguments,
) -> dict:
    """Runs `function(**arguments)` of `script` in a fresh process and returns its dictionary."""
    name = function if isinstance(function, str) else function.__name__
    # faulthandler: a baseline that dies in a library says where.
    command = [
        *wrap,
        python,
        "-X",
        "faulthandler",
        script,
        "--child",
        name,
        json.dumps(arguments, default=str),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ChildFailed(
            f"{name}: not done after {timeout:g} s; raise --timeout or lower the size.", True
        ) from None
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not lines:
        tail = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["(it said nothing)"]
        ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise ChildFailed(f"{name} ended with {ended}: {tail[0]}", done.returncode in (-9, 137))
    return json.loads(lines[-1].removeprefix(MARK))


def alternate(
    rounds: int, runs: dict[str, Callable[[], dict]], files: Sequence[Path] = (), cold: bool = True
) -> dict[str, list[dict]]:
    """Each of `runs` once a round, in turn, every second round backwards; `cold`: with cold caches."""
    results: dict[str, list[dict]] = {name: [] for name in runs}
    for turn in range(rounds):
        for name in list(runs)[:: 1 if turn % 2 == 0 else -1]:
            if cold:
                drop_caches(files)
            result = runs[name]()
            results[name].append(result)
            note(f"round {turn + 1}/{rounds}  {name:<28} {result.get('seconds', float('nan')):8.2f} s")
    return results


def best(results: Sequence[dict], key: str = "seconds") -> float:
    return min(result[key] for result in results)


def median(results: Sequence[dict], key: str = "seconds") -> float:
    return statistics.median(result[key] for result in results)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def assert_all_threads() -> int:
    """The baseline's BLAS and OpenMP pools must use every processor; returns how many."""
    from threadpoolctl import threadpool_info

    processors = len(os.sched_getaffinity(0))
    pools = threadpool_info()
    assert pools, "baseline: no thread pool was found; import the library before asking"
    for pool in pools:
        assert pool["num_threads"] == processors, (
            f"baseline: {pool['filepath']} has {pool['num_threads']} threads"
        )
    return processors


# --- memory and caches ------------------------------------------------------------------------------------


def status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def reset_peak() -> bool:
    """Starts VmHWM again from the present; False where the kernel refuses."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


@contextmanager
def measured():
    """Wall and processor seconds and the kernel's peak of resident memory of the block."""
    result = SimpleNamespace(peak_reset=reset_peak(), resident_before=status_bytes("VmRSS"))
    wall, cpu = time.perf_counter(), time.process_time()
    yield result
    result.seconds = time.perf_counter() - wall
    result.cpu_seconds = time.process_time() - cpu
    result.peak = status_bytes("VmHWM")


def drop_caches(files: Sequence[Path] = ()) -> str:
    """Empties the page cache; where that is not permitted evicts `files` (folders: all below). Says which."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return "drop_caches"
    except OSError:
        pass
    for top in files:
        for path in [top] if top.is_file() else [p for p in top.rglob("*") if p.is_file()]:
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    return "posix_fadvise(DONTNEED)"


def built() -> str:
    """Where the programs of C++ are compiled: beside the core, where `make build` compiled it."""
    beside = TOP / "build" / "python"
    return str(beside if (beside / "CMakeCache.txt").exists() else TOP / "out" / "bench-build")


def parse_bytes(text: str) -> int:
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    return int(float(text[:-3]) * units[text[-3:]]) if text[-3:] in units else int(text)


# --- files ------------------------------------------------------------------------------------------------


def random_npy(path: Path, rows: int, cols: int, seed: int, dtype: str = "float32") -> Path:
    """Uniform in (-1, 1), written in blocks; kept when it is there already with that shape."""
    import numpy as np

    if path.exists():
        old = np.load(path, mmap_mode="r")
        if old.shape == (rows, cols) and old.dtype == dtype:
            return path
    rng = np.random.default_rng(seed)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(rows, cols))
    for row in range(0, rows, 1024):
        out[row : row + 1024] = 2 * rng.random((min(1024, rows - row), cols), dtype=np.float32) - 1
    out.flush()
    return path


def remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


# --- reports ----------------------------------------------------------------------------------------------


def machine() -> dict:
    import numpy as np

    described = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in described if line.startswith("model name")), "?")
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load_at_start": os.getloadavg()[0],
    }


def figure(what: str, ours: str, baseline: str, value: float, target: str, judged: bool) -> Row:
    """One line of a table; `target` such as '<= 1.02' is compared with `value` at full size only."""
    reached = {"<=": value <= float(target.split()[1]), ">=": value >= float(target.split()[1])}[
        target.split()[0]
    ]
    verdict = ("yes" if reached else "NO") if judged else "-"
    return {
        "figure": what,
        "ours": ours,
        "baseline": baseline,
        "value": value,
        "target": target,
        "reached": verdict,
    }


def against_plan(
    name: str, plan: dict, actual: dict, peak: int, judged: bool, once: int | None = None
) -> list[Row]:
    """The three tolerances of a plan: bytes of a pass ±1 %, peak memory ±10 %, seconds ±25 %.

    `once`: bytes of one read of the operands. A first pass reads that, later ones what the cache could not
    keep; where the data needs more or fewer passes than planned, so many of those are counted.
    """
    read = plan["bytes_read"]
    if once is not None and plan["passes"] > 1:
        later = (read - once) / (plan["passes"] - 1)
        read = once + (actual["passes"] - 1) * later
    passes = max(actual["passes"], 1)
    both = [
        moved / passes + run["bytes_written"] for moved, run in ((actual["bytes_read"], actual), (read, plan))
    ]

    def row(what: str, unit: float, actual: float, planned: float, target: str) -> Row:
        shown = f"{actual / unit:.4g}", f"{planned / unit:.4g} planned"
        return figure(f"{name}: {what}", *shown, abs(actual / max(planned, 1e-9) - 1), target, judged)

    return [
        row("MB a pass off plan", 1e6, *both, "<= 0.01"),
        row("peak MiB off plan", 2**20, peak, plan["peak_memory"], "<= 0.10"),
        row("seconds off plan", 1, actual["seconds"], plan["seconds"], "<= 0.25"),
    ]


def table(rows: Sequence[Row]) -> str:
    """Markdown, aligned, so that it can be pasted."""
    if not rows:
        return "(no rows)"
    cells = [list(rows[0])] + [[_text(value) for value in row.values()] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def report(script: str, args: argparse.Namespace, rows: Sequence[Row], **details: Any) -> int:
    """Prints the table, writes the JSON; returns 1 when a figure that was judged was missed."""
    name = Path(script).stem
    print(table(rows), flush=True)
    chosen = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items()}
    where = args.json or args.data / f"{name}.json"
    content = {"benchmark": name, "options": chosen, "machine": machine(), "rows": list(rows), **details}
    where.write_text(json.dumps(content, indent=1, default=str) + "\n")
    remove(args.data / "scratch", args.data / "cache")
    return int(any(row.get("reached") == "NO" for row in rows))
