"""The exact Gaussian process on more points than a kernel matrix of fits into memory."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._estimators.base import runtime_of
from .._estimators.model_file import MODELS, ModelFile, member, model_file
from .._estimators.validation import points, targets
from .._resume.openers import told_values
from .._runtime.arguments import whole_number
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import least_of, planned_by
from .._storage.rechunk import rechunk
from .dual import Factor, Factorization, check_points, times, times_least, times_plan
from .kernels import PRECOMPUTED, KernelOf, best_parameters
from .regressor import KernelRegressor

__all__ = ["GaussianProcessRegressor"]

_LOG_2PI = float(np.log(2 * np.pi))


class GaussianProcessRegressor(KernelRegressor):
    """Exact Gaussian process regression (kriging): K is computed as it is factored, its factor is on disk.

    Parameters
    ----------
    kernel : str, callable or "precomputed"
        As in `flagstone.kernel_matrix`; "precomputed": `fit` and `predict` take the matrices K(X, X) and
        K(X*, X).
    alpha : float
        Variance of the noise, added to the diagonal.
    length_scale : float or sequence
        Of rbf and Matérn kernels: a number, or one for each coordinate.
    mean : {None, "constant"}
        Of the process: zero, or a constant that is estimated with it (generalised least squares).
    optimizer : {None, "subset"}
        "subset": `length_scale` and `alpha` are chosen first, where the marginal likelihood of a seeded
        sample of `subset_size` points is largest (SciPy, in memory). The model itself is exact.
    subset_size : int
        Points of that sample.
    random_state : int, optional
        Its seed; None is 0.
    out : path, optional
        A Zarr group that keeps the model, for `open_model`. Default: the factor lies in scratch, until the
        model is dropped.
    memory, scratch : optional
        Limit and scratch directory of every call; default: those of the runtime in use.

    Attributes
    ----------
    alpha_ : ndarray, n or n x targets
        K⁻¹ (y - mean).
    mean_ : ndarray
        The estimated constant of each target, or zero.
    L_ : Array, n x n
        The lower Cholesky factor of K + alpha I.
    log_marginal_likelihood_value_ : float
        -½ yᵀα - Σ log L_ii - ½ n log 2π; summed over targets.
    length_scale_, noise_ : float or ndarray
        The parameters in use: those given, or those found.
    X_train_, n_features_in_
        Points of `fit`, and their coordinates.

    Notes
    -----
    `fit`: n³/3 flops and 8 n²/2 bytes written; K is never stored (Rasmussen and Williams 2006, algorithm
    2.1). `predict`: the mean takes n operations of the kernel a point and reads nothing of size n²; the
    standard deviation reads the factor once for as many points as fit beside it, n² flops a point.
    """

    __module__ = "flagstone.estimators"

    def __init__(
        self, kernel: Any = "rbf", *, alpha: float = 1e-10, length_scale: Any = 1.0, mean: str | None = None,
        optimizer: str | None = None, subset_size: int = 1000, random_state: int | None = 0, out: Any = None,
        memory: int | str | None = None, scratch: Any = None,
    ) -> None:  # fmt: skip
        self.kernel, self.alpha, self.length_scale, self.mean = kernel, alpha, length_scale, mean
        self.optimizer, self.subset_size, self.random_state = optimizer, subset_size, random_state
        self.out, self.memory, self.scratch = out, memory, scratch

    # fit ------------------------------------------------------------------------------------------------

    def _check(self) -> str:
        who = type(self).__name__
        alpha = np.asarray(self.alpha)
        if alpha.ndim or alpha.dtype.kind not in "biuf" or not alpha >= 0 or not np.isfinite(alpha):
            raise ValueError(f"{who}: alpha is {self.alpha!r}; a number of 0 or more is needed.")
        if self.mean not in (None, "constant"):
            raise ValueError(f"{who}: mean is {self.mean!r}; choose None or 'constant'.")
        if self.optimizer not in (None, "subset"):
            raise ValueError(f"{who}: optimizer is {self.optimizer!r}; choose None or 'subset'.")
        if self.optimizer == "subset":
            whole_number(who, "random_state", self._seed, 0)
        if self.optimizer == "subset" and (callable(self.kernel) or self.kernel == PRECOMPUTED):
            raise ValueError(
                f"{who}: optimizer is 'subset' and kernel is not one of the named ones; fit the callable's "
                f"own "
                "parameters to a sample first."
            )
        return who

    @property
    def _seed(self) -> int:
        return 0 if self.random_state is None else self.random_state

    def _prepared(self, X: Any, y: Any) -> tuple[str, Any, NDArray[Any]]:
        who = self._check()
        checked = points(who, X)
        return who, checked, targets(who, y, checked.shape[0])

    def _kernel(self, who: str, length_scale: Any) -> KernelOf:
        return KernelOf(who, self.kernel, length_scale=length_scale)

    def _factorization(self, X: Any, y: Any) -> Factorization:
        who, checked, values = self._prepared(X, y)
        matrix = self._kernel(who, self.length_scale).among(checked)
        return Factorization(self, matrix, float(self.alpha), values.reshape(len(values), -1))

    @property
    def _known(self) -> Any:
        return self.X_train_

    def _solve(self, X: Any, y: Any) -> Any:
        who, checked, values = self._prepared(X, y)
        length, noise = self.length_scale, float(self.alpha)
        if self.optimizer == "subset":
            self._kernel(who, length).among(checked)  # refuses lengths that do not fit
            length, noise = best_parameters(
                who, checked, values, self.kernel, length, noise, self.subset_size, self._seed,
                constant=self.mean is not None,
            )  # fmt: skip
        if self.out is not None and callable(self.kernel):
            raise ValueError(
                f"{who}: out keeps a model and kernel is a callable, which no file holds; name a kernel."
            )
        kernel = self._kernel(who, length)
        sides = values.reshape(len(values), -1)
        ones = np.ones((len(values), 1 if self.mean else 0))
        task = Factorization(self, kernel.among(checked), noise, np.hstack([sides, ones]))
        with self._runtime():
            copied = self.out is not None and isinstance(checked, Array)
            task.check(least_of(rechunk, checked, checked.chunks, out=f"{task.out}-points") if copied else 0)
            kept: Any = contextlib.nullcontext()
            if self.out is not None:
                told = [task.identity, self.mean, told_values(values)["memory"]]
                kept = model_file(who, self.out, told)
            with kept as file:
                if file is None:
                    factor = task.run()
                else:
                    factor = task.run(file.place("factor"), file.finished("factor"))
                # From here on: a fit that failed leaves an earlier one as it was.
                self._fitted_kernel, self.X_train_ = kernel, checked
                self.length_scale_, self.noise_ = length, noise
                self._take(factor, sides, values.ndim)
                if file is not None:
                    self._keep(file)
            task.tell(self._factor)
            Call(who, light=True).tidy()
        return checked

    def _take(self, factor: Factor, sides: NDArray[Any], dimensions: int) -> None:
        """Take what the factor and the solution say."""
        n, number = sides.shape
        weights, self._ones = factor.solution[:, :number], factor.solution[:, number:]
        self.mean_ = np.zeros(number)
        if self.mean:
            self.mean_ = (self._ones.T @ sides).reshape(-1) / self._ones.sum()
            weights = weights - self._ones * self.mean_
        half = np.einsum("ij,ij->", sides - self.mean_, weights)
        self.log_marginal_likelihood_value_ = float(
            -0.5 * half - number * (factor.log_diagonal + 0.5 * n * _LOG_2PI)
        )
        self.alpha_ = weights if dimensions == 2 else weights[:, 0]
        self._factor, self.L_ = factor, factor.array

    def _keep(self, file: ModelFile) -> None:
        file.write("weights", self.alpha_)
        file.write("ones", self._ones)
        file.write("mean", self.mean_)
        if self.kernel != PRECOMPUTED:
            file.write("points", self.X_train_)
        lengths = self.length_scale_
        file.describe("GaussianProcessRegressor", {
            "kernel": self.kernel, "mean": self.mean, "noise": self.noise_,
            "length_scale": np.asarray(lengths, np.float64).tolist() if lengths is not None else None,
            "log_marginal_likelihood": self.log_marginal_likelihood_value_,
            "log_diagonal": self._factor.log_diagonal, "coordinates": int(self.X_train_.shape[1]),
        })  # fmt: skip

    # predict --------------------------------------------------------------------------------------------

    def _asked(self, X: Any, return_std: bool) -> tuple[Any, Any]:
        self._fitted()
        if return_std and isinstance(self.kernel, str) and self.kernel == PRECOMPUTED:
            raise ValueError(
                f"{type(self).__name__}: return_std needs k(x, x) of new points, which a precomputed matrix "
                "does not hold; give a kernel."
            )
        return self._between(X)

    def _planned_predict(self, X: Any, return_std: bool = False) -> Any:
        _, matrix = self._asked(X, return_std)
        return _Planned(self, matrix, return_std)

    @planned_by(_planned_predict)
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of the process at points, and its standard deviation where it is asked for.

        Parameters
        ----------
        X : Array, Expression or ndarray, m x d
        return_std : bool
            Also return √(k(x, x) - ‖L⁻¹ k(X, x)‖²), without the noise; with an estimated mean, of which it is
            uncertain too.

        Returns
        -------
        mean : ndarray, m or m x targets
        std : ndarray, m
            Only with `return_std`.

        Raises
        ------
        NumericalError
            A point holds NaN; names row and column.

        Notes
        -----
        n m evaluations of the kernel; none is stored. `return_std`: n² m flops, and one read of the factor
        for as many points as fit beside it.
        """
        checked, matrix = self._asked(X, return_std)
        weights = self.alpha_.reshape(len(self.alpha_), -1)
        with self._runtime():
            if return_std and matrix.shape[0]:
                self._factor.check(type(self).__name__, matrix.shape[0], times_least(matrix, weights))
            mean = times(matrix, weights) + self.mean_
            check_points(type(self).__name__, checked, mean)
            mean = mean if self.alpha_.ndim == 2 else mean[:, 0]
            if not return_std:
                return mean
            deviation = self._deviation(checked, matrix)
            Call(type(self).__name__, light=True).tidy()
            return mean, deviation

    def leave_one_out(self, return_std: bool = False) -> Any:
        """Return what each target differs from what the other points predict there (of the noisy target).

        Parameters
        ----------
        return_std : bool
            Also return the standard deviations of these predictions.

        Returns
        -------
        residuals : ndarray, n or n x targets
            y_i - mean_i, the mean of a model of all other points; with an estimated constant of theirs too.
        std : ndarray, n
            Only with `return_std`.

        Notes
        -----
        α_i / (K⁻¹)_ii and 1 / √(K⁻¹)_ii (Rasmussen and Williams 2006, 5.12; a constant: Dubrule 1983). The
        cost of `flagstone.linalg.inv_diagonal` of a factor.
        """
        self._fitted()
        with self._runtime():
            diagonal = self._factor.inverse_diagonal()
            Call(type(self).__name__, light=True).tidy()
        if self.mean:
            diagonal = diagonal - self._ones[:, 0] ** 2 / self._ones.sum()
        residuals = (self.alpha_.T / diagonal).T
        return (residuals, 1 / np.sqrt(diagonal)) if return_std else residuals

    def _deviation(self, checked: Any, matrix: Any) -> NDArray[Any]:
        prior = self._fitted_kernel.at_points(checked)
        variance = prior - self._factor.squared_norms(matrix)
        if self.mean:  # of the estimated constant
            left = 1 - times(matrix, self._ones)[:, 0]
            variance = variance + left**2 / self._ones.sum()
        return np.asarray(np.sqrt(np.maximum(variance, 0)))


