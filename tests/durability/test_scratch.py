"""The scratch budget: a quota over everything that lies there, counted before work starts; sweeping."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone._scratch import entries, quota
from tests.support.processes import random_csr

MiB = 1 << 20


@pytest.fixture
def place(tmp_path):
    return tmp_path / "scratch"


def operand(tmp_path: Path, mebibytes: int = 4) -> fl.Array:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((mebibytes * 128, 1024)))
    return fl.open(tmp_path / "a.npy")


def test_a_result_beyond_the_quota_is_refused_before_it_starts(tmp_path, place):
    a = operand(tmp_path)
    with fl.Runtime(scratch=place, scratch_quota="10MiB"):
        one = fl.compute(a + 1)
        two = fl.compute(a + 2)
        with pytest.raises(fl.StorageError) as caught:
            fl.compute(a + 3)
        assert caught.value.errno == errno.EDQUOT
        text = str(caught.value)
        assert "compute: needs 4 MiB of scratch" in text
        assert "of its quota of 10 MiB" in text
        assert "out=" in text
        assert "FLAGSTONE_SCRATCH_QUOTA" in text
        assert "\n" not in text
        assert len(list((place / "results").glob("*.zarr"))) == 2
        two.close()
        del two
        gc.collect()
        assert np.array_equal(fl.compute(a + 3)[...], a[...] + 3)  # what went makes room
        assert one.shape == a.shape
        for call in (fl.matmul, fl.matmul):
            with pytest.raises(fl.StorageError, match="matmul: needs"):
                call(a, np.ones((1024, 4096)))  # 16 MiB


def test_the_quota_of_the_environment_and_what_is_no_size(tmp_path, place, monkeypatch):
    a = operand(tmp_path)
    monkeypatch.setenv("FLAGSTONE_SCRATCH_QUOTA", "1MiB")
    with fl.Runtime(scratch=place), pytest.raises(fl.StorageError, match="quota of 1 MiB"):
        fl.compute(a + 1)
    with fl.Runtime(scratch=place, scratch_quota=64 * MiB):  # the argument goes first
        assert fl.compute(a + 1).shape == a.shape
    monkeypatch.setenv("FLAGSTONE_SCRATCH_QUOTA", "plenty")
    with pytest.raises(ValueError, match="FLAGSTONE_SCRATCH_QUOTA: 'plenty'"), fl.Runtime(scratch=place):
        fl.compute(a + 1)
    monkeypatch.delenv("FLAGSTONE_SCRATCH_QUOTA")
    for bad in (-1, True, "lots", 1.5, 1 << 63):
        with pytest.raises(ValueError, match="scratch_quota"):
            fl.Runtime(scratch_quota=bad)
    assert fl.Runtime(scratch=place).scratch_quota > 64 * MiB  # half of what was free at first
    with fl.Runtime(scratch=place, scratch_quota=0), pytest.raises(fl.StorageError, match="quota of 0"):
        fl.compute(a + 1)


def test_imports_count_and_the_message_says_what_clearing_frees(tmp_path, place):
    a = operand(tmp_path)
    matrix = random_csr(4000, 4000, 0.05, 1)
    sp.save_npz(tmp_path / "m.npz", matrix)
    with fl.Runtime(scratch=place, scratch_quota="12MiB"):
        fl.open(tmp_path / "m.npz")
        there = entries.clearable(place)
        assert 8 * MiB < there < 12 * MiB
        with pytest.raises(fl.StorageError, match="'flagstone scratch --clear' frees") as caught:
            fl.compute(a + 2)
        assert caught.value.errno == errno.EDQUOT
        entries.clear(place)
        assert fl.compute(a + 2).shape == a.shape


@pytest.mark.parametrize("kind", ["csr", "coo"])
def test_an_import_that_grows_beyond_the_quota_is_stopped_and_leaves_nothing(tmp_path, place, kind):
    matrix = random_csr(3000, 3000, 0.15, 1).asformat(kind)
    sp.save_npz(tmp_path / "m.npz", matrix)
    with fl.Runtime(scratch=place, scratch_quota="4MiB"):
        with pytest.raises(fl.StorageError, match="open: needs .* of its quota of 4 MiB") as caught:
            fl.open(tmp_path / "m.npz")
        assert caught.value.errno == errno.EDQUOT
        assert quota.held(place) == 0
        assert list((place / "imports").iterdir()) == []
    with fl.Runtime(scratch=place, scratch_quota="400MiB"):
        assert fl.open(tmp_path / "m.npz").nnz == matrix.nnz


def test_a_dense_import_is_refused_by_its_header(tmp_path, place):
    from scipy.io import mmwrite

    mmwrite(tmp_path / "d.mtx", np.random.default_rng(0).random((500, 300)))
    with fl.Runtime(scratch=place, scratch_quota="1MiB"):
        with pytest.raises(fl.StorageError, match="quota of 1 MiB"):
            fl.open(tmp_path / "d.mtx")
        assert list((place / "imports").iterdir()) == []


def test_tiles_between_two_passes_are_promised_and_given_back(isolated, tmp_path):
    """The plan says what lies between; a quota below it refuses the call, and the result stays as it was."""
    planned, refused, held, right = isolated(
        """
        from flagstone._scratch import quota
        a = fl.create("a.zarr", (2048, 2048), "float32", (16, 2048))
        a[...] = np.random.default_rng(0).standard_normal((2048, 2048), dtype="float32")
        shape = (2048, 64)
        job = dict(out="b.zarr", memory=fl.rechunk.plan(a, shape).least_memory)
        planned = fl.rechunk.plan(a, shape, **job)
        with fl.Runtime(scratch="s", scratch_quota=planned.scratch_bytes - 1 if planned.scratch_bytes else 1):
            try:
                fl.rechunk(a, shape, **job)
                refused = ""
            except fl.StorageError as error:
                refused = str(error)
        import os
        assert not os.path.exists("b.zarr")
        with fl.Runtime(scratch="s", scratch_quota=planned.scratch_bytes + (1 << 20)) as runtime:
            made = fl.rechunk(a, shape, **job)
            held = quota.held(runtime.scratch)
        result = [[planned.passes, planned.scratch_bytes, str(planned)], refused, held,
                  bool((made[:, :64] == a[:, :64]).all())]
        """
    )
    passes, nbytes, text = planned
    if passes == 1:
        pytest.skip("it takes one pass here")
    assert nbytes >= 2048 * 2048 * 4
    assert "scratch" in text
    assert "rechunk: needs 16 MiB of scratch" in refused
    assert held == 0
    assert right


def test_plans_say_what_goes_to_scratch(tmp_path, place):
    a = operand(tmp_path)
    with fl.Runtime(scratch=place, scratch_quota="1GiB"):
        for plan, expected in (
            (fl.compute.plan(a + 1), a.nbytes),
            (fl.compute.plan(a + 1, out=tmp_path / "out.zarr"), 0),
            (fl.matmul.plan(a, a.T), 8 * a.shape[0] ** 2),
            (fl.matmul.plan(a, a.T, out=tmp_path / "out.zarr"), 0),
            (fl.pca.plan(a, 5), 8 * 5 * a.shape[0]),
            (fl.rechunk.plan(a, (64, 64)), a.nbytes),
        ):
            assert plan.scratch_bytes == expected
            assert plan.scratch_quota == 1 << 30
            assert ("quota 1 GiB" in str(plan)) == (expected > 0)


OTHER = """
import sys
import numpy as np, flagstone as fl
with fl.Runtime(scratch=sys.argv[1]):
    made = fl.compute(fl.open(sys.argv[2]) + 1)
    print("ready", flush=True)
    sys.stdin.readline()
