"""Sparse matrices that stream: products, reductions, lazy expressions, building."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import flagstone as fl

from .data import COUNTS
from .entry import POINTERS, entry

STORED = ("s.zarr", "s.npz", "csc.npz")


def matrix(name: str = "s.zarr") -> fl.SparseArray:
    return fl.open(name)


@entry("sparse products", "SparseArray.{}", variants=(
    *("__matmul__", "matmat", "matvec", "rmatmat", "rmatvec", "gram"),
))  # fmt: skip
def products(name):
    s = matrix()
    vectors = np.ones((COUNTS[0] if name.startswith("r") else COUNTS[1], 4))
    x = vectors[:, 0] if name.endswith("vec") else vectors
    return lambda: getattr(s, name)(x)


@entry(
    "sparse products on disk", "SparseArray.__rmatmul__",
    variants=("plain", "transposed", "left", "beta", "gram"),
)  # fmt: skip
def products_on_disk(how):
    s = matrix()
    x = fl.from_numpy(np.ones((COUNTS[1], 40), "f4"), "csrmm-x.zarr", overwrite=True)
    z = fl.from_numpy(np.ones((COUNTS[0], 40), "f4"), "csrmm-z.zarr", overwrite=True)
    return {
        "plain": lambda: fl.matmul(s, x, out="csrmm.zarr"),
        "transposed": lambda: fl.matmul(s.T, z, out="csrmm.npy"),
        "left": lambda: fl.matmul(x.T, s.T, out="csrmm-left.zarr"),
        "gram": lambda: s.gram(x, out="csrmm-gram.zarr"),
        "beta": lambda: fl.matmul(s, x, out=fl.open("csrmm-z.zarr", mode="r+"), alpha=2, beta=0.5),
    }[how]


@entry("A @ X of sparse", variants=("s.npz", "csc.npz", "s.h5ad", "A.T"))
def product(name):
    s = matrix("s.zarr" if name == "A.T" else name)
    s = s.T if name == "A.T" else s
    x = np.ones((s.shape[1], 8), "f4")
    return lambda: s @ x


@entry("sparse reductions", "SparseArray.{}", "SparseArray.T",
       variants=("sum", "mean", "min", "max", "var", "count_nonzero"))  # fmt: skip
def reductions(name):
    s = matrix()
    return lambda: np.asarray(getattr(s, name)(0)) + np.asarray(getattr(s.T, name)(1))


@entry("sparse reductions along rows", variants=("sum", "mean", "min", "max"))
def reductions_along_rows(name):
    s = matrix()
    return lambda: np.asarray(getattr(s, name)(1))


@entry("several sparse reductions")
def several_reductions():
    s = matrix()
    return lambda: fl.compute(s.sum(0), s.T.max(0), s.var(0), s.var(1), s.mean())


@entry("sparse expressions", "SparseArray.{}", variants=(
    *("__abs__", "__mul__", "__neg__", "__rmul__", "__truediv__", "__array_ufunc__"),
    *("astype", "log1p", "map", "multiply", "power", "scale", "select"),
))  # fmt: skip
def expressions(name):
    s = matrix()
    return lambda: np.asarray(lazily(s, name).sum(0))


def lazily(s, name):
    """A lazy expression by its method's name."""
    arguments = {
        "__mul__": (2,),
        "__rmul__": (2,),
        "__truediv__": (2,),
        "astype": (np.float64,),
        "map": ("sqrt",),
        "multiply": (2,),
        "power": (3,),
        "select": (np.arange(900),),
    }
    if name == "__array_ufunc__":
        return np.sqrt(s)
    if name == "scale":
        return s.scale(rows=np.ones(COUNTS[0]))
    return getattr(s, name)(*arguments.get(name, ()))


ROWS = ("stretch", "steps", "mask", "list", "both", "transposed")


def chosen(how):
    """A lazy choice of rows."""
    s = matrix()
    mask = np.arange(COUNTS[0]) % 7 < 3
    if how == "transposed":
        return s.T[:, mask]
    return s[{
        "stretch": np.s_[9_000:40_000], "steps": np.s_[::3], "mask": mask, "list": np.flatnonzero(mask),
        "both": np.s_[mask, 100:1500],
    }[how]]  # fmt: skip


@entry("rows of sparse", "SparseArray.__getitem__", variants=ROWS)
def rows(how):
    s = chosen(how)
    x = np.ones((s.shape[1], 4))
    return lambda: (s @ x, np.asarray(s.sum(0)))


