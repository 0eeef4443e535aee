"""Mixed precision: a factor of half the bytes and twice the rate, and refinement in the full precision.

With the rule of stopping of LAPACK's dsgesv and dsposv (Langou and others 2006).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import NumericalError, ShapeError
from .._expression.expression import as_expression
from .._expression.operand import lazy_operand
from .._factor.cholesky import cholesky_call
from .._factor.lu import LuFactor, lu_call
from .._factor.lu_solve import LuSolve
from .._factor.right import Right, refuse_not_finite
from .._lazy.structure import hermitian
from .._linalg.matmul import matmul
from .._linalg.norms import matrix_norm
from .._linalg.operands import as_factored
from .._output.create import from_numpy
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import Routine, least_of
from .._runtime.runtime import current, remember, stats
from .systems import Solve, kind_of, matrix, solver, triangle

__all__ = ["Mixed"]

_MOST = 30  # refinements; then the factor is of no use
_USUAL = 2  # that plans count
_LOW = {np.dtype("f8"): np.dtype("f4"), np.dtype("c16"): np.dtype("c8")}


def _sizes(x: NDArray[Any]) -> NDArray[Any]:
    """Return the largest |Re| + |Im| of each column."""
    size = np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)
    return np.asarray(size.max(axis=0, initial=0))


class Mixed:
    """One solve that factors in single precision, refines in double, and falls back to double."""

    def __init__(self, call: Call, a: Any, b: Any, assume_a: str, out: Any) -> None:
        self.call, self.assume_a, self.b, self.out = call, assume_a, b, out
        self.kind = kind_of(call, assume_a)
        self.a = as_factored(call, lazy_operand(call, a))
        self.dtype: np.dtype[Any] = np.dtype(self.a.dtype)
        if self.kind not in ("gen", "pos"):
            raise ShapeError(f"{call.who}: precision is 'mixed' and a is a triangle, which has no factor.")
        if self.dtype not in _LOW:
            raise ShapeError(
                f"{call.who}: precision is 'mixed' and the matrix is {self.dtype}; float64 or complex128 is "
                "needed."
            )
        self.low = _LOW[self.dtype]
        self.full = solver(call, self.a, b, assume_a, out)  # whether it conforms, and what it falls back to
        self.n = int(self.a.shape[0])
        self.sides = 1 if np.ndim(b) == 1 else int(b.shape[1])
        self.seen = hermitian(self.a) if self.kind == "pos" else self.a
        self.done: list[Stats] = []

    # Parts ------------------------------------------------------------------------------------------------

    def _call(self) -> Call:
        return Call(self.call.who, self.call.memory)

    def _factoring(self) -> Routine[Any]:
        low = as_expression(self.a, self.call.who).astype(self.low)  # where it is loaded
        return (cholesky_call if self.kind == "pos" else lu_call)(self._call(), low, None)

    def _solving(self, factor: Any, b: NDArray[Any]) -> Routine[Any]:
        call = self._call()
        if self.kind == "gen":
            return LuSolve(call, factor, b, 0, None, warns=False, given=False)
        given = matrix(call, factor)
        first = triangle(given, True, 0)
        return Solve(call, given, [first, first.adjoint()], b, None, warns=False, given=False)

    def _planned_factor(self) -> Any:
        general = self.kind == "gen"
        tile = _core.lu_tile(self.n) if general else _core.factor_tile(self.n, self.low.name)
        made = Array(_core.planned_array([self.n, self.n], self.low.name, [tile, tile]))
        return LuFactor(made, np.arange(self.n)) if general else made

    def _options(self, out: NDArray[Any]) -> dict[str, Any]:
        return {"alpha": -1, "beta": 1, "out": out, "memory": self.call.memory}

    # The call ---------------------------------------------------------------------------------------------

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text((self.n, self.n))}, {self.dtype}, mixed precision"

    @property
    def _held(self) -> int:
        return 4 * self.n * self.sides * self.dtype.itemsize  # b, x, residuals, and their halves

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        beside += self._held
        x, low = (np.empty((self.n, self.sides), kind) for kind in (self.dtype, self.low))
        return max(
            self.full.least(), self._factoring().least(beside),
            least_of(matrix_norm, self.seen, ord=np.inf, memory=self.call.memory) + beside,
            self._solving(self._planned_factor(), low).least(beside),
            least_of(matmul, self.seen, x, **self._options(np.empty_like(x))) + beside,
        )  # fmt: skip

    def plan(self) -> Plan:
        """Count it, with the usual number of refinements."""
        x, low = (np.empty((self.n, self.sides), kind) for kind in (self.dtype, self.low))
        solving = self._solving(self._planned_factor(), low).plan()
        residual = matmul.plan(self.seen, x, **self._options(np.empty_like(x)))
        norm = matrix_norm.plan(self.seen, ord=np.inf, memory=self.call.memory)
        factoring = self._factoring().plan()
        parts = [factoring, norm, *[solving, residual] * (_USUAL + 1)]
        more = self.full.plan().flops
        note = (
            f"{_USUAL} refinements are counted, {_MOST} at most; where they do not converge {self.dtype} is "
            f"factored, {more:.3g} flops more"
        )
        return replace(together(self.what, parts), method=f"{factoring.method} in {self.low}", note=note)

    def run(self) -> Any:
        """Do it."""
        self.call.check_chain(self.least())
        found, why = self._refined()
        if found is None:
            x = self.full.run()
            self.done.append(stats())
            self._tell(f"{stats().method} in {self.dtype}", f"fell back to {self.dtype}: {why}")
            return x
        x = self._given_back(found)
        self._tell(f"refined from {self.low}", why)
        return x

    def _tell(self, method: str, note: str) -> None:
        remember(current(), replace(together(self.what, self.done), method=method, note=note))

    def _refined(self) -> tuple[NDArray[Any] | None, str]:
        """Return the solution, or None and why there is none."""
        b = np.asarray(self.b).astype(self.dtype).reshape(self.n, self.sides)
        refuse_not_finite(self.call.who, b)
        norm = float(np.asarray(matrix_norm(self.seen, ord=np.inf, memory=self.call.memory)))
        self.done.append(stats())
        try:
            factor = self._factoring().run()
            self.done.append(stats())
            x = self._correction(factor, b)
            # dsgesv: every column of b - A x is at most sqrt(n) u ‖A‖ ‖x‖, u = eps / 2.
            bound = norm * np.sqrt(self.n) * float(np.finfo(self.dtype).eps) / 2
            for step in range(_MOST + 1):
                left = b.copy()
                matmul(self.seen, x, **self._options(left))
                self.done.append(stats())
                if not np.isfinite(x).all():
                    return None, f"the solution in {self.low} is not finite"
                if (_sizes(left) <= _sizes(x) * bound).all():
                    return x, f"{step} refinements"
                if step < _MOST:
                    x += self._correction(factor, left)
        except NumericalError as error:
            return None, f"in {self.low} {str(error).removeprefix(self.call.who + ': ').rstrip('.')}"
        return None, f"{_MOST} refinements were not enough"

    def _correction(self, factor: Any, left: NDArray[Any]) -> NDArray[Any]:
        """Return the solution in low precision, of columns scaled by powers of two into its range."""
        scale = np.ldexp(1.0, np.frexp(_sizes(left))[1])
        low = (left / scale).astype(self.low)
        found = np.asarray(self._solving(factor, low).run())
        self.done.append(stats())
        return np.asarray(found.astype(self.dtype) * scale)

    def _given_back(self, x: NDArray[Any]) -> Any:
        """Return the solution as b was given, or where it was asked for."""
        x = x.reshape(np.shape(self.b))
        if isinstance(self.out, (Array, np.ndarray)):
            self.out[...] = x
            return self.out
        if self.out is not None:
            return from_numpy(x, self.out, overwrite=True)
        return from_numpy(x) if Right.is_stored(self.b) else x
