"""Mini-batches against the same rule in NumPy; seeds that are overwritten where they stand."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone.estimators import KMeans
from tests.cluster.test_kmeans import blobs, squares
from tests.support.processes import fingerprint


def step(x, c, met, weights=None):
    """One batch: c += (S - n c) / N."""
    w = np.ones(len(x)) if weights is None else weights
    labels = squares(x, c).argmin(axis=1)
    sums, n = np.zeros_like(c), np.bincount(labels, w, minlength=len(c))
    np.add.at(sums, labels, w[:, None] * x)
    met = met + n
    share = np.where(n > 0, met, 1)[:, None]
    return c + (sums - n[:, None] * c) / share, met


def test_batches_move_centers_by_their_share():
    x, seeds = blobs(1000, 6, 5)
    weights = np.random.default_rng(0).uniform(0, 2, 1000)
    model = KMeans(5, init=seeds)
    c, met = seeds, np.zeros(5)
    for part in (np.s_[:300], np.s_[300:304], np.s_[304:]):  # one of fewer points than centers
        model.partial_fit(x[part], sample_weight=weights[part])
        before = squares(x[part], c).min(axis=1) @ weights[part]
        c, met = step(x[part].astype(float), c, met, weights[part])
        assert abs(model.cluster_centers_ - c).max() <= 1e-12 * abs(x).max()
        assert np.allclose(model.counts_, met, rtol=1e-12)
        assert np.isclose(model.inertia_, before, rtol=1e-12)
        assert (model.labels_ == squares(x[part], c).argmin(axis=1)).all()
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(x[:, :3])


@pytest.mark.parametrize("offset", [0, 1e4])
def test_a_pass_of_one_panel_is_one_batch(offset):
    x, seeds = blobs(1000, 6, 5, offset=offset)
    found = fl.kmeans(x, init=seeds, iterations=3, tol=0, method="minibatch", labels=False)
    c, met = seeds, np.zeros(5)
    for _ in range(3):
        c, met = step(x.astype(float), c, met)
    assert found.iterations == 3
    assert abs(found.centers - c).max() <= 1e-11 * abs(x).max()


def test_many_batches_come_near_lloyd_with_the_same_bits(tmp_path):
    x, seeds = blobs(24_000, 32, 8, seed=3)
    stored = fl.from_numpy(x, str(tmp_path / "x.zarr"), chunks=(500, 32))  # 16 panels, 8 batches
    batches = {"init": seeds, "method": "minibatch", "iterations": 4, "tol": 0}
    plan = fl.kmeans.plan(stored, **batches)
    found = fl.kmeans(stored, **batches)
    done = fl.stats()
    assert plan.flops == done.flops
    assert abs(plan.bytes_read - done.bytes_read) <= 0.01 * done.bytes_read
    assert plan.method == done.method == "minibatch, given seeds"
    assert found.counts.sum() == 24_000
    lloyd = fl.kmeans(stored, init=seeds, iterations=30)
    assert found.inertia <= 1.02 * lloyd.inertia
    assert not np.array_equal(found.centers, lloyd.centers)
    one = fingerprint(found.centers, np.asarray(found.labels))
    with fl.Runtime(memory=plan.least_memory + (2 << 20), workers=1):
        again = fl.kmeans(stored, **batches)
    assert fingerprint(again.centers, np.asarray(again.labels)) == one
    other = fl.kmeans(stored, **batches, seed=5)  # another order of the batches
    assert not np.array_equal(other.centers, found.centers)


def test_batches_converge_and_take_other_points():
    x, seeds = blobs(3000, 6, 4, seed=1)
    found = fl.kmeans(x, init=seeds, method="minibatch", tol=1e-3)
    assert found.converged
    assert found.iterations < 300
    sparse = pytest.importorskip("scipy.sparse")
    thin = sparse.random(800, 40, 0.1, format="csr", random_state=0)
    c = thin[:3].toarray() + 0.01
    made = fl.kmeans(thin, init=c, method="minibatch", iterations=1, tol=0, labels=False)
    assert abs(made.centers - step(thin.toarray(), c, np.zeros(3))[0]).max() <= 1e-12
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    made = fl.kmeans(x, init=seeds, method="minibatch", iterations=2, metric="cosine")
    assert np.allclose(np.linalg.norm(made.centers, axis=1), 1)
    assert (np.asarray(made.labels) == (unit @ made.centers.T).argmax(axis=1)).all()


@pytest.mark.parametrize("kind", ["float64", "float32", "zarr", "npy"])
def test_seeds_are_overwritten_where_they_stand(tmp_path, kind):
    x, first = blobs(500, 4, 3)
    expected = fl.kmeans(x, init=first.astype("f4"), iterations=4, tol=0)
    seeds = first.astype("f8" if kind == "float64" else "f4")
    if kind in ("zarr", "npy"):
        seeds = fl.from_numpy(seeds, str(tmp_path / f"seeds.{kind}"))
    found = fl.kmeans(x, init=seeds, iterations=4, tol=0, out=seeds)
    assert np.array_equal(np.asarray(seeds), found.centers.astype(seeds.dtype))
    assert np.array_equal(found.centers, expected.centers)
    assert np.array_equal(np.asarray(found.labels), np.asarray(expected.labels))
    if kind in ("zarr", "npy"):
        assert np.array_equal(np.asarray(fl.open(tmp_path / f"seeds.{kind}")), np.asarray(seeds))


def test_what_cannot_be_overwritten_is_refused():
    x, seeds = blobs(100, 4, 3)
    with pytest.raises(fl.ShapeError, match="float32 or float64"):
        fl.kmeans(x, init=seeds, out=np.zeros((3, 4), int))
    with pytest.raises(fl.ShapeError, match="matrix of centers is 3 x 4"):
        fl.kmeans(x, init=seeds, out=np.zeros((2, 4)))
    with pytest.raises(fl.ShapeError, match="choose 'lloyd' or 'minibatch'"):
        fl.kmeans(x, init=seeds, method="elkan")
