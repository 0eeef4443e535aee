"""Linear models from one R: ordinary least squares, a ridge, a ridge chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._expression.expression import as_expression, cast
from .._linalg.matmul import matmul
from .._runtime.arguments import check_flags, numbers_of
from .._runtime.routine import planned_by
from .._solve.lstsq import lstsq
from .base import Regressor
from .validation import feature_names, points, targets

__all__ = ["LinearRegression", "Ridge", "RidgeCV"]


class _Fit:
    """The least squares of one fit, to be planned or run."""

    def __init__(self, model: _Linear, X: Any, y: Any, sample_weight: Any) -> None:
        who = type(model).__name__
        self.model, self.X = model, points(who, X)
        if isinstance(self.X, np.ndarray):
            self.X = self.X.astype(np.float64, copy=False)
        self.y = targets(who, y, self.X.shape[0])
        check_flags(who, fit_intercept=model.fit_intercept)
        intercept = bool(model.fit_intercept)
        self.ridge = model._ridge(who)
        weights = _weights(who, sample_weight, self.X.shape[0])
        self.options = {"ridge": self.ridge, "weights": weights, "intercept": intercept}

    def plan(self) -> Any:
        """Count it."""
        with self.model._runtime():
            return lstsq.plan(self.X, self.y, **self.options)

    def run(self) -> Any:
        """Do it."""
        with self.model._runtime():
            return lstsq(self.X, self.y, **self.options)


class _Linear(Regressor):
    """What linear models share: coefficients of one least-squares fit."""

    fit_intercept: bool

    def _ridge(self, who: str) -> Any:
        """Return the checked penalties."""
        return 0.0

    def _planned_fit(self, X: Any, y: Any, sample_weight: Any = None) -> _Fit:
        return _Fit(self, X, y, sample_weight)

    @planned_by(_planned_fit)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit coefficients to points and targets.

        Parameters
        ----------
        X : Array, Expression or ndarray, n x d
            One point a row, on disk or in memory.
        y : ndarray, n or n x targets
        sample_weight : ndarray, optional
            One for each point.

        Returns
        -------
        self

        Notes
        -----
        One read of X, as float64; 2 n d² flops. Fewer points than coordinates: 2 n² d flops, and 8 n d bytes
        of scratch. All ridge values follow from one R.
        """
        fit = _Fit(self, X, y, sample_weight)
        found = fit.run()
        self._take(found, fit)
        self.n_features_in_ = int(fit.X.shape[1])
        self._name_features(feature_names(X))
        return self

    def _take(self, found: Any, fit: _Fit) -> None:
        self._set(found.x, found.intercept, fit)
        self.rank_, self.singular_ = found.rank, found.singular_values

    def _set(self, x: NDArray[Any], intercept: Any, fit: _Fit) -> None:
        constant = np.zeros(fit.y.shape[1:]) if intercept is None else np.asarray(intercept)
        self.coef_ = x.T if x.ndim == 2 else x
        self.intercept_ = float(constant) if np.ndim(constant) == 0 else constant
        self._shape = fit.y.shape[1:]

    def predict(self, X: Any) -> Any:
        """Return X coefficients + intercept.

        Parameters
        ----------
        X : Array, Expression or ndarray, m x d

        Returns
        -------
        ndarray, m or m x targets

        Notes
        -----
        One read of X; 2 m d flops a target.
        """
        self._fitted()
        who = type(self).__name__
        checked = points(who, X)
        self._check_features(X, checked)
        if isinstance(checked, np.ndarray):
            return checked @ self.coef_.T + self.intercept_
        if checked.dtype != np.float64:
            checked = cast(as_expression(checked, who), np.dtype(np.float64))
        with self._runtime():
            return np.asarray(matmul(checked, np.ascontiguousarray(self.coef_.T))) + self.intercept_


