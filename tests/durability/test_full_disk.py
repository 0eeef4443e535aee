"""A full disk costs nothing: what is given up gives its space back, and checksums go on counting."""

from __future__ import annotations

import errno
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import flagstone as fl
from flagstone._errors.messages import writing

CHUNK = 2 << 20  # bytes: of 512 x 512 float64


def free(place: Path) -> int:
    """Bytes that are free where `place` lies."""
    os.sync()  # what ext4 frees counts when its journal has been written
    told = os.statvfs(place)
    return told.f_bavail * told.f_frsize


def taken(path: Path) -> int:
    """Bytes that the shards of an array take on the disk."""
    return sum(file.stat().st_blocks * 512 for file in (path / "c").rglob("*") if file.is_file())


@pytest.fixture
def full(small_disk):
    """An array of 32 MiB on a disk of 64 MiB, with 16 MiB free: a second version of it does not fit."""
    values = np.random.default_rng(0).standard_normal((2048, 2048))
    path = small_disk / "a.zarr"
    fl.create(path, values.shape, "float64", chunks=(512, 512))[...] = values
    with open(small_disk / "other", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, free(small_disk) - 8 * CHUNK)
    return path, values


def in_order(path: Path, values: np.ndarray) -> None:
    """The old elements are there, and every chunk has a checksum that it equals."""
    assert np.array_equal(fl.open(path)[...], values)
    report = fl.check(path)
    assert report.ok
    assert report.verified == report.stored == 16
    assert not report.notes


