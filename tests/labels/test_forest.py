"""PfastreXML: nodes, leaves and means against naive ones; nothing depends on limits, batches or workers."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import errors
from flagstone._labels import train_forest
from tests.labels.naive import problem
from tests.support.processes import fingerprint

pytestmark = pytest.mark.filterwarnings("ignore")


def labelled(*shape):
    """Points that have labels: others teach a forest nothing."""
    x, y = problem(*shape)
    kept = np.diff(y.indptr) > 0
    return x[kept], y[kept]


def leaves_of(tree, x):
    """Of each point the leaf that it falls into."""
    rows = sp.hstack([x.astype(float), np.ones((x.shape[0], 1))]).tocsr()
    z = np.asarray((rows @ tree.weights.astype(float)).todense())
    node = np.zeros(x.shape[0], int)
    while (inner := tree.left[node] >= 0).any():
        right = z[np.arange(len(node)), node] > 0
        node = np.where(inner, np.where(right, tree.right[node], tree.left[node]), node)
    return node


def inverse_propensities(y, a=0.55, b=1.5):
    counts = np.asarray((y != 0).sum(axis=0)).ravel()
    return 1 + (np.log(y.shape[0]) - 1) * (b + 1) ** a * (counts + b) ** -a


def predicted(model, x, alpha):
    """Scores of all labels, a point at a time; 0 where no leaf has them."""
    trees = [model.tree(t) for t in range(model.trees)]
    pf = sum(one.leaves[leaves_of(one, x)].toarray() for one in trees)
    w, lengths = model.tail.toarray().astype(float), np.sqrt(x.multiply(x).sum(axis=1).A1)
    unit = x.toarray() / np.where(lengths > 0, lengths, 1)[:, None]
    far = model.gamma * ((w**2).sum(axis=1) + 1 - 2 * unit @ w.T)
    return (pf / model.trees) ** alpha * np.exp(-np.logaddexp(0, far)) ** (1 - alpha) * (pf > 0)


@pytest.fixture(scope="module", params=["small", "wide"])
def forest(request, tmp_path_factory):
    """A model of points in one task, and one whose nodes of two levels and more are parted by reads of X."""
    x, y = labelled(400)
    out = tmp_path_factory.mktemp("forest") / "model.zarr"
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "wide":
            patch.setattr(train_forest, "_SMALL", x.nnz // 5)
        model = fl.train_labels(x, y, method="pfastrexml", trees=3, seed=2, out=out)
        assert (fl.stats().passes > 2) == (request.param == "wide")
        yield model, x, y


def test_leaves_are_means_of_the_points_that_fall_into_them(forest):
    model, x, y = forest
    weighted = sp.csr_matrix(y).multiply(inverse_propensities(y)).tocsr()
    for t in range(model.trees):
        tree = model.tree(t)
        leaf = leaves_of(tree, x)
        assert (np.bincount(leaf) > 0).sum() == (tree.left < 0).sum() > 20
        for node in np.unique(leaf):
            mean = np.asarray(weighted[leaf == node].mean(axis=0)).ravel()
            np.testing.assert_allclose(tree.leaves[node].toarray()[0], mean, rtol=1e-5, atol=1e-7)
    assert not np.array_equal(model.tree(0).left, model.tree(1).left)
    lengths = np.sqrt(x.multiply(x).sum(axis=1).A1)
    unit = sp.diags(1 / lengths) @ x
    means = (y.T @ unit).toarray() / np.maximum(np.asarray(y.sum(axis=0)).ravel(), 1)[:, None]
    np.testing.assert_allclose(model.tail.toarray(), means, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("alpha", [1.0, 0.8])
def test_predictions_are_those_of_a_naive_descent(forest, alpha):
    model, x, _ = forest
    labels, scores = (np.asarray(one) for one in model.predict(x, 6, alpha=alpha))
    expected = predicted(model, x, alpha)
    best = -np.sort(-expected, axis=1)[:, :6]
    np.testing.assert_allclose(scores, best, rtol=1e-3, atol=1e-12)  # exp(gamma ...) of float32 products
    chosen = np.take_along_axis(expected, np.maximum(labels, 0), axis=1)
    np.testing.assert_allclose(np.where(labels < 0, 0, chosen), best, rtol=1e-3, atol=1e-12)


def test_separators_are_as_good_as_liblinear_and_sparse(forest):
    """A root's weights, of the sides that they make: no worse than the optimum of those by far."""
    linear = pytest.importorskip("sklearn.linear_model")
    model, x, _ = forest
    rows = sp.hstack([x.astype(float), np.ones((x.shape[0], 1))]).tocsr()
    w = model.tree(0).weights[:, 0].toarray()[:, 0].astype(float)
    signs = np.where(rows @ w > 0, 1.0, -1.0)
    share = np.where(signs > 0, (signs > 0).mean(), (signs < 0).mean())
    theirs = linear.LogisticRegression(
        penalty="l1", solver="liblinear", fit_intercept=False, tol=1e-6, max_iter=1000
    )
    best = theirs.fit(rows, signs, sample_weight=1 / share).coef_[0]
    cost = [abs(v).sum() + (np.logaddexp(0, -signs * (rows @ v)) / share).sum() for v in (w, best)]
    assert cost[0] < 1.5 * cost[1] < 1.5 * len(signs) * 2 * np.log(2)
    assert 0 < np.count_nonzero(w) < len(w)


