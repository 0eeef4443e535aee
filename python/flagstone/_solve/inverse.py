"""Inverses and determinants, by way of a factor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._errors.messages import beyond_largest, not_finite, shown
from .._factor.cholesky import cholesky_call
from .._factor.lu import LuFactor, lu_call
from .._lazy.creation import eye
from .._lazy.structure import triangular_side
from .._linalg.operands import dimensions, one_matrix
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import At, Prepared, Routine, routine
from .._runtime.runtime import current, remember, stats
from .systems import Solve, cholesky_factor, kind_of, matrix, solver, triangle

__all__ = ["Slogdet", "det", "inv", "inv_diagonal", "slogdet"]

_SHARE = 8  # columns of L⁻¹ take this part of the limit at most


class Slogdet(NamedTuple):
    """What `slogdet` returns.

    Attributes
    ----------
    sign : number
        Of the determinant; of a complex one its direction, of modulus 1; 0 where it is zero.
    logabsdet : number
        The logarithm of its modulus, of the matrix's precision.
    """

    sign: Any
    logabsdet: Any


class _Determinant:
    """The checked arguments of one determinant: those of the factorization that it takes."""

    def __init__(self, call: Call, a: Any, assume_a: str) -> None:
        self.factor: Routine[Any] | None = None
        self.given: LuFactor | None = None
        if isinstance(a, LuFactor):
            self.given = a
        elif isinstance(assume_a, str) and assume_a in ("pos", "positive definite"):
            self.factor = cholesky_call(call, a, None)
        elif isinstance(assume_a, str) and assume_a in ("gen", "general"):
            self.factor = lu_call(call, a, None)
        else:
            raise ShapeError(f"{call.who}: assume_a is {shown(assume_a)}; 'gen' or 'pos' is needed.")
        self.call = call

    def plan(self) -> Plan:
        """Count the factorization."""
        if self.factor is None:
            raise ShapeError(f"{self.call.who}: of a factor there is no plan; its diagonal is read.")
        return self.factor.plan()

    def run(self) -> Slogdet:
        """Factor, and read the diagonal."""
        made: Any = self.given if self.factor is None else self.factor.run()
        if not isinstance(made, LuFactor):  # of L: the determinant is the square of its diagonal's product
            return Slogdet(made.dtype.type(1), _logarithm(diagonal_of(made), 2))
        values = diagonal_of(made.lu)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            place, who = int(bad[0]), self.call.who
            raise beyond_largest(who, place) if self.factor else not_finite(who, "the factor", place, place)
        swaps = int(np.count_nonzero(np.asarray(made.piv) != np.arange(len(made.piv))))
        return Slogdet(_sign(values, swaps), _logarithm(values))


class _Value(_Determinant):
    """The same, and the determinant itself."""

    def run(self) -> Any:
        """Factor, and multiply."""
        sign, logarithm = super().run()
        with np.errstate(over="ignore", under="ignore"):
            return sign * np.exp(np.asarray(logarithm, np.asarray(sign).real.dtype))


def diagonal_of(factor: Array) -> NDArray[Any]:
    """Return the diagonal of a factor: its diagonal chunks are read."""
    n, step = factor.shape[0], 512
    parts = [np.diagonal(np.asarray(factor[k : k + step, k : k + step])) for k in range(0, n, step)]
    return np.concatenate([np.zeros(0, factor.dtype), *parts])


def _logarithm(values: NDArray[Any], times: int = 1) -> Any:
    """Return the logarithm of their product's modulus, summed up in float64, in their precision."""
    sizes = np.abs(values.astype(np.result_type(values, np.float64)))
    found = math.fsum(np.log(sizes)) if sizes.all() else -math.inf
    return values.real.dtype.type(times * found)


def _sign(values: NDArray[Any], swaps: int) -> Any:
    sizes = np.abs(values)
    if not sizes.all():
        return values.dtype.type(0)
    sign = np.prod((values / sizes).astype(np.result_type(values, np.float64)))
    sign = sign / abs(sign)
    return values.dtype.type(-sign if swaps % 2 else sign)


