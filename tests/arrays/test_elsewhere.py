"""What a relative path opened is the same for good: where the process goes afterwards does not matter."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl

X = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Goes to a folder where others of the same names lie, which must stay as they are."""
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        given = X if place == "here" else -X
        fl.from_numpy(given, "a.zarr")
        np.save("a.npy", given)
        fl.from_blocks([sp.csr_matrix(given)], "s.zarr")
    names = {path.relative_to(tmp_path) for path in tmp_path.rglob("there/**/*")}
    monkeypatch.chdir(tmp_path / "here")
    yield lambda: monkeypatch.chdir(tmp_path / "there")
    for name in ("a.zarr", "a.npy"):
        np.testing.assert_array_equal(fl.open(str(tmp_path / "there" / name)), -X)
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("there/**/*")} == names


def pickled(a):
    again = pickle.loads(pickle.dumps(a))
    again[0] = 7
    again.flush()


@pytest.mark.parametrize("name", ["a.zarr", "a.npy"])
@pytest.mark.parametrize(
    ("change", "then"),
    [
        (lambda a: a.__setitem__(0, 7), np.vstack([np.full(4, 7.0), X[1:]])),
        (lambda a: fl.compute(a + 1, out=a), X + 1),
        (pickled, np.vstack([np.full(4, 7.0), X[1:]])),
        (lambda a: fl.matmul(a, np.eye(4), out=a), X),
    ],
    ids=["assigned", "computed", "pickled", "product"],
)
def test_changes_go_to_what_was_opened(elsewhere, name, change, then):
    a = fl.open(name, mode="r+")
    place = os.path.abspath(name)
    elsewhere()
    change(a)
    a.flush()
    np.testing.assert_array_equal(a, then)
    np.testing.assert_array_equal(fl.open(place), then)


def test_metadata_go_to_what_was_opened(elsewhere):
    a = fl.open("a.zarr", mode="r+")
    place = os.path.abspath("a.zarr")
    elsewhere()
    a.attrs["unit"] = "m"
    assert fl.open(place).attrs["unit"] == "m"
    a.resize((5, 4))
    assert fl.open(place).shape == (5, 4)


def test_sparse_matrices_are_what_was_opened(elsewhere):
    s = fl.open("s.zarr")
    elsewhere()
    for one in (s, pickle.loads(pickle.dumps(s)), (s + s).tril(2)):
        assert one.to_scipy().max() == np.tril(one.to_scipy().toarray(), 2).max() > 0


def test_scratch_stays_where_it_was(elsewhere):
    with fl.Runtime(scratch="scratch"):
        held = fl.matmul(X.T, X)
        scratch = os.path.abspath("scratch/results")
        elsewhere()
        more = fl.matmul(held, held)
        np.testing.assert_array_equal(more, (X.T @ X) @ (X.T @ X))
        del held, more
    assert not os.path.exists(scratch)


def test_the_environment_too(elsewhere, monkeypatch):
    monkeypatch.setenv("FLAGSTONE_SCRATCH", "scratch")
    with fl.Runtime() as runtime:
        place = os.path.abspath("scratch")
        assert str(runtime.scratch) == place
        elsewhere()
        assert os.path.dirname(fl.matmul(X.T, X).path).startswith(place)
