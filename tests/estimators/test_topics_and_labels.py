"""TopicModel, Parabel and PfastreXML: what the routines find, in pipelines, on disk, opened again."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import flagstone as fl
from flagstone.errors import ShapeError
from flagstone.estimators import Parabel, PfastreXML, TopicModel, open_model
from tests.labels.naive import problem

pytestmark = pytest.mark.usefixtures("in_memory")


def same(one, other):
    return np.array_equal(np.asarray(one), np.asarray(other))


def documents(rows=300, words=40, k=4):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(words, 0.05), size=k)
    mixed = rng.dirichlet(np.full(k, 0.1), size=rows) @ topics
    return sp.csr_matrix(np.array([rng.multinomial(50, p / p.sum()) for p in mixed]), dtype=np.float32)


def test_a_topic_model_is_what_topics_finds(tmp_path):
    x = documents()
    stored = fl.from_blocks([x], tmp_path / "x.zarr")
    expected = fl.topics(stored, 4, seed=1)
    model = TopicModel(4, random_state=1, out=tmp_path / "topics.zarr", memory="4GiB")
    assert model.fit.plan(stored).flops > 0
    weights = model.fit_transform(stored)
    assert same(model.components_, expected.topics)
    assert isinstance(weights, fl.Array)
    assert same(weights, np.asarray(expected.transform(stored))[:, :4])
    for given in (x, x.toarray(), fl.from_numpy(x.toarray())):
        assert same(model.transform(given), weights)
    assert model.score(stored) == -np.log(expected.perplexity(stored))
    again = open_model(tmp_path / "topics.zarr")
    assert again.get_params() | {"memory": "4GiB"} == model.get_params() | {
        "out": str(tmp_path / "topics.zarr"), "sample": 1.0
    }  # fmt: skip
    for one in (again, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert same(one.transform(x), weights)
    assert list(model.get_feature_names_out()) == [f"topicmodel{t}" for t in range(4)]
    placed = TopicModel(4, random_state=1, where={"centers": "disk", "buckets": "disk"}).fit(stored)
    assert same(placed.components_, expected.topics)
    found = GridSearchCV(TopicModel(passes=2), {"n_components": [1, 4]}, cv=2).fit(x)
    assert found.best_params_["n_components"] == 4
    with pytest.raises(ValueError, match="Negative values"):
        TopicModel().fit(-x)


def test_a_parabel_is_what_train_labels_makes(tmp_path):
    x, y = problem()
    stored = fl.from_blocks([x], tmp_path / "x.zarr"), fl.from_blocks([y], tmp_path / "y.zarr")
    expected = fl.train_labels(*stored, max_leaf=6, trees=2, seed=3).predict(stored[0], 4, beam=3)
    model = Parabel(2, max_leaf=6, beam=3, random_state=3, out=tmp_path / "trees.zarr", top=4)
    assert model.fit.plan(*stored).flops > 0
    model.fit(*stored)
    assert model.predict_top.plan(stored[0]).passes >= 1
    assert all(same(*pair) for pair in zip(model.predict_top(stored[0]), expected, strict=True))
    assert model.score(*stored) == pytest.approx(fl.label_metrics(expected, y, y).P[1] / 100)
    labels, scores = (np.asarray(one) for one in expected)
    likely = np.zeros(y.shape, bool)
    np.put_along_axis(likely, labels, scores >= 0.5, axis=1)
    assert likely.any()
    assert isinstance(model.predict(stored[0]), fl.SparseArray)
    assert same(model.predict(x).to_scipy().toarray() > 0, likely)
    again = open_model(tmp_path / "trees.zarr")
    assert same(again.set_params(beam=3, top=4).predict_top(x).labels, labels)
    for kind in (y, y.toarray().astype("i4")):
        found = Parabel(2, max_leaf=6, beam=3, random_state=3, top=4).fit(x, kind).predict(x)
        assert type(found) is type(kind)
        assert same(found.toarray() > 0 if sp.issparse(found) else found > 0, likely)


def test_a_forest_is_what_train_labels_makes(tmp_path):
    x, y = problem()
    expected = fl.train_labels(x, y, method="pfastrexml", trees=2, seed=3).predict(x, 4, alpha=0.9)
    model = PfastreXML(2, alpha=0.9, random_state=3, top=4, out=tmp_path / "forest.zarr").fit(x, y)
    assert same(model.predict_top(x).scores, expected.scores)
    again = open_model(tmp_path / "forest.zarr")
    assert type(again) is PfastreXML
    assert same(again.set_params(alpha=0.9).predict_top(x, 4).labels, expected.labels)
    found = model.predict(x).toarray()
    assert same(found.sum(axis=1), (np.asarray(expected.labels) >= 0).sum(axis=1))


def test_classes_are_told_as_they_were_given(tmp_path):
    x, _ = problem()
    names = np.array(["rye", "salt", "yeast"])[np.asarray(x.argmax(axis=1)).ravel() % 3]
    model = make_pipeline(Parabel(1, out=tmp_path / "m.zarr")).fit(x, names)
    assert model.score(x, names) > 0.9
    again = open_model(str(tmp_path / "m.zarr"))
    assert list(again.classes_) == ["rye", "salt", "yeast"]
    assert same(again.predict(x), model.predict(x))
    for one in (copy.deepcopy(again), pickle.loads(pickle.dumps(again))):
        assert same(one.predict(x), again.predict(x))
    with pytest.raises(ValueError, match="Unknown label type"):
        Parabel().fit(x, np.linspace(0, 1, 300))


@pytest.mark.parametrize("kind", [Parabel, PfastreXML])
def test_bad_classes_are_one_sentence_before_work(kind, tmp_path):
    x, _ = problem(30, 12, 4)
    whole, out = np.arange(30) % 3, tmp_path / "m.zarr"
    for y in (whole.astype("S1"), whole.astype("M8[D]"), whole.astype(complex)):
        with pytest.raises(TypeError, match=r"out= keeps holds numbers or texts; give y\.astype\(str\)"):
            kind(1, out=out).fit(x, y)
        assert not out.exists()
    for y, error, what in (
        ([[1], [2, 3]] * 15, ShapeError, "y is .*one length"),
        (np.array([1, "a", None] * 10, object), TypeError, "classes of y have no order"),
        (np.full(30, None), TypeError, "classes of y have no order"),
    ):
        with pytest.raises(error, match=f"{kind.__name__}: {what}"):
            kind(1).fit(x, y)
    model = kind(1).fit(x, whole.astype("S1"))
    assert model.predict(x).dtype == "S1"
    with pytest.raises(ValueError, match="X has 30 and y 5; they must agree"):
        model.score(x, whole[:5])


def test_stored_points_are_cross_validated(tmp_path):
    x, _ = problem(120, 12, 4)
    stored, y = fl.from_blocks([x], tmp_path / "x.zarr"), np.asarray(x.argmax(axis=1)).ravel() % 3
    parts = cross_val_score(Parabel(1), stored, y, cv=3, error_score="raise")
    assert np.allclose(parts, cross_val_score(Parabel(1), x, y, cv=3))


def test_other_labels_are_refused_before_anything_is_predicted():
    x, y = problem(60, 12, 4)
    model = Parabel(1).fit(x, y)
    for wrong, what in ((y[:5], "y is 5 x 4"), (y[:, :3], "y is 60 x 3")):
        with pytest.raises(ShapeError, match=f"Parabel: {what}; labels of each point, 60 x 4, are needed"):
            model.score(x, wrong)
