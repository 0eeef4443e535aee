"""Singular triplets against LAPACK; residuals and orthonormality are computed here."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl

EPS = np.finfo(float).eps
TOL = 1e-6


def decaying(m, n, seed=5, rank=None):
    rng = np.random.default_rng(seed)
    r = min(m, n) if rank is None else rank
    u, v = (np.linalg.qr(rng.standard_normal((size, r)))[0] for size in (m, n))
    return (u * 0.9 ** np.arange(r)) @ v.T


def check(found, a, k, tol=TOL):
    a = np.asarray(a.toarray() if sp.issparse(a) else a, float)
    s = np.linalg.svd(a, compute_uv=False)[:k]
    u, vt = np.asarray(found.U), np.asarray(found.Vt)
    assert u.shape == (a.shape[0], k)
    assert vt.shape == (k, a.shape[1])
    rounding = 1e3 * max(a.shape) * EPS * s[0]
    # ‖A v - σ u‖ and ‖Aᵀu - σ v‖: one is 0 by construction, the other was measured
    off = np.hypot(
        np.linalg.norm(a @ vt.T - u * found.s, axis=0), np.linalg.norm(a.T @ u - vt.T * found.s, axis=0)
    )
    assert (off <= tol * found.s + rounding * s[0] / found.s).all()
    assert (abs(found.s - s) <= tol * s + rounding).all()
    assert abs(off - found.residual).max() <= rounding
    for q in (u, vt.T):
        assert abs(q.T @ q - np.eye(k)).max() <= 1e-9


@pytest.mark.parametrize("shape", [(300, 40), (40, 300), (60, 60)], ids=["tall", "wide", "square"])
@pytest.mark.parametrize("stored", ["zarr", "npy float32", "memory", "transposed", "sparse", "sparse.T"])
def test_against_lapack(tmp_path, shape, stored):
    a = decaying(*shape)
    given, expected = a, a
    if stored == "zarr":
        given = fl.from_numpy(a, str(tmp_path / "a.zarr"))
    if stored == "npy float32":
        np.save(tmp_path / "a.npy", a.astype("f4"))
        given, expected = fl.open(tmp_path / "a.npy"), a.astype("f4").astype(float)
    if stored == "transposed":
        given = fl.from_numpy(np.ascontiguousarray(a.T), str(tmp_path / "a.zarr")).T
    if stored.startswith("sparse"):
        thin = np.where(abs(a) > 0.5 * abs(a).mean(), a, 0)
        expected = thin
        given = fl.from_blocks([sp.csr_matrix(thin if stored == "sparse" else thin.T)])
        given = given if stored == "sparse" else given.T
    check(fl.linalg.svds(given, 5), expected, 5)


@pytest.mark.parametrize("block", [1, 4])
def test_repeated_values(block):
    one = decaying(30, 20)
    a = sp.block_diag([one] * 4, format="csr")
    found = fl.linalg.svds(a, 10, block=block)
    assert found.verified
    assert np.allclose(found.s, np.linalg.svd(a.toarray(), compute_uv=False)[:10], rtol=1e-6)


def test_every_triplet_and_rank_deficiency():
    a = np.diag(np.arange(9.0, 0, -1))[:, :7]
    check(fl.linalg.svds(a, 7), a, 7)
    found = fl.linalg.svds(decaying(50, 20, rank=3), 5)
    assert (found.s[3:] <= 1e-7 * found.s[0]).all()
    assert np.array_equal(np.asarray(found.U)[:, 3:], np.zeros((50, 2)))
    assert abs(fl.linalg.svds(np.zeros((6, 4)), 2).s).max() == 0


@pytest.mark.parametrize("shape", [(50, 30), (20, 200)])
def test_spectra_that_decay_fast(shape):
    """Down to 1e-5 of the largest: AᵀA has 1e-10 of it, in ten digits less."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, 10)))[0] for n in shape)
    sigma = np.logspace(0, -9, 10)
    a = (left * sigma) @ right.T
    for given in (a, sp.csr_array(a)):
        found = fl.linalg.svds(given, 6, tol=1e-4)
        assert (abs(found.s - sigma[:6]) <= 1e-4 * sigma[:6]).all()
        u, v = np.asarray(found.U), np.asarray(found.Vt).T
        assert (np.linalg.norm(a.T @ u - v * found.s, axis=0) <= 1e-4 * sigma[:6]).all()
        iterated, other = (v, u) if shape[0] > shape[1] else (u, v)
        assert abs(iterated.T @ iterated - np.eye(6)).max() <= 1e3 * EPS
        # A v / σ: of AᵀA v rounding is eps σ₁², and a product of two of them is divided by their σ.
        rounding = max(shape) * EPS * sigma[0] ** 2 / np.outer(sigma[:6], sigma[:6])
        assert (abs(other.T @ other - np.eye(6)) <= rounding).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(30, 20), (6, 60)])