@routine
def slogdet(a: Any, /, *, assume_a: str = "gen", memory: int | str | None = None) -> Prepared[Slogdet]:
    """Return sign and logarithm of the modulus of a determinant, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, n x n, or LuFactor
        A square matrix; or what `lu_factor` returned, of which the diagonal is read.
    assume_a : {"gen", "pos"}
        "pos": Hermitian and positive definite, half the work; its lower triangle is read.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Slogdet
        Named tuple ``(sign, logabsdet)``; of a singular matrix (0, -inf).

    Raises
    ------
    NumericalError
        `a` has NaN or Inf, or is not positive definite where that was said, or its elimination goes beyond
        the largest number.
    ShapeError
        `a` is not square, or of another dtype.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    The flops and bytes of `lu_factor`, with "pos" those of `cholesky`; the factor lies in scratch meanwhile.
    """
    return _Determinant(Call("slogdet", memory), a, assume_a)


@routine
def det(a: Any, /, *, assume_a: str = "gen", memory: int | str | None = None) -> Prepared[Any]:
    """Return the determinant of a square matrix, inside a memory limit.

    Parameters
    ----------
    a, assume_a, memory
        As for `slogdet`.

    Returns
    -------
    number
        Of the matrix's dtype; 0 of a singular one. Where it may leave the dtype's range take `slogdet`.

    Raises
    ------
    NumericalError
        `a` has NaN or Inf, or is not positive definite where that was said, or its elimination goes beyond
        the largest number.
    ShapeError
        `a` is not square, or of another dtype.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    The flops and bytes of `lu_factor`, with "pos" those of `cholesky`; the factor lies in scratch meanwhile.
    """
    return _Value(Call("det", memory), a, assume_a)


