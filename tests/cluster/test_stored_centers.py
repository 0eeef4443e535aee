"""Centers on disk: the bits of centers in memory, labels of float64, seeds that are overwritten on disk."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.processes import fingerprint

D, K, M = 1024, 560, 2300  # 512 centers of 1,024 coordinates are a block
DISK = {"centers": "disk"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Points of two panels, stored, and seeds of two blocks, some of which lose all their points."""
    folder = tmp_path_factory.mktemp("stored")
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((M, D)) + 20 * rng.standard_normal((1, D))).astype("f4")
    seeds = x[rng.choice(M, K, replace=False)].astype(float)
    seeds[[7, 530]] += 500
    points = fl.from_numpy(x, str(folder / "x.zarr"), chunks=(300, D))
    return x, points, seeds, fl.from_numpy(seeds, str(folder / "seeds.zarr"), chunks=(200, D))


def bits(found):
    return fingerprint(
        np.asarray(found.centers), np.asarray(found.labels), found.counts, np.array([found.inertia])
    )


def lloyd(x, c, iterations):
    """Lloyd's iterations in float64; the farthest points fill clusters that lost theirs."""
    x, c = x.astype(float), c.copy()
    for _ in range(iterations):
        d = (x**2).sum(1)[:, None] - 2 * x @ c.T + (c**2).sum(1)
        labels = d.argmin(1)
        nearest = ((x - c[labels]) ** 2).sum(1)
        sums, n = np.zeros_like(c), np.bincount(labels, minlength=len(c)).astype(float)
        np.add.at(sums, labels, x)
        far = iter(np.argsort(-nearest, kind="stable"))
        for j in np.flatnonzero(n == 0):
            i = next(i for i in far if n[labels[i]] > 1)
            sums[labels[i]] -= x[i]
            n[labels[i]] -= 1
            sums[j], n[j] = x[i], 1
        c = sums / n[:, None]
    return c


def test_centers_are_those_of_numpy(made):
    x, points, seeds, stored = made
    found = fl.kmeans(points, init=stored, iterations=3, tol=0, where=DISK)
    assert isinstance(found.centers, fl.Array)
    centers = np.asarray(found.centers)
    assert abs(centers - lloyd(x, seeds, 3)).max() <= 1e-12 * abs(x).max() * np.sqrt(M)
    d = ((x[::17, None, :].astype(float) - centers[None, found.labels[::17]]) ** 2).sum(2).diagonal()
    best = np.partition(-2 * x[::17].astype(float) @ centers.T + (centers**2).sum(1), 1, axis=1)
    mine = d - (x[::17].astype(float) ** 2).sum(1)
    assert (mine <= best[:, 0] + 1e-9 * abs(best[:, 0])).all()
    assert "centers on disk: 2 of 2 blocks of centers stay while X streams past" in fl.stats().note


@pytest.mark.parametrize("given", ["stored", "memory", "transposed", "weights", "cosine", "float64"])
def test_the_bits_are_those_of_memory(made, tmp_path, given):
    x, points, seeds, stored = made
    init, options = stored, {"iterations": 2, "tol": 0}
    if given == "memory":
        points = x
        init = seeds
    if given == "transposed":
        points = fl.from_numpy(np.ascontiguousarray(x.T), str(tmp_path / "x.zarr"), chunks=(D, 400)).T
        init = fl.from_numpy(np.ascontiguousarray(seeds.T), str(tmp_path / "seeds.zarr")).T
    if given == "weights":
        options["weights"] = np.random.default_rng(1).uniform(0, 2, M).round(1)
    if given == "cosine":
        options["metric"] = "cosine"
    if given == "float64":
        points = fl.from_numpy(x.astype(float) + 1e-9, str(tmp_path / "x.zarr"))
    want = fl.kmeans(points, init=seeds, **options)
    found = fl.kmeans(points, init=init, where=DISK, **options)
    assert bits(found) == bits(want)
    assert (found.iterations, found.converged) == (want.iterations, want.converged)
    some = x[:800]
    assert np.array_equal(found.predict(some), want.predict(some))
    assert np.array_equal(found.transform(some[:50]), want.transform(some[:50]))


def test_every_limit_and_number_of_workers(made):
    _, points, _, stored = made
    least = fl.kmeans.plan(points, init=stored, iterations=1, where=DISK).least_memory
    seen, reads = set(), set()
    for more, workers in ((8, 1), (40, 1), (16, 2), (1500, 2)):
        with fl.Runtime(memory=least + (more << 20), workers=workers):
            seen.add(bits(fl.kmeans(points, init=stored, iterations=2, tol=0, where=DISK)))
            reads.add(fl.stats().passes)
    assert len(seen) == 1
    assert min(reads) == 3  # sums are added while the panels are there
    assert max(reads) > 3


