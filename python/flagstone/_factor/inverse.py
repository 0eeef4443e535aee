"""Inverses and determinants, by way of a factor."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._errors.classes import ShapeError
from .._lazy.creation import eye
from .._linalg.operands import dimensions
from .._runtime.call import Call
from .._runtime.plan import Plan
from .._runtime.routine import Prepared, routine
from .cholesky import CholeskyCall
from .lu import LuCall, LuFactor
from .solve import solver

__all__ = ["Slogdet", "det", "inv", "slogdet"]


class Slogdet(NamedTuple):
    """What `slogdet` returns.

    Attributes
    ----------
    sign : number
        Of the determinant; of a complex one its direction, of modulus 1; 0 where it is zero.
    logabsdet : float
        The logarithm of its modulus.
    """

    sign: Any
    logabsdet: float


class _Determinant:
    """The checked arguments of one determinant: those of the factorization that it takes."""

    def __init__(self, call: Call, a: Any, assume_a: str) -> None:
        self.factor: CholeskyCall | LuCall | None = None
        self.given: LuFactor | None = None
        if isinstance(a, LuFactor):
            self.given = a
        elif assume_a in ("pos", "positive definite"):
            self.factor = CholeskyCall(call, a, False, 0, None)
        elif assume_a in ("gen", "general"):
            self.factor = LuCall(call, a, None)
        else:
            raise ShapeError(f"{call.who}: assume_a is {assume_a!r}; 'gen' or 'pos' is needed.")
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
            return Slogdet(made.dtype.type(1), 2 * _logarithm(diagonal_of(made)))
        values = diagonal_of(made.lu)
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


def _logarithm(values: NDArray[Any]) -> float:
    sizes = np.abs(values.astype(np.result_type(values, np.float64)))
    return math.fsum(np.log(sizes)) if sizes.all() else -math.inf


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
        `a` has NaN or Inf, or is not positive definite where that was said.
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
    a : Array, Expression or ndarray, n x n, or LuFactor
        A square matrix; or what `lu_factor` returned, of which the diagonal is read.
    assume_a : {"gen", "pos"}
        "pos": Hermitian and positive definite, half the work; its lower triangle is read.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    number
        Of the matrix's dtype; 0 of a singular one. Where it may leave the dtype's range take `slogdet`.

    Raises
    ------
    NumericalError
        `a` has NaN or Inf, or is not positive definite where that was said.
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
        What is known of `a`, as in `solve`.
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
        `a` is singular, not positive definite where that was said, or has NaN or Inf; ``error.index`` counts
        from 1.
    ShapeError
        `a` is not square, or of another dtype.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    `solve` with the identity, which is nowhere stored: 8 n³/3 flops, with "pos" 7 n³/3 (complex: four times
    as many). Where A⁻¹ B is wanted, `solve` takes less and is more accurate.
    """
    given = a if hasattr(a, "dtype") else np.asarray(a)
    if dimensions(given) != 2:
        raise ShapeError(f"inv: the matrix has {dimensions(given)} dimensions; 2 are needed.")
    dtype = np.result_type(given.dtype, np.float32 if given.dtype.kind in "fc" else np.float64)
    return solver(Call("inv", memory), given, eye(given.shape[0], dtype=dtype), assume_a, out)
