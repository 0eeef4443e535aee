"""Maps of graphs against SciPy: components, eigenpairs, planted communities; limits, bad input, going on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

import flagstone as fl
from flagstone._demo.agreement import adjusted_mutual_information
from flagstone._resume.leftovers import leftovers

TOL = 1e-6
EPS = np.finfo(float).eps


def planted(sizes, degree, inside, seed=0):
    """Communities of these sizes; vertices of the last one have no edge to others."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    n, edges = len(labels), len(labels) * degree // 2
    one = rng.integers(0, n, edges)
    other = rng.integers(0, n, edges)
    members = [np.flatnonzero(labels == c) for c in range(len(sizes))]
    for c, of in enumerate(members):
        stays = np.flatnonzero((labels[one] == c) & (rng.random(edges) < inside))
        other[stays] = rng.choice(of, len(stays))
    keep = one != other
    a = sp.coo_array((np.ones(keep.sum()), (one[keep], other[keep])), (n, n)).tocsr()
    a = sp.csr_array(a + a.T)
    a.data[:] = 1
    return a, labels


def scaled(a):
    """D^-½ A D^-½ of the largest component, and its vertices."""
    count, labels = connected_components(a, directed=False)
    keep = np.flatnonzero(labels == np.bincount(labels).argmax())
    part = sp.csr_array(a)[keep][:, keep]
    root = sp.diags_array(1 / np.sqrt(part.sum(axis=1)))
    return sp.csr_array(root @ part @ root), keep, count


def check(found, a, k, tol=TOL):
    normal, keep, count = scaled(a)
    np.testing.assert_array_equal(found.vertices, keep)
    assert found.components == count
    assert found.left_out == a.shape[0] - len(keep)
    assert found.isolated == np.count_nonzero(np.asarray(a.sum(axis=1)) == 0)
    w, v = found
    v = np.asarray(v)
    assert v.shape == (len(keep), k)
    residual = np.linalg.norm(normal @ v - v * w, axis=0)
    assert (residual <= tol * np.maximum(abs(w), EPS ** (2 / 3)) + 1e3 * EPS).all()
    assert abs(residual - found.residual).max() <= 1e-12
    assert abs(v.T @ v - np.eye(k)).max() <= 1e3 * EPS * np.sqrt(len(keep))
    if k < len(keep) - 1:
        best = np.sort(eigsh(normal, k, which="LA", tol=1e-10)[0])[::-1]
        np.testing.assert_allclose(w, best, atol=tol)


@pytest.fixture(scope="module")
def communities():
    """Five communities, 40 vertices without an edge and a triangle beside them."""
    a, labels = planted([400, 300, 500, 350, 250], 24, 0.7)
    triangle = sp.csr_array(np.ones((3, 3)) - np.eye(3))
    whole = sp.csr_array(sp.block_diag([sp.csr_array((20, 20)), a, triangle, sp.csr_array((20, 20))]))
    return whole, labels


def test_communities_are_found(communities):
    a, labels = communities
    found = fl.spectral_embedding(fl.from_blocks([a]), 5, tol=TOL)
    check(found, a, 5)
    assert (found.components, found.isolated, found.left_out) == (42, 40, 43)
    assert "1,800 of 1,843 vertices; 43 left out, 40 of them" in found.told
    truth = np.concatenate([np.full(20, -1), labels, np.full(23, -1)])[found.vertices]
    assert adjusted_mutual_information(truth, found.clusters) > 0.97
    np.testing.assert_array_equal(found.ids, found.vertices)
    np.testing.assert_array_equal(found.degrees, a.sum(axis=1)[found.vertices])
    assert found.w[0] == pytest.approx(1, abs=1e-12)
    assert "EmbeddingResult of the largest of 42" in repr(found)


def test_the_group_holds_it_all(communities, tmp_path):
    a, _ = communities
    stored = fl.from_blocks([a], tmp_path / "a.zarr")
    found = fl.spectral_embedding(stored, 4, clusters=3, out=tmp_path / "map.zarr", seed=4)
    assert found.clusters.max() == 2
    for name in ("clusters", "vertices", "ids", "degrees", "residual"):
        np.testing.assert_array_equal(fl.open(tmp_path / "map.zarr" / name)[...], getattr(found, name))
    np.testing.assert_array_equal(fl.open(tmp_path / "map.zarr" / "values")[...], found.w)
    np.testing.assert_array_equal(np.asarray(fl.open(tmp_path / "map.zarr" / "vectors")), np.asarray(found.V))
    again = fl.spectral_embedding(stored, 4, clusters=3, seed=4)
    assert np.array_equal(np.asarray(again.V), np.asarray(found.V))
    assert np.array_equal(again.clusters, found.clusters)


