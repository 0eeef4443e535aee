"""Seeds of k-means that are found on disk: those that are found in memory, whatever the limit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone._commands.options import places_given
from tests.project.test_cli import run
from tests.support.examples import examples
from tests.support.processes import fingerprint

DISK = {"centers": "disk"}
INITS = ("k-means||", "k-means++", "random")


def bits(found) -> str:
    return fingerprint(
        np.asarray(found.centers), np.asarray(found.labels), found.counts, np.array([found.inertia])
    )


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """150 points of 20,000 coordinates, off zero: 16 seeds are a block, 32 candidates a panel of them."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((150, 20_000)) + 30 * rng.standard_normal((1, 20_000))).astype("f4")
    return fl.from_numpy(x, str(tmp_path_factory.mktemp("seeds") / "x.zarr"), chunks=(40, 20_000))


@pytest.mark.parametrize("init", ["k-means||", "random"])
@pytest.mark.parametrize("given", ["points", "weights", "cosine"])
def test_seeds_are_those_of_memory(points, init, given):
    options = {"init": init, "iterations": 1, "tol": 0, "seed": 4}
    if given == "weights":
        options["weights"] = np.random.default_rng(2).uniform(0, 2, points.shape[0]).round(1)
    if given == "cosine":
        options["metric"] = "cosine"
    want = fl.kmeans(points, 20, **options)
    found = fl.kmeans(points, 20, where=DISK, **options)
    assert isinstance(found.centers, fl.Array)
    assert bits(found) == bits(want)


def test_seeds_drawn_one_by_one(points):
    options = {"init": "k-means++", "iterations": 1, "tol": 0, "seed": 9}
    want = fl.kmeans(points, 20, **options)
    assert bits(fl.kmeans(points, 20, where=DISK, **options)) == bits(want)
    assert fl.stats().passes >= 20


@pytest.mark.filterwarnings("ignore:kmeans. .* clusters have no points")
@pytest.mark.parametrize("init", ["k-means||", "random"])
@pytest.mark.parametrize("given", ["stored", "rows", "cosine"])
def test_of_sparse_points_too(tmp_path, init, given):
    # Blocks are of 16 seeds; of as wide dense candidates they would be of 13.
    x = sp.random(600, 40_000, 0.002, "csr", random_state=3, dtype=np.float32)
    stored = fl.from_blocks([x[:250], x[250:]], str(tmp_path / "x.zarr"))
    options = {"init": init, "iterations": 1, "tol": 0, "seed": 2}
    if given == "rows":
        stored = stored[np.arange(0, 600, 2)]
    if given == "cosine":
        options["metric"] = "cosine"
    want = fl.kmeans(stored, 20, **options)  # 16 are a block
    assert bits(fl.kmeans(stored, 20, where=DISK, **options)) == bits(want)


def test_every_limit_and_number_of_workers(points):
    """Neither the candidates, 16 MB, nor what a round draws need be in memory."""
    options = {"iterations": 1, "tol": 0, "where": DISK}
    least = fl.kmeans.plan(points, 20, **options).least_memory
    seen, reads = set(), set()
    for more, workers in ((8, 1), (24, 2), (1500, 2)):
        with fl.Runtime(memory=least + (more << 20), workers=workers):
            seen.add(bits(fl.kmeans(points, 20, **options)))
            reads.add(fl.stats().bytes_read)
            # The candidates and half as much: points of rounds that are over would be as much again.
            assert fl.stats().bytes_written <= 1.5 * 8 * 100 * points.shape[1]
    assert len(seen) == 1
    assert max(reads) > min(reads)  # what does not fit is read again


def test_less_memory_than_seeds_in_memory(points):
    options = {"init": "k-means||", "iterations": 1}
    held, stored = (
        fl.kmeans.plan(points, 40, where={"centers": place}, **options).least_memory
        for place in ("memory", "disk")
    )
    assert held - stored > 8 * 150 * points.shape[1]  # candidates alone


@examples(20)
@given(st.data())
def test_few_points_and_duplicates(data):
    """Fewer points that differ than clusters: some seeds appear more than once, as in memory."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    m, d = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 6))
    x = rng.integers(0, data.draw(st.integers(1, 4)), size=(m, d)).astype("f4")
    k = data.draw(st.integers(1, m))
    options = {
        "init": data.draw(st.sampled_from(INITS)),
        "iterations": 2,
        "seed": data.draw(st.integers(0, 9)),
    }
    if data.draw(st.booleans()):
        options["weights"] = rng.integers(0, 2, m) + (np.arange(m) == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clusters have no points
        want = fl.kmeans(x, k, **options)
        found = fl.kmeans(x, k, where=DISK, **options)
    assert bits(found) == bits(want)


def test_bad_input_is_refused():
    x = np.random.default_rng(0).standard_normal((30, 4))
    for options, said in (
        ({}, "k is not given"),
        ({"k": 3, "init": "best"}, "choose 'k-means||'"),
        ({"k": 31}, "k is 31 and X has 30 rows"),
        ({"k": 3, "method": "minibatch"}, "method='lloyd' is needed"),
        ({"k": 3, "weights": np.zeros(30)}, "all weights are zero"),
    ):
        with pytest.raises((fl.ShapeError, fl.NumericalError)) as refused:
            fl.kmeans(x, where=DISK, **options)
        assert said in str(refused.value)
    x[20, 1] = np.nan
    with pytest.raises(fl.NumericalError, match="NaN or Inf at row 20, column 1"):
        fl.kmeans(x, 3, where=DISK)


def test_the_command_places_centers(tmp_path):
    x = np.random.default_rng(5).standard_normal((300, 8)).astype("f4")
    fl.from_numpy(x, str(tmp_path / "x.zarr"))
    given = ("kmeans", "x.zarr", "-k", "5", "-o", "found.zarr")
    done = run(*given, "--where", "centers=disk", folder=tmp_path)
    assert "centers on disk" in done.stdout
    assert "5 clusters of" in done.stdout
    stored = np.asarray(fl.open(tmp_path / "found.zarr", "centers"))
    assert np.array_equal(stored, fl.kmeans(x, 5).centers)
    for place, said in (
        ("centers", "--where is 'centers'; an operand and its place are needed"),
        ("labels=disk", "what has a place is 'centers'"),
    ):
        refused = run(*given, "--overwrite", "--where", place, folder=tmp_path, code=1)
        assert said in refused.stderr
    with pytest.raises(fl.ShapeError, match="places 'centers' twice"):
        places_given("kmeans", ("centers=disk", "centers=memory"))