def _weights(who: str, given: Any, rows: int) -> NDArray[Any] | None:
    if given is None:
        return None
    values = numbers_of(who, "sample_weight", given)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{who}: sample_weight is {values.dtype}; real numbers of 0 or more are needed.")
    values = values.astype(np.float64)
    values = np.full(rows, float(values)) if values.ndim == 0 else values
    if values.shape != (rows,):
        raise ShapeError(
            f"{who}: sample_weight has {values.shape} values and there are {rows} points; one "
            "for each is needed."
        )
    if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
        raise ValueError(f"{who}: sample_weight must be numbers of 0 or more, and not all zero; give others.")
    return values


class LinearRegression(_Linear):
    """Ordinary least squares, by a QR of [1 X y] that is read once.

    Parameters
    ----------
    fit_intercept : bool
        Fit a constant too.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    coef_, intercept_
        Of the shortest solution, where there are several.
    rank_, singular_
        Of X, without what a constant explains. Where neither side of X is below 4096, its full rank and no
        values: anything else is an error.
    n_features_in_
        Coordinates of the points of `fit`.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, *, fit_intercept: bool = True, memory: int | str | None = None, scratch: Any = None
    ) -> None:
        self.fit_intercept, self.memory, self.scratch = fit_intercept, memory, scratch


class Ridge(_Linear):
    """Least squares with a penalty alpha ‖coef‖²; the intercept is not penalised.

    Parameters
    ----------
    alpha : float
        Of the penalty, 0 or more.
    fit_intercept : bool
        Fit a constant too.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    coef_, intercept_
        Of the solution.
    n_features_in_
        Coordinates of the points of `fit`.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = True, memory: int | str | None = None,
        scratch: Any = None,
    ) -> None:  # fmt: skip
        self.alpha, self.fit_intercept, self.memory, self.scratch = alpha, fit_intercept, memory, scratch

    def _ridge(self, who: str) -> float:
        return _penalty(who, "alpha", self.alpha)


class RidgeCV(_Linear):
    """A ridge whose penalty has the least generalised cross-validation error; all of them from one R.

    Parameters
    ----------
    alphas : sequence of float
        Penalties that are tried.
    fit_intercept : bool
        Fit a constant too.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    alpha_ : float
        The penalty that was chosen.
    gcv_ : ndarray
        m RSS / (m - degrees of freedom)² of each, summed over targets; m: points of weight above 0. The
        intercept is a degree of freedom. nan where none is left (alpha 0, and X with the constant has as high
        a rank as there are such points), which is not chosen.
    coef_, intercept_
        Of the solution.
    n_features_in_
        Coordinates of the points of `fit`.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, alphas: Any = (0.1, 1.0, 10.0), *, fit_intercept: bool = True,
        memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.alphas, self.fit_intercept, self.memory, self.scratch = alphas, fit_intercept, memory, scratch

    def _ridge(self, who: str) -> list[float]:
        if not isinstance(self.alphas, (Sequence, np.ndarray)) or not len(self.alphas):
            raise ValueError(f"{who}: alphas is {self.alphas!r}; a sequence of penalties is needed.")
        return [_penalty(who, "alphas", one) for one in self.alphas]

    def _take(self, found: Any, fit: _Fit) -> None:
        gcv = np.asarray(found.gcv).reshape(len(fit.ridge), -1).sum(axis=1)
        if np.isnan(gcv).all():
            raise ValueError(
                f"{type(self).__name__}: alphas are {shown(self.alphas)} and n_samples = {fit.X.shape[0]}: "
                "the fit takes as many degrees of freedom as there are points of weight above 0: nothing is "
                "left to validate by; give a larger alpha, or more points."
            )
        best = int(np.argmin(np.where(np.isnan(gcv), np.inf, gcv)))
        self.gcv_, self.alpha_ = gcv, fit.ridge[best]
        intercept = None if found.intercept is None else found.intercept[best]
        self._set(found.x[best], intercept, fit)


def _penalty(who: str, name: str, given: Any) -> float:
    value = numbers_of(who, name, given)
    if value.ndim or value.dtype.kind not in "biuf" or not np.isfinite(value) or value < 0:
        raise ValueError(f"{who}: {name} is {given!r}; a number of 0 or more is needed.")
    return float(value)
