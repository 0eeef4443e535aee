"""Principal components against float64 LAPACK, on real sets and on spectra that are easy to get wrong."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.decomposition import PCA

import flagstone as fl

METHODS = ["gram", "krylov"]


def truth(x: np.ndarray, center=True):
    """Mean, all singular values and right vectors of the centred matrix, by LAPACK in float64."""
    x = np.asarray(x, np.float64)
    mean = x.mean(axis=0) if center else np.zeros(x.shape[1])
    _, s, vt = scipy.linalg.svd(x - mean, full_matrices=False)
    return mean, s, vt


def check(r, x, k, *, center=True, tol=1e-5, dtype="float64"):
    """Everything a result promises, with bounds from tol and the rounding of the scores' dtype."""
    x = np.asarray(x, np.float64)
    m, n = x.shape
    mean, s, vt = truth(x, center)
    centred = x - mean
    eps = np.finfo(dtype).eps
    assert r.components.shape == (k, n)
    assert tuple(r.scores.shape) == (m, k)
    top = s[0] if s[0] > 0 else 1.0
    np.testing.assert_allclose(r.singular_values, s[:k], rtol=0, atol=tol * top)
    assert np.all(np.diff(r.singular_values) <= 1e-12 * top)
    np.testing.assert_allclose(r.mean, mean, rtol=0, atol=1e-12 * (1 + np.abs(x).max()))
    np.testing.assert_allclose(r.components @ r.components.T, np.eye(k), rtol=0, atol=1e3 * eps)
    divisor = max(m - 1, 1)
    np.testing.assert_allclose(r.explained_variance, r.singular_values**2 / divisor, rtol=1e-10, atol=1e-300)
    total = np.sum(s**2) / divisor
    # A matrix without variance (but for rounding) has no ratio.
    share = r.explained_variance / total if total > (eps * np.abs(x).max() * m * n) ** 2 else np.zeros(k)
    if total > 0 and not share.any():
        assert np.all(np.isfinite(r.explained_variance_ratio))
    else:
        np.testing.assert_allclose(r.explained_variance_ratio, share, rtol=1e-6, atol=1e-12)
    scores = r.scores[...].astype(np.float64)
    np.testing.assert_allclose(scores, centred @ r.components.T, rtol=0, atol=max(tol, 100 * eps) * top)
    # The residual that was reported is the residual.
    sigma = np.asarray(r.singular_values)
    seen = sigma > 1e-3 * top
    product = centred @ r.components.T
    true_residual = np.linalg.norm(
        centred.T @ product / np.where(sigma > 0, sigma, 1) - sigma * r.components.T, axis=0
    )
    np.testing.assert_allclose(np.asarray(r.residual)[seen], true_residual[seen], rtol=0.2, atol=1e-4 * top)
    # Directions, where the neighbours are far enough for the direction to be determined.
    for i in range(k):
        gap = min(abs(s[i] - s[j]) for j in (i - 1, i + 1) if 0 <= j < len(s)) if len(s) > 1 else top
        if gap > 0.02 * top and s[i] > 1e-6 * top:
            assert abs(abs(r.components[i] @ vt[i]) - 1) < 1e-3
    return s


def spectrum(rng, m, n, s):
    """A matrix with the given singular values (before centring)."""
    k = len(s)
    u = np.linalg.qr(rng.standard_normal((m, k)))[0]
    v = np.linalg.qr(rng.standard_normal((n, k)))[0]
    return (u * s) @ v.T


def cells(rng, m, n, types=5):
    """Counts with a few kinds of rows."""
    rates = rng.gamma(0.3, 2.0, (types, n))
    return rng.poisson(rates[rng.integers(0, types, m)] * rng.gamma(5, 0.2, (m, 1)))


