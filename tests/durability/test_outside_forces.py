"""What others do to a store: clocks, peers, read-only media, writes that no transaction covers."""

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
from flagstone import _core
from flagstone._runtime.call import Call

SHAPE = (64, 48)


def made(path: Path) -> fl.Array:
    array = fl.create(path, SHAPE, "float64", chunks=(16, 16))
    array[...] = 1
    return array


def every_file(path: Path) -> list[Path]:
    return [path, *path.rglob("*")]


def test_a_clock_that_goes_backwards_changes_nothing(tmp_path):
    """Times of files are for messages: commits are counted, not dated."""
    path = tmp_path / "a.zarr"
    writer, reader = made(path), fl.open(path)
    assert (reader[...] == 1).all()
    for k, when in enumerate((2_000_000_000, 1_000_000_000, 1, 3_000_000_000), 2):
        for file in every_file(path):
            os.utime(file, (when, when))
        writer[:20] = k
        for file in every_file(path):
            os.utime(file, (when - 500, when - 500))
        assert (reader[:20] == k).all()
        assert (fl.open(path)[20:] == 1).all()
        report = fl.check(path)
        assert report.ok
        assert report.verified == report.stored
    with fl.epochs(tmp_path / "ring.zarr", SHAPE) as ring:
        for k in range(1, 4):
            ring.next[...] = k
            ring.commit()
            for file in every_file(tmp_path / "ring.zarr"):
                os.utime(file, (10**9 - k, 10**9 - k))
            assert (fl.epochs(tmp_path / "ring.zarr", mode="r").current[...] == k).all()


def test_a_peer_that_rewrites_a_shard_during_a_transaction_is_noticed(tmp_path):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    array = made(path)
    member = Path(array.path)
    with (
        pytest.raises(fl.StorageError, match="another program rewrote a shard") as caught,
        fl.transaction(path),
    ):
        array[:16] = 2
        zarr.open_array(str(member), mode="r+")[16:] = 3
    assert caught.value.errno == errno.ESTALE
    expected = np.ones(SHAPE)
    expected[16:] = 3
    assert np.array_equal(fl.open(path)[...], expected)  # the peer's, nothing of ours
    assert np.array_equal(zarr.open_array(str(member), mode="r")[...], expected)
    again = fl.rechunk(
        fl.open(path), (16, 16), out=tmp_path / "b.zarr"
    )  # in a layout that is updated in place
    again = fl.open(tmp_path / "b.zarr", mode="r+")
    again[:16] = 4
    assert (fl.open(tmp_path / "b.zarr")[:16] == 4).all()


def test_what_no_transaction_covers_never_goes_over_a_commit(tmp_path):
    """The core writes so into arrays that nobody sees yet; one that others see is guarded."""
    path = tmp_path / "a.zarr"
    other = made(path)
    engine, place = Call("test").engine, other.path

    def outside(value: float) -> _core.Array:
        core = _core.open_zarr(place, True)
        engine.write_boxes(core, [([0, 0], np.full((16, 16), value))], 16 << 20)
        return core

    alone = outside(5.0)  # nobody committed since: it is stored before the transaction begins
    transaction = _core.Transaction()
    transaction.add(alone)
    transaction.rollback()
    assert (fl.open(path)[:16, :16] == 5).all()
    stale = outside(6.0)
    other[40:] = 7
    with pytest.raises(fl.StorageError, match="somebody has committed since"):
        _core.Transaction().add(stale)
    assert (fl.open(path)[40:] == 7).all()
    report = fl.check(path)
    assert all("does not match" not in str(damage) for damage in report.damages)
    other[:16, :16] = 8  # and the array goes on
    assert (fl.open(path)[:16, :16] == 8).all()


