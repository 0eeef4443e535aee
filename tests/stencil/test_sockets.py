"""Blocks on sockets that are pretended: who touches and computes what, and the bits of one socket."""

from __future__ import annotations

import os

import numpy as np
import pytest

import flagstone as fl
from tests.stencil.test_stencil import field, heat

_HERE = sorted(os.sched_getaffinity(0))
_two = pytest.mark.skipif(len(_HERE) < 2, reason="a topology of two sockets needs two processors")


def _run(a: np.ndarray, workers: int, **options):
    with fl.Runtime(workers=workers):
        made = fl.stencil(
            heat(3), a, 6, out=np.full_like(a, 77), reductions=("sum", "change"), receivers=[(13, 4, 2)],
            snapshots={"part": (2, np.s_[::2, 3, 1:])}, **options,
        )  # fmt: skip
        kept = [made.state, made.traces, *made.reductions.values(), made.snapshots["part"][...]]
        return b"".join(np.ascontiguousarray(one).tobytes() for one in kept), fl.stats().stencil


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch):
    """Pretend two sockets of a processor each."""
    monkeypatch.setenv("FLAGSTONE_SOCKETS", ";".join(map(str, _HERE[:2])))


@_two
@pytest.mark.parametrize("method", ["al1", "al2", "sweep"])
def test_blocks_are_touched_and_computed_by_workers_of_their_socket(method: str, pretended):
    a = field((24, 10, 12))
    options = {"method": method, "block": (4, 5, 12)} | ({} if method == "sweep" else {"depth": 3})
    found, scheme = _run(a, 2, **options)
    supersteps = 6 if method == "sweep" else 2
    assert [one["blocks"] for one in scheme.sockets] == [6 * supersteps] * 2  # of six along z and two along y
    assert [one["strayed"] for one in scheme.sockets] == [0, 0]
    assert sum(one["updates"] for one in scheme.sockets) == scheme.updates
    alone, one = _run(a, 1, **options)
    assert one.sockets == ()
    assert found == alone


@_two
def test_ranks_of_a_mesh_place_their_blocks(pretended):
    a = field((24, 10, 12))
    options = {"method": "al1", "depth": 3}
    found, scheme = _run(a, 2, mesh=(2, 1), block=(5, 10, 12), **options)
    assert all(one["blocks"] > 0 and one["strayed"] == 0 for one in scheme.sockets)
    assert sum(one["updates"] for one in scheme.sockets) == scheme.updates
    assert found == _run(a, 1, **options)[0]


@_two
def test_what_has_too_few_blocks_has_no_socket(pretended):
    a = field((16, 10, 12))
    assert _run(a, 2, method="al1", depth=2, block=(16, 10, 12))[1].sockets == ()
    assert _run(a, 2, method="al4")[1].sockets == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{_HERE[0]};{_HERE[-1] + 1}", f"processor {_HERE[-1] + 1} is not there"),
        (f"{_HERE[0]};{_HERE[0]}", "named twice"),
        ("one;two", "is no list of sockets"),
    ],
)
def test_a_topology_that_is_not_there_is_refused(text: str, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLAGSTONE_SOCKETS", text)
    with pytest.raises(fl.Error, match=said) as refused, fl.Runtime():
        fl.stencil(heat(3), np.zeros((4, 4, 4), "float32"), 2)
    assert str(refused.value).count(".") == 1
