"""Least squares with more columns than singular values can be computed of: R stays on disk.

What an SVD of R would tell is had from triangles: x by substitution, the rank only as full or not (by the
estimate of the condition), each ridge value λ from a QR of R over √λ I, whose triangle T has
M = TᴴT = AᴴA + λ P (P: without the intercept). Then RSS = ρ² + ‖z - R x‖², the degrees of freedom are
p - λ tr(P M⁻¹), and the covariance over σ² is M⁻¹ - λ M⁻¹ P M⁻¹ (Hoerl and Kennard 1970).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array
from .._errors.classes import NumericalError, ShapeError
from .._expression.expression import as_expression
from .._factor.cholesky import cholesky
from .._factor.qr import matrix_operand, qr
from .._factor.reflectors import QrFactor, planned_factor, reflectors_place
from .._lazy.creation import eye, planned, zeros
from .._lazy.join import concat
from .._lazy.structure import triangular
from .._linalg.matmul import matmul
from .._linalg.norms import vector_norm
from .._linalg.rank_k import rank_k_update
from .._output.place import Place
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import At, How, Routine, least_of
from .._runtime.runtime import current, remember, stats
from .condition import cond
from .inverse import diagonal_of, inv, inv_diagonal
from .least_squares import MOST, LstsqResult, Problem, long_solution
from .solve import solve_triangular

__all__ = ["Large", "LargeWide"]


def _adjoint(x: Any) -> Any:
    return as_expression(x, "lstsq").T.conj()


def _check_rank(problem: Problem) -> None:
    """Refuse an intercept beside a square or wide a, which has not full rank, unless a ridge makes up."""
    if problem.intercept and problem.m <= problem.n and not all(problem.ridge):
        raise ShapeError(
            f"lstsq: a is {problem.m} x {problem.n} with an intercept, which has not full rank, and with "
            f"more than {MOST} rows there is no shortest solution; give a ridge above 0, or leave the "
            "intercept out."
        )


class _Triangles:
    """An upper triangle [T z] with T of p x p on disk, the rest in memory, and what follows from it.

    Calls are made through `_do`, so that they can be counted or planned one by one.
    """

    def __init__(self, problem: Problem, p: int, sides: int) -> None:
        self.problem, self.p, self.sides = problem, p, sides
        self.memory = problem.call.memory
        self.done: list[Stats] = []

    def do(self, function: Any, *args: Any, **options: Any) -> Any:
        """Make one call of the chain."""
        made = function(*args, memory=self.memory, **options)
        self.done.append(stats())
        Call("lstsq", light=True).tidy()
        return made

    # What is called, with what ----------------------------------------------------------------------------

    def stacked(self, t: Any, z: NDArray[Any], value: float) -> Array:
        """Return [T z] over [0 √λ I 0]."""
        first, dtype = self.problem.first, z.dtype
        n = self.p - first
        root = as_expression(eye(n, dtype=dtype), "lstsq") * np.asarray(np.sqrt(value), dtype)
        below = [zeros((n, first), dtype), root, zeros((n, self.sides), dtype)]
        return concat([concat([t, z], axis=1), concat(below if first else below[1:], axis=1)], axis=0)

    def calls(self, t: Any, z: NDArray[Any]) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
        """Return what a fit calls for all ridge values, of triangles that may exist only as shapes."""
        made: list[Any] = [(cond, (t,), {"assume_a": "upper triangular"})]
        for value in self.problem.ridge:
            if value:
                made.append((qr, (self.stacked(t, z, value),), {"mode": "r"}))
                made.append((matmul, (triangular(t, "upper"), z), {}))
                lower = triangular(_adjoint(t), "lower")
                made.append((inv, (lower,), {}))
                made.append((rank_k_update, (_adjoint(t),), {}))
            else:
                made.append((inv_diagonal, (None,), {"factor": _adjoint(t)}))
            made.append((solve_triangular, (t, z), {}))
        return made

    def planned(self) -> tuple[Any, NDArray[Any]]:
        """Return a triangle that is a shape, and right-hand sides."""
        edge = _core.qr_tile((self.p, self.p), self.problem.dtype.name)[1]
        t = planned((self.p, self.p), self.problem.dtype, chunks=(edge, edge))
        return t, np.empty((self.p, self.sides), self.problem.dtype)

    # What follows -----------------------------------------------------------------------------------------

    def fit(self, t: Any, z: NDArray[Any], beyond: NDArray[Any]) -> dict[str, Any]:
        """Return everything for all ridge values; `beyond`: squared lengths of what R leaves of b."""
        one, first, m = self.problem, self.problem.first, self.problem.observations
        condition = self.do(cond, t, assume_a="upper triangular")
        full = condition * one.rcond < 1
        if not full and not all(one.ridge):
            raise NumericalError(
                f"lstsq: the condition of a is estimated as {condition:.2g} and rcond is {one.rcond:.2g}: a "
                f"has not full rank, and with more than {MOST} columns there is no shortest solution; give a "
                "ridge, a smaller rcond, or fewer columns."
            )
        parts: dict[str, list[Any]] = {}
        for value in one.ridge:
            for name, found in self._of(t, z, beyond, value).items():
                parts.setdefault(name, []).append(found)
        fit: dict[str, Any] = {name: np.array(found) for name, found in parts.items()}
        real = z.real.dtype
        with np.errstate(divide="ignore", invalid="ignore"):
            left = (m - fit["degrees_of_freedom"])[:, None]
            left = np.where(left > 0, left, np.nan)
            rss, spread = fit["residuals"], fit.pop("spread")
            errors = np.sqrt(np.maximum(spread, 0)[:, :, None] * (rss / left)[:, None, :]).astype(real)
            fit["gcv"] = (m * rss / left**2).astype(real)
        fit["residuals"], fit["stderr"] = rss.astype(real), errors[:, first:]
        solution = fit["x"]
        fit["x"] = solution[:, first:]
        if first:
            fit["intercept"], fit["intercept_stderr"] = solution[:, 0], errors[:, 0]
        fit["rank"], fit["condition"] = one.n if full else None, condition
        fit["singular_values"] = np.empty(0, real)
        fit["total"] = (np.abs(z[first:]).astype(np.float64) ** 2).sum(axis=0) + beyond
        return fit

    def _of(self, t: Any, z: NDArray[Any], beyond: NDArray[Any], value: float) -> dict[str, Any]:
        first = self.problem.first
        if not value:
            spread = self.do(inv_diagonal, None, factor=_adjoint(t)).astype(np.float64)
            x = self.do(solve_triangular, t, z)
            return {"x": x, "residuals": beyond, "degrees_of_freedom": float(self.p), "spread": spread}
        r = self.do(qr, self.stacked(t, z, value), mode="r")
        damped = as_expression(r, "lstsq")
        top = damped[: self.p, : self.p]
        x = self.do(solve_triangular, top, np.asarray(damped[: self.p, self.p :]))
        missed = np.abs(z - self.do(matmul, triangular(t, "upper"), x)).astype(np.float64)
        root = self.do(inv, triangular(_adjoint(top), "lower"))  # T⁻ᴴ; M⁻¹ is its adjoint times it
        inverse = self.do(rank_k_update, _adjoint(triangular(root, "lower")))
        diagonal = diagonal_of(inverse).real.astype(np.float64)
        penalised = as_expression(inverse, "lstsq")[first:, :]
        square = np.asarray(self.do(vector_norm, penalised, axis=0)).astype(np.float64) ** 2
        return {
            "x": x,
            "residuals": beyond + (missed**2).sum(axis=0),
            "degrees_of_freedom": self.p - value * float(diagonal[first:].sum()),
            "spread": diagonal - value * square,
        }


class Large:
    """A fit whose R is on disk."""

    def __init__(self, problem: Problem) -> None:
        _check_rank(problem)
        self.problem, self.p = problem, problem.first + problem.n
        self.joined = problem.joined()
        if problem.m < self.p:  # a square a beside a constant: R has as many rows as columns with a zero one
            self.joined = concat([self.joined, zeros((1, self.p + problem.sides), problem.dtype)], axis=0)
        self.triangles = _Triangles(problem, self.p, problem.sides)

    def _first(self) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
        if self.problem.method == "qr":
            return [(qr, (self.joined,), {"mode": "r"})]
        t, z = self.triangles.planned()
        adjoint = {"trans": 2}
        return [
            (rank_k_update, (_adjoint(self.joined),), {}), (cholesky, (t,), {"upper": True}),
            (solve_triangular, (t, z), adjoint),
        ]  # fmt: skip

    def _calls(self) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
        return [*self._first(), *self.triangles.calls(*self.triangles.planned())]

    @property
    def _held(self) -> int:
        values = 8 * (self.p + self.problem.sides) * (self.problem.sides + 2) * self.problem.dtype.itemsize
        return values + _core.allowed_drift  # a process grows over a chain of calls

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        memory, more = self.problem.call.memory, beside + self._held
        return max(
            least_of(call, *args, memory=memory, **options) + more for call, args, options in self._calls()
        )

    def plan(self) -> Plan:
        """Count it."""
        memory = self.problem.call.memory
        plans = [call.plan(*args, memory=memory, **options) for call, args, options in self._calls()]
        least = self.problem.call.rounded(self.least())
        whole: Plan = together(self.problem.what, plans)
        return replace(whole, method=self._method, least_memory=least)

    @property
    def _method(self) -> str:
        return "one R on disk" if self.problem.method == "qr" else "normal equations on disk"

    def run(self) -> LstsqResult:
        """Do it."""
        one = self.problem
        one.call.check_least(self.least())
        t, z, beyond = self._by_qr() if one.method == "qr" else self._by_gram()
        made = one.shaped(self.triangles.fit(t, z, beyond))
        remember(current(), replace(together(one.what, self.triangles.done), method=self._method))
        return made

    def _by_qr(self) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        with self.problem.told():
            r = as_expression(self.triangles.do(qr, self.joined, mode="r"), "lstsq")
        rest = np.asarray(r[self.p :, self.p :])
        beyond = (np.abs(rest).astype(np.float64) ** 2).sum(axis=0)
        return r[: self.p, : self.p], np.asarray(r[: self.p, self.p :]), beyond

    def _by_gram(self) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        made = self.triangles.do(rank_k_update, _adjoint(self.joined))
        self.problem.check_squares(diagonal_of(made))
        gram = as_expression(made, "lstsq")
        try:
            t = self.triangles.do(cholesky, gram[: self.p, : self.p], upper=True)
        except NumericalError:
            raise NumericalError(
                "lstsq: the normal equations are not positive definite in this precision; leave method out, "
                "the QR takes any matrix."
            ) from None
        z = self.triangles.do(solve_triangular, t, np.asarray(gram[: self.p, self.p :]), trans=2)
        left = np.diagonal(np.asarray(gram[self.p :, self.p :])).real - (np.abs(z) ** 2).sum(axis=0)
        return t, z, np.maximum(left, 0).astype(np.float64)


class _LongLq(Routine[tuple[QrFactor, Array]]):
    """A = L Q: Q as reflectors, Lᴴ on disk."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.call)
        self.problem, shape = problem, (problem.n, problem.m)
        self.x = matrix_operand(self.call, problem.columns(problem.a), "a")
        self.operand = _core.Operand(self.x.core, not self.x.transposed, not self.x.conjugated)
        _core.check_qr("lstsq", self.operand)
        edge = _core.qr_tile(shape, problem.dtype.name)[1]
        self.reflectors = reflectors_place(self.call, shape, True, problem.dtype, None)
        self.place = Place(self.call, (problem.m, problem.m), problem.dtype, None, (edge, edge))
        self.places = [self.reflectors, self.place]
        self.call.on(*self.x.paths)

    @property
    def what(self) -> str:
        return self.problem.what

    def how(self, job: Any) -> How:
        return How("one LQ on disk")

    def job(self, at: At) -> Any:
        made: Any = at(self.reflectors)
        v, t, r = made
        triangle = _core.Operand(at(self.place), False, False)
        return _core.qr_factor_job("lstsq", True, self.operand, v, t, r, triangle)

    def result(self, job: Any) -> tuple[QrFactor, Array]:
        shape = (self.problem.n, self.problem.m)
        return QrFactor(shape, True, *self.reflectors.close()), self.place.close()


