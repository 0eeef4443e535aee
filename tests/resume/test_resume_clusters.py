"""k-means that was killed between iterations goes on, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import check_goes_on, left_at

_CALL = """
fl.kmeans(fl.open("x.zarr"), 6, iterations=9, tol=0, seed=2, out="found.zarr")
result = told() | {"digest": digest("found.zarr")}
"""


def test_killed_between_iterations(process, tmp_path):
    x = np.random.default_rng(0).standard_normal((20_000, 30)).astype("f4")
    fl.from_numpy(x, str(tmp_path / "x.zarr"))
    check_goes_on(process, tmp_path / "found.zarr", _CALL, (1, 6))  # behind the seeds, and some iterations


_STORED = """
fl.kmeans(fl.open("x.zarr"), init=fl.open("seeds.zarr"), iterations=5, tol=0, where={"centers": "disk"},
          out="found.zarr")
result = told() | {"digest": digest("found.zarr")}
"""


def test_centers_on_disk_killed_between_iterations(process, tmp_path):
    x = np.random.default_rng(2).standard_normal((3_000, 600)).astype("f4")
    fl.from_numpy(x, str(tmp_path / "x.zarr"))
    fl.from_numpy(x[:900], str(tmp_path / "seeds.zarr"))  # 864 are a block
    check_goes_on(process, tmp_path / "found.zarr", _STORED, (2,))


_FOUND = """
fl.kmeans(fl.open("x.zarr"), 40, iterations=3, tol=0, seed=5, where={"centers": "disk"}, out="found.zarr")
result = told() | {"digest": digest("found.zarr")}
"""


def test_seeds_on_disk_are_found_once(process, tmp_path):
    x = np.random.default_rng(4).standard_normal((400, 12_000)).astype("f4")  # 32 seeds are a block
    fl.from_numpy(x, str(tmp_path / "x.zarr"))
    check_goes_on(process, tmp_path / "found.zarr", _FOUND, (1, 3))  # behind the seeds, and some iterations


_NEAR = """
q, x = fl.open("q.zarr"), None if itself else fl.open("x.zarr")
fl.knn(q, x, 8, out="near.zarr")
result = told() | {"digest": digest("near.zarr")}
"""


@pytest.mark.parametrize("itself", [False, True])
def test_neighbours_killed_between_blocks(process, tmp_path, itself):
    rng = np.random.default_rng(1)
    for name, rows in (("q", 17_500), ("x", 1_000)):  # blocks of 8,192 queries
        points = rng.standard_normal((rows, 6)).astype("f4")
        fl.from_numpy(points, str(tmp_path / f"{name}.zarr"), chunks=(500, 6))
    whole = process(_NEAR, itself=itself)
    (tmp_path / "near.zarr").rename(tmp_path / "whole.zarr")
    for _ in range(2 if itself else 1):  # the second dies while it goes on
        process(_NEAR, kill=1, itself=itself)
        (left,) = left_at(tmp_path / "near.zarr")
        assert 0 < left.done < 1
    again = process(
        'fl.resume("near.zarr", memory="400MiB")\nresult = told() | {"digest": digest("near.zarr")}',
        itself=itself,
    )
    assert "resumed at" in again["what"]
    assert again["digest"] == whole["digest"]
    assert again["flops"] < whole["flops"]


_WITHIN = """
q, x = fl.open("q.zarr"), fl.open("x.zarr")
plan = fl.radius_neighbors.plan(q, x, 4.6, out="near.zarr")
fl.radius_neighbors(q, x, 4.6, out="near.zarr", memory=plan.least_memory + (3 << 20))
result = told() | {"digest": digest("near.zarr")}
"""


def test_radius_killed_between_stretches(process, tmp_path):
    rng = np.random.default_rng(2)
    for name, rows in (("q", 4_000), ("x", 6_000)):
        fl.from_numpy(rng.standard_normal((rows, 20)).astype("f4"), str(tmp_path / f"{name}.zarr"))
    whole = process(_WITHIN)
    (tmp_path / "near.zarr").rename(tmp_path / "whole.zarr")
    process(_WITHIN, kill=2)
    again = process(
        'fl.resume("near.zarr", memory="600MiB")\nresult = told() | {"digest": digest("near.zarr")}'
    )
    assert "resumed at" in again["what"]
    assert again["digest"] == whole["digest"]
    assert again["flops"] < whole["flops"]
