"""Spectral embedding of points or of a graph, as an estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._cluster.knn import knn
from .._edges.coo import from_coo
from .._errors.classes import ShapeError
from .._expression.compute import compute
from .._expression.expression import Expression
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.row_blocks import row_blocks
from .._sparse.to_csr import all_elements
from .._spectral.eigsh import eigsh
from .base import Transformer
from .validation import feature_names, points

__all__ = ["SpectralEmbedding"]

_ENTRIES = 1 << 17  # of a graph that are handled at a time
_SAFE = 400  # exponents of points whose distances have squares in float64
_LOOKED = 48  # bytes of an entry: its row, whether it stays, how many did before it, what is handed on


def _in_range(X: Any) -> Any:
    """Return points in units in which squares of distances are in range: of float64 one read."""
    if X.dtype != np.float64:
        return X
    lowest, highest = compute(X.min(), X.max()) if not isinstance(X, np.ndarray) else (X.min(), X.max())
    exponent = int(np.frexp(max(abs(float(lowest)), abs(float(highest))))[1])
    return X if abs(exponent) < _SAFE else X * np.ldexp(1.0, -exponent)


def _neighbours(found: Any) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield (points, their nearest others, 1/2) of stretches of points."""
    n, count = found.indices.shape
    step = max(1, _ENTRIES // count)
    for first in range(0, n, step):
        last = min(first + step, n)
        rows = np.repeat(np.arange(first, last), count)
        yield rows, np.asarray(found.indices[first:last]).ravel(), np.full(len(rows), 0.5)


def _apart(who: str, X: SparseArray) -> Iterator[Any]:
    """Yield stretches of rows without what lies on the diagonal."""
    whole = all_elements(who, X, None)
    for row, pointers, columns, values in row_blocks(Call(who), whole, beside=_LOOKED):
        rows = np.repeat(np.arange(row, row + len(pointers) - 1), np.diff(pointers))
        apart = rows != columns
        ends = np.concatenate([[0], np.cumsum(apart)])[pointers]
        yield values[apart], columns[apart], ends, whole.shape[1]


def _without_loops(who: str, X: Any) -> SparseArray:
    """Return weights without those of points to themselves, which no Laplacian sees."""
    if isinstance(X, SparseArray):
        return from_blocks(_apart(who, X), dtype=X.dtype) if X.diagonal().any() else X
    if hasattr(X, "tocsr"):
        entries = X.tocoo()
        apart = entries.row != entries.col
        kept = entries.data[apart], (entries.row[apart], entries.col[apart])
        return from_blocks([type(entries)(kept, shape=entries.shape)])
    dense = np.array(X, np.float64)
    np.fill_diagonal(dense, 0.0)
    return from_blocks([dense])


class SpectralEmbedding(Transformer):
    """Coordinates of points by the leading eigenvectors of a graph among them.

    Parameters
    ----------
    n_components : int
        Coordinates.
    affinity : {"nearest_neighbors", "precomputed"}
        The graph: nearest points by Euclidean distance (1 where two are near each other, 1/2 where one is);
        or X is its symmetric matrix, whose diagonal does not count.
    n_neighbors : int, optional
        Of a point, itself counted; default: a tenth of the points, at least 1.
    tol
        As of `linalg.eigsh`.
    random_state : int, RandomState or Generator, optional
        Seed of the start, or what draws it.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    embedding_ : ndarray or Array, n x components
        On disk where X is.
    eigenvalues_ : ndarray
        Of D^-½ W D^-½, the first, which is 1, left out.
    n_neighbors_, n_features_in_ : int
        What `fit` used and saw.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, n_components: int = 2, *, affinity: str = "nearest_neighbors", n_neighbors: int | None = None,
        tol: float = 1e-6, random_state: Any = 0, memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_components, self.affinity, self.n_neighbors = n_components, affinity, n_neighbors
        self.tol, self.random_state, self.memory, self.scratch = tol, random_state, memory, scratch

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        tags.input_tags.sparse = self.affinity == "precomputed"
        tags.transformer_tags = None
        return tags

    @property
    def _outputs(self) -> int:
        return len(self.eigenvalues_)

    def _graph(self, who: str, X: Any) -> SparseArray:
        n = X.shape[0]
        if self.affinity == "precomputed":
            if n != X.shape[1]:
                raise ShapeError(f"{who}: X is {n} x {X.shape[1]}; a precomputed affinity is square.")
            return _without_loops(who, X)
        if self.affinity != "nearest_neighbors":
            raise ValueError(
                f"{who}: affinity is {self.affinity!r}; choose 'nearest_neighbors' or 'precomputed'."
            )
        number = max(n // 10, 1) if self.n_neighbors is None else self.n_neighbors
        if not hasattr(number, "__index__") or not 1 <= number <= n:
            raise ValueError(f"{who}: n_neighbors is {number!r}; a number between 1 and {n} is needed.")
        self.n_neighbors_ = int(number)
        found = knn(_in_range(X), None, max(1, int(number) - 1), exclude_self=True)
        return from_coo(_neighbours(found), shape=(n, n), symmetric=True)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Find the coordinates.

        Parameters
        ----------
        X : Array or ndarray, n x d; SparseArray or SciPy matrix, n x n, where the affinity is precomputed
            Points, or weights of 0 or more.
        y : None
            Not used.

        Returns
        -------
        self

        Notes
        -----
        Nearest points as `knn` finds them, exactly: n² d flops, X is read once for its range and once for
        each block of points in memory; they and the graph lie in scratch. Of a matrix on disk one read for
        its diagonal, and where that holds something one more and one write of what is beside it. Then the
        passes of `linalg.eigsh`, of which `fl.stats()` tells; nothing is planned before. The coordinates of a
        graph in several components tell these first.
        """
        self._embed(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Find the coordinates and return them.

        Parameters
        ----------
        X : as for `fit`
        y : None
            Not used.

        Returns
        -------
        ndarray or Array, n x components
        """
        self._embed(X)
        return self._shown(self.embedding_, X)

    def _embed(self, X: Any) -> None:
        who = type(self).__name__
        checked = points(who, X, least=2, sparse=self.affinity == "precomputed")
        n, k = checked.shape[0], self.n_components
        if isinstance(k, bool) or not hasattr(k, "__index__") or not 1 <= k < n:
            raise ValueError(
                f"{who}: n_components is {k!r} and n_samples={n}; a number between 1 and {n - 1} is needed."
            )
        with self._runtime():
            graph = self._graph(who, checked).astype(np.float64)
            degrees = np.asarray(graph.sum(axis=1))
            if not np.isfinite(degrees).all() or degrees.min() < 0 or float(np.asarray(graph.min())) < 0:
                raise ValueError(f"{who}: X holds weights that are negative, NaN or infinite; give others.")
            roots = np.sqrt(np.where(degrees == 0, 1, degrees))
            found = eigsh(
                graph.scale(rows=1 / roots, columns=1 / roots), k + 1, which="LA", tol=self.tol,
                seed=self._next_seed(),
            )  # fmt: skip
            self.eigenvalues_ = np.asarray(found.w)[1:]
            if isinstance(checked, (Array, Expression, SparseArray)):
                self.embedding_: Any = compute(found.V[:, 1:] / roots[:, None])
            else:
                self.embedding_ = _signed(np.asarray(found.V)[:, 1:] / roots[:, None])
        self.n_features_in_ = int(checked.shape[1])
        self._name_features(feature_names(X))


def _signed(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vectors whose largest coordinates are positive, as scikit-learn turns them."""
    largest = vectors[np.argmax(abs(vectors), axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(largest < 0, -1.0, 1.0)