def killed(path: Path) -> None:
    """A process that is killed when it has updated six of sixteen chunks and committed nothing."""
    code = """
import os, signal, sys
import flagstone as fl
a = fl.open(sys.argv[1], mode="r+")
with fl.transaction(sys.argv[1]):
    a[:768] = a[:768] + 1
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]


@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_failed_assignments(full, times):
    """Each fills the disk, and leaves it as it was; what has room works then."""
    path, values = full
    before, held = free(path), taken(path)
    a = fl.open(path, mode="r+")
    for attempt in range(times):
        with pytest.raises(fl.StorageError, match="are free") as caught:
            a[...] = values + attempt
        assert caught.value.errno == errno.ENOSPC
        if attempt % 9 == 0:
            assert abs(free(path) - before) <= CHUNK
            in_order(path, values)
    assert abs(free(path) - before) <= CHUNK
    assert taken(path) <= held + CHUNK // 8
    a[:512, :512] = 3
    values[:512, :512] = 3
    in_order(path, values)


def test_an_error_of_the_caller(full):
    """Also where a part of the transaction was written, and where it had found no room."""
    path, values = full
    before = free(path)
    a = fl.open(path, mode="r+")
    for rows in (768, 2048):
        with pytest.raises((KeyError, fl.StorageError)), fl.transaction(path):
            a[:rows] = values[:rows] + 1
            raise KeyError
        assert abs(free(path) - before) <= CHUNK
        in_order(path, values)


@pytest.mark.parametrize("comes", ["writer", "repair"])
def test_a_killed_writer(full, comes):
    """It gives back nothing; who comes next does."""
    path, values = full
    before = free(path)
    killed(path)
    assert free(path) < before - 4 * CHUNK
    in_order(path, values)
    if comes == "repair":
        assert fl.repair(path).ok
    else:
        fl.open(path, mode="r+")[0, 0] = values[0, 0] = 9
        before -= CHUNK  # the old version of what was written, until it is updated again
    assert abs(free(path) - before) <= CHUNK
    in_order(path, values)


def test_killed_writers_one_after_the_other(full):
    """Killed writers follow each other, none gives anything back but what the one before it had taken."""
    path, values = full
    before = free(path)
    for _ in range(3):
        killed(path)
        assert before - 8 * CHUNK < free(path) < before - 4 * CHUNK
    assert fl.repair(path).ok
    assert abs(free(path) - before) <= CHUNK
    in_order(path, values)


def test_repair_gives_back_old_versions(tmp_path):
    """Slots of what was updated are kept for the next update, until repair."""
    values = np.random.default_rng(1).standard_normal((1024, 1024))
    path = tmp_path / "a.zarr"
    a = fl.create(path, values.shape, "float64", chunks=(512, 512))
    a[...] = values
    held = taken(path)
    a[...] = values + 1
    assert taken(path) >= 2 * held - CHUNK
    assert fl.repair(path).ok
    assert taken(path) <= held + CHUNK // 8
    assert np.array_equal(a[...], values + 1)
    report = fl.check(path)
    assert report.verified == report.stored == 4


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@pytest.mark.parametrize("checksum", ["sidecar", "inner"])
def test_what_is_given_up_is_punched_of_every_kind_of_array(tmp_path, codec, checksum):
    values = np.random.default_rng(2).standard_normal((1024, 1024))
    path = tmp_path / "a.zarr"
    a = fl.create(path, values.shape, "float64", chunks=(128, 128), codec=codec, checksum=checksum)
    a[...] = values
    held = taken(path)
    for _ in range(3):
        with pytest.raises(KeyError), fl.transaction(path):
            a[...] = values + 1
            raise KeyError
    assert taken(path) <= held + (64 << 10)
    assert np.array_equal(a[...], values)
    assert fl.check(path).ok


# Files of other formats -------------------------------------------------------------------------------------


@pytest.fixture
def little_room(small_disk):
    """A disk with 2 MiB left."""
    with open(small_disk / "other", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, free(small_disk) - CHUNK)
    return small_disk


def refused(place: Path, call) -> str:
    """What a call says that finds no room in `place`, where it leaves nothing."""
    there, before = sorted(os.listdir(place)), free(place)
    with pytest.raises(fl.StorageError) as caught:
        call()
    assert caught.value.errno == errno.ENOSPC
    assert sorted(os.listdir(place)) == there
    assert free(place) >= before - 4096
    return str(caught.value)


def test_every_writer_of_a_file_says_that_the_disk_is_full(little_room, tmp_path):
    """Dense and sparse: which file, how much is free, what to do; none leaves a part of it."""
    dense = fl.from_numpy(np.random.default_rng(3).standard_normal((1000, 1000)))
    sparse = fl.from_blocks([scipy.sparse.random(1000, 1000, 0.5, "csr", rng=4)], tmp_path / "s.zarr")
    kinds = ["npz", "mtx", "mtx.gz", "svm", "svm.gz", "h5", "npy", "zarr", "csv", "csv.gz"]
    if importlib.util.find_spec("pyarrow"):
        kinds += ["parquet", "arrow"]
    for kind in kinds:
        for source in (dense, sparse):
            if source is sparse and kind in ("parquet", "arrow", "npy", "h5", "csv", "csv.gz"):
                continue
            text = refused(little_room, lambda k=kind, s=source: fl.convert(s, little_room / f"o.{k}"))
            assert f"o.{kind}" in text, text
            assert "free" in text, text
            assert "\n" not in text
    fl.convert(fl.from_numpy(dense[:100]), little_room / "o.npz")
    assert np.array_equal(np.load(little_room / "o.npz")["arr_0"], dense[:100])


def test_an_import_that_finds_no_room_in_scratch(little_room, tmp_path):
    values = np.random.default_rng(5).standard_normal((1000, 1000))
    np.savez_compressed(tmp_path / "a.npz", values)
    scipy.io.mmwrite(tmp_path / "a.mtx", values)
    with fl.Runtime(scratch=little_room):
        (little_room / "imports").mkdir()
        (little_room / "promises").mkdir()
        (little_room / "promises" / "gate").touch()
        for name in ("a.npz", "a.mtx"):
            assert "free" in refused(little_room / "imports", lambda n=name: fl.open(tmp_path / n))


def test_errors_about_other_files_stay_what_they_are(tmp_path):
    """Only what is written is called so: not a source that has gone."""
    with pytest.raises(FileNotFoundError, match="gone"):
        fl.convert(fl.from_numpy(np.ones((3, 3))), tmp_path / "a.svm", labels=tmp_path / "gone.npy")
    with pytest.raises(OSError, match="other") as caught, writing("convert", "here"):
        raise PermissionError(errno.EACCES, "other", "there")
    assert not isinstance(caught.value, fl.StorageError)
    with (
        pytest.raises(fl.StorageError, match="convert: cannot write 'here': Input/output error."),
        writing("convert", "here"),
    ):
        raise OSError("unable to close the file, errno = 5, error message = '...'")
