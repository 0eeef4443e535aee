"""Shortest paths from one vertex of a graph on disk: Bellman and Ford's steps are products over (min, +)."""

import numpy as np
import scipy.sparse as sp

import flagstone as fl


def distances(graph: fl.SparseArray, source: int) -> np.ndarray:
    """Return the length of the shortest path to each vertex; a stored (i, j) is an edge from i to j."""
    length = np.full(graph.shape[0], np.inf)
    length[source] = 0
    for _ in range(graph.shape[0]):
        before = length.copy()
        fl.matmul(before, graph, semiring="min_plus", out=length, accumulate=True)
        if np.array_equal(before, length):
            return length
    raise ValueError("shortest paths: there is a cycle of negative length.")


if __name__ == "__main__":
    roads = sp.random(1000, 1000, density=0.01, random_state=0, format="csr")
    print(distances(fl.from_blocks([roads]), 0)[:10])
