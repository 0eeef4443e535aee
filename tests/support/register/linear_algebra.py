"""Products and factorizations of dense matrices, least squares, principal components."""

from __future__ import annotations

from unittest import mock

import numpy as np
from scipy.sparse.linalg import LinearOperator

import flagstone as fl
from flagstone._runtime.runtime import current

from .data import SIDE
from .entry import entry


@entry(
    "matmul",
    "matmul",
    variants=(
        *("npy", "zarr", "transposed", "complex", "memory", "memmap", "out.npy", "packed"),
        *("int", "stack", "mixed"),
    ),
    stays=8,  # packing buffers of BLAS, a worker's once it has run beside the others
)
def matmul(kind):
    a = fl.open("a.zarr" if kind != "npy" else "a.npy")
    b = fl.open("f.npy")
    if kind == "transposed":
        b = fl.open("small.zarr").T
    if kind == "complex":
        a, b = fl.open("z.npy"), fl.open("z.npy").T.conj()
    if kind == "memory":
        b = np.load("a.npy")
    if kind == "memmap":
        b = np.load("a.npy", mmap_mode="r")
    if kind == "packed":
        b = fl.open("packed.zarr")
    if kind in ("int", "mixed"):
        b = fl.open("ints.npy")
    if kind == "int":
        a = b
    if kind == "stack":
        a = fl.stack([a, b])
    out = "product.npy" if kind == "out.npy" else "product.zarr"
    return lambda: fl.matmul(a, b, out=out)


@entry("factorizations", "linalg.{}", variants=(
    *("cholesky", "solve", "cho_solve", "solve_triangular", "lu_factor", "lu_solve", "inv", "det", "slogdet"),
    "lu", "cond", "inv_diagonal",
))  # fmt: skip
def factorizations(name):
    k = fl.open("definite.npy")
    b = np.ones((SIDE, 8), "f4")
    return {
        "cholesky": lambda: fl.linalg.cholesky(k, out="factor.zarr"),
        "solve": lambda: fl.linalg.solve(k, b),
        "lu_factor": lambda: fl.linalg.lu_factor(k, out="lu.npy"),
        "inv_diagonal": lambda: fl.linalg.inv_diagonal(k),
        "cond": lambda: fl.linalg.cond(k, assume_a="pos"),
        "lu": lambda: fl.linalg.lu(k, out="lu.zarr"),
        "lu_solve": lambda: fl.linalg.lu_solve((k, np.arange(SIDE)), b),
        "inv": lambda: fl.linalg.inv(k, out="inverse.zarr", assume_a="pos"),
        "det": lambda: fl.linalg.det(k),
        "slogdet": lambda: fl.linalg.slogdet(k, assume_a="pos"),
        "cho_solve": lambda: fl.linalg.cho_solve(k, b),
        "solve_triangular": lambda: fl.linalg.solve_triangular(k, fl.open("a.npy"), out="solved.npy"),
    }[name]


@entry("solves that do more", "linalg.solve", variants=("mixed", "rcond"))
def solves(kind):
    k = fl.open("definite.npy")
    b = np.ones((SIDE, 2), "f8" if kind == "mixed" else "f4")
    if kind == "mixed":
        return lambda: fl.linalg.solve(k.astype("f8"), b, precision="mixed")
    return lambda: fl.linalg.solve(k, b, assume_a="pos", rcond=True)


@entry("plans of linalg", "linalg.{}.plan", variants=(
    *("cholesky", "solve", "cho_solve", "solve_triangular", "lu_factor", "lu_solve", "inv", "det", "slogdet"),
    "lu", "cond", "inv_diagonal",
))  # fmt: skip
def plans_of_linalg(name):
    k, b = fl.open("definite.npy"), np.ones((SIDE, 8), "f4")
    k = (k, np.arange(SIDE)) if name == "lu_solve" else k
    return lambda: getattr(fl.linalg, name).plan(k, *([b] if "solve" in name else []))


@entry("A @ v", "Array.__matmul__", "Array.__rmatmul__", "Reduced.__matmul__", "Reduced.__rmatmul__",
       variants=("A @ v", "v @ A", "A @ X", "A.T @ v", "R @ A", "A @ R"))  # fmt: skip
