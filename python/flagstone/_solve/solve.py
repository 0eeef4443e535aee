"""Systems of linear equations that are larger than memory."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._factor.compared import Compared
from .._factor.right import checked_trans
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags
from .._runtime.call import Call
from .._runtime.routine import Prepared, routine
from .condition import Conditioned
from .refine import Mixed
from .systems import Solve, cholesky_factor, kind_of, matrix, solver, triangle

__all__ = ["cho_solve", "solve", "solve_triangular"]


@routine
def cho_solve(c: Any, b: Any, /, *, out: Any = None, memory: int | str | None = None) -> Prepared[Any]:
    """Return x with a x = b, given the Cholesky factor of a, inside a memory limit.

    Parameters
    ----------
    c : Array or ndarray, or (factor, lower)
        What `cholesky` returned. As SciPy has it, a pair says which triangle it is; alone it is the lower
        one. The other triangle is not looked at.
    b, out, memory
        As for `solve`.

    Returns
    -------
    ndarray or Array
        The solution, of b's shape.

    Raises
    ------
    NumericalError
        The factor has a zero on its diagonal, or its triangle or b has NaN or Inf: the row and column are
        named, ``error.index`` counts from 1.
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
    factor, lower = cholesky_factor(call, c)
    given = matrix(call, factor)
    first = _core.TriangularOperand(given.factor, lower, False)
    if not lower:  # a = Uᴴ U
        first = first.adjoint()
    return Solve(call, given, [first, first.adjoint()], b, out, told={"lower": lower})


@resumable("cho_solve")
def _cho_solve_again(path: str, told: dict[str, Any]) -> Again:
    factor = operand("the factor", told["a"]), told["lower"]
    return cho_solve, (factor, operand("b", told["b"])), {"out": old_output(path, told)}


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
    trans : {0, 1, 2, "N", "T", "C"}
        Solve a x = b, aᵀ x = b or aᴴ x = b.
    lower : bool
        Which triangle of `a` is read.
    unit_diagonal : bool
        Take the diagonal as ones, whatever is stored there.
    b, out, memory
        As for `solve`.

    Returns
    -------
    ndarray or Array
        The solution, of b's shape.

    Raises
    ------
    NumericalError
        The diagonal has a zero, or the triangle or b has NaN or Inf: the row and column are named,
        ``error.index`` counts from 1.
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
    check_flags("solve_triangular", lower=lower, unit_diagonal=unit_diagonal)
    given, how = matrix(call, a), checked_trans(call.who, trans)
    told = {"trans": how, "lower": bool(lower), "unit_diagonal": bool(unit_diagonal)}
    return Solve(call, given, [triangle(given, bool(lower), how, bool(unit_diagonal))], b, out, told=told)


@resumable("solve_triangular")
def _solve_triangular_again(path: str, told: dict[str, Any]) -> Again:
    options = {name: told[name] for name in ("trans", "lower", "unit_diagonal")}
    given = operand("the matrix", told["a"]), operand("b", told["b"])
    return solve_triangular, given, options | {"out": old_output(path, told)}


@routine
def solve(
    a: Any,
    b: Any,
    /,
    *,
    assume_a: str = "gen",
    precision: str | None = None,
    rcond: bool = False,
    check: bool = False,
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
        "tridiagonal", "banded": solved as general, by LU with partial pivoting; what `flagstone.triangular`
        made by substitution.
    precision : {None, "mixed"}
        "mixed", of float64 and complex128, "gen" and "pos": factor in single precision, half the bytes and
        the time, and refine the solution in double with the rule of LAPACK's dsgesv. Where that does not
        converge in 30 steps, about beyond a condition of 1e7, double precision is factored after all;
        ``stats().method`` and ``note`` tell what was done.
    rcond : bool
        Also return an estimate of 1 / (‖a‖₁ ‖a⁻¹‖₁), as `cond` makes it of the factor.
    check : bool
        With "pos": compare `a` with its adjoint first, as `cholesky` does.
    out : path, Array or ndarray, optional
        Where x goes. Default: as b was given, an ndarray or an Array (in scratch; of a vector in memory).
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    ndarray or Array, or (x, rcond)
        The solution, of b's shape.

    Warns
    -----
    IllConditionedWarning
        The diagonal of the factor, or the estimate, says that the condition is beyond 1 / eps.

    Raises
    ------
    NumericalError
        `a` is not positive definite, or singular, or has NaN or Inf: ``error.index`` says where, counted from
        1 (the order of the leading minor, the column whose pivot is zero). b has NaN or Inf: its row. The
        elimination goes beyond the largest number.
    ShapeError
        The shapes or dtypes do not conform.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    "pos": n³/3 + 2 n² m flops (complex: four times as many), the bytes of `cholesky` and half of those of
    `cho_solve`, whose first half runs with the factorization (where b takes an eighth of the limit at most);
    "gen": 2 n³/3 + 2 n² m flops and the bytes of `lu_factor`, without its last pass, and `lu_solve`. The
    factor lies in scratch, n² elements, where it does not fit into memory. `rcond`: another read of `a`, and
    some four reads of the factor, ten at most. "mixed": a read of `a` for the factor, one for its norm, one
    with each refinement and in the end, usually three; b, x and residuals are held in memory.
    """
    call = Call("solve", memory)
    if precision is not None and (not isinstance(precision, str) or precision != "mixed"):
        raise ShapeError(f"solve: precision is {shown(precision)}; 'mixed' or None is needed.")
    check_flags("solve", rcond=rcond, check=check)
    if precision is not None and rcond:
        raise ShapeError("solve: rcond is of the factor in full precision; leave precision or rcond out.")
    if check and kind_of(call, assume_a) != "pos":
        raise ShapeError(f"solve: check is for assume_a='pos' and it is {assume_a!r}; leave check out.")
    prepared: Any
    if precision is not None:
        prepared = Mixed(call, a, b, assume_a, out)
    else:
        prepared = Conditioned(call, a, b, assume_a, out) if rcond else solver(call, a, b, assume_a, out)
    return Compared(Call("solve", memory), a, prepared) if check else prepared


@resumable("solve")
def _again(path: str, told: dict[str, Any]) -> Again:
    given = operand("the matrix", told["a"]), operand("b", told["b"])
    return solve, given, {"assume_a": told["assume_a"], "out": old_output(path, told)}
