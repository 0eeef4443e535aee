"""KMeans and NearestNeighbors against scikit-learn's, of points on disk too."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.cluster
import sklearn.neighbors
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flagstone as fl
from flagstone.estimators import KMeans, NearestNeighbors


def points(m=400, d=5):
    rng = np.random.default_rng(0)
    return 5 * rng.standard_normal((6, d))[rng.integers(6, size=m)] + rng.standard_normal((m, d))


def test_kmeans_finds_what_scikit_learn_finds():
    x = points()
    seeds = x[:6]
    ours = KMeans(6, init=seeds, tol=0).fit(x)
    theirs = sklearn.cluster.KMeans(6, init=seeds, n_init=1, tol=0, algorithm="lloyd").fit(x)
    assert np.allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-12, atol=1e-12)
    assert (ours.labels_ == theirs.labels_).all()
    assert np.isclose(ours.inertia_, theirs.inertia_, rtol=1e-12)
    assert np.allclose(ours.transform(x), theirs.transform(x))
    assert np.isclose(ours.score(x[:3]), theirs.score(x[:3]))
    again = copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))
    assert all(np.array_equal(one.predict(x), ours.labels_) for one in again)


def test_points_may_lie_on_disk(tmp_path):
    x = points(3000)
    stored = fl.from_numpy(x, str(tmp_path / "x.zarr"), chunks=(500, 5))
    model = KMeans(6, random_state=1, memory="4GiB").fit(stored)
    assert isinstance(model.labels_, fl.Array)
    assert (model.predict(x) == np.asarray(model.labels_)).all()
    assert model.fit.plan(stored).flops > 0
    near = NearestNeighbors(4).fit(stored)
    distances, indices = near.kneighbors(x[:50])
    theirs = sklearn.neighbors.NearestNeighbors(n_neighbors=4).fit(x).kneighbors(x[:50])
    assert (indices == theirs[1]).all()
    assert np.allclose(distances, theirs[0])
    assert isinstance(near.kneighbors(return_distance=False), fl.Array)


def test_centers_may_lie_on_disk():
    x = points(500)
    held = KMeans(6, random_state=2).fit(x)
    stored = KMeans(6, random_state=2, where={"centers": "disk"}).fit(x)
    assert isinstance(stored.cluster_centers_, fl.Array)
    assert np.array_equal(np.asarray(stored.cluster_centers_), held.cluster_centers_)
    assert np.array_equal(stored.predict(x[:50]), held.predict(x[:50]))
    assert np.array_equal(stored.transform(x[:50]), held.transform(x[:50]))
    assert stored.score(x) == held.score(x)
    assert np.array_equal(
        stored.partial_fit(x[:90]).cluster_centers_, held.partial_fit(x[:90]).cluster_centers_
    )
    with pytest.raises(fl.ShapeError, match="what has a place is 'centers'"):
        KMeans(6, where={"labels": "disk"}).fit(x)


def test_pipelines_and_searches_take_them():
    x = points(120)
    labels = make_pipeline(StandardScaler(), KMeans(6)).fit_predict(x)
    assert set(labels) <= set(range(6))
    found = GridSearchCV(KMeans(), {"n_clusters": [2, 6]}, cv=3).fit(x)
    assert found.best_params_["n_clusters"] == 6
    assert list(KMeans(2).fit(x).get_feature_names_out()) == ["kmeans0", "kmeans1"]


def test_graphs_of_neighbours_are_those_of_scikit_learn(tmp_path):
    x = np.random.default_rng(5).standard_normal((400, 4))
    ours, other = (
        NearestNeighbors(4, radius=0.9).fit(x),
        sklearn.neighbors.NearestNeighbors(n_neighbors=4, radius=0.9),
    )
    other.fit(x)
    for name in ("kneighbors_graph", "radius_neighbors_graph"):
        for queries, mode in ((None, "distance"), (x[:30] + 0.1, "connectivity")):
            made, expected = (getattr(one, name)(queries, mode=mode) for one in (ours, other))
            assert abs(made - expected).max() < 1e-12
            assert made.nnz == expected.nnz
    distances, indices = ours.radius_neighbors(x[:30] + 0.1, sort_results=True)
    expected = other.radius_neighbors(x[:30] + 0.1, sort_results=True)
    for row in range(30):
        assert (indices[row] == expected[1][row]).all()
        assert np.allclose(distances[row], expected[0][row], rtol=1e-12)
    stored = fl.from_numpy(x, str(tmp_path / "x.zarr"))
    on_disk = NearestNeighbors(4, radius=0.9).fit(stored)
    for name in ("kneighbors_graph", "radius_neighbors_graph"):
        assert (getattr(on_disk, name)().to_scipy() != getattr(ours, name)()).nnz == 0
    with pytest.raises(TypeError, match="radius_neighbors_graph"):
        on_disk.radius_neighbors()
    with pytest.raises(ValueError, match="mode is 'ones'"):
        ours.kneighbors_graph(mode="ones")


def test_kmeans_takes_sparse_points(tmp_path):
    x = np.where(points(300) > 2, points(300), 0)
    given = {"scipy": sp.csr_matrix(x), "coo": sp.coo_matrix(x)}
    given["stored"] = fl.from_blocks([given["scipy"]], tmp_path / "x.zarr")
    theirs = sklearn.cluster.KMeans(4, init=x[:4], n_init=1, tol=0, algorithm="lloyd").fit(x)
    for kind, one in given.items():
        model = KMeans(4, init=x[:4], tol=0).fit(one)
        assert np.allclose(model.cluster_centers_, theirs.cluster_centers_, rtol=1e-12, atol=1e-12)
        assert isinstance(model.labels_, np.ndarray) == (kind != "stored")
        assert (np.asarray(model.labels_) == theirs.labels_).all()
        assert (np.asarray(model.predict(one)) == theirs.labels_).all()
        assert np.allclose(np.asarray(model.transform(one)), theirs.transform(x), rtol=1e-12, atol=1e-12)
        assert np.isclose(model.score(one), theirs.score(x), rtol=1e-12)
        assert model.predict.plan(one).flops > 0
        moved = KMeans(4, init=x[:4]).partial_fit(one).cluster_centers_
        assert np.allclose(moved, KMeans(4, init=x[:4]).partial_fit(x).cluster_centers_, rtol=1e-12)


def test_kmeans_names_its_distances_and_draws_from_generators():
    x = points(80)
    model = KMeans(3, random_state=np.random.RandomState(4)).set_output(transform="pandas")
    assert list(model.fit_transform(x).columns) == ["kmeans0", "kmeans1", "kmeans2"]
    seed = int(np.random.RandomState(4).randint(1 << 31))
    assert np.array_equal(KMeans(3, random_state=seed).fit(x).cluster_centers_, model.cluster_centers_)
    assert KMeans(3, random_state=np.random.default_rng(0)).fit(x).n_iter_ > 0
