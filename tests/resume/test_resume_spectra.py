"""Eigenpairs, triplets and projections of calls that were killed go on, by the basis that lies on disk."""

from __future__ import annotations

import pytest
import scipy.sparse as sp

import flagstone as fl
from tests.support.killed_calls import check_goes_on, left_at

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
    check_goes_on(process, tmp_path / "pairs.zarr", _CALL, kills, name=name)


_SPACE = """
from flagstone import nuclear, subspace
space = nuclear.Space(3, 3, 4, nuclear.Interaction.random(1))
"""
_CALLS = {
    "a basis": 'nuclear.basis_of_j(space, 1, dedup=False, dtype="float64", files=2, out="made.zarr")',
    "rows of H": 'space.hamiltonian(2, out="made.zarr")',
    "H kept": 'subspace.project(space, nuclear.basis_of_j(space, 1), keep_h="made.zarr")',
    "a projection": 'subspace.project(space, subspace.open("z.zarr"), out="made.zarr", panel="512KiB")',
}
_AGAIN = 'fl.resume("made.zarr")'  # the call is made again from its record


@pytest.mark.parametrize("name", _CALLS)
def test_killed_and_gone_on(process, tmp_path, name):
    code = f'{_SPACE}{_CALLS[name]}\nresult = told() | {{"digest": digest("made.zarr"), "saves": len(saves)}}'
    if name == "a projection":
        process(f'{_SPACE}nuclear.basis_of_j(space, 1, dedup=False, out="z.zarr")')
    whole = process(code)
    assert whole["saves"] > 1
    (tmp_path / "made.zarr").rename(tmp_path / "whole.zarr")
    process(code, kill=1 + whole["saves"] // 2)
    (left,) = left_at(tmp_path / "made.zarr")
    assert 0 < left.done < 1
    if name in ("a basis", "a projection"):
        again = process(f'{_AGAIN}\nresult = told() | {{"digest": digest("made.zarr"), "saves": len(saves)}}')
        assert "resumed" in again["what"]
    else:
        again = process(code)
    assert again["digest"] == whole["digest"]
    assert again["saves"] < whole["saves"]
