"""Nearest neighbours against all distances in float64, ties by index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.support.processes import fingerprint


def brute(q, x, k, metric="euclidean", exclude_self=False):
    """Distances and indices in float64."""
    q, x = np.asarray(q, float), np.asarray(x, float)
    if metric == "euclidean":
        keys = np.array([((x - one) ** 2).sum(axis=1) for one in q])
    else:
        keys = -(q @ x.T)
        if metric == "cosine":
            lengths = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(x, axis=1))
            keys = 1 + keys / np.where(lengths > 0, lengths, 1)
    if exclude_self:
        np.fill_diagonal(keys, np.inf)
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    keys = np.take_along_axis(keys, order, axis=1)
    return {"euclidean": np.sqrt(np.maximum(keys, 0)), "cosine": keys, "inner": -keys}[metric], order


def check(found, q, x, k, metric="euclidean", exclude_self=False):
    distances, indices = (np.asarray(one) for one in found)
    expected, order = brute(q, x, k, metric, exclude_self)
    scale = max(1.0, abs(expected).max())
    assert abs(distances - expected).max() <= 1e-13 * scale * np.sqrt(q.shape[1])
    # where rounding of float64 itself decides, either order will do
    clear = np.ones_like(order, bool)
    gap = abs(np.diff(expected, axis=1)) > 1e-12 * scale
    clear[:, 1:] &= gap
    clear[:, :-1] &= gap
    same = np.concatenate([np.ones((len(order), 1), bool), ~gap], axis=1)
    assert (indices == order)[clear & ~same].all()
    if metric == "euclidean":  # equal rows have equal sums: ties by index, everywhere
        assert (indices == order).all()


STORED = "zarr", "memory", "transposed"


def queries_and_points(tmp_path, stored):
    """Queries and points, some of them twice; and how a routine gets them."""
    rng = np.random.default_rng(3)
    q, x = rng.standard_normal((150, 9)).astype("f4"), rng.standard_normal((2100, 9)).astype("f4")
    x[40:60] = x[:20]
    given = q, x
    if stored == "zarr":
        given = tuple(
            fl.from_numpy(one, str(tmp_path / f"{name}.zarr"), chunks=(256, 9))
            for name, one in (("q", q), ("x", x))
        )
    if stored == "transposed":
        given = q, fl.from_numpy(np.ascontiguousarray(x.T), str(tmp_path / "x.zarr")).T
    return q, x, given


def at_an_offset(dtype):
    """Points at an offset of 10,000, and queries far from all of them."""
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((700, 5)) * (100 if dtype == "i2" else 1) + 1e4).astype(dtype)
    return x, x[:50] - np.asarray(1e4, dtype)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner"])
@pytest.mark.parametrize("stored", STORED)
def test_neighbours_are_those_of_numpy(tmp_path, metric, stored):
    q, x, given = queries_and_points(tmp_path, stored)
    check(fl.knn(*given, 8, metric=metric), q, x, 8, metric)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_neighbours_hold_at_an_offset(dtype):
    x, far = at_an_offset(dtype)
    check(fl.knn(x, None, 6, exclude_self=True), x, x, 6, exclude_self=True)
    check(fl.knn(far, x, 6), far, x, 6)


@given(st.integers(1, 30), st.integers(1, 40), st.integers(1, 5), st.data())
@examples(25)
def test_small_shapes(m, n, d, data):
    k = data.draw(st.integers(1, n))
    rng = np.random.default_rng(m * 41 + n)
    q, x = (np.round(rng.standard_normal((rows, d)) * 2) for rows in (m, n))  # many ties
    check(fl.knn(q, x, k), q, x, k)
    if k < n:
        check(fl.knn(x, None, k, exclude_self=True), x, x, k, exclude_self=True)


def test_results_are_kept_and_blocks_have_the_same_bits(tmp_path):
    rng = np.random.default_rng(5)
    x = fl.from_numpy(rng.standard_normal((30_000, 40)).astype("f4"), str(tmp_path / "x.zarr"))
    q = fl.from_numpy(rng.standard_normal((4_000, 40)).astype("f4"), str(tmp_path / "q.zarr"))
    whole = fl.knn(q, x, 30, out=tmp_path / "found.zarr")
    one = fingerprint(*(np.asarray(part) for part in whole))
    assert np.array_equal(np.asarray(fl.open(tmp_path / "found.zarr", "indices")), np.asarray(whole.indices))
    plan = fl.knn.plan(q, x, 30)
    assert plan.flops == fl.stats().flops == 2.0 * 4_000 * 30_000 * 40
    with fl.Runtime(memory=plan.least_memory + (2 << 20), workers=1):
        small = fl.knn.plan(q, x, 30)
        less = fl.knn(q, x, 30)
        done = fl.stats()
    assert small.passes == done.passes
    assert abs(small.bytes_read - done.bytes_read) <= 0.01 * done.bytes_read
    assert fingerprint(*(np.asarray(part) for part in less)) == one


def test_odd_chunks_of_queries_are_cut(tmp_path):
    x = np.random.default_rng(0).standard_normal((4099, 3)).astype("f4")
    q = fl.from_numpy(x[:2051], str(tmp_path / "q.zarr"), chunks=(2051, 3))
    distances, indices = fl.knn(q, x, 2, out=tmp_path / "found.zarr")
    assert distances.chunks[0] <= 1024
    assert (np.asarray(indices)[:, 0] == np.arange(2051)).all()
    assert np.allclose(np.asarray(distances)[7, 1], np.sort(np.linalg.norm(x - x[7], axis=1))[1], rtol=1e-6)


def test_points_with_themselves_take_half_the_arithmetic(tmp_path):
    x = np.random.default_rng(6).standard_normal((9_000, 24)).astype("f4")
    x[5_000:5_200] = x[:200]
    stored = fl.from_numpy(x, str(tmp_path / "x.zarr"), chunks=(1_000, 24))
    other = fl.from_numpy(x, str(tmp_path / "y.zarr"), chunks=(1_000, 24))
    whole = fingerprint(*(np.asarray(part) for part in fl.knn(stored, other, 6)))
    plan = fl.knn.plan(stored, None, 6)
    assert fingerprint(*(np.asarray(part) for part in fl.knn(stored, None, 6))) == whole
    assert plan.flops == fl.stats().flops <= 0.57 * 2.0 * 9_000**2 * 24
    with fl.Runtime(memory=plan.least_memory + (2 << 20), workers=1):
        small = fl.knn.plan(stored, None, 6)
        assert fingerprint(*(np.asarray(part) for part in fl.knn(stored, None, 6))) == whole
        assert abs(small.bytes_read - fl.stats().bytes_read) <= 0.01 * fl.stats().bytes_read


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: fl.knn(x, x, 0), fl.ShapeError, "k is 0"),
        (lambda x: fl.knn(x, x, 31), fl.ShapeError, "there are 30 points"),
        (lambda x: fl.knn(x, None, 30, exclude_self=True), fl.ShapeError, "there are 29 points"),
        (lambda x: fl.knn(x, x, 3, exclude_self=True), fl.ShapeError, "leave X out"),
        (lambda x: fl.knn(x, x[:, :2], 3), fl.ShapeError, "points of one space"),
        (lambda x: fl.knn(x, x, 3, metric="l1"), fl.ShapeError, "choose 'euclidean'"),
        (lambda x: fl.knn(x[0], x, 3), fl.ShapeError, "a point a row"),
        (lambda x: fl.knn(np.where(x > 2, np.nan, x), x, 3), fl.NumericalError, "Q has NaN or Inf at row"),
        (lambda x: fl.knn(x, np.where(x > 2, np.nan, x), 3), fl.NumericalError, "X has NaN or Inf at row"),
    ],
)
def test_bad_input_is_refused(call, error, said):
    x = np.random.default_rng(0).standard_normal((30, 4))
    x[3, 2] = 3
    with pytest.raises(error, match=said):
        call(x)


def test_parallel_rows_are_ties():
    rng = np.random.default_rng(0)
    x = np.concatenate([factor * rng.standard_normal((1, 7)) for factor in (1, 2, 3, 0.1, 0.7, 1 / 3)])
    x = np.concatenate([factor * x for factor in (1, 3, 0.1, 0.7, 1 / 3, 11)])
    distances, indices = (np.asarray(one) for one in fl.knn(x, None, 6, metric="cosine"))
    assert (distances >= 0).all()
    equal = distances[:, 1:] == distances[:, :-1]
    assert (indices[:, 1:] > indices[:, :-1])[equal].all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_directions_have_no_length(scale):
    x = np.random.default_rng(1).standard_normal((30, 4))
    found, expected = fl.knn(x * scale, None, 5, metric="cosine"), fl.knn(x, None, 5, metric="cosine")
    assert np.allclose(np.asarray(found.distances), np.asarray(expected.distances), rtol=1e-12, atol=1e-15)
    assert (np.asarray(found.indices)[:, 1:] == np.asarray(expected.indices)[:, 1:]).all()
    near = fl.radius_neighbors(x * scale, None, 0.3, metric="cosine").to_scipy()
    assert near.nnz == fl.radius_neighbors(x, None, 0.3, metric="cosine").to_scipy().nnz
