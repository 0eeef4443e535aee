"""Every public routine once, on operands that a least limit cannot hold (test_limits, test_plan)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import flagstone as fl
from flagstone._demo.communities import Communities
from tests.support.processes import fingerprint, random_csr

BLOCKS = 18  # of cells.zarr
TREES: dict[str, Any] = {"trees": 1, "max_leaf": 8, "sweeps": 4}


def prepare(folder: Path) -> None:
    """Writes the operands of all routines."""
    rng = np.random.default_rng(11)
    for name, shape, dtype in [
        ("a", (4500, 4200), "float32"),
        ("b", (4200, 2400), "float32"),  # more columns cost flops and show nothing
        ("z", (1900, 2300), "complex128"),
    ]:
        x = rng.standard_normal(shape)
        x = (x + 1j * rng.standard_normal(shape) if dtype == "complex128" else x).astype(dtype)
        fl.from_numpy(x, str(folder / f"{name}.zarr"))
        np.save(folder / f"{name}.npy", x)
    definite(folder / "k.zarr", 4200)
    tall = rng.standard_normal((100_000, 300)).astype("float32") * np.geomspace(9, 0.5, 300, dtype="float32")
    np.save(folder / "tall.npy", tall + np.linspace(0, 3, 300, dtype="float32"))
    blocks = list(make_blocks())
    for i, block in enumerate(blocks):
        sp.save_npz(folder / f"block{i}.npz", block, compressed=False)
    fl.from_blocks(iter(blocks), str(folder / "cells.zarr"))
    sp.save_npz(folder / "cells.npz", sp.vstack(blocks, format="csr"), compressed=False)
    documents = blocks[0]
    fl.from_blocks([documents], str(folder / "documents.zarr"))
    labels = sp.random(documents.shape[0], 40, 0.05, "csr", random_state=1, dtype=np.float32)
    fl.from_blocks([labels], str(folder / "labels.zarr"))
    fl.train_labels(documents, labels, **TREES, out=str(folder / "trees.zarr"))
    graph = Communities(600_000, 20_000, 8)
    fl.from_coo(graph.blocks(), folder / "graph.zarr", shape=(20_000,) * 2, symmetric=True)
    np.save(folder / "x.npy", rng.standard_normal((600, 16)))
    np.save(folder / "y.npy", rng.standard_normal((180_000, 16)))


def definite(path: Path, n: int) -> None:
    """0.999^|i−j| and 1 on the diagonal: symmetric, its condition about 1,000, no chunk of zeros."""
    i = np.arange(n)
    fl.from_numpy(
        np.float32(0.999) ** abs(i[:, None] - i[None, :]).astype("float32") + np.eye(n, dtype="f4"), str(path)
    )


def row_blocks():
    """The blocks of `make_blocks`, one at a time, from the files of prepare(): drawing them is slow."""
    return (sp.load_npz(f"block{i}.npz") for i in range(BLOCKS))


def make_blocks():
    """180,000 x 600 counts whose columns differ in weight, 9 million stored values."""
    for i in range(BLOCKS):
        m = random_csr(10_000, 600, 0.08, i, "float32")
        m.data = np.ceil(m.data * 9) * np.geomspace(8, 1, 600, dtype="float32")[m.indices].round()
        yield m


def import_afresh(path: str):
    """Imports as if for the first time: the import is keyed by the file's time."""
    Path(path).touch()
    return fl.open(path)


def laid(path: str):
    """The matrix with its indices in few bits."""
    fl.convert(path, "laid.zarr", layout="bitpacked", overwrite=True)
    return fl.open("laid.zarr")


