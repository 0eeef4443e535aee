"""Reductions of sparse matrices wait, and act as the arrays that they will be; dtypes and powers by SciPy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone._expression.expression import Expression

NAMES = ("sum", "mean", "var", "min", "max", "count_nonzero")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Three panels."""
    m = sp.random(140_000, 30, 0.1, "csr", np.float32, random_state=1)
    m.data = np.ceil(m.data * 9) - 4
    return fl.from_blocks([m], tmp_path_factory.mktemp("pending") / "a.zarr"), m.toarray()


def test_a_reduction_waits_until_somebody_needs_it(stored):
    S, dense = stored
    float(fl.from_numpy(np.ones(3)).sum())
    before = fl.stats()
    sums = S.sum(0)
    assert isinstance(sums, fl.Reduced)
    assert (sums.shape, sums.dtype, sums.ndim, sums.size, len(sums)) == ((30,), np.float64, 1, 30, 30)
    assert "pending" in repr(sums)
    assert fl.stats() is before
    np.testing.assert_array_equal(np.asarray(sums), dense.sum(0, dtype=float))
    read = fl.stats()
    assert read.what.startswith("sum 140000 x 30 sparse")
    assert sums[3] == dense[:, 3].sum(dtype=float)
    assert fl.stats() is read  # it keeps its value
    assert S.count_nonzero(1).dtype == np.int64
    assert S.max(0).dtype == np.float32
    assert S.mean().shape == ()


def test_it_acts_as_an_array(stored):
    S, dense = stored
    rows = dense.sum(1, dtype=float)
    for made, wanted in (
        (S.sum(1) * 2, rows * 2),
        (1e4 / (S.sum(1) + 1e3), 1e4 / (rows + 1e3)),
        (S.sum(1)[:, None], rows[:, None]),
        (S.sum(1) > 5, rows > 5),
        (np.sqrt(abs(S.sum(1))), np.sqrt(abs(rows))),
        (np.concatenate([S.sum(1), S.sum(1)]), np.concatenate([rows, rows])),
        (S.sum(1) - S.sum(1).mean(), rows - rows.mean()),
        (np.argsort(S.sum(0)), np.argsort(dense.sum(0, dtype=float))),
        (S.sum(0).reshape(5, 6).T, dense.sum(0, dtype=float).reshape(5, 6).T),
        (np.add.reduce(S.sum(0)), dense.sum(dtype=float)),
        (pickle.loads(pickle.dumps(S.sum(0))), dense.sum(0, dtype=float)),
    ):
        assert type(made) in (np.ndarray, np.float64)
        np.testing.assert_allclose(made, wanted, rtol=1e-12)
    changed = S.sum(0)
    changed[changed < 0] = 7
    changed += 1
    np.testing.assert_array_equal(changed, np.where(dense.sum(0) < 0, 7, dense.sum(0, dtype=float)) + 1)
    assert float(S.sum()) == int(S.sum()) == dense.sum(dtype=float)
    assert f"{S.mean():.6f}" == f"{dense.mean(dtype=float):.6f}"
    assert bool(S.count_nonzero() > 0)
    assert list(S.sum(0)) == dense.sum(0, dtype=float).tolist()
    lazy = fl.from_numpy(np.ones((2, 30))) - S.mean(0)
    assert isinstance(lazy, Expression)
    np.testing.assert_allclose(
        np.asarray(lazy), 1 - dense.mean(0, dtype=float)[None].repeat(2, 0), rtol=1e-12
    )
    np.testing.assert_array_equal((S * S.max(0)).to_scipy().toarray(), dense * dense.max(0))
    np.testing.assert_array_equal((S.max(0) * S).to_scipy().toarray(), dense * dense.max(0))


def test_several_take_one_read_and_have_the_bits_that_each_has_alone(stored):
    S, _ = stored
    for view in (S, S[10_000:90_000].T, S.log1p() * 2, np.sqrt(abs(S))[S.count_nonzero(1) > 2]):
        asked = [(name, axis) for name in NAMES for axis in (None, 0, 1)]
        alone, read = [], 0
        for name, axis in asked:
            alone.append(np.asarray(getattr(view, name)(axis)))
            read = max(read, fl.stats().bytes_read)
        pending = [getattr(view, name)(axis) for name, axis in asked]
        floats = not view.lazy or view.dtype == np.float64 or not view._steps
        plan = fl.compute.plan(*pending) if floats else None
        for workers in (1, 3):
            with fl.Runtime(workers=workers):
                found = fl.compute(*pending)
            if plan is not None:
                assert fl.stats().bytes_read == read == plan.bytes_read
            for (name, axis), one, many in zip(asked, alone, found, strict=True):
                assert np.asarray(many).tobytes() == one.tobytes(), (name, axis)


