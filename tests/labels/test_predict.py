"""Inference against a naive beam search; limits, batches and workers change no bits."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone import errors
from tests.labels.naive import check_predicted, predict, problem
from tests.support.examples import examples
from tests.support.processes import fingerprint


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    x, y = problem()
    model = fl.train_labels(x, y, max_leaf=6, trees=2, threshold=0.02, out=folder / "model.zarr")
    return model, x


@pytest.mark.parametrize("beam", [1, 2, 10])
def test_predictions_are_those_of_a_naive_search(trained, beam):
    model, x = trained
    found = model.predict(x, 4, beam=beam, discount=0.7)
    check_predicted(found, predict(model, x, 4, beam, 0.7), 4)


@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 25), st.integers(2, 8), st.data())
@examples(8)
def test_small_shapes(points, features, labels, leaf, data):
    x, y = problem(points, features, labels, points + 41 * labels, min(features, 3))
    format = data.draw(st.sampled_from(["float32", "int8"]))
    threshold = data.draw(st.sampled_from([0.0, 0.05]))
    model = fl.train_labels(x, y, max_leaf=leaf, trees=2, threshold=threshold, format=format)
    k, beam = data.draw(st.integers(1, labels)), data.draw(st.integers(1, 3))
    beam = max(beam, model._core.leaves_for(k))
    found = model.predict(x, k, beam=beam)
    check_predicted(found, predict(model, x, k, beam), k)


def bits(found):
    return fingerprint(*(np.asarray(one) for one in found))


def test_limits_batches_and_workers_change_no_bits(trained):
    model, x = trained
    x = fl.from_blocks([sp.vstack([x] * 9)])
    expected = bits(model.predict(x, 5, beam=3))
    least = model.predict.plan(x, 5, beam=3).least_memory
    assert bits(model.predict(x, 5, beam=3, memory=least + (3 << 20))) == expected
    assert bits(model.predict(x, 5, beam=3, batch=64)) == expected
    with fl.Runtime(workers=3):
        assert bits(model.predict(x, 5, beam=3, batch=128)) == expected
    with pytest.raises(errors.BudgetError, match="predict"):
        model.predict(x, 5, memory="1MiB")


def test_what_points_may_be(trained, tmp_path):
    model, x = trained
    expected = bits(model.predict(x, 3))
    stored = fl.from_blocks([x], tmp_path / "x.zarr")
    assert bits(model.predict(stored, 3)) == expected
    assert bits(model.predict(x.toarray(), 3)) == expected
    assert bits(fl.open_labels(model.path).predict(fl.from_blocks([x.T.tocsr()]).T, 3)) == expected
    labels, scores = model.predict(stored, 3, out=tmp_path / "best.zarr")
    assert labels.dtype == np.int32
    assert scores.dtype == np.float32
    assert labels.shape == (300, 3)
    assert (np.asarray(fl.open(tmp_path / "best.zarr", "labels")) == np.asarray(labels)).all()


def test_bad_input_is_one_sentence(trained, tmp_path):
    model, x = trained
    for wrong, what in (
        ({"k": 0}, "k is 0"), ({"k": 41}, "k is 41"), ({"beam": 0}, "beam is 0"),
        ({"discount": 2}, "discount is 2"), ({"batch": 0}, "batch is 0"),
        ({"k": 2**70}, "k is 1180591620717411303424"),
    ):  # fmt: skip
        with pytest.raises(errors.ShapeError, match=what):
            model.predict(x, **wrong)
    with pytest.raises(errors.ShapeError, match="59 columns and the model 60"):
        model.predict(x[:, :59])
    bad = x.copy()
    bad.data[bad.indptr[7]] = np.nan
    with pytest.raises(errors.NumericalError, match=rf"row 7, column {bad.indices[bad.indptr[7]]}"):
        model.predict(bad)
    with pytest.raises(errors.FormatError, match="no model"):
        fl.open_labels(fl.from_blocks([x], tmp_path / "x.zarr").path)
    with pytest.raises(FileNotFoundError):
        fl.open_labels(tmp_path / "nothing")
    assert "beam raised to 8" in str(model.predict.plan(x, 40, beam=1))


def test_a_damaged_model_names_the_node(tmp_path):
    x, y = problem(80, 20, 12)
    path = fl.train_labels(x, y, max_leaf=4, out=tmp_path / "m.zarr").path
    steps = fl.open(f"{path}/counts", mode="r+")
    steps[:] = np.asarray(steps)[::-1].copy() + np.uint8(1)
    steps.flush()
    with pytest.raises(errors.FormatError, match=r"node \d+ of tree \d+"):
        fl.open_labels(path).predict(x)


@pytest.mark.parametrize("number", [1.5, -1, 2, True, "0"])
def test_trees_are_counted_from_zero(trained, number):
    with pytest.raises(errors.ShapeError, match="tree: number is .* and the model has 2 trees"):
        trained[0].tree(number)


@pytest.mark.parametrize(("part", "by"), [("counts", 1), ("children", 7)])
def test_a_tree_of_a_damaged_model_is_refused(tmp_path, part, by):
    x, y = problem(80, 20, 12)
    path = fl.train_labels(x, y, max_leaf=4, out=tmp_path / "m.zarr").path
    stored = fl.open(f"{path}/{part}", mode="r+")
    stored[:] = np.asarray(stored) + np.uint8(by)
    stored.flush()
    with pytest.raises(errors.FormatError, match="tree: .* level 0 of tree 0 does not fit together"):
        fl.open_labels(path).tree(0)


@pytest.mark.parametrize(
    ("part", "dtype"), [("children", "complex128"), ("scales", "float64"), ("steps", "int64")]
)
def test_a_part_of_another_dtype_is_refused(tmp_path, part, dtype):
    x, y = problem()
    fl.train_labels(x, y, max_leaf=6, trees=1, format="int8", out=tmp_path / "model.zarr")
    stored = np.asarray(fl.open(tmp_path / "model.zarr", key=part))
    fl.from_numpy(stored.astype(dtype), str(tmp_path / "other.zarr"))
    shutil.rmtree(tmp_path / "model.zarr" / part)
    shutil.move(tmp_path / "other.zarr" / "array", tmp_path / "model.zarr" / part)
    with pytest.raises(fl.FormatError, match=f"{part} is .* {dtype}"):
        fl.open_labels(tmp_path / "model.zarr").predict(x, 3)


def test_metrics_take_what_predict_returns(trained):
    model, x = trained
    _, y = problem()
    found = model.predict(x, 5)
    assert fl.label_metrics(found, y, y).P == fl.label_metrics(np.asarray(found.labels), y, y).P


@pytest.mark.parametrize("labels", [7, 10, 13, 40])
def test_a_narrow_beam_reaches_as_many_labels_as_are_asked_for(labels):
    x, y = problem(120, 30, labels)
    model = fl.train_labels(x, y, max_leaf=3, trees=2)
    for k in range(1, labels + 1):
        assert (np.asarray(model.predict(x, k, beam=1).labels) >= 0).all(), k


def test_rows_may_be_chosen(trained, tmp_path):
    model, x = trained
    _, y = problem()
    stored, labels = (fl.from_blocks([one], tmp_path / f"{i}.zarr") for i, one in enumerate((x, y)))
    some = np.arange(300) % 3 == 1
    assert bits(model.predict(stored[some], 3)) == bits(model.predict(x[some], 3))
    assert bits(model.predict(stored[50:90], 3)) == bits(model.predict(x[50:90], 3))
    again = fl.train_labels(stored[some], labels[some], max_leaf=6, trees=1)
    expected = fl.train_labels(x[some], y[some], max_leaf=6, trees=1)
    assert bits(again.predict(x, 3)) == bits(expected.predict(x, 3))
    forest = fl.train_labels(stored[some], labels[some], method="pfastrexml", trees=2)
    assert forest.labels == 40


def test_chosen_rows_are_copied_by_the_call_and_not_by_its_plan(trained, tmp_path):
    model, x = trained
    _, y = problem()
    stored, labels = (fl.from_blocks([one], tmp_path / f"{i}.zarr") for i, one in enumerate((x, y)))
    some = np.arange(300) % 3 == 1
    with fl.Runtime(scratch=tmp_path / "scratch"):
        plans = model.predict.plan(stored[some], 3), fl.train_labels.plan(stored[some], labels[some], trees=1)
        assert not any((tmp_path / "scratch").rglob("*.json"))
        for plan, whole in zip(
            plans, (model.predict.plan(stored, 3), fl.train_labels.plan(stored, labels, trees=1)), strict=True
        ):
            assert "copied into scratch first" in plan.note
            assert plan.bytes_read > whole.bytes_read
            assert plan.scratch_bytes > whole.scratch_bytes
        with pytest.raises(fl.Error, match="X is a choice of rows beside .*; plan it with fl.convert"):
            fl.train_labels.plan(stored[some], y[some])
        with pytest.raises(fl.BudgetError, match="predict: needs at least"):
            model.predict(stored[some], 3, memory="40MiB")
        assert fl.train_labels(stored[some], y[some], trees=1).labels == 40
