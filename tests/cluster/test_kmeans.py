"""k-means against NumPy in float64: labels, centers after some iterations, seeds, what is strange."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone import estimators
from tests.support.examples import examples
from tests.support.processes import fingerprint

EPS = np.finfo(float).eps


def squares(x, c):
    """Of all pairs, by differences."""
    return ((x[:, None, :].astype(float) - c[None]) ** 2).sum(axis=2)


def lloyd(x, c, iterations, weights=None):
    """Lloyd's iterations in float64; the farthest points fill clusters that lost theirs."""
    x, c = x.astype(float), np.array(c, float)
    w = np.ones(len(x)) if weights is None else weights
    for _ in range(iterations):
        d = squares(x, c)
        labels, nearest = d.argmin(axis=1), d.min(axis=1)
        sums, n = np.zeros_like(c), np.bincount(labels, w, minlength=len(c))
        np.add.at(sums, labels, w[:, None] * x)
        far = iter([i for i in np.argsort(-nearest, kind="stable") if nearest[i] > 0 and w[i] > 0][:8])
        for j in np.flatnonzero(n == 0):
            for i in far:
                if n[labels[i]] > w[i]:
                    sums[labels[i]] -= w[i] * x[i]
                    n[labels[i]] -= w[i]
                    sums[j], n[j] = w[i] * x[i], w[i]
                    break
        moved = n > 0
        c[moved] = sums[moved] / n[moved, None]
    return c


