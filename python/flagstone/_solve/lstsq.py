"""Least squares: everything from one R."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array
from .._array.handle import Operand
from .._factor.qr import matrix_operand
from .._factor.reflectors import QrFactor, planned_factor, reflectors_place
from .._output.place import IN_MEMORY, Place
from .._resume.openers import old_output, operand, told_values
from .._resume.registers import Again, resumable
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._runtime.runtime import current, remember, stats
from .least_squares import MOST, LstsqResult, Problem, long_solution
from .lstsq_large import Large, LargeWide
from .triangle import Triangle, from_gram, lengths, rank_of, spectral_fit

__all__ = ["lstsq"]


class _Tall(Routine[LstsqResult]):
    """A fit whose R is in memory."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.solution: Place | None = None  #: where x goes, of a call that can go on
        super().__init__(problem.call)
        call = problem.call
        call.on(*(path for one in (problem.a, problem.b) for path in _paths(one)))
        self._prepare()

    def _prepare(self) -> None:
        one = self.problem
        self.joined = matrix_operand(self.call, one.joined(), "a")
        self.operand = self.joined.factor
        self.width = one.first + one.n + one.sides
        _core.check_qr("lstsq", self.operand)
        rows = self.width if one.method == "normal" else min(one.m, self.width)
        self.place = Place(self.call, (rows, self.width), one.dtype, IN_MEMORY, (self.width, self.width))
        self.places = [self.place]
        if one.method == "normal":
            self.call.scratch_in_run()  # sums of groups of rows may be kept there
        elif isinstance(one.out, (str, os.PathLike)):  # beside it lie triangles of groups, meanwhile
            self.operation = "lstsq"
            self.solution = Place(
                self.call, one.shape, one.dtype, one.out, one.shape, called="solution",
                advice="they must agree",
            )  # fmt: skip
            self.places.append(self.solution)

    @property
    def what(self) -> str:
        return self.problem.what

    @property
    def beside(self) -> int:
        # R, copies of it, and what an SVD of it and its factors take.
        return 11 * self.width * self.width * max(8, self.problem.dtype.itemsize)

    def job(self, at: At) -> Any:
        made = at(self.place)
        if self.problem.method == "normal":
            x = self.joined
            adjoint = _core.Operand(x.core, not x.transposed, not x.conjugated)
            options = _core.RankKOptions(1, 0, True, "both")
            return _core.rank_k_job(adjoint, None, None, made, options, None, _core.RankKNotes())
        to = _core.Operand(made, False, False)
        if self.solution is None:
            return _core.qr_job("lstsq", False, self.operand, None, to)
        at(self.solution)  # has its checkpoint from here on
        checkpoint, saved = self.solution.checkpoint, self.saves(self.solution)
        return _core.qr_job("lstsq", False, self.operand, None, to, checkpoint, saved)

    def arguments(self) -> dict[str, Any]:
        one = self.problem
        named = {name: Operand.of(given).identity for name, given in (("a", one.a), ("b", one.b))}
        weights = None if one.given_weights is None else told_values(one.given_weights)
        ridge = one.ridge if one.path else one.ridge[0]
        return named | {
            "weights": weights, "ridge": ridge, "rcond": one.rcond, "intercept": bool(one.intercept),
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        one = self.problem
        flops = 2.0 * one.m * self.width**2 * (4 if one.dtype.kind == "c" else 1)
        return flops, float(one.m) * self.width * one.dtype.itemsize

    def how(self, job: Any) -> How:
        if self.problem.method == "normal":
            return How("normal equations")
        return How(f"one R, {job.order}" if job.order else "one R")

    def execute(self, stack: contextlib.ExitStack) -> Any:
        with self.problem.told():
            return super().execute(stack)

    def result(self, job: Any) -> LstsqResult:
        one, r = self.problem, self.place.close()
        if one.method == "normal":
            one.check_squares(np.diagonal(r))
            r = from_gram(r, one.first + one.n)
        fit = Triangle(r, one.observations, one.n, one.intercept).fit(one.ridge, one.rcond)
        return one.shaped(fit, self.solution)


class _Wide(_Tall):
    """Fewer rows than columns: the shortest solution, from an LQ whose Q is kept in scratch."""

    _method = "one LQ"

    def _prepare(self) -> None:
        one = self.problem
        self.joined = matrix_operand(self.call, one.columns(one.a), "a")
        self.operand = _core.Operand(self.joined.core, not self.joined.transposed, not self.joined.conjugated)
        _core.check_qr("lstsq", self.operand)
        self.width = one.first + one.m + (one.sides if one.intercept else 0)
        self.reflectors = reflectors_place(self.call, (one.n, one.m), True, one.dtype, None)
        self.place = Place(self.call, (one.m, one.m), one.dtype, IN_MEMORY, (one.m, one.m))
        self.places = [self.reflectors, self.place]

    @property
    def beside(self) -> int:
        return super().beside + self.problem.right_bytes

    @property
    def _product(self) -> Routine[NDArray[Any]]:
        """Qᴴ y, of operands that are only shapes."""
        one = self.problem
        return long_solution(
            one, planned_factor((one.n, one.m), one.dtype), np.zeros(one.right_shape, one.dtype)
        )

    def _after(self) -> int:
        """Return the least limit of Qᴴ y, with what is held by then."""
        one = self.problem
        solutions = (len(one.ridge) + 2) * one.n * one.sides * int(one.dtype.itemsize)
        held = solutions + one.right_bytes + _core.allowed_drift  # a process grows over a chain of calls
        return self._product.least(held)

    def least(self, beside: int = 0) -> int:
        return max(super().least(beside), self._after() + beside)

    def check(self, beside: int = 0) -> int:
        self.call.check_least(self.least(beside))  # of both steps, before the first
        return super().check(beside)

    def plan(self) -> Plan:
        last = self._product.plan()
        whole: Plan = together(self.what, [super().plan(), *[last] * len(self.problem.ridge)])
        return replace(whole, method=self._method, least_memory=self.call.rounded(self.least()))

    def how(self, job: Any) -> How:
        return How(self._method)

    def job(self, at: At) -> Any:
        made: Any = at(self.reflectors)
        v, t, r = made
        triangle = _core.Operand(at(self.place), False, False)
        return _core.qr_factor_job("lstsq", True, self.operand, v, t, r, triangle)

    def execute(self, stack: contextlib.ExitStack) -> Any:
        self.right = self.problem.right()  # before the LQ: it may hold NaN
        return super().execute(stack)

    def result(self, job: Any) -> LstsqResult:
        one, done = self.problem, [stats()]
        factor = QrFactor((one.n, one.m), True, *self.reflectors.close())
        fit = self._short(np.triu(self.place.close()).conj().T)  # A = L Q
        fit["x"] = np.array([self._long(factor, y, done) for y in fit["x"]])
        fit["stderr"] = np.full(fit["x"].shape, np.nan, fit["residuals"].dtype)
        made = one.shaped(fit)
        remember(current(), replace(together(self.what, done), method=self._method))
        return made

    def _short(self, left: NDArray[Any]) -> dict[str, Any]:
        """Return the fit of L y = b, with a constant where one is asked for: x = Qᴴ y is as long as y."""
        one, b = self.problem, self.right
        if one.constant is not None:
            r = np.asarray(np.linalg.qr(np.hstack([one.constant, left, b]), mode="r"))
            return Triangle(r, one.observations, one.m, True).fit(one.ridge, one.rcond)
        u, s, vh = np.linalg.svd(left)
        rank, beyond = rank_of(s, one.rcond), np.zeros(one.sides)
        fit = spectral_fit(u, s, vh, b, beyond, one.observations, 0, one.ridge, rank)
        del fit["spread"], fit["sigma"]
        with np.errstate(over="ignore", under="ignore"):
            fit["total"] = lengths(b) ** 2
        return fit

    def _long(self, factor: QrFactor, y: NDArray[Any], done: list[Stats]) -> NDArray[Any]:
        """Return Qᴴ y."""
        made = long_solution(self.problem, factor, y).run()
        done.append(stats())
        return made


def _paths(given: Any) -> list[str]:
    return list(Operand.of(given).paths) if isinstance(given, Array) else []


@routine
def lstsq(
    a: Any, b: Any, /, *, rcond: float | None = None, ridge: Any = 0, weights: Any = None,
    intercept: bool = False, method: str = "qr", out: Any = None, memory: int | str | None = None,
) -> Prepared[LstsqResult]:  # fmt: skip
    """Return the least-squares solution of a x = b, and what else follows from one R, inside a memory limit.

    Parameters
    ----------
    a : Array, Expression or ndarray, m x n
        on disk, in memory or lazy, transposed or not.
    b : Array, Expression or ndarray, m or m x k
        Right-hand sides.
    rcond : float, optional
        Singular values below `rcond` times the largest count as zero; the solution is the shortest one then.
        Default, as NumPy's: the dtype's epsilon times max(m, n); a negative one: epsilon.
    ridge : float or sequence of float
        λ of min ‖b - a x‖² + λ ‖x‖², 0 or more. A sequence gives x and the rest a leading axis; the intercept
        is not penalised.
    weights : array_like of m numbers, optional
        Of the rows: Σ w (b - a x)² is what is made small. Degrees of freedom count rows of weight above 0.
    intercept : bool
        Fit a constant too. Where m ≤ n it takes one from the rank, m - 1 at most.
    method : {"qr", "normal"}
        "normal" solves aᴴa x = aᴴb, at half the work and with the square of the condition: only where it is
        named.
    out : path, Array or ndarray, optional
        Where x goes too.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    LstsqResult
        Unpacks as NumPy's four, and has standard errors, degrees of freedom and GCV.

    Raises
    ------
    ShapeError
        a and b do not conform; ridge, rcond or weights are no such numbers. Beyond 4096, an intercept with
        no more rows than columns and a ridge value of 0.
    TypeError
        a or b holds no numbers; intercept is no truth value.
    NumericalError
        a or b holds NaN or Inf; names which, row and column, "normal" the column. Beyond 4096 columns also
        where a has not full rank and there is no ridge. A triangle, or the solution of fewer rows than
        columns, is beyond the largest number.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    One read of a and b; 2 m (n + k)² flops, and some 20 n³ in memory for the singular values of R, from which
    all ridge values follow. Residuals are lengths of what R leaves, exact without a second pass. Fewer rows
    than columns: an LQ, its reflectors (m n) in scratch.

    With a path as `out` a killed call goes on, with the triangles of the groups of rows that it had read;
    where there are fewer rows than columns, or the smaller side is beyond 4096, it begins again.

    Where the smaller side is beyond 4096, R is in scratch and there are no singular values: the rank is full,
    which an estimate of the condition tells, or it is an error. Standard errors cost n³/3 flops; a ridge
    value a QR of R over √λ I and an inverse, 5 n³ flops and 3 n² elements of scratch; a wide a a QR of L.
    """
    problem = Problem(
        Call("lstsq", memory), a, b, rcond=rcond, ridge=ridge, weights=weights, intercept=intercept,
        method=method, out=out,
    )  # fmt: skip
    if min(problem.m, problem.n) > MOST:
        return LargeWide(problem) if problem.wide else Large(problem)
    return _Wide(problem) if problem.wide else _Tall(problem)


@resumable("lstsq")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {name: told[name] for name in ("ridge", "rcond", "intercept")}
    weights = None if told["weights"] is None else operand("the weights", told["weights"])
    given = operand("a", told["a"]), operand("b", told["b"])
    return lstsq, given, options | {"weights": weights, "out": old_output(path, told)}