@dataclass
class Routine:
    """A call and how to take the bits of its result."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    bits: Callable[[Any], str] = fingerprint

    def __call__(self, **more):
        return self.function(*self.arguments, **self.options, **more)

    def plan(self, **more):
        return self.function.plan(*self.arguments, **self.options, **more)


def of_pca(r) -> str:
    return fingerprint(r.components, r.singular_values, r.mean, r.residual, r.scores)


def of_compute(results) -> str:
    return fingerprint(*(np.asarray(r) for r in results))


def of_array(a) -> str:
    return fingerprint(np.asarray(a))


def of_qr(made) -> str:
    return fingerprint(np.asarray(made.Q), np.asarray(made.R))


def of_factor(f) -> str:
    return fingerprint(np.asarray(f.v), np.asarray(f.r))


def of_fit(fit) -> str:
    return fingerprint(fit.x, fit.stderr, fit.gcv)


def chain():
    a = fl.open("a.zarr")
    e = fl.log1p(abs(a) * 3 + fl.open("a.npy"))
    return e, e.mean(1), e.var(0), e.argmax(), e.sum(), e.all(1)


def of_pairs(found) -> str:
    return fingerprint(found.w, found.residual, np.asarray(found.V))


def of_map(found) -> str:
    return fingerprint(found.w, found.residual, found.clusters, found.degrees, np.asarray(found.V))


def of_clusters(found) -> str:
    return fingerprint(np.asarray(found.centers), found.counts, np.asarray(found.labels))


def of_neighbours(found) -> str:
    return fingerprint(*(np.asarray(part) for part in found))


def of_topics(found) -> str:
    return fingerprint(
        np.asarray(found.topics), np.asarray(found.isle), np.asarray(found.clusters), found.shares
    )


def of_rows(found) -> str:
    matrix = found.to_scipy()
    return fingerprint(matrix.indptr, matrix.indices, matrix.data)


def of_model(model) -> str:
    return fingerprint(*(part for level in model.tree(0) for part in (level.weights.data, level.parent)))


def of_sparse(a) -> str:
    return fingerprint(np.asarray(a.shape), a @ np.eye(a.shape[1])[:, :40])


NAMES = [
    "matmul zarr",
    "matmul npy",
    "matmul complex",
    "matmul int stack",
    "cholesky",
    "solve pos",
    "solve gen",
    "lu_factor",
    "lu",
    "rank_k",
    "rank_k tall",
    "norms",
    "matmul kernel matrix",
    "matmul sparse",
    "matmul sparse left",
    "matmul semiring",
    "sparse layout",
    "cholesky kernel matrix",
    "compute",
    "reductions",
    "pca dense gram",
    "pca dense krylov",
    "pca sparse gram",
    "pca sparse krylov",
    "eigsh passes",
    "map of a graph",
    "kmeans",
    "kmeans, centers on disk",
    "sparse kmeans",
    "knn",
    "radius_neighbors",
    "topics",
    "train_labels",
    "predict",
    "projection",
    "sparse A @ X",
    "sparse A.T @ X",
    "import npz",
    "from_blocks",
    "from_numpy",
    "qr r",
    "qr reduced",
    "qr raw",
    "lstsq",
    "transform",
    "rechunk",
    "transpose",
    "sort",
    "argsort",
    "sort_by",
]
PLANNED = [
    name
    for name in NAMES
    if name.startswith(
        (
            "matmul",
            "eigsh",
            "kmeans",
            "knn",
            "projection",
            "rank_k",
            "cholesky",
            "solve",
            "lu",
            "pca",
            "compute",
            "rechunk",
            "qr",
            "lstsq",
            "sort",
            "argsort",
        )
    )
]


def routine(name: str) -> Routine:
    """The routine called `name`; the working folder is the one that prepare() filled."""
    if name == "matmul zarr":
        return Routine(fl.matmul, (fl.open("a.zarr"), fl.open("b.zarr")))
    if name == "matmul npy":
        return Routine(fl.matmul, (fl.open("a.npy"), fl.open("b.npy")))
    if name == "matmul complex":
        return Routine(fl.matmul, (fl.open("z.npy"), fl.open("z.zarr").T.conj()), {"alpha": 1j})
    if name == "matmul int stack":
        whole = fl.open_raw("tall.npy", "int32", (100, 1000, 300), offset=128)  # the bits of floats
        return Routine(fl.matmul, (whole, np.arange(12_000, dtype="int32").reshape(300, 40)))
    if name == "cholesky":
        return Routine(fl.linalg.cholesky, (fl.open("k.zarr"),), {"shift": 0.5}, of_array)
    if name == "lu_factor":
        return Routine(
            fl.linalg.lu_factor, (fl.open("k.zarr"),), bits=lambda f: fingerprint(np.asarray(f.lu), f.piv)
        )
    if name == "lu":
        return Routine(
            fl.linalg.lu, (fl.open("k.zarr"),), bits=lambda f: fingerprint(f.p, *map(np.asarray, (f.L, f.U)))
        )
    if name == "solve gen":
        return Routine(fl.linalg.solve, (fl.open("k.zarr"), fl.open("b.zarr")), bits=of_array)
    if name == "solve pos":
        return Routine(fl.linalg.solve, (fl.open("k.zarr"), fl.open("b.zarr")), {"assume_a": "pos"}, of_array)
    if name == "rank_k":
        return Routine(fl.linalg.rank_k_update, (fl.open("a.zarr"),))
    if name == "rank_k tall":
        return Routine(fl.linalg.rank_k_update, (fl.open("tall.npy").T,))
    if name == "norms":
        norms = (
            fl.linalg.matrix_norm(fl.open("a.npy"), ord=1),
            fl.linalg.vector_norm(fl.open("a.npy"), axis=0),
        )
        return Routine(fl.compute, norms, bits=of_compute)
    if name.endswith("kernel matrix"):
        points = np.linspace(0, 1, 3 * 4200, dtype="f4").reshape(4200, 3)[:, ::-1].copy()
        k = fl.kernel_matrix(points, kernel="matern32", length_scale=0.1)
        if name.startswith("matmul"):
            return Routine(fl.matmul, (k, fl.open("b.zarr")))
        return Routine(fl.linalg.cholesky, (k,), {"shift": 0.5}, of_array)
    if name == "compute":
        return Routine(fl.compute, chain()[:1])
    if name == "rechunk":
        return Routine(fl.rechunk, (fl.open("a.zarr"), (-1, 100)), bits=of_array)
    if name == "transpose":
        return Routine(fl.transpose, (fl.open("a.npy"),), bits=of_array)
    if name in ("sort", "argsort", "sort_by"):
        line = fl.open_raw("a.npy", "float32", 4500 * 4200, offset=128)
        if name == "sort_by":
            return Routine(fl.sort_by, ([line, line],), bits=lambda made: fingerprint(*map(np.asarray, made)))
        return Routine(getattr(fl, name), (line,), bits=of_array)
    if name == "reductions":
        return Routine(fl.compute, chain(), bits=of_compute)
    if name.startswith("pca"):
        _, source, method = name.split()
        x = fl.open({"dense": "tall.npy", "sparse": "cells.zarr"}[source])
        return Routine(fl.pca, (x, 12), {"method": method}, of_pca)
    if name == "qr r":  # several columns of tiles
        return Routine(fl.linalg.qr, (fl.open("b.zarr"),), {"mode": "r"}, of_array)
    if name == "qr reduced":
        return Routine(fl.linalg.qr, (fl.open("tall.npy"),), bits=of_qr)
    if name == "qr raw":
        return Routine(fl.linalg.qr, (fl.open("tall.npy"),), {"mode": "raw"}, of_factor)
    if name == "lstsq":
        y = np.load("tall.npy", mmap_mode="r")[:, 0].copy()
        return Routine(fl.linalg.lstsq, (fl.open("tall.npy"), y), {"ridge": [0, 1]}, of_fit)
    if name == "kmeans":  # of a given number of iterations: what a plan counts
        return Routine(
            fl.kmeans, (fl.open("tall.npy"), 16), {"iterations": 3, "tol": 0, "init": "random"}, of_clusters
        )
    if name == "kmeans, centers on disk":
        x, seeds = fl.open("tall.npy")[:40_000], fl.open("tall.npy")[50_000:52_000]  # 1,744 are a block
        given = {"init": seeds, "iterations": 1, "where": {"centers": "disk"}}
        return Routine(fl.kmeans, (x,), given, of_clusters)
    if name == "sparse kmeans":
        given = {"iterations": 3, "tol": 0, "init": "random"}
        return Routine(fl.kmeans, (fl.open("cells.zarr"), 16), given, of_clusters)
    if name == "knn":
        return Routine(fl.knn, (fl.open("y.npy")[:2000], fl.open("y.npy"), 20), bits=of_neighbours)
    if name == "radius_neighbors":
        return Routine(fl.radius_neighbors, (fl.open("y.npy")[:500], fl.open("y.npy"), 2.0), bits=of_rows)
    if name == "topics":
        return Routine(fl.topics, (fl.open("documents.zarr"), 6), {"passes": 1}, of_topics)
    if name == "train_labels":
        points, labels = fl.open("documents.zarr"), fl.open("labels.zarr")
        return Routine(fl.train_labels, (points, labels), TREES, of_model)
    if name == "predict":
        trees = fl.open_labels("trees.zarr")
        return Routine(trees.predict, (fl.open("documents.zarr"), 5), bits=of_neighbours)
    if name == "eigsh passes":  # of a given number: what a plan counts
        return Routine(fl.linalg.eigsh, (fl.open("k.zarr"), 24), {"passes": 4, "block": 8}, of_pairs)
    if name == "map of a graph":
        return Routine(fl.spectral_embedding, (fl.open("graph.zarr"), 8), {"tol": 1e-2}, of_map)
    if name == "projection":
        space = fl.nuclear.Space(3, 3, 4, fl.nuclear.Interaction.random(1))
        Z = fl.nuclear.basis_of_j(space, 1, dedup=False)
        return Routine(
            fl.subspace.project, (space, Z), {"panel": "512KiB"}, lambda h: fingerprint(h.values[:])
        )
    if name == "sparse A @ X":
        return Routine(lambda a, x: a @ x, (fl.open("cells.zarr"), np.load("x.npy")))
    if name == "matmul sparse":
        return Routine(fl.matmul, (fl.open("cells.zarr"), fl.open("x.npy")))
    if name == "matmul sparse left":
        return Routine(fl.matmul, (fl.open("y.npy").T, fl.open("cells.zarr")))
    if name == "matmul semiring":  # sums over rows, the product on disk
        how = {"semiring": "max_plus", "mask": np.arange(600) % 3 > 0}
        return Routine(fl.matmul, (fl.open("y.npy").T, fl.open("cells.zarr")), how, of_array)
    if name == "sparse layout":
        return Routine(laid, ("cells.zarr",), bits=of_sparse)
    if name == "sparse A.T @ X":
        return Routine(lambda a, y: a.T @ y, (fl.open("cells.zarr"), np.load("y.npy")))
    if name == "import npz":
        return Routine(import_afresh, ("cells.npz",), bits=of_sparse)
    if name == "from_blocks":
        return Routine(lambda: fl.from_blocks(row_blocks()), (), bits=of_sparse)
    if name == "from_numpy":
        return Routine(fl.from_numpy, (np.load("a.npy"), "stored.zarr"), {"overwrite": True})
    if name == "transform":
        rows = np.load("tall.npy", mmap_mode="r")[:5000].copy()
        r = fl.pca(rows, 5)
        return Routine(r.transform, (fl.open("tall.npy"),))
    raise ValueError(name)
