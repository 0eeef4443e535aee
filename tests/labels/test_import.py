"""Models of PECOS: the folder as it saves it, against a naive walk through the same matrices."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import errors

LABELS, FEATURES = 40, 70_000  # rows are further apart than one step of a chunk reaches


def write_level(folder, weights, clusters, processor, bias=1.0):
    folder.mkdir(parents=True)
    sp.save_npz(folder / "W.npz", weights, compressed=False)
    sp.save_npz(folder / "C.npz", clusters)
    told = {"model": "MLModel", "bias": bias, "pred_kwargs": {"only_topk": 9, "post_processor": processor}}
    (folder / "param.json").write_text(json.dumps(told))


def write_model(folder, levels, processor="l3-hinge", **told):
    """levels: (weights, clusters), as MLModel.save writes them."""
    for number, (weights, clusters) in enumerate(levels):
        write_level(folder / "ranker" / f"{number}.model", weights, clusters, processor)
    about = {"depth": len(levels), "nr_features": FEATURES, "nr_labels": LABELS} | told
    (folder / "ranker" / "param.json").write_text(json.dumps(about))
    (folder / "param.json").write_text("{}")
    return folder


def unsorted(matrix):
    """The same entries, a column's in falling order of rows; the last of each column in two halves."""
    given = matrix.tocsc()
    twice = np.diff(given.indptr) + 1
    last = given.indptr[1:] - 1
    at = np.insert(np.arange(given.nnz), given.indptr[1:], last)
    data = np.where(np.isin(at, last), given.data[at] / 2, given.data[at]).astype("f4")
    made = sp.csc_matrix((data, given.indices[at], np.r_[0, np.cumsum(twice)]), given.shape)
    for j in range(made.shape[1]):
        own = slice(made.indptr[j], made.indptr[j + 1])
        made.indices[own], made.data[own] = made.indices[own][::-1].copy(), made.data[own][::-1].copy()
    made.has_sorted_indices = False
    return made


@pytest.fixture(scope="module")
def levels():
    """Three clusters, whose labels lie in no order; the last label is in none."""
    rng = np.random.default_rng(3)
    made = []
    for nodes, parents, of in ((3, 1, np.zeros(3, int)), (LABELS, 3, rng.permutation(np.arange(LABELS) % 3))):
        some = rng.choice(FEATURES, 60, replace=False)  # dense enough that points meet weights
        rows = np.concatenate(
            [rng.choice(some, 25, replace=False) for _ in range(nodes)] + [np.full(nodes, FEATURES)]
        )
        columns = np.concatenate([np.repeat(np.arange(nodes), 25), np.arange(nodes)])
        values = rng.standard_normal(len(rows)).astype("f4")
        weights = sp.coo_matrix((values, (rows, columns)), (FEATURES + 1, nodes)).tocsc()
        kept = np.arange(nodes) < nodes - (nodes == LABELS)
        clusters = sp.csc_matrix(
            (np.ones(kept.sum(), "f4"), (np.flatnonzero(kept), of[kept])), (nodes, parents)
        )
        made.append((unsorted(weights), clusters))
    return made


def points(levels):
    rng = np.random.default_rng(4)
    there = np.unique(np.concatenate([weights.indices for weights, _ in levels]))
    made = sp.random(50, len(there) - 1, 0.3, "csr", "f4", random_state=rng)
    return sp.csr_matrix((made.data, there[made.indices], made.indptr), (50, FEATURES))


def naive(levels, x, power):
    """Score of every label; nothing is cut off."""
    rows = sp.hstack([x, np.ones((x.shape[0], 1), "f4")]).tocsr()
    above = np.ones((x.shape[0], 1))
    for weights, clusters in levels:
        z = (rows @ weights).toarray()
        above = np.exp(-(np.maximum(0, 1 - z) ** power)) * (above @ clusters.toarray().T)
    return above


