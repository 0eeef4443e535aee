"""Covariances and correlations against NumPy: layouts, dtypes, weights, second sets, exact symmetry."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flagstone as fl


def data(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 3 + 50
    if np.dtype(dtype).kind in "iu":
        x = rng.integers(0, 100, shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def agrees(found, wanted, k):
    found = np.asarray(found)
    assert found.shape == np.atleast_2d(wanted).shape
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, found.conj().T)
    size = np.abs(np.nan_to_num(wanted)).max()
    bound = 4 * k * np.finfo(found.dtype).eps * size
    np.testing.assert_allclose(found, np.atleast_2d(wanted), rtol=0, atol=bound)


@pytest.mark.parametrize("kind", ["memory", "npy", "zarr"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int8", "uint16"])
def test_numpys_numbers(tmp_path, kind, dtype):
    x = data((40, 300), dtype)
    X = fl.from_numpy(x, *([] if kind == "memory" else [tmp_path / f"x.{kind}"]))
    for given, seen in ((X, x), (X.T, x.T)):
        for options in ({}, {"rowvar": False}, {"bias": True}, {"ddof": 3}):
            agrees(fl.cov(given, **options), np.cov(seen, **options), 300)
        agrees(fl.corrcoef(given), np.corrcoef(seen), 300)
        agrees(fl.corrcoef(given, rowvar=False), np.corrcoef(seen, rowvar=False), 300)
    y = data((7, 300), "float64", 1)
    agrees(fl.cov(X, y), np.cov(x, y), 300)
    agrees(fl.corrcoef(X, fl.from_numpy(y)), np.corrcoef(x, y), 300)
    assert fl.cov(X, dtype="float32" if x.dtype.kind != "c" else "complex64").dtype.itemsize == (
        4 if x.dtype.kind != "c" else 8
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_weights_are_numpys(dtype):
    x = data((12, 90), dtype)
    rng = np.random.default_rng(2)
    often, weights = rng.integers(0, 4, 90), rng.random(90)
    for options in ({"fweights": often}, {"aweights": weights}, {"fweights": often, "aweights": weights}):
        for ddof in (None, 0, 2):
            agrees(fl.cov(fl.from_numpy(x), ddof=ddof, **options), np.cov(x, ddof=ddof, **options), 90)
    with pytest.raises(ValueError, match="cannot be negative"):
        fl.cov(x, aweights=-weights)
    with pytest.raises(TypeError, match="must be integer"):
        fl.cov(x, fweights=weights)
    with pytest.raises(fl.ShapeError, match="one for each of 90 observations"):
        fl.cov(x, aweights=weights[:5])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_correlations_lie_within_one(tmp_path, dtype):
    """Rounding brings some of these above 1: NumPy clips, real and imaginary parts alike, and leaves NaN."""
    base = data((1, 200), dtype)
    steps = np.linspace(1, 7, 600)[:, None].astype(base.real.dtype)
    x = np.concatenate([base * steps, -base * steps[:100], np.zeros((1, 200), dtype)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = np.corrcoef(x, dtype=x.dtype)
        for uplo in (None, "lower", "upper"):
            found = np.asarray(fl.corrcoef(fl.from_numpy(x), dtype=x.dtype, uplo=uplo))
            parts = np.stack([found.real, found.imag])
            assert np.nanmax(np.abs(parts)) <= 1
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            np.testing.assert_allclose(found, wanted, rtol=0, atol=800 * np.finfo(x.dtype).eps)
    assert (np.abs(np.diagonal(found)[:-1]) > 1 - 800 * np.finfo(x.dtype).eps).all()


def test_one_variable_has_a_number(tmp_path):
    x = data((50,), "float64")
    for function, numpys in ((fl.cov, np.cov), (fl.corrcoef, np.corrcoef)):
        for given in (fl.from_numpy(x), fl.from_numpy(x[None]), x[None]):
            found = function(given)
            assert np.shape(found) == numpys(x).shape == ()
            np.testing.assert_allclose(found, numpys(x), rtol=1e-14)
        assert function(x, out=tmp_path / "one.zarr").shape == (1, 1)


def test_what_does_not_vary():
    y = data((4, 50), "float64")
    y[2] = 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, wanted = np.asarray(fl.corrcoef(fl.from_numpy(y))), np.corrcoef(y)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        fl.cov(y[:, :1])


def test_a_mean_far_from_zero_costs_no_digits(tmp_path):
    x = data((30, 2000), "float64") + 1e8
    agrees(fl.cov(fl.from_numpy(x, tmp_path / "x.npy")), np.cov(x), 2000)


def test_same_bits_and_a_triangle(tmp_path):
    x = data((2300, 120), "float32")
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    seen = set()
    for workers in (1, 2, 4):
        with fl.Runtime(workers=workers):
            seen.add(np.asarray(fl.cov(X, dtype="float32", out=tmp_path / "c.zarr")).tobytes())
    assert len(seen) == 1
    fl.cov(X, dtype="float32", uplo="lower", out=tmp_path / "d.zarr")
    half = np.asarray(fl.open(tmp_path / "d.zarr", decode=False))
    np.testing.assert_array_equal(np.tril(half), np.tril(np.frombuffer(seen.pop(), "f4").reshape(half.shape)))
    assert not half[:100, -100:].any()
    assert "rank-k" in str(fl.cov.plan(X))


@pytest.mark.parametrize("call", [fl.cov, fl.corrcoef])
def test_the_read_for_the_means_counts(tmp_path, call):
    x = data((512, 4096), "float64")  # whole chunks
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    plan = call.plan(X)
    call(X)
    assert plan.bytes_read == pytest.approx(2 * x.nbytes, rel=0.05)
    assert fl.stats().bytes_read == pytest.approx(plan.bytes_read, rel=0.01)
