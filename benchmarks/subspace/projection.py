"""Projections of 6Li's random ensemble: every figure a mode, bytes against formulas, times against baselines.

    projection.py counts            table 1 of Aktulga et al. (Euro-Par 2012), without listing states
    projection.py reads             bytes of Z read: order "columns", panels of 10 and 25 %, ÷ formulas
    projection.py run               one projection: bytes, seconds, peak
    projection.py main_job --nmax 8 time ÷ Z in memory, ÷ bounds (H' dropped; the disk); plan ÷ run
    projection.py work              estimated ÷ measured work of pairs of groups, of stripes
    projection.py making --nmax 8   nonzeros of H a second and core, by pairs of groups ÷ row by row by a hash
                                    (at Nmax 6 the hash lies in the caches)
    projection.py stored            a stored H, float64, against SciPy's Z.T @ (H @ Z) in memory
    projection.py basis             making Z with equal blocks once ÷ all

Default Nmax 6, J = 2: seconds to a minute each; `--nmax 8` needs 5 GB of scratch and minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import flagstone as fl
from flagstone import _core, nuclear, subspace
from flagstone._subspace.project import Project

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.storage import ring

TABLE = ((12, 0), (12, 1), (12, 2), (12, 3), (12, 4), (14, 3))
PAGE = 4096


def counts(given: argparse.Namespace) -> dict[str, Any]:
    start = time.perf_counter()
    rows = [{"nmax": nmax, "J": J, **nuclear.Space(3, 3, nmax).counts(J)._asdict()} for nmax, J in TABLE]
    return {"rows": rows, "seconds": time.perf_counter() - start}


def space_of(given: argparse.Namespace) -> nuclear.Space:
    return nuclear.Space(3, 3, given.nmax, nuclear.Interaction.random(1))


def told(Z: subspace.BlockBasis, H: subspace.ProjectedMatrix) -> dict[str, Any]:
    done = fl.stats()
    return {
        "shape": H.shape, "pairs": done.pairs, "nonzeros": done.nonzeros, "z_bytes": Z.nbytes,
        "seconds": done.seconds, "read_of_z": done.bytes_read / Z.nbytes, "written": done.bytes_written,
        "peak_of_limit": done.peak_memory / done.memory, "components": done.components, "note": done.note,
    }  # fmt: skip


def columns_formula(Z: subspace.BlockBasis, H: subspace.ProjectedMatrix) -> tuple[int, int]:
    """|Z| + sum over pairs i > j of |Z_i|: in bytes of numbers, and in the pages that blocks touch."""
    size = Z.rows * Z.columns * Z.dtype.itemsize
    first = Z.offsets[np.maximum(Z.stored, 0)] * Z.dtype.itemsize
    pages = np.where(size > 0, (first + size + PAGE - 1) // PAGE - first // PAGE, 0) * PAGE
    i, j = np.asarray(H.blocks[:]).T
    return tuple(int(each.sum() + each[i[i != j]].sum()) for each in (size, pages))  # type: ignore[return-value]


def panels_formula(Z: subspace.BlockBasis, runs: Any, panel: float) -> float:
    """Σ_P (|Z_P| + what couples behind P) ÷ |Z|."""
    ends = np.array(Z.layout.stripes)
    bytes_of = np.add.reduceat(Z.rows * Z.columns * Z.dtype.itemsize, ends[:-1])
    total = first = 0
    while first < len(bytes_of):
        last = first + 1
        while last < len(bytes_of) and bytes_of[first : last + 1].sum() <= panel:
            last += 1
        behind = np.unique(runs[(runs[:, 1] >= first) & (runs[:, 1] < last) & (runs[:, 0] >= last), 0])
        total += bytes_of[first:last].sum() + bytes_of[behind].sum()
        first = last
    return float(total / bytes_of.sum())


def reads(given: argparse.Namespace) -> dict[str, Any]:
    """Counted by plans but for order "columns", which runs: plans and runs move the same bytes."""
    space, found = space_of(given), {}
    with fl.Runtime(memory=given.memory):
        Z: Any = nuclear.planned_basis(space, given.J, dedup=False)
        for share in (0.1, 0.25):
            panel = int(share * Z.nbytes)
            runs = Project(space, Z, None, "panels", panel, None, None, None).runs
            plan = subspace.project.plan(space, Z, panel=panel)
            found[f"panels of {share:.0%}"] = {
                "read_of_z": plan.bytes_read / Z.nbytes, "formula": panels_formula(Z, runs, panel),
            }  # fmt: skip
        if given.nmax <= 6:
            Z = nuclear.basis_of_j(space, given.J, dedup=False)
            H = subspace.project(space, Z, order="columns")
            numbers, pages = columns_formula(Z, H)
            read = fl.stats().bytes_read
            found["columns"] = {
                "read": read, "of_pages": read / pages, "of_numbers": read / numbers,
                "pages_of_z": pages / Z.nbytes, "numbers_of_z": numbers / Z.nbytes,
            }  # fmt: skip
    return found


def projected(given: argparse.Namespace, memory: str) -> dict[str, Any]:
    space = space_of(given)
    with fl.Runtime(memory=memory):
        Z = nuclear.basis_of_j(space, given.J, dedup=given.dedup, files=given.files)
        H = subspace.project(space, Z, order=given.order, panel=given.panel)
        return told(Z, H)


def run(given: argparse.Namespace) -> dict[str, Any]:
    """One projection."""
    return projected(given, given.memory)


def blocks_of_a_run(given: argparse.Namespace) -> tuple[Any, Any, Any]:
    """Of each pair of groups: where its stripes begin, seconds that its plan says, seconds that it took."""
    space = space_of(given)
    with fl.Runtime(memory="4GiB", workers=1):  # a line for each pair lies beside it
        Z = nuclear.basis_of_j(space, given.J, dedup=False)
        call = Project(space, Z, None, "panels", None, None, None, None)
        jobs = []
        job_of = call.job

        def kept(at: Any) -> Any:
            job = job_of(at)
            job.keep = True
            jobs.append(job)
            return job

        call.job = kept  # type: ignore[method-assign]
        call.plan()
        call.run()
        rates, pace = call.call.use_profile().rates, call.projection.pace
    run, touched, flops, measured = np.array(jobs[-1].blocks()).reshape(-1, 4).T
    order = np.argsort(run, kind="stable")  # of tasks it varies
    estimate = pace * touched / rates["memory_bytes_per_second"] + flops / rates["flops_float32"]
    return run[order], estimate[order], measured[order]


def work(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds that plans estimate ÷ measured, of pairs of groups and of stripes, after one constant.

    The constant is that of the pair in the middle; `sum`: of all work after it. Of both sides the median
    of all rounds, pair by pair.
    """
    runs = [blocks_of_a_run(given) for _ in range(given.rounds)]
    _, stripe = np.unique(runs[0][0], return_inverse=True)
    estimate, measured = (np.median([made[side] for made in runs], axis=0) for side in (1, 2))
    constant = 1 / float(np.median(estimate / measured))
    found: dict[str, Any] = {"constant": constant, "sum": constant * estimate.sum() / measured.sum()}
    for name, ours, theirs in (
        ("pairs", estimate, measured),
        ("stripes", np.bincount(stripe, estimate), np.bincount(stripe, measured)),
    ):
        ratio = constant * ours / np.maximum(theirs, 1e-9)
        found[name] = {
            "number": len(ours), "ratio": np.quantile(ratio, (0.25, 0.5, 0.75)).tolist(),
            "median_off": float(np.median(np.abs(ratio - 1))),
        }  # fmt: skip
    return found