@pytest.mark.parametrize(("processor", "power"), [("l3-hinge", 3), ("log-l2-hinge", 2)])
def test_the_model_scores_as_its_matrices_do(levels, tmp_path, processor, power):
    folder = write_model(tmp_path / "pecos", levels, processor)
    x = points(levels)
    expected = naive(levels, x, power)
    small = fl.import_labels(folder, format="int8")  # first, so that modules are there
    plan = fl.import_labels.plan(folder, tmp_path / "model.zarr")
    assert not (tmp_path / "model.zarr").exists()
    with fl.Runtime(memory=plan.least_memory):
        model = fl.import_labels(folder, tmp_path / "model.zarr")
        done = fl.stats()
    assert done.bytes_read == plan.bytes_read
    assert done.peak_memory <= plan.least_memory
    labels, scores = (np.asarray(one) for one in model.predict(x, 7, beam=3))
    best = np.argsort(-expected, axis=1, kind="stable")[:, :7]
    told = np.take_along_axis(expected, best, axis=1)
    np.testing.assert_allclose(np.exp(scores) if "log" in processor else scores, told, rtol=1e-4)
    assert (labels == best).mean() > 0.99  # but for ties of float32
    assert small.weights <= model.weights
    assert abs(np.asarray(small.predict(x, 7, beam=3).scores) - scores).max() < 0.3
    again = fl.open_labels(tmp_path / "model.zarr")
    weights, parent, own = again.tree(0)[-1]
    assert abs(weights - levels[-1][0][:, own]).max() == 0
    assert len(parent) == LABELS - 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda folder: (folder / "ranker" / "1.model" / "W.npz").write_bytes(b"PK"), "damaged or no .npz"),
        (lambda folder: (folder / "ranker" / "param.json").write_text("["), "it is no JSON object"),
        (lambda folder: (folder / "ranker" / "param.json").unlink(), "does not exist; give the folder"),
    ],
)
def test_damaged_folders_are_told(levels, tmp_path, change, what):
    folder = write_model(tmp_path / "pecos", levels)
    change(folder)
    with pytest.raises(errors.Error, match=what):
        fl.import_labels(folder, tmp_path / "model.zarr")
    assert not (tmp_path / "model.zarr").exists()


def test_what_is_refused(levels, tmp_path):
    (top, root), (weights, clusters) = levels
    bad = weights.copy()
    bad.data[3] = np.nan
    twice = clusters.tolil(copy=True)
    twice[0, :] = 1
    for name, given, what in (
        ("nan", [(top, root), (bad, clusters)], "a weight is NaN, Inf or out of range"),
        ("twice", [(top, root), (weights, twice.tocsc())], "entries of|a node has two parents"),
        ("narrow", [(top, root), (weights[:, :-1], clusters)], "weights where"),
    ):
        with pytest.raises(errors.FormatError, match=what):
            fl.import_labels(write_model(tmp_path / name, given))
    with pytest.raises(errors.FormatError, match="the post-processor 'sigmoid'; of PECOS's"):
        fl.import_labels(write_model(tmp_path / "sigmoid", levels, "sigmoid"))
    with pytest.raises(errors.FormatError, match="40 labels where 41 are said"):
        fl.import_labels(write_model(tmp_path / "more", levels, nr_labels=41))
    with pytest.raises(errors.ShapeError, match="format is 'int4'"):
        fl.import_labels(tmp_path / "more", format="int4")


@pytest.mark.parametrize("processor", ["l2-hinge", "log-l2-hinge"])
def test_scores_beyond_float32_keep_their_order(levels, tmp_path, processor):
    heavy = [(30 * weights, clusters) for weights, clusters in levels]  # exp(s) of most labels is 0
    model = fl.import_labels(write_model(tmp_path / "pecos", heavy, processor))
    x = points(levels)
    rows = sp.hstack([x, np.ones((x.shape[0], 1), "f4")]).tocsr()
    expected = np.zeros((x.shape[0], 1))
    for weights, clusters in heavy:
        z = (rows @ weights).toarray()
        expected = -(np.maximum(0, 1 - z) ** 2) + np.where(
            clusters.toarray().T, expected[:, :, None], -np.inf
        ).max(1)
    assert (expected[:, :-1].min(axis=1) < -200).all()
    labels, scores = (np.asarray(one) for one in model.predict(x, LABELS - 1, beam=3))
    told = np.take_along_axis(expected, labels, axis=1)
    best = -np.sort(-expected[:, :-1], axis=1)
    assert (labels >= 0).all()
    np.testing.assert_allclose(told, best, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scores, best if "log" in processor else np.exp(best), rtol=2e-4, atol=1e-30)
