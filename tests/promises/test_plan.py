"""Plans tell the truth: bytes within 1 %, peak memory within 10 %, and planning touches no data."""

from __future__ import annotations

import json
import os
import re
import sys

import numpy as np
import pytest

import flagstone as fl
from tests.support.every_routine import PLANNED, routine
from tests.support.processes import output_of, peak_memory, reset_peak

FIELDS = [
    "method",
    "passes",
    "bytes_read",
    "bytes_written",
    "flops",
    "peak_memory",
    "least_memory",
    "seconds",
]

# What the process holds when a run begins is not what it held when it was planned: at a step of the plan (one
# more panel at a time, one more that stays) either side of it is the truth.
NOISE = 2 << 20
PAGE = 4096  # bytes; tiles on disk are whole pages


def measure(name: str) -> list[dict]:
    """Runs in a process of its own: plan and run under three limits."""
    work = routine(name)
    work(memory="3GiB")  # the libraries' own first-use allocations are not what a plan is about
    roomy = work.plan(memory="3GiB")  # every operand is read once
    least = roomy.least_memory
    entries = []
    for limit in (int(least * 1.05), 2 * least, 3 << 30):
        plan = work.plan(memory=limit)
        reset_peak()
        work(memory=limit)
        peak, stats = peak_memory(), fl.stats()
        entries.append(
            {
                "limit": limit,
                "planned": [plan.bytes_read, plan.bytes_written, plan.flops, plan.peak_memory],
                "actual": [stats.bytes_read, stats.bytes_written, stats.flops, peak],
                "passes": [plan.passes, stats.passes, plan.most_passes],
                "once": roomy.bytes_read,
                "beside": [work.plan(memory=max(least, limit + step)).bytes_read for step in (-NOISE, NOISE)],
            }
        )
    return entries


