"""Norms of vectors and matrices: one read, computed when they are needed or at once inside a limit."""

from __future__ import annotations

from typing import Any

from .._expression import norms
from .._expression.compute import compute
from .._expression.reductions import Reduced
from .._lazy.structure import mirrored
from .._runtime.plan import Plan
from .._runtime.routine import Prepared, least_of, routine

__all__ = ["largest", "matrix_norm", "prepared", "vector_norm"]


class _Pending:
    """A reduction that was checked: pending, or computed now where a limit or a place was given."""

    def __init__(self, pending: Reduced, out: Any, memory: Any) -> None:
        self.pending, self.out, self.memory = pending, out, memory

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        return least_of(compute, self.pending, out=self.out, memory=self.memory)

    def plan(self) -> Plan:
        return compute.plan(self.pending, out=self.out, memory=self.memory)

    def run(self) -> Any:
        if self.out is None and self.memory is None:
            return self.pending
        return compute(self.pending, out=self.out, memory=self.memory)


@routine
def vector_norm(
    x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2,
    out: Any = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the norms of the vectors along `axis`, of all elements by default.

    Parameters
    ----------
    x : Array or Expression
        Of any dtype; whole numbers are taken as float64.
    axis : int or tuple of int, optional
        What one vector lies along.
    keepdims : bool
        Leave the axes in place with extent 1.
    ord : number
        2: the Euclidean norm, whose squares neither overflow nor underflow. 1: the sum of absolute values.
        ``fl.inf``: the largest, ``-fl.inf``: the smallest. 0: how many are not zero. p:
        ``(sum |x|^p)^(1/p)``, unscaled.
    out : path, Array or ndarray, optional
        Where the norms go; computed now.
    memory : int or str, optional
        Most resident memory of the whole process; computed now.

    Returns
    -------
    Reduced
        Pending until needed: ``fl.compute(...)`` takes several of one array in one pass. With `out` or
        `memory` the number, the ndarray or `out`.

    Raises
    ------
    ShapeError
        `ord` is no real number; the smallest of nothing.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Reads x once; 2 flops an element. Squares are summed at one of three scales (Blue's algorithm as in LAPACK
    3.10, Anderson 2017), compensated between blocks. NaN gives NaN, Inf without NaN Inf. The same bits for
    every limit and number of workers.
    """
    return _Pending(norms.vector_norm(x, axis, keepdims, ord), out, memory)


def prepared(x: Any, keepdims: bool, ord: float | str, out: Any, memory: Any) -> Prepared[Any]:
    """Return the checked arguments of norms of matrices; of a mirrored triangle, which is read once."""
    halves = mirrored(x)
    if halves is None or x.dtype.kind not in "fc":
        return _Pending(norms.matrix_norm(x, keepdims, ord), out, memory)
    return _Pending(norms.symmetric_norm(*halves, keepdims, ord), out, memory)


def largest(x: Any) -> Reduced:
    """Return the largest magnitude of a matrix, pending; of a mirrored triangle, which is read once."""
    halves = mirrored(x)
    if halves is None or x.dtype.kind not in "fc":
        return norms.matrix_norm(x, ord="max")
    return norms.symmetric_norm(*halves, False, "max")


@routine
def matrix_norm(
    x: Any, /, *, keepdims: bool = False, ord: float | str = "fro", out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the norms that one read gives: `flagstone.linalg.matrix_norm` without ord 2."""
    return prepared(x, keepdims, ord, out, memory)