def making(given: argparse.Namespace) -> dict[str, Any]:
    """One core, in turn in one process of C++ (row_by_row.cpp); of a run's own seconds too."""
    program = ring.build(Path(given.build), "row_by_row")
    words = [3, 3, given.nmax, 2 * int(given.J), max(given.rounds, 3)]
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=True)
    with fl.Runtime(memory=given.memory, workers=1):
        space = space_of(given)
        subspace.project(space, nuclear.basis_of_j(space, given.J))
        run = fl.stats()
    return {**json.loads(done.stdout), "of_a_run": run.nonzeros / run.components["make"]}


def main_job(given: argparse.Namespace) -> dict[str, Any]:
    """Every block stored: under the limit, with Z in memory, and with that and H' dropped, in turn."""
    space = space_of(given)
    kinds = {"limited": given.memory, "in_memory": "2GiB", "dropped": "2GiB"}
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    floors, making, found = [], [], {}
    for turn in range(given.rounds):
        for kind, memory in list(kinds.items())[:: 1 if turn % 2 == 0 else -1]:
            with fl.Runtime(memory=memory):
                Z = nuclear.basis_of_j(space, given.J, dedup=False)
                basis_seconds = fl.stats().seconds
                plan = subspace.project.plan(space, Z)
                call = Project(space, Z, None, "panels", None, None, None, None)
                if kind == "dropped":
                    drop_values(call)
                    with contextlib.ExitStack() as stack:
                        call.execute(stack)
                else:
                    call.run()
                done = fl.stats()
            seconds[kind].append(done.seconds)
            if kind == "limited":
                making.append(basis_seconds)
                moved = done.bytes_read, done.bytes_written
                found = {
                    "read_of_z": done.bytes_read / Z.nbytes, "written": done.bytes_written, "note": done.note,
                    "components": done.components, "peak_of_limit": done.peak_memory / done.memory,
                    "plan_of_run": {
                        name: getattr(plan, name) / max(1, getattr(done, name))
                        for name in ("bytes_read", "bytes_written", "peak_memory", "seconds")
                    },
                }  # fmt: skip
            del call, Z
        read, write = disk_rates()
        floors.append(moved[0] / read + moved[1] / write)
    median = {kind: statistics.median(each) for kind, each in seconds.items()}
    bytes_by_rates = statistics.median(floors)
    once = []
    for _ in range(given.rounds):
        nuclear.basis_of_j(space, given.J)
        once.append(fl.stats().seconds)
    return found | {
        "seconds": median, "bytes_by_rates": bytes_by_rates, "read_and_write_rate": [read, write],
        "of_in_memory": median["limited"] / median["in_memory"],
        "of_bound": median["limited"] / max(median["dropped"], bytes_by_rates),
        "basis_once_of_all": statistics.median(once) / statistics.median(making),
        "basis_of_main_job": statistics.median(once) / median["limited"],
    }  # fmt: skip