READ_ONLY = """
import sys
import numpy as np, flagstone as fl
path = sys.argv[1]
assert (fl.open(path)[...] == 1).all()
assert fl.check(path).ok
def assign():
    fl.open(path, mode="r+")[0] = 2
def create():
    fl.create(path + "/../b.zarr", 3, "f8")
for attempt in (assign, create):
    try:
        attempt()
    except fl.StorageError as error:
        print(error.errno)
assert (fl.open(path)[...] == 1).all()
"""


def test_read_only_media_are_read_and_refuse_writers_in_a_sentence(tmp_path):
    place = tmp_path / "media"
    place.mkdir()
    made(place / "a.zarr").close()
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    mount = f'mount --bind {place} {place} && mount -o remount,ro,bind {place} || exit 77; exec "$0" "$@"'
    command = ["unshare", "-m", "sh", "-c", mount, sys.executable, "-c", READ_ONLY, str(place / "a.zarr")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode in (1, 77) and "AssertionError" not in done.stderr and "Traceback" not in done.stderr:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(errno.EROFS)] * 2


def test_a_clock_that_goes_backwards_imports_again(tmp_path):
    """Imports go by equality of times, never by their order."""
    sp = pytest.importorskip("scipy.sparse")
    scratch = tmp_path / "scratch"
    with fl.Runtime(scratch=scratch):
        for k, when in enumerate((2_000_000_000, 1_000_000_000, 500), 1):
            matrix = sp.csr_matrix(np.diag(np.full(40, float(k))))
            sp.save_npz(tmp_path / "m.npz", matrix)
            os.utime(tmp_path / "m.npz", (when, when))
            assert (fl.open(tmp_path / "m.npz").to_scipy() != matrix).nnz == 0
            again = fl.open(tmp_path / "m.npz")
            assert again.import_seconds == 0  # this very file was imported


def test_a_shard_that_is_cut_short_is_named(tmp_path):
    """At the index, in a chunk, to nothing: an error that names the file, for readers and for check."""
    path = tmp_path / "a.zarr"
    made(path).close()
    shard = next(p for p in path.rglob("c/**/*") if p.is_file())
    whole = shard.read_bytes()
    for length in (len(whole) - 1, len(whole) // 2, 5, 0):
        shard.write_bytes(whole[:length])
        with pytest.raises((fl.FormatError, fl.StorageError)) as caught:
            fl.open(path)[...]
        assert "c/0" in str(caught.value)
        assert not fl.check(path).ok
    shard.write_bytes(whole)
    assert (fl.open(path)[...] == 1).all()


HOLDING = """
import sys
import flagstone as fl
with fl.transaction(sys.argv[1]):
    fl.open(sys.argv[1], mode="r+")[0] = 5
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_a_second_writer_is_told_who_the_first_is(tmp_path):
    path = tmp_path / "a.zarr"
    array = made(path)
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout.readline() == "ready\n"
    with pytest.raises(fl.StorageError, match=f"{first.pid}.*python") as caught:
        array[:16] = 2
    assert "since" in str(caught.value)
    first.communicate("\n")
    array[16:32] = 3
    assert (fl.open(path)[0] == 5).all()
    assert (fl.open(path)[16:32] == 3).all()


def test_a_million_chunks_are_opened_and_touched_in_bounded_memory(isolated):
    opened, element, grown = isolated(
        """
        from pathlib import Path
        a = fl.create("m.zarr", (1_000_000, 8), "float64", chunks=(1, 8))
        a[777_777] = 3
        a.close()
        def resident():
            text = Path("/proc/self/status").read_text()
            return int(text.split("VmRSS:")[1].split()[0]) << 10
        fl.open("m.zarr")
        before = resident()
        b = fl.open("m.zarr", mode="r+")
        repr(b)
        element = [float(b[777_777, 3]), float(b[5, 5])]
        b[12, :] = 1
        element.append(float(fl.open("m.zarr")[12, 7]))
        files = sum(p.is_file() for p in Path("m.zarr").rglob("*"))
        result = [files, element, resident() - before]
        """
    )
    assert element == [3.0, 0.0, 1.0]
    assert opened < 20  # files
    assert grown < 32 << 20
