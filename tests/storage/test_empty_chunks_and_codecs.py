"""What takes no space and what takes less: fill-valued chunks, codecs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.disk_bytes import inner, shards, theirs, used

CODECS = [
    "zstd:3", "zstd:19", "gzip:1", "gzip:9", "blosc-lz4", "blosc-lz4hc:9", "blosc-blosclz:5+noshuffle",
    "blosc-zlib:1+bitshuffle", "blosc-zstd:5+bitshuffle",
]  # fmt: skip

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


def test_metadata_say_the_codec(tmp_path):
    fl.create(tmp_path / "a.zarr", (10,), "f8", codec="blosc-zstd:7+bitshuffle")
    (codecs,) = json.loads((inner(tmp_path / "a.zarr") / "zarr.json").read_text())["codecs"]
    assert codecs["configuration"]["codecs"][1] == {
        "name": "blosc",
        "configuration": {
            "typesize": 8, "cname": "zstd", "clevel": 7, "shuffle": "bitshuffle", "blocksize": 0,
        },
    }  # fmt: skip
