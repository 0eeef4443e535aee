"""(K + alpha I) W = Y for a kernel matrix that is never stored: its factor, and the solution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core
from .._errors.messages import not_finite, path_text
from .._estimators.base import Estimator, runtime_of
from .._factor.cholesky import CholeskySolve
from .._linalg.matmul import matmul
from .._resume.identity import identity
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import least_of
from .._runtime.runtime import current, remember, stats
from .._solve.inverse import inv_diagonal
from .._solve.solve import cho_solve, solve_triangular

__all__ = ["Factor", "Factorization", "check_points", "check_rows", "times", "times_least", "times_plan"]

_DIAGONAL = 512  # elements of the diagonal read at a time
_TOGETHER = 256  # new points whose blocks begin anew: bits do not follow from the limit
_LOOKED = 16  # points without a prediction that are read again: others' may be out of range
_SHARE = 8  # a block of new points takes this part of the limit at most


class Factor:
    """The lower factor of K + alpha I, on disk.

    Attributes
    ----------
    array : Array
    solution : ndarray
        Of the right-hand sides.
    log_diagonal : float
        Σ log L_ii.
    """

    def __init__(
        self, array: Array, solution: NDArray[Any] | None = None, log_diagonal: float | None = None
    ) -> None:
        self.array = array
        self.solution = np.empty((array.shape[0], 0)) if solution is None else solution
        self.log_diagonal = float(np.log(_diagonal(array)).sum()) if log_diagonal is None else log_diagonal
        self.done: Stats | None = None

    def squared_norms(self, matrix: Any) -> NDArray[Any]:
        """Return ‖L⁻¹ k‖² for each row k of a matrix of new points by those of fit, block by block.

        n² flops a row; reads the factor once for each block.
        """
        rows, n = matrix.shape
        found = np.empty(rows)
        block = self._block(rows, n)
        for start in range(0, rows, block):
            sides = np.asarray(matrix[start : start + block]).T
            solved = np.asarray(solve_triangular(self.array, sides, lower=True))
            found[start : start + block] = np.einsum("ij,ij->j", solved, solved)
        return found

    def check(self, who: str, rows: int, *more: int) -> None:
        """Refuse a limit in which a block of right-hand sides, or what takes `more`, has no room."""
        n = self.array.shape[0]
        sides = np.empty((n, self._block(rows, n)))
        needed = least_of(solve_triangular, self.array, sides, lower=True) + 2 * sides.nbytes
        Call(who).check_chain(max([needed, *more]))

    def inverse_diagonal(self) -> NDArray[Any]:
        """Return the diagonal of (K + alpha I)⁻¹."""
        return np.asarray(inv_diagonal(self.array, factor=self.array))

    @staticmethod
    def _block(rows: int, n: int) -> int:
        call = Call("predict", light=True)
        fits = call.memory // (_SHARE * 8 * max(1, n)) // _TOGETHER * _TOGETHER
        return max(1, min(rows, max(_TOGETHER, fits)))

    def squared_norms_plan(self, matrix: Any) -> Plan:
        """Return the plan of `squared_norms`."""
        rows, n = matrix.shape
        block = self._block(rows, n)
        sizes = [min(block, rows - start) for start in range(0, rows, block)]
        plans = [solve_triangular.plan(self.array, np.empty((n, one)), lower=True) for one in sizes[:1]]
        return together(f"deviations of {rows} points", plans * len(sizes))


class Factorization:
    """K + alpha I = L Lᵀ and the solution for some right-hand sides, to be planned or run."""

    def __init__(self, model: Estimator, matrix: Any, shift: float, sides: NDArray[Any]) -> None:
        self.model, self.matrix, self.shift, self.sides = model, matrix, shift, sides
        out = getattr(model, "out", None)
        #: of plans: where the factor goes, if not to scratch
        self.out = None if out is None else f"{path_text(type(model).__name__, out)}/factor"

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"fit {self.matrix.shape[0]} points"

    def plan(self) -> Plan:
        """Count it."""
        with runtime_of(self.model):
            return together(self.what, [self._call(self.out).plan()])

    def _call(self, out: str | None) -> CholeskySolve:
        call = Call(type(self.model).__name__)
        return CholeskySolve(call, self.matrix, self.shift, self.sides, out)

    def check(self, *more: int) -> None:
        """Refuse, once and before the first, a limit in which a call, or what takes `more`, has no room."""
        call = Call(type(self.model).__name__)
        n, columns = self.sides.shape
        needed = [self._call(self.out).least(), least_of(cho_solve, self._planned(), self.sides)]
        call.check_chain(max(*needed, *more) + 4 * 8 * n * max(1, columns))

    def _planned(self) -> Array:
        n = self.matrix.shape[0]
        tile = _core.factor_tile(n, "float64")
        return Array(_core.planned_array([n, n], "float64", [tile, tile]))

    @property
    def identity(self) -> list[Any]:
        """What decides the factor's bits, for names and records."""
        return [identity(self.matrix), self.shift, current().threads_per_task]

    def run(self, out: str | None = None, finished: str | None = None) -> Factor:
        """Do it; the factor goes to a path, or to scratch, or lies `finished` where a killed fit left it."""
        if finished is None:
            lower, solution, diagonal = self._call(out).run()
            factor = Factor(lower, solution, float(np.log(diagonal).sum()))
        else:
            lower = Array(open_core(finished, "r"))
            factor = Factor(lower, np.asarray(cho_solve(lower, self.sides)))
        factor.done = together(self.what + ("" if finished is None else ", gone on"), [stats()])
        self.tell(factor)
        return factor

    @staticmethod
    def tell(factor: Factor) -> None:
        """Let stats() tell what both calls did, not what came after them."""
        if factor.done is not None:
            remember(current(), factor.done)


def _diagonal(array: Array) -> NDArray[Any]:
    n = array.shape[0]
    found = np.empty(n)
    for i in range(0, n, _DIAGONAL):
        part = np.s_[i : min(n, i + _DIAGONAL)]
        found[part] = np.diagonal(np.asarray(array[part, part]))
    return found


def times(matrix: Any, weights: NDArray[Any]) -> NDArray[Any]:
    """Return a matrix that is computed where it is loaded, times some vectors in memory."""
    out = np.empty((matrix.shape[0], weights.shape[1]))
    if out.size:
        matmul(matrix, np.ascontiguousarray(weights), out=out)
    return out


def check_points(who: str, x: Any, made: NDArray[Any]) -> None:
    """Name NaN or Inf of new points, from what was predicted there; a few rows are read where none is."""
    check_rows(who, x, np.flatnonzero(~np.isfinite(made).all(axis=1))[:_LOOKED])


def check_rows(who: str, x: Any, rows: Iterable[int]) -> None:
    """Name NaN or Inf in these rows of points."""
    for row in rows:
        bad = np.flatnonzero(~np.isfinite(np.asarray(x[row : row + 1])[0]))
        if bad.size:
            raise not_finite(who, "X", int(row), int(bad[0]))


def times_least(matrix: Any, weights: NDArray[Any]) -> int:
    """Return the least limit of `times`."""
    return least_of(matmul, matrix, weights, out=np.empty((matrix.shape[0], weights.shape[1])))


def times_plan(matrix: Any, weights: NDArray[Any]) -> Plan:
    """Return the plan of `times`."""
    return matmul.plan(matrix, weights, out=np.empty((matrix.shape[0], weights.shape[1])))
