"""Variables packed by the CF conventions: told, warned of, decoded lazily; against xarray."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import zarr

import flagstone as fl
from tests.support.error_sentences import fails

h5py = pytest.importorskip("h5py")

RAW = np.array([[100, -32768, 0, 7], [-1, 3000, -32768, -3]], "i2")


def write_hdf5(path, raw, attributes):
    with h5py.File(path, "w") as file:
        one = file.create_dataset("t", data=raw)
        for name, value in attributes.items():
            one.attrs[name] = value
    return str(path)


def write_zarr(path, raw, attributes, version, fill=0):
    made = zarr.create_array(
        str(path), shape=raw.shape, dtype=raw.dtype, chunks=(1, *raw.shape[1:]), zarr_format=version,
        fill_value=fill, attributes=attributes,
    )  # fmt: skip
    made[...] = raw
    return str(path)


def true_values(raw, attributes):
    """What xarray makes of them."""
    xr = pytest.importorskip("xarray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dims = [f"d{i}" for i in range(raw.ndim)]
        return xr.conventions.decode_cf_variable(
            "t", xr.Variable(dims, raw, attributes), decode_times=False
        ).values


NUMBERS = [
    {"scale_factor": 0.1, "add_offset": 5.0, "_FillValue": -32768},
    {"scale_factor": 0.1},
    {"add_offset": 273.15},
    {"_FillValue": -32768},
    {"missing_value": -1},
    {"missing_value": -1, "_FillValue": -32768, "scale_factor": 2.5},
]


@pytest.mark.parametrize("attributes", NUMBERS)
@pytest.mark.parametrize("kind", ["i1", "i2", "u2", "i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("attribute_kind", ["f4", "f8"])
def test_true_values_are_those_of_xarray(tmp_path, attributes, kind, attribute_kind):
    raw = RAW.astype(kind)  # wraps: the same numbers in fewer bits, or without a sign
    given = {
        name: np.dtype(attribute_kind).type(value)
        if name in ("scale_factor", "add_offset")
        else np.array(value).astype(kind)[()]
        for name, value in attributes.items()
    }
    wanted = true_values(raw, given)
    path = write_hdf5(tmp_path / "p.h5", raw, given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who asks needs no warning
        stored, true = fl.open(path, key="t", decode=False), fl.open(path, key="t", decode=True)
    assert isinstance(true, fl.Expression)
    assert true.dtype == wanted.dtype
    np.testing.assert_array_equal(true[...], wanted)
    np.testing.assert_array_equal(stored[...], raw)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("attributes", NUMBERS)
def test_zarr_of_both_versions(tmp_path, version, attributes):
    path = write_zarr(tmp_path / "p.zarr", RAW, attributes, version)
    wanted = true_values(RAW, attributes)
    true = fl.open(path, decode=True)
    assert true.dtype == wanted.dtype
    np.testing.assert_array_equal(true[...], wanted)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "encoding",
    [
        {"dtype": "i2", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768},
        {"dtype": "u1", "scale_factor": 0.5, "_FillValue": 255},
        {"dtype": "f4", "_FillValue": 1e20},
        {"dtype": "f8", "_FillValue": np.nan},
        {"dtype": "i4", "_FillValue": -1},
    ],
)
def test_what_xarray_wrote(tmp_path, version, encoding):
    xr = pytest.importorskip("xarray")
    values = np.array([[1.5, np.nan, 3.0], [2.0, 7.5, np.nan]])
    if encoding["dtype"] == "i4":
        values = np.rint(values)
    data = xr.Dataset({"t": (("y", "x"), values)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.to_zarr(tmp_path / "d.zarr", zarr_format=version, encoding={"t": encoding}, consolidated=False)
        with xr.open_zarr(tmp_path / "d.zarr", consolidated=False) as read:
            wanted = read["t"].values
    opened = fl.open(tmp_path / "d.zarr", key="t", decode=True)
    assert opened.dtype == wanted.dtype
    np.testing.assert_array_equal(opened[...], wanted)


def test_unsigned_bytes_of_netcdf_3(tmp_path):
    raw = np.array([0, 127, -128, -1, 5], "i1")
    attributes = {"_Unsigned": "true", "scale_factor": 0.5, "_FillValue": np.int8(-1)}
    wanted = true_values(raw, attributes)
    true = fl.open(write_hdf5(tmp_path / "p.h5", raw, attributes), key="t", decode=True)
    np.testing.assert_array_equal(true[...], wanted)
    assert true.dtype == wanted.dtype
    assert np.isnan(true[3])


def test_attributes_of_one_element_and_several_missing_values(tmp_path):
    """As the netCDF library writes them, seen through h5py."""
    attributes = {
        "scale_factor": np.array([0.5], "f4"), "add_offset": np.array([1], "f4"),
        "missing_value": np.array([7, -3], "i2"), "_FillValue": np.array([-32768], "i2"),
    }  # fmt: skip
    true = fl.open(write_hdf5(tmp_path / "p.h5", RAW, attributes), key="t", decode=True)
    assert true.dtype == np.float32
    nan = np.nan
    np.testing.assert_array_equal(true[...], [[51, nan, 1, nan], [0.5, 1501, nan, nan]])


def test_a_missing_value_of_another_type_is_compared_as_it_is_stored(tmp_path):
    raw = np.array([1e20, 1, 2], "f4")
    path = write_hdf5(tmp_path / "p.h5", raw, {"missing_value": 1e20})  # float64: not equal to the float32
    np.testing.assert_array_equal(fl.open(path, key="t", decode=True)[...], [np.nan, 1, 2])
    path = write_hdf5(tmp_path / "q.h5", RAW, {"missing_value": -999.5, "scale_factor": 2.0})  # never stored
    np.testing.assert_array_equal(fl.open(path, key="t", decode=True)[...], RAW * 2.0)


def test_it_is_fused_into_every_pass(tmp_path):
    rng = np.random.default_rng(1)
    raw = rng.integers(-1000, 1000, (500, 300)).astype("i2")
    attributes = {"scale_factor": np.float32(0.1), "add_offset": np.float32(5), "_FillValue": np.int16(17)}
    true = fl.open(write_hdf5(tmp_path / "p.h5", raw, attributes), key="t", decode=True)
    wanted = true_values(raw, attributes)
    there = ~np.isnan(wanted)
    count, total = fl.compute(fl.count_nonzero(fl.isfinite(true)), fl.where(fl.isnan(true), 0, true).sum())
    assert count == there.sum() < raw.size
    np.testing.assert_allclose(total, wanted[there].sum(dtype="f8"), rtol=1e-6)
    assert fl.stats().bytes_read < 2.2 * raw.nbytes  # the stored numbers, once
    kept = fl.compute(true, out=tmp_path / "true.zarr")
    np.testing.assert_array_equal(kept[...], wanted)
    np.testing.assert_array_equal(true[10:20, 5], wanted[10:20, 5])


def test_open_warns_once_for_an_array(tmp_path):
    path = write_hdf5(tmp_path / "p.h5", RAW, {"scale_factor": 0.1, "_FillValue": np.int16(-32768)})
    with pytest.warns(
        UserWarning, match=r"p\.h5/t.*scale_factor 0\.1, _FillValue -32768.*decode=True"
    ) as told:
        stored = fl.open(path, key="t")
    assert len(told) == 1
    assert told[0].filename == __file__
    np.testing.assert_array_equal(stored[...], RAW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.open(path, key="t")
        fl.open(write_hdf5(tmp_path / "q.h5", RAW, {"_FillValue": np.int16(-32768)}), key="t", decode=False)
    with pytest.warns(UserWarning, match="packed"):  # a copy without the attributes would say it no more
        fl.convert(write_zarr(tmp_path / "r.zarr", RAW, NUMBERS[0], 3), tmp_path / "r.npy")


@pytest.mark.parametrize(
    "attributes",
    [{}, {"units": "K"}, {"_FillValue": np.float64(np.nan)}, {"scale_factors": 2.0}, {"_Unsigned": "false"}],
)
def test_what_is_not_packed_is_opened_as_ever(tmp_path, attributes):
    path = write_hdf5(tmp_path / "p.h5", RAW.astype("f8"), attributes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for decode in (None, False, True):
            opened = fl.open(path, key="t", decode=decode)
            assert isinstance(opened, fl.Array)
    assert isinstance(fl.open(write_zarr(tmp_path / "z.zarr", RAW, {}, 2), decode=True), fl.Array)


def test_the_fill_value_of_zarr_2_is_missing_only_where_xarray_wrote_it(tmp_path):
    plain = write_zarr(tmp_path / "a.zarr", RAW, {"scale_factor": 2.0}, 2, fill=7)
    assert not np.isnan(fl.open(plain, decode=True)[...]).any()
    named = write_zarr(tmp_path / "b.zarr", RAW, {"_ARRAY_DIMENSIONS": ["y", "x"]}, 2, fill=7)
    np.testing.assert_array_equal(np.isnan(fl.open(named, decode=True)[...]), RAW == 7)


def test_refusals(tmp_path):
    path = write_hdf5(tmp_path / "p.h5", RAW, {"scale_factor": "tenth"})
    with fails(fl.FormatError, "open", "scale_factor", "tenth", "decode=False"):
        fl.open(path, key="t", decode=True)
    path = write_zarr(tmp_path / "p.zarr", RAW, {"scale_factor": 0.1}, 3)
    with fails(ValueError, "open", "decode=True", "mode='r'"):
        fl.open(path, mode="r+", decode=True)


@pytest.mark.parametrize("kind", ["hdf5", 2, 3])
def test_info_says_it(tmp_path, kind):
    attributes = {"scale_factor": 0.5, "add_offset": 2.0, "_FillValue": -32768}
    if kind == "hdf5":
        path, key = write_hdf5(tmp_path / "p.h5", RAW, attributes), ["--key", "t"]
    else:
        path, key = write_zarr(tmp_path / "p.zarr", RAW, attributes, kind), []
    run = subprocess.run(
        [sys.executable, "-m", "flagstone", "info", path, *key, "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = json.loads(run.stdout)["conventions"]
    assert "scale_factor 0.5, add_offset 2.0, _FillValue -32768" in said
    assert "float64" in said
    assert "packed by the CF" not in run.stderr  # info has told it


def test_a_verified_array_is_decoded_too(tmp_path):
    made = fl.create(str(tmp_path / "v.zarr"), RAW.shape, "i2")
    made[...] = RAW
    file = tmp_path / "v.zarr" / "array" / "zarr.json"
    root = json.loads(file.read_text())
    root["attributes"] = {"scale_factor": 0.5}
    file.write_text(json.dumps(root))
    true = fl.open(tmp_path / "v.zarr", decode=True, verify=True)
    np.testing.assert_array_equal(true[...], RAW * 0.5)