def test_several_of_different_matrices_take_one_read_each(stored, tmp_path):
    S, dense = stored
    x = fl.from_numpy(np.arange(12.0).reshape(3, 4), tmp_path / "x.zarr")
    total, mean, part, lazy, nothing = fl.compute(S.sum(), x.mean(0), S[:99].sum(0), x + 1, S[:0].sum(0))
    assert total == dense.sum(dtype=float)
    np.testing.assert_array_equal(mean, np.asarray(x).mean(0))
    np.testing.assert_array_equal(part, dense[:99].sum(0, dtype=float))
    np.testing.assert_array_equal(np.asarray(lazy), np.asarray(x) + 1)
    np.testing.assert_array_equal(nothing, np.zeros(30))
    fl.compute(S.sum(0), out=tmp_path / "sums.zarr")
    np.testing.assert_array_equal(np.asarray(fl.open(tmp_path / "sums.zarr")), dense.sum(0, dtype=float))
    with pytest.raises(fl.BudgetError, match="^compute: needs") as refused:
        fl.compute(S.sum(0), S.var(1), memory="1MiB")
    fl.compute(S.sum(0), S.var(1), memory=refused.value.least)
    assert fl.stats().peak_memory <= refused.value.least


@pytest.mark.parametrize("n", [1, 2, 3, 0.5, 2.5])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_powers_are_scipys(n, dtype):
    m = sp.random(300, 20, 0.3, "csr", random_state=1)
    m.data = np.ceil(m.data * 9)
    S, wanted = fl.from_blocks([m.astype(dtype)]), m.power(n)
    real = np.float64 if dtype == "float64" else np.float32
    view = S.power(n)
    assert view.dtype == real
    np.testing.assert_allclose(view.to_scipy().toarray(), wanted.toarray(), rtol=4 * np.finfo(real).eps)
    np.testing.assert_allclose(view.sum(0), wanted.sum(0).A1, rtol=20 * np.finfo(real).eps)
    np.testing.assert_allclose(
        view @ np.eye(20), wanted.toarray(), rtol=1e-6 if real == np.float32 else 1e-14
    )


def test_multiply_is_scipys():
    m = sp.random(300, 20, 0.3, "csr", random_state=1)
    S, rng = fl.from_blocks([m]), np.random.default_rng(0)
    for x in (3.0, rng.random(20), rng.random((1, 20)), rng.random((300, 1)), [2.0] * 20):
        np.testing.assert_allclose(S.multiply(x).to_scipy().toarray(), m.multiply(x).toarray(), rtol=1e-15)
    with pytest.raises(fl.ShapeError, match="20 factors of columns"):
        S.multiply(rng.random((20, 3)))  # what the product takes


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
@pytest.mark.parametrize("given", ["float32", "float64", "uint8", "int32"])
def test_astype_is_scipys(tmp_path, given, dtype):
    m = sp.random(300, 20, 0.3, "csr", random_state=1)
    m.data = np.ceil(m.data * 9) / (3 if given == "float64" else 1)
    m = m.astype(given)
    S, wanted = fl.from_blocks([m], tmp_path / "a.zarr").astype(dtype), m.astype(dtype)
    assert S.dtype == wanted.dtype
    assert S.to_scipy().dtype == wanted.dtype
    np.testing.assert_array_equal(S.to_scipy().toarray(), wanted.toarray())
    dense = wanted.toarray().astype(float)
    np.testing.assert_allclose(S @ np.eye(20), dense, rtol=1e-15)
    np.testing.assert_array_equal(S.max(0), wanted.toarray().max(0))
    np.testing.assert_allclose(S.sum(1), dense.sum(1), rtol=1e-14)
    scaled = S[50:].log1p()
    assert scaled.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_allclose(scaled.sum(0), np.log1p(dense[50:]).sum(0), rtol=1e-6)
    scores = fl.pca(S, 2).scores
    assert scores.dtype == (np.float64 if dtype == "float64" else np.float32)
    fl.convert(S, tmp_path / "b.zarr")
    np.testing.assert_array_equal(fl.open(tmp_path / "b.zarr").to_scipy().toarray(), dense)


def test_wider_integers_hold_what_they_held():
    m = sp.csr_matrix(np.array([[0, 200], [3, 0]], np.uint8))
    S = fl.from_blocks([m])
    wide = S.astype("int64")
    assert wide.dtype == np.int64
    assert wide.max().item() == 200
    assert wide.max().dtype == np.int64
    assert wide.to_scipy().dtype == np.int64
    assert S.astype("uint8") is S


@pytest.mark.parametrize(("call", "message"), [
    (lambda S: S.power(0), "power: n is 0, which does not keep zero zero"),
    (lambda S: S.power(-1), "more than 0"),
    (lambda S: S.power(np.inf), "a finite number"),
    (lambda S: S.power([2]), "power: n is list; a number is needed"),
    (lambda S: S.astype("int16"), "astype: float64 as int16 is not possible without loading"),
    (lambda S: S.astype("m8[s]"), "astype: float64 as timedelta64"),
    (lambda S: S.multiply("x"), "multiply: the other operand is str"),
    (lambda S: S.sum(2), "axis 2 is out of bounds"),
])  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(fl.from_blocks([np.eye(4)]))
