"""Extreme eigenpairs by locally optimal block preconditioned conjugate gradients: three blocks, no basis."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import ConvergenceError, Error, NumericalError, ShapeError
from .._linalg.matmul import matmul
from .._output.path_place import GroupPlace
from .._output.replaceable import check_path
from .._runtime.arguments import array_of, check_flags, real_number, whole_number
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import Prepared, Routine, least_of, routine
from .._runtime.runtime import current, remember, stats
from .operators import Hermitian
from .options import in_own_units, units_of
from .result import EigshResult

__all__ = ["lobpcg"]

Block = NDArray[Any]

_BLOCKS = 8  # of n x b numbers: X, W, P, each with its product, and two on their way
_PANEL = 1 << 13  # rows that are combined at a time
_PACKED = 24 << 20  # packing buffers of NumPy's BLAS
_USUAL = 30  # applications of a plan
_DEPENDENT = 1e-14  # share of the largest: a direction that rounding made
_IN_RANGE = 330  # powers of two whose squares, and eps² of them, are normal numbers


class _Space:
    """Vectors with their products, X of them first: S = [X W P] and A S."""

    def __init__(self, vectors: list[Block], products: list[Block]) -> None:
        self.vectors, self.products = vectors, products

    def ritz(self, b: int, largest: bool) -> tuple[Block, Block]:
        """Return coefficients of b extreme Ritz vectors, and of the directions to them.

        Directions are the vectors without their part in X (Knyazev 2001, equation 4.4).
        """
        gram, image = _grams(self.vectors, self.vectors), _grams(self.vectors, self.products)
        image = (image + image.conj().T) / 2
        sizes = np.sqrt(np.diag(gram).real)
        scale = np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1), 0)  # zero: no direction, left out
        weights, basis = np.linalg.eigh(gram * np.outer(scale, scale))
        stays = weights > _DEPENDENT * weights[-1]
        basis = scale[:, None] * basis[:, stays] / np.sqrt(weights[stays])
        values, inner = np.linalg.eigh(basis.conj().T @ image @ basis)
        chosen = np.argsort(-values if largest else values, kind="stable")[:b]
        vectors = basis @ inner[:, chosen]
        directions = vectors.copy()
        directions[: self.vectors[0].shape[1]] = 0
        return vectors, directions

    def combine(self, vectors: Block, directions: Block) -> None:
        """Set X := S vectors and P := S directions, with their products, panel by panel in their places."""
        for blocks in (self.vectors, self.products):
            x, p = blocks[0], blocks[2]
            for first in range(0, len(x), _PANEL):
                rows = slice(first, first + _PANEL)
                panel = np.hstack([block[rows] for block in blocks])
                x[rows], p[rows] = panel @ vectors, panel @ directions


def _grams(left: list[Block], right: list[Block]) -> Block:
    return np.block([[a.conj().T @ b for b in right] for a in left])


def _orthonormal(w: Block) -> Block:
    """Return an orthonormal basis of columns; those that depend on others become zero."""
    w = in_own_units(w)
    norms = np.linalg.norm(w, axis=0)
    w = w / np.where(norms > 0, norms, 1)
    weights, basis = np.linalg.eigh(w.conj().T @ w)
    stays = weights > _DEPENDENT * max(weights[-1], 1e-300)
    factors = np.where(stays, 1 / np.sqrt(np.where(stays, weights, 1)), 0)
    return np.asarray(w @ (basis * factors))


class _Reached(NamedTuple):
    """Ritz pairs with measured residuals."""

    values: NDArray[np.float64]
    residual: NDArray[np.float64]
    good: NDArray[np.bool_]

    def in_units(self, unit: int) -> _Reached:
        """Return the same times 2^unit."""
        return _Reached(np.ldexp(self.values, unit), np.ldexp(self.residual, unit), self.good)


class _Lobpcg(Routine[Any]):
    """The checked arguments of one call."""

    def __init__(
        self, call: Call, A: Hermitian, X: Block, M: Any, Y: Block | None, *, largest: bool, tol: float,
        maxiter: int, out: Any,
    ) -> None:  # fmt: skip
        self.n, self.b = X.shape
        self.place = GroupPlace(
            call, out, "vectors", ["row", "pair"], X.shape, A.dtype, X.shape, X.nbytes + 16 * self.b
        )
        super().__init__(call, [self.place])
        self.A, self.X, self.Y = A, X, Y
        self.largest, self.tol, self.maxiter = bool(largest), tol, maxiter
        self.M = None if M is None else _preconditioner(call, M, A.n)
        self.done: list[Stats] = []
        self.applications = 0
        self.norm = 0.0  # of A, as far as it was seen, in units of 2^unit, which are those of all products
        self.unit: int | None = None  # told by the first product that is not zero

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {self.A.what}, {self.b} vectors"

    @property
    def beside(self) -> int:
        """Bytes of the blocks in ordinary memory."""
        columns = _BLOCKS * self.b + (0 if self.Y is None else self.Y.shape[1])
        numbers = columns * self.n + 6 * self.b * min(_PANEL, self.n)
        return int(numbers * self.A.dtype.itemsize) + _PACKED

    @property
    def most(self) -> int:
        """Applications at most: of the start, one an iteration, to doubt its symmetry, to measure."""
        return self.maxiter + 3

    def least(self, beside: int = 0) -> int:
        """Return the least limit: that of one application beside the blocks."""
        held = beside + self.beside
        if self.A.function is not None:
            return _core.resident_bytes() + held + self.call.engine.reserve
        return least_of(matmul, self.A.given, self.X, memory=self.call.memory) + held

    def check(self, beside: int = 0) -> int:
        """Refuse a limit that is too small; nothing has been read."""
        needed = self.least(beside)
        self.call.check_least(needed)
        return self.call.rounded(needed)

    def plan(self) -> Plan:
        """Count it with a usual number of applications."""
        least, times = self.check(), min(_USUAL, self.maxiter) + 2
        told = f"{times} applications are counted, {self.most} at most"
        if self.A.function is not None:
            raise Error(f"{self.call.who}: A is a function, whose cost nobody knows; plan what it calls.")
        one = matmul.plan(self.A.given, self.X, memory=self.call.memory)
        flops = 2.0 * self.n * (3 * self.b) ** 2 * 3 * times
        made = replace(together(self.what, [one] * times), method="lobpcg", note=told, passes=times)
        return replace(
            made, flops=made.flops + flops, most_passes=self.most, least_memory=least,
            peak_memory=min(self.call.memory, one.peak_memory + self.beside),
        )  # fmt: skip

    # The iteration ----------------------------------------------------------------------------------------

    def run(self) -> EigshResult:
        """Do it."""
        self.check()
        x = self._clean(self.X.copy(), None)
        if np.linalg.norm(x, axis=0).min() < 0.5 or self._constrained():
            raise ShapeError(
                f"{self.call.who}: X depends on Y, or its columns on each other; give independent ones."
            )
        reached = self._iterate(x).in_units(self.unit or 0)
        found = EigshResult(
            reached.values, self._written(x, reached), reached.residual, "lobpcg", self.applications,
            self.applications, False,
        )  # fmt: skip
        if self.done:
            told = replace(together(self.what, self.done), method="lobpcg", passes=self.applications)
            remember(current(), told)
        if not reached.good.all():
            error = ConvergenceError(
                f"{self.call.who}: after {self.applications} applications {int((~reached.good).sum())} of "
                f"{self.b} pairs have residuals above tol, at most {reached.residual.max():.1e}; raise tol "
                "or maxiter, start from more vectors, or give a preconditioner M (what was reached is the "
                "error's `partial`)."
            )
            error.partial = found
            raise error
        return found

    def _constrained(self) -> bool:
        """Say whether a vector of X is nothing but constraints: what is left of it is rounding."""
        if self.Y is None:
            return False
        x = in_own_units(self.X)
        left = np.linalg.norm(x - self.Y @ (self.Y.conj().T @ x), axis=0)
        return bool((left <= 1e-12 * np.linalg.norm(x, axis=0)).any())

    def _check_symmetric(self, vectors: list[Block], products: list[Block]) -> None:
        """Refuse an A that is not symmetric, by the first orthonormal vectors that it was applied to.

        What A makes of vectors near its null space says nothing of ‖A‖, whose rounding is in it: before A is
        refused, it is applied to random ones.
        """
        image = _grams(vectors, products)
        off = float(np.abs(image - image.conj().T).max())
        if off > self.A.symmetry * self.norm:
            random = np.random.default_rng(0).standard_normal(vectors[0].shape)
            self._apply(self._clean(random.astype(self.A.dtype), None))
        if off > self.A.symmetry * self.norm:
            raise NumericalError(
                f"{self.call.who}: A is not symmetric: |xᴴAy - yᴴAx| is {off / self.norm:.1e} of ‖A‖ for "
                "vectors of length one; give a symmetric matrix, or use svds."
            )

    def _written(self, x: Block, reached: _Reached) -> Array:
        """Put the pairs into their group."""
        about = {
            "routine": self.call.who, "method": "lobpcg", "applications": self.applications,
            "converged": bool(reached.good.all()), "verified": False, "version": _core.__version__,
        }  # fmt: skip
        with contextlib.ExitStack() as stack:
            core = self.place.open(stack)
            self.call.engine.write_boxes(core, [([0, 0], x)], 1 << 20)
            self.place.write("values", reached.values, ["pair"])
            self.place.write("residual", reached.residual, ["pair"])
            return self.place.close({"flagstone": about})

    def _iterate(self, x: Block) -> _Reached:
        """Move x to the pairs, in its place; return what they are, measured."""
        ax, p, ap = self._apply(x), np.zeros_like(x), np.zeros_like(x)
        fresh = True  # whether A x was multiplied, and not combined from other products
        for step in range(self.maxiter + 1):
            reached, left = self._measured(x, ax)
            if step == self.maxiter or reached.good.all():
                if fresh:
                    return reached
                ax, fresh = self._apply(x), True
                reached, left = self._measured(x, ax)
                if step == self.maxiter or reached.good.all():
                    return reached
            w = left if self.M is None else self._called(self.M, left)
            w[:, reached.good] = 0  # soft locking: what is found is moved on, and not searched from
            w = self._clean(w, x)
            space = _Space([x, w, p], [ax, self._apply(w), ap])
            if step == 0:
                self._check_symmetric(space.vectors[:2], space.products[:2])
            space.combine(*space.ritz(self.b, self.largest))
            fresh = False
        raise AssertionError("unreachable")

    def _clean(self, w: Block, x: Block | None) -> Block:
        """Return w orthonormal, and orthogonal to the constraints and to x: twice is enough."""
        for _ in range(2):
            for other in (self.Y, x):
                if other is not None:
                    w -= other @ (other.conj().T @ w)
            w = _orthonormal(w)
        return w

    def _measured(self, x: Block, ax: Block) -> tuple[_Reached, Block]:
        """Return the pairs of x and A x with their residuals, of unit vectors."""
        squares = np.einsum("ij,ij->j", x.conj(), x).real
        values = np.einsum("ij,ij->j", x.conj(), ax).real / squares
        left = ax - x * values
        residual = np.linalg.norm(left, axis=0) / np.sqrt(squares)
        eps = float(np.finfo(np.float64).eps)
        bound = self.tol * np.maximum(np.abs(values), eps ** (2 / 3) * self.norm)
        return _Reached(values, residual, residual <= np.maximum(bound, 64 * eps * self.norm)), left

    def _apply(self, x: Block) -> Block:
        """Return A x of orthonormal vectors, in the call's units, and learn of ‖A‖ from it."""
        self.applications += 1
        made = self._called(self.A, x)
        if self.unit is None and made.any():
            unit = int(units_of(made).max())
            self.unit = unit if abs(unit) > _IN_RANGE else 0
        made = made * np.ldexp(1.0, -self.unit) if self.unit else made
        self.norm = max(self.norm, float(np.linalg.norm(made, axis=0).max()))
        return made

    def _called(self, by: Hermitian, x: Block) -> Block:
        """Return `by` times x, inside the call's limit."""
        if by.function is not None:
            made = np.empty_like(x)
            by.apply(x.copy(), made)
        else:
            made = np.asarray(matmul(by.given, x, memory=self.call.memory)).astype(self.A.dtype, copy=False)
            self.done.append(stats())
        if not np.isfinite(made).all():
            raise NumericalError(
                f"{self.call.who}: {by.name} made NaN or Inf of finite vectors; finite values are needed."
            )
        return made


