"""Arrays that other programs made, changed in place: each chunk is replaced; they read what was assigned."""

import multiprocessing
import os

import numpy as np
import pytest

import flagstone as fl
from flagstone._formats.zarr.groups import about
from tests.support.error_sentences import fails

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

MADE = {
    "v2 raw": {"zarr_format": 2, "compressors": None},
    "v2 blosc": {"zarr_format": 2, "compressors": numcodecs.Blosc("lz4", 5)},
    "v2 zstd": {"zarr_format": 2},
    "v2 order F": {"zarr_format": 2, "order": "F", "compressors": None},
    "v3 raw": {"zarr_format": 3, "compressors": None},
    "v3 default": {"zarr_format": 3},
    "v3 blosc": {"zarr_format": 3, "compressors": zarr.codecs.BloscCodec(cname="zstd", clevel=3)},
    "v3 gzip": {"zarr_format": 3, "compressors": zarr.codecs.GzipCodec(level=4)},
}


def made(place, how, dtype="f4", shape=(13, 9), chunks=(5, 4), **more):
    z = zarr.create_array(place, shape=shape, chunks=chunks, dtype=dtype, **MADE[how], **more)
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    z[...] = values
    return values


@pytest.mark.parametrize("how", MADE)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i2", "?"])
def test_what_is_assigned_is_what_zarr_python_reads(tmp_path, how, dtype, rng):
    values = made(tmp_path / "a", how, dtype)
    A = fl.open(tmp_path / "a", mode="r+", decode=False)
    for key in (np.s_[2:7, 3], np.s_[:5, :4], np.s_[-1], np.s_[::2, ::3], np.s_[3, 3], np.s_[5:10, 4:8]):
        part = rng.integers(0, 100, values[key].shape).astype(dtype)
        A[key] = part
        values[key] = part
        np.testing.assert_array_equal(A[...], values)
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "a", mode="r")[...], values)
    A[fl.abs(A) > 50] = 0
    values[np.abs(values) > 50] = 0
    A[...] = A + A if dtype != "?" else ~A
    values = values + values if dtype != "?" else ~values
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a", mode="r")[...], values)
    left = [name for _, _, names in os.walk(tmp_path / "a") for name in names if name.endswith(".part")]
    assert not left
    assert not os.path.exists(tmp_path / "a/__flagstone/dirty")


def test_chunks_that_become_fill_value_go(tmp_path):
    values = made(tmp_path / "a", "v3 raw", fill_value=-1)
    A = fl.open(tmp_path / "a", mode="r+", decode=False)
    A[:5, :4] = values[:5, :4] = -1
    assert not (tmp_path / "a/c/0/0").exists()
    np.testing.assert_array_equal(A[...], values)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a", mode="r")[...], values)


def test_a_fill_value_that_nobody_gave_is_stored(tmp_path):
    made(tmp_path / "a", "v2 raw", fill_value=None)
    text = (tmp_path / "a/.zarray").read_text()
    (tmp_path / "a/.zarray").write_text(text.replace('"fill_value": 0.0', '"fill_value": null'))
    A = fl.open(tmp_path / "a", mode="r+", decode=False)
    A[:5, :4] = 0
    assert (tmp_path / "a/0.0").stat().st_size == 80


def test_attributes_of_zarr_2(tmp_path):
    made(tmp_path / "a", "v2 raw")
    A = fl.open(tmp_path / "a", mode="r+", decode=False)
    A.attrs["units"] = "K"
    A.dims = ["y", "x"]
    again = zarr.open_array(tmp_path / "a", mode="r")
    assert dict(again.attrs) == {"units": "K", "_ARRAY_DIMENSIONS": ["y", "x"]}


def test_expressions_of_others_are_stored(tmp_path):
    values = made(tmp_path / "a", "v3 default")
    A = fl.open(tmp_path / "a", mode="r+")
    B = fl.from_numpy(values)
    A[...] = B + 1
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a", mode="r")[...], values + 1)


def _assign(place):
    fl.open(place, mode="r+", decode=False)[0] = 1


def test_what_is_refused(tmp_path):
    made(tmp_path / "a", "v3 raw")
    A = fl.open(tmp_path / "a", mode="r+")
    with fails(fl.FormatError, "transaction", "sharded"), fl.transaction(tmp_path / "a"):
        A[0] = 1
    with fails(fl.FormatError, "compute", "another program"):
        fl.compute(A + 1, out=A)
    with fails(fl.FormatError, "resize", "sharded"):
        A.resize((20, 9))
    zarr.create_array(tmp_path / "b", shape=(4,), chunks=(2,), dtype=">f4", zarr_format=2)[...] = 1
    with fails(fl.FormatError, "b/.zarray", "codecs"):
        fl.open(tmp_path / "b", mode="r+")
    assert "chunk by chunk" in about(A)["changed"]
    lock = fl._core.WriterLock(str(tmp_path / "a"))
    with fails(fl.StorageError, "written by"):
        A[0] = 1
    del lock
    _assign(tmp_path / "a")


def test_an_assignment_that_ends_in_the_middle_is_told(tmp_path):
    made(tmp_path / "a", "v3 raw", shape=(60, 4), chunks=(5, 4))
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=_half, args=(str(tmp_path / "a"),))
    other.start()
    other.join()
    assert other.exitcode == 9
    with pytest.warns(UserWarning, match="dirty"):
        A = fl.open(tmp_path / "a", mode="r+", decode=False)
    rows = A[...][:, 0]
    assert set(np.unique(np.diff(np.flatnonzero(rows == -1))))  # some chunks are new, each of them whole
    for first in range(0, 60, 5):
        assert len({bool(one) for one in rows[first : first + 5] == -1}) == 1
    A[...] = 0
    assert not os.path.exists(tmp_path / "a/__flagstone/dirty")


def _half(place):
    A = fl.open(place, mode="r+", decode=False)

    with A._updating():
        A[:20] = -1
        os._exit(9)
