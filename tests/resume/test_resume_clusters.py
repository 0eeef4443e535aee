"""k-means that was killed between iterations goes on, with the same bits."""

from __future__ import annotations

import numpy as np

import flagstone as fl
from tests.support.killed_calls import left_at

_CALL = """
fl.kmeans(fl.open("x.zarr"), 6, iterations=9, tol=0, seed=2, out="found.zarr")
result = told() | {"digest": digest("found.zarr")}
"""


def test_killed_between_iterations(process, tmp_path):
    x = np.random.default_rng(0).standard_normal((20_000, 30)).astype("f4")
    fl.from_numpy(x, str(tmp_path / "x.zarr"))
    whole = process(_CALL)
    (tmp_path / "found.zarr").rename(tmp_path / "whole.zarr")
    for kill in (1, 6):  # behind the seeds; behind some iterations
        process(_CALL, kill=kill)
        (left,) = left_at(tmp_path / "found.zarr")
        assert 0 < left.done < 1
        again = process(
            'fl.resume("found.zarr", memory="400MiB")\nresult = told() | {"digest": digest("found.zarr")}'
        )
        assert again["digest"] == whole["digest"]
        assert again["flops"] < whole["flops"]
        (tmp_path / "found.zarr").rename(tmp_path / f"found{kill}.zarr")