SYNTHETIC = {
    "tall": lambda rng: (rng.standard_normal((700, 60)) @ rng.standard_normal((60, 60)), 10),
    "wide": lambda rng: (rng.standard_normal((60, 700)) * np.linspace(3, 0.1, 700), 10),
    "square": lambda rng: (rng.standard_normal((200, 200)), 5),
    "cells": lambda rng: (cells(rng, 800, 90).astype(float), 8),
    "decay": lambda rng: (spectrum(rng, 500, 120, 2.0 ** -np.arange(30)) + 3, 12),
    "rank deficient": lambda rng: (rng.standard_normal((300, 4)) @ rng.standard_normal((4, 80)), 9),
    "rank one": lambda rng: (np.outer(rng.random(200), rng.random(50)), 3),
    "constant columns": lambda rng: (np.where(np.arange(40) % 2, rng.random((150, 40)), 7.0), 6),
    "all constant": lambda rng: (np.full((90, 30), 3.0), 4),
    "zero": lambda rng: (np.zeros((90, 30)), 4),
    "clustered": lambda rng: (spectrum(rng, 400, 100, np.r_[[1.0] * 6, [0.5] * 6, [0.01] * 30]), 9),
    "large mean": lambda rng: (rng.standard_normal((500, 40)) + 1e4, 5),
    "k = n": lambda rng: (rng.standard_normal((100, 20)), 20),
    "k = n - 1": lambda rng: (rng.standard_normal((100, 20)), 19),
    "k = m": lambda rng: (rng.standard_normal((20, 100)), 20),
    "k = m - 1": lambda rng: (rng.standard_normal((20, 100)), 19),
    "one column": lambda rng: (rng.standard_normal((100, 1)), 1),
    "two rows": lambda rng: (rng.standard_normal((2, 30)), 1),
}


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("name", SYNTHETIC)
def test_dense_spectra(tmp_path, rng, name, method):
    x, k = SYNTHETIC[name](rng)
    check(fl.pca(fl.from_numpy(x, str(tmp_path / "x.zarr")), k, method=method), x, k)


@pytest.mark.parametrize("method", [*METHODS, "krylov-schur", "auto"])
@pytest.mark.parametrize("name", SYNTHETIC)
def test_sparse_spectra(tmp_path, rng, name, method):
    x, k = SYNTHETIC[name](rng)
    x = np.where(rng.random(x.shape) < 0.4, x, 0)
    r = fl.pca(fl.from_blocks([sp.csr_matrix(x)], str(tmp_path / "x.zarr")), k, method=method)
    check(r, x, k)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "int32"])
def test_dtypes(tmp_path, rng, method, dtype):
    x = cells(rng, 600, 70).astype(dtype)
    check(fl.pca(fl.from_numpy(x, str(tmp_path / "x.zarr")), 6, method=method), x, 6, dtype="float32")
    sparse = fl.from_blocks([sp.csr_matrix(x)], str(tmp_path / "s.zarr"))
    check(fl.pca(sparse, 6, method=method), x, 6, dtype="float32")


@pytest.mark.parametrize("method", [*METHODS, "krylov-schur"])
@pytest.mark.parametrize("source", ["dense", "sparse"])
def test_without_centring(tmp_path, rng, method, source):
    x = cells(rng, 500, 60).astype(float)
    a = x if source == "dense" else fl.from_blocks([sp.csr_matrix(x)], str(tmp_path / "x.zarr"))
    check(fl.pca(a, 5, center=False, method=method), x, 5, center=False)


@pytest.mark.parametrize(
    "source", ["npy", "npy_f", "npy_odd", "zarr_small", "memory", "memory_f", "transposed"]
)
def test_layouts(tmp_path, rng, source):
    from tests.support.processes import stored

    x = cells(rng, 900, 50).astype(float)
    if source == "transposed":
        a = stored(np.ascontiguousarray(x.T), "npy", tmp_path / "x").T
    else:
        a = stored(x, source, tmp_path / "x")
    check(fl.pca(a, 5), x, 5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(500, 40), (40, 500)])
def test_signs_as_in_scikit_learn(tmp_path, rng, method, shape):
    x = rng.standard_normal(shape) * np.geomspace(10, 0.1, shape[1])
    theirs = PCA(6, svd_solver="full").fit(x)
    ours = fl.pca(fl.from_numpy(x, str(tmp_path / "x.zarr")), 6, method=method, tol=1e-8)
    np.testing.assert_allclose(ours.components, theirs.components_, rtol=0, atol=1e-4)
    np.testing.assert_allclose(ours.scores[...], theirs.transform(x), rtol=0, atol=1e-3)
    np.testing.assert_allclose(ours.explained_variance_ratio, theirs.explained_variance_ratio_, rtol=1e-5)


