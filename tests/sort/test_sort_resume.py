"""Killed sorts go on: runs that were made are not made again, merged tiles not merged, at the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at

_SORT = """
fl.{call}(fl.open("x.npy"), {more}out="y.zarr", memory=memory)
result = told() | {{"digest": digest("y.zarr"), "saves": len(saves)}}
"""
ROWS = 6_000_000  # 46 MiB in runs under a limit that holds none of it beside the process


def killed(process, tmp_path, code, share, first, then):
    """The whole run, and what goes on after `share` of its saves."""
    whole = process(code, memory=first)
    assert whole["saves"] > 4
    fl.delete(tmp_path / "y.zarr")
    process(code, kill=max(1, int(whole["saves"] * share)), memory=first)
    (left,) = left_at(tmp_path / "y.zarr")
    assert 0 < left.done < 1
    again = process(f'fl.resume("y.zarr", memory="{then}")\nresult = told() | {{"digest": digest("y.zarr")}}')
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert not left_at(tmp_path / "y.zarr")
    return whole, again


@pytest.mark.parametrize(("share", "then"), [(0.3, "150MiB"), (0.8, "1GiB")])
def test_sorts(process, tmp_path, rng, share, then):
    """Killed while runs are formed and while they are merged; by more memory too."""
    x = rng.integers(-(1 << 40), 1 << 40, ROWS)
    np.save(tmp_path / "x.npy", x)
    whole, again = killed(process, tmp_path, _SORT.format(call="sort", more=""), share, "150MiB", then)
    assert again["read"] < (0.9 if share < 0.5 else 0.75) * whole["read"]
    np.testing.assert_array_equal(fl.open(tmp_path / "y.zarr")[...], np.sort(x))


def test_places(process, tmp_path, rng):
    x = rng.integers(0, 1000, ROWS // 2).astype("f4")
    x[::7] = np.nan
    np.save(tmp_path / "x.npy", x)
    killed(process, tmp_path, _SORT.format(call="argsort", more="descending=True, "), 0.7, "160MiB", "180MiB")
    places = fl.open(tmp_path / "y.zarr")[...]
    order = np.lexsort((np.arange(len(x)), -x, np.isnan(x)))
    np.testing.assert_array_equal(places, order)


def test_lines(process, tmp_path, rng):
    x = rng.random((3000, 2000), "f4")
    fl.from_numpy(x, tmp_path / "x.zarr", chunks=(100, 2000))
    code = _SORT.format(call="sort", more="axis=1, ").replace("x.npy", "x.zarr")
    whole, again = killed(process, tmp_path, code, 0.5, "150MiB", "200MiB")
    assert again["read"] < 0.8 * whole["read"]
    np.testing.assert_array_equal(fl.open(tmp_path / "y.zarr")[...], np.sort(x, 1))
