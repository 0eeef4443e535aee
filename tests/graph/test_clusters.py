"""Clusters by column-pivoted QR: LAPACK's pivots, planted blocks; agreement against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from sklearn.metrics import adjusted_mutual_info_score

import flagstone as fl
from flagstone._demo.agreement import adjusted_mutual_information
from flagstone._demo.communities import Communities
from flagstone._graph.clusters import clusters, pivots
from flagstone._runtime.call import Call


def test_pivots_are_lapacks(rng):
    for shape in ((40, 6), (6, 6), (3, 8)):
        rows = rng.standard_normal(shape)
        _, _, order = scipy.linalg.qr(rows.T, mode="economic", pivoting=True)
        np.testing.assert_array_equal(pivots(rows), order[: min(shape)])
    flat = np.outer(rng.standard_normal(30), rng.standard_normal(5))
    assert len(pivots(flat)) == 1


def indicators(labels, k, noise, rng):
    """Orthonormal vectors that span the indicators of the parts, but for noise."""
    parts = np.eye(k)[labels] / np.sqrt(np.bincount(labels, minlength=k))
    turned = parts @ np.linalg.qr(rng.standard_normal((k, k)))[0]
    return np.linalg.qr(turned + noise * rng.standard_normal(turned.shape))[0]


@pytest.mark.parametrize("n", [60, 30_000])  # the second lies in several blocks, and is sampled
def test_planted_parts_are_found(n, rng):
    k = 24
    labels = np.minimum(rng.geometric(0.12, n) - 1, k - 1) if n > 100 else np.arange(n) % k
    v = indicators(labels, k, 0.05 / np.sqrt(n), rng)
    found = clusters(Call("test"), fl.from_numpy(v), k, 0)
    assert adjusted_mutual_information(labels, found) > 0.999
    sizes = np.bincount(found)
    assert (np.diff(sizes) <= 0).all()  # the largest is 0
    assert np.array_equal(found, clusters(Call("test"), fl.from_numpy(v), k, 0))
    few = clusters(Call("test"), fl.from_numpy(v), 3, 0)
    assert few.max() <= 2


@pytest.mark.parametrize("parts", [(3, 3), (5, 9), (1, 4), (1, 1)])
def test_agreement_is_scikit_learns(parts, rng):
    one, other = (rng.integers(0, part, 400) for part in parts)
    other[:150] = one[:150] % parts[1]
    found = adjusted_mutual_information(one, other)
    assert found == pytest.approx(adjusted_mutual_info_score(one, other), abs=1e-9)


def test_the_planted_graph_is_what_it_says():
    graph = Communities(300_000, 3000, 8)
    labels = graph.labels()
    text = b"".join(graph.lines())
    edges = np.array(text.split(), np.int64).reshape(-1, 2)
    assert len(edges) == graph.edges
    ends = graph.vertices_of(edges)
    assert ends.min() >= 0
    assert ends.max() < graph.vertices
    assert np.array_equal(graph.ids(ends), edges)
    inside = (labels[ends[:, 0]] == labels[ends[:, 1]]).mean()
    chance = (np.bincount(labels) ** 2).sum() / graph.vertices**2
    assert inside == pytest.approx(graph.inside + (1 - graph.inside) * chance, abs=0.005)
