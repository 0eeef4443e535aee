"""Cholesky factorization of matrices larger than memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._array.handle import Operand
from .._expression.operand import lazy_operand
from .._linalg.operands import as_factored
from .._output.place import IN_MEMORY, Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags, real_number
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .compared import Compared
from .diagonal import FactorDiagonal

__all__ = ["CholeskySolve", "cholesky", "cholesky_call", "cholesky_flops"]


def cholesky_flops(n: int, dtype: np.dtype[Any]) -> float:
    """Return the flops of a factorization."""
    return float(n) ** 3 / 3 * (4 if dtype.kind == "c" else 1)


class _Cholesky(Routine[Any]):
    """The checked arguments of one factorization."""

    operation = "cholesky"

    def __init__(self, call: Call, x: Any, upper: bool, shift: float, out: Any) -> None:
        self.a = Operand.matrix(call, as_factored(call, lazy_operand(call, x)), "the matrix")
        _core.check_cholesky(call.who, self.a.factor)
        self.upper, self.shift = bool(upper), checked_shift(call, shift)
        self.n, self.dtype = self.a.shape[0], self.a.dtype
        tile = _core.factor_tile(self.n, self.dtype.name)
        shape = (self.n, self.n)
        self.place = Place(
            call, shape, self.dtype, out, (tile, tile), called="factor", advice="they must agree"
        )
        self.place.chunks = (tile, tile)  # of an Array too: a factor is written in whole tiles
        self.place.reads = self.a.reads
        super().__init__(call, [self.place])
        call.on(*self.a.paths)
        call.outputs = self.place.named()

    @property
    def what(self) -> str:
        return f"{self.call.who} {shape_text(self.a.shape)}, {self.dtype}"

    def how(self, job: Any) -> How:
        return How("left-looking")

    def job(self, at: At) -> _core.Job:
        factor = at(self.place)  # first: the place is open from here on, and has its checkpoint
        # The upper factor is the lower one of the transpose, transposed: it reads the upper triangle.
        a = _core.Operand(self.a.core, self.a.transposed != self.upper, self.a.conjugated)
        return _core.cholesky_job(
            self.call.who, a, _core.Operand(factor, self.upper, False), self.shift, self.place.checkpoint
        )

    def arguments(self) -> dict[str, Any]:
        return {"x": self.a.identity, "dtype": self.dtype.name, "upper": self.upper, "shift": self.shift}

    def effort(self) -> tuple[float, float]:
        return cholesky_flops(self.n, self.dtype), self.place.nbytes


class CholeskySolve(_Cholesky):
    """One factorization with right-hand sides in memory, whose forward half runs with it.

    Returns the lower factor, the solution and the factor's diagonal. What is left of it when it was killed is
    what `cholesky` leaves.
    """

    def __init__(self, call: Call, x: Any, shift: float, b: NDArray[Any], out: Any) -> None:
        super().__init__(call, x, False, shift, out)
        self.b = Operand.matrix(call, b, "b")
        tile = (_core.factor_tile(self.n, self.dtype.name), _core.right_tile(b.shape[1]))
        self.solved = Place(call, b.shape, self.dtype, IN_MEMORY, tile)
        self.diagonal = FactorDiagonal(self.n, self.dtype, True)
        self.places = [self.place, self.solved]

    def job(self, at: At) -> _core.Job:
        """Return the job."""
        factor, x = at(self.place), at(self.solved)
        return _core.factor_and_solve_job(
            self.call.who, self.a.factor, factor, self.shift, self.b.factor, x, self.diagonal.core,
            self.place.checkpoint,
        )  # fmt: skip

    def result(self, job: Any) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        """Return all three."""
        self.diagonal.warn(self.call.who)
        return self.place.close(), self.solved.close(), self.diagonal.values


def cholesky_call(call: Call, x: Any, out: Any) -> Routine[Any]:
    """Return the checked call of a lower factor, for what is computed from one."""
    return _Cholesky(call, x, False, 0, out)


def checked_shift(call: Call, shift: Any) -> float:
    """Return what is added to the diagonal: a finite real number."""
    return real_number(call.who, "shift", shift, math.isfinite, "a finite real number is needed")


@routine
def cholesky(
    x: Any,
    /,
    *,
    upper: bool = False,
    shift: float = 0,
    check: bool = False,
    out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:
    """Return the Cholesky factor of a Hermitian positive definite matrix, inside a memory limit.

    L with L Lᴴ = x + shift I, or U with Uᴴ U, of which the other triangle is zero: its chunks are absent.

    Parameters
    ----------
    x : Array, Expression or ndarray, n x n
        float32, float64, complex64 or complex128; on disk, in memory, or computed where it is loaded; in any
        layout, transposed or conjugated too. Its lower triangle is read, with `upper` its upper one, each
        tile once; what the other triangle holds is not looked at.
    upper : bool
        Return U in place of L.
    shift : float
        Added to the diagonal on the way: a noise variance, a ridge. Nothing is copied for it.
    check : bool
        Compare x with its adjoint first, in a read of all of it; they may differ by n eps max|x|.
    out : path, Array or ndarray, optional
        Where the factor goes. A path is replaced at once and whole (a Zarr directory, or a file ending in
        ``.npy``). An existing Array, even `x`, gets a new version that is built aside and exchanged. Default:
        scratch; the result is deleted when the last handle on it dies, at the latest with the process.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array
        The factor (`out` itself where that was an Array or ndarray).

    Raises
    ------
    NumericalError
        x is not positive definite, or has NaN or Inf: ``error.index`` is the order of the leading minor; with
        `check`, x is not Hermitian, and the message says where.
        x is as it was, and there is no `out`.
    ShapeError
        x is not square, or of another dtype.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    n³/3 flops (complex: four times as many). Reads s n²/2 bytes of x and about s^1.5 n³ / (3 sqrt(memory)) of
    the factor for s-byte elements, writes s n²/2: left-looking by blocks of tiles, 1.41 times the lower bound
    of Beaumont, Eyraud-Dubois, Langou and Verite (arXiv 2202.10217). The same bits for every limit and number
    of workers. ``cholesky.plan(...)`` takes the same arguments and counts exactly.
    """
    call = Call("cholesky", memory)
    check_flags("cholesky", upper=upper, check=check)
    prepared = _Cholesky(call, x, upper, shift, out)
    return Compared(Call("cholesky", memory), x, prepared) if check else prepared


@resumable("cholesky")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {"out": old_output(path, told), "upper": told["upper"], "shift": told["shift"]}
    return cholesky, (operand("the matrix", told["x"]),), options