def drop_values(call: Project) -> None:
    """Let what is written of the values of H' go nowhere."""
    opened = call.place.open

    def into_nothing(stack: contextlib.ExitStack) -> Any:
        values, *others = opened(stack)
        return [_core.dropping_array(list(values.shape), values.dtype, list(values.chunks)), *others]

    call.place.open = into_nothing  # type: ignore[method-assign]


def disk_rates() -> tuple[float, float]:
    """Bytes a second of direct reads and writes, a MiB each, where results go."""
    place = Path(fl.Runtime().scratch or tempfile.gettempdir()) / "rate"
    place.parent.mkdir(parents=True, exist_ok=True)
    rates = []
    try:
        for words in (
            (f"of={place}", "if=/dev/zero", "oflag=direct", "conv=fsync"),
            (f"if={place}", "of=/dev/null", "iflag=direct"),
        ):
            start = time.perf_counter()
            subprocess.run(["dd", "bs=1M", "count=1024", *words], capture_output=True, check=True)
            rates.append((1 << 30) / (time.perf_counter() - start))
    finally:
        place.unlink(missing_ok=True)
    return rates[1], rates[0]


def stored(given: argparse.Namespace) -> dict[str, Any]:
    space = space_of(given)
    two_m = 2 * int(given.J)
    H = space.hamiltonian(two_m)
    Z = nuclear.basis_of_j(space, given.J, dedup=False, dtype="float64")
    ours, scipys, peak = [], [], 0.0
    h, z = H.to_scipy(), Z.to_scipy()
    for _ in range(given.rounds):
        # What 160 MiB leave a process that holds nothing else.
        with fl.Runtime(memory=_core.resident_bytes() + (118 << 20)):
            start = time.perf_counter()
            subspace.project(H, Z)
            ours.append(time.perf_counter() - start)
            peak = max(peak, fl.stats().peak_memory / fl.stats().memory)
        start = time.perf_counter()
        z.T @ (h @ z)
        scipys.append(time.perf_counter() - start)
    return {
        "nonzeros": h.nnz, "ours": statistics.median(ours), "scipy": statistics.median(scipys),
        "times_faster": statistics.median(scipys) / statistics.median(ours), "peak_of_limit": peak,
    }  # fmt: skip


def basis(given: argparse.Namespace) -> dict[str, Any]:
    space, seconds, sizes = space_of(given), {True: [], False: []}, {}
    for _ in range(given.rounds):
        for dedup in (True, False):
            Z = nuclear.basis_of_j(space, given.J, dedup=dedup)
            seconds[dedup].append(fl.stats().seconds)
            sizes[dedup] = Z.nbytes
    once, every = (statistics.median(seconds[dedup]) for dedup in (True, False))
    return {"once": once, "all": every, "ratio": once / every, "bytes": [sizes[True], sizes[False]]}


MODES = {mode.__name__: mode for mode in (counts, reads, run, main_job, work, making, stored, basis)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=MODES, nargs="?", default="run")
    parser.add_argument("--nmax", type=int, default=6)
    parser.add_argument("-J", default="2")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--order", default="panels")
    parser.add_argument("--panel")
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=harness.built(), help="a build folder of the programs in C++")
    parser.add_argument("--dedup", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="a small space, one round")
    given = parser.parse_args()
    if given.smoke:
        given.nmax, given.rounds = 2, 1
    print(json.dumps(MODES[given.mode](given), indent=1))


if __name__ == "__main__":
    main()
