"""Values that occur, and where values belong: NumPy's results."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
import flagstone._sort.unique as unique
from tests.sort.test_sort import DTYPES, same
from tests.support.examples import examples


def short_stretches(monkeypatch, step: int) -> None:
    monkeypatch.setattr(unique, "length_of", lambda call, extent, each: step)


@examples(12)
@given(data=st.data())
def test_unique_values_are_numpys(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    x = data.draw(hnp.arrays(dtype, hnp.array_shapes(max_dims=3, max_side=6, min_side=0)))
    a = fl.from_numpy(x) if data.draw(st.booleans()) else x
    for found, wanted in zip(fl.unique_all(a), np.unique_all(x), strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)
        assert found.dtype == wanted.dtype
    same(fl.unique_values(a), np.asarray(fl.unique_all(a).values))


@pytest.mark.parametrize("step", [7, 1000])
def test_stretches_end_anywhere(step, rng, monkeypatch):
    short_stretches(monkeypatch, step)
    x = rng.integers(0, 9, (17, 5)).astype("f4")
    x[3, 2:] = np.nan
    for a in (x, fl.from_numpy(x)):
        for found, wanted in zip(fl.unique_all(a), np.unique_all(x), strict=True):
            np.testing.assert_array_equal(np.asarray(found), wanted)
        assert np.asarray(fl.unique_counts(a).counts).sum() == x.size
        values, inverse = fl.unique_inverse(a)
        np.testing.assert_array_equal(np.asarray(values)[np.asarray(inverse)], x)


@examples(30)
@given(data=st.data(), side=st.sampled_from(["left", "right"]))
def test_places_are_numpys(data, side):
    kind = data.draw(st.sampled_from(["i4", "f8"]))
    numbers = st.integers(-9, 9)
    line = data.draw(hnp.arrays(kind, st.integers(0, 30), elements=numbers))
    values = data.draw(
        hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=2, max_side=6), elements=numbers)
    )
    ordered = np.sort(line)
    same(fl.searchsorted(ordered, values, side=side), np.asarray(np.searchsorted(ordered, values, side)))
    found = fl.searchsorted(fl.from_numpy(line), values, side=side, sorter=np.argsort(line))
    same(found, np.asarray(np.searchsorted(ordered, values, side)))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="side is 'middle'"):
        fl.searchsorted(np.arange(3), [1], side="middle")
    with pytest.raises(fl.ShapeError, match="x1 is 2 x 2; one dimension"):
        fl.searchsorted(np.ones((2, 2)), 1.0)
    for sorter, told in ((np.zeros((3, 1), int), "3 x 1"), ([0, 1], "2"), (0, "one number")):
        with pytest.raises(fl.ShapeError, match=f"sorter is {told} and x1 3; a place for each"):
            fl.searchsorted(np.arange(3), [1], sorter=sorter)


@pytest.mark.parametrize("name", ["values", "counts", "inverse", "all"])
@pytest.mark.parametrize("shape", [(300_000,), (600, 500)])
def test_plans_of_unique_values_count_what_is_moved(name, shape, rng):
    """Of values that all differ: what is counted for results is a bound."""
    routine = getattr(fl, f"unique_{name}")
    a = fl.from_numpy(rng.permutation(300_000).astype("f8").reshape(shape))
    before = fl.stats()
    plan = routine.plan(a)
    assert fl.stats() is before  # nothing was done
    routine(a)
    done = fl.stats()
    assert done.what == plan.what
    assert abs(done.bytes_read / plan.bytes_read - 1) < 0.02
    assert abs(done.bytes_written / plan.bytes_written - 1) < 0.02
    assert done.peak_memory <= plan.peak_memory * 1.1
    few = fl.from_numpy(rng.integers(0, 9, shape))
    plan = routine.plan(few)
    routine(few)
    assert fl.stats().bytes_written <= plan.bytes_written * 1.01


def test_plan_of_unique_values_names_the_least_limit(rng):
    a = fl.from_numpy(rng.random(2_000_000))
    least = fl.unique_all.plan(a).least_memory
    np.testing.assert_array_equal(
        np.asarray(fl.unique_all(a, memory=least + (8 << 20)).values), np.unique(np.asarray(a))
    )