@entry("rows of sparse, decomposed", variants=ROWS[:-1])
def rows_decomposed(how):
    s = chosen(how)
    return lambda: fl.pca(s, 3, method="krylov", out="rows-pca.zarr")


@entry(
    "rows of sparse, loaded", variants=ROWS, refused_late="how many values the rows hold, their pointers say"
)
def rows_loaded(how):
    s = chosen(how)
    return lambda: s.to_scipy()


@entry("rows of sparse, stored", variants=("stretch", "mask", "list"))
def rows_stored(how):
    s = chosen(how)
    return lambda: fl.convert(s, "rows.zarr", overwrite=True)


@entry("elements and single rows of sparse", "SparseArray.__iter__", variants=("element", "row"))
def single_rows(how):
    s = matrix()
    if how == "element":
        return lambda: s[30_000, 7]
    return lambda: next(iter(s[30_000:])).to_scipy()


@entry("to_scipy", "SparseArray.to_scipy", variants=STORED)
def to_scipy(name):
    s = matrix(name)
    return lambda: s.to_scipy()


@entry(
    "from_blocks",
    "from_blocks",
    variants=("csr", "csc", "dense"),
    refused_late="how wide blocks are, they tell",
)
def from_blocks(kind):
    whole = sp.load_npz("s.npz")
    given = [whole[i : i + 4000] for i in range(0, 24_000, 4000)]  # before: what makes them is the caller's
    blocks = [b.tocsc() if kind == "csc" else b[:1000].toarray() if kind == "dense" else b for b in given]
    return lambda: fl.from_blocks(iter(blocks), "blocks.zarr", overwrite=True)


ALGEBRA = ("add", "subtract", "multiply", "tril", "triu", "above", "concat")


def made(name):
    """A call of flagstone.sparse, its operands and where the result goes."""
    s = matrix()
    given = {"concat": ([s, s],), "above": (s, 1.0), "tril": (s, 5), "triu": (s, -5)}.get(name, (s, s * 2))
    return getattr(fl.sparse, name), given


@entry("sparse matrices of sparse ones", "sparse.{}", variants=ALGEBRA)
def algebra(name):
    function, given = made(name)
    return lambda: function(*given, out="algebra.zarr")


@entry("plans of sparse matrices of sparse ones", "sparse.{}.plan", variants=ALGEBRA)
def plans_of_algebra(name):
    function, given = made(name)
    return lambda: function.plan(*given)


@entry("sparse operators", "SparseArray.{}", variants=(
    *("__add__", "__radd__", "__sub__", "above", "conj", "diagonal", "getnnz", "H", "norm", "tril", "triu"),
))  # fmt: skip
def operators(name):
    s = matrix()
    if name in ("conj", "H"):
        return lambda: np.asarray((s.conj() if name == "conj" else s.H).sum(0))
    return lambda: getattr(s, name)(
        *({"__add__": (s,), "__radd__": (s,), "__sub__": (s,), "above": (1.0,), "getnnz": (0,)}.get(name, ()))
    )


@entry(
    "complex sparse matrices",
    "SparseArray.imag",
    "SparseArray.real",
    variants=("imag", "A.H", "empty rows"),
)
def complex_values(how):
    if how == "empty rows":  # all but a few: the result alone is beyond the least limit
        rows = np.arange(0, 600_000, 6_000)
        few = fl.from_coo((rows, rows % COUNTS[1], np.ones(100, "F")), shape=(600_000, COUNTS[1]))
        vectors = np.ones((COUNTS[1], 4), "F")
        return lambda: few @ vectors
    c = matrix() * (1 + 2j)
    if how in ("real", "imag"):
        return lambda: np.asarray(getattr(c, how).sum(0))
    a = {"A": c, "A.T": c.T, "A.H": c.H}[how]
    x = np.ones((a.shape[1], 8), "F")
    return lambda: a @ x


@entry("whole numbers of sparse products", variants=("int32",))
def whole_numbers(dtype):
    s = matrix().astype("int32") if matrix().dtype.kind in "iu" else fl.from_coo((ROW, ROW % COUNTS[1]))
    x = np.ones((s.shape[1], 8), "i4")
    return lambda: fl.matmul(s, x, dtype=dtype)


ROW = np.arange(0, COUNTS[0], 2)


