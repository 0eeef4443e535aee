"""Right-hand sides and solutions: given and returned as a vector or a matrix, in memory or as Arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._errors.messages import not_finite, shown
from .._expression.expression import Expression, as_expression, cast
from .._expression.operand import as_array, lazy_operand
from .._output.create import from_numpy
from .._output.place import IN_MEMORY, Place
from .._runtime.arguments import array_of
from .._runtime.call import Call

__all__ = ["Right", "checked_trans", "refuse_not_finite"]

_LOOKED = 1 << 18  # elements at a time

#: What is solved with: the matrix, its transpose, its adjoint.
_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


class Right:
    """The right-hand sides of one solve, and where the solution goes.

    A vector or an ndarray gives an ndarray, unless it is an Array (then an Array in memory) or `out` says
    where; an Array of two dimensions gives an Array. `beside`: memory that is read beside b's while the
    solution is written (factors, pivots); where `out` lies there too, the solution is made aside.
    """

    def __init__(
        self, call: Call, b: Any, out: Any, dtype: np.dtype[Any], beside: Sequence[NDArray[Any]]
    ) -> None:
        b = b if hasattr(b, "ndim") else array_of(call.who, "b", b)
        self.vector = b.ndim == 1
        self.stored = self.is_stored(b)
        if self.vector and not (out is None or isinstance(out, np.ndarray)):
            raise ShapeError(
                f"{call.who}: b is a vector, whose solution is in memory; give out= an ndarray, or b as one "
                "column."
            )
        self.b = Operand.matrix(call, _matrix(call, b, dtype), "b")
        n, m = self.b.shape
        if self.vector and out is not None:
            if out.shape != (n,):
                raise ShapeError(
                    f"{call.who}: out is {shape_text(out.shape)} and the solution is {n}; they must agree."
                )
            out = out.reshape(n, 1)
        self.out = out
        in_memory = out is None and (self.vector or not self.stored)
        tile = (_core.factor_tile(n, dtype.name), _core.right_tile(m))
        target = IN_MEMORY if in_memory else out
        self.place = Place(call, (n, m), dtype, target, tile, called="solution", advice="they must agree")
        self.place.chunks = tile
        self.place.reads = None if in_memory else [*self.b.reads, *beside]

    def look(self, who: str) -> None:
        """Refuse NaN and Inf of what lies in memory before a factorization; files as they are read."""
        if self.b.values is not None:
            refuse_not_finite(who, self.b.values.T if self.b.transposed else self.b.values)

    @staticmethod
    def is_stored(b: Any) -> bool:
        """Say whether right-hand sides are an Array, whose solution is one."""
        return isinstance(b, (Array, Expression))

    def solution(self, result: Any) -> Any:
        """Return the solution as b was given."""
        if not self.vector:
            return result
        if self.out is not None:
            return self.out.reshape(-1)
        return from_numpy(result.reshape(-1)) if self.stored else result.reshape(-1)


def _matrix(call: Call, b: Any, dtype: np.dtype[Any]) -> Any:
    """Return b as a matrix; whole numbers, and all in memory, in the solution's dtype where NumPy does so."""
    b = lazy_operand(call, b)
    if isinstance(b, Array):
        if b.ndim != 1:
            whole = b.dtype != dtype and b.dtype.kind in "biu" and np.result_type(b.dtype, dtype) == dtype
            return as_array(call, cast(as_expression(b, call.who), dtype)) if whole else b
        call.room("the vector b", b.nbytes)
    values = array_of(call.who, "b", b)
    if values.ndim == 1:
        values = values[:, None]
    if values.dtype == dtype or values.dtype.kind not in "biufc" or np.result_type(values, dtype) != dtype:
        return values
    call.room(f"b in {dtype}", values.size * dtype.itemsize)
    return values.astype(dtype)


def refuse_not_finite(who: str, b: NDArray[Any]) -> None:
    """Refuse right-hand sides with NaN or Inf; n m comparisons."""
    step = max(1, _LOOKED // max(1, b.shape[1]))
    for start in range(0, len(b), step):
        bad = ~np.isfinite(b[start : start + step])
        if bad.any():
            row, col = np.argwhere(bad)[0]
            raise not_finite(who, "b", int(start + row), int(col))


def checked_trans(who: str, trans: Any) -> int:
    """Return what is solved with: the matrix (0), its transpose (1), its adjoint (2)."""
    if not isinstance(trans, (int, np.integer, np.bool_, str)) or trans not in _TRANS:
        raise ShapeError(f"{who}: trans is {shown(trans)}; one of 0, 1, 2, 'N', 'T', 'C' is needed.")
    return _TRANS[trans]
