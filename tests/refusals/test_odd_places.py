"""Places that nothing can be written to, or should be: one sentence, and nothing is made."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest

import flagstone as fl

X = np.eye(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.open(""), lambda: fl.create("", (3,), "f4"), lambda: fl.from_numpy(X, ""),
        lambda: fl.matmul(X, X, out=""), lambda: fl.pca(X, 1, out=""), lambda: fl.rechunk(X, out=""),
        lambda: fl.Runtime(scratch=""),
    ],
    ids=["open", "create", "from_numpy", "out", "parts", "rechunk", "scratch"],
)  # fmt: skip
def test_no_place(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="the path is empty"):
        call()
    assert os.listdir() == []


def test_names_of_builds(tmp_path):
    """The next writer of c.zarr would sweep it."""
    with pytest.raises(fl.StorageError, match="name another place"):
        fl.matmul(X, X, out=str(tmp_path / ".c.zarr.flagstone-tmp-12"))
    with pytest.raises(fl.StorageError, match="name another place"):
        fl.from_numpy(X, str(tmp_path / ".c.npy.flagstone-tmp-12"))
    assert os.listdir(tmp_path) == []


def test_scratch_whose_name_is_too_long(tmp_path):
    with fl.Runtime(scratch=tmp_path / ("x" * 300)), pytest.raises(fl.StorageError, match="cannot create"):
        fl.matmul(X, X)


PLANS = {
    "qr": lambda a: fl.linalg.qr.plan(a, mode="r"),
    "matmul": lambda a: fl.matmul.plan(a + 1, a.T),
    "rank_k_update": lambda a: fl.linalg.rank_k_update.plan(a),
    "lstsq": lambda a: fl.linalg.lstsq.plan(a, a, method="normal"),
    "compute": lambda a: fl.compute.plan(a + 1),
    "reductions": lambda a: fl.compute.plan((a + 1).sum(), a.mean(0)),
    "scans": lambda a: fl.cumulative_sum.plan(a, axis=0),
    "stencil": lambda a: fl.stencil.plan({(0, 0): 0.5, (0, 1): 0.5}, a, 3),
    "rechunk": lambda a: fl.rechunk.plan(a, (3, 3)),
    "transpose": lambda a: fl.transpose.plan(a),
    "sort": lambda a: fl.sort.plan(a),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_without_scratch(tmp_path, name):
    """Where it cannot be made rates are the default ones; the call says that it cannot, before it reads."""
    a = fl.from_numpy(np.ones((50, 4)), tmp_path / "a.zarr")
    (tmp_path / "file").write_text("")
    with fl.Runtime(scratch=tmp_path / "file" / "below"):
        plan = PLANS[name](a)
    assert plan.rates.startswith("default rates")
    assert plan.seconds > 0
    assert stat.S_ISREG((tmp_path / "file").stat().st_mode)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, out: fl.compute(a + 1, out=out), lambda a, out: fl.rechunk(a, (3, 3), out=out),
        lambda a, out: fl.stencil({(0, 0): 0.5, (0, 1): 0.5}, a, 3, out=out),
        lambda a, out: fl.cumulative_sum(a, axis=0, out=out),
    ],
    ids=["compute", "rechunk", "stencil", "scans"],
)  # fmt: skip
def test_runs_that_may_need_scratch(tmp_path, call):
    a = fl.from_numpy(np.ones((50, 4)), tmp_path / "a.zarr")
    (tmp_path / "file").write_text("")
    with (
        fl.Runtime(scratch=tmp_path / "file" / "below"),
        pytest.raises(fl.StorageError, match="FLAGSTONE_SCR"),
    ):
        call(a, tmp_path / "b.zarr")
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "file"]
