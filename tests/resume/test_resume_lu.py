"""Killed LU factorizations and solves go on, with another limit and other workers: the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at

_CALL = """
with fl.Runtime(memory=memory, workers=workers):
    made = {call}
    result = told() | {{"digest": digest("out.zarr"), "saves": len(saves)}}
    result |= {{"piv": [int(i) for i in made.piv]}} if hasattr(made, "piv") else {{}}
"""
_CALLS = {
    "lu_factor": 'fl.linalg.lu_factor(fl.open("a.npy"), out="out.zarr")',
    "lu": 'fl.linalg.lu(fl.open("a.npy"), out="out.zarr")',
    "solve": 'fl.linalg.solve(fl.open("a.npy"), fl.open("b.npy"), out="out.zarr")',
    "definite": 'fl.linalg.solve(fl.open("k.npy"), fl.open("b.npy"), assume_a="pos", out="out.zarr")',
    "inv": 'fl.linalg.inv(fl.open("a.npy"), out="out.zarr")',
}
_N = 840  # seven tiles


def _operands(folder, rng) -> tuple[np.ndarray, np.ndarray]:
    a = rng.standard_normal((_N, _N))
    a[:200, :200] = 0  # pivots come from beyond the first tiles
    b = rng.standard_normal((_N, 300))
    np.save(folder / "a.npy", a)
    np.save(folder / "k.npy", a @ a.T + np.eye(_N))
    np.save(folder / "b.npy", b)
    return a, b


# The last checkpoints are those of rows that get their final order.
@pytest.mark.parametrize(
    ("what", "kill"), [("lu_factor", 3), ("lu_factor", -2), ("lu", -2), ("solve", 4), ("definite", 2)]
)
def test_goes_on(process, tmp_path, rng, what, kill):
    a, b = _operands(tmp_path, rng)
    code = _CALL.format(call=_CALLS[what])
    whole = process(code, memory="200MiB", workers=1)
    assert whole["saves"] > 3
    (tmp_path / "out.zarr").rename(tmp_path / "whole.zarr")
    process(code, kill=kill % whole["saves"], memory="200MiB", workers=1)
    assert not (tmp_path / "out.zarr").exists()
    (left,) = left_at(tmp_path / "out.zarr")
    assert 0 < left.done < 1
    assert left.operation == ("solve" if what == "definite" else what)
    again = process(_CALL.format(call='fl.resume("out.zarr")'), memory="400MiB", workers=2)
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert again.get("piv") == whole.get("piv")
    assert again["flops"] < whole["flops"]
    # What lies beside a record meanwhile changes no bits.
    if what == "lu":
        p, lower, upper = fl.linalg.open_factor(tmp_path / "whole.zarr")
        found = fl.linalg.lu(a)
        assert np.array_equal(np.asarray(lower), np.asarray(found.L))
        assert np.array_equal(np.asarray(upper), np.asarray(found.U))
        assert np.array_equal(p, found.p)
    elif what == "lu_factor":
        factor, found = fl.linalg.open_factor(tmp_path / "out.zarr"), fl.linalg.lu_factor(a)
        assert np.array_equal(np.asarray(factor.lu), np.asarray(found.lu))
        assert np.array_equal(factor.piv, found.piv)
    elif what == "solve":
        found = fl.linalg.solve(a, b)
        assert np.array_equal(np.asarray(fl.open(tmp_path / "whole.zarr")), np.asarray(found))


def test_an_inverse_goes_on_by_the_same_call(process, tmp_path, rng):
    _operands(tmp_path, rng)
    code = _CALL.format(call=_CALLS["inv"])
    process(code, kill=3, memory="200MiB", workers=1)
    (left,) = left_at(tmp_path / "out.zarr")
    assert left.operation == "inv"
    again = process(code, memory="300MiB", workers=2)
    assert "resumed" in again["what"]
    a = np.load(tmp_path / "a.npy")
    assert np.array_equal(np.asarray(fl.open(tmp_path / "out.zarr")), np.asarray(fl.linalg.inv(a)))


def test_a_damaged_part_begins_again(process, tmp_path, rng):
    _operands(tmp_path, rng)
    code = _CALL.format(call=_CALLS["lu"])
    process(code, kill=4, memory="200MiB", workers=1)
    (built,) = [path for path in tmp_path.glob(".out.zarr.flagstone-tmp-*") if (path / "l").is_dir()]
    (built / "l" / "zarr.json").write_text("{")
    warned = "import pytest\nwith pytest.warns(fl.LeftoverWarning):\n    made = " + _CALLS["lu"]
    again = process(warned + "\nresult = told()")
    assert "resumed" not in again["what"]
    a = np.load(tmp_path / "a.npy")
    p, lower, upper = fl.linalg.open_factor(tmp_path / "out.zarr")
    assert np.allclose(np.asarray(lower)[p] @ np.asarray(upper), a, atol=1e-9)
