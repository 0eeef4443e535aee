"""LU factorization, with partial pivoting, of matrices larger than memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.expression import as_expression
from .._expression.operand import as_array, lazy_operand
from .._linalg.operands import as_factored
from .._output.parts import Part, PartsPlace
from .._output.place import IN_MEMORY, Place
from .._resume.openers import old_output, operand, told_values
from .._resume.registers import Again, resumable
from .._runtime.arguments import array_of, check_flags
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .diagonal import FactorDiagonal
from .right import Right, checked_trans

__all__ = ["LuFactor", "LuResult", "LuSolve", "lu", "lu_call", "lu_factor", "lu_flops", "lu_solve"]


class LuFactor(NamedTuple):
    """What `lu_factor` returns.

    Attributes
    ----------
    lu : Array
        L below the diagonal, whose own ones are not stored, and U on and above it.
    piv : ndarray of int64
        With which row each row was exchanged, one after the other.
    """

    lu: Array
    piv: NDArray[np.int64]


class LuResult(NamedTuple):
    """What `lu` returns: a = L[p] U, or a = P L U.

    Attributes
    ----------
    p : ndarray of int64, or Array
        Which row of L U each row of the matrix is; with ``p_indices=False`` the matrix P, which is computed
        where it is loaded and stored nowhere.
    L : Array
        Unit lower triangular.
    U : Array
        Upper triangular.
    """

    p: Any
    L: Array
    U: Array


def lu_flops(n: int, dtype: np.dtype[Any]) -> float:
    """Return the flops of a factorization."""
    return 2 * float(n) ** 3 / 3 * (4 if dtype.kind == "c" else 1)


class _LuFactor(Routine[LuFactor]):
    """The checked arguments of one factorization."""

    operation = "lu_factor"

    def __init__(self, call: Call, a: Any, out: Any) -> None:
        self.a = Operand.matrix(call, as_factored(call, lazy_operand(call, a)), "the matrix")
        _core.check_lu(call.who, self.a.factor)
        n, dtype = self.a.shape[0], self.a.dtype
        tile = (_core.lu_tile(n), _core.lu_tile(n))
        self.place = Place(call, (n, n), dtype, out, tile, called="factor", advice="they must agree")
        self.place.chunks = tile  # of an Array too: a factor is written in whole tiles
        self.place.reads = self.a.reads
        self.pivots = Place(call, (n,), np.dtype(np.int64), IN_MEMORY, None)
        super().__init__(call, [self.place, self.pivots])
        call.on(*self.a.paths)
        call.outputs = 0 if self.place.in_memory else 1

    @property
    def what(self) -> str:
        return f"{self.call.who} {shape_text(self.a.shape)}, {self.a.dtype}"

    def how(self, job: Any) -> How:
        return How("left-looking slabs")

    def job(self, at: At) -> _core.Job:
        made, pivots = at(self.place), at(self.pivots)  # first: the place has its checkpoint from here on
        return _core.lu_job(
            self.call.who, self.a.factor, made, pivots, self.saves(self.place), self.place.checkpoint
        )

    def arguments(self) -> dict[str, Any]:
        return {"a": self.a.identity, "dtype": self.a.dtype.name}

    def effort(self) -> tuple[float, float]:
        return lu_flops(self.a.shape[0], self.a.dtype), self.place.nbytes

    def result(self, job: Any) -> LuFactor:
        return LuFactor(self.place.close(), self.pivots.close())


def lu_call(call: Call, a: Any, out: Any) -> Routine[LuFactor]:
    """Return the checked call of a factorization, for what is computed from one."""
    return _LuFactor(call, a, out)


class _Lu(Routine[LuResult]):
    """The checked arguments of one factorization whose triangles are arrays of their own."""

    operation = "lu"

    def __init__(self, call: Call, a: Any, p_indices: bool, out: Any) -> None:
        self.a = Operand.matrix(call, as_factored(call, lazy_operand(call, a)), "the matrix")
        _core.check_lu(call.who, self.a.factor)
        check_flags(call.who, p_indices=p_indices)
        self.p_indices = p_indices
        n, self.dtype = self.a.shape[0], self.a.dtype
        tile = (_core.lu_tile(n), _core.lu_tile(n))
        parts = [Part(name, (n, n), tile, [f"{name}_0", f"{name}_1"], kept=True) for name in "lu"]
        parts.append(Part("p", (n,), (max(n, 1),), ["p_0"], "int64", kept=True))
        about = {"flagstone": {"routine": "lu", "lu": {"p_indices": bool(p_indices)}}}
        self.place = PartsPlace(call, out, parts, self.dtype, about)
        self.pivots = Place(call, (n,), np.dtype(np.int64), IN_MEMORY, None)
        super().__init__(call, [self.place, self.pivots])
        call.on(*self.a.paths)
        call.outputs = 2

    @property
    def what(self) -> str:
        return f"lu {shape_text(self.a.shape)}, {self.dtype}"

    def how(self, job: Any) -> How:
        return How("left-looking slabs")

    def job(self, at: At) -> _core.Job:
        made: Any = at(self.place)
        saved = self.saves(self.place)
        return _core.lu_triangles_job(
            self.a.factor, made[0], made[1], at(self.pivots), saved, self.place.checkpoint
        )

    def arguments(self) -> dict[str, Any]:
        return {"a": self.a.identity, "dtype": self.dtype.name, "p_indices": bool(self.p_indices)}

    def effort(self) -> tuple[float, float]:
        return lu_flops(self.a.shape[0], self.dtype), self.place.nbytes

    def result(self, job: Any) -> LuResult:
        rows = np.argsort(exchanged(self.pivots.close()))
        self.call.engine.write_boxes(self.place.cores[2], [([0], rows)], 1 << 20)
        lower, upper, _ = self.place.close()
        return _result(self.call, lower, upper, rows, self.p_indices)


def _result(call: Call, lower: Array, upper: Array, rows: NDArray[np.int64], p_indices: bool) -> LuResult:
    if p_indices:
        return LuResult(rows, lower, upper)
    chosen = as_expression(rows[:, None], "lu") == np.arange(len(rows))[None, :]
    return LuResult(as_array(call, chosen.astype(lower.dtype)), lower, upper)


def opened_lu(path: str, told: dict[str, Any]) -> LuResult:
    """Open what ``lu(a, out=path)`` left."""
    lower, upper, rows = (Array(open_core(f"{path}/{name}", "r"), "r") for name in "lup")
    return _result(Call("open_factor", light=True), lower, upper, np.asarray(rows), bool(told["p_indices"]))


def exchanged(piv: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which row of the matrix each row of L U is, once its rows were exchanged."""
    rows = np.arange(len(piv))
    for i in np.flatnonzero(piv != rows):
        j = piv[i]
        rows[i], rows[j] = rows[j], rows[i]
    return rows


