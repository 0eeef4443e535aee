"""`out` that is an operand, or lies over a part of one: the result is as it is elsewhere.

Every routine of linalg with `out`, of operands in memory (ndarrays, views of one buffer, Arrays on it) and on
disk; the other operands stay as they were.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import flagstone as fl
from flagstone import linalg
from tests.factor.matrices import definite
from tests.support.processes import random_matrix

N = 6
MANY = 600  # of several tiles


def _operands(rng, n, dtype="float64"):
    """Matrices of one shape, which each routine's result has too; l, u: triangles of the definite p."""
    p, b = definite(rng, n, dtype), random_matrix(rng, (n, n), dtype)
    lower = np.linalg.cholesky(p)
    return {"p": p, "b": b, "l": lower, "u": lower.conj().T.copy()}


def _solve(**options):
    return lambda p, b, out: linalg.solve(p, b, out=out, **options)


#: Routines: names of their operands in `_operands`, and the call.
ROUTINES = {
    "cholesky": ("p", lambda p, out: linalg.cholesky(p, out=out)),
    "cholesky upper check": ("p", lambda p, out: linalg.cholesky(p, upper=True, check=True, out=out)),
    "inv": ("p", lambda p, out: linalg.inv(p, out=out)),
    "inv pos": ("p", lambda p, out: linalg.inv(p, assume_a="pos", out=out)),
    "inv lower": ("l", lambda a, out: linalg.inv(a, assume_a="lower triangular", out=out)),
    "inv upper": ("u", lambda a, out: linalg.inv(a, assume_a="upper triangular", out=out)),
    "inv of a handle": ("l", lambda a, out: linalg.inv(fl.triangular(a), out=out)),
    "solve": ("pb", _solve()),
    "solve pos": ("pb", _solve(assume_a="pos")),
    "solve pos check": ("pb", _solve(assume_a="pos", check=True)),
    "solve lower": ("lb", _solve(assume_a="lower triangular")),
    "solve upper": ("ub", _solve(assume_a="upper triangular")),
    "solve mixed": ("pb", _solve(precision="mixed")),
    "solve rcond": ("pb", _solve(rcond=True)),
    "solve pos rcond": ("pb", _solve(rcond=True, assume_a="pos")),
    "solve lower rcond": ("lb", _solve(rcond=True, assume_a="lower triangular")),
    "solve of a handle": ("lb", lambda a, b, out: linalg.solve(fl.triangular(a), b, out=out)),
    "solve_triangular": ("lb", lambda a, b, out: linalg.solve_triangular(a, b, lower=True, out=out)),
    "solve_triangular trans": ("ub", lambda a, b, out: linalg.solve_triangular(a, b, trans=1, out=out)),
    "cho_solve": ("lb", lambda a, b, out: linalg.cho_solve(a, b, out=out)),
    "cho_solve upper": ("ub", lambda a, b, out: linalg.cho_solve((a, False), b, out=out)),
    "lu_factor": ("p", lambda p, out: tuple(linalg.lu_factor(p, out=out))),
    "lu_solve": ("pb", lambda p, b, out: linalg.lu_solve((p, np.arange(len(p))), b, out=out)),
    "lu_solve trans": ("pb", lambda p, b, out: linalg.lu_solve((p, np.arange(len(p))), b, 1, out=out)),
    "qr": ("b", lambda b, out: linalg.qr(b, mode="r", out=out)),
    "lq": ("b", lambda b, out: linalg.lq(b, mode="r", out=out)),
    "apply_q": ("b", lambda b, out: linalg.apply_q(linalg.qr(np.eye(len(b))[::-1], mode="raw"), b, out=out)),
    "matmul": ("pb", lambda p, b, out: linalg.matmul(p, b, out=out)),
    "matmul beta": ("pb", lambda p, b, out: linalg.matmul(p, b, beta=2, out=out)),
    "rank_k_update": ("b", lambda b, out: linalg.rank_k_update(b, out=out)),
    "rank_k_update c": ("bp", lambda b, p, out: linalg.rank_k_update(b, c=p, beta=2, out=out)),
    "rank_2k_update": ("bl", lambda a, b, out: linalg.rank_2k_update(a, b, out=out)),
    "rank_2k_update c": ("blp", lambda a, b, c, out: linalg.rank_2k_update(a, b, c=c, beta=2, out=out)),
    "cov": ("b", lambda b, out: fl.cov(b, out=out)),
    "corrcoef": ("b", lambda b, out: fl.corrcoef(b, out=out)),
    "lstsq": ("pb", lambda p, b, out: linalg.lstsq(p, b, out=out)[0]),
}  # fmt: skip

