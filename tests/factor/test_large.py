"""Dense linear algebra of more than 2^31 elements: computed operands with known answers, minutes each."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import flagstone as fl
from tests.support.processes import beside

pytestmark = pytest.mark.slow

N = 46_500  # N² is 2.16e9
RHO = 0.95


def kac(i, j):
    """Return the Kac-Murdock-Szegő matrix ρ^|i-j|, whose Cholesky factor is known."""
    return (RHO ** np.abs(i - j)).astype(np.float32)


def walsh(i, j):
    """Return (-1)^(bits that i and j share): 256 columns are orthogonal over any multiple of 256 rows."""
    shared = (i & j).astype(np.uint8)
    for step in (4, 2, 1):
        shared ^= shared >> step
    return (1 - 2 * (shared & 1).astype(np.int8)).astype(np.float32)


@pytest.fixture
def disk(tmp_path):
    if shutil.disk_usage(tmp_path).free < 12 << 30:
        pytest.skip("12 GiB of free disk are needed")
    return tmp_path


def test_norms():
    ones = fl.ones((N, N - 100), dtype="float32")
    assert float(fl.linalg.matrix_norm(ones, memory=beside(400))) == pytest.approx(np.sqrt(N * (N - 100.0)))
    assert float(fl.linalg.matrix_norm(ones, ord=1, memory=beside(400))) == N
    assert float(fl.linalg.matrix_norm(fl.triangular(ones), ord=np.inf, memory=beside(400))) == N - 100


def test_rank_k_update(disk, rng):
    """Writes 4.4 GB."""
    a = rng.standard_normal((N, 8), np.float32)
    c = fl.linalg.rank_k_update(a, uplo="lower", out=str(disk / "c.zarr"), memory=beside(900))
    for row in (0, N // 2, N - 1):
        np.testing.assert_allclose(c[row, :], a[row] @ a.T, rtol=1e-4, atol=1e-5)


def test_qr():
    """AᵀA = m I, so R is √m I but for signs."""
    m = (1 << 23) + (1 << 16)
    r = fl.linalg.qr(fl.from_function(walsh, (m, 256), "float32"), mode="r", memory=beside(600))
    np.testing.assert_allclose(np.abs(np.asarray(r)) / np.sqrt(m), np.eye(256), atol=2e-4)


def test_cholesky_and_its_solve(disk):
    """Writes 4.4 GB; n³/3 flops take minutes."""
    k = fl.from_function(kac, (N, N), "float32", key="kac")
    factor = fl.linalg.cholesky(k, out=str(disk / "l.zarr"), memory="2GiB")
    for row in (1, N // 2, N - 1):
        known = RHO ** np.arange(row, -1, -1) * np.sqrt(1 - RHO**2)
        known[0] = RHO**row
        np.testing.assert_allclose(np.asarray(factor[row, : row + 1]), known, atol=1e-3)
    x = np.asarray(fl.linalg.cho_solve(factor, np.ones(N, np.float32), memory="2GiB"))
    # The inverse is tridiagonal: 1/(1+ρ) at both ends, (1-ρ)/(1+ρ) between.
    inner = (1 - RHO) / (1 + RHO)
    np.testing.assert_allclose(x, np.r_[1 / (1 + RHO), np.full(N - 2, inner), 1 / (1 + RHO)], atol=1e-2)
