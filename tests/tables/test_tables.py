"""Parquet and Arrow: what is left out is said, and no integer becomes another number."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

import flagstone as fl
from tests.support.error_sentences import fails

pa = pytest.importorskip("pyarrow")
LARGE = 2**53 + 1  # float64 has no such number


def write(path, columns):
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table(columns)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    return str(path)


def mixed(path):
    day = datetime.date(2020, 1, 1)
    columns = {"a": [1.0, 2.0], "name": ["x", "y"], "when": [day, day], "n": [3, 4]}
    return write(path, columns)


FORMS = ["t.parquet", "t.arrow"]


@pytest.mark.parametrize("name", FORMS)
def test_columns_that_hold_no_numbers_are_named(tmp_path, name):
    path = mixed(tmp_path / name)
    with pytest.warns(UserWarning, match=r"left out: name, when") as told:
        A = fl.open(path)
    assert len(told) == 1
    assert told[0].filename == __file__
    np.testing.assert_array_equal(A[...], [[1, 3], [2, 4]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(fl.open(path, key="n")[...], [[3], [4]])
    with pytest.warns(UserWarning, match="name, when"):
        fl.convert(mixed(tmp_path / f"other-{name}"), tmp_path / "c.zarr")


@pytest.mark.parametrize("name", FORMS)
def test_an_import_that_is_there_says_it_to_the_next_process(tmp_path, name):
    path = mixed(tmp_path / name)
    with pytest.warns(UserWarning, match="left out"):
        fl.open(path)
    code = (
        "import sys, flagstone as fl\n"
        f"fl.open({path!r})\n"
        "assert 'pyarrow' not in sys.modules"  # nothing was read again
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "left out: name, when" in run.stderr


@pytest.mark.parametrize("name", FORMS)
def test_info_names_them(tmp_path, name):
    path = mixed(tmp_path / name)
    run = subprocess.run(
        [sys.executable, "-m", "flagstone", "info", path, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads(run.stdout)
    assert facts["numeric_columns"] == "a, n"
    assert facts["other_columns"] == "name, when"


@pytest.mark.parametrize("name", FORMS)
def test_integers_stay_what_they_are(tmp_path, name):
    path = write(tmp_path / name, {"i": [1, -LARGE], "j": [2**62 + 1, 5]})
    A = fl.open(path)
    assert A.dtype == np.int64
    np.testing.assert_array_equal(A[...], [[1, 2**62 + 1], [-LARGE, 5]])
    small = write(tmp_path / f"small-{name}", {"i": [1, None, 2**53], "x": [0.5, 1.5, 2.5]})
    np.testing.assert_array_equal(fl.open(small)[...], [[1, 0.5], [np.nan, 1.5], [2**53, 2.5]])
    even = write(tmp_path / f"even-{name}", {"i": [2**60], "x": [0.5]})  # large, and float64 holds it
    np.testing.assert_array_equal(fl.open(even)[...], [[2.0**60, 0.5]])


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    "columns",
    [
        {"x": [0.5, 1.5], "n": [1, LARGE]},
        {"n": [None, LARGE]},
        {"n": [None, -LARGE], "x": [0.5, 1.5]},
        {"m": pa.array([1, 2], pa.uint64()), "n": [5, LARGE]},
        {"x": pa.array([1, 2], pa.int64()), "n": pa.array([5, 2**64 - 1], pa.uint64())},
    ],
)
def test_integers_that_would_be_rounded_are_refused_by_name(tmp_path, name, columns):
    path = write(tmp_path / name, columns)
    large = str(next(int(v) for v in map(_plain, columns["n"]) if v is not None and abs(v) >= LARGE))
    with fails(fl.FormatError, "open", "'n'", large, "float64"):
        fl.open(path)
    with fails(fl.FormatError, "'n'", large):
        fl.convert(path, tmp_path / "c.zarr")
    assert not (tmp_path / "c.zarr").exists()


def _plain(value):
    return value.as_py() if isinstance(value, pa.Scalar) else value


def test_integers_without_statistics_of_nulls_stay_integers(tmp_path):
    import pyarrow.parquet

    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table({"n": [1, LARGE]}), path, write_statistics=False)
    np.testing.assert_array_equal(fl.open(str(path))[...], [[1], [LARGE]])


@pytest.mark.parametrize("name", FORMS)
def test_booleans_with_gaps(tmp_path, name):
    path = write(tmp_path / name, {"b": [True, None, False]})
    np.testing.assert_array_equal(fl.open(path)[...], [[1], [np.nan], [0]])


def test_a_key_that_is_no_text(tmp_path):
    path = mixed(tmp_path / "t.parquet")
    for call in (
        lambda: fl.open(path, key=["a", "n"]),
        lambda: fl.convert(path, tmp_path / "c.npy", key=["a"]),
    ):
        with fails(TypeError, "key", "'a,b'"):
            call()
