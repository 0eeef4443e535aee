"""Calls on a device that were killed go on there, and nowhere else: the record tells the kind of device."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at
from tests.support.processes import random_csr

_CALL = """
with fl.Runtime(devices=devices):
    {call}
    result = told() | {{"digest": digest("c.zarr"), "tasks": sum(s.tasks for s in fl.stats().spaces[1:])}}
"""
_CALLS = {
    "product": 'fl.matmul(fl.open("a.zarr"), fl.open("a.zarr").T, alpha=2, out="c.zarr", memory="250MiB")',
    "cholesky": 'fl.linalg.cholesky(fl.open("k.zarr"), out="c.zarr")',
    "csrmm": 'fl.matmul(fl.open("s.zarr"), fl.open("x.zarr"), out="c.zarr", memory="260MiB")',
}


@pytest.mark.parametrize("routine", _CALLS)
def test_a_killed_call_goes_on_with_its_device_alone(process, tmp_path, rng, routine):
    if routine == "product":
        fl.from_numpy(rng.standard_normal((3000, 200)), tmp_path / "a.zarr")
    elif routine == "cholesky":
        i = np.arange(1100)
        fl.from_numpy(0.99 ** abs(i[:, None] - i[None, :]) + np.eye(1100), tmp_path / "k.zarr")
    else:
        fl.from_blocks([random_csr(3000, 1500, 0.25, 3)], tmp_path / "s.zarr")
        fl.from_numpy(rng.standard_normal((1500, 1200)), tmp_path / "x.zarr")
    code = _CALL.format(call=_CALLS[routine])
    whole = process(code, devices=["emulated:32MiB"])
    assert whole["tasks"] > 0
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(code, kill=1, devices=["emulated:32MiB"])
    (left,) = left_at(tmp_path / "c.zarr")
    assert 0 < left.done < 1
    with (
        fl.Runtime(devices=[]),
        pytest.raises(
            fl.Error, match=r"begun with devices \(emulated\), and this runtime is without devices"
        ),
    ):
        fl.resume(tmp_path / "c.zarr")
    again = process(code, devices=["emulated:48MiB", "emulated:32MiB"])  # of one kind: the same bits
    assert again["digest"] == whole["digest"]
    assert "resumed at" in again["what"]
