"""LU factorization, with partial pivoting, of matrices larger than memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._array.handle import Operand
from .._expression.expression import as_expression
from .._expression.operand import as_array, lazy_operand
from .._linalg.operands import as_factored
from .._output.parts import Part, PartsPlace
from .._output.place import IN_MEMORY, Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine

__all__ = [
    "LuFactor", "LuResult", "exchanged", "lu", "lu_call", "lu_factor", "lu_flops", "opened_lu",
    "opened_lu_factor",
]  # fmt: skip


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
        n = self.a.shape[0]
        array = out is None or isinstance(out, (Array, np.ndarray)) or str(out).endswith(".npy")
        tile = (_core.lu_tile(n), _core.lu_tile(n))
        self.place: Place | PartsPlace = (_one_array if array else _group)(call, self.a, tile, out)
        self.pivots = Place(call, (n,), np.dtype(np.int64), IN_MEMORY, None)
        super().__init__(call, [self.place, self.pivots])
        call.on(*self.a.paths)
        call.outputs = self.place.named(1 if isinstance(self.place, Place) else 2)

    @property
    def what(self) -> str:
        return f"{self.call.who} {shape_text(self.a.shape)}, {self.a.dtype}"

    def how(self, job: Any) -> How:
        return How("left-looking slabs")

    def job(self, at: At) -> _core.Job:
        made: Any = at(self.place)  # first: the place has its checkpoint from here on
        factor = made[0] if isinstance(made, list) else made
        return _core.lu_job(
            self.call.who,
            self.a.factor,
            factor,
            at(self.pivots),
            self.saves(self.place),
            self.place.checkpoint,
        )

    def arguments(self) -> dict[str, Any]:
        return {"a": self.a.identity, "dtype": self.a.dtype.name}

    def effort(self) -> tuple[float, float]:
        return lu_flops(self.a.shape[0], self.a.dtype), self.place.nbytes

    def result(self, job: Any) -> LuFactor:
        pivots = self.pivots.close()
        if isinstance(self.place, Place):
            return LuFactor(self.place.close(), pivots)
        self.place.write("piv", pivots)
        return LuFactor(self.place.close()[0], pivots)


def _one_array(call: Call, a: Operand, tile: tuple[int, int], out: Any) -> Place:
    """Return where LU goes alone; its pivots are in memory."""
    place = Place(call, a.shape, a.dtype, out, tile, called="factor", advice="they must agree")
    place.chunks = tile  # of an Array too: a factor is written in whole tiles
    place.reads = a.reads
    return place


def _group(call: Call, a: Operand, tile: tuple[int, int], out: Any) -> PartsPlace:
    """Return where both go, for `open_factor`."""
    n = a.shape[0]
    parts = [
        Part("lu", (n, n), tile, ["lu_0", "lu_1"], kept=True),
        Part("piv", (n,), (max(n, 1),), ["piv_0"], "int64", kept=True),
    ]
    return PartsPlace(call, out, parts, a.dtype, {"flagstone": {"routine": "lu_factor"}})


def opened_lu_factor(path: str) -> LuFactor:
    """Open what ``lu_factor(a, out=path)`` left."""
    lu, piv = (Array(open_core(f"{path}/{name}", "r"), "r") for name in ("lu", "piv"))
    return LuFactor(lu, np.asarray(piv))


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
        call.outputs = self.place.named(2)

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
        self.place.write("p", rows)
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
        The path of a Zarr group for lu and piv, which `open_factor` opens again; replaced at once and whole.
        An Array, an ndarray or a path that ends in ``.npy`` takes lu alone, and piv is in memory. Default:
        scratch.
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
    out = old_output(path, told) if "into" in told else path
    return lu_factor, (operand("the matrix", told["a"]),), {"out": out}
