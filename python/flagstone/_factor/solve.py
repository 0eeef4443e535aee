"""Systems of linear equations that are larger than memory."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._array.array import shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._linalg.operands import as_factored
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .cholesky import cholesky_flops
from .lu import lu_flops
from .right import Right

__all__ = ["cho_solve", "solve", "solve_triangular", "solver"]

_GENERAL = (
    "gen", "general", "sym", "symmetric", "her", "hermitian", "diagonal", "tridiagonal", "banded",
)  # fmt: skip
_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


class _Solve(Routine[Any]):
    """The checked arguments of one solve with factors that are there."""

    def __init__(self, call: Call, matrix: Operand, factors: Any, b: Any, out: Any) -> None:
        self.matrix, self.factors = matrix, factors
        self.right = Right(call, b, out, matrix.dtype)
        _core.check_substitute(call.who, factors[0], self.right.b.factor)
        super().__init__(call, [self.right.place])
        call.on(*matrix.paths, *self.right.b.paths)
        call.outputs = 0 if self.right.place.in_memory else 1

    @property
    def what(self) -> str:
        by = f"{shape_text(self.matrix.shape)} by {shape_text(self.right.b.shape)}"
        return f"{self.call.who} {by}, {self.matrix.dtype}"

    def how(self, job: Any) -> How:
        return How("substitution", len(self.factors))

    def job(self, at: At) -> _core.Job:
        return _core.substitute_job(self.call.who, self.factors, self.right.b.factor, at(self.right.place))

    def result(self, job: Any) -> Any:
        return self.right.solution(super().result(job))


class _SolveDefinite(_Solve):
    """The checked arguments of one solve that factors."""

    def __init__(self, call: Call, matrix: Operand, b: Any, out: Any) -> None:
        super().__init__(call, matrix, [_core.TriangularOperand(matrix.factor, True, False)], b, out)
        call.scratch_bytes["factor"] = matrix.shape[0] ** 2 * matrix.dtype.itemsize

    def how(self, job: Any) -> How:
        return How("Cholesky")

    def job(self, at: At) -> _core.Job:
        return _core.solve_definite_job(self.matrix.factor, self.right.b.factor, at(self.right.place))

    def effort(self) -> tuple[float, float]:
        return cholesky_flops(self.matrix.shape[0], self.matrix.dtype), self.right.place.nbytes


class _SolveGeneral(_SolveDefinite):
    """The checked arguments of one solve that factors what is only known to be square."""

    def how(self, job: Any) -> How:
        return How("LU")

    def job(self, at: At) -> _core.Job:
        return _core.solve_general_job(self.matrix.factor, self.right.b.factor, at(self.right.place))

    def effort(self) -> tuple[float, float]:
        return lu_flops(self.matrix.shape[0], self.matrix.dtype), self.right.place.nbytes


def _matrix(call: Call, a: Any) -> Operand:
    return Operand.matrix(call, as_factored(call, lazy_operand(call, a)), "the matrix")


def solver(call: Call, a: Any, b: Any, assume_a: str, out: Any) -> Routine[Any]:
    """Return the checked call of the algorithm for what is known of `a`."""
    if assume_a in ("lower triangular", "upper triangular"):
        matrix = _matrix(call, a)
        one = _core.TriangularOperand(matrix.factor, assume_a.startswith("lower"), False)
        return _Solve(call, matrix, [one], b, out)
    if assume_a in ("pos", "positive definite"):
        return _SolveDefinite(call, _matrix(call, a), b, out)
    if assume_a in _GENERAL:
        return _SolveGeneral(call, _matrix(call, a), b, out)
    raise ShapeError(
        f"{call.who}: assume_a is {assume_a!r}; one of 'pos', 'lower triangular', 'upper triangular', "
        f"{', '.join(map(repr, _GENERAL))} is needed."
    )


@routine
def cho_solve(c: Any, b: Any, /, *, out: Any = None, memory: int | str | None = None) -> Prepared[Any]:
    """Return x with a x = b, given the Cholesky factor of a, inside a memory limit.

    Parameters
    ----------
    c : Array or ndarray, or (factor, lower)
        What `cholesky` returned. As SciPy has it, a pair says which triangle it is; alone it is the lower
        one. The other triangle is not looked at.
    b : Array, Expression or ndarray, n or n x m
        Right-hand sides.
    out : path, Array or ndarray, optional
        Where x goes. Default: as b was given, an ndarray or an Array (in scratch; of a vector in memory).
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    ndarray or Array
        The solution, of b's shape.

    Raises
    ------
    NumericalError
        The factor has a zero on its diagonal; ``error.index`` counts from 1.
    ShapeError
        The shapes or dtypes do not conform.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    2 n² m flops (complex: four times as many). Reads the factor's triangle, s n²/2 bytes, twice for every
    group of columns of x that fits into half of the limit, b once; writes s n m.
    """
    call = Call("cho_solve", memory)
    factor, lower = c if isinstance(c, tuple) else (c, True)
    matrix = _matrix(call, factor)
    first = _core.TriangularOperand(matrix.factor, bool(lower), False)
    if not lower:  # a = Uᴴ U
        first = first.adjoint()
    return _Solve(call, matrix, [first, first.adjoint()], b, out)


@routine
def solve_triangular(
    a: Any,
    b: Any,
    /,
    *,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:
    """Return x with a x = b for a triangular matrix, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, n x n
        One triangle of it is read; what the other one holds is not looked at.
    b : Array, Expression or ndarray, n or n x m
        Right-hand sides.
    trans : {0, 1, 2, "N", "T", "C"}
        Solve a x = b, aᵀ x = b or aᴴ x = b.
    lower : bool
        Which triangle of `a` is read.
    unit_diagonal : bool
        Take the diagonal as ones, whatever is stored there.
    out : path, Array or ndarray, optional
        Where x goes. Default: as b was given, an ndarray or an Array (in scratch; of a vector in memory).
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    ndarray or Array
        The solution, of b's shape.

    Raises
    ------
    NumericalError
        The diagonal has a zero; ``error.index`` counts from 1.
    ShapeError
        The shapes or dtypes do not conform.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    n² m flops (complex: four times as many). Reads the triangle, s n²/2 bytes, once for every group of
    columns of x that fits into half of the limit, b once; writes s n m.
    """
    call = Call("solve_triangular", memory)
    if trans not in _TRANS:
        raise ShapeError(f"solve_triangular: trans is {trans!r}; one of 0, 1, 2, 'N', 'T', 'C' is needed.")
    matrix, how = _matrix(call, a), _TRANS[trans]
    complex_, turned = matrix.dtype.kind == "c", how > 0
    seen = _core.Operand(
        matrix.core, matrix.transposed != turned, matrix.conjugated != (how == 2 and complex_)
    )
    return _Solve(
        call, matrix, [_core.TriangularOperand(seen, bool(lower) != turned, bool(unit_diagonal))], b, out
    )


@routine
def solve(
    a: Any,
    b: Any,
    /,
    *,
    assume_a: str = "gen",
    out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:
    """Return x with a x = b, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, n x n
        float32, float64, complex64 or complex128; on disk, in memory, or computed where it is loaded.
    b : Array, Expression or ndarray, n or n x m
        Right-hand sides.
    assume_a : str
        What is known of `a`, in SciPy's words. "pos": Hermitian and positive definite; its lower triangle is
        read. "lower triangular", "upper triangular": that triangle is read. "gen", "sym", "her", "diagonal",
        "tridiagonal", "banded": solved as general, by LU with partial pivoting.
    out : path, Array or ndarray, optional
        Where x goes. Default: as b was given, an ndarray or an Array (in scratch; of a vector in memory).
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    ndarray or Array
        The solution, of b's shape.

    Raises
    ------
    NumericalError
        `a` is not positive definite, or singular, or has NaN or Inf: ``error.index`` says where, counted from
        1 (the order of the leading minor, the column whose pivot is zero).
    ShapeError
        The shapes or dtypes do not conform.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    "pos": n³/3 + 2 n² m flops (complex: four times as many) and the bytes of `cholesky` and `cho_solve`;
    "gen": 2 n³/3 + 2 n² m flops and the bytes of `lu_factor`, without its last pass, and `lu_solve`. The
    factor lies in scratch, n² elements, where it does not fit into memory.
    """
    return solver(Call("solve", memory), a, b, assume_a, out)
