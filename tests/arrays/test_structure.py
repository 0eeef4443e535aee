"""Structured matrices against NumPy: every dtype, triangle and storage, all boxes, one triangle read."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl

DTYPES = ["float32", "float64", "complex64", "complex128", "int8", "uint16", "bool"]


def random(n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "biu":
        return rng.integers(0, 100, (n, n)).astype(dtype)
    x = rng.standard_normal((n, n))
    return (x + 1j * rng.standard_normal((n, n)) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def expected(x, kind, uplo, unit=False):
    half, strict = (np.tril(x), np.tril(x, -1)) if uplo == "lower" else (np.triu(x), np.triu(x, 1))
    if kind == "triangular":
        return strict + np.eye(len(x), dtype=x.dtype) if unit else half
    whole = half + strict.T if kind == "symmetric" else half + strict.conj().T
    if kind == "hermitian" and x.dtype.kind == "c":
        whole[np.diag_indices(len(x))] = np.diagonal(x).real
    return whole


def spoilt(x, uplo):
    """The other triangle holds what must not be seen."""
    bad = x.copy()
    fill = {"f": np.nan, "c": np.nan, "b": True}.get(x.dtype.kind, 77)
    bad[np.triu_indices(len(x), 1) if uplo == "lower" else np.tril_indices(len(x), -1)] = fill
    return bad


def stored(x, kind, folder):
    if kind == "zarr":
        X = fl.create(folder / "x.zarr", x.shape, x.dtype, chunks=(7, 11), overwrite=True)
        X[...] = x
        return X
    if kind == "packed":
        X = fl.create(folder / "p.zarr", x.shape, x.dtype, chunks=(16, 16), codec="zstd:1", overwrite=True)
        X[...] = x
        return X
    if kind == "turned":
        return fl.from_numpy(x.T.copy(), folder / "t.npy", overwrite=True).T
    return fl.from_numpy(x) if kind == "memory" else fl.from_numpy(x, folder / "x.npy", overwrite=True)


@pytest.mark.parametrize("place", ["memory", "npy", "zarr", "packed", "turned"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["lower", "upper"])
def test_every_box_is_numpys(tmp_path, place, dtype, uplo):
    x = random(41, dtype)
    X = stored(spoilt(x, uplo), place, tmp_path)
    rng = np.random.default_rng(1)
    for kind, unit in (
        ("symmetric", False),
        ("hermitian", False),
        ("triangular", False),
        ("triangular", True),
    ):
        more = {"unit_diagonal": True} if unit else {}
        S, wanted = getattr(fl, kind)(X, uplo, **more), expected(x, kind, uplo, unit)
        np.testing.assert_array_equal(np.asarray(S), wanted)
        np.testing.assert_array_equal(np.asarray(S.T), wanted.T)
        for _ in range(12):
            (a, b), (c, d) = np.sort(rng.integers(0, 42, (2, 2)), 1)
            np.testing.assert_array_equal(S[a:b, c:d], wanted[a:b, c:d])
        np.testing.assert_array_equal(S[3, 30], wanted[3, 30])
        np.testing.assert_array_equal(S[::3, 5:40:2], wanted[::3, 5:40:2])


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("uplo", ["lower", "upper"])
def test_routines_take_them(tmp_path, dtype, uplo):
    """symm, hemm and trmm, either side; sums; copies; another's transpose."""
    x, b = random(1100, dtype), random(1100, dtype, 2)[:, :30]
    X = fl.from_numpy(spoilt(x, uplo), tmp_path / "x.zarr")
    eps = np.finfo(dtype).eps
    for kind in ("symmetric", "hermitian", "triangular"):
        S, s = getattr(fl, kind)(X, uplo), expected(x, kind, uplo)
        bound = 3 * eps * np.sqrt(1102) * np.linalg.norm(s) * np.linalg.norm(b)
        assert np.linalg.norm(np.asarray(S @ fl.from_numpy(b)) - s @ b) <= bound
        assert np.linalg.norm(np.asarray(fl.from_numpy(b.T.copy()) @ S) - b.T @ s) <= bound
        assert np.linalg.norm(np.asarray(S.conj().T @ fl.from_numpy(b)) - s.conj().T @ b) <= bound
        np.testing.assert_array_equal(fl.compute(S, out=tmp_path / "copy.npy", memory="2GiB")[...], s)
        np.testing.assert_allclose(float(fl.linalg.matrix_norm(S, ord=1)), np.linalg.norm(s, 1), rtol=1e-5)


