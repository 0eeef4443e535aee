"""Trees are balanced, classifiers are as good as liblinear's, and nothing depends on limits or workers."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import errors
from flagstone._labels import train
from tests.labels.naive import nodes_of, objective, problem, unit_rows


def content(model):
    """The model as it is stored."""
    return {name: np.asarray(fl.open(f"{model.path}/{name}")).tobytes() for name in os.listdir(model.path)
            if os.path.isdir(f"{model.path}/{name}")}  # fmt: skip


def test_splits_are_balanced():
    x, y = problem(400, 50, 53)
    model = fl.train_labels(x, y, max_leaf=5, trees=2)
    orders = []
    for t in range(2):
        levels, below = nodes_of(model, t)
        assert [len(one) for one in below[:-1]] == [1, 2, 4, 8, 16]
        for level, labels in zip(levels[:-1], below[:-2], strict=True):
            sizes = [len(below[levels.index(level) + 1][int(c)]) for c in range(len(level.parent))]
            for left, right in zip(sizes[::2], sizes[1::2], strict=True):
                assert 0 <= left - right <= 1
            assert set().union(*labels.values()) == set(range(53))
        orders.append(levels[-1].labels.tolist())
    assert orders[0] != orders[1]  # other seeds, other trees


@pytest.mark.parametrize("small", [1 << 22, 900])
def test_classifiers_are_as_good_as_liblinear(monkeypatch, small):
    svm = pytest.importorskip("sklearn.svm")
    monkeypatch.setattr(train, "_SMALL", small)  # below it wide nodes by passes over X
    x, y = problem(500, 40, 12)
    assert x.nnz > 900
    model = fl.train_labels(x, y, max_leaf=4, trees=1, threshold=0, C=0.7, eps=0.01, sweeps=100)
    rows, truth = unit_rows(x), y.toarray() > 0
    levels, below = nodes_of(model, 0)
    checked = 0
    for depth, level in enumerate(levels):
        for child, parent in enumerate(level.parent):
            own = truth[:, sorted(below[depth][int(parent)])].any(axis=1)
            positive = truth[:, sorted(below[depth + 1][child])].any(axis=1)[own]
            if positive.all() or not positive.any():
                continue
            signs = np.where(positive, 1.0, -1.0)
            best = svm.LinearSVC(C=0.7, loss="squared_hinge", dual=True, fit_intercept=False, tol=1e-7,
                                 max_iter=100_000).fit(rows[own], signs).coef_[0]  # fmt: skip
            w = level.weights[:, child].toarray()[:, 0].astype(float)
            assert objective(rows[own], signs, w, 0.7) <= 1.02 * objective(rows[own], signs, best, 0.7)
            checked += 1
    assert checked >= 12


def test_centroid_passes_make_the_trees_of_one_task(monkeypatch):
    x, y = problem(500, 40, 24)
    expected = fl.train_labels(x, y, max_leaf=4, trees=2, seed=3)
    monkeypatch.setattr(train, "_SMALL", 300)  # less than the centroids have, and the points
    found = fl.train_labels(x, y, max_leaf=4, trees=2, seed=3)
    assert content(found)["order"] == content(expected)["order"]


@pytest.mark.parametrize("small", [1 << 22, 700])
def test_limits_and_workers_change_no_bits(monkeypatch, small, tmp_path):
    monkeypatch.setattr(train, "_SMALL", small)
    x, y = problem(600, 80, 30)
    stored = fl.from_blocks([x], tmp_path / "x.zarr"), fl.from_blocks([y], tmp_path / "y.zarr")
    expected = content(fl.train_labels(*stored, max_leaf=5, seed=1))
    least = fl.train_labels.plan(*stored, max_leaf=5, seed=1).least_memory
    assert content(fl.train_labels(*stored, max_leaf=5, seed=1, memory=least)) == expected
    with fl.Runtime(workers=3):
        assert content(fl.train_labels(*stored, max_leaf=5, seed=1)) == expected
    with pytest.raises(errors.BudgetError, match="train_labels"):
        fl.train_labels(*stored, memory="1MiB")


def test_formats_differ_in_bytes_alone():
    x, y = problem(400, 50, 30)
    wide, narrow = (fl.train_labels(x, y, max_leaf=10, format=f) for f in ("float32", "int8"))
    assert narrow.nbytes < wide.nbytes
    for one, other in zip(wide.tree(0), narrow.tree(0), strict=True):
        scale = abs(one.weights).max(axis=0).toarray() / 127
        assert (abs((one.weights - other.weights).toarray()) <= 0.5 * scale * (1 + 1e-5) + 1e-9).all()


def test_features_far_apart():
    """Ways of more than 65,535 features from one row to the next."""
    x, y = problem(60, 12, 6)
    wide = sp.csr_matrix((x.data, x.indices * 70_001, x.indptr), (60, 11 * 70_001 + 1))
    near, far = (fl.train_labels(one, y, max_leaf=3, threshold=0) for one in (x, wide))
    for one, other in zip(near.tree(1), far.tree(1), strict=True):
        rows = np.append(np.arange(12) * 70_001, wide.shape[1])
        assert (one.weights != other.weights[rows]).nnz == 0
        assert one.weights.nnz == other.weights.nnz


def test_bad_input_is_one_sentence(tmp_path):
    x, y = problem(50, 20, 8)
    for wrong, what in (
        ({"method": "forest"}, "forest"), ({"format": "int4"}, "int4"), ({"trees": 0}, "trees is 0"),
        ({"max_leaf": 1}, "max_leaf is 1"), ({"C": 0}, "C is 0"), ({"eps": -1}, "eps is -1"),
        ({"seed": -1}, "seed is -1"), ({"threshold": float("nan")}, "threshold is nan"),
        ({"gamma": -3}, "gamma is -3 and .*'pfastrexml'"), ({"leaf_labels": "x"}, "leaf_labels is 'x' and"),
        ({"propensity": "q"}, "propensity is 'q' and"), ({"propensity": None}, "propensity is None and"),
    ):  # fmt: skip
        with pytest.raises(errors.ShapeError, match=what):
            fl.train_labels(x, y, **wrong)
    for call, what in (
        (lambda: fl.train_labels(x[:0], y[:0]), "X is 0 x 20; a row is needed"),
        (lambda: fl.train_labels(x, y, trees=2**40), "trees is 1099511627776; a whole number of at most"),
        (lambda: fl.train_labels(x, y, C=np.inf), "C is inf; a finite number above 0"),
        (lambda: fl.train_labels(x, y, seed=[1]), r"seed is \[1\]"),
        (lambda: fl.train_labels(x, sp.csr_matrix(y.shape, dtype="f4")), "Y has no label of any point"),
    ):
        with pytest.raises(errors.ShapeError, match=what):
            call()
    with pytest.raises(errors.ShapeError, match="50 rows and Y 49"):
        fl.train_labels(x, y[:49])
    bad = x.copy()
    bad.data[bad.indptr[31]] = np.inf
    with pytest.raises(errors.NumericalError, match=r"row 31, column"):
        fl.train_labels(bad, y, out=tmp_path / "m.zarr")
    assert os.listdir(tmp_path) == []


def test_a_single_label_and_labels_without_points():
    x, y = problem(50, 20, 8)
    y = (y @ sp.diags_array([1.0, 1, 1, 0, 1, 1, 1, 1])).tocsr()
    y.eliminate_zeros()
    model = fl.train_labels(x, y, max_leaf=2)
    assert (np.asarray(model.predict(x, 8).labels) == 3).any(axis=1).mean() > 0.5  # it exists, and comes late
    one = fl.train_labels(x, sp.csr_matrix(np.ones((50, 1), "f4")))
    assert (np.asarray(one.predict(x, 1).labels) == 0).all()
