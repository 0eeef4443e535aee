"""Topics that were killed between steps go on, with the same bits."""

from __future__ import annotations

import flagstone as fl
from tests.support.killed_calls import left_at
from tests.topics import isle

_CALL = """
fl.topics(fl.open("x.zarr"), 4, passes=3, out="found.zarr")
result = told() | {"digest": digest("found.zarr")}
"""


def test_killed_between_steps(process, tmp_path):
    fl.from_blocks([isle.planted(600)[0]], str(tmp_path / "x.zarr"))
    whole = process(_CALL)
    (tmp_path / "found.zarr").rename(tmp_path / "whole.zarr")
    for kill in (6,):  # behind the first steps
        process(_CALL, kill=kill)
        (left,) = left_at(tmp_path / "found.zarr")
        assert 0 < left.done < 1
        again = process(
            'fl.resume("found.zarr", memory="400MiB")\nresult = told() | {"digest": digest("found.zarr")}'
        )
        assert again["digest"] == whole["digest"]
        (tmp_path / "found.zarr").rename(tmp_path / f"found{kill}.zarr")