class LuSolve(Routine[Any]):
    """The checked arguments of one solve with a factor that is there."""

    def __init__(
        self, call: Call, factor: Any, b: Any, trans: int | str, out: Any, warns: bool = True
    ) -> None:
        """`warns`: whether of a condition that the diagonal of U tells."""
        self.warns = warns
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
        call.outputs = 0 if self.right.place.in_memory else 1

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
            self.lu.core, pivots, self.trans, b, x, self.diagonal.core, self.right.place.checkpoint
        )

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
def lu(
    a: Any, /, *, p_indices: bool = True, out: Any = None, memory: int | str | None = None
) -> Prepared[LuResult]:
    """Return p, L and U of a square matrix, with LAPACK's partial pivoting, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, n x n
        float32, float64, complex64 or complex128; on disk, in memory, or computed where it is loaded.
    p_indices : bool
        Return which row of L U each row of `a` is, n numbers, as SciPy does with the same word; else the
        matrix P, as an Array of which nothing is stored.
    out : path, optional
        A Zarr group for p, L and U, which `open_factor` opens again; replaced at once and whole. Default:
        scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    LuResult
        Named tuple ``(p, L, U)`` with ``a = L[p] @ U``. Chunks of zeros are absent. A zero pivot is no error:
        U has a zero on its diagonal.

    Raises
    ------
    NumericalError
        `a` has NaN or Inf; ``error.index`` is the order of the leading minor that has it.
    ShapeError
        `a` is not square, or of another dtype.
    BudgetError
        The limit is too small; names the least that works: two columns of tiles, 1,024 n elements at most.

    Notes
    -----
    The flops and bytes of `lu_factor`: the pass that brings L's rows into their final order takes L and U
    apart. To solve with, `lu_factor` is the one; to get at L and U of its result without a copy,
    `flagstone.triangular`.
    """
    return _Lu(Call("lu", memory), a, p_indices, out)


@resumable("lu")
def _lu_again(path: str, told: dict[str, Any]) -> Again:
    return lu, (operand("the matrix", told["a"]),), {"p_indices": told["p_indices"], "out": path}


@routine
def lu_factor(a: Any, /, *, out: Any = None, memory: int | str | None = None) -> Prepared[LuFactor]:
    """Return the LU factorization of a square matrix, with LAPACK's partial pivoting, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, n x n
        float32, float64, complex64 or complex128; on disk, in memory, or computed where it is loaded.
    out : path, Array or ndarray, optional
        Where `lu` goes, as in `cholesky`: one array, for `flagstone.open`. `piv` is in memory alone; store it
        beside, or take `lu`, whose group `open_factor` opens. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    LuFactor
        Named tuple ``(lu, piv)`` for `lu_solve`, laid out as SciPy's. A zero pivot is no error here: U has a
        zero on its diagonal.

    Raises
    ------
    NumericalError
        `a` has NaN or Inf; ``error.index`` is the order of the leading minor that has it.
    ShapeError
        `a` is not square, or of another dtype.
    BudgetError
        The limit is too small; names the least that works: two columns of tiles, 1,024 n elements at most.

    Notes
    -----
    2 n³/3 flops (complex: four times as many). Each pivot is the largest of its whole column. Left-looking by
    slabs of w columns, as many as fit: reads s (n³/(3w) + 3n²/2) bytes for s-byte elements, writes 3 s n²/2,
    of which a half each is the pass that brings L's rows into their final order.
    """
    return _LuFactor(Call("lu_factor", memory), a, out)


@resumable("lu_factor")
def _lu_factor_again(path: str, told: dict[str, Any]) -> Again:
    return lu_factor, (operand("the matrix", told["a"]),), {"out": old_output(path, told)}


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
    b : Array, Expression or ndarray, n or n x m
        Right-hand sides.
    trans : {0, 1, 2, "N", "T", "C"}
        Solve a x = b, aᵀ x = b or aᴴ x = b.
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
        U has a zero on its diagonal, or b has NaN or Inf: row and column are named; ``error.index`` counts
        from 1.
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
