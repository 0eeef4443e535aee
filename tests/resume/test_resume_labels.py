"""Training of label trees that was killed goes on behind the last chunk noted, with the same bits."""

from __future__ import annotations

import pytest

import flagstone as fl
from tests.labels.naive import problem
from tests.support.killed_calls import left_at

_CALL = """
import flagstone._labels.train as train
train._SMALL = {small}
fl.train_labels(fl.open("x.zarr"), fl.open("y.zarr"), max_leaf=4, seed=2, out="trees.zarr")
result = told() | {{"digest": digest("trees.zarr")}}
"""


@pytest.mark.parametrize("small", [1 << 22, 2000])
def test_killed_between_nodes(process, tmp_path, small):
    x, y = problem(500, 60, 30)
    fl.from_blocks([x], tmp_path / "x.zarr")
    fl.from_blocks([y], tmp_path / "y.zarr")
    call = _CALL.format(small=small)
    whole = process(call)
    (tmp_path / "trees.zarr").rename(tmp_path / "whole.zarr")
    for kill in (1, 9):  # behind the trees; behind some nodes
        process(call, kill=kill)
        (left,) = left_at(tmp_path / "trees.zarr")
        assert 0 < left.done < 1
        again = process(call)
        assert again["digest"] == whole["digest"]
        assert again["flops"] < whole["flops"]
        (tmp_path / "trees.zarr").rename(tmp_path / f"trees{kill}.zarr")