def test_transform(tmp_path, rng):
    x, y = cells(rng, 400, 50).astype(float), cells(rng, 100, 50).astype(float)
    r = fl.pca(fl.from_numpy(x, str(tmp_path / "x.zarr")), 4)
    expected = (y - x.mean(axis=0)) @ r.components.T
    for given in (y, fl.from_numpy(y, str(tmp_path / "y.zarr")), fl.from_blocks([sp.csr_matrix(y)])):
        result = r.transform(given)
        result = result if isinstance(result, np.ndarray) else result[...]
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-4)
    with pytest.raises(fl.ShapeError, match=r"50.*49|49.*50"):
        r.transform(y[:, :49])


@pytest.mark.parametrize("method", METHODS)
def test_seed(tmp_path, rng, method):
    x = cells(rng, 500, 80).astype("float32")
    a = fl.from_blocks([sp.csr_matrix(x)], str(tmp_path / "x.zarr"))
    first, again = fl.pca(a, 5, method=method, seed=3), fl.pca(a, 5, method=method, seed=3)
    assert first.components.tobytes() == again.components.tobytes()
    assert first.scores[...].tobytes() == again.scores[...].tobytes()
    other = fl.pca(a, 5, method=method, seed=4)
    np.testing.assert_allclose(other.singular_values, first.singular_values, rtol=1e-4)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_tolerance_is_kept_on_a_slow_spectrum(tmp_path, rng, tol):
    """Many values close together: where few passes leave the most."""
    x = spectrum(rng, 1500, 400, 1 / np.sqrt(1 + np.arange(400)))
    r = fl.pca(fl.from_numpy(x, str(tmp_path / "x.zarr")), 20, method="krylov", tol=tol)
    s = truth(x)[1]
    assert np.max(np.abs(r.singular_values - s[:20])) <= tol * s[0]


def test_input_is_not_modified(tmp_path, rng):
    x = cells(rng, 300, 40).astype("float32")
    np.save(tmp_path / "x.npy", x)
    before = (tmp_path / "x.npy").read_bytes()
    fl.pca(fl.open(str(tmp_path / "x.npy")), 3)
    assert (tmp_path / "x.npy").read_bytes() == before


def test_out_is_written_and_replaced(tmp_path, rng):
    path = str(tmp_path / "r.zarr")
    x = rng.standard_normal((200, 30))
    first = fl.pca(x, 3, out=path)
    assert (tmp_path / "r.zarr").is_dir()
    kept = first.scores[...]
    second = fl.pca(x[:100], 4, out=path)
    assert tuple(second.scores.shape) == (100, 4)
    np.testing.assert_array_equal(first.scores[...], kept)  # who has the old version open keeps it
    assert [p.name for p in tmp_path.iterdir()] == ["r.zarr"]


def test_result_is_a_named_tuple(rng):
    r = fl.pca(rng.standard_normal((60, 20)), 3)
    assert isinstance(r, tuple)
    assert r._fields[:7] == (
        "components",
        "singular_values",
        "explained_variance",
        "explained_variance_ratio",
        "mean",
        "scores",
        "residual",
    )


