"""Eigenpairs and triplets of calls that were killed: the basis on disk is the checkpoint."""

from __future__ import annotations

import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.killed_calls import left_at

_CALL = """
options = {"k": 12, "block": 4, "ncv": 36, "tol": 1e-8, "out": "pairs.zarr", "seed": 3}
getattr(fl.linalg, name)(fl.open("a.zarr"), **options)
result = told() | {"digest": digest("pairs.zarr")}
"""


@pytest.mark.parametrize(("name", "kills"), [("eigsh", (2, 12)), ("svds", (6,))])
def test_killed_between_applications(process, tmp_path, name, kills):
    """Before and behind restarts, each of which writes another basis; while it looks for copies."""
    a = sp.random(1500, 1500, 0.004, "csr", random_state=1)
    a = (a + a.T).tocsr() if name == "eigsh" else a[:, :500]
    fl.from_blocks([a], tmp_path / "a.zarr")
    whole = process(_CALL, name=name)
    (tmp_path / "pairs.zarr").rename(tmp_path / "whole.zarr")
    for kill in kills:
        process(_CALL, kill=kill, name=name)
        (left,) = left_at(tmp_path / "pairs.zarr")
        assert 0 < left.done < 1
        again = process(
            'fl.resume("pairs.zarr", memory="400MiB")\nresult = told() | {"digest": digest("pairs.zarr")}'
        )
        assert again["digest"] == whole["digest"]
        assert again["flops"] < whole["flops"]
        (tmp_path / "pairs.zarr").rename(tmp_path / f"pairs{kill}.zarr")
