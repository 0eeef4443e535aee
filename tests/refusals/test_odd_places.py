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


def test_plans_without_scratch(tmp_path):
    """Where it cannot be made rates are the default ones, and what needs no scratch has a plan."""
    (tmp_path / "file").write_text("")
    with fl.Runtime(scratch=tmp_path / "file" / "below"):
        plan = fl.linalg.qr.plan(np.ones((50, 4)), mode="r")
    assert plan.rates.startswith("default rates")
    assert plan.seconds > 0
    assert stat.S_ISREG((tmp_path / "file").stat().st_mode)