def test_units_do_not_matter(shape, dtype):
    """Of AᵀA the numbers are squares: what leaves the range of float64 is iterated in other units."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal(shape) * (1 if dtype == "float64" else 1 + 1j)
    wanted = np.linalg.svd(a, compute_uv=False)[:3]
    for unit in (1e-300, 1e-100, 1e200):
        for given in [sp.csr_array(a * unit)] + [a * unit] * (dtype == "float64"):
            found = fl.linalg.svds(given, 3)
            assert abs(found.s / unit - wanted).max() <= 1e-9 * wanted[0]
            assert found.residual.max() / unit <= 1e-6 * wanted[0]
            u, vt = np.asarray(found.U), np.asarray(found.Vt)
            assert np.linalg.norm(a @ vt.conj().T - u * wanted) <= 1e-6 * wanted[0]


def test_what_is_returned(tmp_path):
    a = decaying(80, 30)
    s = fl.linalg.svds(a, 3, return_singular_vectors=False)
    left = fl.linalg.svds(a, 3, return_singular_vectors="u", out=tmp_path / "t.zarr")
    assert left.Vt is None
    assert np.array_equal(left.s, s)
    assert np.array_equal(fl.open(tmp_path / "t.zarr/s")[...], s)
    u, s, vt = fl.linalg.svds(a, 3)
    assert np.allclose(np.asarray(u) * s @ np.asarray(vt), (a @ np.asarray(vt).T) @ np.asarray(vt))
    assert "triplets" in repr(left)
    assert fl.linalg.svds.plan(a, 3).passes > 1


def test_what_is_refused():
    a = decaying(20, 10)
    for kind, match, given, options in [
        (fl.ShapeError, "complex", (a * 1j, 2), {}),
        (fl.ShapeError, "k is 11", (a, 11), {}),
        (fl.ShapeError, "svds: block is 99", (a, 2), {"block": 99}),
        (fl.ShapeError, "return_singular_vectors", (a, 2), {"return_singular_vectors": "x"}),
        (fl.ShapeError, "object", (object(), 2), {}),
        (fl.NumericalError, "svds: .* NaN", (np.where(a > 0.01, np.nan, a), 2), {}),
    ]:
        with pytest.raises(kind, match=match):
            fl.linalg.svds(*given, **options)
    with pytest.raises(fl.ConvergenceError, match="svds: after") as caught:
        fl.linalg.svds(np.random.default_rng(1).standard_normal((300, 200)), 3, block=1, ncv=8, maxiter=4)
    assert caught.value.partial.s.shape == (3,)


@pytest.mark.parametrize("rows", [12_000, 300], ids=["gram", "outer"])
def test_sums_of_wide_matrices_by_stripes(rows):
    """Sums over rows beyond what panels hold for themselves: right, and one result for any workers."""
    rng = np.random.default_rng(2)
    places = rng.integers(0, rows, 60_000), rng.integers(0, 40_000, 60_000)
    values = rng.standard_normal(60_000) / (1 + places[1] / 5)
    a = sp.csr_matrix((values, places), (rows, 40_000))
    A = fl.from_blocks([a[: rows // 2], a[rows // 2 :]])
    found = []
    for workers in (1, 2):
        with fl.Runtime("1GiB", workers=workers):
            s = fl.linalg.svds(A, 3, block=50)
            found.append((s.s, np.asarray(s.U), np.asarray(s.Vt)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    sigma, u, vt = found[0]
    wanted = np.sort(sp.linalg.svds(a, 3, return_singular_vectors=False, tol=0))[::-1]
    assert (abs(sigma - wanted) <= TOL * wanted).all()
    assert (np.linalg.norm(a @ vt.T - u * sigma, axis=0) <= 2 * TOL * sigma).all()
    assert (np.linalg.norm(a.T @ u - vt.T * sigma, axis=0) <= 2 * TOL * sigma).all()
