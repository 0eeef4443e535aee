"""Condition numbers: against NumPy's, on Kahan's matrix, singular and not finite; warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flagstone as fl
from flagstone import linalg
from flagstone._solve.one_norm import MOST, one_norm
from tests.factor.matrices import definite, eps, norm1, solve_error
from tests.support.processes import DTYPES, random_matrix, stored


def kahan(n: int, c: float = 0.285) -> np.ndarray:
    """Upper triangular, of a condition that its diagonal does not show (Kahan 1966)."""
    s = np.sqrt(1 - c * c)
    return np.diag(s ** np.arange(n)) @ (np.eye(n) - c * np.triu(np.ones((n, n)), 1))


def agrees(found: float, exact: float, rounding: float = 1e-6) -> bool:
    """A lower bound, give or take rounding, within a factor of three (LAPACK's experience)."""
    return exact / 3 <= found <= exact * (1 + rounding)


@pytest.mark.parametrize("n", [1, 2, 4, 5, 40, 300])
@pytest.mark.parametrize("complex_", [False, True])
def test_the_norm_of_an_inverse(rng, n, complex_):
    """The algorithm alone, against the inverse itself; at most so many products."""
    for trial in range(4):
        a = random_matrix(rng, (n, n), "complex128" if complex_ else "float64") + trial * np.eye(n)
        inverse, calls = np.linalg.inv(a), []

        def apply(x, inverse=inverse, calls=calls):
            calls.append(1)
            return inverse @ x

        found = one_norm(n, inverse.dtype, apply, lambda x, inverse=inverse: inverse.conj().T @ x)
        assert agrees(found, norm1(inverse))
        assert len(calls) <= MOST


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [1, np.inf])
def test_cond(tmp_path, rng, dtype, p):
    a = random_matrix(rng, (300, 300), dtype)
    exact = np.linalg.cond(a.astype(np.result_type(dtype, "f8")), p)
    rounding = 300 * exact * eps(dtype)
    assert agrees(linalg.cond(stored(a, "zarr", tmp_path / "a"), p), exact, rounding)
    assert linalg.cond(a, p, factor=linalg.lu_factor(a)) == linalg.cond(a, p)
    k = definite(rng, 300, dtype)
    exact = np.linalg.cond(k.astype(np.result_type(dtype, "f8")), p)
    spoilt = k.copy()
    spoilt[np.triu_indices(300, 1)] = np.nan  # nobody looks there
    found = linalg.cond(spoilt, p, assume_a="pos")
    assert agrees(found, exact, 300 * exact * eps(dtype))
    assert linalg.cond(spoilt, p, assume_a="pos", factor=linalg.cholesky(spoilt)) == found
    upper = linalg.cholesky(k, upper=True)
    other = linalg.cond(spoilt, p, assume_a="pos", factor=(upper, False))
    assert other == pytest.approx(found, rel=1e3 * exact * eps(dtype))


