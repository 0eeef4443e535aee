"""What `kmeans` and `knn` return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._runtime.routine import planned_by
from .assigned import Assigned, distances, labels

__all__ = ["KMeansResult", "KnnResult"]


@dataclass(frozen=True, eq=False, repr=False)
class KMeansResult:
    """Clusters of points.

    Attributes
    ----------
    centers : ndarray or Array, k x d
        float64; an Array on disk where ``where={"centers": "disk"}``.
    labels : Array or None
        int32, of each point the nearest center; None where ``labels=False``.
    counts : ndarray, k
        Points of each cluster, or the sum of their weights.
    inertia : float
        Sum of squared distances of points from their centers, weighted; cosine: of unit vectors.
    iterations : int
        Lloyd's.
    converged : bool
        Whether the centers stayed, not `iterations` ended it.
    metric : str
        "euclidean" or "cosine".
    """

    centers: NDArray[np.float64] | Array
    labels: Array | None
    counts: NDArray[Any]
    inertia: float
    iterations: int
    converged: bool
    metric: str = "euclidean"

    __module__ = "flagstone"

    def __repr__(self) -> str:
        k, d = self.centers.shape
        return (
            f"<flagstone.KMeansResult: {k} clusters in {d} dimensions, inertia {self.inertia:.6g}, "
            f"{self.iterations} iterations{'' if self.converged else ', not converged'}>"
        )

    def _predicting(self, Y: Any, *, out: Any = None, memory: int | str | None = None) -> Assigned:
        return labels(Y, self.centers, self.metric, out, memory)

    @planned_by(_predicting)
    def predict(self, Y: Any, *, out: Any = None, memory: int | str | None = None) -> Any:
        """Return the nearest center of each point.

        Parameters
        ----------
        Y : Array, Expression, SparseArray, ndarray or SciPy matrix, rows x d
            An ndarray gives an ndarray, what is on disk or lazy an Array.
        out : path, Array or ndarray, optional
            Where int32 labels go; default: scratch, until their handle dies.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Returns
        -------
        Array or ndarray
            int32. Labels are those of float64, ties by number (where squares are beyond its range, 0).

        Raises
        ------
        ShapeError
            Y has other columns.
        NumericalError
            Y holds NaN or Inf; names a row and column.

        Notes
        -----
        Reads Y once (centers on disk: as `kmeans` does then); 2 rows k d flops in float32.
        ``predict.plan(Y)`` takes the same arguments and counts.
        """
        return self._predicting(Y, out=out, memory=memory).run()

    def _transforming(self, Y: Any, *, out: Any = None, memory: int | str | None = None) -> Assigned:
        return distances(Y, self.centers, self.metric, out, memory)

    @planned_by(_transforming)
    def transform(self, Y: Any, *, out: Any = None, memory: int | str | None = None) -> Any:
        """Return the distance of each point from each center.

        Parameters
        ----------
        Y : Array, Expression, SparseArray, ndarray or SciPy matrix, rows x d
            What is in memory gives an ndarray, what is on disk or lazy an Array.
        out : path, Array or ndarray, optional
            Where the distances go; default: scratch, until their handle dies.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Returns
        -------
        Array or ndarray
            float64, rows x k; cosine: 1 - cos.

        Raises
        ------
        ShapeError
            Y has other columns.
        NumericalError
            Y holds NaN or Inf; names a row and column.

        Notes
        -----
        Reads Y once and writes 8 rows k bytes; 3 rows k d flops in float64, by differences (sparse: 5 nnz k).
        Of a choice of sparse rows (``S[rows]``) it holds 8 bytes a row and column of as many columns as a
        quarter of the limit has room for, and reads the panels that hold them once for each so many.
        ``transform.plan(Y)`` takes the same arguments and counts.
        """
        return self._transforming(Y, out=out, memory=memory).run()


@dataclass(frozen=True, eq=False, repr=False)
class KnnResult:
    """Nearest neighbours; unpacks as ``distances, indices``.

    Attributes
    ----------
    distances : Array, m x k
        float64, ascending; of `inner` products, descending.
    indices : Array, m x k
        int64, rows of X.
    """

    distances: Array
    indices: Array

    __module__ = "flagstone"

    def __iter__(self) -> Iterator[Array]:
        return iter((self.distances, self.indices))

    def __repr__(self) -> str:
        m, k = self.indices.shape
        return f"<flagstone.KnnResult: {k} neighbours of {m} points>"
