"""k-means as scikit-learn knows it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._cluster.assigned import distances, inertia, labels
from .._cluster.kmeans import batch_step, kmeans
from .._expression.expression import Expression
from .._runtime.routine import planned_by
from .._sparse.array import SparseArray
from .base import Asked, Transformer
from .validation import feature_names, points

__all__ = ["KMeans"]


class _Fit:
    """One fit, to be planned or run."""

    def __init__(self, model: KMeans, X: Any, sample_weight: Any, least: int | None = None) -> None:
        """`least`: points that are needed; default: one for each cluster."""
        who = type(model).__name__
        self.model, self.X = model, points(who, X, sparse=True)
        self.names = feature_names(X)
        rows = self.X.shape[0]
        clusters = model.n_clusters
        if not hasattr(clusters, "__index__") or not 1 <= clusters <= (rows if least is None else clusters):
            raise ValueError(
                f"{who}: n_samples={rows} should be >= n_clusters={clusters}, and that a whole number of 1 "
                "or more; give fewer clusters."
            )
        self.weights = weights_of(who, sample_weight, rows)

    def options(self, drawn: bool) -> dict[str, Any]:
        """Return what the routine takes."""
        model = self.model
        return {
            "init": model.init, "iterations": model.max_iter, "tol": model.tol, "weights": self.weights,
            "metric": model.metric, "method": model.method, "where": model.where,
            "seed": model._next_seed(drawn),
        }  # fmt: skip

    def plan(self) -> Any:
        """Count it."""
        with self.model._runtime():
            return kmeans.plan(self.X, int(self.model.n_clusters), **self.options(drawn=False))

    def run(self) -> Any:
        """Do it."""
        with self.model._runtime():
            return kmeans(self.X, int(self.model.n_clusters), **self.options(drawn=True))


def weights_of(who: str, given: Any, rows: int) -> NDArray[Any] | None:
    """Return weights of points, checked."""
    if given is None:
        return None
    values = np.asarray(given, np.float64)
    values = np.full(rows, float(values)) if values.ndim == 0 else values
    if values.shape != (rows,):
        raise ValueError(
            f"{who}: sample_weight has shape {values.shape} and there are {rows} points; Sample weights must "
            "be 1D array or scalar, one for each."
        )
    return values


class KMeans(Transformer):
    """Clusters of points by Lloyd's algorithm, one read of the points an iteration.

    Parameters
    ----------
    n_clusters : int
        Clusters.
    init : {"k-means||", "k-means++", "random"} or ndarray, n_clusters x d
        Seeds; "k-means++" takes a read of X for each center.
    max_iter : int
        Iterations at most.
    tol : float
        Of the centers' moves, relative to the mean variance of the columns.
    metric : {"euclidean", "cosine"}
        "cosine": points as unit vectors.
    method : {"lloyd", "minibatch"}
        "minibatch": centers move after each batch of points, as `partial_fit` moves them.
    where : dict, optional
        ``{"centers": "disk"}``: centers lie on disk while they move, and afterwards (`partial_fit` has them
        in memory); as of `flagstone.kmeans`.
    random_state : int, RandomState or Generator, optional
        Of the draws.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    cluster_centers_ : ndarray or Array, n_clusters x d
        float64; an Array, in scratch, where they lie on disk.
    labels_ : ndarray or Array
        int32: an ndarray of points in memory.
    inertia_, n_iter_, counts_
        As `flagstone.kmeans` tells them.
    n_features_in_
        Coordinates of the points of `fit`.
    """

    __module__ = "flagstone.estimators"
    _estimator_type = "clusterer"

    def __init__(
        self, n_clusters: int = 8, *, init: Any = "k-means||", max_iter: int = 300, tol: float = 1e-4,
        metric: str = "euclidean", method: str = "lloyd", where: Any = None, random_state: int | None = None,
        memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_clusters, self.init, self.max_iter, self.tol = n_clusters, init, max_iter, tol
        self.method, self.where = method, where
        self.metric, self.random_state, self.memory, self.scratch = metric, random_state, memory, scratch

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks a clusterer that transforms."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        return tags

    @property
    def _outputs(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def _planned_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> _Fit:
        return _Fit(self, X, sample_weight)

    @planned_by(_planned_fit)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KMeans:
        """Find clusters of points.

        Parameters
        ----------
        X : Array, Expression, SparseArray, ndarray or SciPy matrix, n x d
            One point a row, on disk or in memory.
        y : ignored
        sample_weight : ndarray, optional
            One for each point.

        Returns
        -------
        self

        Notes
        -----
        One read of X an iteration, and what the seeds take; 2 n d k flops each.
        """
        fit = _Fit(self, X, sample_weight)
        found = fit.run()
        self.cluster_centers_, self.counts_ = found.centers, found.counts
        stored = isinstance(fit.X, (Array, Expression, SparseArray))
        self.labels_ = found.labels if stored else np.asarray(found.labels)
        self.inertia_, self.n_iter_ = float(found.inertia), int(found.iterations)
        self._seen(fit)
        return self

    def _seen(self, fit: _Fit) -> None:
        """Note what points were like."""
        self._metric = self.metric
        self.n_features_in_ = int(fit.X.shape[1])
        self._name_features(fit.names)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KMeans:
        """Move the centers by one batch of points.

        Parameters
        ----------
        X : Array, Expression, SparseArray, ndarray or SciPy matrix, rows x d
            The batch; the first one is at least `n_clusters` points, among which `init` finds the seeds.
        y : ignored
        sample_weight : ndarray, optional
            One for each point.

        Returns
        -------
        self
            `labels_` and `inertia_` are those of this batch, `counts_` of all points the centers have met.

        Notes
        -----
        Each center moves by the share that the batch has among all points it has met (Sculley 2010). Two
        reads of X; 4 rows d k flops.
        """
        begun = hasattr(self, "cluster_centers_")
        if begun:
            self._checked(X)
            fit = _Fit(self, X, sample_weight, least=1)
        else:
            fit = _Fit(self, X, sample_weight)
        met = np.asarray(self.counts_, float) if begun else None
        init = np.asarray(self.cluster_centers_) if begun else self.init
        seed = self._next_seed()
        with self._runtime():
            moved, self.counts_, self.inertia_ = batch_step(
                fit.X, int(self.n_clusters), init, met, fit.weights, self.metric, seed, None
            )
            self.cluster_centers_ = moved
            self.labels_ = labels(fit.X, moved, self.metric, None, None).run()
        self.n_iter_ = self.n_iter_ + 1 if begun else 1
        self._seen(fit)
        return self

    def _checked(self, X: Any) -> Any:
        self._fitted()
        who = type(self).__name__
        checked = points(who, X, sparse=True)
        self._check_features(X, checked)
        return checked

    def _planned_predict(self, X: Any) -> Asked[Any]:
        checked = self._checked(X)
        return Asked(self, partial(labels, checked, self.cluster_centers_, self._metric, None, None))

    @planned_by(_planned_predict)
    def predict(self, X: Any) -> Any:
        """Return the nearest center of each point.

        Parameters
        ----------
        X : Array, Expression, SparseArray, ndarray or SciPy matrix, m x d

        Returns
        -------
        ndarray or Array
            int32; an ndarray of points in memory.

        Notes
        -----
        One read of X; 2 m d k flops. ``predict.plan(X)`` counts it.
        """
        return self._planned_predict(X).run()

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Return the labels of `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        ndarray or Array
            int32.
        """
        return self.fit(X, y, sample_weight).labels_

    def _planned_transform(self, X: Any) -> Asked[Any]:
        checked = self._checked(X)
        return Asked(self, partial(distances, checked, self.cluster_centers_, self._metric, None, None))

    @planned_by(_planned_transform)
    def transform(self, X: Any) -> Any:
        """Return the distance of each point from each center.

        Parameters
        ----------
        X : Array, Expression, SparseArray, ndarray or SciPy matrix, m x d

        Returns
        -------
        ndarray or Array, m x n_clusters
            float64; an ndarray of points in memory.

        Notes
        -----
        One read of X; 3 m d k flops in float64. ``transform.plan(X)`` counts it.
        """
        return self._shown(self._planned_transform(X).run(), X)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Return `transform` of the points of `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        ndarray or Array, n x n_clusters
        """
        return self.fit(X, y, sample_weight).transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of squared distances from the nearest centers.

        Parameters
        ----------
        X : points
            As for `predict`.
        y : ignored
        sample_weight : ndarray, optional
            One for each point.

        Returns
        -------
        float
            -inf where squares are beyond float64.
        """
        checked = self._checked(X)
        weights = weights_of(type(self).__name__, sample_weight, checked.shape[0])
        with self._runtime():
            return -inertia(checked, self.cluster_centers_, self._metric, weights, None)
