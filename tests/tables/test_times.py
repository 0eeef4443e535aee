"""datetime64 and timedelta64 on disk: what NumPy and CF mean, or one sentence."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import flagstone as fl

DATES = (np.datetime64("1969-12-25T07:00", "ns") + np.arange(60, dtype="m8[D]")).reshape(12, 5)
SPANS = DATES - DATES[3, 3]


def with_nat(x):
    x = x.copy()
    x[2, 1] = np.datetime64("NaT") if x.dtype.kind == "M" else np.timedelta64("NaT")
    return x


def kept(x, kind, folder):
    if kind.startswith("npy"):
        given = x.astype(x.dtype.newbyteorder(">")) if kind == "npy >" else x
        np.save(folder / "x.npy", np.asfortranarray(given) if kind == "npy F" else given)
        return fl.open(folder / "x.npy")
    import zarr

    z = zarr.create_array(
        folder / "x.zarr", shape=x.shape, dtype=x.dtype, chunks=(4, 4), zarr_format=int(kind[-1])
    )
    z[...] = x
    return fl.open(folder / "x.zarr")


@pytest.mark.filterwarnings("ignore")  # zarr-python: its datetime64 has no standard yet
@pytest.mark.parametrize("kind", ["npy", "npy F", "npy >", "zarr v2", "zarr v3"])
@pytest.mark.parametrize(
    "x", [DATES, with_nat(DATES), SPANS, DATES.astype("M8[s]")], ids=["M", "NaT", "m", "s"]
)
def test_what_makes_sense_is_numpys(tmp_path, kind, x):
    a = kept(x, kind, tmp_path)
    assert (a.dtype, a.shape, a.ndim, len(a)) == (x.dtype, x.shape, 2, 12)
    for key in (..., 3, (2, 1), slice(1, None, 3), (slice(None), [0, 4])):
        np.testing.assert_array_equal(a[key], x[key])
        assert a[key].dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(a), x)
    some = x[5, 2]
    finer = np.timedelta64(1, "ns" if x.dtype == DATES.dtype else "ms")
    for other in (some, some + finer, x[5]):
        for compare in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
            np.testing.assert_array_equal(np.asarray(compare(a, other)), compare(x, other))
            np.testing.assert_array_equal(np.asarray(compare(other, a)), compare(other, x))
    np.testing.assert_array_equal(np.asarray(np.isnat(a)), np.isnat(x))
    for name in ("min", "max"):
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(getattr(np, name)(a, axis=axis), getattr(np, name)(x, axis=axis))
    if np.isnat(x).any():
        with pytest.raises(ValueError, match="diff: an element is NaT"):
            np.diff(a)
    else:
        spans = np.diff(a, axis=0)
        assert spans.dtype == np.diff(x, axis=0).dtype
        np.testing.assert_array_equal(spans[...], np.diff(x, axis=0))
    np.testing.assert_array_equal(a.stored[...], x.astype("i8"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", ["nc", "zarr"])
@pytest.mark.parametrize(
    "encoding",
    [
        {"units": "days since 2000-01-01", "dtype": "int32"},
        {"units": "hours since 1900-1-1 06:30:00", "dtype": "int64"},
        {"units": "days since 1990-01-01", "dtype": "float64"},
        {"units": "seconds since 1970-01-01T00:00:00Z", "dtype": "int64", "_FillValue": -1},
    ],
    ids=["days", "hours", "parts of days", "missing"],
)
def test_times_by_the_cf_conventions(tmp_path, where, encoding):
    xr = pytest.importorskip("xarray")
    x = np.datetime64("2001-01-01", "ns") + np.arange(0, 40).astype("m8[D]")
    if encoding["units"][0] == "h":
        x = x + np.timedelta64(30, "m")
    if encoding["dtype"] == "float64":
        x = x + np.timedelta64(6, "h")
    if "_FillValue" in encoding:
        x[3] = np.datetime64("NaT")
    place = tmp_path / f"x.{where}"
    made = xr.Dataset({"t": ("n", x)})
    made = made.to_netcdf if where == "nc" else made.to_zarr
    made(place, encoding={"t": encoding})
    a = fl.open(place, "t", decode=True)
    np.testing.assert_array_equal(a[...], x)
    np.testing.assert_array_equal(np.asarray(a > x[20]), x > x[20])
    np.testing.assert_array_equal(
        np.asarray(a <= np.datetime64("2001-01-09T13:00")), x <= np.datetime64("2001-01-09T13:00")
    )
    np.testing.assert_array_equal(a.max(), x.max())
    assert fl.open(place, "t", decode=False).dtype.kind == encoding["dtype"][0]


PROLEPTIC = "proleptic_gregorian"


@pytest.mark.parametrize(
    ("units", "calendar", "dtype", "numbers", "wanted"),
    [
        ("days since 1970-01-01", None, "f4", [18262], "2020-01-01T00:00:00"),
        ("hours since 1800-01-01", None, "f4", [1928496, 1929240.5], "2020-01-02 2020-02-02T00:30"),
        ("days since 0001-01-01", PROLEPTIC, "f8", [737425, 737425.25], "2020-01-02 2020-01-02T06"),
        ("days since 0001-01-01", PROLEPTIC, "i4", [737425, 1], "2020-01-02 0001-01-02"),
        ("seconds since 1600-01-01 00:00:00.5", None, "i8", [1], "1600-01-01T00:00:01.5"),
        ("days since 1700-01-01", None, "f8", [0, 109572], "1700-01-01 2000-01-01"),
        ("days since 1970-01-01", None, "f8", [np.nan, 1e6], "NaT 4707-11-29"),
        ("days since 1970-01-01", None, "f8", [0.1, 0.3], "1970-01-01T02:24 1970-01-01T07:12"),
    ],
)  # fmt: skip
def test_references_and_values_of_every_reach(tmp_path, units, calendar, dtype, numbers, wanted):
    attributes = {"units": units} | ({} if calendar is None else {"calendar": calendar})
    fl.create(tmp_path / "x.zarr", (len(numbers),), dtype, attrs=attributes)[...] = np.array(numbers, dtype)
    a = fl.open(tmp_path / "x.zarr", decode=True)
    expected = np.array(wanted.split(), "M8[ms]")
    np.testing.assert_array_equal(a[...], expected)
    np.testing.assert_array_equal(np.max(a), np.max(expected))
    for bound in (expected[-1], np.datetime64("1999-05-05")):
        np.testing.assert_array_equal(np.asarray(a < bound), expected < bound)
        np.testing.assert_array_equal(np.asarray(a == bound), expected == bound)


def test_an_element_beyond_the_unit_is_told(tmp_path):
    t = fl.create(tmp_path / "x.zarr", (3,), "f8", attrs={"units": "days since 1970-01-01"})
    t[...] = [0, 1e6, 1]
    a = fl.open(tmp_path / "x.zarr", decode=True)
    np.testing.assert_array_equal(np.asarray(a > np.datetime64("2000-01-01")), [False, True, False])
    for call in (lambda: a[...], lambda: np.max(a)):
        with pytest.raises(fl.FormatError, match=r"has an element beyond what datetime64\[ns\] counts"):
            call()
    t[...] = 1e300
    with pytest.raises(fl.FormatError, match="dates that no unit of datetime64 holds"):
        fl.open(tmp_path / "x.zarr", decode=True)


@pytest.mark.parametrize(
    "other",
    [
        np.datetime64("NaT"), "NaT", "1970-01-02", datetime.date(1970, 1, 2),
        datetime.datetime(1970, 1, 2, 7), [datetime.date(1970, 1, k) for k in range(1, 6)],
    ],
    ids=str,
)  # fmt: skip
def test_what_dates_are_compared_with(tmp_path, other):
    x = with_nat(DATES)
    np.save(tmp_path / "x.npy", x)
    a, numpys = fl.open(tmp_path / "x.npy"), np.array(other, "M8[ns]")
    for compare in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
        np.testing.assert_array_equal(np.asarray(compare(a, other)), compare(x, numpys))
    if isinstance(other, datetime.date):
        np.testing.assert_array_equal(np.asarray(other < a), numpys < x)


@pytest.mark.parametrize("x", [DATES[:0], DATES[0, 0]])
def test_none_and_one(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    a = fl.open(tmp_path / "x.npy")
    np.testing.assert_array_equal(a[...], x)
    assert (a.shape, a.dtype) == (x.shape, x.dtype)


def test_everything_else_is_one_sentence(tmp_path):
    np.save(tmp_path / "x.npy", DATES)
    a = fl.open(tmp_path / "x.npy")
    for call, message in [
        (lambda: a + 1, r"add: of an array of datetime64\[ns\] slices, comparisons"),
        (lambda: np.mean(a), r"mean: of an array of datetime64\[ns\] slices, comparisons"),
        (lambda: a > 3, r"greater: an array of datetime64\[ns\] meets int64; give numpy.datetime64"),
        (lambda: fl.sum(a), r"sum: of an array of datetime64\[ns\] slices, comparisons and NumPy's isnat"),
        (lambda: fl.sort(a), r"sort: of an array of datetime64\[ns\] slices"),
        (lambda: fl.isnan(a), r"isnan: of an array of datetime64\[ns\] slices"),
        (lambda: a > "soon", "greater: 'soon' meets an array of .* and is no date; give one as"),
        (lambda: a == None, "equal: an array of .* meets object"),  # noqa: E711
        (lambda: fl.open(tmp_path / "x.npy", mode="r+"), "is read and not written here"),
        (lambda: fl.convert(tmp_path / "x.npy", tmp_path / "y.zarr"), "convert its numbers"),
        (lambda: fl.open([tmp_path / "x.npy", tmp_path / "x.npy"]), "no dense array"),
    ]:
        with pytest.raises((TypeError, ValueError, fl.Error, OSError), match=message):
            call()
    assert fl.open(tmp_path / "x.npy", decode=False).dtype == np.int64
    fl.convert(a.stored, tmp_path / "z.zarr")
    np.testing.assert_array_equal(fl.open(tmp_path / "z.zarr")[...], DATES.astype("i8"))


@pytest.mark.filterwarnings("ignore")
def test_a_portable_copy_has_dates_as_they_are(tmp_path):
    a = kept(DATES, "zarr v3", tmp_path)
    fl.pack(tmp_path / "x.zarr", tmp_path / "y.zarr")
    np.testing.assert_array_equal(fl.open(tmp_path / "y.zarr")[...], DATES)
    assert fl.open(tmp_path / "y.zarr").dtype == a.dtype
    (tmp_path / "2").mkdir()
    kept(DATES, "zarr v2", tmp_path / "2")
    with pytest.raises(fl.FormatError, match="Zarr v2 of a type that is not read here"):
        fl.pack(tmp_path / "2" / "x.zarr", tmp_path / "z.zarr")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"units": "days since 2000-01-01", "calendar": "noleap"}, "the calendar 'noleap'"),
        ({"units": "fortnights since 2000-01-01"}, "the units 'fortnights since 2000-01-01'"),
        ({"units": "days since yesterday"}, "the units 'days since yesterday'"),
        ({"units": "days since 2000-13-01"}, "the units 'days since 2000-13-01'"),
        ({"units": "days since 0001-01-01"}, "dates before 1582-10-15 in the calendar 'standard'"),
        (
            {"units": "nanoseconds since 0001-01-01", "calendar": "proleptic_gregorian"},
            "no unit of datetime64 holds",
        ),
    ],
)
def test_unknown_times_are_refused(tmp_path, attributes, message):
    a = fl.create(tmp_path / "x.zarr", (4,), "i4", attrs=attributes)
    a[...] = 1
    with pytest.raises(fl.FormatError, match=message):
        fl.open(tmp_path / "x.zarr", decode=True)
    assert fl.open(tmp_path / "x.zarr").dtype == np.int32
