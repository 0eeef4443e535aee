"""What both kernel regressors share: points and targets of `fit`, and points to predict at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._errors.classes import NumericalError
from .._estimators.base import Regressor
from .._estimators.validation import feature_names, points
from .._runtime.routine import planned_by
from .dual import Factorization, check_rows
from .kernels import PRECOMPUTED, KernelOf

__all__ = ["KernelRegressor"]


class KernelRegressor(Regressor):
    """A regressor whose weights solve (K + alpha I) W = Y, K among the points of `fit`."""

    if TYPE_CHECKING:  # a parameter, and what fit finds
        kernel: Any
        _fitted_kernel: KernelOf

    def _planned_fit(self, X: Any, y: Any) -> Factorization:
        return self._factorization(X, y)

    def _factorization(self, X: Any, y: Any) -> Factorization:
        """Return what `fit` factors, to be planned."""
        raise NotImplementedError

    def _solve(self, X: Any, y: Any) -> Any:
        """Find the weights; return the points, checked."""
        raise NotImplementedError

    @property
    def _known(self) -> Any:
        """The points of `fit`."""
        raise NotImplementedError

    @planned_by(_planned_fit)
    def fit(self, X: Any, y: Any) -> Any:
        """Factor K(X, X) + alpha I and solve for the weights of the points.

        Parameters
        ----------
        X : Array, Expression or ndarray, n x d
            Points, one a row, on disk or in memory.
        y : ndarray, n or n x targets

        Returns
        -------
        self

        Raises
        ------
        NumericalError
            K + alpha I is not positive definite: give more noise, or a larger penalty. A point on disk holds
            NaN or Inf; names row and column.
        BudgetError
            The limit is too small; names the least that works.

        Notes
        -----
        n³/3 flops and n² / 2 evaluations of the kernel; writes 4 n² bytes, and reads them once for the second
        half of the solution: the first runs with the factorization.
        """
        try:
            checked = self._solve(X, y)
        except NumericalError as error:
            if error.row is not None and error.column is not None and self.kernel != PRECOMPUTED:
                who = type(self).__name__
                check_rows(who, points(who, X), (error.column, error.row))
            raise
        self._name_features(feature_names(X))
        self.n_features_in_ = int(checked.shape[1])
        return self

    def _between(self, X: Any) -> tuple[Any, Any]:
        """Return points, checked, and their matrix with those of `fit`."""
        self._fitted()
        checked = points(type(self).__name__, X)
        self._check_features(X, checked)
        return checked, self._fitted_kernel.between(checked, self._known)