@pytest.mark.parametrize("lower", [False, True])
def test_kahans_matrix_has_a_condition_that_its_diagonal_does_not_show(lower):
    a = kahan(90)
    a = a.T.copy() if lower else a
    spoilt = a + np.triu(np.full((90, 90), np.nan), 1) if lower else a
    word = "lower triangular" if lower else "upper triangular"
    exact = np.linalg.cond(a, 1)
    diagonal = np.abs(np.diagonal(a))
    assert diagonal.max() / diagonal.min() < exact / 1e10
    assert agrees(linalg.cond(spoilt, assume_a=word), exact, 1e-3)
    assert agrees(linalg.cond(a), exact, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = linalg.solve(spoilt, np.ones(90), assume_a=word)  # its diagonal gives no cause
    assert np.isfinite(x).all()


def test_the_two_norm_is_exact(tmp_path, rng):
    a = rng.standard_normal((700, 40))
    exact = np.linalg.cond(a)
    for given in (stored(a, "zarr", tmp_path / "a"), a, a.T, fl.from_numpy(a).T):
        for p in (2, None):
            assert linalg.cond(given, p) == pytest.approx(exact, rel=1e-10)
    a[:, 3] = 0
    assert linalg.cond(a, 2) > 1e15


def test_the_two_norm_of_large_matrices(monkeypatch, rng):
    """Extreme singular values of R, as beyond 4096 columns."""
    x = random_matrix(rng, (300, 120), "complex128") * np.geomspace(1, 1e-3, 120)
    sizes = np.linalg.svd(x, compute_uv=False)
    monkeypatch.setattr("flagstone._solve.singular._MOST", 50)
    assert abs(linalg.cond(x.T, 2) * sizes[-1] / sizes[0] - 1) <= 1e-6
    assert "reads of R" in fl.stats().note
    assert "passes for each" in linalg.cond.plan(x, 2).note
    x[:, 7] = 0
    assert linalg.cond(x, 2) == np.inf


def test_singular_and_not_finite_matrices(rng):
    a = rng.standard_normal((200, 200))
    a[:, 70] = 0
    assert linalg.cond(a) == np.inf
    assert linalg.cond(np.triu(a), assume_a="upper triangular") == np.inf
    with pytest.raises(fl.NumericalError, match="element 70 of its diagonal"):
        linalg.solve(a, np.ones(200), rcond=True)
    a[5, 6] = np.nan
    with pytest.raises(fl.NumericalError, match="row 5, column 6"):
        linalg.cond(a)
    for given in (a[:, :40], a[:40]):
        with pytest.raises(fl.NumericalError, match="^cond: the matrix has NaN or Inf at row 5, column 6"):
            linalg.cond(given, 2)
    assert linalg.cond(np.eye(300)) == 1
    assert linalg.cond(np.array([[2.0]])) == 1


@pytest.mark.parametrize("assume_a", ["gen", "pos", "lower triangular"])
def test_solve_tells_the_condition(tmp_path, rng, assume_a):
    a, b = definite(rng, 300, "float64"), rng.standard_normal((300, 3))
    given = np.tril(a) if assume_a.startswith("lower") else a
    x, rcond = linalg.solve(stored(given, "npy", tmp_path / "a"), b, assume_a=assume_a, rcond=True)
    assert solve_error(given, x, b) <= 25 * eps("f8")
    assert agrees(1 / rcond, np.linalg.cond(given, 1))
    assert "the estimate solved" in fl.stats().note
    vector, again = linalg.solve(given, b[:, 0].copy(), assume_a=assume_a, rcond=True, memory="2GiB")
    assert vector.shape == (300,)
    assert again == rcond
    on_disk, _ = linalg.solve(given, b, assume_a=assume_a, rcond=True, out=tmp_path / "x.zarr")
    assert np.array_equal(np.asarray(on_disk), x)


def test_the_plan_counts_the_solves(tmp_path, rng):
    a = fl.from_numpy(definite(rng, 600, "float64"), str(tmp_path / "a.zarr"))
    plan = linalg.cond.plan(a)
    linalg.cond(a)
    done = fl.stats()
    assert "10 times at most" in plan.note
    solved = int(done.note.split()[3])
    assert 2 <= solved <= 10
    each = linalg.lu_solve.plan(linalg.lu_factor(a), np.ones((600, 4)))
    assert done.flops == pytest.approx(plan.flops + (solved - 4) * each.flops)
    assert linalg.solve.plan(a, np.ones(600), rcond=True).flops > plan.flops
    assert linalg.cond.plan(a, 2).flops > 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize(("power", "warned"), [(0.9, False), (1.1, True)])
def test_a_diagonal_beyond_what_the_dtype_resolves_warns(dtype, power, warned):
    """The bound is free: of R its ratio, of a definite matrix the square of L's; no sooner than 1 / eps."""
    n = 300
    spread = np.geomspace(1, eps(dtype) ** power, n).astype(dtype)
    a, root, b, many = np.diag(spread), np.diag(np.sqrt(spread)), np.ones(n, dtype), np.ones((n, 600), dtype)
    calls = [
        lambda: linalg.solve(a, b),
        lambda: linalg.solve(a, b, assume_a="pos"),
        lambda: linalg.solve_triangular(a, b),
        lambda: linalg.cho_solve(root, b),
        lambda: linalg.lu_solve((a, np.arange(n)), many),
        lambda: linalg.lu_solve((a, np.arange(n)), b, trans=1),
        lambda: linalg.solve(a, b, rcond=True),
    ]
    for call in calls:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            call()
        assert [one.category for one in heard] == [fl.IllConditionedWarning] * warned
        if warned:
            assert heard[0].filename == __file__
            assert f"and {dtype} resolves" in str(heard[0].message)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: linalg.cond(np.ones((3, 2))), "cond: the matrix is 3 x 2; a square one"),
        (lambda: linalg.cond(np.zeros((0, 0))), "cond: the matrix is 0 x 0 and has no condition number"),
        (
            lambda: linalg.cond(np.eye(2), np.array([1, 2])),
            "cond: p is an array; 1, 2, inf or None is needed",
        ),
        (lambda: linalg.cond(np.zeros((0, 0)), 2), "a matrix with elements"),
        (lambda: linalg.cond(np.eye(3), 3), "p is 3"),
        (lambda: linalg.cond(np.eye(3), assume_a="odd"), "assume_a is 'odd'"),
        (lambda: linalg.cond(np.eye(3), 2, factor=linalg.lu_factor(np.eye(3))), "p is 1 or inf"),
        (
            lambda: linalg.cond(np.eye(3), assume_a="pos", factor=linalg.lu_factor(np.eye(3))),
            "factor is an LU",
        ),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(fl.ShapeError, match=sentence):
        call()


def test_cond_in_the_2_norm_is_refused_before_the_qr(tmp_path, isolated, rng):
    """The singular values take four times R: the plan says so, and nothing runs where only the QR fits."""
    np.save(tmp_path / "a.npy", rng.standard_normal((1500, 1500)))
    found = isolated("""
        a = fl.open("a.npy")
        least = fl.linalg.cond.plan(a, 2, memory="4GiB").least_memory
        alone = fl.linalg.qr.plan(a, mode="r", memory="4GiB").least_memory
        try:
            fl.linalg.cond(a, 2, memory=(alone + least) // 2)
        except fl.BudgetError as error:
            told = str(error)
        try:
            fl.stats()
            ran = True
        except fl.Error:
            ran = False
        result = [least - alone, told, ran, fl.linalg.cond(a, 2, memory=least + (8 << 20))]
    """)
    assert found[0] > 16 << 20
    assert found[1].startswith("cond: needs at least")
    assert not found[2]
    assert np.isclose(found[3], np.linalg.cond(np.load(tmp_path / "a.npy")), rtol=1e-9)