def _constraints(A: Hermitian, Y: ArrayLike) -> Block:
    """Return an orthonormal basis of the constraints."""
    found, r = np.linalg.qr(_vectors("Y", Y, A))
    sizes = np.abs(np.diag(r))
    if len(r) < r.shape[1] or sizes.min() <= 1e-12 * sizes.max():
        raise ShapeError(f"{A.call.who}: the columns of Y depend on each other; give independent ones.")
    return np.asarray(found)


def _preconditioner(call: Call, M: Any, n: int) -> Hermitian:
    found = Hermitian(call, M, call.memory, n, name="M")
    if found.n != n:
        raise ShapeError(f"{call.who}: M is {found.n} x {found.n} and A {n} x {n}; they must be alike.")
    return found


def _vectors(name: str, given: ArrayLike, A: Hermitian) -> Block:
    """Return a copy of vectors, n x b."""
    who, n, dtype = A.call.who, A.n, A.dtype
    found = array_of(who, name, given)
    found = found.reshape(-1, 1) if found.ndim == 1 else found
    fits = found.ndim == 2 and len(found) == n and found.shape[1] > 0
    if not fits or found.dtype.kind not in "biuf" + dtype.kind or not np.isfinite(found).all():
        raise ShapeError(
            f"{who}: {name} is {shape_text(np.shape(given))} {found.dtype}; finite vectors of {n} {dtype} "
            "are needed."
        )
    return np.array(found, dtype)


