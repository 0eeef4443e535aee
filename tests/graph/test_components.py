"""Components and degrees against SciPy; a matrix in boxes against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import flagstone as fl
from flagstone._graph.components import components
from flagstone._graph.density import SIDE, densities, places_of
from flagstone._runtime.call import Call


def graph(n, edges, seed=0, weighted=False):
    """So many random edges, both ways round."""
    rng = np.random.default_rng(seed)
    a = sp.coo_array((rng.uniform(0.5, 2, edges), rng.integers(0, n, (2, edges))), (n, n)).tocsr()
    a = sp.csr_array(a + a.T)
    if not weighted:
        a.data[:] = 1
    return a


def path(n, seed):
    """A path whose vertices are numbered at random: labels have far to go."""
    order = np.random.default_rng(seed).permutation(n)
    a = sp.coo_array((np.ones(n - 1), (order[:-1], order[1:])), (n, n)).tocsr()
    return sp.csr_array(a + a.T)


def star(n):
    """The centre has the largest number."""
    a = sp.coo_array((np.ones(n - 1), (np.arange(n - 1), np.full(n - 1, n - 1))), (n, n)).tocsr()
    return sp.csr_array(a + a.T)


GRAPHS = {
    "sparse": graph(2000, 900),
    "near the threshold": graph(50_000, 26_000, 1),
    "weighted": graph(300, 400, 2, weighted=True),
    "path": path(20_000, 3),
    "star": star(3000),
    "no edges": sp.csr_array((7, 7)),
    "one vertex": sp.csr_array((1, 1)),
    "loops": sp.csr_array(sp.eye_array(5)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_components_are_scipys(name):
    a = GRAPHS[name]
    found = components(Call("test"), fl.from_blocks([a]))
    count, labels = connected_components(a, directed=False)
    assert np.count_nonzero(found.sizes) == count
    first = np.unique(labels, return_index=True)[1]
    np.testing.assert_array_equal(found.labels, first[labels])  # each is called by its least vertex
    np.testing.assert_allclose(found.degrees, a.sum(axis=1), rtol=1e-15 * a.shape[0])


def test_values_of_zero_are_no_edges():
    a = path(50, 1)
    a.data[::3] = 0
    a = sp.csr_array((a.data, a.indices, a.indptr), a.shape)
    found = components(Call("test"), fl.from_blocks([a]))
    b = a.copy()
    b.eliminate_zeros()
    assert np.count_nonzero(found.sizes) == connected_components(b)[0]


def test_many_stretches_give_the_same_bits():
    a = graph(60_000, 300_000, 5, weighted=True)
    stored = fl.from_blocks([a])
    whole = components(Call("test"), stored)
    call = Call("test")
    call.share = lambda what, each, most, *, fixed=0, least=1: 1000
    parts = components(call, stored)
    assert np.array_equal(whole.labels, parts.labels)
    assert np.array_equal(whole.degrees, parts.degrees)


def test_what_is_no_weight_is_refused():
    for value, kind in ((-1.0, fl.ShapeError), (np.nan, fl.NumericalError), (np.inf, fl.NumericalError)):
        a = graph(40, 400, 3)
        a.data[a.indptr[17]] = value
        stored = fl.from_blocks([a])
        with pytest.raises(kind, match=f"row 17 of A holds {value:g}"):
            components(Call("test"), stored)


def test_real_graphs(shared_data):
    for name in ("snap-ca-AstroPh/ca-AstroPh.txt", "snap-wiki-Vote/wiki-Vote.txt"):
        stored = fl.open_edges(
            shared_data / name, symmetric=True, ids="dense", loops=False, duplicates="first"
        )
        found = components(Call("test"), stored)
        assert np.count_nonzero(found.sizes) == connected_components(stored.to_scipy())[0]
        if "Astro" in name:
            assert np.count_nonzero(found.sizes) == 290
            assert found.sizes.max() == 17_903


@pytest.mark.parametrize("n", [3, 700, 5000])
def test_densities_count_values(n):
    a = graph(n, 4 * n, 7)
    vertices = np.flatnonzero(np.arange(n) % 5 != 1)
    order = np.random.default_rng(0).permutation(len(vertices))
    places = [places_of(n, vertices), places_of(n, vertices, order)]
    found = densities(Call("test"), fl.from_blocks([a]), places)
    m = len(vertices)
    for counts, seen in zip(found, (vertices, vertices[order]), strict=True):
        part = a[seen][:, seen].tocoo()
        side = min(m, SIDE)
        wanted = np.zeros((side, side), int)
        np.add.at(wanted, (part.row * side // m, part.col * side // m), 1)
        np.testing.assert_array_equal(counts, wanted)
