"""Nearest neighbours as scikit-learn knows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array.array import Array
from .._cluster.knn import knn
from .base import Estimator
from .validation import feature_names, points, same_features

__all__ = ["NearestNeighbors"]


class NearestNeighbors(Estimator):
    """Exact nearest neighbours among points that may be larger than memory.

    Parameters
    ----------
    n_neighbors : int
        Neighbours of each query.
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
        self, n_neighbors: int = 5, *, metric: str = "euclidean", memory: int | str | None = None,
        scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_neighbors, self.metric, self.memory, self.scratch = n_neighbors, metric, memory, scratch

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
        if (names := feature_names(X)) is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
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
        given = self._points
        if X is not None:
            given = points(who, X)
            same_features(who, X, given, self.n_features_in_, getattr(self, "feature_names_in_", None))
        with self._runtime():
            if X is None:
                found = knn(given, None, int(k), metric=self.metric, exclude_self=True)
            else:
                found = knn(given, self._points, int(k), metric=self.metric)
        distances, indices = (_like(given, part) for part in found)
        return (distances, indices) if return_distance else indices


def _like(given: Any, found: Array) -> Any:
    """Return results of queries in memory as ndarrays."""
    return np.asarray(found) if isinstance(given, np.ndarray) else found