def product_with_vectors(kind):
    v, x, a = np.ones(SIDE, "f4"), np.ones((SIDE, 8), "f4"), fl.open("a.npy")
    return {
        "A @ v": lambda: a @ v,
        "v @ A": lambda: v @ a,
        "A @ X": lambda: a @ x,
        "A.T @ v": lambda: a.T @ v,
        "R @ A": lambda: a.sum(0) @ a,
        "A @ R": lambda: a @ a.sum(0),
    }[kind]


@entry("linear operator", "Array.{}", variants=("matvec", "rmatvec", "matmat", "rmatmat"))
def linear_operator(name):
    a = fl.open("a.npy")
    x = np.ones((SIDE, 4) if name.endswith("mat") else SIDE, "f4")
    return lambda: getattr(a, name)(x)


@entry("norms", "linalg.{}", variants=("matrix_norm", "vector_norm"))
def norms(name):
    a = fl.open("a.npy")
    return lambda: getattr(fl.linalg, name)(a, memory=current().memory)


@entry("largest singular value", "linalg.matrix_norm")
def two_norm():
    a = fl.open("a.npy")
    return lambda: fl.linalg.matrix_norm(a, ord=2, memory=current().memory)


@entry(
    "rank-k updates", "linalg.{}", variants=("rank_k_update", "rank_2k_update"),
)  # fmt: skip
def rank_k(name):
    a = fl.open("a.zarr")
    more = (fl.open("a.npy"),) if name == "rank_2k_update" else ()
    return lambda: getattr(fl.linalg, name)(a, *more, out="updated.zarr")


# stays: what the allocator keeps of two runs, one after the other.
@entry("covariances", "{}", variants=("cov", "corrcoef"), stays=8)
def covariances(name):
    a = fl.open("a.zarr")
    return lambda: getattr(fl, name)(a, dtype="float32", out="covariance.zarr")


@entry("small products", "linalg.{}", variants=("diagonal", "outer", "trace"))
def small_products(name):
    a = fl.open("a.npy")
    if name == "outer":
        return lambda: fl.compute(fl.linalg.outer(a[0], a[1]).sum())
    return lambda: getattr(fl.linalg, name)(a)


@entry("names of the standard", "{}", variants=("dot", "matrix_transpose", "tensordot", "vecdot"))
def of_the_standard(name):
    a, b = fl.open("a.npy"), fl.open("a.zarr")
    more = {"dot": (b,), "matrix_transpose": (), "tensordot": (b,), "vecdot": (b,)}[name]
    return lambda: fl.compute(abs(getattr(fl, name)(a, *more)).max())


@entry("pca", "pca", "PcaResult.scores",
       variants=("gram", "krylov", "sparse gram", "sparse krylov", "sparse krylov-schur", "memory", "csc",
                 "fortran"))  # fmt: skip
def pca(kind):
    x = fl.open("s.zarr" if "sparse" in kind else "csc.npz" if kind == "csc" else "tall.npy")
    if kind == "fortran":
        x = fl.open("f.npy")
    if kind == "memory":
        x = np.load("tall.npy")
    method = kind.split()[-1] if kind.endswith(("gram", "krylov", "schur")) else "auto"
    return lambda: fl.pca(x, 4, method=method, tol=0.1, out="components.zarr").scores


@entry("eigsh", "linalg.eigsh", "linalg.eigsh.plan", variants=("dense", "operator", "plan"))
def eigsh(kind):
    k = fl.open("definite.npy")
    if kind == "operator":  # it calls the library, inside the limit
        k = LinearOperator(k.shape, matmat=k.matmat, matvec=k.matvec, dtype="f4")
    call = fl.linalg.eigsh.plan if kind == "plan" else fl.linalg.eigsh
    return lambda: call(k, 4, passes=3, **({} if kind == "plan" else {"out": "pairs.zarr"}))


# stays: packing buffers of NumPy's BLAS, which combines the blocks.
@entry("lobpcg", "linalg.lobpcg", "linalg.lobpcg.plan", variants=("dense", "plan"), stays=24)
def lobpcg(kind):
    k = fl.open("definite.npy")
    x = np.random.default_rng(0).standard_normal((k.shape[0], 3))
    call = fl.linalg.lobpcg.plan if kind == "plan" else fl.linalg.lobpcg
    return lambda: call(k, x, tol=0.5, **({} if kind == "plan" else {"out": "pairs.zarr"}))


@entry("svds", "linalg.svds", "linalg.svds.plan", variants=("tall", "sparse", "turned"))
def svds(kind):
    a = fl.open("tall.npy" if kind == "tall" else "s.zarr")
    a = a.T if kind == "turned" else a
    return lambda: fl.linalg.svds(a, 4, passes=3, out="triplets.zarr")