"""
BUILDING = """
import sys, time
import numpy as np, flagstone as fl
def wait(block):
    print("ready", flush=True)
    sys.stdin.readline()
    return block + 1
with fl.Runtime(scratch=sys.argv[1], workers=1):
    fl.map_blocks(wait, fl.open(sys.argv[2]))
"""


@contextlib.contextmanager
def other(code: str, *arguments: str):
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_other_processes_count_and_their_end_is_noticed(tmp_path, place):
    """A result of another process, and one that it is building, count; both go when it is killed."""
    a = operand(tmp_path)
    for code in (OTHER, BUILDING):
        with (
            other(code, str(place), str(tmp_path / "a.npy")),
            fl.Runtime(scratch=place, scratch_quota="6MiB"),
        ):
            assert quota.held(place) >= a.nbytes
            with pytest.raises(fl.StorageError, match="quota of 6 MiB") as caught:
                fl.compute(a + 2)
            assert "--clear" not in str(caught.value)  # it lives
            kinds = {entry.kind for entry in entries.entries(place)}
            assert kinds == {"result"}
        left = [entry.kind for entry in entries.entries(place)]
        assert set(left) == {"left behind"}
        with fl.Runtime(scratch=place, scratch_quota="6MiB"):
            assert np.array_equal(fl.compute(a + 2)[...], a[...] + 2)  # swept, half-built results too
        gc.collect()
        assert entries.entries(place) == []
        assert quota.held(place) == 0


def test_two_promises_are_never_of_the_same_bytes(place):
    """Before anything is on the disk; files without a name are known by their promise alone."""
    one = quota.promise("one", place, 10 * MiB, 6 * MiB)
    with pytest.raises(fl.StorageError, match="two: needs 5 MiB of scratch, and .* holds 6 MiB"):
        quota.promise("two", place, 10 * MiB, 5 * MiB)
    entry = place / "results" / "r-1-a.zarr"
    two = quota.promise("two", place, 10 * MiB, 4 * MiB, entry)
    entry.mkdir(parents=True)
    (entry / "c").write_bytes(b"x" * (3 * MiB))  # what is written of it does not count twice
    assert quota.held(place) == 10 * MiB
    with pytest.raises(fl.StorageError, match="holds 10 MiB"):
        quota.promise("three", place, 10 * MiB, 1)
    one.release()
    two.release()
    assert quota.held(place) == sum(e.stat().st_blocks * 512 for e in entry.iterdir())
    del one, two
    gc.collect()
    assert [p.name for p in (place / "promises").iterdir()] == ["gate"]


def test_a_quota_smaller_than_what_lies_there_is_told(tmp_path, place):
    """Whatever is asked for, also nothing yet: what lies there is named, and what clearing frees."""
    a = operand(tmp_path)
    with fl.Runtime(scratch=place):
        held = fl.compute(a + 1)
    with fl.Runtime(scratch=place, scratch_quota="3MiB"), pytest.raises(fl.StorageError) as caught:
        fl.compute(a + 2)
    assert caught.value.errno == errno.EDQUOT
    assert caught.value.filename == str(place)
    assert str(caught.value) == (
        f"compute: '{place}' holds 4 MiB already, which is more than its quota of 3 MiB; clear it, let "
        "results there go, raise the quota (scratch_quota=, FLAGSTONE_SCRATCH_QUOTA) or name out=."
    )
    assert held.shape == a.shape


def test_what_reductions_spill_counts_and_is_refused_before_work(tmp_path, place):
    """Partial results of rows wait for all columns: 72 MiB, of which a small limit holds a third."""
    rows = 3 << 20
    x = np.tile(np.arange(-8, 8, dtype=np.int8), (rows, 1))
    stored = fl.create(tmp_path / "x.zarr", x.shape, "int8", chunks=(1 << 20, 4))
    stored[...] = x
    del x, stored
    a = fl.open(tmp_path / "x.zarr")

    jobs = a.sum(axis=0), a.var(axis=1)

    def reduce(quota, memory):
        with fl.Runtime(scratch=place, scratch_quota=quota, memory=memory, workers=1) as runtime:
            return *fl.compute(*jobs), runtime.last.bytes_written

    def at_the_least(quota, memory=64 * MiB):
        for _ in range(8):
            try:
                return reduce(quota, memory)
            except fl.BudgetError as small:
                memory = small.least
        pytest.fail("the least limit that was named was refused eight times")

    with pytest.raises(fl.StorageError, match=r"^compute: needs .* of its quota of 1 MiB") as caught:
        at_the_least("1MiB")
    assert caught.value.errno == errno.EDQUOT
    assert quota.held(place) == 0
    del caught
    assert reduce("1MiB", "4GiB")[2] == 0  # in enough memory it takes nothing of the quota
    sums, spread, written = at_the_least("1GiB")
    assert written > 0
    np.testing.assert_array_equal(sums, rows * np.arange(-8, 8))
    assert (spread == 21.25).all()
    assert quota.held(place) == 0


def test_a_place_in_memory_that_is_named_is_taken_and_told(tmp_path):
    """Where nobody names one, such a place is passed over: the unit tests of storage/scratch mount some."""
    from flagstone._scratch.scratch import file_system

    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or file_system(memory) != "tmpfs":
        pytest.skip("no file system in memory here")
    named = memory / f"flagstone-test-{os.getpid()}"
    try:
        with fl.Runtime(scratch=named):
            assert fl.features()["scratch"] == str(named)
            assert fl.features()["scratch_file_system"] == "tmpfs"
            assert fl.compute(operand(tmp_path) + 1).shape == (512, 1024)
    finally:
        shutil.rmtree(named, ignore_errors=True)


def test_a_dead_process_promises_nothing(place):
    code = f"""
