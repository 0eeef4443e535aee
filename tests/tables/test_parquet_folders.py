"""Folders of Parquet files, partitioned or not, as one table; names of columns through them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import flagstone as fl
from flagstone._maintenance.info import describe


def table(rows, first=0):
    at = np.arange(first, first + rows)
    return pa.table({"a": at / 3, "b": at.astype("i4"), "name": [f"r{i}" for i in at]})


@pytest.fixture
def partitioned(tmp_path):
    """Two levels, written by pyarrow's own hand."""
    place = tmp_path / "sales"
    whole = table(30)
    whole = whole.append_column("year", pa.array([2020 + i % 3 for i in range(30)]))
    whole = whole.append_column("land", pa.array([["de", "fr"][i % 2] for i in range(30)]))
    named = pa.schema([("year", pa.int64()), ("land", pa.string())])
    hive = pyarrow.dataset.partitioning(named, flavor="hive")
    pyarrow.dataset.write_dataset(whole, place, format="parquet", partitioning=hive)
    return place


def test_a_folder_is_one_table(tmp_path):
    place = tmp_path / "parts"
    place.mkdir()
    for i, rows in enumerate((5, 3, 7)):
        pyarrow.parquet.write_table(table(rows, 10 * i), place / f"part-{i}.parquet")
    (place / "_SUCCESS").touch()
    with pytest.warns(UserWarning, match="left out: name"):
        a = fl.open(place)
    assert a.columns == ["a", "b"]
    at = np.r_[0:5, 10:13, 20:27]
    np.testing.assert_array_equal(a[:], np.c_[at / 3, at])
    # A part that changes is another table.
    pyarrow.parquet.write_table(table(2, 50), place / "part-1.parquet")
    assert fl.open(place, "b")[:].ravel().tolist() == [*range(5), 50, 51, *range(20, 27)]


def test_partitions_are_columns(partitioned, tmp_path):
    oracle = pyarrow.dataset.dataset(partitioned, partitioning="hive").to_table().to_pandas()
    assert describe(str(partitioned))["numeric_columns"] == "a, b, year"
    with pytest.warns(UserWarning, match="left out: name, land"):
        a = fl.open(partitioned)
    assert a.columns == ["a", "b", "year"]
    found, expected = a[:], oracle[["a", "b", "year"]].astype("f8").to_numpy()
    order = np.argsort(found[:, 0])
    np.testing.assert_array_equal(found[order], expected[np.argsort(expected[:, 0])])
    years = fl.open(partitioned, "year")
    assert years.dtype == np.int64
    assert sorted(set(years[:].ravel().tolist())) == [2020, 2021, 2022]
    fl.convert(partitioned, tmp_path / "x.zarr", key="year,a")
    x = fl.open(tmp_path / "x.zarr")
    assert x.columns == ["year", "a"]
    np.testing.assert_array_equal(x[:], found[:, [2, 0]])
    fl.convert(x, tmp_path / "x.parquet")
    assert pyarrow.parquet.read_schema(tmp_path / "x.parquet").names == ["year", "a"]
    with pytest.raises(fl.Error, match="'land' of .* is not numeric"):
        fl.open(partitioned, "land")
    facts = describe(str(partitioned))
    assert facts["files"] == 6
    assert facts["rows"] == 30


def test_files_given_one_by_one(tmp_path):
    for i in range(3):
        pyarrow.parquet.write_table(table(4, 4 * i), tmp_path / f"p{i}.parquet")
    fl.convert(str(tmp_path / "p*.parquet"), tmp_path / "x.npy", key="b,a")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.c_[np.arange(12), np.arange(12) / 3])


def test_parts_that_do_not_go_together(tmp_path):
    place = tmp_path / "parts"
    place.mkdir()
    pyarrow.parquet.write_table(table(4), place / "a.parquet")
    pyarrow.parquet.write_table(table(4).drop_columns("b"), place / "b.parquet")
    with pytest.raises(fl.FormatError, match="b.parquet' has other columns than .*a.parquet'"):
        fl.open(place)
    pyarrow.parquet.write_table(table(4), place / "b.parquet")
    with pytest.raises(fl.Error, match="a folder of Parquet files"):
        fl.open(place, mode="r+")
    (place / "b.parquet").write_bytes(b"PAR1 and nothing")
    with pytest.raises(fl.FormatError, match="damaged"):
        fl.open(place)
    (tmp_path / "none=1").mkdir()
    with pytest.raises(fl.FormatError, match="holds no Parquet files"):
        fl.open(tmp_path)


@pytest.mark.parametrize("path", ["s3://bucket/x.zarr", "gs://bucket/x.csv", "https://there/x.npy"])
def test_places_that_are_not_local(tmp_path, path):
    np.save(tmp_path / "x.npy", np.ones(3))
    for call in (
        lambda: fl.open(path),
        lambda: fl.convert(path, tmp_path / "y.zarr"),
        lambda: fl.convert(tmp_path / "x.npy", path),
        lambda: fl.create(path, (2, 2), "f4"),
    ):
        with pytest.raises(fl.FormatError, match="no local path.*mount the bucket.*or copy it"):
            call()
