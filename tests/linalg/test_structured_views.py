"""Every view of every structured handle, given to every routine of a square matrix: as NumPy computes it.

What is known of a handle is kept once for all of its views, of which a transposed one has the other triangle.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import flagstone as fl
from flagstone import linalg
from tests.factor.matrices import eps
from tests.support.processes import random_matrix, stored

VIEWS = {
    "itself": lambda h: h,
    "T": lambda h: h.T,
    "conj": lambda h: h.conj(),
    "T.conj": lambda h: h.T.conj(),
    "conj.T": lambda h: h.conj().T,
    "T.T": lambda h: h.T.T,
    "matrix_transpose": lambda h: linalg.matrix_transpose(h),
}

DIFFERENT = ("T", "conj", "T.conj")  #: views that are taken to every routine
TELLING = ("asarray", "solve", "inv")  #: routines that are given every view

HANDLES = {
    **{f"symmetric {uplo}": (fl.symmetric, uplo, {}) for uplo in ("lower", "upper")},
    **{f"hermitian {uplo}": (fl.hermitian, uplo, {}) for uplo in ("lower", "upper")},
    **{f"triangular {uplo}": (fl.triangular, uplo, {}) for uplo in ("lower", "upper")},
    **{f"unit {uplo}": (fl.triangular, uplo, {"unit_diagonal": True}) for uplo in ("lower", "upper")},
}  # fmt: skip


def expected(a, name):
    """The whole matrix that a handle is."""
    kind, uplo = name.split()
    half = np.tril(a) if uplo == "lower" else np.triu(a)
    if kind == "triangular":
        return half
    if kind == "unit":
        return half - np.diag(np.diag(a)) + np.eye(len(a), dtype=a.dtype)
    if kind == "symmetric":
        return half + half.T - np.diag(np.diag(a))
    return half + half.conj().T - np.diag(np.diag(a).conj()) - 1j * np.diag(np.diag(a).imag)


def _lu(h):
    p, lower, upper = linalg.lu(h)
    return np.asarray(lower)[p] @ np.asarray(upper)


def _product(parts):
    first, second = (np.asarray(part) for part in parts)
    return first @ second


def _gram(r):
    r = np.asarray(r)
    return r.conj().T @ r


def _triangle(m, lower):
    return np.tril(m) if lower else np.triu(m)


def _of_triangle(lower, trans):
    turned = {0: lambda t: t, 1: lambda t: t.T, 2: lambda t: t.conj().T}[trans]
    return (
        lambda h, b: linalg.solve_triangular(h, b, lower=lower, trans=trans),
        lambda m, b: np.linalg.solve(turned(_triangle(m, lower)), b),
    )


#: Of a square matrix and right-hand sides: what we return, what NumPy does.
ROUTINES = {
    "asarray": (lambda h, b: h, lambda m, b: m),
    "solve": (lambda h, b: linalg.solve(h, b), np.linalg.solve),
    "solve rcond": (lambda h, b: linalg.solve(h, b, rcond=True)[0], np.linalg.solve),
    "solve mixed": (lambda h, b: linalg.solve(h, b, precision="mixed"), np.linalg.solve),
    "inv": (lambda h, b: linalg.inv(h), lambda m, b: np.linalg.inv(m)),
    "det": (lambda h, b: linalg.det(h), lambda m, b: np.linalg.det(m)),
    "slogdet": (lambda h, b: linalg.slogdet(h)[1], lambda m, b: np.linalg.slogdet(m)[1]),
    "lu": (lambda h, b: _lu(h), lambda m, b: m),
    "lu_solve": (lambda h, b: linalg.lu_solve(linalg.lu_factor(h), b), np.linalg.solve),
    "qr": (lambda h, b: _product(linalg.qr(h)), lambda m, b: m),
    "qr r": (lambda h, b: _gram(linalg.qr(h, mode="r")), lambda m, b: m.conj().T @ m),
    "lq": (lambda h, b: _product(linalg.lq(h)), lambda m, b: m),
    "lstsq": (lambda h, b: linalg.lstsq(h, b)[0], np.linalg.solve),
    "matmul": (lambda h, b: linalg.matmul(h, b), lambda m, b: m @ b),
    "matmul right": (lambda h, b: linalg.matmul(b.T, h), lambda m, b: b.T @ m),
    "rank_k": (lambda h, b: linalg.rank_k_update(h), lambda m, b: m @ m.conj().T),
    "rank_2k": (
        lambda h, b: linalg.rank_2k_update(h, h), lambda m, b: 2 * (m @ m.conj().T),
    ),
    "fro": (lambda h, b: linalg.matrix_norm(h), lambda m, b: np.linalg.norm(m)),
    "1": (lambda h, b: linalg.matrix_norm(h, ord=1), lambda m, b: np.linalg.norm(m, 1)),
    "inf": (lambda h, b: linalg.matrix_norm(h, ord=np.inf), lambda m, b: np.linalg.norm(m, np.inf)),
    "2": (lambda h, b: linalg.matrix_norm(h, ord=2), lambda m, b: np.linalg.norm(m, 2)),
    "column norms": (
        lambda h, b: linalg.vector_norm(h, axis=0), lambda m, b: np.linalg.norm(m, axis=0),
    ),
    "trace": (lambda h, b: linalg.trace(h), lambda m, b: np.trace(m)),
    "diagonal": (lambda h, b: linalg.diagonal(h), lambda m, b: np.diagonal(m)),
    "cond 2": (lambda h, b: linalg.cond(h, 2), lambda m, b: np.linalg.cond(m, 2)),
    **{
        f"solve_triangular {lower} {trans}": _of_triangle(lower, trans)
        for lower in (True, False) for trans in (0, 1, 2)
    },
    "lower triangular": (
        lambda h, b: linalg.solve(h, b, assume_a="lower triangular"),
        lambda m, b: np.linalg.solve(np.tril(m), b),
    ),
    "inv upper triangular": (
        lambda h, b: linalg.inv(h, assume_a="upper triangular"), lambda m, b: np.linalg.inv(np.triu(m)),
    ),
    "cho_solve": (
        lambda h, b: linalg.cho_solve(h, b),
        lambda m, b: np.linalg.solve(np.tril(m) @ np.tril(m).conj().T, b),
    ),
    "cho_solve upper": (
        lambda h, b: linalg.cho_solve((h, False), b),
        lambda m, b: np.linalg.solve(np.triu(m).conj().T @ np.triu(m), b),
    ),
}  # fmt: skip

#: Of a Hermitian positive definite matrix.
DEFINITE = {
    "cholesky": (lambda h, b: linalg.cholesky(h), lambda m, b: np.linalg.cholesky(m)),
    "cholesky upper": (
        lambda h, b: linalg.cholesky(h, upper=True), lambda m, b: np.linalg.cholesky(m).conj().T,
    ),
    "solve pos": (lambda h, b: linalg.solve(h, b, assume_a="pos"), np.linalg.solve),
    "inv pos": (lambda h, b: linalg.inv(h, assume_a="pos"), lambda m, b: np.linalg.inv(m)),
    "det pos": (lambda h, b: linalg.det(h, assume_a="pos"), lambda m, b: np.linalg.det(m)),
    "inv_diagonal": (
        lambda h, b: linalg.inv_diagonal(h), lambda m, b: np.diagonal(np.linalg.inv(m)).real,
    ),
}  # fmt: skip

#: Routines of one square matrix that need none of these handles, or do not tell one of its views apart.
ELSEWHERE = {
    "apply_q": "of a factor", "eigsh": "refuses them", "lobpcg": "as eigsh", "svds": "as eigsh",
    "open_factor": "of a path", "vecdot": "of vectors", "outer": "of vectors", "tensordot": "of any arrays",
    "matrix_transpose": "a view here",
}  # fmt: skip


def _matrix(rng, n, dtype):
    return random_matrix(rng, (n, n), dtype) / (2 * n) + np.diag(2 + np.arange(n) / n).astype(dtype)


def _agree(got, want, dtype, n, told):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, told
    gap = np.abs(got - want).max(initial=0)
    assert gap <= 200 * n * eps(dtype) * max(1, np.abs(want).max(initial=0)), f"{told}: {gap}"


@pytest.mark.parametrize("name", HANDLES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_each_view_is_what_numpy_has(rng, name, dtype):
    make, uplo, options = HANDLES[name]
    n = 9
    a, b = _matrix(rng, n, dtype), random_matrix(rng, (n, 2), dtype)
    if name.startswith("hermitian"):  # positive definite, which a symmetric complex one is not
        a[np.diag_indices(n)] = a.diagonal().real
    whole = expected(a, name)
    positive = name.startswith("hermitian") or (dtype == "float64" and name.startswith("symmetric"))
    routines = ROUTINES | (DEFINITE if positive else {})
    handle = make(a, uplo, **options)
    for view, seen in VIEWS.items():
        h, m = seen(handle), np.asarray(seen(whole) if view != "matrix_transpose" else whole.T)
        for routine, (ours, theirs) in routines.items():
            if view not in DIFFERENT and routine not in TELLING:
                continue
            _agree(ours(h, b), theirs(m, b), dtype, n, f"{routine} of {view}")


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", ["triangular lower", "triangular upper", "unit lower", "unit upper"])
def test_views_of_stored_triangles_of_several_tiles(tmp_path, rng, name, dtype):
    """What stands beside the triangle on disk is never looked at."""
    make, uplo, options = HANDLES[name]
    n = 600
    a, b = _matrix(rng, n, dtype), random_matrix(rng, (n, 2), dtype)
    whole = expected(a, name)
    a[np.triu_indices(n, 1) if uplo == "lower" else np.tril_indices(n, -1)] = np.nan
    handle = make(stored(a, "zarr", tmp_path / "a"), uplo, **options)
    for view in ("itself", "T", "T.conj"):
        h, m = VIEWS[view](handle), VIEWS[view](whole)
        for routine in ("solve", "inv", "slogdet"):
            ours, theirs = ROUTINES[routine]
            _agree(ours(h, b), theirs(m, b), dtype, n, f"{routine} of {view}")


def test_every_routine_is_taken_or_excused():
    """A new routine of linalg has its line here."""
    text = inspect.getsource(inspect.getmodule(test_every_routine_is_taken_or_excused))
    routines = [name for name in linalg.__all__ if callable(getattr(linalg, name))]
    plain = [name for name in routines if not isinstance(getattr(linalg, name), type)]
    missing = [name for name in plain if f"linalg.{name}(" not in text and name not in ELSEWHERE]
    assert not missing
