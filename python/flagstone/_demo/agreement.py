"""How far two partitions agree, beyond chance: adjusted mutual information."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["adjusted_mutual_information"]


def _entropy(sizes: NDArray[np.float64], n: int) -> float:
    share = sizes[sizes > 0] / n
    return float(-(share * np.log(share)).sum())


def adjusted_mutual_information(one: NDArray[np.integer], other: NDArray[np.integer]) -> float:
    """Return 1 for equal partitions, 0 on average for independent ones of these sizes.

    Vinh, Epps and Bailey 2010: (I − E[I]) ÷ (mean of the entropies − E[I]), E over all partitions with these
    sizes, by logarithms of factorials. 8 bytes an element; for each pair of parts the smaller size in steps.
    """
    n = len(one)
    table = np.bincount(
        one.astype(np.int64) * (int(other.max()) + 1) + other,
        minlength=(int(one.max()) + 1) * (int(other.max()) + 1),
    ).reshape(int(one.max()) + 1, -1)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    at = np.nonzero(table)
    met = table[at].astype(np.float64)
    information = float((met / n * np.log(n * met / (rows[at[0]] * columns[at[1]].astype(np.float64)))).sum())
    mean = (_entropy(rows.astype(np.float64), n) + _entropy(columns.astype(np.float64), n)) / 2
    expected = _expected(rows, columns, n)
    if mean == expected:  # one part each, or each element a part
        return 1.0
    return (information - expected) / (mean - expected)


def _expected(rows: NDArray[np.int64], columns: NDArray[np.int64], n: int) -> float:
    """Return the mutual information that chance gives: hypergeometric counts of each pair of parts."""
    log = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])  # of factorials
    total = 0.0
    for a in rows[rows > 0]:
        for b in columns[columns > 0]:
            met = np.arange(max(1, a + b - n), min(a, b) + 1)
            if not len(met):
                continue
            chance = log[a] + log[b] + log[n - a] + log[n - b] - log[n]
            chance = chance - log[met] - log[a - met] - log[b - met] - log[n - a - b + met]
            total += float((met / n * np.log(n * met / (float(a) * float(b))) * np.exp(chance)).sum())
    return total
