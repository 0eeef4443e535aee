"""Systems of linear equations as routines: with factors that are there, and by factoring."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._array.array import shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._errors.messages import shown
from .._expression.operand import lazy_operand
from .._factor.cholesky import cholesky_flops
from .._factor.diagonal import FactorDiagonal
from .._factor.lu import lu_flops
from .._factor.right import Right
from .._lazy.structure import triangular_side
from .._linalg.operands import as_factored
from .._runtime.arguments import check_flags
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine

__all__ = ["Solve", "cholesky_factor", "kind_of", "matrix", "solver", "triangle"]

_GENERAL = (
    "gen", "general", "sym", "symmetric", "her", "hermitian", "diagonal", "tridiagonal", "banded",
)  # fmt: skip


class Solve(Routine[Any]):
    """The checked arguments of one solve with factors that are there."""

    def __init__(
        self, call: Call, matrix: Operand, factors: Any, b: Any, out: Any, warns: bool = True,
        told: dict[str, Any] | None = None, given: bool = True,
    ) -> None:  # fmt: skip
        """`warns`: whether of a condition that the diagonal of the factor tells.

        `told`: what a record says beside the operands; None: a killed call begins again. `given`: the factors
        are the caller's, so that NaN and Inf are looked for.
        """
        self.given = given
        self.operation, self.told = "" if told is None else call.who, told or {}
        self.matrix, self.factors, self.warns = matrix, factors, warns
        self.right = Right(call, b, out, matrix.dtype, matrix.reads)
        self.diagonal = FactorDiagonal(matrix.shape[0], matrix.dtype, len(factors) == 2)
        _core.check_substitute(call.who, factors[0], self.right.b.factor)
        super().__init__(call, [self.right.place])
        call.on(*matrix.paths, *self.right.b.paths)
        call.outputs = self.right.place.named()

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        by = f"{shape_text(self.matrix.shape)} by {shape_text(self.right.b.shape)}"
        return f"{self.call.who} {by}, {self.matrix.dtype}"

    def how(self, job: Any) -> How:
        """Say how the job does it."""
        return How("substitution", len(self.factors))

    def job(self, at: At) -> _core.Job:
        """Return the job that writes each place where `at` says."""
        b, x = self.right.b.factor, at(self.right.place)
        place = self.right.place
        return _core.substitute_job(
            self.call.who, self.factors, b, x, self.diagonal.core, None, self.saves(place), place.checkpoint,
            self.given,
        )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits."""
        named = {"a": self.matrix.identity, "b": self.right.b.identity, "dtype": self.matrix.dtype.name}
        return named | self.told

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, roughly."""
        n, m = self.right.b.shape
        flops = float(len(self.factors)) * n * n * m * (4 if self.matrix.dtype.kind == "c" else 1)
        return flops, len(self.factors) * n * n * self.matrix.dtype.itemsize / 2

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that the results take."""
        return super().beside + self.diagonal.values.nbytes

    def result(self, job: Any) -> Any:
        """Publish the result and return what the caller gets."""
        if self.warns:
            self.diagonal.warn(self.call.who)
        return self.right.solution(super().result(job))


class _Factoring(Solve):
    """The checked arguments of one solve that factors, or of an inverse: a solve with the identity."""

    def __init__(self, call: Call, matrix: Operand, assume_a: str, b: Any, out: Any) -> None:
        """`assume_a`: "pos", else what is only known to be square."""
        super().__init__(call, matrix, [_core.TriangularOperand(matrix.factor, True, False)], b, out)
        self.assume_a, self.definite = assume_a, assume_a == "pos"
        self.diagonal.squared = self.definite
        self.operation = call.who if call.who in ("solve", "inv") else ""
        call.scratch_bytes["factor"] = matrix.shape[0] ** 2 * matrix.dtype.itemsize

    def run(self) -> Any:
        """Look at the right-hand sides, then factor."""
        self.right.look(self.call.who)
        return super().run()

    def how(self, job: Any) -> How:
        return How("Cholesky" if self.definite else "LU")

    def job(self, at: At) -> _core.Job:
        b, x = self.right.b.factor, at(self.right.place)
        make = _core.solve_definite_job if self.definite else _core.solve_general_job
        checkpoint = self.right.place.checkpoint
        return make(self.call.who, self.matrix.factor, b, x, self.diagonal.core, checkpoint)

    def arguments(self) -> dict[str, Any]:
        told = {"a": self.matrix.identity, "dtype": self.matrix.dtype.name, "assume_a": self.assume_a}
        return told if self.operation == "inv" else told | {"b": self.right.b.identity}

    def effort(self) -> tuple[float, float]:
        flops = cholesky_flops if self.definite else lu_flops
        return flops(self.matrix.shape[0], self.matrix.dtype), self.right.place.nbytes


def matrix(call: Call, a: Any) -> Operand:
    """Return a matrix as the core takes it."""
    return Operand.matrix(call, as_factored(call, lazy_operand(call, a)), "the matrix")


def cholesky_factor(call: Call, given: Any) -> tuple[Any, bool]:
    """Return a Cholesky factor and whether it is the lower one: alone it is, in a pair that is said."""
    if not isinstance(given, tuple):
        return given, True
    if len(given) != 2 or hasattr(given, "_fields"):
        raise TypeError(
            f"{call.who}: the factor is a {type(given).__name__} of {len(given)} parts; what cholesky "
            "returned, or a pair (factor, lower), is needed."
        )
    check_flags(call.who, lower=given[1])
    return given[0], bool(given[1])


def triangle(given: Operand, lower: bool, trans: int, unit: bool = False) -> _core.TriangularOperand:
    """Return a triangle of a matrix, of its transpose (1) or its adjoint (2)."""
    turned, conjugated = trans > 0, trans == 2 and given.dtype.kind == "c"
    seen = _core.Operand(given.core, given.transposed != turned, given.conjugated != conjugated)
    return _core.TriangularOperand(seen, lower != turned, unit, turned)


def kind_of(call: Call, assume_a: str) -> str:
    """Return which algorithm SciPy's word for a matrix asks for: "pos", "lower", "upper" or "gen"."""
    word = assume_a if isinstance(assume_a, str) else ""
    if word in ("lower triangular", "upper triangular"):
        return word.split()[0]
    if word in ("pos", "positive definite"):
        return "pos"
    if word in _GENERAL:
        return "gen"
    raise ShapeError(
        f"{call.who}: assume_a is {shown(assume_a)}; one of 'pos', 'lower triangular', 'upper triangular', "
        f"{', '.join(map(repr, _GENERAL))} is needed."
    )


def solver(call: Call, a: Any, b: Any, assume_a: str, out: Any) -> Routine[Any]:
    """Return the checked call of the algorithm for what is known of `a`."""
    kind = kind_of(call, assume_a)
    if kind == "gen":
        kind = triangular_side(a) or kind
    if kind in ("lower", "upper"):
        given = matrix(call, a)
        told = {"assume_a": f"{kind} triangular"}
        first = _core.TriangularOperand(given.factor, kind == "lower", False)
        return Solve(call, given, [first], b, out, told=told if call.who == "solve" else None)
    return _Factoring(call, matrix(call, a), kind, b, out)
