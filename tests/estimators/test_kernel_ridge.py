"""Kernel ridge against scikit-learn's, and on real digits."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Theirs

import flagstone as fl
from flagstone.estimators import KernelRidge


def soundings(n: int, targets: int = 0):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 5))
    y = x @ rng.standard_normal((5, max(1, targets))) + 0.1 * rng.standard_normal((n, max(1, targets)))
    return x, (y if targets else y[:, 0])


KERNELS = {
    "linear": {},
    "rbf": {"gamma": 0.3},
    "polynomial": {"gamma": 0.2, "degree": 2, "coef0": 0.5},
    "cosine": {},
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("targets", [0, 3])
def test_predictions_are_scikit_learns(kernel, targets):
    x, y = soundings(200, targets)
    new = soundings(40)[0]
    ours = KernelRidge(alpha=0.3, kernel=kernel, **KERNELS[kernel]).fit(x, y)
    theirs = Theirs(alpha=0.3, kernel=kernel, **KERNELS[kernel]).fit(x, y)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-8, atol=1e-8)
    assert ours.score(x, y) == pytest.approx(theirs.score(x, y), rel=1e-8)


def test_defaults_of_rbf_are_scikit_learns():
    x, y = soundings(100)
    ours, theirs = KernelRidge(kernel="rbf").fit(x, y), Theirs(kernel="rbf").fit(x, y)
    np.testing.assert_allclose(ours.predict(x), theirs.predict(x), rtol=1e-8, atol=1e-8)


def test_matrices_that_were_computed_before(tmp_path):
    x, y = soundings(150)
    k = fl.from_numpy(x @ x.T, tmp_path / "k.npy")
    given = KernelRidge(kernel="precomputed").fit(k, y)
    np.testing.assert_allclose(given.predict(x @ x.T), KernelRidge().fit(x, y).predict(x), rtol=1e-8)
    with pytest.raises(fl.ShapeError, match="a square matrix is needed"):
        KernelRidge(kernel="precomputed").fit(x, y)


def test_plans_and_refusals():
    x, y = soundings(700)
    model = KernelRidge(kernel="rbf", alpha=0.1)
    assert model.fit.plan(x, y).flops >= 700**3 / 3
    assert model.fit(x, y).predict.plan(x).flops >= 2 * 700 * 700
    with pytest.raises(ValueError, match="alpha is 0; a number above 0"):
        KernelRidge(alpha=0).fit(x, y)


def images(folder):
    def values(name, header):
        with gzip.open(next(folder.glob(name))) as file:
            return np.frombuffer(file.read()[header:], np.uint8)

    return values("*images*", 16).reshape(-1, 784), values("*labels*", 8)


def test_digits(shared_data, tmp_path):
    """784 dimensions: distances from norms, of uint8 pixels on the disk."""
    pixels, labels = images(shared_data / "mnist-t10k")
    train, test = slice(0, 3000), slice(9000, 10000)
    X = fl.from_numpy(pixels[train], tmp_path / "pixels.npy")
    options = {"alpha": 0.05, "kernel": "rbf", "gamma": 1 / (10 * 255) ** 2}
    model = KernelRidge(**options).fit(X, np.eye(10)[labels[train]])
    found = model.predict(fl.from_numpy(pixels[test], tmp_path / "new.npy"))
    theirs = Theirs(**options).fit(pixels[train].astype(float), np.eye(10)[labels[train]])
    np.testing.assert_allclose(found, theirs.predict(pixels[test].astype(float)), rtol=1e-8, atol=1e-8)
    assert (found.argmax(axis=1) == labels[test]).mean() > 0.9
