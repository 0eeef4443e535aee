"""Killed solves with factors, and least squares, go on, with another limit and workers: the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.support.killed_calls import left_at

_CALL = """
with fl.Runtime(memory=memory, workers=workers):
    {call}
    result = told() | {{"digest": digest("out.zarr"), "saves": len(saves)}}
"""
_OPEN = {name: f'fl.open("{name}.npy")' for name in ("t", "u", "b", "f")}
_CALLS = {
    "cho_solve": "fl.linalg.cho_solve(({t}, True), {b}, out='out.zarr')",
    "cho_solve of an upper factor": "fl.linalg.cho_solve(({u}, False), {b}, out='out.zarr')",
    "solve_triangular": "fl.linalg.solve_triangular({t}, {b}, trans=1, lower=True, out='out.zarr')",
    "solve": "fl.linalg.solve(fl.triangular({u}, 'upper'), {b}, out='out.zarr')",
}
_N = 840  # seven tiles


def _killed(process, tmp_path, call: str, operation: str, memory: str, again: str = "") -> None:
    """Kill the call half-way; it, or `again`, goes on, with the bits of one that was not killed."""
    code = _CALL.format(call=call)
    whole = process(code, memory=memory, workers=1)
    assert whole["saves"] > 1
    (tmp_path / "out.zarr").rename(tmp_path / "whole.zarr")
    process(code, kill=max(1, whole["saves"] // 2), memory=memory, workers=1)
    assert not (tmp_path / "out.zarr").exists()
    (left,) = left_at(tmp_path / "out.zarr")
    assert left.operation == operation
    assert 0 < left.done < 1
    more = process(_CALL.format(call=again or 'fl.resume("out.zarr")'), memory="400MiB", workers=2)
    assert "resumed" in more["what"]
    assert more["digest"] == whole["digest"]
    assert more["flops"] < whole["flops"]
    assert left_at(tmp_path / "out.zarr") == []


@pytest.mark.parametrize("what", _CALLS)
def test_substitution_goes_on(process, tmp_path, rng, what):
    t = np.tril(rng.standard_normal((_N, _N))) / 30 + 2 * np.eye(_N)
    b = rng.standard_normal((_N, 300))
    for name, value in (("t", t), ("u", t.T), ("b", b)):
        np.save(tmp_path / f"{name}.npy", value)
    _killed(process, tmp_path, _CALLS[what].format(**_OPEN), what.split()[0], "200MiB")
    x = np.asarray(fl.open(tmp_path / "out.zarr"))
    a = t @ t.T if "cho" in what else t.T
    assert np.allclose(a @ x, b, atol=1e-10)
    # What lies beside a record meanwhile changes no bits.
    found = {
        "cho_solve": lambda: fl.linalg.cho_solve((t, True), b),
        "solve_triangular": lambda: fl.linalg.solve_triangular(t, b, trans=1, lower=True),
    }.get(what)
    assert found is None or np.array_equal(np.asarray(found()), x)


@pytest.mark.parametrize("trans", [0, 1])
def test_a_solve_with_an_lu_goes_on(process, tmp_path, rng, trans):
    a = rng.standard_normal((_N, _N))
    b = rng.standard_normal((_N, 6000))  # twelve tiles of columns, which the limit takes in groups
    factor = fl.linalg.lu_factor(a)
    np.save(tmp_path / "f.npy", np.asarray(factor.lu))
    np.save(tmp_path / "p.npy", factor.piv)
    np.save(tmp_path / "b.npy", b)
    call = f"fl.linalg.lu_solve(({{f}}, np.load('p.npy')), {{b}}, trans={trans}, out='out.zarr')"
    call = "import numpy as np; " + call.format(**_OPEN)
    _killed(process, tmp_path, call, "lu_solve", "128MiB")
    x = np.asarray(fl.open(tmp_path / "out.zarr"))
    assert np.allclose((a.T if trans else a) @ x, b, atol=1e-8)


def test_least_squares_go_on(process, tmp_path, rng):
    _least_squares(process, tmp_path, rng, weights="None", again="")


@pytest.mark.slow
def test_weighted_least_squares_go_on_by_the_same_call(process, tmp_path, rng):
    """A record holds no more than 256 KiB of what lies in memory."""
    _least_squares(process, tmp_path, rng, weights="np.linspace(1, 2, 100_000)", again="the same call")


def _least_squares(process, tmp_path, rng, weights: str, again: str) -> None:
    a = rng.standard_normal((100_000, 100))  # fewer rows are too few groups for two checkpoints
    b = a @ rng.standard_normal((100, 2)) + rng.standard_normal((100_000, 2))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    options = f"ridge=[0, 3.0], weights={weights}, intercept=True"
    call = "import numpy as np; fl.linalg.lstsq({a}, {b}, " + options + ", out='out.zarr')"
    call = call.format(a='fl.open("a.npy")', **_OPEN)
    _killed(process, tmp_path, call, "lstsq", "400MiB", call if again else "")
    given = None if weights == "None" else np.linspace(1, 2, 100_000)
    found = fl.linalg.lstsq(a, b, ridge=[0, 3.0], weights=given, intercept=True)
    assert np.array_equal(np.asarray(fl.open(tmp_path / "out.zarr")), found.x)