def test_one_triangle_is_read(tmp_path):
    x = random(4096, "float32")
    X = fl.from_numpy(x, tmp_path / "x.zarr")  # 16 chunks of 4 MiB
    chunk = 1024 * 1024 * 4
    fl.compute(fl.triangular(X).sum(), memory="2GiB")
    assert fl.stats().bytes_read == 10 * chunk
    fl.compute(fl.symmetric(X).sum(), memory="2GiB")
    assert fl.stats().bytes_read == 16 * chunk  # mirrored ones once more
    S = fl.symmetric(fl.linalg.rank_k_update(X[:, :8], uplo="lower", out=tmp_path / "c.zarr"))
    whole = x[:, :8].astype(float) @ x[:, :8].T.astype(float)
    np.testing.assert_allclose(S[:50, -50:], whole[:50, -50:], atol=1e-4)


@pytest.mark.parametrize("uplo", ["lower", "upper"])
def test_products_leave_out_zero_tiles(tmp_path, rng, uplo):
    """trmm: half of the flops but for tiles on the diagonal, either side, α and β, with C in place or not."""
    n, cols = 3000, 600  # steps of 512: as long as the longer chunks of the two
    x, b, c = (rng.standard_normal(shape) for shape in ((n, n), (n, cols), (n, cols)))
    t = expected(x, "triangular", uplo)
    T = fl.triangular(fl.from_numpy(spoilt(x, uplo), tmp_path / "x.zarr"), uplo)
    made = fl.matmul(T, b, out=fl.from_numpy(c, tmp_path / "c.zarr"), alpha=2, beta=-1)
    assert fl.stats().flops < 0.85 * 2 * n * n * cols
    np.testing.assert_allclose(made[...], 2 * t @ b - c, atol=1e-10)
    for left, right, wanted in ((b.T.copy(), T, b.T @ t), (T.T, b, t.T @ b)):
        np.testing.assert_allclose(np.asarray(fl.matmul(left, right)), wanted, atol=1e-10)
        assert fl.stats().flops < 0.85 * 2 * n * n * cols
    square = np.asarray(fl.matmul(T, T))
    np.testing.assert_allclose(square, t @ t, atol=1e-10)
    assert fl.stats().flops < 0.55 * 2 * n**3


@pytest.mark.parametrize("uplo", ["lower", "upper"])
@pytest.mark.parametrize("shape", [(130, 40), (40, 130), (1, 5), (5, 1), (0, 3)])
def test_trapezoids(tmp_path, rng, shape, uplo):
    """Boxes, norms and products of m x n ones; NaN beside them is never looked at."""
    keep, drop = (np.tril, np.triu) if uplo == "lower" else (np.triu, np.tril)
    x = keep(rng.standard_normal(shape))
    spoiled = np.where(drop(np.ones(shape), 1 if uplo == "lower" else -1) > 0, np.nan, x)
    T = fl.triangular(fl.from_numpy(spoiled, tmp_path / "x.zarr", chunks=(16, 16)), uplo)
    np.testing.assert_array_equal(np.asarray(T), x)
    np.testing.assert_array_equal(T[1:9, 2:33], x[1:9, 2:33])
    with_ones = x.copy()
    np.fill_diagonal(with_ones, 1)
    np.testing.assert_array_equal(np.asarray(fl.triangular(spoiled, uplo, unit_diagonal=True)), with_ones)
    np.testing.assert_allclose(np.asarray(T @ np.eye(shape[1])), x)
    if x.size:
        for ord in ("fro", 1, np.inf):
            np.testing.assert_allclose(fl.linalg.matrix_norm(T, ord=ord), np.linalg.norm(x, ord))
    if shape[0] != shape[1]:
        with pytest.raises(fl.ShapeError, match="square"):
            fl.linalg.inv(T)


def test_refusals():
    with pytest.raises(fl.ShapeError, match="symmetric: A is 3 x 4; a square matrix"):
        fl.symmetric(np.ones((3, 4)))
    with pytest.raises(fl.ShapeError, match="uplo is 'L'"):
        fl.triangular(np.ones((3, 3)), "L")
    with pytest.raises(fl.StorageError):
        fl.symmetric(fl.from_numpy(np.ones((3, 3))))[0, 0] = 1
    assert np.asarray(fl.hermitian(np.empty((0, 0)))).shape == (0, 0)
