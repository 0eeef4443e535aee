"""What takes a sparse matrix takes every layout; complex values too, or refuses them in a sentence."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone.estimators import PCA, KMeans, TruncatedSVD

N = 40
RNG = np.random.default_rng(5)
X, x = RNG.standard_normal((N, 3)), RNG.standard_normal(N)
KINDS = RNG.integers(0, 3, N)
OTHER = sp.random(N, N, 0.2, format="csr", random_state=2)
NUMBERS = itertools.count()


def dense(found):
    if isinstance(found, fl.SparseArray):
        found = found.to_scipy()
    return found.toarray() if sp.issparse(found) else np.asarray(found)


def exported(ending):
    def through(a):
        fl.convert(a, path := f"made{next(NUMBERS)}{ending}", layout="csr" if ending == ".zarr" else None)
        return dense(fl.open(path))

    return through


@functools.cache
def other():
    return fl.from_blocks([OTHER])


def sums(name, axis):
    return lambda a: getattr(a, name)(axis), lambda s: getattr(s, name)(axis)


# By name (a method's name, or a function's, first): the call, and what it is of a dense matrix, complex too.
# None: of real matrices alone, complex ones are refused.
CASES = {
    "matmul": (lambda a: a @ X, lambda s: s @ X), "matmul left": (lambda a: X.T @ a, lambda s: X.T @ s),
    "matvec": (lambda a: a.matvec(x), lambda s: s @ x), "matmat": (lambda a: a.matmat(X), lambda s: s @ X),
    "rmatvec": (lambda a: a.rmatvec(x), lambda s: s.conj().T @ x),
    "rmatmat": (lambda a: a.rmatmat(X), lambda s: s.conj().T @ X),
    "gram": (lambda a: a.gram(X), lambda s: s.conj().T @ (s @ X)),
    "T": (lambda a: a.T @ X, lambda s: s.T @ X), "H": (lambda a: a.H @ X, lambda s: s.conj().T @ X),
    "conj": (lambda a: a.conj() @ X, lambda s: s.conj() @ X),
    "real": (lambda a: a.real @ X, lambda s: s.real @ X),
    "imag": (lambda a: a.imag @ X, lambda s: s.imag @ X),
    "abs": (lambda a: abs(a) @ X, lambda s: abs(s) @ X),
    "astype": (lambda a: a.astype("f4") @ X, None),
    "log1p": (lambda a: a.log1p() @ X, lambda s: np.log1p(s) @ X),
    "power": (lambda a: a.power(2.0) @ X, lambda s: s**2 @ X),
    "map": (lambda a: a.map("sin") @ X, lambda s: np.sin(s) @ X),
    "scale": (lambda a: a.scale(rows=x) @ X, lambda s: (x[:, None] * s) @ X),
    "scale both": (lambda a: a.scale(rows=x, columns=x) @ X, lambda s: (np.outer(x, x) * s) @ X),
    "products of two": (lambda a: dense(a @ other()), lambda s: s @ OTHER.toarray()),
    "products of two, left": (lambda a: dense(other() @ a), lambda s: OTHER.toarray() @ s),
    "products with a threshold": (lambda a: dense(fl.matmul(a, a, threshold=0.1)), None),
    "semiring": (lambda a: fl.matmul(a, x, semiring="min_plus"), None),
    "semiring left": (lambda a: fl.matmul(x, a, semiring="max_plus"), None),
    "sddmm": (lambda a: dense(fl.sddmm(a, X, X)), lambda s: s * (X @ X.T)),
    "mask": (
        lambda a: dense(fl.matmul(other(), other(), mask=a)),
        lambda s: (s != 0) * (OTHER.toarray() @ OTHER.toarray()),
    ),
    "multiply": (lambda a: dense(a.multiply(other())), lambda s: s * OTHER.toarray()),
    "add": (lambda a: dense(a + other()), lambda s: s + OTHER.toarray()),
    "subtract": (lambda a: dense(other() - a), lambda s: OTHER.toarray() - s),
    "tril": (lambda a: dense(a.tril()), np.tril), "triu": (lambda a: dense(a.triu()), np.triu),
    "above": (lambda a: dense(a.above(0.1)), None),
    "concat": (lambda a: dense(fl.sparse.concat([a, other()])), lambda s: np.vstack([s, OTHER.toarray()])),
    "transpose": (lambda a: dense(fl.transpose(a)), np.transpose),
    "to_scipy": (dense, lambda s: s), "rows": (lambda a: dense(a[3:9]), lambda s: s[3:9]),
    "columns": (lambda a: dense(a[:, 3:9]), lambda s: s[:, 3:9]),
    "select": (lambda a: dense(a.select([1, 5])), lambda s: s[:, [1, 5]]),
    "element": (lambda a: a[3, 1], lambda s: s[3, 1]),
    "element above": (lambda a: a[1, 3], lambda s: s[1, 3]),
    "sum": sums("sum", None), "sum of columns": sums("sum", 0), "sum of rows": sums("sum", 1),
    "mean": sums("mean", 1), "var": sums("var", 0),
    "min": (lambda a: a.min(), None), "max": (lambda a: a.max(1), None),
    "norm": (lambda a: a.norm(), np.linalg.norm),
    "norm 1": (lambda a: a.norm(1), lambda s: np.linalg.norm(s, 1)),
    "getnnz": (lambda a: a.getnnz(), np.count_nonzero),
    "getnnz of columns": (lambda a: a.getnnz(0), lambda s: np.count_nonzero(s, 0)),
    "getnnz of rows": (lambda a: a.getnnz(1), lambda s: np.count_nonzero(s, 1)),
    "count_nonzero": (lambda a: a.count_nonzero(0), lambda s: np.count_nonzero(s, 0)),
    "diagonal": (lambda a: a.diagonal(), np.diagonal),
    "diagonal above": (lambda a: a.diagonal(2), lambda s: np.diagonal(s, 2)),
    "diagonal below": (lambda a: a.diagonal(-2), lambda s: np.diagonal(s, -2)),
    "group_sum": (lambda a: dense(fl.group_sum(a, KINDS)), None),
    "group_var": (lambda a: dense(fl.group_var(a, KINDS)), None),
    "npz": (exported(".npz"), lambda s: s), "mtx": (exported(".mtx"), lambda s: s),
    "zarr": (exported(".zarr"), lambda s: s), "svm": (exported(".svm"), None),
    "pca": (lambda a: fl.pca(a, 3, method="gram").explained_variance, None),
    "pca krylov": (lambda a: fl.pca(a, 3, method="krylov").explained_variance, None),
    "pca restarted": (lambda a: fl.pca(a, 3, method="krylov-schur").explained_variance, None),
    "pca transform": (lambda a: np.abs(dense(fl.pca(other(), 2).transform(a))), None),
    "PCA": (lambda a: PCA(2).fit(a).explained_variance_, None),
    "TruncatedSVD": (lambda a: TruncatedSVD(2, random_state=0).fit(a).singular_values_, None),
    "svds": (lambda a: np.sort(fl.linalg.svds(a, 3).s), lambda s: np.linalg.svd(s)[1][2::-1]),
    "map of a graph": (lambda a: fl.spectral_embedding(a, 2).w, None),
    "kmeans": (lambda a: fl.kmeans(a, 3, seed=1).inertia, None),
    "kmeans predict": (lambda a: dense(fl.kmeans(other(), 3, seed=1).predict(a)), None),
    "kmeans transform": (lambda a: dense(fl.kmeans(other(), 3, seed=1).transform(a)), None),
    "KMeans": (lambda a: KMeans(3, random_state=1).fit(a).inertia_, None),
    "topics": (lambda a: dense(fl.topics(a, 2, seed=1).topics), None),
    "lsa": (lambda a: np.abs(dense(fl.lsa(a, 2).s)), None),
    "train_labels": (
        lambda a: dense(fl.train_labels(a, other(), trees=1, seed=1).predict(other(), 3).scores),
        None,
    ),
}  # fmt: skip


def symmetric(kind):
    found = sp.random(N, N, 0.1, format="csr", random_state=1)
    if kind == "complex":
        found = found + 1j * sp.random(N, N, 0.1, format="csr", random_state=7)
    return (found + found.conj().T).tocsr()


def test_methods_have_cases():
    told = {"dtype", "layout", "lazy", "nbytes", "ndim", "nnz", "obs_names", "var_names", "operand", "path"}
    told |= {"product_operand", "shape", "stored_bytes", "stored_values", "triangle", "ids", "import_seconds"}
    methods = {name for name in dir(fl.SparseArray) if not name.startswith("_")}
    assert methods - told <= {name.split(" ")[0] for name in CASES}


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_layouts_are_one_matrix(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matrix = symmetric(kind)
    whole, same = fl.from_blocks([matrix]), matrix.toarray()
    laid = {}
    for layout in ("triangle", "bitpacked") if kind == "real" else ("triangle",):
        fl.convert(whole, f"{layout}.zarr", layout=layout)
        laid[layout] = fl.open(f"{layout}.zarr")
    for name, (call, twin) in CASES.items():
        if kind == "complex" and twin is None:
            continue
        wanted = call(whole) if twin is None else twin(same)
        for layout, given in laid.items():
            np.testing.assert_allclose(call(given), wanted, rtol=1e-6, atol=1e-9, err_msg=f"{name}, {layout}")


def test_complex_matrices_are_right_or_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    real, imaginary = (sp.random(N, N, 0.15, format="csr", random_state=seed) for seed in (1, 7))
    matrix = (real + 1j * imaginary).tocsr()
    given, same = fl.from_blocks([matrix]), matrix.toarray()
    for name, (call, twin) in CASES.items():
        if twin is None:
            with pytest.raises((fl.Error, TypeError, ValueError), match=r"(?i)complex|real") as raised:
                np.asarray(call(given))
            assert str(raised.value).endswith("."), name
            continue
        np.testing.assert_allclose(call(given), twin(same), rtol=1e-6, atol=1e-9, err_msg=name)
