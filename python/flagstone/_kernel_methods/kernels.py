"""Kernels of estimators: by name, callables or matrices; parameters from a sample of the points."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._errors.classes import Error, ShapeError
from .._expression.expression import as_expression, cast
from .._lazy.computed import kernel_matrix
from .._lazy.point_kernels import KERNELS

__all__ = ["PRECOMPUTED", "KernelOf", "best_parameters"]

PRECOMPUTED = "precomputed"
_LEAST_NOISE, _FAR = 1e-10, 1e5  # bounds: of the noise; of lengths, as a factor of those that were given
_BEYOND = 1e25  # what is told where the matrix is not positive definite


class KernelOf:
    """A kernel and its parameters, for one model.

    Parameters
    ----------
    who : str
        Whose it is, for messages.
    kernel : str or callable
    **parameters
        Those that a kernel of that name takes are used; None: its default.
    """

    def __init__(self, who: str, kernel: Any, **parameters: Any) -> None:
        named = isinstance(kernel, str) and kernel in (*KERNELS, PRECOMPUTED)
        if not named and not callable(kernel):
            known = ", ".join(repr(one) for one in (*KERNELS, PRECOMPUTED))
            raise ValueError(f"{who}: kernel is {kernel!r}; choose {known} or a callable.")
        self.who, self.kernel = who, kernel
        taken = () if callable(kernel) or kernel == PRECOMPUTED else KERNELS[kernel]
        self.parameters = {name: parameters[name] for name in taken if parameters.get(name) is not None}

    @property
    def key(self) -> str | None:
        """What a callable is, for records: its text, where that tells its parameters (scikit-learn's do)."""
        text = repr(self.kernel)
        return None if not callable(self.kernel) or " at 0x" in text else text

    def _of(self, x: Any, y: Any) -> Array:
        return kernel_matrix(x, y, self.kernel, dtype="float64", key=self.key, **self.parameters)

    def among(self, x: Any) -> Any:
        """Return the matrix of points with each other; of "precomputed" the one that was given."""
        if self.kernel == PRECOMPUTED:
            if x.shape[0] != x.shape[1]:
                raise ShapeError(
                    f"{self.who}: kernel is 'precomputed' and X is {shape_text(x.shape)}; a square matrix "
                    f"is needed."
                )
            return self._wide(x)
        return self._of(x, None)

    def between(self, x: Any, fitted: Any) -> Any:
        """Return the matrix of new points with those of fit; of "precomputed" the one that was given."""
        return self._wide(x) if self.kernel == PRECOMPUTED else self._of(x, fitted)

    def _wide(self, x: Any) -> Any:
        """Return a given matrix as the model computes: what is narrower is converted as it is loaded."""
        return x if x.dtype == np.float64 else cast(as_expression(x, self.who), np.dtype(np.float64))

    def at_points(self, x: Any) -> NDArray[Any]:
        """Return k(x, x) of each point."""
        rows = x.shape[0]
        if callable(self.kernel):
            points = np.asarray(x)
            if hasattr(self.kernel, "diag"):
                return np.asarray(self.kernel.diag(points), np.float64)
            one_by_one = (self.kernel(points[i : i + 1]) for i in range(rows))
            return np.fromiter((np.asarray(one).reshape(()) for one in one_by_one), np.float64, rows)
        if self.kernel in ("linear", "polynomial", "cosine"):
            points = np.asarray(x, np.float64)
            if self.kernel == "cosine":  # as the core: 0 of a point at the origin, which has no direction
                return np.where(
                    np.isfinite(points).all(axis=1), points.any(axis=1).astype(np.float64), np.nan
                )
            squares: NDArray[Any] = np.einsum("ij,ij->i", points, points)
            if self.kernel == "linear":
                return squares
            gamma = self.parameters.get("gamma", 1 / points.shape[1])
            base = gamma * squares + self.parameters.get("coef0", 1.0)
            return np.asarray(base ** self.parameters.get("degree", 3.0))
        return np.ones(rows)


def best_parameters(
    who: str, X: Any, y: NDArray[Any], kernel: str, length_scale: Any, alpha: float, size: int, seed: int, *,
    constant: bool,
) -> tuple[Any, float]:  # fmt: skip
    """Return (length_scale, alpha) of the largest marginal likelihood of a sample of `size` points.

    `constant`: the mean is a constant that is estimated with it. 2 (p + 1) size³ / 3 flops a step of
    L-BFGS-B for p parameters: differences stand for gradients.
    """
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise Error(
            f"{who}: optimizer='subset' needs SciPy, which is not installed; install it (pip install scipy) "
            f"or name "
            "the parameters."
        ) from None
    if isinstance(size, bool) or not hasattr(size, "__index__") or size < 2:
        raise ValueError(f"{who}: subset_size is {size!r}; a whole number of 2 or more is needed.")
    sample, values = _sample(X, y, int(size), seed)
    with_length = "length_scale" in KERNELS[kernel]
    lengths = np.atleast_1d(np.asarray(1.0 if length_scale is None else length_scale, np.float64))

    def parameters(theta: NDArray[Any]) -> tuple[NDArray[Any], float]:
        return np.exp(theta[:-1]), float(np.exp(theta[-1]))

    def cost(theta: NDArray[Any]) -> float:
        lengths, noise = parameters(theta)
        reach = lengths if with_length else None
        matrix = np.asarray(kernel_matrix(sample, kernel=kernel, dtype="float64", length_scale=reach))
        return -_likelihood(matrix, noise, values, constant)

    start = np.log([*(lengths if with_length else []), max(alpha, 1e-6)])
    bounds = [(one - np.log(_FAR), one + np.log(_FAR)) for one in start[:-1]]
    bounds.append((np.log(_LEAST_NOISE), np.log(1e3 * max(1e-6, float(values.var()) + alpha))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = minimize(cost, start, method="L-BFGS-B", bounds=bounds)
    lengths, noise = parameters(found.x)
    if not with_length:
        return length_scale, noise
    return (float(lengths[0]) if np.ndim(length_scale) == 0 else lengths), noise


def _sample(X: Any, y: NDArray[Any], size: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    n = X.shape[0]
    chosen = np.arange(n)
    if size < n:
        chosen = np.sort(np.random.default_rng(seed).choice(n, size, replace=False))
    return np.asarray(X[chosen] if size < n else X, np.float64), y.reshape(n, -1)[chosen]


def _likelihood(matrix: NDArray[Any], noise: float, y: NDArray[Any], constant: bool) -> float:
    """Return log p(y | parameters) of all targets; very little where the matrix is not positive definite."""
    n, targets = y.shape
    matrix[np.diag_indices(n)] += noise
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return -_BEYOND
    from scipy.linalg import solve_triangular

    sides = np.hstack([y, np.ones((n, 1))]) if constant else y
    half = solve_triangular(lower, sides, lower=True, check_finite=False)
    left = half[:, :targets]
    if constant:
        ones = half[:, targets]
        left = left - np.outer(ones, ones @ left / (ones @ ones))
    log_diagonal = np.log(np.diag(lower)).sum()
    return float(-0.5 * (left**2).sum() - targets * (log_diagonal + 0.5 * n * np.log(2 * np.pi)))
