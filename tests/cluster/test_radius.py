"""Neighbours within a radius against all distances in float64."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone._cli import cli
from tests.cluster.test_knn import STORED, at_an_offset, brute, queries_and_points
from tests.support.examples import examples
from tests.support.processes import fingerprint


def dense(found, empty):
    """The stored values in their places, `empty` where none is."""
    matrix = found.to_scipy()
    made = np.full(matrix.shape, empty)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    assert (np.diff(matrix.indices) > 0)[np.diff(rows) == 0].all()  # columns ascend within a row
    made[rows, matrix.indices] = matrix.data
    return made


def check(found, q, x, radius, metric="euclidean", exclude_self=False):
    far = -np.inf if metric == "inner" else np.inf
    distances, order = brute(q, x, len(x), metric)
    expected = np.empty_like(distances)
    np.put_along_axis(expected, order, distances, axis=1)
    sign = -1 if metric == "inner" else 1
    near = sign * expected <= sign * radius
    if exclude_self:
        np.fill_diagonal(near, val=False)
    made = dense(found, far)
    scale = max(1.0, abs(expected).max())
    clear = abs(expected - radius) > 1e-12 * scale  # where rounding of float64 itself decides, either will do
    assert ((made != far) == near)[clear].all()
    both = (made != far) & near
    assert abs(made - expected)[both].max(initial=0) <= 1e-13 * scale * np.sqrt(q.shape[1])


@pytest.mark.parametrize(("metric", "radius"), [("euclidean", 3.1), ("cosine", 0.4), ("inner", 4.0)])
@pytest.mark.parametrize("stored", STORED)
def test_neighbours_are_those_of_numpy(tmp_path, metric, radius, stored):
    q, x, given = queries_and_points(tmp_path, stored)
    check(fl.radius_neighbors(*given, radius, metric=metric), q, x, radius, metric)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_neighbours_hold_at_an_offset(dtype):
    x, far = at_an_offset(dtype)
    radius = 100.0 if dtype == "i2" else 1.0
    check(fl.radius_neighbors(x, None, radius, exclude_self=True), x, x, radius, exclude_self=True)
    check(fl.radius_neighbors(far, x, 22360.0), far, x, 22360.0)


@given(st.integers(1, 30), st.integers(1, 40), st.integers(1, 5), st.sampled_from([0.0, 1.0, 2.5, 100.0]))
@examples(20)
def test_small_shapes(m, n, d, radius):
    rng = np.random.default_rng(m * 41 + n)
    q, x = (np.round(rng.standard_normal((rows, d)) * 2) for rows in (m, n))  # distances on the radius, too
    found = fl.radius_neighbors(q, x, radius)
    assert found.shape == (m, n)
    squares = ((q[:, None] - x) ** 2).sum(2)
    expected = np.where(
        squares <= radius**2, np.sqrt(squares), np.inf
    )  # whole numbers: no rounding but the root's
    assert np.array_equal(dense(found, np.inf), expected)


def test_distances_of_zero_are_stored_and_pairs_are_symmetric():
    x = np.repeat(np.random.default_rng(1).standard_normal((40, 3)), 2, axis=0)
    for metric in ("euclidean", "cosine"):
        found = fl.radius_neighbors(x, None, 0.7, metric=metric).to_scipy()
        assert (found.indptr[1:] > found.indptr[:-1]).all()
        assert (found != found.T).nnz == 0
        assert ((found.indices[:, None] == np.arange(80)).sum(0) >= 2).all()  # itself and its double


def test_results_are_kept_and_stretches_have_the_same_bits(tmp_path):
    rng = np.random.default_rng(5)
    x = fl.from_numpy(rng.standard_normal((12_000, 24)).astype("f4"), str(tmp_path / "x.zarr"))
    q = fl.from_numpy(rng.standard_normal((4_000, 24)).astype("f4"), str(tmp_path / "q.zarr"))
    plan = fl.radius_neighbors.plan(q, x, 5.2)
    whole = fl.radius_neighbors(q, x, 5.2, out=tmp_path / "near.zarr")
    done = fl.stats()
    assert plan.flops == done.flops == 2.0 * 4_000 * 12_000 * 24
    assert abs(plan.bytes_read - done.bytes_read) <= 0.01 * done.bytes_read
    assert plan.passes == done.passes == 1
    assert fl.open(tmp_path / "near.zarr").stored_values == whole.stored_values > 500_000
    one = of(whole)
    with fl.Runtime(memory=plan.least_memory + (2 << 20), workers=1) as runtime:
        less = fl.radius_neighbors(q, x, 5.2)
        tight = fl.stats()
        assert tight.peak_memory <= runtime.memory
    assert of(less) == one
    assert tight.passes > 3  # what does not fit is begun again, and the rest cut into stretches
    assert "begun again" in tight.note


def of(found):
    matrix = found.to_scipy()
    return fingerprint(matrix.indptr, matrix.indices, matrix.data)


def test_a_query_whose_neighbours_do_not_fit_is_refused(tmp_path):
    x = fl.from_numpy(np.zeros((1_500_000, 1), "f4"), str(tmp_path / "x.zarr"))
    out = tmp_path / "near.zarr"
    fl.radius_neighbors(np.ones((3, 1)), x, 0.5)  # what is loaded once is there
    least = fl.radius_neighbors.plan(x[:3], x, 1.0, out=out).least_memory
    with (
        fl.Runtime(memory=least + (16 << 20)),
        pytest.raises(fl.BudgetError, match="row 0 of Q has more than"),
    ):
        fl.radius_neighbors(x[:3], x, 1.0, out=out)
    assert not out.exists()
    with pytest.raises(fl.BudgetError) as refused:
        fl.radius_neighbors(x[:3], x, 1.0, memory=least + (16 << 20))
    assert fl.radius_neighbors(x[:3], x, 1.0, memory=refused.value.least).stored_values == 4_500_000


near = fl.radius_neighbors


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: near(x, x, -1), fl.ShapeError, "a finite number of 0 or more"),
        (lambda x: near(x, x, np.nan), fl.ShapeError, "radius is nan"),
        (lambda x: near(x, x, np.inf, metric="inner"), fl.ShapeError, "a finite number is needed"),
        (lambda x: near(x, x, "far"), fl.ShapeError, "radius is 'far'"),
        (lambda x: near(x, x, 3, exclude_self=True), fl.ShapeError, "leave X out"),
        (lambda x: near(x, x[:, :2], 3), fl.ShapeError, "points of one space"),
        (lambda x: near(x, x, 3, metric="l1"), fl.ShapeError, "radius_neighbors: metric is 'l1'"),
        (lambda x: near(x[0], x, 3), fl.ShapeError, "a point a row"),
        (lambda x: near(x, x, 3, out="near.npy"), fl.ShapeError, "directory"),
        (lambda x: near(np.where(x > 2, np.nan, x), x, 3), fl.NumericalError, "Q has NaN or Inf at row"),
        (lambda x: near(x, np.where(x > 2, np.nan, x), 3), fl.NumericalError, "X has NaN or Inf at row"),
    ],
)
def test_bad_input_is_refused(call, error, said):
    x = np.random.default_rng(0).standard_normal((30, 4))
    x[3, 2] = 3
    with pytest.raises(error, match=said):
        call(x)


def test_the_command_tells_how_many(tmp_path):
    x = np.random.default_rng(0).standard_normal((300, 3))
    np.save(tmp_path / "x.npy", x)
    run = CliRunner().invoke(
        cli, ["knn", str(tmp_path / "x.npy"), "--radius", "0.5", "-o", str(tmp_path / "near.zarr"), "--json"]
    )
    assert run.exit_code == 0, run.output
    found = fl.open(tmp_path / "near.zarr")
    assert json.loads(run.output)["neighbours"] == found.stored_values
    check(found, x, x, 0.5)
    run = CliRunner().invoke(cli, ["knn", str(tmp_path / "x.npy"), "--radius", "0.5"])
    assert f"{found.stored_values:,} neighbours" in run.output
