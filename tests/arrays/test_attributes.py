"""Attributes and names of dimensions: as xarray reads and writes them, in every format that has some."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import flagstone as fl
from tests.support.error_sentences import fails

xr = pytest.importorskip("xarray")


def test_created_changed_and_seen_by_xarray(tmp_path):
    A = fl.create(tmp_path / "a.zarr", (5, 7), "f4", dims=["y", "x"], attrs={"units": "K", "n": np.int32(3)})
    assert A.dims == ("y", "x")
    assert A.T.dims == ("x", "y")
    assert dict(A.attrs) == {"units": "K", "n": 3}
    A[...] = 1
    A.attrs["scale"] = np.arange(2.0)
    del A.attrs["n"]
    A.T.dims = ["lon", "lat"]
    with xr.open_zarr(tmp_path / "a.zarr", consolidated=False) as seen:
        assert seen["array"].dims == ("lat", "lon")
        assert seen["array"].attrs == {"units": "K", "scale": [0.0, 1.0]}
        np.testing.assert_array_equal(seen["array"].values, np.ones((5, 7), "f4"))
    again = fl.open(tmp_path / "a.zarr")
    assert again.dims == ("lat", "lon")
    A[0] = 2  # the handle goes on
    assert again[0, 0] == 2
    assert again.attrs == {"units": "K", "scale": [0.0, 1.0]}
    A.dims = None
    A.attrs = {}
    assert again.dims is None
    assert len(again.attrs) == 0
    assert A.T.dims is None
    assert fl.check(tmp_path / "a.zarr").ok


def test_names_of_some_dimensions(tmp_path):
    A = fl.create(tmp_path / "a.zarr", (2, 3), "u1")
    A.dims = ["row", None]
    assert A.dims == ("row", None)
    A.conj().dims = ["a", "b"]
    assert A.dims == ("a", "b")


def test_what_we_keep_is_neither_shown_nor_lost(tmp_path):
    F = fl.from_numpy(np.arange(400.0).reshape(20, 20), tmp_path / "a.zarr", codec="auto")
    kept = json.loads((tmp_path / "a.zarr/array/zarr.json").read_text())["attributes"]
    F.attrs["units"] = "m"
    assert dict(F.attrs) == {"units": "m"}
    now = json.loads((tmp_path / "a.zarr/array/zarr.json").read_text())["attributes"]
    assert now == kept | {"units": "m"}


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_consolidated_copies_are_forgotten(tmp_path):
    seen = xr.Dataset({"t": (("y", "x"), np.ones((4, 4), "f4"), {"units": "K"})})
    seen.to_zarr(
        tmp_path / "d.zarr",
        consolidated=True,
        encoding={"t": {"shards": (4, 4), "chunks": (2, 2), "compressors": None}},
    )
    T = fl.open(tmp_path / "d.zarr", key="t", mode="r+", decode=False)
    T.attrs["units"] = "C"
    with xr.open_zarr(tmp_path / "d.zarr") as again:
        assert again["t"].attrs["units"] == "C"
    assert T.dims == ("y", "x")


def test_memory_views_and_lazy_ones():
    A = fl.from_numpy(np.ones((2, 3)))
    assert A.dims is None
    assert A.attrs == {}
    A.attrs["a"] = 1
    A.T.dims = ["x", "y"]
    assert A.T.attrs == {"a": 1}
    assert A.dims == ("y", "x")
    assert fl.zeros((2, 3)).dims is None


def test_zarr_2(tmp_path):
    zarr = pytest.importorskip("zarr")
    z = zarr.create_array(tmp_path / "v2", shape=(2, 3), chunks=(1, 3), dtype="f4", zarr_format=2)
    z.attrs.update({"_ARRAY_DIMENSIONS": ["time", "x"], "units": "m"})
    A = fl.open(tmp_path / "v2", decode=False)
    assert A.dims == ("time", "x")
    assert dict(A.attrs) == {"units": "m"}


def test_hdf5_and_netcdf(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        one = file.create_dataset("t", data=np.ones((2, 3)))
        one.attrs["units"], one.attrs["range"] = "K", np.array([0.0, np.nan])
        for d, name in enumerate(("time", "x")):
            file[name] = np.arange(one.shape[d])
            file[name].make_scale(name)
            one.dims[d].attach_scale(file[name])
        file.create_dataset("labelled", data=np.ones((2, 3))).dims[1].label = "gene"
    T = fl.open(tmp_path / "a.h5", key="t")
    assert T.dims == ("time", "x")
    assert dict(T.attrs) == {"units": "K", "range": [0.0, "nan"]}
    assert fl.open(tmp_path / "a.h5", key="time").dims == ("time",)
    assert fl.open(tmp_path / "a.h5", key="labelled").T.dims == ("gene", None)
    with fails(fl.FormatError, "attrs", "a.h5", "no Zarr array"):
        T.attrs["units"] = "C"
    scipy_io = pytest.importorskip("scipy.io")
    with scipy_io.netcdf_file(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", 2), file.createDimension("x", 3)
        file.createVariable("t", "f8", ("time", "x"))[:] = 1
        file.variables["t"].units = "K"
    T = fl.open(tmp_path / "a.nc", key="t")
    assert T.dims == ("time", "x")
    assert T.attrs["units"] == "K"


def test_refusals(tmp_path):
    A = fl.create(tmp_path / "a.zarr", (2, 3), "f4")
    before = (tmp_path / "a.zarr/array/zarr.json").read_bytes()
    with fails(fl.StorageError, "attrs", "reading", "r+"):
        fl.open(tmp_path / "a.zarr").attrs["a"] = 1
    with fails(TypeError, "attrs", "'a'", "JSON"):
        A.attrs["a"] = float("nan")
    with fails(TypeError, "attrs", "mapping"):
        A.attrs = [1]
    with fails(ValueError, "attrs", "flagstone"):
        A.attrs["flagstone"] = 1
    for wrong in (["x"], ["x", "x"], "xy", ["x", 3]):
        with fails(fl.ShapeError, "dims"):
            A.dims = wrong
    with fl.transaction(tmp_path / "a.zarr"), fails(fl.Error, "attrs", "transaction"):
        A[0] = 1
        A.attrs["a"] = 1
    with fails(fl.FormatError, "create", ".npy"):
        fl.create(tmp_path / "a.npy", (2,), "f4", attrs={"a": 1})
    with fails(fl.FormatError, "attrs", "no Zarr array"):
        fl.create(tmp_path / "b.npy", (2,), "f4").attrs["a"] = 1
    assert (tmp_path / "a.zarr/array/zarr.json").read_bytes() == before
    holder = "import sys, flagstone as fl\nA = fl.open(sys.argv[1], mode='r+')\n"
    holder += "with fl.transaction(sys.argv[1]):\n    A[0] = 1\n    print('held', flush=True)\n"
    holder += "    sys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path / "a.zarr")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ,
    ) as other:  # fmt: skip
        assert other.stdout.readline() == b"held\n"
        with fails(fl.StorageError, str(other.pid)):
            A.attrs["a"] = 1
        other.stdin.close()
    A.attrs["a"] = 1


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("f4", 2.5),
        ("f8", np.nan),
        ("f2", -1),
        ("c16", 1 - 2j),
        ("i8", -(2**63)),
        ("u8", 2**64 - 1),
        ("?", True),
    ],
)
def test_fill_values(tmp_path, dtype, fill):
    A = fl.create(tmp_path / "a.zarr", (5, 6), dtype, chunks=(2, 2), fill_value=fill)
    expected = np.full((5, 6), fill, dtype)
    np.testing.assert_array_equal(A[...], expected)
    A[1:3, 2] = expected[1:3, 2] = 1
    A[4:, :] = fill  # whole chunks of the fill value take no space
    np.testing.assert_array_equal(fl.open(tmp_path / "a.zarr")[...], expected)
    A.resize((7, 6))
    np.testing.assert_array_equal(A[5:], np.full((2, 6), fill, dtype))
    zarr = pytest.importorskip("zarr")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr/array", mode="r")[:5], expected)


def test_fill_values_that_do_not_fit(tmp_path):
    for dtype, fill in (("i4", 0.5), ("u1", 256), ("f4", 1j), ("f4", [1]), ("f4", "a"), ("f4", 1e300)):
        with fails(fl.ShapeError, "create", "fill_value"):
            fl.create(tmp_path / "a.zarr", (2,), dtype, fill_value=fill)
    with fails(fl.ShapeError, "create", ".npy"):
        fl.create(tmp_path / "a.npy", (2,), "f4", fill_value=1)
    assert not os.listdir(tmp_path)


def test_from_numpy_as_it_shall_be_stored(tmp_path):
    a = np.arange(12).reshape(3, 4)
    A = fl.from_numpy(
        a, tmp_path / "a.zarr", chunks=(2, 2), dtype="f4", fill_value=np.nan, dims=["r", "c"], attrs={"a": 1}
    )
    assert (A.chunks, A.dtype, A.dims, dict(A.attrs)) == ((2, 2), np.float32, ("r", "c"), {"a": 1})
    np.testing.assert_array_equal(A[...], a.astype("f4"))
    np.testing.assert_array_equal(fl.from_numpy(a, dtype="f4")[...], a.astype("f4"))
    np.save(tmp_path / "m.npy", a)
    mapped = np.load(tmp_path / "m.npy", mmap_mode="r")
    np.testing.assert_array_equal(fl.from_numpy(mapped, tmp_path / "b.npy", dtype="f8")[...], a.astype("f8"))
    for options in ({"chunks": (2, 2)}, {"fill_value": 1}, {"dims": ["a", "b"]}, {"attrs": {}}):
        with fails(fl.ShapeError, "from_numpy", "path"):
            fl.from_numpy(a, **options)
