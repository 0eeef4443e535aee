"""Disks that are full, over a quota, read-only or unreadable: one sentence, nothing left, and it goes on."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl
from tests.support.faults.bad_disk import CALLS, environment

ROOT = Path(__file__).resolve().parents[2]

#: In a process whose disk can be made bad: `folder` is where results go, `disk` makes it bad.
BEGIN = """
import errno, traceback
from pathlib import Path
from tests.support.faults.bad_disk import FOREVER, Calls, Disk, moments, told
folder, operands = Path("bad").absolute(), Path("good").absolute()
folder.mkdir(), operands.mkdir()
runtime = fl.Runtime(io="threads", workers=1, scratch=Path("scratch").absolute())
runtime.__enter__()
def bits(path):
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(Path(path).rglob("*")) if f.is_file()}
"""


@pytest.fixture
def bad(isolated):
    """Runs code where `Disk` works."""

    def run(code: str, **values):
        import textwrap

        return isolated(BEGIN + textwrap.dedent(code), env=environment(), **values)

    return run


@pytest.mark.parametrize("name", CALLS)
def test_a_disk_that_fails_at_any_moment_leaves_old_or_nothing_and_the_call_works_again(bad, name):
    """ENOSPC and EDQUOT (from there on), EIO (once): a sentence, the old result whole, nothing beside it."""
    told_of = bad(
        """
        calls = Calls(operands, folder)
        expected = getattr(calls, name)()
        for path in list(folder.iterdir()):
            import shutil
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        disk = Disk(folder)
        disk.heal()
        getattr(calls, name)()
        steps = disk.count()
        result = []
        for fresh, number, times, most in (
            (True, errno.ENOSPC, FOREVER, 4), (False, errno.EDQUOT, FOREVER, 3), (False, errno.EIO, 1, 3)
        ):
            for at in moments(steps, most):
                for path in list(folder.iterdir()):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                calls.old(fresh)
                old, before = bits(folder), told(folder)
                disk.heal()
                disk.fail(number, at, times)
                try:
                    getattr(calls, name)()
                except fl.StorageError as error:
                    result.append([number, error.errno, str(error), disk.count()])
                    assert bits(folder) == old, (at, number, sorted(set(bits(folder)) ^ set(old)))
                    assert told(folder) == before, (at, number, told(folder))
                except BaseException as error:
                    raise AssertionError(f"step {at}, errno {number}: {type(error)}: {error}") from error
                disk.heal()
                assert np.array_equal(getattr(calls, name)(), expected), (at, number)
        """,
        name=name,
    )
    assert len(told_of) > 5
    for number, got, text, _ in told_of:
        assert got == number, text
        assert "\n" not in text
        assert ".flagstone-tmp-" not in text
        if number in (errno.ENOSPC, errno.EDQUOT):
            assert "free" in text, text


def test_a_read_only_disk_refuses_every_call_in_a_sentence(bad):
    refused = bad(
        """
        calls = Calls(operands, folder)
        disk = Disk(folder)
        disk.fail(errno.EROFS, kinds="grow change")
        result = []
        for name in names:
            try:
                getattr(calls, name)()
            except fl.StorageError as error:
                result.append([error.errno, str(error), isinstance(error, PermissionError)])
        disk.heal()
        assert told(folder) == []
        calls.matmul()
        """,
        names=CALLS,
    )
    assert len(refused) == len(CALLS)
    for number, text, permission in refused:
        assert number == errno.EROFS
        assert permission
        assert "bad" in text


def test_what_cannot_be_read_is_named_and_the_process_goes_on(bad):
    """EIO of an operand, in the middle of jobs: nothing is left of the result, the call works after it."""
    told_of = bad(
        """
        calls = Calls(operands, folder)
        disk = Disk(operands)
        result = []
        for name in names:
            disk.heal()
            expected = getattr(calls, name)()
            reads = disk.count("read")
            assert reads > 0, name
            for at in moments(reads, 3):
                before = told(folder)
                disk.heal()
                disk.fail(errno.EIO, at, 1, kinds="read")
                try:
                    got = getattr(calls, name)()
                except (fl.StorageError, OSError) as error:
                    result.append([name, error.errno, str(error), isinstance(error, fl.StorageError)])
                else:
                    assert np.array_equal(got, expected), name
                assert told(folder) == before, (name, at)
                disk.heal()
                assert np.array_equal(getattr(calls, name)(), expected)
        """,
        names=["matmul", "pca", "rechunk", "compute", "convert", "pack"],
    )
    assert len({name for name, *_ in told_of}) >= 5  # of six: requests join, and moments are missed
    for name, number, text, ours in told_of:
        assert number == errno.EIO, (name, text)
        assert ours, (name, text)
        assert "good/" in text, text


def test_assignments_and_transactions_on_a_full_disk(bad):
    """Nothing of a transaction that found no room is stored; the handle goes on."""
    refused = bad(
        """
        a = fl.create(folder / "data.zarr/a", (128, 128), "float64", chunks=(32, 32))
        b = fl.create(folder / "data.zarr/b", (128, 128), "float64", chunks=(32, 32))
        a[...] = 1
        b[:32] = 1
        first = a[...], b[...]
        disk = Disk(folder)
        def both(value):
            with fl.transaction(folder / "data.zarr"):
                a[:64] = value
                b[:, 32:] = value
        disk.heal(); both(2); steps = disk.count(); a[...] = first[0]; b[...] = first[1]
        result = []
        for number in (errno.ENOSPC, errno.EDQUOT):
            for at in moments(steps, 6):
                was = a[...], b[...]
                disk.heal()
                disk.fail(number, at)
                try:
                    both(3 + at)
                except fl.StorageError as error:
                    result.append([number, error.errno, str(error)])
                    stored = "stored" in str(error) and "nothing" not in str(error)
                else:
                    stored = True
                disk.heal()
                for array, old in zip((a, b), was):
                    if not stored:
                        assert np.array_equal(array[...], old), at
                        assert np.array_equal(fl.open(array.path)[...], old), at
                both(5)
                assert (fl.open(a.path)[:64] == 5).all() and (fl.open(b.path)[:, 32:] == 5).all()
                assert fl.check(folder / "data.zarr").ok
        """
    )
    assert len(refused) > 5
    for number, got, text in refused:
        assert got == number, text
        assert "free" in text, text


def test_an_assignment_that_found_no_room_and_was_caught_is_not_stored_in_part(bad):
    """Inside a transaction: whole, or not at all; where a part of it was written, nothing of the block."""
    kinds = bad(
        """
        a = fl.create(folder / "data.zarr/a", (128, 128), "float64", chunks=(32, 32))
        b = fl.create(folder / "data.zarr/b", (128, 128), "float64", chunks=(32, 32))
        disk = Disk(folder)
        def block(value):
            caught = False
            with fl.transaction(folder / "data.zarr"):
                a[:64] = value
                disk.heal()
                if at is not None:
                    disk.fail(errno.ENOSPC, at)
                try:
                    b[...] = np.full((128, 128), value)
                except fl.StorageError:
                    caught = True
                steps = disk.count()
                disk.heal()
            return caught, steps
        a[...] = 1; b[...] = 1; at = None
        _, steps = block(2)
        result = []
        for at in range(1, steps + 1):
            value, was = 3.0 + at, (a[...], b[...])
            try:
                caught, _ = block(value)
            except fl.Error as error:
                assert "nothing of the block is stored" in str(error), error
                kind = "nothing"
                assert np.array_equal(fl.open(a.path)[...], was[0])
                assert np.array_equal(fl.open(b.path)[...], was[1])
            else:
                kind = "without" if caught else "all"
                assert (fl.open(a.path)[:64] == value).all()
                assert np.array_equal(fl.open(b.path)[...], was[1] if caught else np.full((128, 128), value))
            assert np.array_equal(b[...], fl.open(b.path)[...])
            result.append(kind)
        assert fl.check(folder / "data.zarr").ok
        """
    )
    assert "nothing" in kinds, kinds


def test_without_exchange_and_without_noreplace(bad):
    """Results replace results in two steps, files and new results in one; nothing is left beside them."""
    assert bad(
        """
        calls = Calls(operands, folder)
        disk = Disk(folder)
        disk.lacks(flags=True)
        result = 0
        for name in names:
            for fresh in (True, False):
                calls.old(fresh)
                expected = getattr(calls, name)()
                assert np.array_equal(getattr(calls, name)(), expected), name
                assert [n for n in told(folder) if n.startswith(".")] == [], name
                result += 1
        """,
        names=CALLS,
    ) == 2 * len(CALLS)


def test_without_fallocate_space_is_checked_and_stats_say_so(bad):
    with_it, without = bad(
        """
        calls = Calls(operands, folder)
        expected = calls.matmul()
        with_it = fl.stats().io
        disk = Disk(folder)
        disk.lacks(fallocate=True)
        assert np.array_equal(calls.matmul(), expected)
        without = fl.stats().io
        result = [with_it, without]
        """
    )
    assert "reserved" not in with_it
    assert "checked, not reserved" in without


def test_a_result_takes_its_space_before_it_is_computed(tmp_path):
    """What a job will write is taken from the file system when it starts; the rest goes back."""
    shape = (1024, 512)
    a = fl.from_numpy(np.ones(shape), tmp_path / "a.zarr")
    seen = []

    def half(block):
        build = next(p for p in tmp_path.iterdir() if p.name.startswith(".out.zarr") and p.is_dir())
        seen.append(sum(f.stat().st_blocks * 512 for f in build.rglob("c/**/*") if f.is_file()))
        return block * 0 if len(seen) % 2 else block

    fl.map_blocks(half, a, out=tmp_path / "out.zarr")
    if "not reserved" in fl.stats().io:
        pytest.skip("this file system cannot reserve")
    assert min(seen) >= a.nbytes
    made = fl.open(tmp_path / "out.zarr")
    taken = sum(f.stat().st_blocks * 512 for f in (tmp_path / "out.zarr").rglob("c/**/*") if f.is_file())
    assert taken <= int((made[...] != 0).sum()) * 8 + (64 << 10)  # zeros went back


# Small disks of our own -------------------------------------------------------------------------------------


WAITING = """
import sys
import numpy as np, flagstone as fl
def wait(block):
    if not wait.told:
        wait.told = True
        print("ready", flush=True)
        sys.stdin.readline()
    return block + 1
