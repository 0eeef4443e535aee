"""Trees of PfastreXML and its means of labels, in SciPy's terms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._runtime.call import Call
from .stored import Parts

__all__ = ["ForestTree", "forest_tail", "forest_tree"]

_LEAVES, _TAIL = 1 << 20, (1 << 20) + 1  # levels of the table: vectors of leaves, means of labels


class ForestTree(NamedTuple):
    """One tree whose nodes send points left (w·x <= 0) and right.

    Attributes
    ----------
    weights : csc_matrix, (features + 1) x nodes
        A column for each node, the bias last; of leaves without weights.
    left, right : ndarray, nodes
        Children; -1 of leaves. Node 0 is the root.
    leaves : csr_matrix, nodes x labels
        Shares of labels at leaves; other rows are empty.
    """

    weights: Any
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    leaves: Any


ForestTree.__module__ = "flagstone"


def _vectors(parts: Parts, chunks: NDArray[np.int64], shape: tuple[int, int], who: str) -> Any:
    """Return a CSR matrix with the vectors of chunks as rows, by their nodes."""
    from scipy import sparse

    Call(who).room("vectors", 48 * int(chunks[:, 8].sum()))
    chunks = chunks[np.argsort(chunks[:, 9])]  # as they lie
    apart = np.flatnonzero(chunks[1:, 5] != chunks[:-1, 5] + chunks[:-1, 6]) + 1
    found = [parts.singles(run) for run in np.split(chunks, apart) if len(run)]
    columns = np.concatenate([np.empty(0, np.int64), *(one[0] for one in found)])
    values = np.concatenate([np.empty(0), *(one[1] for one in found)])
    rows = np.repeat(chunks[:, 2], chunks[:, 8])
    return sparse.csr_matrix((values, (rows, columns)), shape, dtype=np.float32)


def forest_tree(parts: Parts, number: int, features: int, labels: int) -> ForestTree:
    """Return one tree."""
    table = parts.table()
    table = table[(table[:, 1] == number) & (table[:, 0] <= _LEAVES)]
    numbers = np.sort(table[:, 2])  # of subtrees that were grown apart there are gaps between them
    table[:, 2] = np.searchsorted(numbers, table[:, 2])
    inner, leaves = table[table[:, 0] < _LEAVES], table[table[:, 0] == _LEAVES]
    left = np.full(len(table), -1, np.int64)
    left[inner[:, 2]] = np.searchsorted(numbers, inner[:, 3])
    weights = _vectors(parts, inner, (len(table), features + 1), "tree").T.tocsc()
    shares = _vectors(parts, leaves, (len(table), labels), "tree")
    return ForestTree(weights, left, np.where(left < 0, -1, left + 1), shares)


def forest_tail(parts: Parts, features: int) -> Any:
    """Return the means of labels."""
    table = parts.table()
    table = table[table[:, 0] == _TAIL]
    return _vectors(parts, table, (len(table), features), "tail")