@routine
def lobpcg(
    A: Any, X: ArrayLike, B: None = None, M: Any = None, Y: ArrayLike | None = None, *, largest: bool = True,
    tol: float = 1e-6, maxiter: int = 500, out: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return extreme eigenpairs of a Hermitian matrix near given vectors, with a preconditioner.

    Three blocks of vectors in memory and one read of A an iteration. With a good preconditioner it finds
    the smallest pairs, for which `eigsh` needs many applications.

    Parameters
    ----------
    A : SparseArray, Array, Expression, ndarray, SciPy matrix or operator, n x n
        Symmetric or Hermitian, as of `eigsh`.
    X : ndarray, n x b
        Where to start: b independent vectors, random ones for example. b pairs are returned.
    B : None
        Generalised problems are not solved.
    M : as A, optional
        Preconditioner: near the inverse of A, positive definite.
    Y : ndarray, n x c, optional
        Constraints: pairs are orthogonal to them.
    largest : bool
        The largest pairs, else the smallest.
    tol : float
        ``‖A v - λ v‖ ≤ tol max(|λ|, eps^⅔ ‖A‖)``, or what rounding allows (64 eps ‖A‖), measured.
    maxiter : int
        Iterations at most.
    out : path, optional
        A Zarr group for vectors, values and residuals. Default: scratch; deleted when the last handle on V
        dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    EigshResult
        Unpacks as ``w, V``; from the largest down, or from the smallest up. `verified` is False: copies of a
        value can be missed where b does not hold them all.

    Raises
    ------
    ShapeError
        A is not square; X or Y have other rows, or depend on each other; B is given.
    ConvergenceError
        After `maxiter` iterations; `partial` holds what was reached.
    NumericalError
        A or M makes NaN or Inf, or A is not symmetric.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    An iteration is one application of A to b vectors, one of M, and 54 n b² flops; it holds 8 blocks of
    n x b numbers. Found pairs take part in projections and are not searched from (soft locking). Sources:
    Knyazev 2001; Duersch, Shao, Yang and Gu 2018.
    """
    call = Call("lobpcg", memory)
    if B is not None:
        raise ShapeError("lobpcg: B is given; generalised problems are not solved, leave it out.")
    tol = real_number("lobpcg", "tol", tol, lambda v: 0 < v < 1, "a number between 0 and 1 is needed")
    maxiter = whole_number("lobpcg", "maxiter", maxiter)
    check_flags("lobpcg", largest=largest)
    X = array_of("lobpcg", "X", X)
    if out is not None:
        check_path("lobpcg", out)
    operator = Hermitian(call, A, memory, X.shape[0] if X.ndim else None)
    start = _vectors("X", X, operator)
    kept = None if Y is None else _constraints(operator, Y)
    return _Lobpcg(call, operator, start, M, kept, largest=largest, tol=tol, maxiter=maxiter, out=out)
