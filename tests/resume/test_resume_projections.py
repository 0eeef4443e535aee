"""Killed bases of J, stored Hamiltonians and projections go on where they stopped, with the same bits."""

from __future__ import annotations

import pytest

from tests.support.killed_calls import left_at

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
