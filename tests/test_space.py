"""What takes no space, what takes less, and dense copies: fill-valued chunks, codecs, pack."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import machine
from test_integrity import flip

CODECS = [
    "zstd:3", "zstd:19", "gzip:1", "gzip:9", "blosc-lz4", "blosc-lz4hc:9", "blosc-blosclz:5+noshuffle",
    "blosc-zlib:1+bitshuffle", "blosc-zstd:5+bitshuffle",
]  # fmt: skip


def used(path: Path) -> int:
    """Bytes that the shards below a path take on the disk."""
    return sum(f.stat().st_blocks * 512 for f in path.rglob("c/**/*") if f.is_file())


def shards(path: Path) -> list[Path]:
    return sorted(f for f in path.rglob("c/**/*") if f.is_file())


def inner(path: Path) -> Path:
    return path / "array" if (path / "array").is_dir() else path


def theirs(path: Path, missing: bool = True) -> list[np.ndarray]:
    """The array as the peers read it."""
    zarr = pytest.importorskip("zarr", minversion="3")
    ts = pytest.importorskip("tensorstore")
    folder = str(inner(path))
    store = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": folder}}).result()
    return [zarr.open_array(folder, mode="r")[...], store.read().result()]


# Chunks of the fill value -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["raw", "blosc-lz4", "zstd"])
def test_chunks_of_zeros_take_nothing_and_minus_zero_does(tmp_path, codec):
    values = np.zeros((512, 384))
    values[:128, :128] = np.random.default_rng(1).random((128, 128))
    values[300, 300] = -0.0
    path = tmp_path / "a.zarr"
    made = fl.create(path, values.shape, "f8", chunks=(128, 128), codec=codec)
    made[...] = values
    report = fl.check(path)
    assert report.ok
    assert report.stored == 2
    assert report.verified == 2
    assert used(path) <= 3 * 128 * 128 * 8
    for read in (fl.open(path)[...], *theirs(path)):
        np.testing.assert_array_equal(read, values)
        assert np.signbit(read[300, 300])
        assert not np.signbit(read[300, 301])


def test_outputs_leave_out_what_is_zero(tmp_path):
    values = np.zeros((4096, 2048), "f4")
    values[0, 0] = 1
    made = fl.from_numpy(values, tmp_path / "a.zarr")
    assert used(tmp_path / "a.zarr") < 2 * 4 << 20
    product = fl.matmul(made, np.zeros((2048, 1024), "f4"), out=tmp_path / "p.zarr")
    assert not shards(tmp_path / "p.zarr")
    assert not np.asarray(product).any()
    assert fl.check(tmp_path / "p.zarr").ok
    whole = fl.compute(made * 2, out=tmp_path / "e.zarr")
    assert used(tmp_path / "e.zarr") < 2 * 4 << 20
    assert whole[0, 0] == 2
    assert fl.stats().bytes_written <= 8 << 20  # what did not leave is not counted


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_assigning_zeros_gives_space_back(tmp_path, codec):
    path = tmp_path / "a.zarr"
    values = np.random.default_rng(2).random((256, 256))
    a = fl.create(path, values.shape, "f8", chunks=(64, 64), codec=codec)
    a[...] = values
    before = used(path)
    with fl.transaction(path):
        a[:128] = 0
        values[:128] = 0
    assert used(path) < 0.6 * before
    for read in (fl.open(path)[...], *theirs(path)):
        np.testing.assert_array_equal(read, values)
    assert fl.check(path).stored == 8
    a[...] = 0
    assert used(path) <= 8192
    assert fl.check(path).stored == 0
    a[10:20, 10:20] = 7
    values[:] = 0
    values[10:20, 10:20] = 7
    np.testing.assert_array_equal(fl.open(path)[...], values)
    assert fl.check(path).stored == 1
    assert fl.check(path).ok


def test_a_transaction_that_comes_to_nothing_changes_nothing(tmp_path):
    path = tmp_path / "a.zarr"
    a = fl.create(path, (128, 128), "f8", chunks=(64, 64))
    with fl.transaction(path):
        a[...] = 3
        a[...] = 0
    assert not shards(path)
    assert not a[...].any()
    a[...] = 3
    with pytest.raises(KeyError), fl.transaction(path):
        a[...] = 0
        assert not a[...].any()
        raise KeyError
    np.testing.assert_array_equal(fl.open(path)[...], np.full((128, 128), 3.0))
    assert fl.check(path).verified == 4


def test_sparse_matrices_leave_zeros_out_too(tmp_path):
    m = sp.random(3000, 1, 0.5, format="csr", random_state=1)  # every column is 0: so are all indices
    path = tmp_path / "m.zarr"
    made = fl.from_blocks([m[:2000], m[2000:]], path)
    assert not shards(path / "indices") or used(path / "indices") <= 4096
    assert fl.check(path).ok
    np.testing.assert_allclose(np.asarray(fl.open(path) @ np.ones((1, 1))), m @ np.ones((1, 1)))
    assert made.nnz == m.nnz
    anndata = pytest.importorskip("anndata")
    zarr = pytest.importorskip("zarr", minversion="3")
    assert (anndata.io.read_elem(zarr.open_group(str(path), mode="r")) != m).nnz == 0


def test_another_fill_value_is_left_out_and_padded(tmp_path):
    zarr = pytest.importorskip("zarr", minversion="3")
    folder = str(tmp_path / "z.zarr")
    zarr.create_array(
        folder,
        shape=(100, 70),
        shards=(128, 128),
        chunks=(32, 32),
        dtype="f8",
        fill_value=np.nan,
        compressors=None,
    )
    a = fl.open(folder, mode="r+")
    a[:32, :64] = np.nan
    assert not shards(tmp_path / "z.zarr")
    a[90:, 60:] = 4.0
    assert fl.check(folder).stored == 4
    truth = np.full((100, 70), np.nan)
    truth[90:, 60:] = 4.0
    np.testing.assert_array_equal(zarr.open_array(folder, mode="r")[...], truth)


# Codecs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("checksum", ["sidecar", "inner"])
def test_every_codec_is_read_by_everybody_and_written_in_place(tmp_path, codec, checksum):
    rng = np.random.default_rng(3)
    values = rng.integers(0, 50, (300, 200)).astype("f8")
    values[:64, :64] = rng.random((64, 64))  # does not pack
    path = tmp_path / "a.zarr"
    made = fl.create(path, values.shape, "f8", chunks=(64, 64), codec=codec, checksum=checksum)
    made[...] = values
    made[10:70, 50:130] = values[10:70, 50:130] = rng.random((60, 80))
    for read in (fl.open(path)[...], *theirs(path)):
        np.testing.assert_array_equal(read, values)
    report = fl.check(path)
    assert report.ok
    assert report.verified == report.stored == 20
    raw = fl.create(tmp_path / "raw.zarr", values.shape, "f8", chunks=(64, 64))
    raw[...] = values
    assert used(path) < used(tmp_path / "raw.zarr")


@pytest.mark.parametrize("dtype", ["bool", "i1", "u2", "i8", "f2", "f4", "c8", "c16"])
def test_codecs_of_every_type(tmp_path, dtype):
    values = (np.arange(5000) % 97).astype(dtype).reshape(50, 100)
    for codec in ("zstd", "blosc-zstd", "gzip"):
        made = fl.from_numpy(values, tmp_path / "a.zarr", codec=codec, overwrite=True)
        assert made._core.codec == codec
        for read in (made[...], *theirs(tmp_path / "a.zarr")):
            np.testing.assert_array_equal(read, values)


def test_a_result_keeps_the_codec_of_what_it_replaces(tmp_path):
    values = np.arange(90_000.0).reshape(300, 300)
    out = fl.create(tmp_path / "o.zarr", (300, 300), "f8", chunks=(128, 128), codec="blosc-zstd:3")
    fl.compute(fl.from_numpy(values) + 1, out=out)
    assert out._core.codec == "blosc-zstd:3"
    assert out.chunks == (128, 128)
    np.testing.assert_array_equal(fl.open(tmp_path / "o.zarr")[...], values + 1)
    fl.matmul(np.eye(300), values, out=out)
    assert out._core.codec == "blosc-zstd:3"
    for read in theirs(tmp_path / "o.zarr"):
        np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize(
    "codec", ["lz4", "zstd:0", "zstd:23", "gzip:-1", "zstd+shuffle", "blosc-lz4+twist", ""]
)
def test_an_unknown_codec_is_one_sentence(tmp_path, codec):
    with pytest.raises(fl.FormatError, match="^codec: ") as caught:
        fl.create(tmp_path / "a.zarr", (10,), "f8", codec=codec)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a.zarr").exists()


def test_what_cannot_be_packed_is_refused(tmp_path):
    with pytest.raises(fl.FormatError, match="never packed"):
        fl.create(tmp_path / "a.npy", (10,), "f8", codec="zstd")
    with pytest.raises(TypeError, match="codec is 3"):
        fl.create(tmp_path / "a.zarr", (10,), "f8", codec=3)
    with pytest.raises(fl.ShapeError, match="use smaller ones"):
        fl.create(tmp_path / "a.zarr", (1 << 24,), "f8", chunks=(1 << 24,), codec="gzip")


def test_a_packed_array_stays_inside_its_memory(isolated):
    """Encoding is charged: the least limit that is named works, and the peak stays below it."""
    done = isolated("""
        x = np.random.default_rng(0).random((2048, 2048), dtype="f4")
        a = fl.from_numpy(x, "a.zarr")
        out = fl.create("o.zarr", x.shape, "f4", codec="zstd:9")
        try:
            with fl.Runtime(memory="40MiB", workers=2):
                fl.compute(a * 2, out=out)
            raise SystemExit("40 MiB were enough")
        except fl.BudgetError as error:
            least = error.least
        with fl.Runtime(memory=least, workers=2):
            fl.compute(a * 2, out=out)
            result = [least, fl.stats().peak_memory, bool((out[:512] == x[:512] * 2).all())]
        """)
    least, peak, same = done
    assert same
    assert peak <= least


# A dense copy -----------------------------------------------------------------------------------------------


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
        values = np.random.default_rng(0).integers(0, 9, (1024, 1024)).astype("f8")
        fl.create("a.zarr", values.shape, "f8", chunks=(512, 512), codec="blosc-zstd")[...] = values
        del values
        fl.pack("a.zarr", "q.zarr", codec="zstd:19")  # what libraries load at first use
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


def test_metadata_say_the_codec(tmp_path):
    fl.create(tmp_path / "a.zarr", (10,), "f8", codec="blosc-zstd:7+bitshuffle")
    (codecs,) = json.loads((inner(tmp_path / "a.zarr") / "zarr.json").read_text())["codecs"]
    assert codecs["configuration"]["codecs"][1] == {
        "name": "blosc",
        "configuration": {
            "typesize": 8, "cname": "zstd", "clevel": 7, "shuffle": "bitshuffle", "blocksize": 0,
        },
    }  # fmt: skip


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


# codec="auto" -----------------------------------------------------------------------------------------------


@pytest.fixture
def disk(monkeypatch):
    """Give plans the rates of a disk that is slow, or fast."""

    def become(rate: float) -> None:
        rates = {**machine.default().rates, "read_bytes_per_second": rate, "write_bytes_per_second": rate}
        profile = machine.Profile(
            "measured", "2026-01-01T00:00:00+00:00", machine.device_of(Path.cwd()), rates
        )
        monkeypatch.setattr(machine, "lookup", lambda *_: profile)

    return become


def test_auto_weighs_the_data_against_the_disk(tmp_path, disk):
    rng = np.random.default_rng(1)
    counts, noise = rng.poisson(0.5, (700, 900)).astype("f8"), rng.normal(size=(700, 900))
    disk(1e8)
    slow = fl.from_numpy(counts, tmp_path / "slow.zarr", codec="auto")
    assert slow._core.codec.startswith("blosc-")
    fl.from_numpy(counts, tmp_path / "again.zarr", codec="auto")
    assert (inner(tmp_path / "again.zarr") / "zarr.json").read_text() == (
        inner(tmp_path / "slow.zarr") / "zarr.json"
    ).read_text()
    random = fl.from_numpy(noise, tmp_path / "noise.zarr", codec="auto")
    assert random._core.codec == "raw"  # mantissas do not pack
    disk(5e10)
    fast = fl.from_numpy(counts, tmp_path / "fast.zarr", codec="auto")
    assert fast._core.codec == "raw"
    for made, values in ((slow, counts), (random, noise), (fast, counts)):
        np.testing.assert_array_equal(made[...], values)
    done = subprocess.run([sys.executable, "-m", "flagstone", "info", str(tmp_path / "slow.zarr")],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert "auto: blosc-" in done.stdout
    assert "MB/s" in done.stdout
    for read in theirs(tmp_path / "slow.zarr"):
        np.testing.assert_array_equal(read, counts)


def test_rechunk_takes_a_codec_keeps_it_and_chooses_it(tmp_path, disk):
    disk(1e8)
    values = np.random.default_rng(2).poisson(1, (300, 200)).astype("i4")
    a = fl.from_numpy(values, tmp_path / "a.zarr")
    b = fl.rechunk(a, (64, 64), out=tmp_path / "b.zarr", codec="zstd")
    c = fl.rechunk(b, (100, 50), out=tmp_path / "c.zarr")
    d = fl.rechunk(c, (64, 64), out=tmp_path / "d.zarr", codec="raw")
    e = fl.transpose(a, out=tmp_path / "e.zarr", codec="auto")
    assert [one._core.codec for one in (a, b, c, d)] == ["raw", "zstd", "zstd", "raw"]
    assert e._core.codec.startswith("blosc-")
    for made in (b, c, d, e.T):
        np.testing.assert_array_equal(np.asarray(made), values)
    assert (
        fl.rechunk.plan(a, (64, 64), codec="zstd").bytes_written >= values.nbytes
    )  # what it may be, at most
    with pytest.raises(fl.FormatError, match="never packed"):
        fl.rechunk(a, out=tmp_path / "f.npy", codec="zstd")
    with pytest.raises(fl.FormatError, match="there are none yet"):
        fl.create(tmp_path / "g.zarr", (3,), "f8", codec="auto")
