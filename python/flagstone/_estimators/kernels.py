"""Kernels of estimators: by name with their parameters, callables, or matrices that were computed before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._lazy.computed import kernel_matrix
from .._lazy.point_kernels import KERNELS

__all__ = ["PRECOMPUTED", "KernelOf"]

PRECOMPUTED = "precomputed"


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
        if not callable(kernel) and kernel != PRECOMPUTED and kernel not in KERNELS:
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
            return x
        return self._of(x, None)

    def between(self, x: Any, fitted: Any) -> Any:
        """Return the matrix of new points with those of fit; of "precomputed" the one that was given."""
        return x if self.kernel == PRECOMPUTED else self._of(x, fitted)

    def at_points(self, x: Any) -> NDArray[Any]:
        """Return k(x, x) of each point."""
        rows = x.shape[0]
        if callable(self.kernel):
            points = np.asarray(x)
            if hasattr(self.kernel, "diag"):
                return np.asarray(self.kernel.diag(points), np.float64)
            one_by_one = (self.kernel(points[i : i + 1]) for i in range(rows))
            return np.fromiter((np.asarray(one).reshape(()) for one in one_by_one), np.float64, rows)
        if self.kernel in ("linear", "polynomial"):
            points = np.asarray(x, np.float64)
            squares: NDArray[Any] = np.einsum("ij,ij->i", points, points)
            if self.kernel == "linear":
                return squares
            gamma = self.parameters.get("gamma", 1 / points.shape[1])
            base = gamma * squares + self.parameters.get("coef0", 1.0)
            return np.asarray(base ** self.parameters.get("degree", 3.0))
        return np.ones(rows)
