"""Checksums: damage is found on read, named by check, mended by repair where it can be."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.disk_bytes import flip
from tests.support.examples import examples


def made(path: Path, shape=(96, 64), checksum="sidecar") -> np.ndarray:
    values = np.random.default_rng(1).normal(size=shape)
    array = fl.create(path, shape, "float64", chunks=(32, 32), overwrite=True, checksum=checksum)
    array[...] = values
    array.close()
    return values


def files_of(path: Path) -> list[Path]:
    return sorted(f for f in path.rglob("*") if f.is_file() and f.name != "zarr.json")


@examples(40, HealthCheck.function_scoped_fixture)
@given(place=st.floats(0, 1, exclude_max=True), which=st.integers(0, 2), bit=st.integers(0, 7),
       quiet=st.booleans())  # fmt: skip
def test_a_flipped_bit_anywhere_is_found(tmp_path, place, which, bit, quiet):
    path = tmp_path / "a.zarr"
    values = made(path, (96, 64))
    files = files_of(path)
    assert [f.name for f in files] == ["chunks.bin", "journal", "lock", "metadata", "0"]
    file = files[[0, 1, 4][which]]
    size = [64 + 64 + 8 * 6, 64, 6 * 8192][which]  # without the padding at the end
    byte = int(place * (size + (100 if which == 2 else 0)))
    if byte >= size:
        byte = file.stat().st_size - 1 - (byte - size)  # the index
    flip(file, byte, bit, quiet)
    with pytest.raises(fl.FormatError, match="damaged"):
        fl.open(path)[...]
    assert not fl.check(path).ok
    flip(file, byte, bit, quiet)
    assert np.array_equal(fl.open(path)[...], values)
    assert fl.check(path).ok


def test_every_job_that_reads_chunks_sees_it(tmp_path):
    path = tmp_path / "a.zarr"
    values = made(path, (64, 64))
    flip(path / "array" / "c" / "0" / "0", 8192 + 100)
    A = fl.open(path)
    B = fl.from_numpy(values)
    for job in [lambda: A @ B, lambda: fl.compute(A + 1), lambda: np.asarray(A), lambda: fl.pca(A, 2)]:
        with pytest.raises(fl.FormatError, match=r"chunk \(0, 1\) does not match its checksum"):
            job()
    assert np.array_equal(A[:32, :32], values[:32, :32])  # the other chunks are there


def test_the_only_chunk_of_an_array_is_verified(tmp_path):
    """Its chunk is as large as the array, as a flat file's is said to be."""
    values = np.random.default_rng(1).normal(size=(512, 512))
    path = tmp_path / "a.zarr"
    A = fl.create(path, values.shape, "float64", chunks=values.shape)
    A[...] = values
    flip(path / "array" / "c" / "0" / "0", 1000, 6)
    A, B = fl.open(path), fl.from_numpy(values)
    jobs = [
        lambda: A[...], lambda: np.asarray(A.T), lambda: A.T[...], lambda: A[np.arange(512)],
        lambda: A[::-1], lambda: A @ B, lambda: B @ A.T, lambda: fl.compute(A + 1),
        lambda: fl.compute(A.T + values), lambda: fl.rechunk(A, (64, 64)),
    ]  # fmt: skip
    for job in jobs:
        with pytest.raises(fl.FormatError, match=r"chunk \(0, 0\) does not match its checksum"):
            job()

    parts = fl.create(tmp_path / "parts.zarr", values.shape, "float64", chunks=values.shape)
    parts[::2] = values[::2]  # pieces of one chunk
    parts[1::2] = values[1::2]
    assert np.array_equal(parts[...], values)

    line = np.arange(1 << 18, dtype=np.float64)
    fl.create(tmp_path / "line.zarr", line.shape, "float64", chunks=line.shape)[...] = line
    flip(tmp_path / "line.zarr" / "array" / "c" / "0", 1000, 6)
    with pytest.raises(fl.FormatError, match=r"chunk \(0\) does not match its checksum"):
        fl.rechunk(fl.open(tmp_path / "line.zarr"), (4096,))


def test_sparse_members_are_verified(tmp_path):
    X = scipy.sparse.random(3000, 400, 0.05, "csr", dtype=np.float32, random_state=1)
    scipy.sparse.save_npz(tmp_path / "x.npz", X)
    fl.convert(tmp_path / "x.npz", tmp_path / "x.zarr")
    assert fl.check(tmp_path / "x.zarr").verified == 3
    for name in ("data", "indices", "indptr"):
        flip(tmp_path / "x.zarr" / name / "c" / "0", 1000)
        with pytest.raises(fl.FormatError):
            fl.open(tmp_path / "x.zarr") @ np.ones((400, 1), np.float32)
        report = fl.check(tmp_path / "x.zarr")
        assert [d.chunk for d in report.damages] == [(0,)]
        assert name in report.damages[0].file
        flip(tmp_path / "x.zarr" / name / "c" / "0", 1000)
    assert fl.check(tmp_path / "x.zarr").ok


