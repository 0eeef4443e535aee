"""Breadth-first levels of a graph on disk: small frontiers push, large ones are pulled (Beamer 2012)."""

import numpy as np
import scipy.sparse as sp

import flagstone as fl


def levels(graph: fl.SparseArray, source: int) -> np.ndarray:
    """Return how many edges of an undirected graph each vertex is away from `source`; -1: not reached."""
    found = np.full(graph.shape[0], -1)
    found[source], level, frontier = 0, 0, np.array([source])
    while len(frontier):
        level += 1
        unseen = found < 0
        at = np.ones(len(frontier), bool), (frontier, np.zeros_like(frontier))
        x = sp.coo_matrix(at, (len(found), 1))
        if 15 * len(frontier) < unseen.sum():  # reads the rows of the frontier
            reached = fl.matmul(graph.T, x, semiring="or_and", mask=unseen).tocoo().row
        else:  # reads the rows of what is not reached
            reached = np.flatnonzero(fl.matmul(graph, x.toarray()[:, 0], semiring="or_and", mask=unseen))
        found[reached], frontier = level, reached
    return found


if __name__ == "__main__":
    path = sp.diags([1.0, 1.0], [-1, 1], (100, 100)).tocsr()  # 0 - 1 - 2 - ...
    print(levels(fl.from_blocks([path]), 3))
