"""Nearest neighbours as scikit-learn knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array
from .._cluster.knn import knn
from .._cluster.radius import radius_neighbors
from .._runtime.call import Call
from .._runtime.routine import least_of
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks, writer_bytes
from .._sparse.row_blocks import row_blocks
from .base import Estimator
from .validation import feature_names, points

__all__ = ["NearestNeighbors"]

_ENTRIES = 1 << 17  # of a graph that are handled at a time
_WRITING = 64 * _ENTRIES + (4 << 20)  # bytes: these on their way to the writer, and a first block


class NearestNeighbors(Estimator):
    """Exact nearest neighbours among points that may be larger than memory.

    Parameters
    ----------
    n_neighbors : int
        Neighbours of each query.
    radius : float
        Of `radius_neighbors`: distances of at most that; of "inner" products of at least that.
    metric : {"euclidean", "cosine", "inner"}
        As in `flagstone.knn`.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    n_samples_fit_, n_features_in_
        Points of `fit`, and their coordinates.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, n_neighbors: int = 5, *, radius: float = 1.0, metric: str = "euclidean",
        memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_neighbors, self.radius, self.metric = n_neighbors, radius, metric
        self.memory, self.scratch = memory, scratch

    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Keep the points.

        Parameters
        ----------
        X : Array, Expression or ndarray, n x d
            One point a row, on disk or in memory; nothing is copied but an ndarray.
        y : ignored

        Returns
        -------
        self
        """
        checked = points(type(self).__name__, X)
        self._points = checked.copy() if isinstance(checked, np.ndarray) else checked
        self.n_samples_fit_, self.n_features_in_ = (int(extent) for extent in checked.shape)
        self._name_features(feature_names(X))
        return self

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Return the nearest points of `fit`.

        Parameters
        ----------
        X : Array, Expression or ndarray, m x d, optional
            Queries; default: the points of `fit`, none of which is its own neighbour.
        n_neighbors : int, optional
            Default: that of the estimator.
        return_distance : bool
            Return distances too.

        Returns
        -------
        distances, indices : ndarray or Array, m x n_neighbors
            ndarrays of queries in memory; without `return_distance` the indices alone.

        Notes
        -----
        Reads the queries once and the points once for each block of queries in memory; 2 m n d flops.
        """
        given, found = self._nearest(X, n_neighbors)
        distances, indices = (_like(given, part) for part in found)
        return (distances, indices) if return_distance else indices

    def _nearest(self, X: Any, n_neighbors: int | None, graph: str = "") -> tuple[Any, Any]:
        """Return the queries as they were looked at, and what knn found.

        `graph`: who will write it as a matrix; a limit that cannot hold both is refused once.
        """
        self._fitted()
        who = type(self).__name__
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if isinstance(k, bool) or not hasattr(k, "__index__"):
            raise TypeError(f"{who}: n_neighbors does not take {type(k)} value, enter integer value.")
        most = self.n_samples_fit_ - (X is None)
        if not 1 <= k <= most:
            raise ValueError(
                f"{who}: Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}, n_samples_fit = "
                f"{most}; give a number from 1 to that."
            )
        given = self._queries(X)
        choose = None if X is None else self._points
        options: dict[str, Any] = {"metric": self.metric, "exclude_self": X is None}
        with self._runtime():
            if graph:
                call = Call(graph)
                written = _core.resident_bytes() + writer_bytes(most, np.dtype(np.float64)) + _WRITING
                call.check_chain(max(least_of(knn, given, choose, int(k), **options), written))
            return given, knn(given, choose, int(k), **options)

    def _queries(self, X: Any) -> Any:
        if X is None:
            return self._points
        who = type(self).__name__
        given = points(who, X)
        self._check_features(X, given)
        return given

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> Any:
        """Return the nearest points of `fit` as a matrix: a row a query, a column a point.

        Parameters
        ----------
        X : Array, Expression or ndarray, m x d, optional
            Queries; default: the points of `fit`, none of which is its own neighbour.
        n_neighbors : int, optional
            Default: that of the estimator.
        mode : {"connectivity", "distance"}
            Ones, or distances.

        Returns
        -------
        SparseArray or SciPy CSR matrix, m x n
            float64; SciPy's of queries in memory.

        Notes
        -----
        As `kneighbors`, whose results lie in scratch meanwhile, and one read of those.
        """
        who = type(self).__name__
        _check_mode(who, mode)
        given, found = self._nearest(X, n_neighbors, "kneighbors_graph")
        with self._runtime():
            graph = from_blocks(_rows_of(found, self.n_samples_fit_, mode), dtype=np.float64)
        return graph.to_scipy() if isinstance(given, np.ndarray) else graph

    def radius_neighbors_graph(
        self, X: Any = None, radius: float | None = None, mode: str = "connectivity"
    ) -> Any:
        """Return all points of `fit` within a radius as a matrix: a row a query, a column a point.

        Parameters
        ----------
        X : Array, Expression or ndarray, m x d, optional
            Queries; default: the points of `fit`, none of which is its own neighbour.
        radius : float, optional
            Default: that of the estimator.
        mode : {"connectivity", "distance"}
            Ones, or distances.

        Returns
        -------
        SparseArray or SciPy CSR matrix, m x n
            float64; SciPy's of queries in memory. May exceed memory where the queries do.

        Notes
        -----
        As `flagstone.radius_neighbors`: X is read once for each stretch of queries; 2 m n d flops.
        """
        self._fitted()
        _check_mode(type(self).__name__, mode)
        given, graph = self._queries(X), self._within(X, radius)
        if mode == "connectivity":
            with self._runtime():
                graph = from_blocks(_ones(graph), dtype=np.float64)
        return graph.to_scipy() if isinstance(given, np.ndarray) else graph

    def radius_neighbors(
        self, X: Any = None, radius: float | None = None, return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:  # fmt: skip
        """Return all points of `fit` within a radius.

        Parameters
        ----------
        X : ndarray, m x d, optional
            Queries in memory; default: the points of `fit`, none of which is its own neighbour.
        radius : float, optional
            Default: that of the estimator.
        return_distance : bool
            Return distances too.
        sort_results : bool
            The nearest first; default: by index.

        Returns
        -------
        distances, indices : ndarray of m ndarrays
            Without `return_distance` the indices alone.

        Raises
        ------
        TypeError
            The queries are not in memory; `radius_neighbors_graph` returns a matrix that need not be.
        """
        self._fitted()
        given = self._queries(X)
        if not isinstance(given, np.ndarray):
            raise TypeError(
                f"{type(self).__name__}: the queries are no ndarray, and lists of neighbours stay in memory; "
                'call radius_neighbors_graph(mode="distance"), whose matrix may exceed it.'
            )
        found = self._within(X, radius).to_scipy()
        distances, indices = np.empty(len(given), object), np.empty(len(given), object)
        sign = -1 if self.metric == "inner" else 1
        for row, (low, high) in enumerate(zip(found.indptr[:-1], found.indptr[1:], strict=True)):
            values, places = found.data[low:high], found.indices[low:high].astype(np.int64)
            order = np.argsort(sign * values, kind="stable") if sort_results else slice(None)
            distances[row], indices[row] = values[order], places[order]
        return (distances, indices) if return_distance else indices

    def _within(self, X: Any, radius: float | None) -> SparseArray:
        given, within = self._queries(X), self.radius if radius is None else radius
        with self._runtime():
            if X is None:
                return radius_neighbors(given, None, within, metric=self.metric, exclude_self=True)
            return radius_neighbors(given, self._points, within, metric=self.metric)


def _check_mode(who: str, mode: str) -> None:
    if mode not in ("connectivity", "distance"):
        raise ValueError(f"{who}: mode is {mode!r}; choose 'connectivity' or 'distance'.")


def _rows_of(found: Any, cols: int, mode: str) -> Iterator[Any]:
    """Yield stretches of rows of a graph of nearest neighbours."""
    rows, k = found.indices.shape
    step = max(1, _ENTRIES // k)
    for first in range(0, rows, step):
        part = np.s_[first : min(first + step, rows)]
        columns = np.asarray(found.indices[part]).ravel()
        values = np.ones(columns.size) if mode == "connectivity" else np.asarray(found.distances[part])
        yield values.ravel(), columns, np.arange(0, columns.size + 1, k), cols


def _ones(graph: SparseArray) -> Iterator[Any]:
    """Yield stretches of rows of a graph, its values ones."""
    for _, pointers, columns, values in row_blocks(Call("radius_neighbors_graph"), graph):
        yield np.ones(len(values)), columns, pointers, graph.shape[1]


def _like(given: Any, found: Array) -> Any:
    """Return results of queries in memory as ndarrays."""
    return np.asarray(found) if isinstance(given, np.ndarray) else found