def content(model):
    parts = sorted(name for name in os.listdir(model.path) if os.path.isdir(f"{model.path}/{name}"))
    return fingerprint(*(np.asarray(fl.open(f"{model.path}/{name}")) for name in parts))


def bits(found):
    return fingerprint(*(np.asarray(one) for one in found))


def test_limits_batches_and_workers_change_no_bits(forest, tmp_path):
    model, x, y = forest
    stored = fl.from_blocks([x], tmp_path / "x.zarr"), fl.from_blocks([y], tmp_path / "y.zarr")
    options = {"method": "pfastrexml", "trees": 3, "seed": 2}
    least = fl.train_labels.plan(*stored, **options).least_memory
    assert content(fl.train_labels(*stored, **options, memory=least)) == content(model)
    expected = bits(model.predict(stored[0], 4))
    least = model.predict.plan(stored[0], 4).least_memory
    assert bits(model.predict(stored[0], 4, memory=least + (3 << 20))) == expected
    with fl.Runtime(workers=3):
        assert content(fl.train_labels(*stored, **options)) == content(model)
        assert bits(model.predict(stored[0], 4, batch=64)) == expected


def test_what_is_carried_from_round_to_round_is_planned(tmp_path, monkeypatch):
    """A run that saves holds a tree's state before and behind a round: some 30 bytes a point more."""
    monkeypatch.setattr(train_forest, "_SMALL", 1 << 22)  # no wide nodes here
    monkeypatch.setattr(train_forest, "_GROWN", 2)
    rng, n = np.random.default_rng(1), 2_000_000
    at, rows, ones = rng.integers(0, 8, n), np.arange(n + 1), np.ones(n, "f4")
    x, y = (sp.csr_matrix((ones, of, rows), (n, 8)) for of in (at, (at + (rng.random(n) < 0.3)) % 8))
    stored = fl.from_blocks([x], tmp_path / "x.zarr"), fl.from_blocks([y], tmp_path / "y.zarr")
    options = {"method": "pfastrexml", "trees": 1, "seed": 2}
    with fl.Runtime(checkpoint=0, workers=1):
        least = fl.train_labels.plan(*stored, **options).least_memory
        model = fl.train_labels(*stored, **options, memory=least, out=tmp_path / "model.zarr")
    assert len(model.tree(0).left) > 4  # two nodes a round


def test_weights_that_are_all_the_same_are_none(forest):
    _, x, y = forest
    options = {"method": "pfastrexml", "trees": 2, "format": "int8"}
    plain, equal = (fl.train_labels(x, y, **options, propensity=p) for p in (None, (0, 1.5)))
    assert np.array_equal(plain.tree(1).left, equal.tree(1).left)
    assert plain.weights == equal.weights
    single = fl.train_labels(x, y[:, :1] + y[:, 1:2] * 0, method="pfastrexml", trees=1)
    assert (np.asarray(single.predict(x, 1).labels) == 0).all()


def test_means_of_values_that_cancel_and_of_stored_zeros():
    x = sp.csr_matrix(np.array([[1, 0], [-1, 0], [1, 0], [0, 1]], "float32"))
    y = sp.csr_matrix(np.array([[1, 0], [1, 0], [1, 0], [1, 1]], "float32"))
    found = fl.train_labels(x, y, method="pfastrexml", trees=1).tail.toarray()
    np.testing.assert_allclose(found, [[0.25, 0.25], [0, 1]])
    zeros = sp.csr_matrix((np.array([0, 0, 1], "f4"), [0, 0, 1], [0, 1, 2, 3]), shape=(3, 2))
    found = fl.train_labels(zeros, sp.csr_matrix(np.ones((3, 1), "f4")), method="pfastrexml", trees=1).tail
    np.testing.assert_allclose(found.toarray(), [[0, 1 / 3]], rtol=1e-6)


def test_no_labels_and_steep_propensities(forest):
    _, x, y = forest
    with pytest.raises(errors.ShapeError, match="Y has no label of any point"):
        fl.train_labels(x, sp.csr_matrix(y.shape, dtype="f4"), method="pfastrexml")
    model = fl.train_labels(x, y, method="pfastrexml", trees=2, propensity=(1000, 1.5))
    assert np.isfinite(model.predict(x, k=2).scores[...]).all()


def test_bad_input_is_one_sentence(forest):
    model, x, y = forest
    for wrong, what in (
        ({"trees": 0}, "trees is 0"), ({"leaf_labels": 0}, "leaf_labels is 0"),
        ({"gamma": -1}, "gamma is -1"), ({"propensity": (1,)}, "propensity is"), ({"eps": 0}, "eps is 0"),
        ({"trees": 9999}, "too many"), ({"propensity": (1, [2, 3])}, "propensity is .*one length"),
        ({"sweeps": 3}, "sweeps is 3 and .*'parabel'"), ({"threshold": 0}, "threshold is 0 and"),
    ):  # fmt: skip
        with pytest.raises(errors.ShapeError, match=what):
            fl.train_labels(x, y, method="pfastrexml", **wrong)
    with pytest.raises(errors.ShapeError, match="k is 41"):
        model.predict(x, 41)
    with pytest.raises(errors.ShapeError, match="'pfastrexml' has one"):
        _ = fl.train_labels(x, y).tail
