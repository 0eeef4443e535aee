"""Least squares whose R stays on disk: what small ones compute from singular values, without any."""

import numpy as np
import pytest

import flagstone as fl
from flagstone import linalg
from tests.support.processes import beside

from .test_lstsq import DTYPES, near, problem

NAMES = ("x", "residuals", "stderr", "gcv", "degrees_of_freedom", "intercept", "intercept_stderr", "total")


@pytest.fixture
def large(monkeypatch):
    """Return a function that fits as beyond 4096 columns."""

    def fit(*given, **options):
        with monkeypatch.context() as patched:
            patched.setattr("flagstone._solve.lstsq.MOST", 20)
            return linalg.lstsq(*given, **options)

    return fit


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_from_singular_values(large, dtype):
    a, b = problem(400, 70, 2, dtype)
    weights = np.random.default_rng(5).uniform(0.1, 4, 400)
    options = {"ridge": [0, 0.3, 100.0], "intercept": True, "weights": weights}
    theirs = linalg.lstsq(a, b, **options)
    for method in ("qr", "normal"):
        mine = large(a, b, method=method, **options)
        assert mine.rank == theirs.rank == 70
        assert mine.singular_values.size == 0
        assert mine.condition >= theirs.condition / 70
        for name in NAMES:
            near(getattr(mine, name), getattr(theirs, name), dtype, 1e6)
    assert "normal" in fl.stats().method
    alone = large(a, b[:, 0])
    near(alone.x, linalg.lstsq(a, b[:, 0]).x, dtype, 5e4)
    near(alone.residuals, linalg.lstsq(a, b[:, 0]).residuals, dtype, 5e4)


def test_wide_ones(large):
    a, b = problem(60, 300, 2, "complex128")
    theirs, mine = linalg.lstsq(a, b, ridge=[0, 2.0]), large(a, b, ridge=[0, 2.0])
    for name in ("x", "degrees_of_freedom"):
        near(getattr(mine, name), getattr(theirs, name), "float64", 1e5)
    near(mine.residuals[1], theirs.residuals[1], "float64", 1e5)
    assert mine.residuals[0].max() <= 1e-24 * np.linalg.norm(b) ** 2
    assert mine.rank == 60


@pytest.mark.parametrize("shape", [(50, 120), (60, 60)], ids=str)
def test_an_intercept_of_no_more_rows_than_columns(large, shape):
    a, b = problem(*shape, 2, "float64", condition=3.0)
    options = {"ridge": [0.3, 100.0], "intercept": True}
    options["weights"] = np.random.default_rng(5).uniform(0.1, 4, shape[0])
    theirs, mine = linalg.lstsq(a + 3, b + 5, **options), large(a + 3, b + 5, **options)
    for name in ("x", "residuals", "gcv", "degrees_of_freedom", "intercept", "intercept_stderr"):
        near(getattr(mine, name), getattr(theirs, name), "float64", 1e7)
    assert mine.rank is None
    with pytest.raises(fl.ShapeError, match="give a ridge above 0"):
        large(a, b, ridge=[0, 1.0], intercept=True)


def test_a_rank_is_full_or_an_error(large):
    a, b = problem(300, 40, 1, "float64")
    a[:, 5] = a[:, 2] + a[:, 3]
    with pytest.raises(fl.NumericalError, match="not full rank"):
        large(a, b)
    damped = large(a, b, ridge=1.0)
    assert damped.rank is None
    near(damped.x, linalg.lstsq(a, b, ridge=1.0).x, "float64", 1e5)
    with pytest.raises(fl.ShapeError, match="leave the intercept out"):
        large(a[:40], b[:40], intercept=True)
    with pytest.raises(fl.NumericalError, match="not positive definite"):
        large(np.rint(a * 8) * np.r_[0, np.ones(39)], b, method="normal")
    a[7, 3] = np.nan
    with pytest.raises(fl.NumericalError, match="row 7, column 3"):
        large(a, b)


def test_the_limit_changes_no_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("flagstone._solve.lstsq.MOST", 20)
    a, b = problem(3000, 1024, 1, "float64")
    stored, seen = fl.from_numpy(a, str(tmp_path / "a.zarr")), set()
    plan = linalg.lstsq.plan(stored, b, ridge=[0, 1.0])
    for memory, workers in ((plan.least_memory + (32 << 20), 2), (beside(1024), 1)):
        with fl.Runtime(memory=memory, workers=workers):
            seen.add(linalg.lstsq(stored, b, ridge=[0, 1.0]).x.tobytes())
            assert fl.stats().peak_memory <= memory
            assert fl.stats().bytes_read <= plan.bytes_read
    assert len(seen) == 1


@pytest.mark.slow
def test_beyond_4096_columns():
    rng = np.random.default_rng(3)
    a, x = rng.standard_normal((5200, 4200)), rng.standard_normal(4200)
    b = a @ x + rng.standard_normal(5200)
    plan = linalg.lstsq.plan(a, b, memory="2GiB")
    fit = linalg.lstsq(a, b, memory="2GiB")
    assert fl.stats().bytes_read <= plan.bytes_read  # R stays in memory where there is room
    gram = a.T @ a
    inverse = np.linalg.inv(gram)
    near(fit.x, inverse @ (a.T @ b), "float64", 1e8)
    rss = float(((b - a @ fit.x) ** 2).sum())
    near(fit.residuals, rss, "float64", 1e5)
    near(fit.stderr, np.sqrt(rss / 1000 * np.diagonal(inverse)), "float64", 1e8)