def blobs(m=3000, d=12, k=7, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((k, d)) * 3
    x = centers[rng.integers(k, size=m)] + rng.standard_normal((m, d)) + offset
    return x.astype("f4"), x[rng.choice(m, k, replace=False)].astype("f4").astype(float)


def check(found, x, centers, weights=None):
    """Labels, counts and inertia belong to the centers, and those are as expected."""
    x = np.asarray(x, float)
    scale = abs(x).max()
    assert abs(found.centers - centers).max() <= 1e-12 * scale * np.sqrt(len(x))
    d = squares(x, found.centers)
    labels = np.asarray(found.labels)
    clear = np.partition(d, 1, axis=1) if d.shape[1] > 1 else None
    if clear is not None:
        near = clear[:, 1] - clear[:, 0] <= 1e-12 * scale**2
        assert (labels[~near] == d.argmin(axis=1)[~near]).all()
    w = np.ones(len(x)) if weights is None else weights
    assert np.allclose(found.counts, np.bincount(labels, w, minlength=len(centers)), rtol=1e-12, atol=0)
    inertia = (w * d[np.arange(len(x)), labels]).sum()
    assert abs(found.inertia - inertia) <= 1e-12 * inertia + 1e-30


@pytest.mark.parametrize("iterations", [1, 5, 20])
@pytest.mark.parametrize("stored", ["zarr", "memory", "transposed", "lazy"])
def test_centers_are_those_of_numpy(tmp_path, stored, iterations):
    x, seeds = blobs()
    given, expected = x, x
    if stored == "zarr":
        given = fl.from_numpy(x, str(tmp_path / "x.zarr"), chunks=(256, 12))
    if stored == "transposed":
        given = fl.from_numpy(np.ascontiguousarray(x.T), str(tmp_path / "x.zarr"), chunks=(12, 500)).T
    if stored == "lazy":
        given = fl.from_numpy(x, str(tmp_path / "x.zarr")) * np.float32(2)
        expected = x * np.float32(2)
        seeds = seeds * 2
    found = fl.kmeans(given, init=seeds, iterations=iterations, tol=0)
    check(found, expected, lloyd(expected, seeds, iterations))
    assert found.iterations <= iterations
    assert found.labels.dtype == np.int32


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1"])
def test_labels_hold_at_an_offset(dtype):
    offset = {"f4": 1e4, "f8": 1e8, "i2": 1e4, "u1": 120}[dtype]
    x, seeds = blobs(offset=offset)
    x = (x.astype(float)).astype(dtype)
    found = fl.kmeans(x, init=x[:7].astype(float) + 1e-3 * (seeds - offset), iterations=4, tol=0)
    d = squares(x, found.centers)
    assert (np.asarray(found.labels) == d.argmin(axis=1)).all()
    assert fl.stats().method.startswith("lloyd")


def test_weights_count_points():
    x, seeds = blobs(600)
    weights = np.random.default_rng(1).integers(0, 4, 600).astype(float)
    found = fl.kmeans(x, init=seeds, iterations=5, tol=0, weights=weights)
    check(found, x, lloyd(x, seeds, 5, weights), weights)
    twice = fl.kmeans(np.repeat(x, weights.astype(int), axis=0), init=seeds, iterations=5, tol=0)
    assert abs(found.centers - twice.centers).max() <= 1e-11
    stored = fl.kmeans(x, init=seeds, iterations=5, tol=0, weights=fl.from_numpy(weights))
    assert np.array_equal(stored.centers, found.centers)


def test_cosine_knows_directions():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((500, 6)) * rng.uniform(0.1, 9, (500, 1))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    seeds = unit[:4]
    found = fl.kmeans(x, init=seeds, iterations=6, tol=0, metric="cosine")
    c = seeds
    for _ in range(6):
        labels = (unit @ c.T).argmax(axis=1)
        c = np.array([unit[labels == j].sum(axis=0) for j in range(4)])
        c /= np.linalg.norm(c, axis=1, keepdims=True)
    assert abs(found.centers - c).max() <= 1e-12
    assert (np.asarray(found.labels) == (unit @ found.centers.T).argmax(axis=1)).all()
    assert np.allclose(found.inertia, 2 * (1 - (unit @ found.centers.T).max(axis=1)).sum())
    assert (found.predict(x) == np.asarray(found.labels)).all()
    assert abs(found.transform(x) - (1 - unit @ found.centers.T)).max() <= 1e-13


@pytest.mark.parametrize("init", ["k-means||", "k-means++", "random"])
def test_seeds_are_good_and_the_same_every_time(init, tmp_path):
    x, _ = blobs(4000, 5, 9, seed=4)
    stored = fl.from_numpy(x, str(tmp_path / "x.zarr"), chunks=(200, 5))
    found = fl.kmeans(stored, 9, init=init, seed=3)
    with fl.Runtime(workers=1):
        again = fl.kmeans(stored, 9, init=init, seed=3)
    assert fingerprint(found.centers, np.asarray(found.labels)) == fingerprint(
        again.centers, np.asarray(again.labels)
    )
    assert found.converged
    planted = squares(x, np.array([x[i] for i in range(len(x))][:1])).sum()  # one center
    assert found.inertia < planted / 3
    other = fl.kmeans(stored, 9, init=init, seed=4)
    assert not np.array_equal(other.centers, found.centers)


def test_seeds_that_count_by_weights():
    x = np.array([[0.0], [1.0], [50.0]])
    found = fl.kmeans(x, 2, weights=[1, 1, 0], init="k-means++", seed=1)
    assert sorted(found.centers[:, 0]) == [0.0, 1.0]
    assert found.inertia == 0


@given(
    st.integers(1, 40), st.integers(1, 6), st.data(), st.sampled_from(["k-means||", "k-means++", "random"])
)
@examples(25)
def test_small_shapes(m, d, data, init):
    k = data.draw(st.integers(1, m))
    x = np.round(
        np.random.default_rng(m * 7 + d).standard_normal((m, d)) * 2, data.draw(st.sampled_from([0, 3]))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fl.kmeans(x, k, init=init, seed=m)
        d2 = squares(x, found.centers)
    labels = np.asarray(found.labels)
    near = d2[np.arange(m), labels] <= d2.min(axis=1) + 1e-12 * (1 + abs(x).max() ** 2)
    assert near.all()
    assert found.counts.sum() == m
    if k == m and len(np.unique(x, axis=0)) == m and found.converged:
        assert found.inertia <= 1e-20


def test_fewer_distinct_rows_than_clusters_are_warned_of():
    x = np.repeat(np.eye(3), 5, axis=0)
    with pytest.warns(UserWarning, match="2 of 5 clusters have no points"):
        found = fl.kmeans(x, 5)
    assert found.inertia == 0
    assert np.count_nonzero(found.counts) == 3


def test_a_cluster_that_lost_its_points_starts_anew():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal((50, 2)), rng.standard_normal((50, 2)) + 40]).astype("f4")
    seeds = np.array([[0, 0], [1, 1], [500, 500.0]])
    found = fl.kmeans(x, init=seeds, iterations=5, tol=0)
    check(found, x, lloyd(x, seeds, 5))
    assert (found.counts > 0).all()