def test_weights_and_scipys_matrices(rng):
    a, _ = planted([60, 60], 8, 0.8, 3)
    a = sp.csr_array(sp.triu(a))
    a.data = rng.uniform(0.1, 3, a.nnz)
    a = sp.csr_array(a + a.T)
    check(fl.spectral_embedding(a, 6, tol=TOL), a, 6)
    check(
        fl.spectral_embedding(fl.from_blocks([a.astype("f4")]), 3, tol=TOL), a.astype("f4").astype(float), 3
    )


@pytest.mark.parametrize("name", ["snap-ca-AstroPh/ca-AstroPh.txt", "snap-wiki-Vote/wiki-Vote.txt"])
def test_real_graphs(name, shared_data):
    stored = fl.open_edges(shared_data / name, duplicates="first", symmetric=True, ids="dense", loops=False)
    found = fl.spectral_embedding(stored, 12, tol=1e-4)
    check(found, stored.to_scipy().astype(float), 12, 1e-4)
    np.testing.assert_array_equal(found.ids, stored.ids[...][found.vertices])
    assert found.clusters.max() < 12


def test_a_plan_reads_nothing_and_counts(communities, tmp_path):
    a, _ = communities
    stored = fl.from_blocks([a], tmp_path / "a.zarr")
    plan = fl.spectral_embedding.plan(stored, 4, out=tmp_path / "map.zarr")
    assert not (tmp_path / "map.zarr").exists()
    assert "no vertex were left out" in plan.note
    assert plan.passes >= 3
    with pytest.raises(fl.BudgetError) as refused:
        fl.spectral_embedding(stored, 4, memory="1MiB")
    assert refused.value.least == pytest.approx(plan.least_memory, rel=0.1)


def test_bad_input():
    a = sp.csr_array(np.ones((4, 4)) - np.eye(4))
    refused = [
        (sp.csr_array((3, 4)), 1, fl.ShapeError, "a square matrix is needed"),
        (sp.csr_array((4, 4)), 1, fl.ShapeError, "A holds no edge"),
        (a, 5, fl.ShapeError, "k is 5 and there are 4 vertices"),
        (sp.csr_array(sp.block_diag([a, a])), 5, fl.ShapeError, "the largest component has 4 vertices"),
        (-a, 1, fl.ShapeError, "row 0 of A holds -1"),
        (sp.csr_array(np.triu(np.ones((40, 40)))), 2, fl.NumericalError, "not symmetric"),
        (a.astype(complex), 1, (fl.ShapeError, TypeError), "complex"),
    ]
    for matrix, k, kind, words in refused:
        with pytest.raises(kind, match=words):
            fl.spectral_embedding(matrix, k)
    with pytest.raises(TypeError, match="a sparse matrix is needed"):
        fl.spectral_embedding(np.ones((3, 3)), 1)
    with pytest.raises(fl.ShapeError, match="clusters is 3 and there are 2 vectors"):
        fl.spectral_embedding(a, 2, clusters=3)


def test_k_is_the_whole_component():
    a = sp.csr_array(np.ones((6, 6)) - np.eye(6))
    found = fl.spectral_embedding(a, 6, tol=TOL)
    np.testing.assert_allclose(found.w, [1, *[-0.2] * 5], atol=1e-12)


def test_a_killed_call_goes_on(process, tmp_path):
    a, _ = planted([300, 300, 300], 12, 0.6, 2)
    a = sp.csr_array(sp.block_diag([sp.csr_array((4, 4)), a]))
    fl.from_blocks([a], tmp_path / "a.zarr")
    call = """
fl.spectral_embedding(fl.open("a.zarr"), 6, tol=1e-8, out="map.zarr", seed=3)
result = told() | {"digest": digest("map.zarr")}
"""
    whole = process(call)
    (tmp_path / "map.zarr").rename(tmp_path / "whole.zarr")
    process(call, kill=3)
    (left,) = leftovers(str(tmp_path / "map.zarr"))
    assert 0 < left.done < 1
    again = process('fl.resume("map.zarr")\nresult = told() | {"digest": digest("map.zarr")}')
    assert again["digest"] == whole["digest"]
    assert again["flops"] < whole["flops"]
