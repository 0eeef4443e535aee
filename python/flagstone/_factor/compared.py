"""A matrix that is compared with its adjoint before one of its triangles is taken for the whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors.classes import NumericalError
from .._expression.compute import compute
from .._expression.expression import as_expression, from_ufunc
from .._expression.functions import argmax
from .._expression.norms import matrix_norm
from .._expression.operand import lazy_operand
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import least_of
from .._runtime.runtime import current, remember, stats

__all__ = ["Compared"]


class Compared:
    """A call on a matrix that must be Hermitian: n eps max|x| is what both triangles may differ by."""

    def __init__(self, call: Call, a: Any, prepared: Any) -> None:
        self.call, self.prepared = call, prepared
        given = as_expression(lazy_operand(call, a), call.who)
        self.n, self.dtype = given.shape[0], np.result_type(given.dtype, np.float32)
        self.gap = from_ufunc(np.subtract, (given, from_ufunc(np.conjugate, (given.T,))))
        self.norms = [matrix_norm(one, ord="max") for one in (self.gap, given)]

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.prepared.what}, compared with its adjoint"

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        compared = least_of(compute, *self.norms, memory=self.call.memory) + beside
        return max(int(self.prepared.least(beside)), compared)

    def plan(self) -> Plan:
        """Count both."""
        compared = compute.plan(*self.norms, memory=self.call.memory)
        both: Plan = together(self.what, [compared, self.prepared.plan()])
        return both

    def run(self) -> Any:
        """Compare, then do it."""
        gap, size = compute(*self.norms, memory=self.call.memory)
        first = stats()
        if gap > self.n * np.finfo(self.dtype).eps * size:  # NaN is told by the routine itself
            sizes = from_ufunc(np.absolute, (self.gap,))
            row, col = divmod(int(compute(argmax(sizes), memory=self.call.memory)), self.n)
            row, col = max(row, col), min(row, col)
            raise NumericalError(
                f"{self.call.who}: the matrix is not Hermitian: at row {row}, column {col} and its mirror it "
                f"differs by {gap:.3g}; leave check out, and the named triangle alone counts, or mend it."
            )
        made = self.prepared.run()
        remember(current(), together(self.what, [first, stats()]))
        return made
