"""Complex sparse matrices: SciPy's results, from files, through products to Hermitian eigenpairs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import flagstone as fl


def complex_csr(m, n, density, dtype, rng):
    parts = [sp.random(m, n, density, format="csr", random_state=rng) for _ in range(2)]
    return (parts[0] + 1j * parts[1]).tocsr().astype(dtype)


def block(rows, cols, dtype, rng):
    return (rng.standard_normal((rows, cols)) + 1j * rng.standard_normal((rows, cols))).astype(dtype)


def close(found, wanted, dtype, terms):
    """Sums of `terms` products round off by as many units at most."""
    bound = 4 * terms * np.finfo(dtype).eps * np.abs(wanted).max()
    assert found.dtype == dtype
    assert np.abs(np.asarray(found) - wanted).max(initial=0) <= bound


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("width", [3, 37])
def test_products(dtype, width, rng):
    S = complex_csr(301, 203, 0.05, dtype, rng)
    S = sp.vstack([S[:7], sp.csr_matrix((1, 203), dtype=dtype), S[8:]]).tocsr()  # a row without values
    A = fl.from_blocks([S[:100], S[100:]])
    X, Z = block(203, width, dtype, rng), block(301, width, dtype, rng)
    for found, wanted in (
        (A @ X, S @ X), (A.T @ Z, S.T @ Z), (A.conj() @ X, S.conj() @ X), (A.H @ Z, S.conj().T @ Z),
        (Z.T @ A, Z.T @ S), (Z.conj().T @ A.conj(), Z.conj().T @ S.conj()),
        (A.gram(X), S.conj().T @ (S @ X)), (A @ X[:, 0], S @ X[:, 0]),
    ):  # fmt: skip
        close(found, wanted, dtype, 301 + 203)
    out = block(301, width, dtype, rng)
    wanted = (2 - 1j) * (S @ X) + 1j * out
    close(fl.matmul(A, X, out=out, alpha=2 - 1j, beta=1j), wanted, dtype, 203)


def test_real_and_complex_operands_mix(rng):
    S = complex_csr(60, 50, 0.1, "complex128", rng)
    A, R = fl.from_blocks([S]), fl.from_blocks([S.real.astype("f4")])
    X = block(50, 5, "complex64", rng)
    close(R @ X, S.real @ X, "complex64", 50)
    close(A @ X.real, S @ X.real, "complex64", 50)
    close((R * 2j) @ X, 2j * S.real @ X, "complex64", 50)
    close(A.real.log1p() @ X.real, np.log1p(S.real) @ X.real, "float32", 50)
    close(abs(A) @ X.real, abs(S) @ X.real, "float32", 50)
    with pytest.raises(fl.ShapeError, match="alpha is complex"):
        fl.matmul(R, X.real, alpha=1j)


def test_larger_than_memory_gives_the_same_bits(tmp_path, rng):
    S = complex_csr(3000, 2000, 0.01, "complex64", rng)
    A = fl.from_blocks([S])
    X = fl.from_numpy(block(2000, 130, "complex64", rng), tmp_path / "x.zarr")
    wanted = None
    least = fl.matmul.plan(A, X, out=tmp_path / "p.zarr").least_memory
    for memory in (least + (8 << 20), least + (200 << 20)):
        found = fl.matmul(A, X, out=tmp_path / f"{memory}.zarr", memory=memory)[...]
        if wanted is not None:
            np.testing.assert_array_equal(found, wanted)
        wanted = found
    close(wanted, S @ X[...], "complex64", 2000)


def test_views_and_reductions(rng):
    S = complex_csr(80, 70, 0.1, "complex128", rng)
    A = fl.from_blocks([S])
    for found, wanted in (
        (A.real, S.real), (A.imag, S.imag), (abs(A), abs(S)), (A.conj(), S.conj()),
        (A * (1 + 2j), S * (1 + 2j)),
        (A.map("square"), S.power(2)), (np.sqrt(A), S.sqrt()), (A[3:40, ::2], S[3:40, ::2]), (-A, -S),
        (A.scale(rows=np.arange(80.0)), sp.diags(np.arange(80.0)) @ S),
        (A.astype("complex64"), S.astype("F")),
    ):  # fmt: skip
        found = found.to_scipy()
        assert found.dtype == wanted.dtype
        assert abs(found - wanted).max() <= 1e-14 * max(1, abs(wanted).max())
    assert A.sum() == pytest.approx(S.sum())
    np.testing.assert_allclose(A.mean(0), np.asarray(S.mean(0)).ravel(), rtol=1e-13)
    assert A.norm() == pytest.approx(np.linalg.norm(S.data))
    assert A.norm(1) == pytest.approx(abs(S).sum(0).max())
    assert A.count_nonzero() == S.count_nonzero()
    for refused in (lambda: A.max(), lambda: A.above(0), lambda: A.map("floor"), lambda: A.astype("f8")):
        with pytest.raises((fl.ShapeError, TypeError), match="complex"):
            refused()


def test_chosen_columns_are_counted_and_turned(rng):
    a = complex_csr(40, 30, 0.3, "complex128", rng)
    some = fl.from_blocks([a])[:, 3:20]
    assert some.nnz == a[:, 3:20].nnz
    np.testing.assert_array_equal(some.getnnz(0), a[:, 3:20].getnnz(0))
    np.testing.assert_array_equal(fl.transpose(some).to_scipy().toarray(), a[:, 3:20].T.toarray())
    with pytest.raises(fl.ShapeError, match="matmul: A is complex128; over a semiring, .* real values"):
        fl.matmul(some, np.ones(17), mask=np.ones(40, bool))


def test_written_results(rng):
    S, T = (complex_csr(90, 70, 0.08, "complex64", rng) for _ in range(2))
    A, B = fl.from_blocks([S]), fl.from_blocks([T])
    for found, wanted in (
        (A + B, S + T), (A.multiply(B), S.multiply(T).tocsr()), (fl.transpose(A.H), S.conj()),
        (A @ fl.transpose(B), (S @ T.T).tocsr()), (A.tril(), sp.tril(S).tocsr()),
        (fl.concat([A, B]), sp.vstack([S, T])),
    ):  # fmt: skip
        assert found.dtype == "complex64"
        assert abs(found.to_scipy() - wanted).max() <= 1e-4
    np.testing.assert_array_equal(A.diagonal(), S.diagonal())


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "mtx"])
def test_files(kind, tmp_path, rng):
    S = complex_csr(50, 40, 0.1, "complex128", rng)
    path = tmp_path / ("a.mtx" if kind == "mtx" else "a.npz")
    if kind == "mtx":
        scipy.io.mmwrite(path, S)
    else:
        sp.save_npz(path, S.asformat(kind))
    A = fl.open(path)
    assert isinstance(A, fl.SparseArray)
    assert abs(A.to_scipy() - S).max() <= 1e-15
    fl.convert(A, tmp_path / "b.npz")
    assert abs(sp.load_npz(tmp_path / "b.npz") - S).max() <= 1e-15
    fl.convert(path, tmp_path / "b.zarr")
    assert abs(fl.open(tmp_path / "b.zarr").to_scipy() - S).max() <= 1e-15


@pytest.mark.parametrize("which", ["LM", "BE"])
def test_hermitian_eigenpairs(which, rng):
    S = complex_csr(300, 300, 0.03, "complex128", rng)
    S = (S + S.conj().T).tocsr()
    w, V = fl.linalg.eigsh(fl.from_blocks([S]), 6, which=which, tol=1e-9)
    V = np.asarray(V)
    norm = np.abs(np.linalg.eigvalsh(S.toarray())).max()
    assert np.linalg.norm(S @ V - V * w, axis=0).max() <= 1e-9 * norm
    assert np.abs(V.conj().T @ V - np.eye(6)).max() <= 1e-12
    all_values = np.linalg.eigvalsh(S.toarray())
    wanted = {
        "LM": all_values[np.argsort(-np.abs(all_values))[:6]], "LA": all_values[:-7:-1], "SA": all_values[:6],
        "BE": np.r_[all_values[:3], all_values[-3:]],
    }[which]  # fmt: skip
    np.testing.assert_allclose(np.sort(w), np.sort(wanted), rtol=0, atol=1e-9 * norm)


def test_integers_are_exact_where_asked_for(rng):
    S = sp.random(100, 80, 0.1, format="csr", random_state=1)
    S.data = rng.integers(-(2**40), 2**40, S.nnz)
    S = S.astype("i8")
    A, X = fl.from_blocks([S]), rng.integers(-(2**40), 2**40, (80, 4))
    np.testing.assert_array_equal(fl.matmul(A, X, dtype="int64"), S @ X)  # wraps as NumPy's
    np.testing.assert_array_equal(fl.matmul(A, X[:, 0], dtype="int32"), (S @ X[:, 0]).astype("i4"))
    np.testing.assert_array_equal(fl.matmul(X.T, A.T, dtype="int64"), X.T @ S.T)
    assert fl.matmul(A, X, dtype="float32").dtype == np.float32
    with pytest.raises(fl.ShapeError, match="need integers in both"):
        fl.matmul(A.astype("f8"), X, dtype=int)


@pytest.mark.parametrize("shape", [(120, 60), (30, 300)])
def test_singular_triplets(shape, rng):
    S = complex_csr(*shape, 0.15, "complex128", rng)
    A = fl.from_blocks([S])
    for given, matrix in ((A, S), (A.T, S.T), (A.H, S.conj().T)):
        U, s, Vt = (np.asarray(part) for part in fl.linalg.svds(given, 4, tol=1e-9))
        exact = np.linalg.svd(matrix.toarray(), compute_uv=False)
        np.testing.assert_allclose(s, exact[:4], rtol=1e-9)
        assert np.abs(matrix @ Vt.conj().T - U * s).max() <= 1e-8 * s[0]
        assert np.abs(matrix.conj().T @ U - Vt.conj().T * s).max() <= 1e-7 * s[0]