@routine
def inv(
    a: Any, /, *, assume_a: str = "gen", out: Any = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return the inverse of a square matrix, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, n x n
        float32, float64, complex64 or complex128; on disk, in memory, or computed where it is loaded.
    assume_a : str
        What is known of `a`, as in `solve`. Of what `flagstone.triangular` made it is known.
    out : path, Array or ndarray, optional
        Where the inverse goes, as in `cholesky`. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array
        The inverse (`out` itself where that was an Array or ndarray).

    Raises
    ------
    NumericalError
        `a` is singular, not positive definite where that was said, or has NaN or Inf, or its elimination goes
        beyond the largest number; ``error.index`` counts from 1.
    ShapeError
        `a` is not square, or of another dtype.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    `solve` with the identity, which is nowhere stored: 8 n³/3 flops, with "pos" 7 n³/3 (complex: four times
    as many); of an upper triangle n³, of a lower one n³/3, where chunks above the diagonal are absent.
    Where A⁻¹ B is wanted, `solve` takes less and is more accurate.
    """
    call, given = Call("inv", memory), one_matrix("inv", "the matrix", a)
    if dimensions(given) != 2:
        raise ShapeError(f"inv: the matrix has {dimensions(given)} dimensions; 2 are needed.")
    dtype = np.dtype(given.dtype).newbyteorder("=")
    if dtype.kind in "biu" or dtype == np.float16:  # as `as_factored` takes it
        dtype = np.dtype(np.float64)
    if dtype.char not in "fdFD":
        matrix(call, given)  # which says what is needed
    identity = eye(given.shape[0], dtype=dtype)
    side = triangular_side(given) if kind_of(call, assume_a) == "gen" else kind_of(call, assume_a)
    if side == "lower":
        return _LowerInverse(call, given, identity, out)
    return solver(call, given, identity, assume_a, out)


@resumable("inv")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {"assume_a": told["assume_a"], "out": old_output(path, told)}
    return inv, (operand("the matrix", told["a"]),), options


class _LowerInverse(Solve):
    """An inverse of a lower triangle: a column begins at its diagonal, and what lies above is not written."""

    def __init__(self, call: Call, a: Any, identity: Any, out: Any) -> None:
        given = matrix(call, a)
        super().__init__(call, given, [triangle(given, True, 0)], identity, out)

    def job(self, at: At) -> _core.Job:
        b, x = self.right.b.factor, at(self.right.place)
        return _core.substitute_job(self.call.who, self.factors, b, x, self.diagonal.core, 0)


class _Columns(Solve):
    """Some columns of L⁻¹, from their first row that is not zero."""

    def __init__(self, call: Call, factor: Any, start: int, sides: NDArray[Any]) -> None:
        given = matrix(call, factor)
        super().__init__(call, given, [triangle(given, True, 0)], sides, None, warns=False)
        self.start = start

    def job(self, at: At) -> _core.Job:
        b, x = self.right.b.factor, at(self.right.place)
        return _core.substitute_job(self.call.who, self.factors, b, x, None, self.start)


class _InverseDiagonal:
    """The checked arguments of one diagonal of an inverse."""

    def __init__(self, call: Call, a: Any, factor: Any) -> None:
        self.call, self.factor = call, factor
        self.routine: Routine[Any] | None = None
        if factor is not None:
            factor, lower = cholesky_factor(call, factor)
            if not lower:
                raise ShapeError(f"{call.who}: factor is the upper one; give the lower one, its adjoint.")
            self.factor = factor
        given = matrix(call, a if factor is None else factor)
        if factor is None:
            self.routine = cholesky_call(call, a, None)
        self.n, self.dtype = given.shape[0], given.dtype
        tile = _core.factor_tile(self.n, self.dtype.name)
        self.planned: Any = factor
        if factor is None:
            self.planned = Array(_core.planned_array([self.n, self.n], self.dtype.name, [tile, tile]))

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text((self.n, self.n))}, {self.dtype}"

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Give columns at a time: whole column tiles, so that bits do not follow from the limit."""
        tile = _core.right_tile(self.n)
        fits = self.call.memory // (_SHARE * self.dtype.itemsize * max(1, self.n)) // tile
        width = int(max(1, fits)) * tile
        while width > tile and self._need(width) > self.call.memory:
            width = width // 2 // tile * tile
        yield from ((start, min(width, self.n - start)) for start in range(0, self.n, width))

    def _solve(self, factor: Any, start: int, sides: NDArray[Any]) -> Routine[Any]:
        return _Columns(Call(self.call.who, self.call.memory), factor, start, sides)

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        solve = self._need(next(self._blocks(), (0, 0))[1], beside)
        return max([solve, *([] if self.routine is None else [self.routine.least(beside)])])

    def _need(self, width: int, beside: int = 0) -> int:
        sides = np.empty((self.n, min(width, self.n)), self.dtype)
        return self._solve(self.planned, 0, sides).least(sides.nbytes + beside)

    def plan(self) -> Plan:
        """Count it."""
        plans = [] if self.routine is None else [self.routine.plan()]
        for start, width in self._blocks():
            plans.append(self._solve(self.planned, start, np.empty((self.n, width), self.dtype)).plan())
        return together(self.what, plans)

    def run(self) -> NDArray[Any]:
        """Do it."""
        self.call.check_chain(self.least())
        done: list[Stats] = []
        factor = self.factor
        if self.routine is not None:
            factor = self.routine.run()
            done.append(stats())
        found = np.zeros(self.n, self.dtype.type(0).real.dtype)
        for start, width in self._blocks():
            sides = np.zeros((self.n, width), self.dtype)
            sides[start + np.arange(width), np.arange(width)] = 1
            columns = self._solve(factor, start, sides).run()
            done.append(stats())
            for i in range(width):  # what lies above was not written
                column = np.ascontiguousarray(columns[start + i :, i])
                found[start + i] = np.vdot(column, column).real
        if done:
            remember(current(), together(self.what, done))
        return found


@routine
def inv_diagonal(a: Any, /, *, factor: Any = None, memory: int | str | None = None) -> Prepared[NDArray[Any]]:
    """Return the diagonal of the inverse of a positive definite matrix, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, n x n
        Hermitian and positive definite; its lower triangle is read.
    factor : Array, optional
        What `cholesky` made of a (the lower factor), so that it is not made again; `a` is not looked at.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    ndarray of n real numbers
        Of a covariance the precisions, of normal equations the variances of coefficients.

    Raises
    ------
    NumericalError
        `a` is not positive definite, or has NaN or Inf.
    ShapeError
        `a` is not square, or of another dtype.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Squared lengths of the columns of L⁻¹, of which as many at a time as fit into an eighth of the limit;
    nothing is stored. n³/3 flops beside those of `cholesky` (complex: four times as many), since a column
    begins at its diagonal. Reads what is left of the factor for each group of columns.
    """
    return _InverseDiagonal(Call("inv_diagonal", memory), a, factor)
