"""Dense copies: pack, what its plan says, what it takes along."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.disk_bytes import flip, shards, theirs


@pytest.mark.parametrize("codec", ["raw", "zstd", "blosc-lz4"])
@pytest.mark.parametrize("checksum", ["none", "inner"])
def test_pack_writes_what_everybody_reads(tmp_path, codec, checksum):
    values = np.zeros((300, 200))
    values[:150] = np.random.default_rng(4).integers(0, 9, (150, 200))
    source = fl.create(tmp_path / "a.zarr", values.shape, "f8", chunks=(64, 64), codec=codec)
    source[...] = values
    done = fl.pack(tmp_path / "a.zarr", tmp_path / "p.zarr", checksum=checksum)
    assert done.stored == 12
    assert done.chunks == 20
    for read in (fl.open(tmp_path / "p.zarr")[...], *theirs(tmp_path / "p.zarr")):
        np.testing.assert_array_equal(read, values)
    assert not list((tmp_path / "p.zarr").rglob("__flagstone"))
    sums = 4 * 12 if checksum == "inner" else 0
    index = 16 * 20 + 4
    assert sum(f.stat().st_size for f in shards(tmp_path / "p.zarr")) == done.bytes_written
    if codec == "raw":
        assert done.bytes_written == 12 * 64 * 64 * 8 + sums + index
    report = fl.check(tmp_path / "p.zarr")
    assert report.ok
    assert report.verified == (12 if checksum == "inner" else 0)
    with pytest.raises(fl.FormatError, match="fl.convert"):
        fl.open(tmp_path / "p.zarr", mode="r+")[0, 0] = 1
    fl.convert(tmp_path / "p.zarr", tmp_path / "again.zarr")
    fl.open(tmp_path / "again.zarr", mode="r+")[0, 0] = 1


def test_pack_can_pack_again(tmp_path):
    values = np.random.default_rng(5).integers(0, 9, (300, 200)).astype("i4")
    fl.from_numpy(values, tmp_path / "a.zarr")
    done = fl.pack(tmp_path / "a.zarr", tmp_path / "p.zarr", codec="zstd:19", checksum="inner")
    assert done.bytes_written < values.nbytes / 2
    for read in (fl.open(tmp_path / "p.zarr")[...], *theirs(tmp_path / "p.zarr")):
        np.testing.assert_array_equal(read, values)
    fl.pack(tmp_path / "p.zarr", tmp_path / "q.zarr", codec="raw")  # and the sums inside are taken off
    np.testing.assert_array_equal(theirs(tmp_path / "q.zarr")[0], values)


def test_pack_of_what_others_wrote(tmp_path):
    zarr = pytest.importorskip("zarr", minversion="3")
    values = np.random.default_rng(6).random((100, 70)).astype("f4")
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w", attributes={"who": "them"})
    for name, options in {
        "plain": {}, "filled": {"fill_value": 3.5}, "half": {"fill_value": 3.5, "dtype": "f2"},
        "sharded": {"shards": (64, 64)},
    }.items():  # fmt: skip
        one = group.create_array(name, shape=values.shape, chunks=(32, 32), **{"dtype": "f4", **options})
        one[:64] = values[:64]
    fl.pack(tmp_path / "g.zarr", tmp_path / "p.zarr")
    copy = zarr.open_group(str(tmp_path / "p.zarr"), mode="r")
    assert copy.attrs["who"] == "them"
    for name in ("plain", "filled", "half", "sharded"):
        np.testing.assert_array_equal(copy[name][...], group[name][...])
        np.testing.assert_array_equal(fl.open(tmp_path / "p.zarr", key=name)[...], group[name][...])


def test_pack_of_a_sparse_matrix(tmp_path):
    m = sp.random(2000, 300, 0.05, format="csr", random_state=1)
    fl.from_blocks([m], tmp_path / "m.zarr")
    fl.pack(tmp_path / "m.zarr", tmp_path / "p.zarr", checksum="inner")
    assert not list((tmp_path / "p.zarr").rglob("__flagstone"))
    again = fl.open(tmp_path / "p.zarr")
    np.testing.assert_allclose(np.asarray(again @ np.eye(300)), m.toarray())
    anndata = pytest.importorskip("anndata")
    zarr = pytest.importorskip("zarr", minversion="3")
    assert (anndata.io.read_elem(zarr.open_group(str(tmp_path / "p.zarr"), mode="r")) != m).nnz == 0


def test_pack_says_what_is_wrong(tmp_path):
    values = np.random.default_rng(7).random((100, 100))
    fl.from_numpy(values, tmp_path / "a.zarr")
    with pytest.raises(FileNotFoundError, match="pack: .* does not exist"):
        fl.pack(tmp_path / "no.zarr", tmp_path / "p.zarr")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        fl.pack(tmp_path / "a.zarr", tmp_path / "a.zarr")
    with pytest.raises(OSError, match="lies inside"):
        fl.pack(tmp_path / "a.zarr", tmp_path / "a.zarr" / "p")
    with pytest.raises(ValueError, match="checksum"):
        fl.pack(tmp_path / "a.zarr", tmp_path / "p.zarr", checksum="sidecar")
    flip(shards(tmp_path / "a.zarr")[0], 999)
    with pytest.raises(fl.FormatError, match="does not match its checksum"):
        fl.pack(tmp_path / "a.zarr", tmp_path / "p.zarr")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.zarr"]  # nothing half-written


def test_pack_takes_along_what_zarr_v2_says(tmp_path):
    zarr = pytest.importorskip("zarr", minversion="3")
    values = np.arange(24, dtype=">i4").reshape(4, 6)
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w", zarr_format=2, attributes={"who": "v2"})
    inner = group.create_group("deep", attributes={"level": 2})
    one = inner.create_array(
        "a", shape=values.shape, chunks=(3, 4), dtype=values.dtype, order="F", fill_value=-7,
        attributes={"units": "K", "_ARRAY_DIMENSIONS": ["time", "cell"], "nested": {"x": [1, None, "é"]}},
    )  # fmt: skip
    one[:3] = values[:3]
    group.create_array("b", shape=(5,), chunks=(2,), dtype="f8", fill_value=float("nan"))
    planned = fl.pack.plan(tmp_path / "g.zarr", tmp_path / "p.zarr", checksum="inner")
    done = fl.pack(tmp_path / "g.zarr", tmp_path / "p.zarr", checksum="inner")
    copy = zarr.open_group(str(tmp_path / "p.zarr"), mode="r", zarr_format=3)
    assert dict(copy.attrs) == {"who": "v2"}
    assert dict(copy["deep"].attrs) == {"level": 2}
    a = copy["deep/a"]
    assert dict(a.attrs) == {"units": "K", "nested": {"x": [1, None, "é"]}}
    assert a.metadata.dimension_names == ("time", "cell")
    assert a.fill_value == -7
    np.testing.assert_array_equal(a[...], one[...])
    assert np.isnan(copy["b"][...]).all()
    assert done.chunks == 7
    assert done.stored == 2
    assert planned.bytes_read == done.bytes_read


def test_pack_keeps_names_that_are_not_there(tmp_path):
    zarr = pytest.importorskip("zarr", minversion="3")
    made = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(4, 4), chunks=(2, 2), dtype="f8", dimension_names=("x", None),
        fill_value=-0.0,
    )  # fmt: skip
    made[0] = 1.0
    fl.pack(tmp_path / "a.zarr", tmp_path / "p.zarr")
    copy = zarr.open_array(str(tmp_path / "p.zarr"), mode="r")
    assert copy.metadata.dimension_names == ("x", None)
    assert np.signbit(copy[3, 3])
    np.testing.assert_array_equal(copy[...], made[...])


@pytest.mark.parametrize("codec", [None, "zstd", "raw"])
@pytest.mark.parametrize("checksum", ["none", "inner"])
def test_the_plan_of_pack_counts_what_it_moves(tmp_path, codec, checksum):
    values = np.zeros((500, 400))
    values[:200] = np.random.default_rng(4).integers(0, 9, (200, 400))
    fl.create(tmp_path / "a.zarr", values.shape, "f8", chunks=(64, 64), codec="blosc-lz4")[...] = values
    plan = fl.pack.plan(tmp_path / "a.zarr", tmp_path / "p.zarr", codec=codec, checksum=checksum)
    assert not (tmp_path / "p.zarr").exists()
    done = fl.pack(tmp_path / "a.zarr", tmp_path / "p.zarr", codec=codec, checksum=checksum)
    assert plan.bytes_read == done.bytes_read
    if codec == "zstd":
        assert plan.bytes_written == pytest.approx(done.bytes_written, rel=0.1)
        assert "were packed" in plan.note
    else:
        assert plan.bytes_written == done.bytes_written
    assert plan.seconds > 0


def test_the_plan_of_pack_knows_its_memory(isolated):
    least, peak = isolated("""
        values = np.zeros((512, 1024))
        values[::8] = np.random.default_rng(0).integers(0, 9, (64, 1024))  # zstd:19 takes its time for them
        for name, wide in (("one.zarr", 512), ("a.zarr", 1024)):
            fl.create(name, (512, wide), "f8", chunks=(512, 512), codec="blosc-zstd")[...] = values[:, :wide]
        del values
        fl.pack("one.zarr", "q.zarr", codec="zstd:19")  # what libraries load at first use
        plan = fl.pack.plan("a.zarr", "p.zarr", codec="zstd:19")
        fl.pack("a.zarr", "p.zarr", codec="zstd:19", memory=plan.least_memory)
        result = [plan.least_memory, fl.stats().peak_memory]
        """)
    assert peak <= least


def test_pack_follows_links_that_lead_outside(tmp_path):
    values = np.arange(12.0).reshape(3, 4)
    fl.from_numpy(values, tmp_path / "other.zarr")
    fl.from_numpy(values, tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "far").symlink_to(tmp_path / "other.zarr" / "array")
    (tmp_path / "a.zarr" / "near").symlink_to("array")
    fl.pack(tmp_path / "a.zarr", tmp_path / "p.zarr")
    shutil.rmtree(tmp_path / "other.zarr")
    assert (tmp_path / "p.zarr" / "near").is_symlink()
    for key in ("far", "near", "array"):
        np.testing.assert_array_equal(fl.open(tmp_path / "p.zarr", key=key)[...], values)


def test_pack_leaves_nothing_out_silently(tmp_path):
    zarr = pytest.importorskip("zarr", minversion="3")
    values = np.arange(12.0).reshape(3, 4)
    fl.from_numpy(values, tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "array" / "zarr.json").write_text("{")
    for call in (fl.pack, fl.pack.plan):
        with pytest.raises(fl.FormatError, match="metadata that nobody can read"):
            call(tmp_path / "a.zarr", tmp_path / "p.zarr")
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w", zarr_format=2)
    group.create_array("names", shape=(3,), chunks=(3,), dtype="S5")[...] = b"x"
    with pytest.raises(fl.FormatError, match="Zarr v2 of a type that is not read here"):
        fl.pack(tmp_path / "g.zarr", tmp_path / "p.zarr")
    (tmp_path / "g.zarr" / "names" / ".zattrs").write_text("[1]")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.zarr", "g.zarr"]


def test_flagstone_pack_plans(tmp_path):
    fl.from_numpy(np.ones((100, 100)), tmp_path / "a.zarr", codec="zstd")
    command = [sys.executable, "-m", "flagstone", "pack", "a.zarr", "p.zarr"]
    text = subprocess.run(
        [*command, "--plan"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert "chunk by chunk" in text
    assert not (tmp_path / "p.zarr").exists()
    done = subprocess.run(
        [*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    told = json.loads(done)
    assert told["plan"]["bytes_written"] == told["stats"]["bytes_written"]


def test_a_refused_copy_names_what_works(tmp_path):
    """Of every array what packing takes is asked for before anything is written."""
    place = tmp_path / "g.zarr"
    for name, side in (("a", 100), ("b", 1500)):
        a = fl.create(place / name, (side, side), "float64", chunks=(side, side))
        a[...] = np.arange(side)
    with pytest.raises(fl.BudgetError) as refused:
        fl.pack(place, tmp_path / "p.zarr", codec="zstd:1", memory="8MiB")
    assert not (tmp_path / "p.zarr").exists()
    fl.pack(place, tmp_path / "p.zarr", codec="zstd:1", memory=refused.value.least)
    assert np.array_equal(fl.open(tmp_path / "p.zarr", key="b")[3], np.arange(1500))