def load(shared_data, name):
    if name == "mnist":
        raw = gzip.decompress((shared_data / "mnist-t10k/t10k-images-idx3-ubyte.gz").read_bytes())
        return np.frombuffer(raw, np.uint8, offset=16).reshape(10_000, 784)
    return sp.load_npz(shared_data / name).tocsr()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("mnist", 40),
        ("multilabel/corel5k.train.X.npz", 30),
        ("multilabel/delicious.train.X.npz", 50),
        ("multilabel/tmc2007-500.train.X.npz", 20),
        ("multilabel/bibtex.train.X.npz", 30),
    ],
)
def test_real_sets(tmp_path, shared_data, name, k, method):
    x = load(shared_data, name)
    if sp.issparse(x):
        a = fl.open(str(shared_data / name))
        dense = x.toarray().astype(np.float64)
    else:
        a = fl.from_numpy(x, str(tmp_path / "x.zarr"))
        dense = x.astype(np.float64)
    r = fl.pca(a, k, method=method)
    mean = dense.mean(axis=0)
    gram = (dense - mean).T @ (dense - mean)
    n = len(gram)
    s = np.sqrt(np.maximum(scipy.linalg.eigvalsh(gram, subset_by_index=[n - k, n - 1])[::-1], 0))
    assert np.max(np.abs(r.singular_values - s)) <= 1e-5 * s[0]
    assert np.max(r.residual) <= 0.05 * s[0]
    np.testing.assert_allclose(r.scores[...], (dense - mean) @ r.components.T, rtol=0, atol=2e-5 * s[0])


@pytest.mark.parametrize(
    ("name", "k"),
    [pytest.param("ecrtm-20NG/train_bow.npz", 20, marks=pytest.mark.slow), ("topmost-NYT/test_bow.npz", 20)],
)
def test_real_sets_with_many_columns(shared_data, name, k):
    x = load(shared_data, name).astype(np.float64)
    r = fl.pca(fl.open(str(shared_data / name)), k)
    mean = np.asarray(x.mean(axis=0))
    small = x if x.shape[0] >= x.shape[1] else x.T
    # The Gram matrix of the smaller side, centred, by LAPACK.
    gram = (small.T @ small).toarray()
    if small is x:
        gram -= x.shape[0] * np.outer(mean, mean)
    else:
        side = x @ mean.ravel()
        gram += mean.ravel() @ mean.ravel() - side[:, None] - side[None, :]
    n = len(gram)
    s = np.sqrt(scipy.linalg.eigvalsh(gram, subset_by_index=[n - k, n - 1])[::-1])
    assert np.max(np.abs(r.singular_values - s)) <= 1e-5 * s[0]