#: What has `out` and no result that could be an operand.
ELSEWHERE = {
    "lu": "a group of three arrays", "matrix_norm": "a number", "vector_norm": "a number",
    "eigsh": "a path, of vectors", "svds": "a path, of vectors", "lobpcg": "a path, of vectors",
}  # fmt: skip


def _numbers(result):
    """All of a result, copied."""
    parts = result if isinstance(result, tuple) else (result,)
    return [np.array(part) for part in parts]


def _same(found, expected, bits=True):
    """`bits`: whether all of them; a solution by columns is added up otherwise than one by rows."""
    pairs = list(zip(found, expected, strict=True))
    if bits:
        return all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)
    return all(np.allclose(x, y, rtol=1e-9, atol=1e-9, equal_nan=True) for x, y in pairs)


def _placed(values, n, how):
    """One operand, and `out` that lies over it: all of it, shifted by a row in one buffer, or turned."""
    if how == "itself":
        return values, values
    if how == "shifted":
        buffer = np.full((n + 1, n), np.nan, values.dtype)
        buffer[1:] = values
        return buffer[1:], buffer[:-1]
    if how == "turned":
        return values, values.T
    array = fl.from_numpy(values)
    return array, array


@pytest.mark.parametrize("how", ["itself", "shifted", "turned", "array"])
@pytest.mark.parametrize("name", ROUTINES)
def test_out_over_an_operand_in_memory(rng, name, how):
    letters, call = ROUTINES[name]
    _look(_operands(rng, N), letters, call, N, how)


@pytest.mark.parametrize("name", ["inv", "inv pos", "solve lower rcond", "solve_triangular", "cho_solve"])
def test_out_over_an_operand_of_several_tiles(rng, name):
    letters, call = ROUTINES[name]
    _look(_operands(rng, MANY), letters, call, MANY, "itself")


def _look(operands, letters, call, n, how):
    for letter in letters:
        given = {one: operands[one].copy() for one in letters}
        given[letter], out = _placed(given[letter], n, how)
        before = {one: np.array(values) for one, values in given.items()}
        beside = np.array(out, order="C")  # what `out` holds counts where beta is not 0
        expected = _numbers(call(*(before[one].copy() for one in letters), beside))
        found = _numbers(call(*(given[one] for one in letters), out))
        assert _same(found, expected, how != "turned"), f"out over {letter}"
        rest = [one for one in letters if one != letter]
        assert _same([np.array(given[one]) for one in rest], [before[one] for one in rest])


@pytest.mark.parametrize("kind", ["zarr", "npy"])
@pytest.mark.parametrize("name", [name for name in ROUTINES if name not in ("apply_q",)])
def test_out_is_an_array_on_disk_that_is_read(tmp_path, rng, name, kind):
    letters, call = ROUTINES[name]
    operands = _operands(rng, N)
    for letter in letters:
        arrays = {
            one: fl.from_numpy(operands[one], str(tmp_path / f"{letter}-{one}.{kind}")) for one in letters
        }
        for one in letters:
            arrays[one] = fl.open(str(tmp_path / f"{letter}-{one}.{kind}"), mode="r+")
        aside = fl.from_numpy(operands[letter], str(tmp_path / f"{letter}.{kind}"))
        aside = fl.open(str(tmp_path / f"{letter}.{kind}"), mode="r+")
        expected = _numbers(call(*(arrays[one] for one in letters), aside))
        found = _numbers(call(*(arrays[one] for one in letters), arrays[letter]))
        assert _same(found, expected), f"out is {letter}"
        for one in letters:
            assert one == letter or np.array_equal(np.asarray(arrays[one]), operands[one])


def test_every_out_is_taken_or_excused():
    """A new routine of linalg with `out` has its line here."""
    text = inspect.getsource(inspect.getmodule(test_every_out_is_taken_or_excused))
    routines = {name: getattr(linalg, name) for name in linalg.__all__}
    has = [
        name for name, one in routines.items()
        if callable(one) and not isinstance(one, type) and "out" in inspect.signature(one).parameters
    ]  # fmt: skip
    assert not [name for name in has if f"linalg.{name}(" not in text and name not in ELSEWHERE]
