"""Condition numbers: ‖A‖ ‖A⁻¹‖, of which the second is estimated from a factor, or of singular values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import NumericalError, ShapeError
from .._errors.messages import shown
from .._expression.operand import lazy_operand
from .._factor.cholesky import cholesky_call
from .._factor.diagonal import warn_of
from .._factor.lu import LuFactor, lu_call
from .._factor.lu_solve import LuSolve
from .._lazy.structure import hermitian, triangular
from .._linalg.norms import matrix_norm
from .._linalg.operands import as_factored
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import Prepared, Routine, least_of, routine
from .._runtime.runtime import current, remember, stats
from .one_norm import COLUMNS, MOST, one_norm
from .singular import spectral
from .systems import Solve, cholesky_factor, kind_of, matrix, triangle

__all__ = ["Conditioned", "cond"]

_USUAL = 4  # solves of an estimate: two steps of two
_HELD = 8  # blocks of vectors that an estimate holds


class _Estimate:
    """‖A‖ ‖A⁻¹‖ in the 1-norm or, of the adjoint, the infinity-norm: a read of A, a factor, some solves."""

    def __init__(self, call: Call, a: Any, assume_a: str, adjoint: bool = False, factor: Any = None) -> None:
        self.call, self.kind, self.adjoint = call, kind_of(call, assume_a), adjoint
        self.a = as_factored(call, lazy_operand(call, a))
        shape = tuple(self.a.shape)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ShapeError(f"{call.who}: the matrix is {shape_text(shape)}; a square one is needed.")
        if not shape[0]:
            raise ShapeError(
                f"{call.who}: the matrix is 0 x 0 and has no condition number; one with elements is needed."
            )
        self.n = int(shape[0])
        self.factor: Any = factor
        self.given = factor is not None
        self.routine = self._factoring()
        self.norm = 0.0
        self.done: list[Stats] = []

    def _again(self) -> Call:
        return Call(self.call.who, self.call.memory)

    def _factoring(self) -> Routine[Any] | None:
        if self.factor is not None or self.kind in ("lower", "upper"):
            matrix(self.call, self.a)  # refused where no factor is made
            return None
        make = cholesky_call if self.kind == "pos" else lu_call
        return make(self.call, self.a, None)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the matrix."""
        kind: np.dtype[Any] = np.dtype(self.a.dtype)
        return kind

    def planned_factor(self) -> Any:
        """Return a factor that only the planner uses."""
        if self.factor is not None or self.kind in ("lower", "upper"):
            return self.factor
        general = self.kind == "gen"
        tile = _core.lu_tile(self.n) if general else _core.factor_tile(self.n, self.dtype.name)
        made = Array(_core.planned_array([self.n, self.n], self.dtype.name, [tile, tile]))
        return LuFactor(made, np.arange(self.n)) if general else made

    def solving(self, factor: Any, b: Any, trans: int = 0, out: Any = None) -> LuSolve | Solve:
        """Return the checked call of one solve: with A, or with its adjoint (2)."""
        call = self._again()
        if self.kind == "gen":
            return LuSolve(call, factor, b, trans, out, warns=False, given=self.given)
        if self.kind == "pos":
            lower, is_lower = cholesky_factor(call, factor)
            given = matrix(call, lower)
            first = triangle(given, True, 0) if is_lower else triangle(given, False, 2)
            return Solve(call, given, [first, first.adjoint()], b, out, warns=False, given=self.given)
        given = matrix(call, self.a)
        return Solve(call, given, [triangle(given, self.kind == "lower", trans)], b, out, warns=False)

    def _norm_of(self) -> tuple[Any, dict[str, Any]]:
        seen = self.a
        if self.kind == "pos":
            seen = hermitian(seen)
        elif self.kind != "gen":
            seen = triangular(seen, self.kind)
        return seen, {"ord": np.inf if self.adjoint else 1, "memory": self.call.memory}

    def plans(self) -> list[Plan]:
        """Return plans of the read, the factor, and the usual number of solves."""
        seen, options = self._norm_of()
        one = self.solving(self.planned_factor(), np.empty((self.n, COLUMNS), self.dtype)).plan()
        first = [] if self.routine is None else [self.routine.plan()]
        return [matrix_norm.plan(seen, **options), *first, *[one] * _USUAL]

    @property
    def note(self) -> str:
        """What plans say of the estimate."""
        return f"the estimate solves {_USUAL} times for {COLUMNS} vectors, {2 * MOST} times at most"

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        held = _HELD * self.n * COLUMNS * self.dtype.itemsize
        sides = np.empty((self.n, COLUMNS), self.dtype)
        solve = self.solving(self.planned_factor(), sides).least(held)
        seen, options = self._norm_of()
        norm = least_of(matrix_norm, seen, **options)
        return max([solve, norm, *([] if self.routine is None else [self.routine.least(beside)])])

    def make(self) -> None:
        """Read A for its norm, and factor it, where there is no factor."""
        seen, options = self._norm_of()
        self.norm = float(np.asarray(matrix_norm(seen, **options)))
        self.done.append(stats())
        if self.routine is not None:
            self.factor = self.routine.run()
            self.done.append(stats())

    def value(self) -> float:
        """Return the estimate: inf where the factor is singular."""
        ways = (2, 0) if self.adjoint else (0, 2)
        try:
            inverse = one_norm(self.n, self.dtype, *(self._solver(trans) for trans in ways))
        except NumericalError as error:
            if error.row is not None:  # NaN or Inf, of the matrix or of a factor that overflowed
                raise
            return float("inf")
        return self.norm * inverse

    def _solver(self, trans: int) -> Any:
        def solved(x: NDArray[Any]) -> NDArray[Any]:
            found = np.asarray(self.solving(self.factor, np.ascontiguousarray(x), trans).run())
            self.done.append(stats())
            return found

        return solved

    def tell(self, what: str) -> None:
        """Let stats() tell what all of it did."""
        solves = len(self.done) - 1 - (self.routine is not None)
        note = f"the estimate solved {solves} times for {COLUMNS} vectors"
        remember(current(), replace(together(what, self.done), note=note))


