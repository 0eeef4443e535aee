"""PCA, TruncatedSVD and SpectralEmbedding against scikit-learn's, in memory and on disk."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import decomposition, manifold

import flagstone as fl
from flagstone import estimators


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(2)
    return rng.standard_normal((400, 12)) * np.geomspace(5, 0.2, 12) + np.arange(12)


def kinds(x, folder):
    """The same points as each kind of operand, and whether it is on disk."""
    yield x, False
    yield sp.csr_array(x), False
    yield fl.from_numpy(x), False
    stored = fl.from_numpy(x, folder / "x.zarr", overwrite=True)
    yield stored, True
    yield stored * 1.0, True
    yield fl.from_blocks([sp.csr_matrix(x)]), True


@pytest.mark.parametrize("name", ["PCA", "TruncatedSVD"])
def test_components_are_scikit_learns(name, cloud, tmp_path):
    theirs = decomposition.PCA(4) if name == "PCA" else decomposition.TruncatedSVD(4, algorithm="arpack")
    theirs.fit(cloud)
    for given, on_disk in kinds(cloud, tmp_path):
        model = getattr(estimators, name)(4, tol=1e-9, method="gram")
        scores = model.fit_transform(given)
        np.testing.assert_allclose(model.singular_values_, theirs.singular_values_, rtol=1e-6)
        np.testing.assert_allclose(model.explained_variance_, theirs.explained_variance_, rtol=1e-6)
        ratio = theirs.explained_variance_ratio_
        np.testing.assert_allclose(model.explained_variance_ratio_, ratio, rtol=1e-6)
        agree = abs(np.sum(model.components_ * theirs.components_, axis=1))
        np.testing.assert_allclose(agree, 1, atol=1e-9)
        moved = model.transform(given)
        assert isinstance(moved, fl.Array) == isinstance(scores, fl.Array) == on_disk
        np.testing.assert_allclose(np.asarray(scores), np.asarray(moved), atol=1e-6)
        back = np.asarray(model.inverse_transform(moved))
        np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(cloud)), atol=1e-5)
        assert model.fit.plan(given).passes >= 1


@pytest.mark.parametrize("sizes", [(400,), (50, 350), (7, 193, 100, 100)])
def test_partial_fit_is_fit(sizes, cloud):
    parts = np.split(cloud, np.cumsum(sizes)[:-1])
    for on_disk in (False, True):
        model, whole = estimators.PCA(5), estimators.PCA(5, tol=1e-9, method="gram").fit(cloud)
        for part in parts:
            model.partial_fit(fl.from_numpy(part) if on_disk else part)
        assert model.n_samples_ == 400
        np.testing.assert_allclose(model.mean_, whole.mean_, rtol=1e-12)
        np.testing.assert_allclose(model.singular_values_, whole.singular_values_, rtol=1e-9)
        np.testing.assert_allclose(model.components_, whole.components_, atol=1e-7)
        ratio = whole.explained_variance_ratio_
        np.testing.assert_allclose(model.explained_variance_ratio_, ratio, rtol=1e-9)


def test_partial_fit_begins_anew_after_fit(cloud):
    model = estimators.PCA(2).fit(cloud[:100] * 9)
    model.partial_fit(cloud[:200]).partial_fit(cloud[200:])
    np.testing.assert_allclose(model.mean_, cloud.mean(axis=0))


def test_names_and_tables(cloud):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(cloud, columns=[f"c{i}" for i in range(12)])
    model = estimators.PCA(2).set_output(transform="pandas").fit(table)
    found = model.transform(table)
    assert list(found.columns) == list(model.get_feature_names_out()) == ["pca0", "pca1"]
    with pytest.raises(ValueError, match="input_features is not equal"):
        model.get_feature_names_out(table.columns[::-1])


def blobs():
    rng = np.random.default_rng(4)
    return np.concatenate([rng.normal(at, 0.6, (60, 3)) for at in (0, 1.5, 3.0)])


def test_spectral_embedding_is_scikit_learns(tmp_path):
    x = blobs()
    options = {"affinity": "nearest_neighbors", "n_neighbors": 12, "eigen_solver": "arpack"}
    theirs = manifold.SpectralEmbedding(3, random_state=0, **options).fit(x)
    graph = sp.csr_array(theirs.affinity_matrix_)
    assert graph.diagonal().all()  # which does not count
    ours = estimators.SpectralEmbedding(3, n_neighbors=12, tol=1e-9).fit_transform(x)
    near = estimators.SpectralEmbedding(3, affinity="precomputed", tol=1e-9).fit_transform(graph)
    stored = estimators.SpectralEmbedding(3, affinity="precomputed", tol=1e-9).fit_transform(
        fl.from_blocks([graph])
    )
    far = estimators.SpectralEmbedding(3, n_neighbors=12, tol=1e-9).fit_transform((x + 2.0**30) * 2.0**600)
    disk = estimators.SpectralEmbedding(3, n_neighbors=12, tol=1e-9).fit_transform(
        fl.from_numpy(x, tmp_path / "x.zarr")
    )
    assert isinstance(disk, fl.Array)
    for found in (ours, near, np.asarray(stored), far, np.asarray(disk)):
        scale = np.linalg.norm(found, axis=0) * np.linalg.norm(theirs.embedding_, axis=0)
        agree = abs(np.sum(found * theirs.embedding_, axis=0)) / scale
        np.testing.assert_allclose(agree, 1, atol=1e-6)
        np.testing.assert_allclose(
            np.linalg.norm(found, axis=0), np.linalg.norm(theirs.embedding_, axis=0), rtol=1e-6
        )


def test_an_outlier_does_not_hide_neighbours():
    """Seen from the first point, all others would be one."""
    x = blobs()
    x[0] = 1e9
    theirs = manifold.SpectralEmbedding(2, affinity="nearest_neighbors", n_neighbors=12).fit(x[1:])
    ours = estimators.SpectralEmbedding(2, n_neighbors=12)._graph("test", x).to_scipy()[1:, 1:]
    graph = sp.csr_array(theirs.affinity_matrix_)
    graph.setdiag(0)
    assert abs(ours - graph).max() == 0


def test_loops_of_a_matrix_on_disk_do_not_count(tmp_path):
    rng = np.random.default_rng(5)
    graph = sp.random_array((60, 60), density=0.2, rng=rng)
    graph = sp.csr_array(graph + graph.T)
    graph.setdiag(0)
    graph.eliminate_zeros()
    looped = sp.csr_array(graph + sp.diags_array(np.arange(60.0)))
    plain = fl.from_blocks([looped])
    fl.convert(plain, tmp_path / "half.zarr", layout="triangle")
    for stored in (plain, plain.T, fl.open(tmp_path / "half.zarr")):
        kept = estimators.SpectralEmbedding(affinity="precomputed")._graph("test", stored).to_scipy()
        assert kept.nnz == graph.nnz
        assert abs(kept - graph).max() == 0


def test_states_of_numpys_generators_are_taken():
    x = blobs()
    for state in (None, 3, np.random.RandomState(3), np.random.default_rng(3)):
        for kind in (estimators.PCA, estimators.TruncatedSVD, estimators.SpectralEmbedding):
            kind(2, random_state=state).fit(x)
    for kind in (estimators.PCA, estimators.SpectralEmbedding):
        with pytest.raises(fl.ShapeError, match="random_state is 'x'; a whole number"):
            kind(2, random_state="x").fit(x)
