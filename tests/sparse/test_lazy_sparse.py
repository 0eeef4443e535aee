"""Sparse matrices seen through scaling, maps and a choice of columns, against SciPy in memory."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.support.processes import random_csr


def counts(rows, cols, density, seed, dtype="float32"):
    m = random_csr(rows, cols, density, seed)
    m.data = np.ceil(m.data * 7)
    return m.astype(dtype)


@examples(60)
@given(data=st.data())
def test_steps_in_any_order_are_scipys(data, tmp_path_factory):
    rows, cols = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 60))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "uint8"]))
    m = counts(rows, cols, data.draw(st.sampled_from([0.0, 0.05, 0.5])), 3, dtype)
    A = fl.from_blocks([m], tmp_path_factory.mktemp("sparse") / "a.zarr")
    rng = np.random.default_rng(4)
    real = np.float32 if np.dtype(dtype).itemsize <= 4 else np.float64
    dense, view = m.toarray().astype(np.float64), A
    for step in data.draw(
        st.lists(st.sampled_from(["rows", "columns", "log1p", "factor", "select"]), max_size=5)
    ):
        if step == "rows":
            f = rng.uniform(0.1, 2, rows)
            dense, view = dense * f[:, None], view * f[:, None]
        elif step == "columns":
            f = rng.uniform(0.1, 2, dense.shape[1])
            dense, view = dense * f, view.scale(columns=f)
        elif step == "log1p":
            dense, view = np.log1p(dense), np.log1p(view)
        elif step == "factor":
            dense, view = dense / 3, view / 3
        else:
            keep = rng.random(dense.shape[1]) < 0.6
            keep[rng.integers(0, len(keep))] = True
            dense, view = dense[:, keep], view[:, keep]
    assert view.shape == dense.shape
    eps = 8 * np.finfo(real).eps
    x, y = rng.standard_normal((dense.shape[1], 3)), rng.standard_normal((rows, 2))
    size = np.abs(dense) @ np.abs(x) + 1e-300
    assert (np.abs(view @ x - dense @ x) <= eps * size + 1e-300).all()
    np.testing.assert_allclose(view.T @ y, dense.T @ y, atol=eps * np.abs(dense).sum() * 4 + 1e-300)
    np.testing.assert_allclose(
        view.gram(x), dense.T @ (dense @ x), atol=eps * (np.abs(dense) ** 2).sum() * 50 + 1e-300
    )
    np.testing.assert_allclose(view.to_scipy().toarray(), dense, rtol=eps * 4)
    np.testing.assert_allclose(view.sum(0), dense.sum(0), rtol=eps)
    np.testing.assert_allclose(view.sum(1), dense.sum(1), rtol=eps)
    np.testing.assert_allclose(view.T.sum(0), dense.sum(1), rtol=eps)
    np.testing.assert_allclose(view.mean(), dense.mean(), rtol=eps)
    np.testing.assert_allclose(view.var(0), dense.var(0), rtol=1e-5, atol=eps)
    np.testing.assert_allclose(view.var(1), dense.var(1), rtol=1e-5, atol=eps)
    np.testing.assert_array_equal(view.count_nonzero(0), np.count_nonzero(dense, axis=0))
    np.testing.assert_array_equal(view.count_nonzero(1), np.count_nonzero(dense, axis=1))


def test_several_panels_and_pca(tmp_path):
    blocks = [counts(20_000, 300, 0.2, i) for i in range(4)]
    A = fl.from_blocks(iter(blocks), tmp_path / "a.zarr")
    whole = sp.vstack(blocks, format="csr")
    totals = np.asarray(whole.sum(1)).ravel()
    totals[totals == 0] = 1
    keep = np.sort(np.random.default_rng(0).choice(300, 120, replace=False))
    view = np.log1p(A * (1e4 / totals)[:, None])[:, keep]
    dense = np.log1p(whole.toarray().astype(np.float64) * (1e4 / totals)[:, None])[:, keep]
    np.testing.assert_allclose(view.sum(0), dense.sum(0), rtol=1e-6)
    exact = np.linalg.svd(dense - dense.mean(0), compute_uv=False)[:5]
    bits = set()
    for workers, room in ((1, 400 << 20), (2, 2 << 30)):  # beyond what this process holds after other tests
        with fl.Runtime(workers=workers, memory=fl._core.resident_bytes() + room):
            for method in ("gram", "krylov"):
                r = fl.pca(view, 5, method=method)
                np.testing.assert_allclose(r.singular_values, exact, rtol=1e-5)
                np.testing.assert_allclose(r.mean, dense.mean(0), rtol=1e-6)
                assert fl.stats().peak_memory <= fl.stats().memory
                bits.add((method, r.singular_values.tobytes(), np.asarray(r.scores).tobytes()))
    assert len(bits) == 2


@pytest.mark.parametrize(("call", "message"), [
    (lambda A: A.scale(rows=np.ones(3)), "one factor for each"),
    (lambda A: A / np.zeros(20), "NaN or Inf"),
    (lambda A: np.exp(A), "to_scipy"),
    (lambda A: A + 1, "unsupported operand"),
    (lambda A: A.map("cos"), "keep zero zero"),
    (lambda A: A[:, [3, 1]], "increasing"),
    (lambda A: A * A, "multiply: the other operand is SparseArray; a number, 20 factors of columns"),
    (lambda A: A * np.array([object()] * 20), "ndarray of object; a number"),
    (lambda A: A / "x", "divide: the other operand is str"),
    (lambda A: A * fl.from_numpy(np.ones(20)), "the other operand is Array"),
    (lambda A: np.ones((50, 20)) * A, "the other operand is 50 x 20 and the matrix 50 x 20"),
    (lambda A: pickle.dumps(A.log1p()), "does not travel"),
])  # fmt: skip
def test_bad_input(tmp_path, call, message):
    A = fl.from_blocks([counts(50, 20, 0.3, 1)], tmp_path / "a.zarr")
    with pytest.raises((TypeError, ValueError), match=message):
        call(A)


def test_nan_is_not_zero():
    A = fl.from_blocks([np.array([[1.0, np.nan, 0], [0, 2, np.inf]])])
    assert A.count_nonzero() == 4
    np.testing.assert_array_equal(A.count_nonzero(0), [1, 2, 1])
    np.testing.assert_array_equal(np.log1p(A).count_nonzero(1), [2, 2])


@examples(60)
@given(data=st.data())
def test_extremes_and_counts_are_numpys(data, tmp_path_factory):
    rows, cols = data.draw(st.integers(1, 80)), data.draw(st.integers(1, 30))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "int64", "uint8"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    full = data.draw(st.sampled_from([0.05, 0.5, 1]))
    dense = np.where(rng.random((rows, cols)) < full, rng.integers(0, 9, (rows, cols)), 0)
    sign = 1 if dtype == "uint8" else rng.choice([-1, 1], dense.shape)
    dense = (dense * sign).astype(dtype)
    if dense.dtype.kind == "f" and data.draw(st.booleans()):
        dense[rng.random(dense.shape) < 0.05] = np.nan
        dense[rng.random(dense.shape) < 0.05] = -np.inf
    view = fl.from_blocks([dense], tmp_path_factory.mktemp("sparse") / "a.zarr")
    if data.draw(st.booleans()):
        factors = rng.uniform(0.5, 2, rows)
        real = np.float32 if np.dtype(dtype).itemsize <= 4 else np.float64
        view, dense = view * factors[:, None], (dense.astype(real) * factors[:, None]).astype(real)
    if data.draw(st.booleans()):
        keep = rng.random(cols) < 0.6
        keep[rng.integers(cols)] = True
        view, dense = view[:, keep], dense[:, keep]
        assert view.nnz == np.count_nonzero(dense)
    if data.draw(st.booleans()):
        view, dense = view.T, dense.T
    for axis in (None, 0, 1, -1):
        for name in ("min", "max"):
            got, wanted = getattr(view, name)(axis), getattr(dense, name)(axis)
            assert np.asarray(got).dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(view.count_nonzero(axis), np.count_nonzero(dense, axis=axis))


def test_reductions_read_once_inside_the_least_limit(tmp_path):
    A = fl.from_blocks((counts(20_000, 3000, 0.02, i) for i in range(4)), tmp_path / "a.zarr")
    view = np.log1p(A * np.full(80_000, 2.0)[:, None])
    for name, axis in (("min", 0), ("max", 1), ("var", 1), ("count_nonzero", None), ("sum", 0), ("sum", 1)):
        with pytest.raises(fl.BudgetError, match=f"^{name}: needs") as refused:
            getattr(view, name)(axis, memory="1MiB")
        getattr(view, name)(axis, memory=refused.value.least)
        stats = fl.stats()
        assert stats.peak_memory <= refused.value.least
        assert stats.bytes_read <= 1.05 * A.stored_bytes + (1 << 20)
    bits = set()
    for workers in (1, 2, 4):
        with fl.Runtime(workers=workers):
            bits.add(view.var(1).tobytes() + view.max(0).tobytes() + np.asarray(view.min()).tobytes())
    assert len(bits) == 1


def test_extremes_that_float64_cannot_hold_are_refused():
    A = fl.from_blocks([np.array([[2**53 + 2, 0]])])
    with pytest.raises(fl.NumericalError, match="max: values beyond 2\\^53"):
        A.max().item()
    assert A.min() == 0
    with pytest.raises(fl.ShapeError, match="min: 0 x 2 has no elements"):
        fl.from_blocks([np.zeros((0, 2))]).min(0)


def test_views_of_columns_say_what_they_hold(tmp_path):
    m = counts(500, 40, 0.2, 2)
    A = fl.from_blocks([m], tmp_path / "a.zarr")
    view = A[:, 3:9]
    assert f"chosen columns of 40, {m.nnz:,} stored values in all of them" in repr(view)
    assert "%" not in repr(view)
    assert view.nnz == m[:, 3:9].nnz
    assert view.T.nnz == view.nnz
    assert A.nnz == m.nnz


def test_lists_are_factors():
    A = fl.from_blocks([np.eye(3)])
    np.testing.assert_array_equal((A * [1, 2, 3]).to_scipy().toarray(), np.diag([1.0, 2, 3]))
    np.testing.assert_array_equal((A / [[1], [2], [4]]).to_scipy().toarray(), np.diag([1, 0.5, 0.25]))


@pytest.mark.parametrize("name", ["sum", "mean", "var", "min", "max", "count_nonzero"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions_have_plans_that_count_their_one_read(tmp_path, name, axis):
    a = sp.random(3000, 400, 0.05, "csr", random_state=0)
    view = fl.from_blocks([a], tmp_path / "a.zarr").scale(factor=2.0).T
    method = getattr(view, name)
    plan = method.plan(axis, memory="3GiB")
    method(axis, memory="3GiB")
    stats = fl.stats()
    assert (plan.what, plan.bytes_read, plan.passes) == (stats.what, stats.bytes_read, 1)
    assert plan.what.startswith(f"{name} ")
    assert plan.least_memory > 0
    assert "one read" in method.__doc__


@pytest.mark.parametrize("along", [0, 1])
def test_sums_are_compensated(tmp_path, along):
    """Plain sums lose every 1 beside 1e16; the bits depend on neither limit nor workers."""
    small = np.tile([1e16, 1.0, -1e16], 2000)
    dense = np.stack([small, np.full(small.size, 0.1), np.where(small == 1, np.inf, 1.0)], axis=1 - along)
    view = fl.from_blocks(np.array_split(dense, 7) if along == 0 else [dense], tmp_path / "a.zarr")
    found = []
    for workers, memory in ((1, view.sum.plan(along).least_memory + (4 << 20)), (3, "2GiB")):
        with fl.Runtime(workers=workers, memory=memory):
            for matrix, axis in ((view, along), (view.T, 1 - along)):
                sums = matrix.sum(axis)
                assert sums.tolist() == [2000.0, math.fsum([0.1] * small.size), np.inf]
                found.append((sums.tobytes(), matrix.mean(axis).tobytes(), float(matrix.sum())))
    assert len(set(found)) == 1
    finite = fl.from_blocks([dense[:, :2] if along == 0 else dense[:2]])
    assert finite.sum() == math.fsum(finite.to_scipy().data)
    assert finite.mean() == finite.sum() / (2 * small.size)
