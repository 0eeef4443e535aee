"""Killed trainings of label trees, forests and topics go on behind what was noted, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.labels.naive import problem
from tests.support.killed_calls import check_goes_on, left_at, states_in
from tests.topics import isle

_FOREST = """
import flagstone._labels.train_forest as train
train._SMALL, train._GROWN = {small}, 6
given = {{"method": "pfastrexml", "trees": 18, "seed": 2, "out": "trees.zarr"}}
fl.train_labels(fl.open("x.zarr"), fl.open("y.zarr"), **given)
result = told() | {{"digest": digest("trees.zarr"), "passes": fl.stats().passes}}
"""
_CALL = """
import flagstone._labels.train as train
train._SMALL = {small}
fl.train_labels(fl.open("x.zarr"), fl.open("y.zarr"), max_leaf=4, seed=2, out="trees.zarr")
result = told() | {{"digest": digest("trees.zarr"), "passes": fl.stats().passes}}
"""


@pytest.mark.parametrize(
    ("text", "small", "kills"),
    # Behind the trees, and some nodes; inside the first and the last trees, some nodes each; behind levels of
    # wide nodes, inside subtrees, and behind some of them.
    [
        (_CALL, 1 << 22, (1, 9)),
        (_CALL, 2000, (1, 9)),
        (_FOREST, 1 << 22, (1, 4, 14)),
        (_FOREST, 2500, (1, 2, 4, 9)),
    ],
)
def test_killed_between_nodes(process, tmp_path, text, small, kills):
    x, y = problem(500, 60, 30)
    fl.from_blocks([x], tmp_path / "x.zarr")
    fl.from_blocks([y], tmp_path / "y.zarr")
    call = text.format(small=small)
    whole = process(call)
    (tmp_path / "trees.zarr").rename(tmp_path / "whole.zarr")
    for kill in kills:
        process(call, kill=kill)
        (left,) = left_at(tmp_path / "trees.zarr")
        assert 0 < left.done < 1
        again = process(call)
        assert again["digest"] == whole["digest"]
        # Of tasks in memory flops are counted, of wide nodes reads.
        done, all_of_it = ((round(one["flops"]), one["passes"]) for one in (again, whole))
        assert done < all_of_it
        (tmp_path / "trees.zarr").rename(tmp_path / f"trees{kill}.zarr")


_LABELS = """
fl.open_labels("trees.zarr").predict(fl.open("x.zarr"), 4, beam=3, discount=0.5, batch=64, out="found.zarr")
result = told() | {"digest": digest("found.zarr")}
"""


@pytest.mark.parametrize("method", ["parabel", "pfastrexml"])
def test_predictions_killed_between_batches(process, tmp_path, method):
    """What goes on has room for larger batches, and takes those that were noted."""
    x, y = problem(500, 60, 30)
    fl.from_blocks([x], tmp_path / "x.zarr")
    fl.train_labels(fl.open(tmp_path / "x.zarr"), y, method=method, trees=2, out=tmp_path / "trees.zarr")
    check_goes_on(process, tmp_path / "found.zarr", _LABELS, (1,))


_TOPICS = """
fl.topics(fl.open("x.zarr"), 4, passes=3, out="found.zarr")
result = told() | {"digest": digest("found.zarr")}
"""


_PLACED = """
fl.topics(fl.open("x.zarr"), 4, passes=1, solver="krylov-schur", out="found.zarr",
          where={"thresholded": "disk", "basis": "memory", "projection": "memory", "centers": "disk",
                 "buckets": "disk"})
result = told() | {"digest": digest("found.zarr")}
"""


@pytest.mark.parametrize(("call", "kills"), [(_TOPICS, (6,)), (_PLACED, (4, 8))], ids=["usual", "placed"])
def test_topics_killed_between_steps(process, tmp_path, call, kills):
    """Behind the first steps; in the middle of the directions."""
    fl.from_blocks([isle.planted(600)[0]], str(tmp_path / "x.zarr"))
    check_goes_on(process, tmp_path / "found.zarr", call, kills)


_SPAN = """
fl.topics(fl.open("x.zarr"), 6, passes=0, out="found.zarr")
result = told() | {"digest": digest("found.zarr")}
"""


def test_topics_killed_among_iterations_that_come_twice(process, tmp_path):
    """What was saved of step 3 is no state of step 4, where no other save came between them."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.5, 2, size=(3000, 300))).astype("f4")
    fl.from_blocks([sp.csr_matrix(counts)], str(tmp_path / "x.zarr"))
    whole = process(_SPAN)
    (tmp_path / "found.zarr").rename(tmp_path / "whole.zarr")
    process(_SPAN, kill=9)
    (left,) = left_at(tmp_path / "found.zarr")
    assert "lloyd" in states_in(left)  # inside step 3
    assert "projected" not in states_in(left)
    again = process(
        'with fl.Runtime(checkpoint=1000):\n    fl.resume("found.zarr", memory="400MiB")\n'
        'result = told() | {"digest": digest("found.zarr")}'
    )
    assert again["digest"] == whole["digest"]