def test_one_cluster_is_the_mean():
    x, _ = blobs(400)
    found = fl.kmeans(x, 1)
    assert abs(found.centers[0] - x.astype(float).mean(axis=0)).max() <= 1e-12
    assert found.counts.tolist() == [400]


def test_results_are_kept(tmp_path):
    x, seeds = blobs(500)
    found = fl.kmeans(x, init=seeds, out=tmp_path / "found.zarr")
    assert (np.asarray(fl.open(tmp_path / "found.zarr", "labels")) == np.asarray(found.labels)).all()
    assert np.array_equal(np.asarray(fl.open(tmp_path / "found.zarr", "centers")), found.centers)
    assert np.array_equal(np.asarray(fl.open(tmp_path / "found.zarr", "counts")), found.counts)
    less = fl.kmeans(x, init=seeds, labels=False, out=tmp_path / "less.zarr")
    assert less.labels is None
    assert np.array_equal(np.asarray(fl.open(tmp_path / "less.zarr", "centers")), found.centers)
    y = fl.from_numpy(x[:100], str(tmp_path / "y.zarr"))
    assert (np.asarray(found.predict(y, out=tmp_path / "p.zarr")) == np.asarray(found.labels)[:100]).all()
    assert np.allclose(np.asarray(found.transform(y)) ** 2, squares(x[:100], found.centers), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: fl.kmeans(x, 0), fl.ShapeError, "k is 0; a whole number of 1"),
        (lambda x: fl.kmeans(x, 31), fl.ShapeError, "k is 31 and X has 30 rows"),
        (lambda x: fl.kmeans(x), fl.ShapeError, "k is not given"),
        (lambda x: fl.kmeans(x, 3, init="best"), fl.ShapeError, "init is 'best'"),
        (lambda x: fl.kmeans(x, init=np.ones((2, 3))), fl.ShapeError, "X has 4 columns"),
        (lambda x: fl.kmeans(x, 3, init=np.ones((2, 4))), fl.ShapeError, "they must agree"),
        (lambda x: fl.kmeans(x + 1j, 2), fl.ShapeError, "real numbers"),
        (lambda x: fl.kmeans(x, 2, weights=np.ones(3)), fl.ShapeError, "one for each is needed"),
        (lambda x: fl.kmeans(x, 2, weights=-np.ones(30)), fl.NumericalError, "weight of row"),
        (lambda x: fl.kmeans(x, 2, weights=np.zeros(30)), fl.NumericalError, "all weights are zero"),
        (lambda x: fl.kmeans(x, 2, metric="manhattan"), fl.ShapeError, "choose 'euclidean' or 'cosine'"),
        (lambda x: fl.kmeans(x, 2).predict(x[:, :3]), fl.ShapeError, "4 columns are needed"),
        (lambda x: fl.kmeans(x, 2, seed=2**64), fl.ShapeError, "seed is 18446744073709551616"),
        (lambda x: fl.kmeans(x, 2, tol=[1, 2]), fl.ShapeError, r"tol is \[1, 2\]"),
        (lambda x: fl.kmeans(x, 2, method=["lloyd"]), fl.ShapeError, "choose 'lloyd' or 'minibatch'"),
        (lambda x: fl.kmeans([[1.0], [1.0, 2.0]], 1), fl.ShapeError, "with rows of one length"),
        (lambda x: fl.kmeans(x, init=x[:2] + 1j), fl.ShapeError, "init is 2 x 4 complex128"),
    ],
)
def test_bad_input_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call(np.random.default_rng(0).standard_normal((30, 4)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_value_is_named(bad, tmp_path):
    x, seeds = blobs(900)
    x[711, 5] = bad
    stored = fl.from_numpy(x, str(tmp_path / "x.zarr"), chunks=(100, 12))
    with pytest.raises(fl.NumericalError, match="NaN or Inf at row 711, column 5"):
        fl.kmeans(stored, init=seeds, out=tmp_path / "found.zarr")
    assert not (tmp_path / "found.zarr").exists()
    good = fl.kmeans(np.nan_to_num(x, posinf=0), init=seeds, iterations=1)
    with pytest.raises(fl.NumericalError, match="predict: Y has NaN or Inf at row 711, column 5"):
        good.predict(x)


def test_plans_count_what_runs(tmp_path):
    x, seeds = blobs(20_000, 64, 8)
    stored = fl.from_numpy(x, str(tmp_path / "x.zarr"))
    plan = fl.kmeans.plan(stored, init=seeds, iterations=3, tol=0)
    fl.kmeans(stored, init=seeds, iterations=3, tol=0)
    done = fl.stats()
    assert plan.passes == done.passes == 4
    assert plan.flops == done.flops
    assert abs(plan.bytes_read - done.bytes_read) <= 0.01 * done.bytes_read
    assert fl.kmeans.plan(stored, 8).passes == 6 + 30 + 1
    assert "300 at most" in fl.kmeans.plan(stored, 8).note


def test_digits_cluster(shared_data):
    import gzip

    (path,) = shared_data.glob("mnist-t10k/*images*")
    with (gzip.open if path.suffix == ".gz" else open)(path) as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 784)[:4000]
    seeds = x[:20].astype(float)
    found = fl.kmeans(x, init=seeds, iterations=5, tol=0)
    assert abs(found.centers - lloyd_blocked(x, seeds, 5)).max() <= 1e-9


def lloyd_blocked(x, c, iterations):
    x = x.astype(float)
    for _ in range(iterations):
        labels = ((c**2).sum(axis=1) / 2 - x @ c.T).argmin(axis=1)  # whole numbers: nothing cancels much
        c = np.array([x[labels == j].mean(axis=0) for j in range(len(c))])
    return c


@pytest.mark.parametrize(("metric", "size"), [("euclidean", 1), ("cosine", 1), ("cosine", 1e200)])
def test_centers_come_to_rest_without_a_tolerance(metric, size):
    """Panels are summed from both ends by turns: the sums never agree to the last bit."""
    rng = np.random.default_rng(0)
    groups = 8 * np.eye(2, 24)
    x = size * (rng.standard_normal((90_000, 24)) + groups[rng.integers(0, 2, 90_000)])
    found = fl.kmeans(x, init=groups, iterations=60, tol=0, metric=metric, labels=False)
    assert found.converged
    assert found.iterations < 60


def test_points_of_no_weight_do_not_count_however_far():
    """Nor does one point beyond the range of squares keep the others from their centers."""
    x, seeds = blobs(900)
    x = x.astype(float)
    wanted = fl.kmeans(x[1:], init=seeds, iterations=3, tol=0)
    bound = len(x) * EPS * abs(x).max()
    x[0] = 1e200
    weights = np.r_[0.0, np.ones(len(x) - 1)]
    for points in (x, sp.csr_array(x)):
        for method in ("lloyd", "minibatch"):
            found = fl.kmeans(points, init=seeds, iterations=3, tol=0, weights=weights, method=method)
            assert np.isfinite(found.inertia)
            if method == "lloyd":
                assert abs(found.centers - wanted.centers).max() <= bound
                np.testing.assert_array_equal(found.labels[1:], wanted.labels)
        np.testing.assert_array_equal(wanted.predict(points)[1:], wanted.labels)
        with pytest.raises(fl.NumericalError, match="kmeans: squares of distances are beyond float64"):
            fl.kmeans(points, init=seeds)
    model = estimators.KMeans(3).fit(x[1:])
    assert model.score(x) == -np.inf
