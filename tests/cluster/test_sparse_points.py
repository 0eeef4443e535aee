"""k-means of CSR points against NumPy in float64 on the same points made dense."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.cluster.test_kmeans import check, lloyd, squares
from tests.support.processes import fingerprint


def counts(m=900, d=300, density=0.03, seed=0):
    rng = np.random.default_rng(seed)
    x = sp.random(m, d, density, "csr", random_state=seed, dtype=np.float32)
    x.data = np.ceil(x.data * 9).astype("f4")
    topics = rng.integers(0, 4, m)  # four groups, each with columns of its own
    more = sp.csr_matrix(
        (np.full(m, 5, "f4"), (np.arange(m), topics * 20 + rng.integers(0, 20, m))), shape=(m, d)
    )
    made = (x + more).tocsr()
    made.data[made.indptr[7] : made.indptr[8]] = 0  # a row without values
    made.eliminate_zeros()
    return made


@pytest.mark.parametrize("iterations", [1, 5, 20])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_centers_are_those_of_numpy(iterations, dtype):
    x = counts().astype(dtype)
    if dtype == "f8":
        x.data *= 1 + 1e-9 * np.arange(x.nnz)  # what float32 does not hold
    dense = x.toarray()
    seeds = dense[[1, 2, 30, 40, 99]].astype(float)
    found = fl.kmeans(fl.from_blocks([x]), init=seeds, iterations=iterations, tol=0)
    check(found, dense, lloyd(dense, seeds, iterations))
    assert (found.predict(x) == np.asarray(found.labels)).all()


@pytest.mark.parametrize("kind", ["scipy", "csc", "rows", "columns", "scaled"])
def test_views_are_points_too(kind, tmp_path):
    x = counts()
    stored = fl.from_blocks([x], tmp_path / "x.zarr")
    given, dense = stored, x.toarray().astype(float)
    if kind == "scipy":
        given = x
    if kind == "csc":
        given = fl.from_blocks([x.T.tocsr()], tmp_path / "t.zarr").T
    if kind == "rows":
        chosen = np.arange(900) % 3 != 1
        given, dense = stored[chosen], dense[chosen]
    if kind == "columns":
        given, dense = stored[:, :200], dense[:, :200]
    if kind == "scaled":
        given, dense = stored * 0.5, dense * 0.5
    seeds = dense[[1, 2, 30, 40]]
    check(fl.kmeans(given, init=seeds, iterations=3, tol=0), dense, lloyd(dense, seeds, 3))


def test_cosine_and_weights():
    x = counts()
    dense = x.toarray().astype(float)
    length = np.linalg.norm(dense, axis=1, keepdims=True)
    unit = dense / np.where(length > 0, length, 1)
    weights = np.random.default_rng(3).uniform(0, 2, len(dense))
    c = unit[[1, 2, 30, 40]]
    found = fl.kmeans(x, init=c, iterations=4, tol=0, metric="cosine", weights=weights)
    for _ in range(4):
        labels = (sp.csr_matrix(unit) @ c.T).argmax(axis=1)
        c = np.array([(weights[:, None] * unit)[labels == j].sum(axis=0) for j in range(4)])
        c /= np.linalg.norm(c, axis=1, keepdims=True)
    assert abs(found.centers - c).max() <= 1e-12
    d = squares(unit, found.centers)
    assert np.isclose(found.inertia, (weights * d.min(axis=1)).sum(), rtol=1e-12)


@pytest.mark.parametrize("init", ["k-means||", "k-means++", "random"])
def test_seeds_are_the_same_every_time(init, tmp_path):
    stored = fl.from_blocks([counts(3000)], tmp_path / "x.zarr")
    found = fl.kmeans(stored, 5, init=init, seed=3)
    with fl.Runtime(workers=1):
        again = fl.kmeans(stored, 5, init=init, seed=3)
    assert fingerprint(found.centers, np.asarray(found.labels)) == fingerprint(
        again.centers, np.asarray(again.labels)
    )
    one = fl.kmeans(stored, 1)
    assert found.inertia < one.inertia


def test_a_bad_value_is_named(tmp_path):
    x = counts()
    x.data[x.indptr[500]] = np.nan
    column = x.indices[x.indptr[500]]
    stored = fl.from_blocks([x], tmp_path / "x.zarr")
    with pytest.raises(fl.NumericalError, match=f"NaN or Inf at row 500, column {column}"):
        fl.kmeans(stored, 3)


def test_plans_count_what_runs(tmp_path):
    stored = fl.from_blocks([counts(6000, 500)], tmp_path / "x.zarr")
    seeds = np.eye(4, 500)
    plan = fl.kmeans.plan(stored, init=seeds, iterations=3, tol=0)
    fl.kmeans(stored, init=seeds, iterations=3, tol=0)
    done = fl.stats()
    assert plan.passes == done.passes == 4
    assert plan.flops == done.flops
    assert abs(plan.bytes_read - done.bytes_read) <= 0.01 * done.bytes_read


@pytest.mark.parametrize("stored", [101, 100_000])
def test_a_row_longer_than_the_columns_is_refused(stored, tmp_path):
    parts = [tmp_path / name for name in ("values.bin", "columns.bin", "pointers.bin")]
    np.ones(stored + 3, "f4").tofile(parts[0])
    np.r_[0, 1, np.arange(stored) % 100, 2].astype("i8").tofile(parts[1])
    np.array([0, 1, 2, 2 + stored, 3 + stored], "i8").tofile(parts[2])
    x = fl.open_raw_csr(*parts, (4, 100), dtype="float32")
    said = f"row 2 of X has {stored} values and there are 100 columns; sum its duplicates first"
    with pytest.raises(fl.FormatError, match=said):
        fl.kmeans(x, init=np.eye(2, 100))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("kind", ["scipy", "stored", "rows", "csc"])
def test_distances_are_those_of_dense_points(kind, metric, tmp_path):
    x = counts(700)
    dense = x.toarray().astype(float)
    found = fl.kmeans(x, init=dense[[1, 2, 30, 40]], iterations=3, metric=metric)
    stored = fl.from_blocks([x], tmp_path / "x.zarr")
    given = {"scipy": x, "stored": stored, "csc": fl.from_blocks([x.T.tocsr()]).T}
    if kind == "rows":
        dense = dense[2::3]
    made = found.transform(given.get(kind, stored[2::3]))
    assert isinstance(made, np.ndarray) == (kind == "scipy")
    expected = found.transform(dense)
    assert np.allclose(np.asarray(made), expected, rtol=1e-12, atol=1e-14)


def test_distances_of_chosen_rows_need_no_copy(monkeypatch, tmp_path):
    """Some columns of chunks at a time are put together in memory: the same bits under the least limit."""
    monkeypatch.setattr("flagstone._cluster.assigned._TILE", 1 << 18)
    stored = fl.from_blocks([counts(40_000, 90)], tmp_path / "x.zarr")
    chosen = stored[np.arange(40_000) % 5 > 0]
    found = fl.kmeans(stored, init=np.eye(40, 90), iterations=1)
    with fl.Runtime(scratch=tmp_path / "scratch"):
        wide = np.asarray(found.transform(chosen, out=tmp_path / "wide.zarr"))
        plan = found.transform.plan(chosen)
        low = found.transform(chosen, out=tmp_path / "low.zarr", memory=plan.least_memory)
        assert fl.stats().peak_memory <= plan.least_memory
        assert not any((tmp_path / "scratch").rglob("zarr.json"))
    np.testing.assert_array_equal(np.asarray(low), wide)
    some = np.asarray(found.transform(chosen.to_scipy()[::500]))
    np.testing.assert_allclose(wide[::500], some, rtol=1e-12, atol=1e-14)


def test_a_point_lies_on_its_own_center():
    x = counts(60)
    dense = x.toarray().astype(float) / 3  # what no square holds exactly
    found = fl.kmeans(sp.csr_matrix(dense), init=dense, iterations=1, tol=0)
    assert found.inertia == 0
    assert (np.diag(found.transform(sp.csr_matrix(dense))) == 0).all()


def test_fewer_rows_than_clusters_end_as_dense_ones_do():
    rows = np.random.default_rng(1).uniform(0.1, 1, (3, 40)) * (np.arange(40) % 3 > 0)
    x = rows[np.arange(30) % 3]
    with pytest.warns(UserWarning, match="3 of 6 clusters have no points"):
        dense = fl.kmeans(x, init=x[:6])
    with pytest.warns(UserWarning, match="3 of 6 clusters have no points"):
        sparse = fl.kmeans(sp.csr_matrix(x), init=x[:6])
    assert sparse.converged
    assert sparse.iterations == dense.iterations
    assert sparse.inertia < 1e-28
    assert np.allclose(sparse.centers, dense.centers, rtol=1e-14)


def test_labels_hold_where_all_terms_round_to_one_side():
    """Equal terms: the errors of a float32 sum grow like their number (decision 267)."""
    rng, n = np.random.default_rng(0), 2000
    points, centers = 0.7 * (1 + 1e-4 * rng.uniform(-1, 1, 40)), 0.7 * (1 + 3e-3 * rng.uniform(-1, 1, 64))
    model = fl.KMeansResult(np.outer(centers, np.ones(n)), None, np.ones(64), 0.0, 1, True)
    found = model.predict(sp.csr_matrix(np.outer(points, np.ones(n))))
    assert (found == abs(points[:, None] - centers).argmin(axis=1)).all()


@pytest.mark.parametrize("offset", [0, 1e4, 1e8])
def test_labels_hold_at_an_offset(offset):
    """Every value is stored, and differs from the next by 1."""
    rng = np.random.default_rng(0)
    x, centers = rng.integers(1, 6, (600, 6)) + offset, rng.integers(1, 6, (40, 6)) + offset + 0.25
    model = fl.KMeansResult(centers, None, np.ones(40), 0.0, 1, True)
    assert (model.predict(sp.csr_matrix(x)) == squares(x, centers).argmin(axis=1)).all()


def test_plans_of_distances_count_what_runs(tmp_path):
    stored = fl.from_blocks([counts(6000, 500)], tmp_path / "x.zarr")
    found = fl.kmeans(stored, init=np.eye(4, 500), iterations=1)
    for name in ("predict", "transform"):
        plan = getattr(found, name).plan(stored)
        getattr(found, name)(stored, out=tmp_path / f"{name}.zarr")
        done = fl.stats()
        assert plan.flops == done.flops
        assert abs(plan.bytes_read - done.bytes_read) <= 0.01 * done.bytes_read
        assert abs(plan.bytes_written - done.bytes_written) <= 0.02 * done.bytes_written
