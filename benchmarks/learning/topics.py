"""Topics of planted documents, or of real ones, against scikit-learn's LDA in memory.

Default 5,050 planted documents of 100 words among 2,000, k = 20: mean L1 error of the topics after a
Hungarian matching, with the defaults, without passes of EM and with the published constants.
`--corpus X.npz --held Y.npz`: perplexity by completion and NPMI by the code below, the same for all. Fresh
processes in turn, best of the rounds.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository
from benchmarks.harness import harness

PUBLISHED = {"passes": 0, "eps3": 5.0, "cluster_documents": True}
INNER = 20  # steps of weights, when halves are completed


def completed(topics, y) -> float:
    """exp(-mean log p) of every second word, from the words between."""
    import numpy as np

    m = 0.9999 * topics + 1e-4 / topics.shape[1]
    total = counted = 0.0
    for i in range(y.shape[0]):
        row = y[i]
        tokens = np.repeat(row.indices, row.data.astype(int))
        told, rest = np.unique(tokens[::2], return_counts=True), np.unique(tokens[1::2], return_counts=True)
        if not len(rest[0]):
            continue
        theta = np.full(len(m), 1 / len(m))
        own = m[:, told[0]]
        for _ in range(INNER):
            theta = theta * (own @ (told[1] / (theta @ own))) + 0.02
            theta /= theta.sum()
        total += (rest[1] * np.log(theta @ m[:, rest[0]])).sum()
        counted += rest[1].sum()
    return float(np.exp(-total / counted))


def npmi(topics, x) -> float:
    """Mean over pairs of the ten first words, by documents of x."""
    import numpy as np

    there = (x > 0).astype(float).tocsc()
    scores = []
    for row in topics:
        some = there[:, np.argsort(-row)[:10]]
        both = np.asarray((some.T @ some).todense()) / x.shape[0]
        alone = np.diag(both)
        for i in range(10):
            for j in range(i):
                known = both[i, j] > 0
                scores.append(
                    np.log(both[i, j] / (alone[i] * alone[j])) / -np.log(both[i, j]) if known else -1
                )
    return float(np.mean(scores))


def judged(topics, counts: str, held: str, planted: str) -> dict:
    """Return what can be told of topics: their error where they were planted, else perplexity and NPMI."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.optimize import linear_sum_assignment

    if planted:
        away = np.abs(topics[:, None] - np.load(planted)[None]).sum(axis=2)
        return {"error": float(away[linear_sum_assignment(away)].mean())}
    x, y = sp.load_npz(counts).tocsr(), sp.load_npz(held).tocsr()
    return {"perplexity": completed(topics, y), "npmi": npmi(topics, x)}


def ours(counts: str, held: str, planted: str, k: int, options: dict) -> dict:
    import numpy as np

    import flagstone as fl

    x = fl.open(counts)
    plan = fl.topics.plan(x, k, **options)
    with harness.measured() as run:
        found = fl.topics(x, k, **options)
    told = judged(np.asarray(found.topics, float), counts, held, planted)
    return {**vars(run), **told, "plan": plan.as_dict(), "stats": fl.stats().as_dict()}


def scikit_learn(counts: str, held: str, planted: str, k: int) -> dict:
    import scipy.sparse as sp
    from sklearn.decomposition import LatentDirichletAllocation

    x = sp.load_npz(counts).tocsr()
    model = LatentDirichletAllocation(k, learning_method="online", max_iter=10, random_state=0)
    with harness.measured() as run:
        model.fit(x)
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return {**vars(run), **judged(topics, counts, held, planted)}


def make(documents: int, words: int, k: int, to: str, planted: str) -> dict:
    """Documents of 100 words from topics that are drawn."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(words, 0.05), size=k)
    rows = []
    for _ in range(documents):
        p = rng.dirichlet(np.full(k, 0.1)) @ topics
        rows.append(sp.csr_matrix(rng.multinomial(100, p / p.sum()).astype("f4")))
    sp.save_npz(to, sp.vstack(rows).tocsr(), compressed=False)
    np.save(planted, topics)
    return {"documents": documents}


def run() -> int:
    args = harness.options(
        __doc__, documents=(5_050, 600), words=(2_000, 200), k=(20, 4), rounds=(2, 1), corpus=("", ""),
        held=("", ""), baselines=("scikit_learn", ""),
    )  # fmt: skip
    counts, planted = args.corpus, ""
    if not counts:
        counts = str(args.data / f"documents-{args.documents}x{args.words}.npz")
        planted = counts.removesuffix(".npz") + ".npy"
        sizes = {"documents": args.documents, "words": args.words, "k": args.k}
        harness.child(__file__, make, args.timeout, to=counts, planted=planted, **sizes)
    given = {"counts": counts, "held": args.held, "planted": planted, "k": args.k}
    kinds = {"defaults": {}, "without passes": {"passes": 0}, "published": PUBLISHED}
    runs = {
        name: partial(harness.child, __file__, ours, args.timeout, options=options, **given)
        for name, options in kinds.items()
    }
    for name in filter(None, args.baselines.split(",")):
        runs[name] = partial(harness.child, __file__, name, args.timeout, **given)
    try:
        results = harness.alternate(args.rounds, runs, [Path(counts)])
    finally:
        if planted and not args.keep:
            harness.remove(Path(counts))
            harness.remove(Path(planted))
    rows, what = [], f"topics of {Path(counts).name}, k = {args.k}"
    first = {name: one[0] for name, one in results.items()}
    mine, bare, theirs = first["defaults"], first["without passes"], first.get("scikit_learn")
    if planted:
        shown = f"{bare['error']:.3f}", f"{first['published']['error']:.3f} published"
        ratio = bare["error"] / first["published"]["error"]
        rows.append(harness.figure(f"{what}: error, passes=0", *shown, ratio, "<= 0.60", args.full_size))
    for name, target in (("perplexity", "<= 0.97"), ("error", "<= 1.00")):
        if theirs and name in mine:
            shown = f"{mine[name]:.4g}", f"{theirs[name]:.4g} scikit-learn"
            ratio = mine[name] / theirs[name]
            rows.append(harness.figure(f"{what}: {name}", *shown, ratio, target, args.full_size))
    if theirs:
        best = harness.best(results["defaults"]), harness.best(results["scikit_learn"])
        shown = f"{best[0]:.2f} s", f"{best[1]:.2f} s scikit-learn"
        rows.append(harness.figure(f"{what}: time", *shown, best[0] / best[1], "<= 0.10", args.full_size))
    if theirs and "npmi" in mine:
        shown = f"{mine['npmi']:.3f}", f"{theirs['npmi']:.3f} scikit-learn"
        ratio = mine["npmi"] / theirs["npmi"]
        rows.append(harness.figure(f"{what}: NPMI", *shown, ratio, ">= 1.00", args.full_size))
    return harness.report(__file__, args, rows, runs=results)


if __name__ == "__main__":
    harness.main(__file__, run, ours, scikit_learn, make)
