"""Clusters of points on disk, and the nearest neighbours of some, inside a memory limit."""

import tempfile
from pathlib import Path

import numpy as np

import flagstone as fl

rng = np.random.default_rng(0)
planted = 6 * rng.standard_normal((10, 24))
kind = rng.integers(10, size=40_000)

with tempfile.TemporaryDirectory(dir=".") as name:
    points = fl.from_numpy(
        (planted[kind] + rng.standard_normal((40_000, 24)) + 1e4).astype("f4"),
        str(Path(name) / "points.zarr"),
    )
    print(fl.kmeans.plan(points, 10, memory="512MiB"))
    found = fl.kmeans(points, 10, memory="512MiB")
    print(found)

    # Each planted cluster was found, at an offset where float32 distances have no digit left.
    labels = np.asarray(found.labels)
    share = [np.bincount(labels[kind == j]).max() / np.count_nonzero(kind == j) for j in range(10)]
    print(f"of each planted cluster at least {min(share):.1%} lie together")
    assert min(share) > 0.99

    distances, indices = fl.knn(points[:100], points, 5, memory="512MiB")
    assert (np.asarray(indices)[:, 0] == np.arange(100)).all()  # a point is its own nearest one
    assert (labels[np.asarray(indices)] == labels[:100, None]).all()
    print("median distance of the fifth neighbour", float(np.median(np.asarray(distances)[:, 4])))
