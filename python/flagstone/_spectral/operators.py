"""What a Hermitian matrix may be: sparse, dense, lazy, or only an operator of the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._expression.operand import lazy_operand
from .._resume.identity import identity
from .._runtime.arguments import array_of, unmasked
from .._runtime.call import Call
from .._runtime.runtime import Runtime
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import sparse_by_rows

__all__ = ["Hermitian"]

_EXACT = 1e-10  # |xᴴAy - yᴴAx| ÷ ‖A‖ that is taken for rounding
_CALLED = 1e-4  # of functions, which may compute in float32


class Hermitian:
    """A symmetric or Hermitian operand: how the core takes it, its name, what tells it from others."""

    def __init__(self, call: Call, A: Any, memory: Any, rows: int | None = None, name: str = "A") -> None:
        self.call, self.symmetry, self.name = call, _EXACT, name
        self._who = f"{call.who}: {name}"
        self.function: Callable[[NDArray[Any]], Any] | None = None
        self.matrix: Any = None  # as the core takes it
        self.given: Any = None  # as a product takes it
        A = array_of(call.who, name, A) if isinstance(A, (list, tuple)) else A
        if isinstance(A, SparseArray) or hasattr(A, "tocsr"):
            self._sparse(A, memory)
        elif isinstance(A, (Array, Expression, np.ndarray)):
            self._dense(A)
        else:
            self._called(A, rows)

    def _square(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
            raise ShapeError(
                f"{self._who} is {shape_text(tuple(shape))}; a square matrix is needed (svds takes others)."
            )
        self.n = int(shape[0])

    def _sparse(self, A: Any, memory: Any) -> None:
        self._square(A.shape)
        A = A if isinstance(A, SparseArray) else from_blocks([A])
        self.matrix = self.given = sparse_by_rows(self.call.who, A, memory, halves=True)
        self.dtype: np.dtype[Any] = np.dtype(np.complex128 if A.dtype.kind == "c" else np.float64)
        self.kind = f"sparse, {A.stored_values:,} stored values"
        self.call.on(self.matrix.path)
        self.input = _core.EigshInput.of_sparse(self.matrix.product_operand())
        self.values = float(self.matrix.stored_values)

    def _dense(self, A: Any) -> None:
        A = unmasked(self.call.who, A) if isinstance(A, np.ndarray) else A
        self._square(A.shape)
        dtype = np.dtype(A.dtype)
        if dtype.kind not in "biufc":
            raise ShapeError(f"{self._who} is {dtype}; numbers are needed.")
        self.dtype = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
        if isinstance(A, Array):
            A.flush()
        if dtype != self.dtype:  # converted where it is loaded
            A = np.ascontiguousarray(A, self.dtype) if isinstance(A, np.ndarray) else A.astype(self.dtype)
        self.given = A
        operand = Operand.matrix(self.call, lazy_operand(self.call, A), "A")
        if self.dtype.kind == "c" and operand.transposed != operand.conjugated:
            raise ShapeError(
                f"{self._who} is the transpose or conjugate of a complex array; give the array, whose "
                "eigenvectors are the conjugates."
            )
        self.matrix, self.kind = operand, dtype.name
        self.call.on(*operand.paths)
        self.input = _core.EigshInput.of_dense(operand.core)
        self.values = float(self.n) ** 2

    def _called(self, A: Any, rows: int | None) -> None:
        function = getattr(A, "matmat", None) or (A if callable(A) else None)
        shape = getattr(A, "shape", None) or (None if rows is None else (rows, rows))
        if function is None or shape is None:
            raise ShapeError(
                f"{self._who} is {type(A).__name__}; give a matrix, a LinearOperator of SciPy, or a "
                "function of blocks of vectors that has a shape (or v0 with as many rows)."
            )
        self._square(tuple(shape))
        kind = np.dtype(getattr(A, "dtype", None) or np.float64)
        self.dtype = np.dtype(np.complex128 if kind.kind == "c" else np.float64)
        self.kind, self.symmetry, self.function = "operator", _CALLED, function
        self.input = _core.EigshInput.of_function(self.apply, self.n)
        self.values = 0.0

    def apply(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        """Set y to A x. What the function calls of the library runs beside the solver, in what it leaves."""
        assert self.function is not None
        x.flags.writeable = False
        use = self.call.runtime
        inside = Runtime(
            self.call.memory,
            use.workers or None,
            use.threads_per_task,
            use.scratch,
            use.io,
            progress=False,
            devices=[],
        )
        with inside:
            made = np.asarray(self.function(x))
        if made.shape != y.shape:
            raise ShapeError(
                f"{self._who} made {shape_text(made.shape)} of {shape_text(x.shape)} vectors; "
                f"{shape_text(y.shape)} is needed."
            )
        if made.dtype.kind not in "biuf" + self.dtype.kind:
            raise ShapeError(f"{self._who} made {made.dtype} of {self.dtype} vectors; say so with its dtype.")
        y[...] = made

    @property
    def what(self) -> str:
        """What plans call it."""
        return f"{self.n} x {self.n} {self.kind}"

    def identity(self) -> dict[str, Any]:
        """Return what tells it from another one."""
        return self.matrix.identity if isinstance(self.matrix, Operand) else identity(self.matrix)