@pytest.mark.parametrize("method", ["gram", "krylov"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("dtype", "unit"), [("f4", 1e-25), ("f4", 1e25), ("f8", 1e-100), ("f8", 1e100)])
def test_units_do_not_matter(method, kind, dtype, unit):
    """SI units of small things: the squares leave float32's range, or the residuals' squares float64's."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60_000, 20)) * np.geomspace(5, 0.2, 20)  # enough for products in float32
    found = fl.pca(kind((x * unit).astype(dtype)), 3, method=method)
    wanted = np.linalg.svd(np.linalg.qr(x - x.mean(0), mode="r"), compute_uv=False)[:3]
    np.testing.assert_allclose(found.singular_values / unit, wanted, rtol=1e-5)
    assert np.all(found.residual <= 2e-2 * found.singular_values[0])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("unit", "word"), [(1e-160, "underflow"), (1e160, "overflow")])
def test_squares_beyond_float64_are_refused(kind, unit, word):
    x = np.random.default_rng(4).standard_normal((300, 20)) * unit
    for method in ("gram", "krylov"):
        with pytest.raises(fl.NumericalError, match=word):
            fl.pca(kind(x), 3, method=method)
    assert fl.pca(kind(np.zeros((300, 20))), 3).singular_values.max() == 0


def test_constant_columns_have_no_variance():
    found = fl.pca(np.full((300, 20), 1e-60), 2)
    assert found.singular_values.max() <= 1e-70


def test_a_sparse_matrix_with_large_means():
    """XᵀX - m mean meanᵀ cancels: auto takes the other way, and gram says why it cannot."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((300, 20)) * np.geomspace(3, 1, 20) + 1e7
    wanted = np.linalg.svd(x - x.mean(0), compute_uv=False)[:5]
    found = fl.pca(sp.csr_matrix(x), 5)
    np.testing.assert_allclose(found.singular_values, wanted, rtol=1e-5)
    assert "cancel" in fl.pca.plan(sp.csr_matrix(x), 5).note
    with pytest.raises(fl.NumericalError, match="krylov"):
        fl.pca(sp.csr_matrix(x), 5, method="gram")
    wide = (rng.standard_normal((60_000, 20)) * np.geomspace(3, 1, 20) + 1e3).astype("f4")
    wanted = np.linalg.svd(wide - wide.mean(0, dtype="f8"), compute_uv=False)[:5]
    for method in METHODS:
        found = fl.pca(sp.csr_matrix(wide), 5, method=method)
        np.testing.assert_allclose(found.singular_values, wanted, rtol=0, atol=1e-5 * wanted[0])


def test_a_matrix_by_columns_is_turned_into_scratch(tmp_path):
    by_rows = sp.random(600, 80, 0.2, format="csr", random_state=3, dtype=np.float64)
    X = fl.from_blocks([by_rows], tmp_path / "x.zarr")
    by_columns = fl.from_blocks([by_rows.T.tocsr()], tmp_path / "t.zarr").T
    expected, found = fl.pca(X, 4), fl.pca(by_columns, 4)
    np.testing.assert_array_equal(found.singular_values, expected.singular_values)
    np.testing.assert_array_equal(found.scores[...], expected.scores[...])
    np.testing.assert_array_equal(found.transform(by_columns)[...], expected.transform(X)[...])
    assert fl.pca.plan(by_columns, 4).passes == fl.pca.plan(X, 4).passes


def test_views_of_a_matrix_by_columns(tmp_path, rng):
    """Chosen, scaled and mapped: what the same view of the matrix by rows gives, bit for bit."""
    by_rows = sp.random(300, 80, 0.2, format="csr", random_state=3, dtype=np.float64)
    X = fl.from_blocks([by_rows], tmp_path / "x.zarr")
    by_columns = fl.from_blocks([by_rows.T.tocsr()], tmp_path / "t.zarr").T
    cells, genes = rng.random(300) < 0.6, rng.random(80) < 0.7

    def views(A):
        yield A.scale(factor=2.0)
        yield A[cells]
        yield A[:, genes].scale(columns=np.arange(1.0, genes.sum() + 1)).map("log1p")
        yield A[cells][:, genes].scale(rows=np.arange(1.0, cells.sum() + 1))
        yield A.scale(rows=np.arange(1.0, 301), columns=np.arange(1.0, 81))[cells, 10:]

    for one, other in zip(views(X), views(by_columns), strict=True):
        expected, found = fl.pca(one, 4), fl.pca(other, 4)
        np.testing.assert_array_equal(found.singular_values, expected.singular_values)
        np.testing.assert_array_equal(found.scores[...], expected.scores[...])
        np.testing.assert_array_equal(found.transform(other)[...], expected.transform(one)[...])


def test_what_anndata_holds_open_and_names(tmp_path):
    anndata = pytest.importorskip("anndata")
    for kind, X in (
        ("csr", sp.random(90, 30, 0.2, "csr", random_state=0)),
        ("csc", sp.random(90, 30, 0.2, "csc", random_state=0)),
        ("dense", np.random.default_rng(0).random((90, 30))),
    ):
        made = anndata.AnnData(X)
        made.var_names = [f"gene {i}" for i in range(30)]
        made.write_h5ad(tmp_path / f"{kind}.h5ad")
        backed = anndata.read_h5ad(tmp_path / f"{kind}.h5ad", backed="r")
        expected = fl.pca(fl.open(tmp_path / f"{kind}.h5ad"), 3, out=tmp_path / f"{kind}.zarr")
        for given in (backed, backed.X, made):
            found = fl.pca(given, 3)
            np.testing.assert_allclose(found.singular_values, expected.singular_values, rtol=1e-9)
        assert fl.pca(made, 3).columns == list(made.var_names)
        assert fl.pca(backed, 3).columns == expected.columns == list(made.var_names)
        assert fl.open_pca(tmp_path / f"{kind}.zarr").columns == list(made.var_names)
        assert expected.transform(backed).shape == (90, 3)
        with pytest.raises(fl.FormatError, match="view of a backed AnnData"):
            fl.pca(backed[:40], 3)
        backed.file.close()
    assert fl.pca(np.eye(6), 2).columns is None
