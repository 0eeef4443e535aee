"""LOBPCG against LAPACK: pairs, residuals, constraints, preconditioners, what it refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import flagstone as fl

from .test_eigsh import check, laplacian, symmetric


def start(n, b, seed=0):
    return np.random.default_rng(seed).standard_normal((n, b))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
def test_extreme_pairs_of_dense_matrices(tmp_path, dtype, largest):
    a = symmetric(130, dtype)
    values = np.linalg.eigvalsh(a.astype(complex if dtype == "c16" else float))
    stored = fl.from_numpy(a, str(tmp_path / "a.zarr"), chunks=(50, 50))
    found = fl.linalg.lobpcg(stored, start(130, 5), largest=largest, out=tmp_path / "pairs.zarr")
    check(found, a, values, "LA" if largest else "SA")
    kept = fl.open(tmp_path / "pairs.zarr", key="vectors")
    np.testing.assert_array_equal(np.asarray(kept), np.asarray(found.V))
    assert fl.stats().passes == found.applications


def test_a_preconditioner_saves_applications():
    a = laplacian(24, 21)
    values = np.linalg.eigvalsh(a.toarray())
    inverse = spla.splu(sp.csc_matrix(a))
    m = spla.LinearOperator(a.shape, matvec=inverse.solve, matmat=inverse.solve, dtype=float)
    plain = fl.linalg.lobpcg(fl.from_blocks([a]), start(504, 6), largest=False, tol=1e-4)
    better = fl.linalg.lobpcg(fl.from_blocks([a]), start(504, 6), M=m, largest=False, tol=1e-4)
    check(better, a, values, "SA", tol=1e-4)
    assert better.applications < plain.applications / 3


def test_pairs_are_orthogonal_to_constraints():
    a = symmetric(90, "f8")
    values, vectors = np.linalg.eigh(a)
    found = fl.linalg.lobpcg(a, start(90, 3), Y=vectors[:, -2:] @ [[1.0, 2.0], [0.5, -1.0]])
    np.testing.assert_allclose(found.w, values[::-1][2:5], rtol=1e-8)
    assert abs(vectors[:, -2:].T @ np.asarray(found.V)).max() < 1e-12


def test_a_function_and_a_lazy_matrix():
    a = symmetric(60, "f8")
    values = np.linalg.eigvalsh(a)
    check(fl.linalg.lobpcg(lambda x: a @ x, start(60, 4)), a, values, "LA")
    check(fl.linalg.lobpcg(fl.from_numpy(a) + 0.0, start(60, 4)), a, values, "LA")
    check(fl.linalg.lobpcg(a[:1, :1], np.ones((1, 1))), a[:1, :1], a[0, :1], "LA")
    check(fl.linalg.lobpcg(np.zeros((5, 5)), start(5, 2)), np.zeros((5, 5)), np.zeros(5), "LA")


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200])
def test_units_do_not_matter(unit):
    turn = np.linalg.qr(start(40, 40))[0]
    a = (turn * np.r_[100, 80, 60, np.linspace(-1, 1, 37)]) @ turn.T
    a, x = (a + a.T) / 2, start(40, 3, 1)
    one = fl.linalg.lobpcg(a, x)
    for given, vectors in ((a * unit, x), (a, x * unit)):
        w = unit if given is not a else 1.0
        found = fl.linalg.lobpcg(given, vectors)
        assert abs(found.w / w - one.w).max() <= 1e-5 * one.w[0]
        assert found.residual.max() / w <= 1e-6 * one.w[0] * 1.01


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("begun", ["ones", "pairs"])
def test_starts_near_the_null_space(begun, preconditioned):
    """What rounding leaves of A x there, and of W, is as large as they are: symmetric all the same."""
    rng = np.random.default_rng(0)
    weights = 10.0 ** rng.uniform(-2, 2, 900)
    ends = rng.integers(0, 300, (2, 900))
    graph = sp.coo_array((weights, ends), (300, 300)) + sp.diags_array(
        np.ones(299), offsets=1, shape=(300, 300)
    )
    a = sp.csr_array(sp.csgraph.laplacian(sp.csr_array(graph + graph.T)))
    values, vectors = np.linalg.eigh(a.toarray())
    solve = spla.splu(sp.csc_array(a + 1e-6 * sp.eye_array(300))).solve
    x = np.ones((300, 1)) if begun == "ones" else vectors[:, :3]
    found = fl.linalg.lobpcg(a, x, M=solve if preconditioned else None, largest=False)
    check(found, a, values, "SA")
    assert found.applications <= 5


def test_what_was_reached_is_kept():
    a = laplacian(30, 30)
    with pytest.raises(fl.ConvergenceError, match="give a preconditioner M") as caught:
        fl.linalg.lobpcg(a, start(900, 4), largest=False, maxiter=5)
    partial = caught.value.partial
    left = a @ np.asarray(partial.V) - np.asarray(partial.V) * partial.w
    np.testing.assert_allclose(np.linalg.norm(left, axis=0), partial.residual, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda a: fl.linalg.lobpcg(a, np.ones((9, 1))), fl.ShapeError, "X is 9 x 1 float64; finite vectors"),
        (lambda a: fl.linalg.lobpcg(a, np.ones((20, 2))), fl.ShapeError, "columns on each other"),
        (lambda a: fl.linalg.lobpcg(a, np.full((20, 1), np.nan)), fl.ShapeError, "finite vectors"),
        (lambda a: fl.linalg.lobpcg(a, start(20, 2), Y=np.ones((3, 1))), fl.ShapeError, "Y is 3 x 1"),
        (lambda a: fl.linalg.lobpcg(a, start(20, 2), np.eye(20)), fl.ShapeError, "B is given"),
        (lambda a: fl.linalg.lobpcg(a[:5], start(20, 2)), fl.ShapeError, "a square matrix is needed"),
        (lambda a: fl.linalg.lobpcg(a, start(20, 2), tol=0), fl.ShapeError, "tol is 0"),
        (lambda a: fl.linalg.lobpcg(a, start(20, 2), maxiter=0), fl.ShapeError, "maxiter is 0"),
        (lambda a: fl.linalg.lobpcg(a, start(20, 2), maxiter=1.5), fl.ShapeError, "maxiter is 1.5"),
        (lambda a: fl.linalg.lobpcg(a, [[1.0], [1.0, 2.0]]), fl.ShapeError, "rows of one length"),
        (lambda a: fl.linalg.lobpcg(a, start(20, 2), largest="no"), TypeError, "largest is 'no'"),
        (lambda a: fl.linalg.lobpcg(a, start(20, 2), M=np.eye(3)), fl.ShapeError, "M"),
        (lambda a: fl.linalg.lobpcg(a * np.nan, start(20, 2)), fl.NumericalError, "NaN or Inf"),
        (lambda a: fl.linalg.lobpcg(a, start(20, 2), Y=start(20, 2)), fl.ShapeError, "X depends on Y"),
        (lambda a: fl.linalg.lobpcg(a + np.tri(20), start(20, 1)), fl.NumericalError, "A is not symmetric"),
        (
            lambda a: fl.linalg.lobpcg(a, start(20, 2), memory="2MiB"),
            fl.BudgetError,
            "lobpcg: needs at least",
        ),
    ],
)
def test_bad_input_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call(symmetric(20, "f8"))


def test_the_plan_counts_what_an_application_costs():
    a = fl.from_blocks([laplacian(50, 40)])
    plan = fl.linalg.lobpcg.plan(a, start(2000, 4))
    assert plan.passes == 32
    found = fl.linalg.lobpcg(a, start(2000, 4), tol=1e-3)
    assert plan.bytes_read / plan.passes == pytest.approx(fl.stats().bytes_read / found.applications, rel=0.3)


def test_a_function_may_be_the_first_call_of_a_process():
    code = (
        "import numpy as np, flagstone as fl\n"
        "d = np.arange(1.0, 31.0)[:, None]\n"
        "print(fl.linalg.lobpcg(lambda x: d * x, np.eye(30)[:, ::10] + 0.1).w.round(6)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == "30.0", done.stderr


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"M": lambda x: x * np.nan}, fl.NumericalError, "M made NaN"),
        ({"M": lambda x: x[:3]}, fl.ShapeError, "M made 3 x 2"),
        ({"Y": np.ones((20, 2))}, fl.ShapeError, "columns of Y depend"),
    ],
)
def test_what_stands_beside_a_is_named(options, error, said):
    with pytest.raises(error, match=said):
        fl.linalg.lobpcg(symmetric(20, "f8"), start(20, 2), **options)
