"""Zarr stores in zip archives, read where they lie; zarr-python writes them."""

from __future__ import annotations

import pickle
import zipfile

import numpy as np
import pytest

import flagstone as fl
from flagstone._maintenance.info import describe

zarr = pytest.importorskip("zarr")


def zipped(folder, place, top="", method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(place, "w", method) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, top + str(file.relative_to(folder)))
    return place


VALUES = np.arange(40 * 33, dtype="f8").reshape(40, 33)


@pytest.mark.parametrize("dtype", ["f8", "i2", ">f4", "?", "c8"])
@pytest.mark.parametrize("how", [
    {"zarr_format": 3}, {"zarr_format": 3, "compressors": None},
    {"zarr_format": 3, "shards": (20, 32)},
    {"zarr_format": 3, "compressors": zarr.codecs.GzipCodec()},
    {"zarr_format": 2}, {"zarr_format": 2, "compressors": None},
])  # fmt: skip
def test_what_zarr_python_zips(tmp_path, dtype, how):
    values = VALUES.astype(dtype)
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="w") as store:
        made = zarr.create_array(store, shape=values.shape, dtype=dtype, chunks=(10, 8), fill_value=0, **how)
        made[:30] = values[:30]  # the rest is absent
    opened = fl.open(tmp_path / "x.zip")
    expected = values.copy()
    expected[30:] = 0
    assert opened.dtype == values.dtype.newbyteorder("=")
    np.testing.assert_array_equal(opened[:], expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[3:5], expected[3:5])
    assert describe(str(tmp_path / "x.zip"))["format"] == "Zarr in a zip"


def test_our_own_stores_and_groups(tmp_path):
    mine = fl.create(tmp_path / "x.zarr", VALUES.shape, "f8", chunks=(16, 16))
    mine[...] = VALUES
    mine.close()
    np.testing.assert_array_equal(fl.open(zipped(tmp_path / "x.zarr", tmp_path / "a.zip"))[:], VALUES)
    np.testing.assert_array_equal(
        fl.open(zipped(tmp_path / "x.zarr", tmp_path / "b.zip", "x.zarr/"))[:], VALUES
    )
    with zarr.storage.ZipStore(tmp_path / "g.zip", mode="w") as store:
        group = zarr.create_group(store)
        group.create_array("a", data=VALUES)
        group.create_array("deep/b", data=2 * VALUES)
    with pytest.raises(fl.FormatError, match="holds a, deep/b; name one with key="):
        fl.open(tmp_path / "g.zip")
    np.testing.assert_array_equal(fl.open(tmp_path / "g.zip", "deep/b")[:], 2 * VALUES)
    with pytest.raises(fl.Error, match="has no 'c'; it holds a, deep/b"):
        fl.open(tmp_path / "g.zip", "c")
    fl.convert(tmp_path / "g.zip", tmp_path / "out.zarr", key="a")
    np.testing.assert_array_equal(fl.open(tmp_path / "out.zarr")[:], VALUES)


def test_what_is_wrong(tmp_path):
    fl.from_numpy(VALUES, tmp_path / "x.zarr").close()
    packed = zipped(tmp_path / "x.zarr", tmp_path / "x.zip", method=zipfile.ZIP_DEFLATED)
    with pytest.raises(fl.FormatError, match="packs its files; unpack the archive"):
        fl.open(packed)
    whole = zipped(tmp_path / "x.zarr", tmp_path / "y.zip")
    with pytest.raises(fl.Error, match="opened for reading only"):
        fl.open(whole, mode="r+")
    whole.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(fl.FormatError, match="damaged or no zip"):
        fl.open(whole)
