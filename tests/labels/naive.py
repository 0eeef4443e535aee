"""Label trees as the paper has them, a point at a time; problems whose answers are known."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def problem(points=300, features=60, labels=40, seed=0, values=8):
    """Points whose features tell their labels, some without any."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, labels, points)
    y = sp.lil_matrix((points, labels), dtype=np.float32)
    x = sp.random(points, features, values / features, "lil", random_state=seed, dtype=np.float32)
    for i, t in enumerate(topic):
        if i % 17:
            y[i, t] = 1
            y[i, (t * 7 + 3) % labels] = 1
        x[i, t % features] = 2
        x[i, (3 * t + 1) % features] += 1
    return x.tocsr(), y.tocsr()


def unit_rows(x):
    lengths = np.sqrt(x.multiply(x).sum(axis=1).A1)
    scaled = sp.diags(1 / np.where(lengths > 0, lengths, 1)) @ x
    return sp.hstack([scaled, np.ones((x.shape[0], 1))]).tocsr()


def predict(model, x, k, beam=10, discount=1.0):
    """Beam search over `model.tree(t)`: sums of exp(score) for all labels that were reached."""
    rows = unit_rows(x.astype(float))
    sums = np.zeros((x.shape[0], model.labels))
    for t in range(model.trees):
        levels = model.tree(t)
        products = [np.asarray((rows @ one.weights.astype(float)).todense()) for one in levels]
        for i in range(x.shape[0]):
            reached = {0: 0.0}
            for level, z in zip(levels, products, strict=True):
                scores = {}
                for node, score in reached.items():
                    for child in np.flatnonzero(level.parent == node):
                        scores[child] = discount * score - max(0.0, 1 - z[i, child]) ** 2
                if level.labels is None:
                    best = sorted(scores, key=lambda n: (-scores[n], n))[:beam]
                    reached = {node: scores[node] for node in best}
            for place, score in scores.items():
                sums[i, levels[-1].labels[place]] += np.exp(score)
    return sums / model.trees


def check_predicted(found, sums, k):
    """Scores are those of the k largest sums, and labels are theirs where rounding decides nothing."""
    labels, scores = (np.asarray(one) for one in found)
    best = -np.sort(-sums, axis=1)[:, :k]
    # float32: a score is a sum of trees of exp(s), s a few sums of products of unit vectors
    np.testing.assert_allclose(scores, best, rtol=2e-4, atol=1e-6)
    chosen = np.take_along_axis(sums, np.maximum(labels, 0), axis=1)
    np.testing.assert_allclose(np.where(labels < 0, 0, chosen), best, rtol=2e-4, atol=1e-6)
    for row in labels:
        assert len(set(row[row >= 0])) == (row >= 0).sum()


def objective(rows, signs, w, cost=1.0):
    """½‖w‖² + C Σ max(0, 1 − y w·x)²."""
    return 0.5 * float(w @ w) + cost * float((np.maximum(0, 1 - signs * (rows @ w)) ** 2).sum())


def nodes_of(model, t):
    """Of each level of a tree: the labels below each node, root first."""
    levels = model.tree(t)
    below = [{n: {int(levels[-1].labels[n])} for n in range(model.labels)}]
    for level in reversed(levels):
        above: dict[int, set[int]] = {}
        for child, parent in enumerate(level.parent):
            above.setdefault(int(parent), set()).update(below[0][child])
        below.insert(0, above)
    return levels, below
