"""What SciPy asks of a linear operator: `scipy.sparse.linalg.aslinearoperator(A)` takes ours as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors.classes import ShapeError
from .dispatch import dispatch

__all__ = ["LinearOperator"]


class LinearOperator:
    """Products with vectors and blocks of vectors in memory; each reads the matrix once.

    With `shape` and `dtype` this is all that SciPy's iterative solvers (`svds`, `eigsh`, `cg`, `lsmr`) need.
    The limit is that of the `Runtime` in force; vectors are converted to the matrix's dtype.
    """

    shape: Any
    dtype: Any

    @property
    def obs_names(self) -> NDArray[Any] | None:
        """Names of the rows, where the file has some (`.h5ad`, 10x, loom); read at first need."""
        return dispatch().names(self, 0)

    @property
    def var_names(self) -> NDArray[Any] | None:
        """Names of the columns, where the file has some (`.h5ad`, 10x, loom); read at first need."""
        return dispatch().names(self, 1)

    def _multiply(self, x: NDArray[Any], adjoint: bool) -> NDArray[Any]:
        """Return A x (Aᴴ x) of a 2-d x."""
        raise NotImplementedError

    def matvec(self, x: ArrayLike) -> NDArray[Any]:
        """Return A x of a vector, n or n x 1."""
        return self._of_vector("matvec", x, False)

    def rmatvec(self, x: ArrayLike) -> NDArray[Any]:
        """Return Aᴴ x of a vector, m or m x 1."""
        return self._of_vector("rmatvec", x, True)

    def matmat(self, X: ArrayLike) -> NDArray[Any]:
        """Return A X of a block of vectors, n x b."""
        return self._of_block("matmat", np.asarray(X), False)

    def rmatmat(self, X: ArrayLike) -> NDArray[Any]:
        """Return Aᴴ X of a block of vectors, m x b."""
        return self._of_block("rmatmat", np.asarray(X), True)

    def _of_vector(self, who: str, x: ArrayLike, adjoint: bool) -> NDArray[Any]:
        vector = np.asarray(x)
        if vector.ndim not in (1, 2) or (vector.ndim == 2 and vector.shape[1] != 1):
            raise ShapeError(f"{who}: x is {vector.shape}; a vector is needed, {who[:-3]}mat takes blocks.")
        result = self._of_block(who, vector.reshape(-1, 1), adjoint)
        return result if vector.ndim == 2 else result[:, 0]

    def _of_block(self, who: str, x: NDArray[Any], adjoint: bool) -> NDArray[Any]:
        if len(self.shape) != 2:
            raise ShapeError(f"{who}: A has {len(self.shape)} dimensions; a matrix is needed.")
        inner = self.shape[0 if adjoint else 1]
        if x.ndim != 2 or x.shape[0] != inner or x.dtype.kind not in "biufc":
            raise ShapeError(
                f"{who}: x is {' x '.join(map(str, x.shape))} {x.dtype}; {inner} rows of numbers are needed."
            )
        if x.dtype.kind == "c" and self.dtype.kind != "c":
            parts = (self._multiply(np.ascontiguousarray(part), adjoint) for part in (x.real, x.imag))
            real, imaginary = parts
            return real + 1j * imaginary
        return self._multiply(x, adjoint)
