"""Linear models against scikit-learn's: tall, wide, weighted, of points on the disk."""

from __future__ import annotations

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
