"""NetCDF classic in place, and NetCDF 4 through HDF5: SciPy's writer and xarray are the judges."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.io

import flagstone as fl
from flagstone._maintenance.info import describe

KINDS = ["i1", "i2", "i4", "f4", "f8"]


def made(path, version=1, records=5, alone=False):
    """Fixed variables and records of odd lengths, as SciPy writes them."""
    rng = np.random.default_rng(1)
    values = {}
    with scipy.io.netcdf_file(path, "w", version=version) as file:
        file.title = "odd lengths"
        for name, length in (("time", None), ("lat", 3), ("lon", 5)):
            file.createDimension(name, length)
        for kind in KINDS:
            for name, dims in ((f"fixed_{kind}", ("lat", "lon")), (f"rec_{kind}", ("time", "lat", "lon"))):
                if alone and name != "rec_i2":
                    continue
                shape = tuple({"time": records, "lat": 3, "lon": 5}[d] for d in dims)
                values[name] = rng.integers(-100, 100, shape).astype(kind)
                file.createVariable(name, kind, dims)[:] = values[name]
        if not alone:
            values["time"] = np.arange(records) / 2
            file.createVariable("time", "f8", ("time",))[:] = values["time"]
            file.createVariable("label", "c", ("lat",))[:] = b"abc"
    return values


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("records", [1, 5])
def test_every_variable(tmp_path, version, records):
    place = tmp_path / "x.nc"
    for name, values in made(place, version, records).items():
        opened = fl.open(place, name)
        assert opened.dtype == values.dtype
        np.testing.assert_array_equal(opened[:], values, err_msg=name)
        assert float(opened.sum()) == pytest.approx(float(values.sum()))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[:], values)
    facts = describe(str(place), "rec_i2")
    assert facts["dims"] == "time, lat, lon"
    assert facts["layout"] == f"{records} records"
    assert facts["format"] == "NetCDF"


def test_a_single_record_variable_is_not_filled_up(tmp_path):
    values = made(tmp_path / "x.nc", alone=True)
    opened = fl.open(tmp_path / "x.nc")  # the only one
    np.testing.assert_array_equal(opened[:], values["rec_i2"])
    fl.convert(tmp_path / "x.nc", tmp_path / "x.zarr")
    np.testing.assert_array_equal(fl.open(tmp_path / "x.zarr")[:], values["rec_i2"])


def test_packed_as_cf_has_it(tmp_path):
    xarray = pytest.importorskip("xarray")
    place = tmp_path / "x.nc"
    with scipy.io.netcdf_file(place, "w") as file:
        file.createDimension("x", 4)
        one = file.createVariable("t", "i2", ("x",))
        one[:] = [1, -9, 3, 4]
        one.scale_factor, one.add_offset = np.float64(0.5), np.float64(10)
        one._FillValue = np.int16(-9)
    with pytest.warns(UserWarning, match="packed by the CF conventions"):
        assert fl.open(place)[:].tolist() == [1, -9, 3, 4]
    decoded = fl.open(place, decode=True)
    with xarray.open_dataset(place, engine="scipy") as oracle:
        np.testing.assert_array_equal(np.asarray(decoded), oracle["t"].to_numpy())


def test_what_is_wrong(tmp_path):
    place = tmp_path / "x.nc"
    made(place)
    with pytest.raises(fl.FormatError, match="name one of its variables with key="):
        fl.open(place)
    with pytest.raises(fl.Error, match="has no 'nothing'; it holds fixed_i1"):
        fl.open(place, "nothing")
    with pytest.raises(fl.FormatError, match="'label' of .* holds text"):
        fl.open(place, "label")
    with pytest.raises(fl.Error, match="opened for reading only"):
        fl.open(place, "rec_i2", "r+")
    with pytest.raises(fl.FormatError, match="NetCDF files .* are read and not written here"):
        fl.convert(fl.from_numpy(np.ones(3)), tmp_path / "y.nc")
    whole = place.read_bytes()
    for length in (5, 30, 200, len(whole) - 40):
        place.write_bytes(whole[:length])
        with pytest.raises(fl.FormatError, match="x.nc"):
            fl.open(place, "rec_i2")


def test_records_that_nobody_counted(tmp_path):
    place = tmp_path / "x.nc"
    values = made(place)
    whole = bytearray(place.read_bytes())
    whole[4:8] = b"\xff\xff\xff\xff"
    place.write_bytes(whole)
    np.testing.assert_array_equal(fl.open(place, "rec_f8")[:], values["rec_f8"])
