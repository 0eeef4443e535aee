"""The exact Gaussian process against scikit-learn's, where both fit into memory."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor as Theirs
from sklearn.gaussian_process import kernels as gp

import flagstone as fl
from flagstone.estimators import GaussianProcessRegressor, KernelRidge, NotFittedError, open_model

TOLERANCE = 1e-8


def soundings(n: int, d: int = 2, seed: int = 0, targets: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (n, d))
    y = np.sin(5 * x[:, 0]) + np.cos(3 * x.sum(axis=1)) + 0.1 * rng.standard_normal(n)
    return (x, y) if not targets else (x, np.stack([y * (t + 1) + t for t in range(targets)], axis=1))


KERNELS = {
    "rbf": lambda length: gp.RBF(length),
    "matern12": lambda length: gp.Matern(length, nu=0.5),
    "matern32": lambda length: gp.Matern(length, nu=1.5),
    "matern52": lambda length: gp.Matern(length, nu=2.5),
}


def theirs(kernel, length, alpha, x, y):
    return Theirs(KERNELS[kernel](length), alpha=alpha, optimizer=None).fit(x, y)


@pytest.mark.parametrize("kernel", KERNELS)
def test_predictions_are_scikit_learns(kernel):
    x, y = soundings(300)
    new = soundings(80, seed=1)[0]
    length = [0.3, 0.5]
    ours = GaussianProcessRegressor(kernel, alpha=0.01, length_scale=length).fit(x, y)
    model = theirs(kernel, length, 0.01, x, y)
    mean, std = ours.predict(new, return_std=True)
    wanted, deviation = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(std, deviation, rtol=1e-6, atol=TOLERANCE)
    np.testing.assert_allclose(ours.predict(new), wanted, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(ours.alpha_, model.alpha_, rtol=1e-6, atol=TOLERANCE)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        model.log_marginal_likelihood_value_, rel=TOLERANCE
    )
    assert ours.score(new, wanted) == pytest.approx(1, abs=1e-12)


def test_several_targets_and_points_on_disk(tmp_path):
    x, y = soundings(200, 3, 2, targets=3)
    X = fl.from_numpy(x, tmp_path / "x.npy")
    ours = GaussianProcessRegressor("matern52", alpha=0.1, length_scale=0.4).fit(X, y)
    one = GaussianProcessRegressor("matern52", alpha=0.1, length_scale=0.4).fit(x, y[:, 1])
    found = ours.predict(fl.from_numpy(x[:50], tmp_path / "new.npy"))
    assert found.shape == (50, 3)
    np.testing.assert_allclose(found[:, 1], one.predict(x[:50]), rtol=1e-12)
    model = theirs("matern52", 0.4, 0.1, x, y)
    np.testing.assert_allclose(found, model.predict(x[:50]), rtol=TOLERANCE, atol=TOLERANCE)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(model.log_marginal_likelihood_value_)


def test_a_constant_mean_is_estimated_by_generalised_least_squares():
    x, y = soundings(150)
    y = y + 40
    new = np.vstack([soundings(20, seed=4)[0], [[50.0, 50.0]]])
    ours = GaussianProcessRegressor(alpha=0.02, length_scale=0.3, mean="constant").fit(x, y)
    k = gp.RBF(0.3)
    inverse = np.linalg.inv(k(x) + 0.02 * np.eye(150))
    constant = inverse.sum(axis=0) @ y / inverse.sum()
    np.testing.assert_allclose(ours.mean_, [constant], rtol=1e-9)
    cross = k(new, x)
    mean, std = ours.predict(new, return_std=True)
    np.testing.assert_allclose(mean, constant + cross @ inverse @ (y - constant), rtol=1e-9)
    left = 1 - cross @ inverse.sum(axis=0)
    variance = 1 - np.einsum("ij,jk,ik->i", cross, inverse, cross) + left**2 / inverse.sum()
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-6)
    assert mean[-1] == pytest.approx(constant)


@pytest.mark.parametrize("constant", [None, "constant"])
def test_what_is_left_out_is_predicted_by_the_others(constant):
    x, y = soundings(60)
    model = GaussianProcessRegressor("rbf", alpha=0.05, length_scale=0.4, mean=constant)
    residuals, std = model.fit(x, y).leave_one_out(return_std=True)
    for i in (0, 17, 59):
        others = np.arange(60) != i
        mean, deviation = model.fit(x[others], y[others]).predict(x[i : i + 1], return_std=True)
        assert residuals[i] == pytest.approx(y[i] - mean[0], rel=1e-7, abs=1e-9)
        assert std[i] == pytest.approx(np.sqrt(deviation[0] ** 2 + 0.05), rel=1e-7)


def test_callables_and_matrices(tmp_path):
    x, y = soundings(120)
    new = soundings(30, seed=5)[0]
    kernel = 2.0 * gp.RBF(0.4) + gp.WhiteKernel(0.05)
    ours = GaussianProcessRegressor(kernel, alpha=1e-6).fit(x, y)
    model = Theirs(kernel, alpha=1e-6, optimizer=None).fit(x, y)
    mean, std = ours.predict(new, return_std=True)
    wanted, deviation = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(std, deviation, rtol=1e-6)
    K = fl.from_numpy(kernel(x), tmp_path / "k.npy")
    given = GaussianProcessRegressor("precomputed", alpha=1e-6).fit(K, y)
    np.testing.assert_allclose(given.predict(kernel(new, x)), wanted, rtol=TOLERANCE, atol=TOLERANCE)
    with pytest.raises(ValueError, match="return_std"):
        given.predict(kernel(new, x), return_std=True)


@pytest.mark.parametrize("estimator", [GaussianProcessRegressor, KernelRidge])
def test_relationships_of_genotypes(tmp_path, rng, estimator):
    """GBLUP: the float32 triangle of int8 genotypes is converted as it is loaded, and read as it is seen."""
    genotypes = fl.from_numpy(rng.integers(0, 3, (180, 700)).astype(np.int8), tmp_path / "z.zarr")
    fl.linalg.rank_k_update(genotypes, center=1, alpha=1 / 700, uplo="lower", out=tmp_path / "g.zarr")
    G, y = fl.open(tmp_path / "g.zarr"), rng.standard_normal(150)
    model = estimator(kernel="precomputed", alpha=0.5).fit(G[:150, :150], y)
    whole = np.asarray(G).astype(float)
    np.testing.assert_array_equal(whole, whole.T)
    wanted = whole[150:, :150] @ np.linalg.solve(whole[:150, :150] + 0.5 * np.eye(150), y)
    np.testing.assert_allclose(model.predict(G[150:, :150]), wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_parameters_of_a_sample():
    x, y = soundings(400)
    ours = GaussianProcessRegressor(
        "rbf", alpha=0.1, length_scale=1.0, optimizer="subset", subset_size=200, random_state=3
    ).fit(x, y)
    assert 0.1 < ours.length_scale_ < 3
    assert 0.002 < ours.noise_ < 0.05
    again = GaussianProcessRegressor(
        "rbf", alpha=0.1, optimizer="subset", subset_size=200, random_state=3
    ).fit(x, y)
    assert (again.length_scale_, again.noise_) == (ours.length_scale_, ours.noise_)
    plain = GaussianProcessRegressor("rbf", alpha=0.1).fit(x, y)
    assert ours.log_marginal_likelihood_value_ > plain.log_marginal_likelihood_value_
    exact = GaussianProcessRegressor("rbf", alpha=ours.noise_, length_scale=ours.length_scale_).fit(x, y)
    assert np.array_equal(exact.alpha_, ours.alpha_)


def test_models_are_kept(tmp_path):
    x, y = soundings(250)
    new = soundings(30, seed=6)[0]
    place = tmp_path / "model.zarr"
    ours = GaussianProcessRegressor("matern32", alpha=0.01, length_scale=0.5, mean="constant", out=place)
    mean, std = ours.fit(x, y).predict(new, return_std=True)
    kept = open_model(place)
    again, deviation = kept.predict(new, return_std=True)
    assert np.array_equal(mean, again)
    assert np.array_equal(std, deviation)
    assert kept.log_marginal_likelihood_value_ == ours.log_marginal_likelihood_value_
    assert kept.get_params()["kernel"] == "matern32"
    (points,) = place.glob("points-*")
    np.testing.assert_array_equal(np.asarray(fl.open(points)), x)
    ours.fit(x, 2 * y)  # replaced, whole
    np.testing.assert_allclose(open_model(place).predict(new), 2 * mean, rtol=1e-9)
    assert len(list(place.iterdir())) == 6  # of one model: the one before is gone
    with pytest.raises(fl.FormatError, match="is no model"):
        open_model(next(place.glob("points-*")))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(fl.FormatError, match="or one of a model"):
        GaussianProcessRegressor(alpha=0.1, out=tmp_path / "other").fit(x, y)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_model(tmp_path / "nothing.zarr")
    with pytest.raises(TypeError, match="open_model: the path is 3"):
        open_model(3)


FIT = """
from flagstone.estimators import GaussianProcessRegressor
x = fl.open("x.npy")
y = np.sin(5 * np.asarray(x)[:, 0])
model = GaussianProcessRegressor(
    "matern32", alpha=0.1, length_scale=0.3, mean="constant", out="model.zarr", memory="170MiB"
).fit(x, y)
result = told() | {"weights": model.alpha_.tobytes().hex(), "saves": len(saves)}
"""


def test_killed_fits_go_on(process, tmp_path):
    np.save(tmp_path / "x.npy", soundings(2500)[0])
    whole = process(FIT)
    (tmp_path / "model.zarr").rename(tmp_path / "whole.zarr")
    process(FIT, kill=max(1, whole["saves"] // 2))
    with pytest.raises(fl.FormatError, match="was not finished"):
        open_model(tmp_path / "model.zarr")
    again = process(FIT)
    assert again["weights"] == whole["weights"]
    assert again["flops"] < 0.9 * whole["flops"]
    kept, first = open_model(tmp_path / "model.zarr"), open_model(tmp_path / "whole.zarr")
    assert np.array_equal(kept.alpha_, first.alpha_)
    assert process(FIT)["flops"] == whole["flops"]  # a model that is there is fitted anew


def test_plans_count_what_is_done():
    x, y = soundings(900)
    model = GaussianProcessRegressor("rbf", alpha=0.1, length_scale=0.3)
    plan = model.fit.plan(x, y)
    assert plan.flops >= 900**3 / 3
    model.fit(x, y)
    done = fl.stats()
    assert done.what == plan.what
    assert done.flops == pytest.approx(plan.flops, rel=0.01)
    assert model.predict.plan(x[:100]).flops >= 2 * 900 * 100
    assert model.predict.plan(x[:100], return_std=True).flops >= 900 * 900 * 100


def test_no_seed_is_seed_0():
    x, y = soundings(60)
    for optimizer in (None, "subset"):
        found = [
            GaussianProcessRegressor(optimizer=optimizer, alpha=0.1, subset_size=30, random_state=seed)
            .fit(x, y).length_scale_
            for seed in (None, 0)
        ]  # fmt: skip
        assert found[0] == found[1]


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_new_points_that_are_not_finite_are_named(bad):
    x, y = soundings(60)
    new = x.copy()
    new[41, 1] = bad
    for model in (GaussianProcessRegressor("linear", alpha=0.1), KernelRidge(kernel="linear")):
        model.fit(x, y)
        with pytest.raises(fl.NumericalError, match=rf"^{type(model).__name__}: X has .* row 41, column 1;"):
            model.predict(fl.from_numpy(new))


def test_the_cosine_of_very_short_points_is_the_matrixs():
    x, y = soundings(40, 3)
    model = GaussianProcessRegressor("cosine", alpha=0.1).fit(x, y)
    new = np.array([[1e-320, 0, 0], [1e-100, 0, 0], [1e-60, 2e-60, 0], [1e200, 0, 1e200]])
    diagonal = np.diagonal(np.asarray(fl.kernel_matrix(new, kernel="cosine", dtype="float64")))
    np.testing.assert_allclose(model._fitted_kernel.at_points(new), diagonal, rtol=1e-15)
    directions = np.array([[1, 0, 0], [1, 0, 0], [1, 2, 0], [1, 0, 1.0]])
    for made, wanted in zip(model.predict(new, True), model.predict(directions, True), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-10)


def test_points_on_disk_that_are_not_finite_are_named_by_the_fit(tmp_path):
    x, y = soundings(300)
    x[271, 1] = np.inf
    for model in (GaussianProcessRegressor("rbf", alpha=0.1), KernelRidge(kernel="linear")):
        with pytest.raises(
            fl.NumericalError, match=rf"^{type(model).__name__}: X has NaN or Inf at row 271, column 1;"
        ):
            model.fit(fl.from_numpy(x, str(tmp_path / "x.zarr"), overwrite=True), y)


@pytest.mark.parametrize("kept", [False, True])
def test_a_fit_that_fails_leaves_the_model_as_it_was(tmp_path, kept):
    x, y = soundings(60)
    model = GaussianProcessRegressor("rbf", alpha=0.1, out=tmp_path / "gp.zarr" if kept else None).fit(x, y)
    mean, std = model.predict(x[:5], return_std=True)
    model.alpha = 0
    with pytest.raises(fl.NumericalError, match="^GaussianProcessRegressor: the matrix is not positive"):
        model.fit(np.zeros_like(x), y)
    again = model.predict(x[:5], return_std=True)
    assert np.array_equal(again[0], mean)
    assert np.array_equal(again[1], std)


def test_a_point_at_the_origin_has_no_direction():
    x, y = soundings(40)
    model = GaussianProcessRegressor("cosine", alpha=0.1).fit(x, y)
    new = np.array([[0.0, 0], [0.3, 0.4]])
    std = model.predict(new, return_std=True)[1]
    K = np.asarray(fl.kernel_matrix(x, kernel="cosine")) + 0.1 * np.eye(40)
    cross, prior = (np.asarray(fl.kernel_matrix(new, other, "cosine")) for other in (x, new))
    np.testing.assert_allclose(std**2, np.diag(prior - cross @ np.linalg.solve(K, cross.T)), atol=1e-12)
    assert std[0] == 0


REFUSED = {
    "seed": ({"random_state": "a", "optimizer": "subset"}, ValueError, "random_state is 'a'; a whole number"),
    "place": ({"out": 3}, TypeError, "the path is 3; a text"),
    "length": ({"length_scale": "a", "optimizer": "subset"}, ValueError, "length_scale is 'a'; numbers"),
    "a list": ({"kernel": ["rbf"]}, ValueError, "choose 'rbf'"),
    "noise": ({"alpha": -1}, ValueError, "alpha is -1; a number of 0 or more"),
    "mean": ({"mean": "linear"}, ValueError, "choose None or 'constant'"),
    "optimizer": ({"optimizer": "lbfgs"}, ValueError, "choose None or 'subset'"),
    "kernel": ({"kernel": "gauss"}, ValueError, "choose 'rbf'"),
    "lengths": ({"length_scale": [1, 2, 3]}, ValueError, "length_scale has 3 values"),
    "subset of a callable": ({"kernel": gp.RBF(), "optimizer": "subset"}, ValueError, "named ones"),
    "file of a callable": ({"kernel": gp.RBF(), "out": "model.zarr"}, ValueError, "a callable"),
    "file": ({"out": "model.npy"}, ValueError, "must be a new Zarr directory"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refuses(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, error, text = REFUSED[kind]
    with pytest.raises(error, match=text):
        GaussianProcessRegressor(**options).fit(*soundings(20))
    assert not list(tmp_path.iterdir())


def test_refuses_what_does_not_fit():
    x, y = soundings(20)
    with pytest.raises(NotFittedError, match="call fit first"):
        GaussianProcessRegressor().predict(x)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        GaussianProcessRegressor().fit(x, y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        GaussianProcessRegressor().fit(np.where(x > 0.9, np.nan, x), y)
    fitted = GaussianProcessRegressor(alpha=0.1).fit(x, y)
    with pytest.raises(ValueError, match="X has 3 features, but GaussianProcessRegressor is expecting 2"):
        fitted.predict(np.ones((4, 3)))
