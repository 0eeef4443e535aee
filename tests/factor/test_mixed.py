"""Solves that factor in single precision: as accurate as in double, and what happens where that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from flagstone import linalg
from tests.factor.matrices import definite, eps, solve_error
from tests.support.processes import stored

DOUBLE = ["float64", "complex128"]


def converged(a, x, b) -> bool:
    """LAPACK's rule for every column, give or take sums: max |b - a x| <= max |x| ‖a‖_inf u sqrt(n)."""
    n = len(a)
    left = np.abs(b - a @ x).reshape(n, -1).max(axis=0)
    norm = np.abs(a).sum(axis=1).max()
    return bool((left <= 3 * np.abs(x).reshape(n, -1).max(axis=0) * norm * eps("f8") * np.sqrt(n)).all())


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
@pytest.mark.parametrize("dtype", DOUBLE)
@pytest.mark.parametrize("kind", ["memory", "npy"])
def test_it_is_as_accurate_as_double(tmp_path, rng, assume_a, dtype, kind):
    a, b = definite(rng, 530, dtype), rng.standard_normal((530, 3)).astype(dtype)
    given = stored(a, kind, tmp_path / "a")
    x = linalg.solve(given, b, assume_a=assume_a, precision="mixed")
    assert isinstance(x, np.ndarray)
    assert x.dtype == np.dtype(dtype)
    assert converged(a, x, b)
    assert solve_error(a, x, b) <= 25 * eps(dtype)
    done = fl.stats()
    assert done.method.startswith("refined from")
    assert 1 <= int(done.note.split()[0]) <= 6
    vector = linalg.solve(given, b[:, 0].copy(), assume_a=assume_a, precision="mixed")
    assert vector.shape == (530,)
    assert converged(a, vector, b[:, 0])


def test_results_go_where_they_were_asked_for(tmp_path, rng):
    a, b = definite(rng, 300, "float64"), rng.standard_normal((300, 2))
    x = linalg.solve(a, b, precision="mixed")
    out = np.empty_like(b)
    assert linalg.solve(a, b, precision="mixed", out=out) is out
    assert np.array_equal(out, x)
    path = linalg.solve(a, fl.from_numpy(b), precision="mixed", out=tmp_path / "x.npy")
    assert np.array_equal(np.load(path.path), x)
    assert isinstance(linalg.solve(a, fl.from_numpy(b), precision="mixed"), fl.Array)
    assert linalg.solve(np.eye(3), np.zeros((3, 2)), precision="mixed").tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda rng: definite(rng, 300, "float64", condition=1e11),
            "refinements were not enough|not positive",
        ),
        (lambda rng: definite(rng, 300, "float64") * 1e60, "NaN or Inf"),  # beyond the range of float32
        (lambda rng: definite(rng, 300, "float64") * 1e-60, "singular|not positive|not finite"),
    ],
)
@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_it_falls_back_and_says_so(rng, make, why, assume_a):
    a, b = make(rng), rng.standard_normal((300, 2))
    x = linalg.solve(a, b, assume_a=assume_a, precision="mixed")
    done = fl.stats()
    assert np.array_equal(x, linalg.solve(a, b, assume_a=assume_a))
    assert "in float64" in done.method
    assert done.note.startswith("fell back to float64: ")
    assert any(word in done.note for word in why.split("|"))


def test_what_is_singular_is_named_by_the_double_precision(rng):
    a = rng.standard_normal((300, 300))
    a[:, 7] = 0
    with pytest.raises(fl.NumericalError, match="element 7 of its diagonal"):
        linalg.solve(a, np.ones(300), precision="mixed")
    a[3, 4] = np.nan
    with pytest.raises(fl.NumericalError, match="row 3, column 4"):
        linalg.solve(a, np.ones(300), precision="mixed")


def test_the_plan_counts_what_is_usual(tmp_path, rng):
    a = fl.from_numpy(definite(rng, 1100, "float64", 1e3), str(tmp_path / "a.zarr"))
    b = rng.standard_normal((1100, 2))
    plan = linalg.solve.plan(a, b, precision="mixed")
    linalg.solve(a, b, precision="mixed")
    done = fl.stats()
    assert plan.method == "left-looking slabs in float32"
    assert "2 refinements are counted, 30 at most" in plan.note
    assert 0.9 < done.flops / plan.flops < 1.1
    assert plan.flops < 1.1 * linalg.solve.plan(a, b).flops


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"precision": "half"}, "precision is 'half'"),
        ({"precision": "mixed", "rcond": True}, "leave precision or rcond out"),
        ({"precision": "mixed", "assume_a": "upper triangular"}, "a is a triangle"),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(fl.ShapeError, match=sentence):
        linalg.solve(np.eye(3), np.ones(3), **options)
    with pytest.raises(fl.ShapeError, match="float64 or complex128 is needed"):
        linalg.solve(np.eye(3, dtype="f4"), np.ones(3, "f4"), precision="mixed")
