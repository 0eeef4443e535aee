"""Linear models against scikit-learn's: tall, wide, weighted, of points on the disk."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn import linear_model

import flagstone as fl
from flagstone.estimators import LinearRegression, Ridge, RidgeCV


def data(m: int, n: int, targets: int = 0, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = 3 + rng.standard_normal((m, n)) * np.linspace(1, 3, n)
    y = x @ rng.standard_normal((n, max(1, targets))) + 7 + 0.3 * rng.standard_normal((m, max(1, targets)))
    return x, (y if targets else y[:, 0])


def agree(ours, theirs, x, y, **fit):
    ours.fit(x, y, **fit)
    theirs.fit(x, y, **fit)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.predict(x), theirs.predict(x), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("targets", [0, 2])
@pytest.mark.parametrize("shape", [(200, 7), (30, 30), (12, 20)])
def test_coefficients_are_scikit_learns(shape, targets, intercept):
    x, y = data(*shape, targets)
    ours = LinearRegression(fit_intercept=intercept)
    agree(ours, linear_model.LinearRegression(fit_intercept=intercept), x, y)
    for alpha in (0.5, 20):
        agree(Ridge(alpha, fit_intercept=intercept), linear_model.Ridge(alpha, fit_intercept=intercept), x, y)


def test_weights():
    x, y = data(100, 5)
    weights = np.random.default_rng(1).uniform(0, 2, 100)
    agree(LinearRegression(), linear_model.LinearRegression(), x, y, sample_weight=weights)
    agree(Ridge(3), linear_model.Ridge(3), x, y, sample_weight=weights)


def test_the_best_penalty_of_several():
    x, y = data(60, 20, 0, 3)
    y = y + 20 * np.random.default_rng(4).standard_normal(60)
    alphas = np.geomspace(1e-3, 1e4, 15)
    ours = RidgeCV(alphas).fit(x, y)
    errors = []
    for alpha in alphas:
        model = linear_model.Ridge(alpha).fit(x, y)
        centred = x - x.mean(0)
        hat = centred @ np.linalg.solve(centred.T @ centred + alpha * np.eye(20), centred.T)
        errors.append(60 * ((y - model.predict(x)) ** 2).sum() / (60 - 1 - np.trace(hat)) ** 2)
    np.testing.assert_allclose(ours.gcv_, errors, rtol=1e-8)
    assert ours.alpha_ == alphas[np.argmin(errors)]
    agree(ours, linear_model.Ridge(ours.alpha_), x, y)


def gcv(x, y, alpha, intercept):
    """m RSS / tr(I - H)² of the dense H, whose constant is a column of its own."""
    m, n = x.shape
    columns = np.hstack([np.ones((m, intercept)), x])
    penalty = alpha * np.diag([0.0] * intercept + [1.0] * n)
    hat = columns @ np.linalg.solve(columns.T @ columns + penalty, columns.T)
    return m * np.sum((y - hat @ y) ** 2) / np.trace(np.eye(m) - hat) ** 2


@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("shape", [(60, 20), (30, 50), (30, 30), (3, 8)], ids=str)
def test_an_intercept_is_a_degree_of_freedom(shape, intercept):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    y = x[:, 0] + 2 * rng.standard_normal(shape[0]) + 5
    alphas = [1.0, 10, 100, 1000]
    ours = RidgeCV(alphas, fit_intercept=bool(intercept)).fit(x, y)
    wanted = [gcv(x, y, alpha, intercept) for alpha in alphas]
    np.testing.assert_allclose(ours.gcv_, wanted, rtol=1e-8)
    assert ours.alpha_ == alphas[np.argmin(wanted)]


def test_penalties_that_leave_nothing_are_not_chosen():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 50))
    y = x[:, 0] + 2 * rng.standard_normal(30) + 5
    found = RidgeCV([1e-8, 1e-3, 1, 10, 100, 1000]).fit(x, y)
    assert found.alpha_ == 10
    assert found.gcv_[0] == pytest.approx(4.342, abs=1e-3)
    for intercept in (False, True):
        found = RidgeCV([0, 1, 10], fit_intercept=intercept).fit(x, y)
        assert np.isnan(found.gcv_[0])
        assert found.alpha_ > 0
        with pytest.raises(ValueError, match="nothing is left to validate by"):
            RidgeCV([0], fit_intercept=intercept).fit(x, y)


def test_points_of_low_rank_leave_something_at_alpha_0():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((30, 10)) @ rng.standard_normal((10, 50))
    y = rng.standard_normal(30)
    found = RidgeCV([0.0], fit_intercept=False).fit(x, y)
    left = y - x @ found.coef_
    np.testing.assert_allclose(found.gcv_, [30 * (left @ left) / 20**2], rtol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_points_of_weight_0_choose_no_penalty(intercept):
    rng = np.random.default_rng(0)
    x, y, weights = rng.standard_normal((30, 15)), rng.standard_normal(30), np.r_[np.zeros(20), np.ones(10)]
    model = RidgeCV([1e-8, 1, 10, 100, 1000], fit_intercept=intercept)
    without = model.fit(x[20:], y[20:])
    alpha, gcv = without.alpha_, without.gcv_
    model.fit(x, y, sample_weight=[Fraction(int(one)) for one in weights])
    assert model.alpha_ == alpha == 100
    np.testing.assert_allclose(model.gcv_, gcv, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("shape", [(20, 40), (30, 30), (50, 7)], ids=str)
def test_points_of_few_digits_are_fitted_in_float64(shape, dtype):
    x, y = data(*shape)
    x = (10 * x).astype(dtype)
    for given in (x, fl.from_numpy(x)):
        for ours, theirs in (
            (LinearRegression(), linear_model.LinearRegression()), (Ridge(2), linear_model.Ridge(2)),
        ):  # fmt: skip
            ours.fit(given, y)
            theirs.fit(x.astype(float), y)
            np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-9)
            assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-8)
        assert LinearRegression().fit(given, y).rank_ == min(shape[0] - 1, shape[1])


def test_a_plan_reads_no_points():
    x, y = data(12, 20)

    def never(i, j):
        raise AssertionError

    assert Ridge().fit.plan(fl.from_function(never, x.shape), y).flops > 0


def test_a_deficient_fit_of_many_columns(monkeypatch):
    x, y = data(60, 30)
    x[:, 4] = x[:, 3]
    wide = data(25, 40)
    small = Ridge(2).fit(x, y), Ridge(2).fit(*wide)
    monkeypatch.setattr("flagstone._solve.lstsq.MOST", 20)
    for one, (points, values) in zip(small, ((x, y), wide), strict=True):
        found = Ridge(2).fit(points, values)
        assert found.rank_ is None
        np.testing.assert_allclose(found.coef_, one.coef_, rtol=1e-8, atol=1e-9)
        assert found.intercept_ == pytest.approx(one.intercept_, rel=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_points_on_the_disk(dtype, tmp_path):
    x, y = data(3000, 6)
    x = x.astype(dtype)
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    ours, memory = LinearRegression().fit(X, y), LinearRegression().fit(x, y)
    np.testing.assert_allclose(ours.coef_, memory.coef_, rtol=1e-6)
    np.testing.assert_allclose(ours.predict(X), memory.predict(x), rtol=1e-4)
    plan = LinearRegression().fit.plan(X, y)
    assert plan.flops > 2 * 3000 * 6 * 6


def test_refuses():
    x, y = data(20, 3)
    with pytest.raises(ValueError, match="alpha is -1; a number of 0 or more"):
        Ridge(-1).fit(x, y)
    with pytest.raises(ValueError, match="a sequence of penalties"):
        RidgeCV(()).fit(x, y)
    with pytest.raises(ValueError, match="one for each is needed"):
        Ridge().fit(x, y, sample_weight=np.ones(3))
    for odd in ("abc", np.full(20, 1j)):
        with pytest.raises(ValueError, match="real numbers of 0 or more"):
            Ridge().fit(x, y, sample_weight=odd)
    with pytest.raises(TypeError, match="fit_intercept is 'no'; True or False"):
        Ridge(fit_intercept="no").fit(x, y)
