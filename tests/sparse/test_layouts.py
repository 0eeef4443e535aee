"""Storage forms: each opens as the same matrix, converts to the others, and takes the bytes it says."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone._maintenance.info import describe
from tests.support.processes import beside


def symmetric(n, density, dtype, rng):
    S = sp.random(n, n, density, format="csr", random_state=rng).astype(dtype)
    if np.dtype(dtype).kind == "c":
        S = (S + 1j * sp.random(n, n, density, format="csr", random_state=rng)).tocsr().astype(dtype)
    return (S + S.conj().T + sp.diags(rng.standard_normal(n))).tocsr().astype(dtype)


@pytest.mark.parametrize("layout", ["bitpacked", "pattern", "bitpacked+pattern"])
def test_forms_hold_the_same_matrix(layout, tmp_path, rng):
    S = sp.random(700, 90_000, 0.002, format="csr", random_state=rng, dtype="f4")
    if "pattern" in layout:
        S.data[:] = 1
    A = fl.from_blocks([S])
    fl.convert(A, tmp_path / "a.zarr", layout=layout)
    B = fl.open(tmp_path / "a.zarr")
    assert B.layout == layout
    assert B.dtype == np.float32
    assert abs(B.to_scipy() - S).max() == 0
    X = rng.standard_normal((90_000, 3)).astype("f4")
    np.testing.assert_array_equal(B @ X, A @ X)
    np.testing.assert_array_equal(B.T @ X[:700], A.T @ X[:700])
    assert fl.transpose(B).layout == "csr"
    told = describe(str(tmp_path / "a.zarr"))
    assert told["layout"] == layout
    assert told["bytes_a_stored_value"] == round(B.stored_bytes / B.nnz, 3)
    fl.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", layout="csr")
    assert fl.open(tmp_path / "b.zarr").layout == "csr"
    assert abs(fl.open(tmp_path / "b.zarr").to_scipy() - S).max() == 0
    assert fl.check(tmp_path / "a.zarr").ok


def test_peers_read_patterns(tmp_path, rng):
    zarr = pytest.importorskip("zarr")
    S = sp.random(300, 200, 0.1, format="csr", random_state=rng, dtype="f4")
    S.data[:] = 1
    fl.from_blocks([S], tmp_path / "a.zarr", layout="pattern")
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    parts = group["data"][...], group["indices"][...], group["indptr"][...]
    assert abs(sp.csr_matrix(parts, S.shape) - S).max() == 0


@pytest.mark.parametrize("dtype", ["f4", "D"])
def test_one_triangle_is_the_whole_matrix_in_products(dtype, tmp_path, rng):
    n = 900
    S = symmetric(n, 0.01, dtype, rng)
    A = fl.from_blocks([S])
    fl.convert(A, tmp_path / "t.zarr", layout="triangle")
    T = fl.open(tmp_path / "t.zarr")
    assert T.layout == "triangle"
    assert T.stored_values == sp.tril(S).nnz
    for width in (1, 40):
        X = rng.standard_normal((n, width)).astype(S.real.dtype)
        bound = 40 * np.finfo(S.real.dtype).eps * abs(S).max() * np.abs(X).max()
        for found, wanted in (
            (T @ X, S @ X), (X.T @ T, X.T @ S), (T.T @ X, S.T @ X), (T.H @ X, S @ X),
            ((T * 2) @ X, 2 * (S @ X)), (abs(T) @ X, abs(S) @ X), (fl.matmul(T, X, memory=beside(99)), S @ X),
        ):  # fmt: skip
            assert np.abs(found - wanted).max() <= bound
    factors = rng.random(n)
    np.testing.assert_allclose(
        T.scale(rows=factors, columns=factors) @ X, (sp.diags(factors) @ S @ sp.diags(factors)) @ X,
        rtol=0, atol=bound,
    )  # fmt: skip
    fl.convert(tmp_path / "t.zarr", tmp_path / "w.zarr", layout="csr")
    assert abs(fl.open(tmp_path / "w.zarr").to_scipy() - S).max() == 0
    w, V = fl.linalg.eigsh(T, 4, tol=1e-6)
    V = np.asarray(V)
    assert np.linalg.norm(S @ V - V * w, axis=0).max() <= 2e-6 * np.abs(w).max()


def test_triangles_of_edges_take_half(tmp_path, rng):
    edges = rng.integers(0, 3000, (2, 40_000))
    whole = fl.from_coo(tuple(edges), symmetric=True, duplicates="first")
    half = fl.from_coo(
        tuple(edges),
        tmp_path / "t.zarr",
        symmetric=True,
        duplicates="first",
        layout="triangle+pattern+bitpacked",
    )
    assert half.layout == "bitpacked+pattern+triangle"
    assert half.stored_bytes < 0.6 * whole.stored_bytes  # with pointers, in whole pages
    x = rng.standard_normal(3000)
    np.testing.assert_allclose(half @ x, whole @ x, rtol=0, atol=1e-11)


def test_what_a_form_cannot_hold_is_refused(tmp_path, rng):
    S = sp.random(50, 50, 0.2, format="csr", random_state=rng)
    A, target = fl.from_blocks([S]), tmp_path / "a.zarr"
    for layout, told in (
        ("triangle", "not symmetric"),
        ("pattern", "is not 1"),
        ("tile", "choose"),
        ("csr+pattern", "alone"),
    ):
        with pytest.raises((fl.ShapeError, fl.FormatError), match=told):
            fl.convert(A, target, layout=layout)
        assert not target.exists()
    tiny = sp.diags_array(np.full(50, 1e12)).tolil()
    tiny[3, 9] = 1e-3  # far below rounding of a product with a vector
    with pytest.raises(fl.ShapeError, match="not symmetric"):
        fl.convert(fl.from_blocks([tiny.tocsr()]), target, layout="triangle")
    with pytest.raises(fl.ShapeError, match="layout is of Zarr"):
        fl.convert(A, tmp_path / "a.npz", layout="bitpacked")


def test_a_triangle_gets_its_other_elements_once(tmp_path, rng):
    """What needs all elements writes them into scratch, once for all handles and views."""
    S = symmetric(400, 0.05, "D", rng)
    fl.convert(fl.from_blocks([S]), tmp_path / "t.zarr", layout="triangle")
    T = fl.open(tmp_path / "t.zarr")
    assert abs(T[5:90].to_scipy() - S[5:90]).max() == 0
    whole = T._whole("test")
    assert whole.path == (T * 2)._whole("test").path
    assert not whole.triangle
    assert whole.nnz == S.nnz
    factors = rng.random(400)
    for view, wanted in (
        (T * (1 + 2j), S * (1 + 2j)), (T.imag, S.imag), (T.conj(), S.conj()), (T.H, S.conj().T), (T.T, S.T),
        (T.scale(rows=factors), sp.diags(factors) @ S), (T[:, 3:7], S[:, 3:7]),
    ):  # fmt: skip
        assert abs(view.to_scipy() - wanted).max() <= 1e-15 * abs(S).max()
    place = whole.path
    del whole, view
    del T
    gc.collect()
    assert not Path(place).exists()  # it went with its handles
