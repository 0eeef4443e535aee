"""Killed factorizations go on where they stopped, with another limit and other workers: the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at

_CALL = """
with fl.Runtime(memory=memory, workers=workers):
    fl.linalg.{verb}(fl.open("a.npy"), mode={mode!r}, out="out.zarr")
    result = told() | {{"digest": digest("out.zarr"), "saves": len(saves)}}
"""


@pytest.mark.parametrize(
    ("shape", "verb", "mode"),
    [
        ((100_000, 128), "qr", "r"),  # groups of a tall matrix
        ((2100, 2100), "qr", "r"),  # slabs
        ((1300, 2100), "lq", "reduced"),
    ],
    ids=str,
)
def test_goes_on(process, tmp_path, rng, shape, verb, mode):
    np.save(tmp_path / "a.npy", rng.standard_normal(shape))
    code = _CALL.format(verb=verb, mode=mode)
    whole = process(code, memory="400MiB", workers=1)
    assert whole["saves"] > 1
    (tmp_path / "out.zarr").rename(tmp_path / "whole.zarr")
    process(code, kill=max(1, whole["saves"] // 2), memory="400MiB", workers=1)
    (left,) = left_at(tmp_path / "out.zarr")
    assert 0 < left.done < 1
    assert left.operation == verb
    resume = 'fl.resume("out.zarr", memory="240MiB")'
    again = process(resume + '\nresult = told() | {"digest": digest("out.zarr")}')
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert again["flops"] < whole["flops"]


def test_reflectors_go_on(process, tmp_path, rng):
    np.save(tmp_path / "a.npy", rng.standard_normal((1300, 1100)))
    code = _CALL.format(verb="qr", mode="raw")
    whole = process(code, memory="400MiB", workers=1)
    (tmp_path / "out.zarr").rename(tmp_path / "whole.zarr")
    process(code, kill=whole["saves"] - 1, memory="400MiB", workers=1)
    resume = 'with fl.Runtime(memory="300MiB", workers=2):\n    fl.resume("out.zarr")\n'
    again = process(resume + 'result = told() | {"digest": digest("out.zarr")}')
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert again["flops"] < whole["flops"]
    f = fl.linalg.open_factor(tmp_path / "out.zarr")
    assert f.shape == (1300, 1100)
    assert left_at(tmp_path / "out.zarr") == []