class LargeWide:
    """The shortest solution, or that of a ridge, from A = L Q: y of L y = b, a square fit, and Qᴴ y."""

    def __init__(self, problem: Problem) -> None:
        _check_rank(problem)
        self.problem = problem
        self.lq = _LongLq(problem)

    def _fit(self, left: Any, b: NDArray[Any]) -> Large:
        one = self.problem
        square = Problem(
            one.call, left, b, rcond=one.rcond, ridge=np.array(one.ridge), weights=None,
            intercept=one.intercept, method="qr", out=None,
        )  # fmt: skip
        square.constant, square.observations = one.constant, one.observations  # weighted as L is
        return Large(square)

    def _planned(self) -> tuple[Large, Routine[NDArray[Any]]]:
        one = self.problem
        edge = _core.qr_tile((one.m, one.m), one.dtype.name)[1]
        square = planned((one.m, one.m), one.dtype, chunks=(edge, edge))
        none = np.zeros((one.m, one.sides), one.dtype)  # of b's shape; b is read once it is known to fit
        return self._fit(square, none), long_solution(one, planned_factor((one.n, one.m), one.dtype), none)

    def least(self, beside: int = 0) -> int:
        """Return the least limit."""
        one = self.problem
        fit, product = self._planned()
        solution = one.n * one.sides * int(one.dtype.itemsize)
        more = beside + one.right_bytes + 2 * solution
        return max(self.lq.least(more), fit.least(more), product.least(more))

    def plan(self) -> Plan:
        """Count it."""
        fit, product = self._planned()
        plans = [self.lq.plan(), fit.plan(), *[product.plan()] * len(self.problem.ridge)]
        least = self.problem.call.rounded(self.least())
        return replace(together(self.problem.what, plans), method="one LQ on disk", least_memory=least)

    def run(self) -> LstsqResult:
        """Do it."""
        one = self.problem
        one.call.check_least(self.least())
        right = one.right()  # before the LQ: it may hold NaN
        with one.told():
            factor, adjoint = self.lq.run()
        done = [stats()]
        short = self._fit(_adjoint(triangular(adjoint, "upper")), right).run()
        done.append(stats())
        solutions = []
        for y in short.x:
            solutions.append(long_solution(one, factor, y).run())
            done.append(stats())
        made = one.shaped({
            "x": np.array(solutions), "residuals": short.residuals, "gcv": short.gcv,
            "stderr": np.full((len(solutions), one.n, one.sides), np.nan, short.residuals.dtype),
            "degrees_of_freedom": short.degrees_of_freedom, "rank": short.rank, "condition": short.condition,
            "singular_values": short.singular_values, "total": short.total, "intercept": short.intercept,
            "intercept_stderr": short.intercept_stderr,
        })  # fmt: skip
        remember(current(), replace(together(one.what, done), method="one LQ on disk"))
        return made
