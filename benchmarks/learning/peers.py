"""Clusters, neighbours, topics and label inference against faiss, tomotopy and PECOS, all of them in memory.

`--only kmeans,knn,graph,topics,inference` chooses; `--peers PYTHON` names an interpreter that has faiss-cpu,
tomotopy or libpecos (numpy < 2, scipy < 1.11); what it lacks is left out, and said. Targets are at
`--rows 4000000` (k-means), `--points 500000 --queries 20000`, `--self-rows 100000`, `--weights 100000000`.
`topics` needs `--corpus X.npz --held Y.npz`. Fresh processes in turn, best of the rounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness
from benchmarks.learning import kmeans, topics

NEEDS = {"kmeans": "faiss", "knn": "faiss", "graph": "faiss", "topics": "tomotopy", "inference": "pecos"}
LEAVES = 16  # children of a node of the model that is made


def faiss_kmeans(npy: str, k: int, iterations: int) -> dict:
    import faiss
    import numpy as np

    x = np.load(npy)
    model = faiss.Kmeans(x.shape[1], k, niter=iterations, min_points_per_centroid=1,
                         max_points_per_centroid=len(x))  # fmt: skip
    with harness.measured() as run:
        model.train(x, init_centroids=np.ascontiguousarray(x[:k]))
    return {**vars(run), "inertia": float(model.obj[-1])}


def faiss_knn(npy: str, queries: int, k: int) -> dict:
    """`queries` 0: of the points with themselves."""
    import faiss
    import numpy as np

    x = np.load(npy)
    with harness.measured() as run:
        index = faiss.IndexFlatL2(x.shape[1])
        index.add(x)
        _, found = index.search(x[:queries] if queries else x, k)
    return {**vars(run), "sum": int(found[:, -1].sum())}


def our_knn(npy: str, queries: int, k: int, memory: str) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(npy)
    given = (x[:queries], x, k) if queries else (x, None, k)
    with harness.measured() as run:
        found = fl.knn(*given, memory=memory)
    return {**vars(run), "sum": int(np.asarray(found.indices)[:, -1].sum())}


def tomotopy(counts: str, held: str, k: int, iterations: int) -> dict:
    import numpy as np
    import scipy.sparse as sp
    import tomotopy as peer

    x = sp.load_npz(counts).tocsr()
    names = [str(w) for w in range(x.shape[1])]
    model = peer.LDAModel(k=k, seed=0)
    for i in range(x.shape[0]):
        own = slice(x.indptr[i], x.indptr[i + 1])
        model.add_doc(np.repeat(x.indices[own], x.data[own].astype(int)).astype(str).tolist())
    with harness.measured() as run:
        model.train(iterations, workers=2)
    place = np.array([int(word) for word in model.used_vocabs])
    found = np.zeros((k, len(names)))
    for t in range(k):
        found[t, place] = model.get_topic_word_dist(t)
    return {**vars(run), **topics.judged(found, counts, held, "")}


def make_model(folder: str, weights: int, points: int, features: int) -> dict:
    """A model of two levels as PECOS saves it, with random weights, and points that meet some of them."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    each = 200  # weights of a label
    labels = max(LEAVES, weights // each)
    parents = -(-labels // LEAVES)
    levels = ((parents, 1, np.zeros(parents, int)), (labels, parents, rng.permutation(labels) // LEAVES))
    place = Path(folder)
    for number, (nodes, above, of) in enumerate(levels):
        level = place / "ranker" / f"{number}.model"
        level.mkdir(parents=True, exist_ok=True)
        # Popular features are popular with all: points and labels meet.
        rows = np.sort((features * rng.random((nodes, each)) ** 3).astype(np.int32), axis=1)
        values = (0.3 * rng.standard_normal(rows.size)).astype(np.float32)
        w = sp.csc_matrix((values, rows.ravel(), np.arange(nodes + 1) * each), (features + 1, nodes))
        w.sum_duplicates()
        sp.save_npz(level / "W.npz", w, compressed=False)
        c = sp.csc_matrix((np.ones(nodes, np.float32), (np.arange(nodes), of)), (nodes, above))
        sp.save_npz(level / "C.npz", c, compressed=False)
        rule = {"only_topk": 10, "post_processor": "l3-hinge"}
        about = {"bias": 1.0, "nr_labels": nodes, "nr_features": features, "nr_codes": above}
        told = {"model": "MLModel", "pred_kwargs": rule} | about
        (level / "param.json").write_text(json.dumps(told))
    told = {
        "model": "HierarchicalMLModel",
        "depth": 2,
        "nr_features": features,
        "nr_labels": labels,
        "nr_codes": 1,
    }
    (place / "ranker" / "param.json").write_text(json.dumps(told))
    (place / "param.json").write_text(json.dumps({"model": "XLinearModel"}))
    columns = (features * rng.random((points, 100)) ** 3).astype(np.int32)
    x = sp.csr_matrix((rng.random(columns.size, np.float32), columns.ravel(), np.arange(points + 1) * 100),
                      (points, features))  # fmt: skip
    x.sum_duplicates()
    sp.save_npz(place / "X.npz", x)
    return {"labels": labels}


def pecos(folder: str) -> dict:
    import scipy.sparse as sp
    from pecos.xmc.xlinear.model import XLinearModel

    x = sp.load_npz(f"{folder}/X.npz").tocsr()
    x.sort_indices()
    model = XLinearModel.load(folder, is_predict_only=True)
    with harness.measured() as run:
        found = model.predict(x, beam_size=10, only_topk=10, threads=2)
    return {**vars(run), "best": float(found.max(axis=1).sum())}


def our_inference(folder: str, model: str, memory: str) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(f"{folder}/X.npz")
    trees = fl.open_labels(model)
    with harness.measured() as run:
        found = trees.predict(x, 10, beam=10, memory=memory)
    return {**vars(run), "best": float(np.asarray(found.scores)[:, 0].astype(float).sum())}


def imported(folder: str, out: str) -> dict:
    import flagstone as fl

    with harness.measured() as run:
        model = fl.import_labels(folder, out)
    return {**vars(run), "weights": model.weights}


def has(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def compared(args, name: str, ours: partial, theirs: partial, target: str, file: Path) -> tuple[dict, list]:
    """Both in turn, and the row of the table."""
    results = harness.alternate(args.rounds, {"flagstone": ours, NEEDS[name]: theirs}, [file])
    mine, best = harness.best(results["flagstone"]), harness.best(results[NEEDS[name]])
    shown = f"{mine:.2f} s", f"{best:.2f} s {NEEDS[name]}"
    return results, [harness.figure(f"{name}: time", *shown, mine / best, target, args.full_size)]


def compare_topics(args) -> tuple[dict, list]:
    given = {"counts": args.corpus, "held": args.held, "k": args.topics}
    ours = partial(harness.child, topics.__file__, topics.ours, args.timeout, planted="", options={}, **given)
    theirs = partial(
        harness.child, __file__, tomotopy, args.timeout, python=args.peers, iterations=args.sweeps, **given
    )
    results, rows = compared(args, "topics", ours, theirs, "<= 0.25", Path(args.corpus))
    mine, peer = results["flagstone"][0], results["tomotopy"][0]
    for what in ("perplexity", "npmi"):
        shown = f"{mine[what]:.4g}", f"{peer[what]:.4g} tomotopy"
        rows.append(harness.figure(f"topics: {what}", *shown, mine[what] / peer[what], "<= 1.00", False))
    return results, rows


def compare_inference(args) -> tuple[dict, list]:
    folder, model = args.data / "pecos-model", args.data / "imported.zarr"
    child = partial(harness.child, __file__)
    sizes = {"weights": args.weights, "points": args.asked, "features": args.features}
    child(make_model, args.timeout, folder=folder, **sizes)
    child(imported, args.timeout, folder=folder, out=model)
    ours = partial(child, our_inference, args.timeout, folder=folder, model=model, memory=args.memory)
    theirs = partial(child, pecos, args.timeout, python=args.peers, folder=folder)
    results, rows = compared(args, "inference", ours, theirs, "<= 0.70", model)
    best, peer = results["flagstone"][0]["best"], results["pecos"][0]["best"]
    assert abs(best - peer) <= 1e-4 * max(1.0, peer), f"the best scores add up to {best}, PECOS's to {peer}"
    if not args.keep:
        harness.remove(folder)
        harness.remove(model)
    return results, rows


def compare_points(args, name: str) -> tuple[dict, list]:
    number = {"kmeans": args.rows, "knn": args.points, "graph": args.self_rows}[name]
    npy = args.data / f"points-{number}x{args.cols}.npy"
    harness.child(kmeans.__file__, kmeans.make, args.timeout, rows=number, cols=args.cols, to=npy)
    there = partial(harness.child, __file__, python=args.peers)
    if name == "kmeans":
        given = {"npy": npy, "k": args.k, "iterations": args.iterations}
        ours = partial(harness.child, kmeans.__file__, kmeans.ours, args.timeout, memory=args.memory, **given)
        theirs, target = partial(there, faiss_kmeans, args.timeout, **given), "<= 1.10"
    else:
        given = {"npy": npy, "queries": args.queries if name == "knn" else 0, "k": 10}
        ours = partial(harness.child, __file__, our_knn, args.timeout, memory=args.memory, **given)
        theirs = partial(there, faiss_knn, args.timeout, **given)
        target = "<= 1.00" if name == "knn" else "<= 0.65"
    try:
        return compared(args, name, ours, theirs, target, npy)
    finally:
        if not args.keep:
            harness.remove(npy)


def run() -> int:
    args = harness.options(
        __doc__, rows=(400_000, 5_000), cols=(128, 16), k=(256, 8), iterations=(10, 2), queries=(5_000, 200),
        points=(200_000, 3_000), self_rows=(30_000, 1_000), topics=(50, 4), sweeps=(200, 5), corpus=("", ""),
        held=("", ""), weights=(20_000_000, 40_000), asked=(30_000, 100), features=(100_000, 1_000),
        memory=("512MiB",) * 2, peers=(sys.executable,) * 2, rounds=(2, 1),
        only=("kmeans,knn,graph,inference", "knn,inference"),
    )  # fmt: skip
    rows, every = [], {}
    for name in args.only.split(","):
        if not has(args.peers, NEEDS[name]):
            harness.note(f"{name}: {args.peers} has no {NEEDS[name]}; left out")
            continue
        if name == "topics":
            results, more = compare_topics(args)
        elif name == "inference":
            results, more = compare_inference(args)
        else:
            results, more = compare_points(args, name)
        rows += more
        every |= {f"{name}, {who}": found for who, found in results.items()}
    return harness.report(__file__, args, rows, runs=every)


CHILDREN = (our_knn, faiss_knn, faiss_kmeans, tomotopy, make_model, pecos, our_inference, imported)
if __name__ == "__main__":
    harness.main(__file__, run, *CHILDREN)