def test_panels_stay_where_centers_are_many(tmp_path):
    """19 blocks of 16 centers take three times the bytes of three panels: those stay, centers stream past."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((300, 20_000)).astype("f4")
    points = fl.from_numpy(x, str(tmp_path / "x.zarr"), chunks=(50, 20_000))
    seeds = fl.from_numpy(x[:290], str(tmp_path / "seeds.zarr"), chunks=(40, 20_000))
    want = bits(fl.kmeans(x, init=x[:290], iterations=1, tol=0))
    least = fl.kmeans.plan(points, init=seeds, iterations=1, where=DISK).least_memory
    found = fl.kmeans(points, init=seeds, iterations=1, tol=0, where=DISK, memory=least + (4 << 20))
    assert "panels of X stay while 19 blocks of centers stream past" in fl.stats().note
    assert bits(found) == want


def test_it_comes_to_rest_as_in_memory():
    """Moves, their noise and the variance are summed over blocks as over all centers."""
    rng = np.random.default_rng(3)
    d, k = 40_000, 30  # 13 a block
    groups = 3 * rng.standard_normal((4, d))
    x = (rng.standard_normal((60, d)) + groups[rng.integers(4, size=60)]).astype("f4")
    for tol in (0.0, 1e-3):
        want = fl.kmeans(x, init=x[:k], tol=tol)
        found = fl.kmeans(x, init=x[:k], tol=tol, where=DISK)
        assert want.converged
        assert found.iterations == want.iterations
        assert bits(found) == bits(want)


@pytest.mark.filterwarnings("ignore:kmeans. 2 of")  # as they were before they moved
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_seeds_are_overwritten_on_disk(made, tmp_path, dtype):
    _, points, seeds, _ = made
    fl.from_numpy(seeds.astype(dtype), str(tmp_path / "own.zarr"), chunks=(150, D))
    own = fl.open(tmp_path / "own.zarr", mode="r+")
    found = fl.kmeans(points, init=own, iterations=1, tol=0, labels=False, out=own, where=DISK)
    assert found.labels is None
    want = fl.kmeans(points, init=seeds.astype(dtype), iterations=1, tol=0, labels=False)
    assert np.array_equal(np.asarray(found.centers), want.centers)
    assert np.array_equal(np.asarray(own), want.centers.astype(dtype))


def test_results_are_kept(made, tmp_path):
    _, points, _, stored = made
    found = fl.kmeans(points, init=stored, iterations=1, where=DISK, out=tmp_path / "found.zarr")
    again = fl.open(tmp_path / "found.zarr", "centers")
    assert np.array_equal(np.asarray(again), np.asarray(found.centers))
    assert np.array_equal(np.asarray(fl.open(tmp_path / "found.zarr", "labels")), np.asarray(found.labels))
    assert np.array_equal(np.asarray(fl.open(tmp_path / "found.zarr", "counts")), found.counts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"init": np.ones((2, 3))}, "2 real ones of 4 columns"),
        ({"init": np.ones((2, 4)), "k": 3}, "they must agree"),
        ({"init": np.ones((2, 4)), "method": "minibatch"}, "method='lloyd' is needed"),
        ({"init": np.full((2, 4), np.nan)}, "NaN or Inf at row 0, column 0"),
        ({"init": np.ones((31, 4))}, "k is 31 and X has 30 rows"),
        ({"init": np.ones((2, 4)), "where": {"centers": "tape"}}, "choose 'memory' or 'disk'"),
        ({"init": np.ones((2, 4)), "where": {"buckets": "disk"}}, "what has a place is 'centers'"),
    ],
)
def test_bad_input_is_refused(options, said):
    x = np.random.default_rng(0).standard_normal((30, 4))
    with pytest.raises((fl.ShapeError, fl.NumericalError), match=said):
        fl.kmeans(x, **({"where": DISK} | options))


@pytest.mark.filterwarnings("ignore:kmeans. .* of 390 clusters have no points")
@pytest.mark.parametrize("given", ["stored", "weights", "cosine", "rows"])
def test_sparse_points_have_the_bits_of_memory(tmp_path, given):
    """160 centers of 3,000 coordinates are a block; the last one is shorter."""
    x = sp.random(1600, 3000, 0.01, "csr", random_state=3, dtype=np.float32)
    stored = fl.from_blocks([x[:700], x[700:]], str(tmp_path / "x.zarr"))
    options = {"iterations": 2, "tol": 0}
    if given == "weights":
        options["weights"] = np.random.default_rng(1).uniform(0, 2, x.shape[0]).round(1)
    if given == "cosine":
        options["metric"] = "cosine"
    if given == "rows":
        stored = stored[np.arange(0, 1600, 3)]
    seeds = x[5::4][:390].toarray().astype(float)
    seeds[200] += 9  # loses all its points
    want = fl.kmeans(stored, init=seeds, **options)
    found = fl.kmeans(stored, init=fl.from_numpy(seeds, str(tmp_path / "seeds.zarr")), where=DISK, **options)
    assert bits(found) == bits(want)
    assert np.array_equal(np.asarray(found.predict(x[:700])), np.asarray(want.predict(x[:700])))


def test_bad_points_are_named(made):
    x, _, _, stored = made
    bad = x.copy()
    bad[2222, 3] = np.inf
    with pytest.raises(fl.NumericalError, match="NaN or Inf at row 2222, column 3"):
        fl.kmeans(bad, init=stored, where=DISK)