@pytest.mark.parametrize("name", PLANNED)
def test_plan_against_actual(operands, name):
    """Which tile stays in the cache, or which sum spills, timing decides: one of three runs is as planned."""
    spilled = 0.1 if name.startswith("qr") else 0.05
    #: Of a block of centers: under the tightest limit one partial sum more or less may wait on disk.
    sums = -(-8 * 1744 * 300 // PAGE) * PAGE if "centers on disk" in name else 0
    for attempt in range(3):
        entries = json.loads(output_of(__file__, name, folder=operands).splitlines()[-1])
        for entry in entries:
            check_laws(entry, "krylov" in name)
        try:
            for entry in entries:
                check_bytes(entry, "krylov" in name, spilled, sums if entry is entries[0] else 0)
            return
        except AssertionError:
            if attempt == 2:
                raise


def check_laws(entry: dict, by_spectrum: bool) -> None:
    """What no timing changes: flops, a bound of passes, the limit."""
    (_, _, flops, peak), (_, _, real_flops, _) = entry["planned"], entry["actual"]
    if by_spectrum:  # the number of passes depends on the data
        planned_passes, passes, most = entry["passes"]
        assert passes <= most, entry
        flops *= passes / planned_passes
    assert real_flops == pytest.approx(flops, rel=0.1), entry
    assert peak <= entry["limit"], entry


def check_bytes(entry: dict, by_spectrum: bool, spilled: float, tile: int = 0) -> None:
    """The operands are small: a tile more or less is some per cent; benchmarks/runtime/plan.py holds 1 %."""
    (read, written, _, peak), (real_read, real_written, _, real_peak) = entry["planned"], entry["actual"]
    read, at_most = min(read, *entry["beside"]), max(read, *entry["beside"])
    if by_spectrum:
        planned_passes, passes, _ = entry["passes"]
        # A pass more reads no less than those before it (its basis takes room) and no more than X.
        at_most += (passes - planned_passes) * (entry["once"] if read > entry["once"] else 0)
        read += (passes - planned_passes) * (read - entry["once"]) / (planned_passes - 1)
    assert 0.9 * read <= real_read <= 1.1 * at_most, entry
    # A private sum may spill; which tiles of a factorization do is a matter of which transfers end first:
    # some tiles, little beside what is read.
    assert real_written == pytest.approx(written, rel=spilled, abs=max(1 << 20, 0.015 * read, tile)), entry
    # Of some 70 to 100 MiB, 12 of them held back for what a small run may not touch; 10 % at real sizes.
    assert real_peak == pytest.approx(peak, rel=0.15, abs=16 << 20), entry


def test_fields_and_table(tmp_path, rng):
    a = fl.from_numpy(rng.random((500, 400)), str(tmp_path / "a.zarr"))
    for plan in (fl.matmul.plan(a, a.T), fl.pca.plan(a, 5)):
        for field in FIELDS:
            assert hasattr(plan, field), field
        assert plan.seconds > 0
        assert plan.flops > 0
        assert plan.least_memory <= plan.peak_memory or plan.least_memory > 0
        lines = str(plan).splitlines()
        assert 5 <= len(lines) <= 20
        assert max(map(len, lines)) <= 110
        assert plan.method in str(plan)


def test_plans_count_the_syncs_of_what_has_a_name(tmp_path, rng):
    """Each result for itself; a new version of one without a name has none either."""
    keys, values = rng.integers(0, 9, 1000), rng.random(1000)
    paths = [tmp_path / "k.zarr", tmp_path / "v.zarr"]
    held = fl.sort(values)  # in scratch

    def planned(*out):
        return fl.sort_by.plan([keys, values], 1, out=list(out))

    none, one, both = planned(None, None), planned(None, paths[1]), planned(*paths)
    assert none.seconds < one.seconds < both.seconds
    assert planned(None, held).seconds == none.seconds
    assert none.scratch_bytes == keys.nbytes + values.nbytes
    assert one.scratch_bytes == keys.nbytes
    assert both.scratch_bytes == 0


def test_planning_reads_and_writes_nothing(tmp_path):
    """Operands of 8 GiB that hold no data, and no output."""
    a = fl.create(str(tmp_path / "a.zarr"), (1 << 15, 1 << 15), "float64")
    before = sorted(p.name for p in tmp_path.iterdir())
    plan = fl.matmul.plan(fl.open(str(tmp_path / "a.zarr")), a, out=str(tmp_path / "c.zarr"), memory="16GiB")
    assert plan.flops == pytest.approx(2.0 * (1 << 45), rel=0.01)
    assert plan.bytes_written == pytest.approx(a.nbytes, rel=0.01)
    assert plan.bytes_read == 0  # chunks that were never written are not read
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_planning_leaves_what_is_stored_alone(tmp_path):
    """A graph that updates an array: no shard is made, no checksum forgotten, no index remembered."""
    place = tmp_path / "c.zarr"
    c = fl.create(str(place), (400, 400), "float64", chunks=(100, 100))
    files = lambda: {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}  # noqa: E731
    for _ in range(2):  # without shards, then with one
        before = files()
        with fl.graph() as graph:
            for i in range(4):
                graph.add(lambda view: view.fill(3), fl.update(c.tiles[i, 0]))
            graph.plan()
            assert files() == before
        assert fl.check(str(place)).ok
        other = fl.open(str(place), mode="r+")
        other[...] = 7  # another moment than the one that was planned with
        c[5, 5] = 1
        assert np.asarray(fl.open(str(place))).sum() == 7 * 400 * 400 - 6
    assert fl.check(str(place)).ok


def test_plan_of_a_limit_that_is_too_small(tmp_path, rng):
    a = fl.from_numpy(rng.random((3000, 3000)), str(tmp_path / "a.zarr"))
    with pytest.raises(fl.BudgetError) as info:
        fl.matmul.plan(a, a, memory="1MiB")
    assert info.value.least == pytest.approx(fl.matmul.plan(a, a, memory="4GiB").least_memory, rel=0.1)


def test_plan_names_the_method_and_why(tmp_path, rng):
    x = rng.random((5000, 50))
    a = fl.from_numpy(x, str(tmp_path / "a.zarr"))
    assert fl.pca.plan(a, 5).method == fl.pca.plan(a, 5, method="gram").method
    assert fl.pca.plan(a, 5, method="krylov").passes >= 2
    assert fl.pca.plan(a, 5, method="gram").passes in (1, 2, 3)
    assert isinstance(np.asarray(fl.pca.plan(a, 5).passes).item(), int)


def test_a_plan_gives_the_seconds_of_every_spectrum(tmp_path):
    """Low rank, what falls like a power, noise: passes and seconds of each, in this order."""
    x = np.random.default_rng(0).standard_normal((3000, 2000), dtype="float32")
    X = fl.from_numpy(x, str(tmp_path / "x.zarr"))
    plan = fl.pca.plan(X, 5, method="krylov")
    assert 0 < plan.least_seconds < plan.seconds < plan.most_seconds
    assert plan.most_seconds / plan.seconds == pytest.approx(plan.most_passes / plan.passes)
    assert "by its spectrum" in str(plan)
    fl.pca(X, 5, method="krylov")
    assert fl.stats().passes <= plan.most_passes  # what it is counted for
    certain = fl.pca.plan(X, 5, method="gram")
    assert (certain.least_seconds, certain.most_seconds) == (0, 0)
    assert "spectrum" not in str(certain)


@pytest.mark.parametrize("workers", [4, None])
def test_a_plan_says_what_more_memory_buys(tmp_path, workers):
    if workers is None and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor: one worker, who never waits for room beside others")
    x = np.ones((6000, 6000), "float32")
    X = fl.from_numpy(x, str(tmp_path / "x.zarr"))
    with fl.Runtime(workers=workers):
        least = fl.matmul.plan(X, X).least_memory
        tight, roomy = (fl.matmul.plan(X, X, memory=limit) for limit in (least, 4 << 30))
    assert roomy.advice == ""
    found = re.fullmatch(
        r"workers stand idle \d+% of the time for want of memory; ([0-9.]+) MiB more: ([0-9.]+) x faster",
        tight.advice,
    )
    assert found, str(tight)
    assert tight.advice in str(tight)
    with fl.Runtime(workers=workers):
        more = fl.matmul.plan(X, X, memory=least + round(float(found[1]) * 2**20))
    # Told for some MiB less, and rounded to a tenth; tiles of two sizes at most lie between.
    assert 0.9 * float(found[2]) <= tight.seconds / more.seconds <= 1.4 * float(found[2])


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
