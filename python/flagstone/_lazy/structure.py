"""Matrices of which one triangle counts, seen whole: mirrored, conjugated, with zeros or ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Lazy, derived, is_transposed, lazy_array
from .._errors.classes import ShapeError
from .._expression.expression import Expression, as_expression, where
from .._resume.identity import identity
from .._resume.openers import operand, told_values
from .._resume.registers import opener
from .._runtime.arguments import array_of, check_flags, one_of
from .generated import below_diagonal
from .mapped import core_of, member

__all__ = [
    "hermitian", "mirrored", "note_triangle", "seen_whole", "symmetric", "triangle_attribute", "triangle_of",
    "triangular", "triangular_side",
]  # fmt: skip

_TRIANGLE = "triangle"  #: among our attributes, and of what is kept beside a handle
_SEEN = "seen"  #: beside a handle: what `symmetric`, `hermitian`, `triangular` made it
_OTHER = {"lower": "upper", "upper": "lower"}
_TOLD = [[kind, uplo] for kind in ("symmetric", "hermitian") for uplo in ("lower", "upper")]


def symmetric(A: Any, /, uplo: str = "lower") -> Array:
    """Return the symmetric matrix that a triangle of A is; the other triangle of A is never read.

    Parameters
    ----------
    A : Array, Expression or ndarray
        Square; what lies beside the triangle may be anything, or absent (`uplo=` of a result).
    uplo : {"lower", "upper"}
        Which triangle counts.

    Returns
    -------
    Array
        Read-only, an operand of every routine. A box beside the triangle is read as its mirror: a pass over
        all of it moves the triangle's bytes twice.
    """
    return _structured("symmetric", A, uplo, False)


def hermitian(A: Any, /, uplo: str = "lower") -> Array:
    """Return the Hermitian matrix that a triangle of A is; imaginary parts of its diagonal count as zero.

    Parameters
    ----------
    A : Array, Expression or ndarray
        Square; what lies beside the triangle may be anything, or absent (`uplo=` of a result).
    uplo : {"lower", "upper"}
        Which triangle counts.

    Returns
    -------
    Array
        Read-only, an operand of every routine; of a real A the symmetric matrix. See `symmetric`.
    """
    return _structured("hermitian", A, uplo, False)


def triangular(A: Any, /, uplo: str = "lower", unit_diagonal: bool = False) -> Array:
    """Return a triangle of A with zeros beside it; the other triangle of A is never read.

    Parameters
    ----------
    A : Array, Expression or ndarray
        m x n: of a square one a triangle, of another a trapezoid.
    uplo : {"lower", "upper"}
        Which triangle counts.
    unit_diagonal : bool
        Take ones for the diagonal, whatever A has there.

    Returns
    -------
    Array
        Read-only, an operand of every routine. A pass over all of it moves the triangle's bytes once;
        products with it (trmm) leave out tiles beside the triangle: half of the flops.
    """
    check_flags("triangular", unit_diagonal=unit_diagonal)
    return _structured("triangular", A, uplo, bool(unit_diagonal))


def triangle_attribute(hermitian: bool, uplo: str) -> dict[str, Any]:
    """Return what the metadata of an array say of which one triangle is stored: kind of matrix, triangle."""
    return {_TRIANGLE: ["hermitian" if hermitian else "symmetric", uplo]}


def note_triangle(stored: Array, ours: Any) -> Array:
    """Keep beside a handle what its metadata say so; what they say of no square matrix counts for nothing."""
    told = ours.get(_TRIANGLE) if isinstance(ours, dict) else None
    square = stored.ndim == 2 and stored.shape[0] == stored.shape[1]
    if square and told in _TOLD:
        derived(stored)[_TRIANGLE] = told
    return stored


def triangle_of(stored: Any) -> list[str] | None:
    """Return kind of matrix and triangle, where one triangle alone is stored."""
    told: list[str] | None = derived(stored).get(_TRIANGLE) if isinstance(stored, Array) else None
    return told


def triangular_side(given: Any) -> str | None:
    """Return "lower" or "upper" of what `triangular` made, as it is seen; None of anything else.

    What is kept beside a handle is that of all its views: a transposed one has the other triangle.
    """
    seen: list[str] = derived(given).get(_SEEN, []) if isinstance(given, Array) else []
    if seen[:1] != ["triangular"]:
        return None
    return _OTHER[seen[1]] if is_transposed(given) else seen[1]


def mirrored(given: Any) -> tuple[Expression, Expression] | None:
    """Return the triangle that `symmetric` or `hermitian` mirrors, and that without its diagonal.

    Zeros beside them; of one array, so that a pass over both reads each element once. None of anything else.
    """
    kind, uplo = derived(given).get(_SEEN, ("", "")) if isinstance(given, Array) else ("", "")
    if kind not in ("symmetric", "hermitian"):
        return None
    half = as_expression(triangular(given, uplo), kind)
    strictly, zero = below_diagonal(given.shape[0], -1 if uplo == "lower" else 0), half.dtype.type(0)
    return half, where(strictly, half, zero) if uplo == "lower" else where(strictly, zero, half)


def seen_whole(stored: Any) -> Any:
    """Return the matrix of which one triangle is stored; what is stored whole as it is."""
    told = triangle_of(stored)
    return stored if told is None else _structured(told[0], stored, told[1], False)


def _structured(kind: str, given: Any, uplo: str, unit_diagonal: bool) -> Array:
    one_of(kind, "uplo", uplo, "lower", "upper")
    one = member(kind, given if hasattr(given, "dtype") else array_of(kind, "A", given))
    shape = tuple(one.shape)
    square = len(shape) == 2 and shape[0] == shape[1]
    if not square and (len(shape) != 2 or kind != "triangular"):
        needed = "matrix" if kind == "triangular" else "square matrix"
        raise ShapeError(f"{kind}: A is {shape_text(shape)}; a {needed} is needed.")
    if unit_diagonal and one.dtype == np.float16:
        raise ShapeError(f"{kind}: unit_diagonal of float16 is not possible; convert A (astype).")
    core = _core.structured_array(core_of(one), kind, uplo == "lower", unit_diagonal)

    def told() -> list[Any]:
        kept = identity(one) if isinstance(one, Array) else told_values(one)
        return [kind, kept, uplo, unit_diagonal]

    made = lazy_array(core, Lazy(f"the {uplo} triangle of a matrix, {kind}", (one,), "structured", told))
    derived(made)[_SEEN] = [kind, uplo]
    return made


@opener("structured")
def _again(kind: str, told: dict[str, Any], uplo: str, unit_diagonal: bool) -> Array:
    return _structured(kind, operand("a member", told), uplo, unit_diagonal)