class _Planned:
    """A prediction that is only counted."""

    def __init__(self, model: GaussianProcessRegressor, matrix: Any, deviation: bool) -> None:
        self.model, self.matrix, self.deviation = model, matrix, deviation

    def plan(self) -> Plan:
        """Count it."""
        factor: Factor = self.model._factor
        weights = self.model.alpha_.reshape(len(self.model.alpha_), -1)
        rows, n = self.matrix.shape
        with runtime_of(self.model):
            plans = [times_plan(self.matrix, weights)]
            if self.deviation:
                plans.append(factor.squared_norms_plan(self.matrix))
        return together(f"predict {rows} from {n} points", plans)


def _opened(path: str, told: dict[str, Any]) -> GaussianProcessRegressor:
    """Return the model that a group holds."""
    made = GaussianProcessRegressor(
        told["kernel"], alpha=told["noise"], length_scale=told["length_scale"], mean=told["mean"], out=path
    )
    made.length_scale_, made.noise_ = told["length_scale"], told["noise"]
    made._fitted_kernel = made._kernel("open_model", told["length_scale"])
    made.alpha_, made._ones = np.asarray(member(path, "weights")), np.asarray(member(path, "ones"))
    made.mean_ = np.asarray(member(path, "mean"))
    made.X_train_ = member(path, "points") if made.kernel != PRECOMPUTED else None
    made._factor = Factor(member(path, "factor"), log_diagonal=told["log_diagonal"])
    made.L_ = made._factor.array
    made.log_marginal_likelihood_value_ = told["log_marginal_likelihood"]
    made.n_features_in_ = told["coordinates"]
    return made


MODELS["GaussianProcessRegressor"] = _opened
