"""Factors of wide kernel matrices, whose products are subnormal: none is left, nothing else is flushed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import flagstone as fl
from flagstone import linalg

N = 600  # several tiles


def _kernel(dtype: str):
    """Values over the whole range of the dtype, beside a diagonal of 1.01."""
    points = np.random.default_rng(4).random((N, 2)).astype(dtype)
    k = fl.kernel_matrix(points, length_scale=1 / (60 if dtype == "f8" else 25))
    return np.asarray(k) + np.eye(N, dtype=dtype) * np.asarray(0.01, dtype)


def _subnormal(x) -> int:
    size = np.abs(np.asarray(x))
    return np.count_nonzero((size > 0) & (size < np.finfo(size.dtype).tiny))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_factors_and_solutions_hold_no_subnormal_numbers(dtype):
    a, eps = _kernel(dtype), float(np.finfo(dtype).eps)
    assert _subnormal(scipy.linalg.cholesky(a, lower=True))  # LAPACK's in gradual underflow
    made = []
    for workers in (1, 2, 4):
        with fl.Runtime(workers=workers):
            lower = np.asarray(linalg.cholesky(a))
            lu, piv = linalg.lu_factor(a)
            sides = a[:, :5].copy()
            solved = linalg.solve_triangular(lower, sides, lower=True), linalg.cho_solve(lower, sides)
            made.append([lower, np.asarray(lu), *solved, linalg.lu_solve((lu, piv), sides, trans=1)])
    for found in zip(*made, strict=True):
        assert not _subnormal(found[0])
        assert len({one.tobytes() for one in found}) == 1
    lower, _, half, x, other = (one.astype(np.float64) for one in made[0])
    # |A - L Lᵀ| <= (n + 1) eps |L| |Lᵀ| / 2 (Higham, theorem 10.3); |L| |Lᵀ| <= max a_jj.
    bound = 1.01 * (N + 1) * eps
    assert np.abs(lower @ lower.T - a).max() <= bound
    assert np.abs(lower @ half - a[:, :5]).max() <= bound
    for one in (x, other):
        assert (
            np.abs(a.astype(np.float64) @ one - a[:, :5]).max() <= 3 * bound * np.abs(one).sum(axis=0).max()
        )


def test_nothing_else_is_flushed():
    """Functions on the workers that factor, products, and the thread that calls."""
    tiny = []

    def element(i, j):
        tiny.append(np.full(8, 1e-200) * 1e-115)  # on a worker, between two kernels
        return np.where(i == j, 2.0, 1e-160 / (1 + np.abs(i - j)))

    with fl.Runtime(workers=2):
        lower = linalg.cholesky(fl.from_function(element, (N, N), "float64"))
        assert not _subnormal(lower)
        assert len(tiny) > 3
        assert all((one > 0).all() for one in tiny)
        assert (fl.matmul(np.full((9, 9), 1e-200), np.full((9, 9), 1e-115)) > 0).all()
        assert (np.full(8, 1e-200) * 1e-115 > 0).all()
