"""Kernel ridge regression on more points than a kernel matrix of fits into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._estimators.base import runtime_of
from .._estimators.validation import points, targets
from .._runtime.call import Call
from .._runtime.routine import planned_by
from .dual import Factorization, check_points, times, times_plan
from .kernels import KernelOf
from .regressor import KernelRegressor

__all__ = ["KernelRidge"]


class KernelRidge(KernelRegressor):
    """Ridge regression in the space of a kernel: (K + alpha I) c = y, with K computed as it is factored.

    Parameters
    ----------
    alpha : float
        Of the penalty, above 0.
    kernel : str, callable or "precomputed"
        As in `flagstone.kernel_matrix`; "precomputed": `fit` and `predict` take the matrices.
    gamma : float, optional
        Of rbf and polynomial; default, without `length_scale`: 1 / coordinates.
    length_scale : float or sequence, optional
        Of rbf and Matérn.
    degree, coef0 : float
        Of polynomial.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    dual_coef_ : ndarray, n or n x targets
        c.
    X_fit_, n_features_in_
        Points of `fit`, and their coordinates.

    Notes
    -----
    `fit`: n³/3 flops and 4 n² bytes written, in scratch until it ends. `predict`: n evaluations of the kernel
    a point.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, alpha: float = 1.0, *, kernel: Any = "linear", gamma: float | None = None,
        length_scale: Any = None, degree: float = 3, coef0: float = 1, memory: int | str | None = None,
        scratch: Any = None,
    ) -> None:  # fmt: skip
        self.alpha, self.kernel, self.gamma, self.length_scale = alpha, kernel, gamma, length_scale
        self.degree, self.coef0, self.memory, self.scratch = degree, coef0, memory, scratch

    def _kernel(self, who: str, coordinates: int) -> KernelOf:
        gamma = self.gamma
        if self.kernel == "rbf" and gamma is None and self.length_scale is None:
            gamma = 1 / coordinates
        return KernelOf(
            who,
            self.kernel,
            gamma=gamma,
            length_scale=self.length_scale,
            degree=self.degree,
            coef0=self.coef0,
        )

    def _prepared(self, X: Any, y: Any) -> tuple[Any, NDArray[Any], KernelOf]:
        who = type(self).__name__
        alpha = np.asarray(self.alpha)
        if alpha.ndim or alpha.dtype.kind not in "biuf" or not np.isfinite(alpha) or not alpha > 0:
            raise ValueError(f"{who}: alpha is {self.alpha!r}; a number above 0 is needed.")
        checked = points(who, X)
        return checked, targets(who, y, checked.shape[0]), self._kernel(who, checked.shape[1])

    def _factorization(self, X: Any, y: Any) -> Factorization:
        checked, values, kernel = self._prepared(X, y)
        return Factorization(self, kernel.among(checked), float(self.alpha), values.reshape(len(values), -1))

    @property
    def _known(self) -> Any:
        return self.X_fit_

    def _solve(self, X: Any, y: Any) -> Any:
        checked, values, kernel = self._prepared(X, y)
        task = Factorization(self, kernel.among(checked), float(self.alpha), values.reshape(len(values), -1))
        with self._runtime():
            task.check(0)
            found = task.run().solution
            Call(type(self).__name__, light=True).tidy()
        self.dual_coef_ = found if values.ndim == 2 else found[:, 0]
        self.X_fit_, self._fitted_kernel = checked, kernel
        return checked

    def _product(self, X: Any) -> _Product:
        checked, matrix = self._between(X)
        return _Product(self, checked, matrix, self.dual_coef_.reshape(len(self.dual_coef_), -1))

    def _planned_predict(self, X: Any) -> Any:
        return self._product(X)

    @planned_by(_planned_predict)
    def predict(self, X: Any) -> Any:
        """Return K(X, points of fit) dual_coef.

        Parameters
        ----------
        X : Array, Expression or ndarray, m x d

        Returns
        -------
        ndarray, m or m x targets

        Raises
        ------
        NumericalError
            A point holds NaN; names row and column.

        Notes
        -----
        n m evaluations of the kernel, none of which is stored; 2 n m flops a target.
        """
        found = self._product(X).run()
        return found if self.dual_coef_.ndim == 2 else found[:, 0]


class _Product:
    """A prediction, to be planned or run."""

    def __init__(self, model: KernelRidge, x: Any, matrix: Any, weights: NDArray[Any]) -> None:
        self.model, self.x, self.matrix, self.weights = model, x, matrix, weights

    def plan(self) -> Any:
        """Count it."""
        with runtime_of(self.model):
            return times_plan(self.matrix, self.weights)

    def run(self) -> NDArray[Any]:
        """Do it."""
        with runtime_of(self.model):
            made = times(self.matrix, self.weights)
            check_points(type(self.model).__name__, self.x, made)
        return made