wait.told = False
a = fl.open(sys.argv[1])
fl.map_blocks(wait, a, out=sys.argv[2] or None)
print("done", flush=True)
"""


@pytest.mark.parametrize("where", ["out", "scratch"])
def test_two_jobs_are_never_promised_the_same_bytes(small_disk, tmp_path, where):
    """The first has written nothing yet, and the second is refused before it starts; after it, it works."""
    values = np.random.default_rng(0).random((2048, 2048))  # 32 MiB
    np.save(tmp_path / "a.npy", values)
    out = str(small_disk / "one.zarr") if where == "out" else ""
    first = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(tmp_path / "a.npy"), out],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "FLAGSTONE_SCRATCH": str(small_disk / "scratch")},
    )  # fmt: skip
    assert first.stdout.readline() == "ready\n"
    try:
        a = fl.open(tmp_path / "a.npy")
        with (
            fl.Runtime(scratch=small_disk / "scratch"),
            pytest.raises(fl.StorageError, match="are free|of space left") as caught,
        ):
            fl.compute(a + 2, out=str(small_disk / "two.zarr") if where == "out" else None)
        assert caught.value.errno == errno.ENOSPC
        assert not any("two" in name for name in os.listdir(small_disk))
    finally:
        rest = first.communicate("\n")[0]
    assert "done" in rest
    if where == "out":
        assert np.array_equal(fl.open(out)[...], values + 1)
        shutil.rmtree(out)
    with fl.Runtime(scratch=small_disk / "scratch"):
        again = fl.compute(a + 2, out=str(small_disk / "two.zarr") if where == "out" else None)
        assert np.array_equal(again[...], values + 2)


def test_a_killed_job_gives_its_space_back_to_the_next(small_disk, tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((2048, 2048)))
    for out in (str(small_disk / "one.zarr"), ""):
        first = subprocess.Popen(
            [sys.executable, "-c", WAITING, str(tmp_path / "a.npy"), out],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "FLAGSTONE_SCRATCH": str(small_disk / "scratch")},
        )  # fmt: skip
        assert first.stdout.readline() == "ready\n"
        first.kill()
        first.communicate()
        with fl.Runtime(scratch=small_disk / "scratch"):
            made = fl.compute(fl.open(tmp_path / "a.npy") + 2, out=out or None)
            assert made.shape == (2048, 2048)
            made.close()
            if out:
                fl.delete(out)


def test_a_full_disk_in_the_middle_with_the_real_ring(small_disk, tmp_path):
    """Sparse and packed outputs reserve nothing: the disk is full when it is full."""
    values = np.random.default_rng(1).random((3000, 3000))  # 69 MiB, which zstd hardly shortens
    for attempt in (
        lambda: fl.from_numpy(values, small_disk / "b.zarr", codec="zstd:1"),
        lambda: fl.from_blocks([values[:1000], values[1000:2000], values[2000:]], small_disk / "b.zarr"),
    ):
        with pytest.raises(fl.StorageError, match="are free") as caught:
            attempt()
        assert caught.value.errno == errno.ENOSPC
        assert ".flagstone-tmp-" not in str(caught.value)
        assert [n for n in os.listdir(small_disk) if n != "lost+found"] == []
    assert np.array_equal(
        fl.from_numpy(values[:300], small_disk / "b.zarr", codec="zstd:1")[...], values[:300]
    )