import os
from pathlib import Path
from flagstone._scratch import quota
kept = quota.promise("it", Path({str(place)!r}), None, {64 * MiB})
assert quota.held(Path({str(place)!r})) == {64 * MiB}
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert quota.held(place) == 0
    quota.promise("next", place, MiB, MiB).release()
    assert [p.name for p in (place / "promises").iterdir()] == ["gate"]


def test_what_a_killed_import_left_is_listed_cleared_and_swept(tmp_path, place):
    """Its build and the files of its sort."""
    sp.save_npz(tmp_path / "m.npz", sp.random(1500, 1500, 0.1, format="coo", random_state=0))
    code = """
import os, sys
import flagstone as fl
from flagstone._sparse import external_sort
def die(self, held=0):
    os._exit(9)
    yield
external_sort._Buckets.sorted = die
with fl.Runtime(scratch=sys.argv[1]):
    fl.open(sys.argv[2])
"""

    def killed() -> None:
        command = [sys.executable, "-c", code, str(place), str(tmp_path / "m.npz")]
        assert subprocess.run(command, check=False, timeout=120).returncode == 9

    killed()
    left = entries.entries(place)
    assert {entry.kind for entry in left} == {"left behind"}
    assert quota.held(place) >= sum(entry.nbytes for entry in left) > 0
    assert entries.clear(place)[0] == len(left)
    assert [p for p in (place / "imports").rglob("*") if p.is_file()] == []
    killed()
    with fl.Runtime(scratch=place):
        fl.open(tmp_path / "m.npz")  # the next import of the same file sweeps
    assert [entry.kind for entry in entries.entries(place)] == ["import"]
    assert list((place / "imports").glob(".*")) == []


def test_the_command_tells_quota_and_free_space(tmp_path, place):
    a = operand(tmp_path)
    environment = {**os.environ, "FLAGSTONE_SCRATCH_QUOTA": "32MiB"}

    def command(*arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "flagstone", *arguments],
            capture_output=True, text=True, check=check, env=environment, timeout=120,
        )  # fmt: skip

    with fl.Runtime(scratch=place):
        made = fl.compute(a + 1)
        text = command("scratch", "--scratch", str(place)).stdout
        assert "quota 32 MiB" in text
        assert "free on the disk" in text
        facts = json.loads(command("scratch", "--scratch", str(place), "--json").stdout)
        assert facts["quota"] == 32 * MiB
        assert facts["held"] >= made.nbytes
        assert facts["free"] > 0
        assert facts["clearable"] == 0
    out = str(tmp_path / "out.zarr")
    done = command(
        "matmul", str(tmp_path / "a.npy"), str(tmp_path / "a.npy"), "--transpose-b", "--out", out,
        "--scratch", str(place), "--scratch-quota", "nonsense", check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "scratch_quota" in done.stderr
