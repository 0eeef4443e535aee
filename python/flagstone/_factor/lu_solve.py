"""Systems solved with an LU factorization that is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._linalg.operands import as_factored
from .._resume.openers import old_output, operand, told_values
from .._resume.registers import Again, resumable
from .._runtime.arguments import array_of
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .diagonal import FactorDiagonal
from .right import Right, checked_trans

__all__ = ["LuSolve", "lu_solve"]


class LuSolve(Routine[Any]):
    """The checked arguments of one solve with a factor that is there."""

    def __init__(
        self, call: Call, factor: Any, b: Any, trans: int | str, out: Any, warns: bool = True,
        given: bool = True,
    ) -> None:  # fmt: skip
        """`warns`: whether of a condition that the diagonal of U tells.

        `given`: by the caller, so that NaN and Inf are looked for; else the call has made the factor.
        """
        self.warns, self.given = warns, given
        self.operation = "lu_solve" if call.who == "lu_solve" else ""
        self.trans = checked_trans(call.who, trans)
        try:
            lu, piv = factor
        except (TypeError, ValueError):
            raise ShapeError(f"{call.who}: a pair (lu, piv) is needed, as lu_factor returns it.") from None
        self.lu = Operand.matrix(call, as_factored(call, lazy_operand(call, lu)), "lu")
        if self.lu.transposed or self.lu.conjugated:
            raise ShapeError(f"{call.who}: lu is transposed or conjugated; give it as lu_factor returned it.")
        self.pivots = checked_pivots(call, piv, self.lu.shape[0])
        self.right = Right(call, b, out, self.lu.dtype, [*self.lu.reads, self.pivots])
        _core.check_substitute(
            call.who, _core.TriangularOperand(self.lu.factor, True, True), self.right.b.factor
        )
        self.diagonal = FactorDiagonal(self.lu.shape[0], self.lu.dtype, False)
        super().__init__(call, [self.right.place])
        call.on(*self.lu.paths, *self.right.b.paths)
        call.outputs = self.right.place.named()

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        by = f"{shape_text(self.lu.shape)} by {shape_text(self.right.b.shape)}"
        return f"{self.call.who} {by}, {self.lu.dtype}"

    def how(self, job: Any) -> How:
        """Say how the job does it."""
        return How("substitution", 2)

    def job(self, at: At) -> _core.Job:
        """Return the job that writes each place where `at` says."""
        pivots = _core.memory_array(self.pivots)
        b, x = self.right.b.factor, at(self.right.place)
        return _core.lu_solve_job(
            self.call.who, self.lu.core, pivots, self.trans, b, x, self.diagonal.core,
            self.right.place.checkpoint, self.given,
        )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits."""
        named = {"lu": self.lu.identity, "piv": told_values(self.pivots), "b": self.right.b.identity}
        return named | {"trans": self.trans, "dtype": self.lu.dtype.name}

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, roughly."""
        (n, m), dtype = self.right.b.shape, self.lu.dtype
        return 2.0 * n * n * m * (4 if dtype.kind == "c" else 1), 1.5 * n * n * dtype.itemsize

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that the results take."""
        return super().beside + self.diagonal.values.nbytes

    def result(self, job: Any) -> Any:
        """Publish the result and return what the caller gets."""
        if self.warns:
            self.diagonal.warn(self.call.who)
        return self.right.solution(super().result(job))


def checked_pivots(call: Call, piv: Any, n: int) -> NDArray[np.int64]:
    """Return the exchanges of rows: n whole numbers, none above its own row."""
    pivots = array_of(call.who, "piv", piv)
    good = pivots.shape == (n,) and pivots.dtype.kind in "iu"
    if not good or (n > 0 and ((pivots < np.arange(n)).any() or pivots.max() >= n)):
        raise ShapeError(
            f"{call.who}: piv must be {n} whole numbers, each at least its own place and below {n}; give it "
            "as lu_factor returned it."
        )
    return np.ascontiguousarray(pivots, np.int64)


@routine
def lu_solve(
    lu_and_piv: Any,
    b: Any,
    /,
    trans: int | str = 0,
    *,
    out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:
    """Return x with a x = b, given what `lu_factor` made of a, inside a memory limit.

    Parameters
    ----------
    lu_and_piv : LuFactor or pair
        What `lu_factor` (or SciPy's) returned.
    trans : {0, 1, 2, "N", "T", "C"}
        Solve a x = b, aᵀ x = b or aᴴ x = b.
    b, out, memory
        As for `solve`.

    Returns
    -------
    ndarray or Array
        The solution, of b's shape.

    Raises
    ------
    NumericalError
        U has a zero on its diagonal, or the factor or b has NaN or Inf: row and column are named;
        ``error.index`` counts from 1.
    ShapeError
        The shapes or dtypes do not conform.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    2 n² m flops (complex: four times as many). Reads the factor, of which L's half twice, for every group of
    columns of x that fits into half of the limit, b once; writes s n m.
    """
    return LuSolve(Call("lu_solve", memory), lu_and_piv, b, trans, out)


@resumable("lu_solve")
def _lu_solve_again(path: str, told: dict[str, Any]) -> Again:
    factor = operand("lu", told["lu"]), operand("piv", told["piv"])
    return (
        lu_solve,
        (factor, operand("b", told["b"])),
        {"trans": told["trans"], "out": old_output(path, told)},
    )