@pytest.mark.parametrize("checksum", ["sidecar", "inner", "none"])
def test_peers_open_and_list_without_warnings(tmp_path, checksum):
    zarr = pytest.importorskip("zarr")
    tensorstore = pytest.importorskip("tensorstore")
    values = made(tmp_path / "a.zarr", (100, 70), checksum)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = zarr.open_group(tmp_path / "a.zarr", mode="r")
        assert list(group.array_keys()) == ["array"]
        assert list(group.members())
        assert np.array_equal(group["array"][...], values)
    store = tensorstore.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/a.zarr/array"}}
    ).result()
    assert np.array_equal(store.read().result(), values)
    assert np.array_equal(fl.open(tmp_path / "a.zarr")[...], values)
    codecs = json.loads((tmp_path / "a.zarr/array/zarr.json").read_text())["codecs"]
    assert ("crc32c" in str(codecs[0]["configuration"]["codecs"])) == (checksum == "inner")
    assert (tmp_path / "a.zarr/array/__flagstone/chunks.bin").exists() == (checksum == "sidecar")


def test_a_peer_that_rewrites_makes_them_unknown_not_wrong(tmp_path):
    zarr = pytest.importorskip("zarr")
    values = made(tmp_path / "a.zarr", (96, 64))
    A = fl.open(tmp_path / "a.zarr")
    assert A[0, 0] == values[0, 0]
    zarr.open_group(tmp_path / "a.zarr", mode="r+")["array"][5:40, 3] = 7.0
    values[5:40, 3] = 7.0
    assert np.array_equal(fl.open(tmp_path / "a.zarr")[...], values)
    report = fl.check(tmp_path / "a.zarr")
    assert report.ok
    assert report.verified == 0
    assert "another program" in report.notes[0]
    fl.repair(tmp_path / "a.zarr", accept=True)
    assert fl.check(tmp_path / "a.zarr").verified == 6


def test_inner_checksums_are_verified_and_can_be_assigned(tmp_path):
    values = made(tmp_path / "a.zarr", (96, 64), "inner")
    with fl.open(tmp_path / "a.zarr", mode="r+") as A:
        A[10:40, 5] = 3.0
    values[10:40, 5] = 3.0
    assert np.array_equal(fl.open(tmp_path / "a.zarr")[...], values)
    assert fl.check(tmp_path / "a.zarr").verified == 6
    flip(tmp_path / "a.zarr/array/c/0/0", 12288 + 100)  # chunk (0, 1) has not moved
    with pytest.raises(fl.FormatError, match="checksum does not match"):
        fl.open(tmp_path / "a.zarr")[...]


def test_assignment_keeps_the_checksums_right(tmp_path):
    values = made(tmp_path / "a.zarr", (96, 64))
    rng = np.random.default_rng(3)
    for _ in range(20):
        with fl.open(tmp_path / "a.zarr", mode="r+") as A:
            i, j = rng.integers(0, 90), rng.integers(0, 60)
            A[i : i + 9, j:] = values[i : i + 9, j:] = rng.normal()
        assert np.array_equal(fl.open(tmp_path / "a.zarr")[...], values)
    report = fl.check(tmp_path / "a.zarr")
    assert report.ok
    assert report.verified == report.stored == 6


def test_repair_brings_back_an_index_and_says_what_is_lost(tmp_path):
    path = tmp_path / "a.zarr"
    values = made(path)
    shard = path / "array/c/0/0"
    flip(shard, shard.stat().st_size - 20)
    assert "index" in str(fl.check(path))
    report = fl.repair(path)
    assert report.ok
    assert "index was written anew" in report.repaired[0]
    assert np.array_equal(fl.open(path)[...], values)
    flip(shard, 3 * 8192)
    report = fl.repair(path)
    assert [d.chunk for d in report.lost] == [(1, 1)]
    assert "chunk (1, 1)" in str(report)


def test_the_command_line_says_it_and_exits_with_one(tmp_path):
    made(tmp_path / "a.zarr")
    command = [sys.executable, "-m", "flagstone", "check", str(tmp_path / "a.zarr")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert "6 of 6 stored chunks equal their checksums" in run.stdout
    flip(tmp_path / "a.zarr/array/c/0/0", 9000, quiet=False)
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "chunk (0, 1)" in run.stdout
    run = subprocess.run(
        [*command, "--repair", "--accept", "--json"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0
    assert json.loads(run.stdout)["ok"]
    with pytest.raises(FileNotFoundError):
        fl.check(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(fl.FormatError, match="without zarr.json"):
        fl.check(tmp_path / "empty")