@entry("layouts of sparse matrices", "SparseArray.layout", "SparseArray.triangle",
       variants=("bitpacked", "triangle", "product", "rows of a triangle"))  # fmt: skip
def layouts(how):
    if how == "bitpacked":
        s = matrix()
        return lambda: fl.convert(s, "laid-bitpacked.zarr", overwrite=True, layout="bitpacked")
    s = fl.from_coo((ROW, ROW[::-1]), symmetric=True, shape=(COUNTS[0], COUNTS[0]))
    if how == "triangle":
        return lambda: fl.convert(s, "laid-triangle.zarr", overwrite=True, layout="triangle")
    fl.convert(s, f"laid-half-{how}.zarr", overwrite=True, layout="triangle")
    half = fl.open(f"laid-half-{how}.zarr")
    if how == "rows of a triangle":
        return lambda: np.asarray(fl.open(half.path)[100:].sum(0))
    x = np.ones((COUNTS[0], 8), "f4")
    return lambda: half @ x


@entry("products of sparse matrices", variants=("plain", "threshold", "top", "mask"))
def sparse_products(how):
    s = matrix()
    a, b = s[:4000, :1000], s[:1000, :900]
    kept = {"threshold": {"threshold": 3.0}, "top": {"top": 5}, "mask": {"mask": s[4000:8000, :900]}}.get(
        how, {}
    )
    return lambda: fl.matmul(a, b, out="sparse-product.zarr", **kept)


@entry("sddmm", "sddmm", "sddmm.plan", variants=("run", "plan"))
def sampled(how):
    s = matrix()
    x = fl.from_numpy(np.ones((COUNTS[0], 20), "f4"), "sddmm-x.zarr", overwrite=True)
    y = fl.from_numpy(np.ones((COUNTS[1], 20), "f4"), "sddmm-y.zarr", overwrite=True)
    if how == "plan":
        return lambda: fl.sddmm.plan(s, x, y)
    return lambda: fl.sddmm(s, x, y, out="sddmm.zarr")


@entry(
    "maps of graphs", "spectral_embedding", "spectral_embedding.plan",
    variants=("whole", "components", "plan"),
)  # fmt: skip
def spectral_embedding(kind):
    n = 20_000
    one, other = np.random.default_rng(6).integers(0, n, (2, 200_000))
    a = sp.coo_array((np.ones(200_000, "f4"), (one, other)), (n, n)).tocsr()
    if kind == "components":  # every seventh vertex has no edge
        keep = np.arange(n) % 7 > 0
        a = sp.csr_array(sp.diags_array(keep.astype("f4")) @ a @ sp.diags_array(keep.astype("f4")))
    graph = fl.from_blocks([sp.csr_array(a + a.T)])
    if kind == "plan":
        return lambda: fl.spectral_embedding.plan(graph, 4)
    return lambda: fl.spectral_embedding(graph, 4, tol=0.05, out="map.zarr")


@entry("transposes of sparse matrices", variants=("run", "rows", "plan"))
def transposed(how):
    s = matrix()
    if how == "plan":
        return lambda: fl.transpose.plan(s)
    return lambda: fl.transpose(s.T if how == "rows" else s, out="transposed.zarr")


@entry(
    "products over semirings",
    variants=("dense", "sums", "pulled", "pushed", "on disk", "sums on disk"),
    headers=POINTERS,
)
def over_semirings(how):
    s = matrix()
    x, z = np.ones((COUNTS[1], 4)), np.ones((COUNTS[0], 4))
    if how.endswith("on disk"):
        a, given = (s, x) if how == "on disk" else (s.T, z)
        vectors = fl.from_numpy(np.tile(given, 10), "semiring-x.zarr", overwrite=True)
        mask = fl.from_numpy(
            np.arange(40 * a.shape[0]).reshape(-1, 40) % 3 > 0, "semiring-m.zarr", overwrite=True
        )
        return lambda: fl.matmul(a, vectors, semiring="min_plus", mask=mask, out="semiring.zarr")
    few = np.arange(COUNTS[0]) % 500 < 20
    frontier = sp.csr_matrix(few[:, None].astype("f8"))
    return {
        "dense": lambda: fl.matmul(s, x, semiring="min_plus"),
        "sums": lambda: fl.matmul(s.T, z, semiring="max_times"),
        "pulled": lambda: fl.matmul(s, x, semiring="or_and", mask=few),
        "pushed": lambda: fl.matmul(s.T, frontier, semiring="min_second"),
    }[how]
