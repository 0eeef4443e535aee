"""Components of points as estimators: principal ones, and those of the points as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._decomposition.pca import pca
from .._decomposition.result import PcaResult
from .._decomposition.transform import project
from .._errors.classes import ShapeError
from .._expression.compute import compute
from .._expression.expression import Expression
from .._factor.qr import qr
from .._linalg.matmul import matmul
from .._runtime.routine import planned_by
from .._sparse.array import SparseArray
from .base import Transformer
from .validation import feature_names, points

__all__ = ["PCA", "TruncatedSVD", "count_of"]


def _on_disk(X: Any) -> bool:
    return isinstance(X, (Expression, SparseArray)) or (isinstance(X, Array) and X.path is not None)


class _Fit:
    """The decomposition of one fit, to be planned or run."""

    def __init__(self, model: _Components, X: Any) -> None:
        who = type(model).__name__
        self.model, self.X = model, points(who, X, least=model._least, sparse=True)
        self.k = model._number(who, self.X.shape)

    def _options(self, drawn: bool) -> dict[str, Any]:
        model = self.model
        return {
            "center": model._centred, "method": model.method, "tol": model.tol,
            "seed": model._next_seed(drawn),
        }  # fmt: skip

    def plan(self) -> Any:
        """Count it."""
        with self.model._runtime():
            return pca.plan(self.X, self.k, **self._options(drawn=False))

    def run(self) -> PcaResult:
        """Do it."""
        with self.model._runtime():
            return pca(self.X, self.k, **self._options(drawn=True))


class _Components(Transformer):
    """What both share: components of one decomposition, and projections on them."""

    if TYPE_CHECKING:  # parameters of those that derive, and what fit finds
        n_components: int | None
        method: str
        tol: float
        random_state: Any
        mean_: NDArray[Any]

    _centred = True
    _least = 1  # points

    def _number(self, who: str, shape: tuple[int, ...]) -> int:
        raise NotImplementedError

    def _take(self, found: PcaResult, fit: _Fit) -> None:
        self.components_ = np.asarray(found.components, np.float64)
        self.singular_values_ = np.asarray(found.singular_values, np.float64)
        self.residual_ = np.asarray(found.residual)

    def _planned_fit(self, X: Any, y: Any = None) -> _Fit:
        return _Fit(self, X)

    def _fit(self, X: Any) -> PcaResult:
        fit = _Fit(self, X)
        found = fit.run()
        self._take(found, fit)
        self._of_points(X, fit.X)
        return found

    def _of_points(self, X: Any, checked: Any) -> None:
        self.n_features_in_ = int(checked.shape[1])
        self._name_features(feature_names(X))

    @planned_by(_planned_fit)
    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit components to points.

        Parameters
        ----------
        X : Array, Expression, SparseArray, ndarray or SciPy matrix, n x d
            One point a row, on disk or in memory.
        y : None
            Not used.

        Returns
        -------
        self

        Notes
        -----
        Costs are those of `flagstone.pca`.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit components and return the coordinates of the same points.

        Parameters
        ----------
        X : Array, Expression, SparseArray, ndarray or SciPy matrix, n x d
        y : None
            Not used.

        Returns
        -------
        ndarray or Array, n x components
            An Array, in scratch, where X is on disk.

        Notes
        -----
        No more reads than `fit` takes.
        """
        scores = self._fit(X).scores
        return scores if _on_disk(X) else self._shown(np.asarray(scores, np.float64), X)

    def _checked(self, X: Any) -> Any:
        self._fitted()
        who = type(self).__name__
        checked = points(who, X, sparse=True)
        self._check_features(X, checked)
        return checked

    def transform(self, X: Any) -> Any:
        """Return the coordinates of points.

        Parameters
        ----------
        X : Array, Expression, SparseArray, ndarray or SciPy matrix, m x d

        Returns
        -------
        ndarray or Array, m x components
            An Array, in scratch, where X is on disk.

        Notes
        -----
        One read of X; 2 m d flops a component (sparse: 2 a stored value).
        """
        checked = self._checked(X)
        with self._runtime():
            return self._shown(project(checked, self.components_, self.mean_, None, None), X)

    def inverse_transform(self, X: Any) -> Any:
        """Return points from their coordinates.

        Parameters
        ----------
        X : Array or ndarray, m x components

        Returns
        -------
        ndarray or Array, m x d
            An Array, in scratch, where X is on disk.

        Notes
        -----
        2 m d flops a component.
        """
        self._fitted()
        who, k = type(self).__name__, len(self.components_)
        checked = points(who, X)
        if checked.shape[1] != k:
            raise ShapeError(
                f"{who}: X has {checked.shape[1]} coordinates and there are {k} components; give as many."
            )
        if isinstance(checked, np.ndarray):
            return checked @ self.components_ + self.mean_
        with self._runtime():
            return compute(matmul(checked.astype(np.float64), self.components_) + self.mean_)


