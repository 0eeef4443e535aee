"""Clusters, neighbours, topics; estimators: fitted, asked, kept and opened; projections."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import scipy.sparse

import flagstone as fl
from flagstone import estimators, nuclear, subspace
from tests.support.processes import random_csr

from .entry import POINTERS, entry

POINTS = 3000  # K: 69 MiB
TWO_BLOCKS = 5600  # centers of tall.npy's width; 5,456 are one


def soundings(number: int = POINTS):
    x = np.linspace(0, 1, 3 * number).reshape(number, 3)[:, ::-1].copy()
    return x, np.sin(9 * x[:, 0])


@entry(
    "a Gaussian process",
    "estimators.GaussianProcessRegressor",
    "estimators.GaussianProcessRegressor.fit",
    variants=("scratch", "kept"),
)
def gaussian_process(kind):
    x, y = soundings()
    out = "model.zarr" if kind == "kept" else None
    return lambda: estimators.GaussianProcessRegressor("matern32", alpha=0.1, out=out).fit(x, y)


@entry(
    "its predictions", "estimators.GaussianProcessRegressor.predict", "estimators.open_model",
    "estimators.GaussianProcessRegressor.score", "estimators.GaussianProcessRegressor.leave_one_out",
    variants=("mean", "deviation", "leave one out"),
)  # fmt: skip
def predictions(kind):
    x, y = soundings(2000)
    estimators.GaussianProcessRegressor("rbf", alpha=0.1, out="asked.zarr").fit(x, y)
    if kind == "leave one out":
        return lambda: estimators.open_model("asked.zarr").leave_one_out()
    return lambda: estimators.open_model("asked.zarr").predict(x[:300], return_std=kind == "deviation")


@entry(
    "kernel ridge", "estimators.KernelRidge", "estimators.KernelRidge.fit", "estimators.KernelRidge.predict",
    "estimators.KernelRidge.score",
)  # fmt: skip
def kernel_ridge():
    x, y = soundings()
    return lambda: estimators.KernelRidge(kernel="rbf", length_scale=0.5).fit(x, y).predict(x[:100])


@entry(
    "components of points", "estimators.{}", "estimators.{}.fit", "estimators.{}.fit_transform",
    variants=("PCA", "TruncatedSVD"),
)  # fmt: skip
def components(name):
    X = fl.open("tall.npy")
    return lambda: getattr(estimators, name)(4, tol=0.1).fit_transform(X)


# stays: packing buffers of NumPy's BLAS, which grow with the rows of a block, as of "transform".
@entry(
    "points of components", "estimators.{}", stays=24,
    variants=tuple(f"{m}.{of}" for m in ("PCA", "TruncatedSVD") for of in ("transform", "inverse_transform")),
)  # fmt: skip
def of_components(case):
    kind, name = case.split(".")
    X = fl.open("tall.npy")
    model = getattr(estimators, kind)(4, tol=0.1).fit(X)
    given = X if name == "transform" else model.transform(X)
    return lambda: getattr(model, name)(given)


@entry(
    "components of more points", "estimators.PCA.partial_fit",
    refused_late="the mean is there before the QR is asked for",
)  # fmt: skip
def partial_fit():
    X = fl.open("tall.npy")
    return lambda: estimators.PCA(4).partial_fit(X).partial_fit(X)


@entry(
    "coordinates of points by a graph", "estimators.SpectralEmbedding", "estimators.SpectralEmbedding.fit",
    "estimators.SpectralEmbedding.fit_transform", refused_late="the graph among the points is made first",
)  # fmt: skip
def spectral_embedding():
    X = fl.open("points.npy")
    return lambda: estimators.SpectralEmbedding(2, n_neighbors=10, tol=0.1).fit_transform(X)


LINEAR = {
    "LinearRegression": lambda: estimators.LinearRegression(),
    "Ridge": lambda: estimators.Ridge(0.5),
    "RidgeCV": lambda: estimators.RidgeCV((0.1, 1.0)),
}


@entry(
    "linear models",
    *(f"estimators.{{}}{method}" for method in ("", ".fit", ".predict", ".score")),
    variants=tuple(LINEAR),
)
def linear(name):
    X = fl.open("tall.npy")
    y = np.linspace(0, 1, X.shape[0])
    return lambda: LINEAR[name]().fit(X, y).predict(X)


@entry("kmeans", "kmeans", "KMeansResult.labels",
       variants=("seeds", "random", "memory", "sparse", "fortran", "minibatch", "stored",
                 "sparse stored", "stored seeds"))  # fmt: skip
def kmeans(kind):
    x = fl.open("s.zarr" if "sparse" in kind else "f.npy" if kind == "fortran" else "tall.npy")
    if kind == "memory":
        x = np.load("tall.npy")
    given = {"init": np.asarray(x[:5], float)} if kind == "seeds" else {"k": 5}
    if kind == "random":
        given["init"] = "random"
    if kind == "minibatch":
        given |= {"init": "random", "method": "minibatch"}
    if kind == "stored":
        given, x = {"init": x[:TWO_BLOCKS], "where": {"centers": "disk"}}, x[:40_000]
    if kind == "sparse stored":  # 256 are a block
        seeds = np.random.default_rng(7).uniform(0, 0.1, (300, x.shape[1]))
        given = {"init": fl.from_numpy(seeds, "seeds.zarr", overwrite=True), "where": {"centers": "disk"}}
    if kind == "stored seeds":
        given, x = {"k": TWO_BLOCKS, "init": "random", "where": {"centers": "disk"}}, x[:40_000]
    return lambda: fl.kmeans(x, iterations=3, out="clusters.zarr", **given).labels


@entry("knn", "knn", "KnnResult.distances", "KnnResult.indices", variants=("points", "itself"))
def knn(kind):
    queries = fl.open("short.npy")  # 6,000: all of the tall ones would take minutes
    points = fl.open("tall.npy") if kind == "points" else None
    queries = queries[:500] if kind == "points" else queries
    return lambda: fl.knn(queries, points, 4, out="neighbours.zarr")


@entry("radius_neighbors", "radius_neighbors", variants=("points", "itself"))
def radius_neighbors(kind):
    queries = fl.open("short.npy")
    points = fl.open("tall.npy") if kind == "points" else None
    queries = queries[:500] if kind == "points" else queries
    first = np.asarray(queries[:2], float)
    near = 0.6 * float(np.linalg.norm(first[0] - first[1]))
    return lambda: fl.radius_neighbors(queries, points, near, out="near.zarr")


@entry("plans of clusters", "{}.plan", variants=("kmeans", "knn", "radius_neighbors"))
def plans_of_clusters(name):
    x = fl.open("tall.npy")
    if name == "radius_neighbors":
        return lambda: fl.radius_neighbors.plan(x, None, 3)
    return lambda: fl.kmeans.plan(x, 5) if name == "kmeans" else fl.knn.plan(x, None, 3)


@entry("topics", "topics", "TopicsResult.topics", "TopicsResult.isle", "TopicsResult.clusters", "open_topics",
       "topics.plan", variants=("passes", "sample", "held", "scratch"))  # fmt: skip
def topics(kind):
    x = fl.open("s.zarr")
    given = {"passes": 2} if kind == "passes" else {"passes": 0, "sample": 0.5}
    if kind in ("held", "scratch"):
        place = "memory" if kind == "held" else "disk"
        where = dict.fromkeys(("thresholded", "basis", "projection", "centers", "buckets"), place)
        given = {"passes": 0, "solver": "krylov-schur", "where": where}
    return lambda: fl.topics(x, 3, out="topics.zarr", **given).topics


@entry("topics and documents", "TopicsResult.{}",
       variants=("transform", "perplexity", "coherence", "diversity", "top_words"))  # fmt: skip
def topics_and_documents(name):
    x = fl.open("s.zarr")
    found = fl.topics(x, 3, passes=0)
    if name in ("diversity", "top_words"):
        return lambda: getattr(found, name)(number=4)
    return lambda: getattr(found, name)(x)


@entry("points and centers", "KMeansResult.{}", variants=("predict", "transform"))
def points_and_centers(name):
    x = fl.open("tall.npy")
    found = fl.kmeans(np.asarray(x[:50], float), 3)
    return lambda: getattr(found, name)(x, out="assigned.zarr")


@entry("points and centers on disk", variants=("predict", "transform"))
def points_and_stored_centers(name):
    x = fl.open("tall.npy")
    found = fl.kmeans(x[:6000], init=x[:TWO_BLOCKS], iterations=1, labels=False, where={"centers": "disk"})
    some = x[:20_000] if name == "predict" else x[:1500]
    return lambda: getattr(found, name)(some, out="assigned.zarr")


@entry("sparse points and centers", variants=("predict", "transform", "estimator"))
def sparse_points_and_centers(name):
    x = fl.open("s.zarr")
    if name == "estimator":
        return lambda: estimators.KMeans(3, max_iter=2, random_state=0).fit(x).transform(x)
    found = fl.kmeans(x, 3, iterations=2, labels=False)
    return lambda: getattr(found, name)(x, out="assigned.zarr")


def tagged(points: int = 3000):
    """Points and labels of theirs, stored."""
    x, y = random_csr(points, 400, 0.03, 5, "float32"), random_csr(points, 24, 0.06, 6, "float32")
    return fl.from_blocks([x]), fl.from_blocks([y])


@entry("label trees", "train_labels", variants=("float32", "int8", "forest"), headers=POINTERS)
def train_labels(kind):
    x, y = tagged()
    if kind == "forest":
        return lambda: fl.train_labels(x, y, method="pfastrexml", trees=2, max_leaf=50, out="trees.zarr")
    return lambda: fl.train_labels(x, y, trees=1, max_leaf=8, format=kind, out="trees.zarr")


def saved_by_pecos(labels: int = 300, features: int = 400) -> str:
    """A model of one level as PECOS saves it."""
    folder = Path("pecos/0.model")
    folder.mkdir(parents=True, exist_ok=True)
    weights = scipy.sparse.random(features + 1, labels, 0.2, "csc", "f4", random_state=7)
    scipy.sparse.save_npz(folder / "W.npz", weights, compressed=False)
    scipy.sparse.save_npz(folder / "C.npz", scipy.sparse.csc_matrix(np.ones((labels, 1), "f4")))
    told = {"bias": 1.0, "pred_kwargs": {"post_processor": "l3-hinge"}}
    (folder / "param.json").write_text(json.dumps(told))
    about = {"depth": 1, "nr_features": features, "nr_labels": labels}
    (folder.parent / "param.json").write_text(json.dumps(about))
    return "pecos"


@entry(
    "a model of PECOS", "import_labels", headers=POINTERS,
    refused_late="its clusters, which are read first, say how many chunks there are",
)  # fmt: skip
def import_labels():
    folder = saved_by_pecos()
    return lambda: fl.import_labels(folder, "from-pecos.zarr")


@entry("labels of points", "open_labels", "LabelModel.{}", variants=("predict", "tree"), headers=POINTERS)
def labels_of_points(name):
    x, y = tagged()
    fl.train_labels(x, y, trees=1, max_leaf=8, out="asked-trees.zarr")
    if name == "tree":
        return lambda: fl.open_labels("asked-trees.zarr").tree(0)
    return lambda: fl.open_labels("asked-trees.zarr").predict(x, 3, out="predicted.zarr")


@entry("labels by a forest", "LabelModel.{}", variants=("predict", "tail"), headers=POINTERS)
def labels_by_a_forest(name):
    x, y = tagged()
    fl.train_labels(x, y, method="pfastrexml", trees=2, max_leaf=50, out="asked-forest.zarr")
    if name == "tail":
        return lambda: fl.open_labels("asked-forest.zarr").tail
    return lambda: fl.open_labels("asked-forest.zarr").predict(x, 3, out="predicted.zarr")


@entry("plans of label trees", "train_labels.plan", variants=("train", "predict"), headers=POINTERS)
def plans_of_labels(name):
    x, y = tagged()
    model = fl.train_labels(x, y, trees=1, max_leaf=8, out="planned-trees.zarr")
    return lambda: fl.train_labels.plan(x, y) if name == "train" else model.predict.plan(x)


@entry("measures of labels", "label_metrics")
def label_metrics():
    _, y = tagged()
    found = np.arange(5 * 3000, dtype="i4").reshape(3000, 5) % 24
    return lambda: fl.label_metrics(found, y, y)


@entry("a k-means model", "estimators.KMeans", "estimators.KMeans.{}",
       variants=("fit", "partial_fit", "predict", "score", "transform"))  # fmt: skip
def model(name):
    x = fl.open("tall.npy")
    made = estimators.KMeans(3, max_iter=2)
    if name not in ("fit", "partial_fit"):
        made.fit(np.asarray(x[:50], float))
    return lambda: getattr(made, name)(x)


@entry("a model of neighbours", "estimators.NearestNeighbors", "estimators.NearestNeighbors.{}",
       variants=("fit", "kneighbors", "kneighbors_graph", "radius_neighbors",
                 "radius_neighbors_graph"))  # fmt: skip
def neighbours(name):
    x = fl.open("short.npy")
    made = estimators.NearestNeighbors(3, radius=0.1)
    if name == "fit":
        return lambda: made.fit(x)
    queries = np.asarray(x[:50]) if name == "radius_neighbors" else x[:500]
    return lambda: getattr(made.fit(x), name)(queries)


@entry("a model of topics", "estimators.TopicModel", "estimators.TopicModel.{}",
       variants=("fit", "transform", "perplexity", "score"))  # fmt: skip
def topic_model(name):
    x = fl.open("s.zarr")
    made = estimators.TopicModel(3, passes=1)
    if name != "fit":
        made.fit(x)
    return lambda: getattr(made, name)(x)


@entry("topics of an array", "estimators.TopicModel.{}", variants=("transform", "perplexity"))
def topics_of_an_array(name):
    x = fl.open("s.zarr")
    made = estimators.TopicModel(3, passes=1).fit(x)
    counts = fl.from_numpy(x[:2000].to_scipy().toarray())
    return lambda: getattr(made, name)(counts)


@entry("a model of labels", *(f"estimators.{kind}" for kind in ("Parabel", "PfastreXML")), "estimators.{}",
       variants=tuple(f"{kind}.{name}" for kind in ("Parabel", "PfastreXML")
                      for name in ("fit", "predict", "predict_top", "score")), headers=POINTERS)  # fmt: skip
def label_model(case):
    kind, name = case.split(".")
    x, y = tagged()
    made = getattr(estimators, kind)(1, max_leaf=8 if kind == "Parabel" else 50)
    if name == "fit":
        return lambda: made.fit(x, y)
    made.fit(x, y)
    given = {"predict": (x,), "predict_top": (x, 3), "score": (x, y)}[name]
    return lambda: getattr(made, name)(*given)


def space() -> nuclear.Space:
    return nuclear.Space(3, 3, 4, nuclear.Interaction.random(1))


def stored(name: str = "h-of-register.zarr") -> subspace.ProjectedMatrix:
    subspace.project(space(), nuclear.basis_of_j(space(), 1), out=name)
    return subspace.open(name)


@entry("a basis of J", "nuclear.basis_of_j", variants=("equal blocks once", "all"))
def basis_of_j(how):
    of = space()
    return lambda: nuclear.basis_of_j(of, 1, dedup=how != "all")


@entry("a basis of blocks", "subspace.basis", "subspace.BlockBasis.block", "subspace.BlockBasis.to_scipy")
def basis():
    blocks = [(60, np.linalg.qr(np.random.default_rng(i).normal(size=(60, 30)))[0]) for i in range(20)]

    def run():
        made = subspace.basis(blocks)
        return made.block(3), made.to_scipy()

    return run


@entry("a projection", "subspace.project", variants=("panels", "columns", "files", "stored rows"))
def projection(how):
    of = space()
    Z = nuclear.basis_of_j(of, 1, dedup=False)
    H = of.hamiltonian(2) if how == "stored rows" else of
    options = {"columns": {"order": "columns"}, "files": {"files": 3}}.get(how, {})
    return lambda: subspace.project(H, Z, **options)


@entry("a Hamiltonian by rows", "nuclear.Space.hamiltonian", variants=("stored", "kept"))
def hamiltonian(how):
    of = space()
    if how == "stored":
        return lambda: of.hamiltonian(2)
    Z = nuclear.basis_of_j(of, 1)
    shutil.rmtree("kept-of-register.zarr", ignore_errors=True)  # it is not replaced
    return lambda: subspace.project(of, Z, keep_h="kept-of-register.zarr")


@entry("whether H commutes with J²", "nuclear.commutator")
def commutator():
    of = space()
    H = of.hamiltonian(2)
    return lambda: np.array(nuclear.commutator(H, of, 2))


@entry(
    "products with H'", "subspace.open", "subspace.ProjectedMatrix.{}", variants=("__matmul__", "matmat")
)  # fmt: skip
def products(name):
    made = stored()
    x = np.ones((made.shape[0], 4))
    return lambda: getattr(made, name)(x)


@entry("a small H' in memory", "subspace.ProjectedMatrix.{}", variants=("to_dense", "to_scipy"))
def in_memory(name):
    of = nuclear.Space(3, 3, 2, nuclear.Interaction.random(1))
    made = subspace.project(of, nuclear.basis_of_j(of, 1))
    return lambda: getattr(made, name)()
