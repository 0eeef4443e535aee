"""Killed running sums, differences and conversions of separated values go on where they stopped."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at

_SCAN = """
x = fl.open("x.zarr")
given = {"stored": x, "turned": x.T, "lazy": np.log1p(abs(x))}[of]
getattr(fl, name)(given, axis=axis, include_initial=initial, out="y.zarr", memory=memory)
result = told() | {"digest": digest("y.zarr"), "saves": len(saves)}
"""


@pytest.mark.parametrize(
    ("name", "of", "axis", "initial"),
    [
        ("cumulative_sum", "stored", 0, False),
        ("cumulative_sum", "stored", 1, True),
        ("cumulative_sum", "lazy", 0, True),
        ("cumulative_prod", "turned", 0, False),
    ],
)
def test_running_sums_and_products(process, tmp_path, rng, name, of, axis, initial):
    x = rng.standard_normal((6000, 1100)).astype("float32")
    fl.from_numpy(x, tmp_path / "x.zarr", chunks=(256, 512))
    given = {"name": name, "of": of, "axis": axis, "initial": initial}
    whole = process(_SCAN, memory="200MiB", **given)
    fl.delete(tmp_path / "y.zarr")
    process(_SCAN, kill=whole["saves"] * 2 // 3, memory="160MiB", **given)
    (left,) = left_at(tmp_path / "y.zarr")
    assert left.operation == name
    assert 0 < left.done < 1
    again = process('fl.resume("y.zarr", memory="250MiB")\nresult = told() | {"digest": digest("y.zarr")}')
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert again["read"] < (0.9 if of == "stored" else 2) * x.nbytes
    wanted = {"stored": x, "turned": x.T, "lazy": np.log1p(abs(x))}[of]
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(wanted, axis=axis, include_initial=initial)
    if of != "lazy":  # whose logarithms are ours
        np.testing.assert_array_equal(fl.open(tmp_path / "y.zarr")[...], wanted)


def test_differences(process, tmp_path, rng):
    x = rng.standard_normal((3000, 900))
    fl.from_numpy(x, tmp_path / "x.zarr", chunks=(128, 900))
    code = 'fl.diff(fl.open("x.zarr") * 2, 2, 0, out="y.zarr", memory="160MiB")\nresult = told()'
    process(code, kill=5)
    (left,) = left_at(tmp_path / "y.zarr")
    assert 0 < left.done < 1
    assert process(code)["read"] < (1.1 - left.done) * x.nbytes
    np.testing.assert_array_equal(fl.open(tmp_path / "y.zarr")[...], np.diff(x * 2, 2, 0))


# Separated values -------------------------------------------------------------------------------------------

_CSV = """
fl.convert(src, "y.zarr", memory=memory)
result = told() | {"digest": digest("y.zarr"), "saves": len(saves)}
"""


@pytest.mark.parametrize("kind", ["whole", "packed", "several", "turns to reals"])
def test_separated_values(process, tmp_path, rng, kind):
    """Whichever the dtype became, and in whichever file and chunk the process died."""
    rows, names = 300_000, "a,b,c"
    x = rng.integers(-(10**6), 10**6, (rows, 3))
    text = "\n".join([names, *(",".join(map(str, row)) for row in x.tolist())]) + "\n"
    if kind == "turns to reals":
        text += "0.5,,7\n"
        x = np.vstack([x, [0.5, np.nan, 7]])
    (tmp_path / "t.csv").write_text(text)
    src = "t.csv"
    if kind == "packed":
        import gzip

        (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes(), 1))
        src = "t.csv.gz"
    if kind == "several":
        (tmp_path / "u.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
        x = np.vstack([[[1, 2, 3], [4, 5, 6]], x, [[1, 2, 3], [4, 5, 6]]])
        src = ["u.csv", "t.csv", "./u.csv"]
    whole = process(_CSV, memory="160MiB", src=src)
    assert whole["saves"] > 1
    fl.delete(tmp_path / "y.zarr")
    process(_CSV, kill=whole["saves"] - 1, memory="150MiB", src=src)
    (left,) = left_at(tmp_path / "y.zarr")
    assert 0 < left.done <= 1
    if kind == "whole":  # the same call goes on too, with the same bytes
        again = process(_CSV, memory="200MiB", src=src)
    else:
        again = process('fl.resume("y.zarr")\nresult = told() | {"digest": digest("y.zarr")}')
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    found = fl.open(tmp_path / "y.zarr")
    assert found.columns == names.split(",")
    np.testing.assert_array_equal(found[...], x)


def test_a_part_that_was_changed_is_told(process, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x\n" + "17\n" * 400_000)
    process(_CSV, kill=1, memory="150MiB", src=["a.csv", "b.csv"])
    (tmp_path / "b.csv").write_text("x\n18\n")
    with pytest.raises(fl.FormatError, match=r"b\.csv' was changed since"):
        fl.resume(tmp_path / "y.zarr")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fl.convert([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "y.zarr")
    assert fl.open(tmp_path / "y.zarr").shape == (400_001, 1)
    assert not told or "throw" in str(told[0].message)