# stays: packing buffers of NumPy's BLAS, which grow with the rows of a block.
@entry("transform", "PcaResult.transform", "open_pca", variants=("npy", "memory", "out"), stays=24)
def transform(kind):
    r = fl.open_pca("pca.zarr")
    x = np.load("tall.npy") if kind == "memory" else fl.open("tall.npy")
    return lambda: r.transform(x, **({"out": "transformed.zarr"} if kind == "out" else {}))


@entry("single_cell", "single_cell", variants=("csr", "csc"))
def single_cell(kind):
    x = fl.open("s.zarr" if kind == "csr" else "csc.npz")
    return lambda: fl.single_cell(x, 5, genes=200, out="cells.zarr")


@entry("lsa", "lsa", "lsa.plan", variants=("csr", "csc", "plan"))
def lsa(kind):
    x = fl.open("csc.npz" if kind == "csc" else "s.zarr")
    if kind == "plan":
        return lambda: fl.lsa.plan(x, 4)
    return lambda: fl.lsa(x, 4, tol=0.1, out="lsa.zarr")


@entry("plans", "{}.plan", variants=(
    *("compute", "corrcoef", "cov", "matmul", "pca", "pack", "rechunk", "transpose", "single_cell"),
    *("fold", "map_blocks", "map_tiles"),
))  # fmt: skip
def plans(name):
    a = fl.open("a.zarr")
    arguments = {
        "compute": (a + 1,), "corrcoef": (a,), "cov": (a,), "matmul": (a, a),
        "pca": (fl.open("tall.npy"), 4), "rechunk": (a, (16, 16)),
        "transpose": (a,), "single_cell": (fl.open("s.zarr"), 5), "pack": ("a.zarr", "packed-plan.zarr"),
        "fold": (np.sum, np.add, a), "map_blocks": (np.sqrt, a), "map_tiles": (np.sqrt, a),
    }  # fmt: skip
    return lambda: getattr(fl, name).plan(*arguments[name])


@entry("qr", "linalg.qr", "linalg.lq",
       variants=("r", "reduced", "raw", "square", "transposed", "memory", "lq"))  # fmt: skip
def qr(kind):
    x = fl.open("a.zarr" if kind == "square" else "tall.npy")
    if kind == "memory":
        x = np.load("tall.npy")
    if kind == "transposed":
        x = fl.from_numpy(np.ascontiguousarray(np.load("tall.npy").T)).T
    if kind == "lq":
        return lambda: fl.linalg.lq(x.T, out="lq.zarr")
    mode = kind if kind in ("reduced", "raw") else "r"
    return lambda: fl.linalg.qr(x, mode=mode, out="qr.zarr")


@entry("apply_q", "linalg.apply_q", "linalg.open_factor", variants=("left", "right", "memory"))
def apply_q(kind):
    x = fl.open("tall.npy")
    f = fl.linalg.qr(x, mode="raw")
    b = np.load("tall.npy")[:, :8] if kind == "memory" else x
    if kind == "right":
        return lambda: fl.linalg.apply_q(f, b.T, side="right", out="applied.zarr")
    return lambda: fl.linalg.apply_q(f, b, trans=True)


@entry(
    "lstsq",
    "linalg.lstsq",
    variants=("npy", "memory", "ridge", "weights", "normal", "wide", "wide disk", "wide intercept",
              "disk", "large"),
)  # fmt: skip
def lstsq(kind):
    a, y = fl.open("tall.npy"), np.linspace(0, 1, 100_000, dtype="float32")
    if kind == "memory":
        a = np.load("tall.npy")
    if kind.startswith("wide"):
        few = fl.from_numpy(y[:96]) if kind == "wide disk" else y[:96]
        return lambda: fl.linalg.lstsq(a.T, few, intercept=kind == "wide intercept")
    if kind == "disk":
        y = fl.open("y.npy")
    options = {
        "ridge": {"ridge": [0, 1, 10], "intercept": True},
        "weights": {"weights": np.ones(100_000)},
        "normal": {"method": "normal"},
    }.get(kind, {})
    if kind == "large":  # R on disk, as of more than 4096 columns

        def fit():
            with mock.patch("flagstone._solve.lstsq.MOST", 20):
                return fl.linalg.lstsq(a, y, ridge=[0, 1])

        return fit
    return lambda: fl.linalg.lstsq(a, y, **options)