class PCA(_Components):
    """Principal components of points on disk or in memory.

    Parameters
    ----------
    n_components : int, optional
        How many; default: as many as there are points or coordinates.
    method, tol
        As of `flagstone.pca`.
    random_state : int, RandomState or Generator, optional
        Seed of the random start, or what draws it.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    components_ : ndarray, components x d
        Principal axes, largest first; signs as in scikit-learn.
    explained_variance_, explained_variance_ratio_, singular_values_ : ndarray
        Of each component.
    mean_ : ndarray, d
        Of the points.
    residual_ : ndarray
        ‖Xᵀu - σ v‖ of each component, measured by `fit`.
    n_components_, n_samples_, n_features_in_ : int
        What `fit` saw.
    """

    __module__ = "flagstone.estimators"

    _least = 2

    def __init__(
        self, n_components: int | None = None, *, method: str = "auto", tol: float = 1e-5,
        random_state: Any = 0, memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_components, self.method, self.tol = n_components, method, tol
        self.random_state, self.memory, self.scratch = random_state, memory, scratch

    def _number(self, who: str, shape: tuple[int, ...]) -> int:
        return count_of(who, self.n_components, min(shape), "the smaller of points and coordinates")

    def _take(self, found: PcaResult, fit: _Fit) -> None:
        super()._take(found, fit)
        self.explained_variance_ = np.asarray(found.explained_variance)
        self.explained_variance_ratio_ = np.asarray(found.explained_variance_ratio)
        self.mean_ = np.asarray(found.mean, np.float64)
        self.n_components_, self.n_samples_ = fit.k, int(fit.X.shape[0])
        self._triangle: NDArray[np.float64] | None = None  # what partial_fit goes on with

    def partial_fit(self, X: Any, y: Any = None) -> PCA:
        """Take more points: the components are those of all points since the first `partial_fit`.

        Parameters
        ----------
        X : Array, Expression or ndarray, n x d
            Dense points; the first call takes as many as there are components at least. After `fit`, which
            keeps nothing to go on with, it begins anew.
        y : None
            Not used.

        Returns
        -------
        self

        Notes
        -----
        The triangle R of a QR of the centred points is kept, 8 d² bytes: 2 n d² flops a call, and an SVD of
        R. To rounding the result is that of `fit` on all points, in whatever parts they come.
        """
        who = type(self).__name__
        checked = points(who, X)
        before = getattr(self, "_triangle", None)
        if before is not None:
            self._check_features(X, checked)
        with self._runtime():
            mean, triangle = _reduced(checked)
        n = int(checked.shape[0])
        if before is not None:
            seen, total = self.n_samples_, self.n_samples_ + n
            step = np.sqrt(seen * (n / total)) * (self.mean_ - mean)
            triangle = _triangle_of(np.vstack([before, step, triangle]))
            mean, n = self.mean_ + (mean - self.mean_) * (checked.shape[0] / total), total
        d = int(checked.shape[1])
        k = count_of(who, self.n_components, min(n, d), "the smaller of points and coordinates")
        _, s, axes = np.linalg.svd(triangle, full_matrices=False)
        s, axes = np.pad(s, (0, max(0, k - len(s)))), axes[:k]
        signs = np.sign(axes[np.arange(len(axes)), np.argmax(abs(axes), axis=1)])
        variance, whole = s**2 / max(n - 1, 1), float((s**2).sum()) / max(n - 1, 1)
        self.components_ = axes * np.where(signs == 0, 1, signs)[:, None]
        self.singular_values_, self.explained_variance_ = s[:k], variance[:k]
        self.explained_variance_ratio_ = variance[:k] / whole if whole else variance[:k]
        self.mean_, self.n_components_, self.n_samples_, self._triangle = mean, k, n, triangle
        self._of_points(X, checked)
        return self


def _triangle_of(X: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.qr(X, mode="r"), np.float64)


def _reduced(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of dense points, and R of a QR of what is left."""
    if isinstance(X, np.ndarray):
        mean = np.asarray(X.mean(axis=0, dtype=np.float64))
        return mean, _triangle_of(X - mean)
    mean = np.asarray(X.mean(axis=0), np.float64)
    centred = X.astype(np.float64) - mean
    if X.shape[0] < X.shape[1]:
        return mean, _triangle_of(np.asarray(centred))
    return mean, np.asarray(qr(centred, mode="r"))


class TruncatedSVD(_Components):
    """Leading singular triplets of points as they are, not centred: sparse ones stay sparse.

    Parameters
    ----------
    n_components : int
        How many.
    method, tol
        As of `flagstone.pca`.
    random_state : int, RandomState or Generator, optional
        Seed of the random start, or what draws it.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    components_ : ndarray, components x d
        Right singular vectors.
    singular_values_ : ndarray
        Largest first.
    explained_variance_, explained_variance_ratio_ : ndarray
        Variance of each coordinate of the points, and its share of theirs.
    residual_ : ndarray
        ‖Xᵀu - σ v‖ of each component, measured by `fit`.
    n_features_in_ : int
        Coordinates of the points of `fit`.
    """

    __module__ = "flagstone.estimators"

    _centred = False
    _least = 2

    def __init__(
        self, n_components: int = 2, *, method: str = "auto", tol: float = 1e-5, random_state: Any = 0,
        memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.n_components, self.method, self.tol = n_components, method, tol
        self.random_state, self.memory, self.scratch = random_state, memory, scratch

    def _number(self, who: str, shape: tuple[int, ...]) -> int:
        if self.n_components is None:
            raise ValueError(f"{who}: n_components is None; a number is needed.")
        told = f"n_samples={shape[0]} and n_features={shape[1]}"
        return count_of(who, self.n_components, min(shape), f"the smaller of {told}")

    def _take(self, found: PcaResult, fit: _Fit) -> None:
        super()._take(found, fit)
        self.mean_ = np.zeros(fit.X.shape[1])
        with self._runtime():
            self.explained_variance_ = np.asarray(found.scores.var(axis=0), np.float64)
            whole = float(np.sum(_variances(fit.X)))
        share = self.explained_variance_
        self.explained_variance_ratio_ = share / whole if whole else np.zeros_like(share)


def _variances(X: Any) -> Any:
    if hasattr(X, "tocsr") and not isinstance(X, SparseArray):
        mean = np.asarray(X.mean(axis=0), np.float64).reshape(-1)
        return np.asarray(X.multiply(X).mean(axis=0), np.float64).reshape(-1) - mean**2
    return np.asarray(X.var(axis=0))


def count_of(who: str, given: Any, most: int, of: str) -> int:
    """Return how many components are asked for."""
    if given is None:
        return most
    if isinstance(given, bool) or not hasattr(given, "__index__") or not 1 <= given <= most:
        raise ValueError(f"{who}: n_components is {given!r}; a number between 1 and {most} ({of}) is needed.")
    return int(given)
