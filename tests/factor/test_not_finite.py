"""NaN and Inf are named by who was called, with the row and the column of what was given."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.linalg

import flagstone as fl
from flagstone import linalg
from tests.support.processes import random_matrix, stored

N = 600  # several tiles of a triangle, and of an LU
FOUR = np.ones((N, 4))


def _spoilt(rng, row: int, column: int, value: float = np.nan) -> np.ndarray:
    a = rng.standard_normal((N, N)) / N + 2 * np.eye(N)
    a[row, column] = value
    return a


#: Calls of a matrix that is read whole, or in the lower triangle that has the element at 401, 7.
CALLS = {
    "cholesky": lambda a: linalg.cholesky(a),
    "lu": lambda a: linalg.lu(a),
    "lu_factor": lambda a: linalg.lu_factor(a),
    "qr": lambda a: linalg.qr(a, mode="r"),
    "lq": lambda a: linalg.lq(a),
    "solve": lambda a: linalg.solve(a, FOUR),
    "solve, pos": lambda a: linalg.solve(a, FOUR, assume_a="pos"),
    "solve, lower": lambda a: linalg.solve(a, FOUR, assume_a="lower triangular"),
    "inv": lambda a: linalg.inv(a),
    "inv, pos": lambda a: linalg.inv(a, assume_a="pos"),
    "inv, lower": lambda a: linalg.inv(a, assume_a="lower triangular"),
    "det": lambda a: linalg.det(a),
    "slogdet, pos": lambda a: linalg.slogdet(a, assume_a="pos"),
    "inv_diagonal": lambda a: linalg.inv_diagonal(a),
    "inv_diagonal, of a factor": lambda a: linalg.inv_diagonal(a, factor=a),
    "cond": lambda a: linalg.cond(a),
    "cond, 2": lambda a: linalg.cond(a, 2),
    "cond, 2, of few rows": lambda a: linalg.cond(a[380:], 2),
    "cond, pos": lambda a: linalg.cond(a, assume_a="pos"),
    "cond, lower": lambda a: linalg.cond(a, assume_a="lower triangular"),
    "cho_solve": lambda a: linalg.cho_solve(a, FOUR),
    "cho_solve, upper": lambda a: linalg.cho_solve((a.T, False), FOUR),
    "solve_triangular": lambda a: linalg.solve_triangular(a, FOUR, lower=True),
    "solve_triangular, of an adjoint": lambda a: linalg.solve_triangular(a, FOUR, lower=True, trans="C"),
    "solve_triangular, of ones": lambda a: linalg.solve_triangular(
        a, FOUR, lower=True, trans=1, unit_diagonal=True
    ),
    "lu_solve": lambda a: linalg.lu_solve((a, np.arange(N)), FOUR),
    "lu_solve, of an adjoint": lambda a: linalg.lu_solve((a, np.arange(N)), FOUR, trans=2),
    "lstsq": lambda a: linalg.lstsq(a, np.ones(N)),
}
PLACES = {"cho_solve, upper": (7, 401), "cond, 2, of few rows": (21, 7)}


@pytest.mark.parametrize("name", CALLS)
def test_who_was_called_names_the_element(rng, name):
    row, column = PLACES.get(name, (401, 7))
    who = name.partition(",")[0]
    with pytest.raises(fl.NumericalError) as caught:
        CALLS[name](_spoilt(rng, 401, 7))
    whose = {"lstsq": "a", "lu_solve": "the factor", "cho_solve": "the factor"}.get(who, "the matrix")
    assert str(caught.value).startswith(f"{who}: {whose} has NaN or Inf at row {row}, column {column};")
    assert (caught.value.row, caught.value.column, caught.value.index) == (row, column, max(row, column) + 1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.row, again.column) == (str(caught.value), row, column)


@pytest.mark.parametrize("name", ["cholesky", "solve", "inv", "cho_solve", "lu_solve"])
def test_the_other_errors_too(name):
    zero = np.diag(np.r_[np.ones(5), 0, np.ones(4)])
    calls = {
        "cholesky": lambda: linalg.cholesky(zero, upper=True),
        "solve": lambda: linalg.solve(zero, np.ones(10), assume_a="pos"),
        "inv": lambda: linalg.inv(zero),
        "cho_solve": lambda: linalg.cho_solve(zero, np.ones(10)),
        "lu_solve": lambda: linalg.lu_solve((zero, np.arange(10)), np.ones(10), trans=2),
    }
    with pytest.raises(fl.NumericalError, match=f"^{name}: the matrix is") as caught:
        calls[name]()
    assert (caught.value.index, caught.value.row) == (6, None)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    ("kind", "place"),
    [("npy", (599, 0)), ("zarr", (300, 299)), ("memory", (2, 1)), ("memory_f", (255, 255))],
)
def test_what_the_triangle_has_beside_its_diagonal(tmp_path, rng, dtype, kind, place):
    row, column = place
    a = random_matrix(rng, (N, N), dtype) / N + 2 * np.eye(N, dtype=dtype)
    a[row, column] = -np.inf
    b = random_matrix(rng, (N, 520), dtype)
    given = stored(a, kind, tmp_path / "a")
    told = f"has NaN or Inf at row {row}, column {column};"
    with pytest.raises(fl.NumericalError, match=f"the matrix {told}"):
        linalg.solve_triangular(given, b, lower=True)
    with pytest.raises(fl.NumericalError, match=f"the factor {told}"):
        linalg.lu_solve((given, np.arange(N)), b, trans=1)
    turned = f"the matrix has NaN or Inf at row {column}, column {row};"
    with pytest.raises(fl.NumericalError, match=turned):
        linalg.solve_triangular(fl.from_numpy(a).T, b)
    if row != column:  # the other triangle does not count
        upper = linalg.solve_triangular(given, b)
        wanted = scipy.linalg.solve_triangular(a, b, check_finite=False)
        np.testing.assert_allclose(upper, wanted, rtol=1e-3 if dtype in ("f4", "c8") else 1e-9)


def test_a_unit_diagonal_does_not_count(rng):
    a = np.tril(rng.standard_normal((N, N))) / N
    np.fill_diagonal(a, np.nan)
    x = linalg.solve_triangular(a, FOUR, lower=True, unit_diagonal=True)
    wanted = scipy.linalg.solve_triangular(a, FOUR, lower=True, unit_diagonal=True, check_finite=False)
    np.testing.assert_allclose(x, wanted, rtol=1e-10)


@pytest.mark.parametrize("routine", ["qr", "lq", "apply_q", "lstsq"])
def test_what_is_beyond_the_largest_number_is_not_called_the_matrixs(rng, routine):
    a = np.full((300, 40), 1e308)
    calls = {
        "qr": lambda: linalg.qr(a),
        "lq": lambda: linalg.lq(a.T),
        "lstsq": lambda: linalg.lstsq(a, np.ones(300)),
        "apply_q": lambda: linalg.apply_q(
            linalg.qr(rng.standard_normal((300, 40)), mode="raw"), np.full((300, 3), 1.7e308), trans=True
        ),
    }
    what = "product" if routine == "apply_q" else "result"
    with pytest.raises(fl.NumericalError, match=f"^{routine}: the {what} has NaN or Inf at row "):
        calls[routine]()


@pytest.mark.parametrize("n", [2, 300])  # in the last tile of several, too
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_an_elimination_that_overflows_is_not_called_the_matrixs(dtype, n):
    most = float(np.finfo(dtype).max)
    a = np.diag(np.full(n, most, dtype))
    a[-2, -1], a[-1, -2] = most, -most  # u = 2 most
    told = f"the factor of the matrix has NaN or Inf at row {n - 1}, column {n - 1} and the matrix has none"
    calls = {
        "solve": [
            lambda x: linalg.solve(x, np.ones(n, dtype)),
            lambda x: linalg.solve(x, FOUR[:n].astype(dtype), rcond=True),
        ],
        "inv": [linalg.inv],
        "det": [linalg.det],
        "slogdet": [linalg.slogdet],
        "cond": [linalg.cond, lambda x: linalg.cond(x, np.inf)],
    }
    for who, several in calls.items():
        for call in several:
            with pytest.raises(fl.NumericalError, match=f"^{who}: {told}.*scale the matrix down") as caught:
                call(a)
            assert caught.value.index == n
            call((a / most).astype(dtype))  # as the sentence says
    factor = linalg.lu_factor(a)
    for who, call in {
        "lu_solve": linalg.lu_solve,
        "cond": lambda f, _: linalg.cond(a, factor=f),
        "det": lambda f, _: linalg.det(f),
    }.items():
        with pytest.raises(fl.NumericalError, match=f"^{who}: the factor has NaN or Inf at row {n - 1}, "):
            call(factor, np.ones(n, dtype))


def test_a_solution_beyond_the_largest_number():
    wide = np.array([[1e-300, 0, 0], [0, 1, 0]])
    with pytest.raises(fl.NumericalError, match="^lstsq: the solution is beyond the largest number"):
        linalg.lstsq(wide, np.array([1e300, 0]), rcond=0)


def test_reflectors_that_are_not_finite(tmp_path, rng):
    f = linalg.qr(rng.standard_normal((300, 40)), mode="raw", out=str(tmp_path / "f.zarr"))
    v = fl.open(str(tmp_path / "f.zarr/v"), mode="r+")
    v[3, 200] = np.nan
    del f
    with pytest.raises(fl.NumericalError, match="^apply_q: the product has NaN .* the factor has, or "):
        linalg.apply_q(linalg.open_factor(str(tmp_path / "f.zarr")), FOUR[:300])


def test_right_hand_sides_of_a_product_with_q(rng):
    f = linalg.qr(rng.standard_normal((300, 40)), mode="raw")
    b = rng.standard_normal((300, 3))
    b[201, 2] = np.inf
    with pytest.raises(fl.NumericalError, match="^apply_q: b has NaN or Inf at row 201, column 2;"):
        linalg.apply_q(f, b)
    with pytest.raises(fl.NumericalError, match="^apply_q: b has NaN or Inf at row 2, column 201;"):
        linalg.apply_q(f, b.T, side="right")