class _Cond:
    """The checked arguments of one condition number in the 1-norm or the infinity-norm."""

    def __init__(self, estimate: _Estimate) -> None:
        self.estimate = estimate

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        one = self.estimate
        return f"cond {shape_text((one.n, one.n))}, {one.dtype}"

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        return self.estimate.least(beside)

    def plan(self) -> Plan:
        """Count it."""
        return replace(together(self.what, self.estimate.plans()), note=self.estimate.note)

    def run(self) -> float:
        """Do it."""
        self.estimate.call.check_chain(self.least())
        self.estimate.make()
        found = self.estimate.value()
        self.estimate.tell(self.what)
        return found


class Conditioned:
    """One solve that tells the condition too."""

    def __init__(self, call: Call, a: Any, b: Any, assume_a: str, out: Any) -> None:
        self.estimate = _Estimate(call, a, assume_a)
        self.b, self.out = b, out
        self.right = self._solve(self.estimate.planned_factor()).right  # whether it conforms

    def _solve(self, factor: Any) -> LuSolve | Solve:
        return self.estimate.solving(factor, self.b, 0, self.out)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        one = self.estimate
        return f"solve {shape_text((one.n, one.n))}, {one.dtype}, with its condition"

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        return max(self.estimate.least(beside), self._solve(self.estimate.planned_factor()).least(beside))

    def plan(self) -> Plan:
        """Count it."""
        plans = [*self.estimate.plans(), self._solve(self.estimate.planned_factor()).plan()]
        return replace(together(self.what, plans), note=self.estimate.note)

    def run(self) -> tuple[Any, float]:
        """Do it; the estimate first, for `out` may be the matrix, which is read where there is no factor."""
        one = self.estimate
        one.call.check_chain(self.least())
        self.right.look(one.call.who)
        one.make()
        condition = one.value()
        one.tell(self.what)
        done = stats()
        x = self._solve(one.factor).run()
        remember(current(), together(self.what, [done, stats()]))
        warn_of("solve", "is estimated as", condition, one.dtype)
        return x, 1 / condition if condition else float("inf")


@routine
def cond(
    x: Any, /, p: Any = 1, *, assume_a: str = "gen", factor: Any = None, memory: int | str | None = None
) -> Prepared[float]:
    """Return the condition number of a matrix, inside a memory limit.

    Parameters
    ----------
    x : Array, Expression or ndarray
        n x n; where p is 2, m x n.
    p : {1, inf, 2, None}
        The norm. 1 and ``fl.inf``: ‖x‖ ‖x⁻¹‖, the second estimated from below by a few solves with a factor,
        usually to within a factor of three. 2 and None: the ratio of the largest to the least singular value,
        from R of a QR. The default is 1 and not NumPy's 2, which costs more.
    assume_a : str
        What is known of x, as in `solve`: "gen", "pos" or a triangle, of which there is nothing to factor.
    factor : LuFactor, Array or (Array, bool), optional
        What `lu_factor` or, with "pos", `cholesky` made of x (as for `cho_solve`), so that it is not made
        again.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    float
        inf where x is singular.

    Raises
    ------
    NumericalError
        x or the factor has NaN or Inf, x is not positive definite where that was said, or its elimination
        goes beyond the largest number.
    ConvergenceError
        p is 2, and extreme singular values of a large x are too close to be told apart.
    ShapeError
        x is not square and p is not 2; it has no elements; p is none of these.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Higham and Tisseur's block estimate (2000) with four vectors: one read of x, the cost of `lu_factor` or
    `cholesky`, and some four solves, ten at most, of 8 n² flops each. The ratio on the diagonal of a factor
    is a lower bound of the condition, of which `solve` warns; it is not this estimate. p = 2: the cost of
    `qr`; up to 4096 singular values are computed in memory, beyond `eigsh` finds the extreme ones of RᴴR and
    of its inverse to a residual of 1e-6 of them, R on disk: two reads of R a pass, some ten to thirty each.
    """
    call = Call("cond", memory)
    if isinstance(p, (list, tuple)) or (hasattr(p, "ndim") and p.ndim > 0):
        raise ShapeError("cond: p is an array; 1, 2, inf or None is needed.")
    if p is None or p == 2:
        if factor is not None:
            raise ShapeError("cond: a factor is of use where p is 1 or inf; leave it out.")
        return spectral(call, x)
    if p not in (1, np.inf):
        raise ShapeError(f"cond: p is {shown(p)}; 1, 2, inf or None is needed.")
    if isinstance(factor, LuFactor) and kind_of(call, assume_a) != "gen":
        raise ShapeError(f"cond: factor is an LU and assume_a is {assume_a!r}; they must agree.")
    return _Cond(_Estimate(call, x, assume_a, p != 1, factor))
