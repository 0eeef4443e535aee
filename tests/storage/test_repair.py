"""What is damaged is said, whatever is asked for, and mended where it can be."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import flagstone as fl
from tests.support.disk_bytes import flip, inner, shards

# Verified, whatever is asked for ----------------------------------------------------------------------------


def test_parts_are_verified_on_request(tmp_path):
    values = np.random.default_rng(8).random((256, 256))
    path = tmp_path / "a.zarr"
    fl.create(path, values.shape, "f8", chunks=(64, 64))[...] = values
    flip(shards(path)[0], 64 * 64 * 8 - 1)  # the end of chunk (0, 0)
    assert fl.open(path)[0, 0] == values[0, 0]  # a part is read without looking at the rest
    a = fl.open(path, verify=True)
    np.testing.assert_array_equal(a[70:90, 3:200], values[70:90, 3:200])
    assert a[100, 100] == values[100, 100]
    for one in (a, pickle.loads(pickle.dumps(a))):
        with pytest.raises(fl.FormatError, match=r"chunk \(0, 0\) does not match"):
            one[0, 0]
    with pytest.raises(fl.FormatError, match="leave verify out"):
        np.save(tmp_path / "a.npy", values)
        fl.open(tmp_path / "a.npy", verify=True)


# Damage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["raw", "zstd", "gzip", "blosc-lz4"])
def test_a_flipped_bit_in_a_packed_chunk_is_found_and_the_index_mended(tmp_path, codec):
    path = tmp_path / "a.zarr"
    values = np.random.default_rng(9).integers(0, 99, (256, 256)).astype("f8")
    fl.create(path, values.shape, "f8", chunks=(64, 64), codec=codec)[...] = values
    (shard,) = shards(path)
    flip(shard, 100)
    with pytest.raises(fl.FormatError, match=r"chunk \(0, 0\)"):
        fl.open(path)[...]
    flip(shard, 100)
    flip(shard, shard.stat().st_size - 20)
    with pytest.raises(fl.FormatError, match="index"):
        fl.open(path)[...]
    assert fl.repair(path).ok
    np.testing.assert_array_equal(fl.open(path)[...], values)
    assert fl.check(path).ok


def test_a_shard_that_is_missing_is_said(tmp_path):
    path = tmp_path / "a.zarr"
    a = fl.create(path, (64, 64), "f8", chunks=(32, 32))
    a[:32] = 5
    (shard,) = shards(path)
    kept = tmp_path / "kept"
    shutil.move(shard, kept)
    for read in (lambda: fl.open(path)[0, 0], lambda: fl.open(path, mode="r+").__setitem__((0, 0), 1)):
        with pytest.raises(fl.FormatError, match="is missing, and 2 of its chunks were stored"):
            read()
    report = fl.check(path)
    assert not report.ok
    assert "missing" in str(report)
    assert "missing" in str(fl.repair(path))
    assert not fl.repair(path).ok
    shutil.move(kept, shard)
    assert fl.check(path).ok
    assert fl.open(path)[0, 0] == 5
    shard.unlink()
    assert fl.repair(path, accept=True).ok
    assert fl.check(path).ok
    assert fl.open(path)[0, 0] == 0
    fl.open(path, mode="r+")[0, 0] = 2
    assert fl.open(path)[0, 0] == 2
    assert fl.check(path).ok


def test_what_a_peer_wrote_is_unknown_and_an_equal_length_is_damage(tmp_path):
    """Peers' shards have another length; what keeps length and index cannot be told from damage."""
    zarr = pytest.importorskip("zarr", minversion="3")
    ts = pytest.importorskip("tensorstore")
    path = tmp_path / "a.zarr"
    values = np.random.default_rng(10).random((64, 64))
    for write in (
        lambda: zarr.open_array(str(inner(path)), mode="r+").__setitem__(slice(0, 32), 1.5),
        lambda: ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(inner(path))}})
        .result()[:32].write(1.5).result(),
    ):  # fmt: skip
        fl.create(path, values.shape, "f8", chunks=(32, 32), overwrite=True)[...] = values
        write()
        expected = values.copy()
        expected[:32] = 1.5
        np.testing.assert_array_equal(fl.open(path)[...], expected)
        report = fl.check(path)
        assert report.ok
        assert report.verified == 0
        assert report.notes
    fl.create(path, values.shape, "f8", chunks=(32, 32), overwrite=True)[...] = values
    (shard,) = shards(path)
    with shard.open("r+b") as file:
        file.write(np.full(4, 2.5).tobytes())
    os.utime(shard, ns=(1, shard.stat().st_mtime_ns + 10**9))
    with pytest.raises(fl.FormatError, match=r"changed after it was written.*accept=True"):
        fl.open(path)[...]
    assert fl.repair(path, accept=True).ok
    assert (fl.open(path)[0, :4] == 2.5).all()
    assert fl.check(path).ok


def test_repair_leaves_a_longer_file_alone(tmp_path):
    path = tmp_path / "a.zarr"
    fl.create(path, (64, 64), "f8", chunks=(32, 32))[...] = 1
    (shard,) = shards(path)
    with shard.open("ab") as file:
        file.write(b"somebody else's")
    size = shard.stat().st_size
    report = fl.repair(path)
    assert "longer" in str(report)
    assert shard.stat().st_size == size


def test_wrong_arguments_are_one_sentence(tmp_path):
    fl.create(tmp_path / "a.zarr", (4, 4), "f8")
    with pytest.raises(FileNotFoundError, match="no member 'nope'"):
        fl.check(tmp_path / "a.zarr", key="nope")
    (tmp_path / "plain").mkdir()
    with pytest.raises(fl.FormatError, match="without zarr.json"):
        fl.check(tmp_path / "plain")
    (tmp_path / "passwd").write_text("root:x:0:0\n")
    with pytest.raises(fl.FormatError, match="no format"):
        fl.check(tmp_path / "passwd")
    for call in (fl.check, fl.transaction, fl.repair):
        with pytest.raises(TypeError, match=f"^{call.__name__}: the path is None"):
            call(None)
    a = fl.open(tmp_path / "a.zarr", mode="r+")
    with pytest.raises(fl.ShapeError, match="imaginary"):
        a[...] = np.ones((4, 4)) * 1j
    assert not a[...].any()
    zero = fl.from_numpy(np.array(3.0), tmp_path / "z.zarr")
    assert zero[()] == 3


def test_the_commands_repair_and_pack(tmp_path):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "flagstone", *words], capture_output=True, text=True, cwd=tmp_path
        )

    values = np.random.default_rng(1).random((64, 64))
    fl.create(tmp_path / "a.zarr", (64, 64), "f8", chunks=(32, 32))[...] = values
    done = run("pack", "a.zarr", "p.zarr", "--checksum", "--codec", "zstd")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 chunks" in done.stdout
    np.testing.assert_array_equal(fl.open(tmp_path / "p.zarr")[...], values)
    flip(shards(tmp_path / "a.zarr")[0], 99)
    done = run("repair", "a.zarr", "--json")
    assert done.returncode == 1
    assert not json.loads(done.stdout)["ok"]
    assert run("repair", "a.zarr", "--accept").returncode == 0
    assert run("check", "a.zarr").returncode == 0
    done = run("pack", "none.zarr", "q.zarr")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
