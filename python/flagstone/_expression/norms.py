"""Norms that are not computed yet: folds of one pass; squares neither overflow nor underflow."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._errors.classes import ShapeError
from .expression import Expression, as_expression, cast, from_ufunc
from .nan_functions import Combined

__all__ = ["matrix_norm", "norm", "symmetric_norm", "vector_norm"]

_FRO = ("fro", "f", None)


class _Norm(Combined):
    """A norm of what may be empty: nothing has norm 0, as in LAPACK."""

    def _of_nothing(self) -> Any:
        """Return the norms where there is no element."""
        value = np.zeros(self.shape, self.dtype)
        return value if value.shape else value[()]


class _LargestSum(_Norm):
    """The largest of the sums of absolute values along one axis of a matrix: 1-norm, infinity-norm."""

    def __init__(self, given: Expression, summed: int, kept: int, smallest: bool, keepdims: bool) -> None:
        sizes = from_ufunc(np.absolute, (given,))
        super().__init__(
            "matrix_norm", sizes, [(sizes, "sum")], lambda sums: self._chosen(sums), sizes.dtype, summed, True
        )
        self.kept_axis, self.smallest = kept, smallest
        axes = (summed, kept)
        self.shape = tuple(1 if d in axes else n for d, n in enumerate(given.shape))
        self.lasting = keepdims
        if not keepdims:
            self.shape = tuple(n for d, n in enumerate(given.shape) if d not in axes)
        if smallest and given.shape[kept] == 0:
            raise ShapeError("matrix_norm: the least sum of no rows or columns was asked for; give one.")
        self.summed = summed

    def _chosen(self, sums: Any) -> Any:
        best = (np.min if self.smallest else np.max)(sums, axis=self.kept_axis, keepdims=True)
        return best if self.lasting else best.reshape(self.shape)


def _floating(x: Any, who: str) -> Expression:
    """Return what a norm is taken of: whole numbers as float64."""
    given = as_expression(x, who)
    return cast(given, np.dtype(np.float64)) if given.dtype.kind in "biu" else given


def _euclidean(given: Expression, who: str, axis: Any, keepdims: bool) -> _Norm:
    folded: list[tuple[Expression, str]]
    make: Callable[..., Any] = lambda one: one  # noqa: E731 - one of two
    if given.dtype.kind == "c":
        folded, make = [(given.real, "norm"), (given.imag, "norm")], np.hypot
        return _Norm(who, given, folded, make, folded[0][0].dtype, axis, keepdims)
    return _Norm(who, given, [(given, "norm")], make, given.dtype, axis, keepdims)


def _power(given: Expression, ord: float, axis: Any, keepdims: bool) -> _Norm:
    """Return (sum |x|^ord)^(1/ord); of ord inf, -inf, 0 the largest, the smallest, how many are not 0."""
    sizes = from_ufunc(np.absolute, (given,))
    dtype = sizes.dtype
    if math.isinf(ord):
        fold = "max" if ord > 0 else "min"
        made = _Norm("vector_norm", sizes, [(sizes, fold)], lambda one: one, dtype, axis, keepdims)
        if ord < 0 and any(given.shape[d] == 0 for d in made.axes):
            raise ShapeError("vector_norm: the smallest of no elements was asked for; give one at least.")
        return made
    if ord == 0:
        there = from_ufunc(np.not_equal, (given, 0))
        return _Norm("vector_norm", given, [(there, "sum")], lambda one: one, dtype, axis, keepdims)
    if ord == 1:
        return _Norm("vector_norm", sizes, [(sizes, "sum")], lambda one: one, dtype, axis, keepdims)
    powers = from_ufunc(np.power, (sizes, ord))
    return _Norm(
        "vector_norm", powers, [(powers, "sum")], lambda one: np.power(one, 1 / ord), dtype, axis, keepdims
    )


def vector_norm(x: Any, axis: Any = None, keepdims: bool = False, ord: float = 2) -> _Norm:
    """Return norms of vectors along `axis`, pending until needed."""
    given = _floating(x, "vector_norm")
    if isinstance(ord, str) or not np.isscalar(ord) or np.iscomplexobj(ord) or ord != ord:
        raise ShapeError(f"vector_norm: ord is {ord!r}; a real number is needed (2, 1, fl.inf, ...).")
    if ord == 2:
        return _euclidean(given, "vector_norm", axis, keepdims)
    return _power(given, float(ord), axis, keepdims)


def matrix_norm(
    x: Any, keepdims: bool = False, ord: float | str | None = "fro", axis: tuple[int, int] | None = None
) -> _Norm:
    """Return norms of the matrices in two axes, by default the last two, pending until needed."""
    given = _floating(x, "matrix_norm")
    if given.ndim < 2:
        raise ShapeError(f"matrix_norm: x has {given.ndim} dimensions; two or more are needed.")
    rows, columns = (d % given.ndim for d in (axis or (-2, -1)))
    if ord in _FRO:
        return _euclidean(given, "matrix_norm", (rows, columns), keepdims)
    if ord == "max":
        sizes = from_ufunc(np.absolute, (given,))
        return _Norm(
            "matrix_norm", sizes, [(sizes, "max")], lambda one: one, sizes.dtype, (rows, columns), keepdims
        )
    if ord in (1, -1, math.inf, -math.inf):
        summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
        return _LargestSum(given, summed, kept, ord < 0, keepdims)
    raise ShapeError(
        f'matrix_norm: ord is {ord!r}; "fro", 1, -1, fl.inf, -fl.inf or "max" is needed (2: '
        "fl.linalg.matrix_norm, of one matrix)."
    )


class _LargestMirroredSum(_Norm):
    """1-norm and infinity-norm of a symmetric matrix: sums of both halves from one of them."""

    def __init__(self, triangle: Expression, strict: Expression, smallest: bool, keepdims: bool) -> None:
        sizes, beside = (from_ufunc(np.absolute, (one,)) for one in (triangle, strict))
        super().__init__(
            "matrix_norm", sizes, [(sizes, "sum"), (beside, "sum")], lambda rows, columns: rows + columns,
            sizes.dtype, None, False,
        )  # fmt: skip
        self.smallest, self.shape = smallest, (1, 1) if keepdims else ()

    def _reduced_of(self, part: int) -> list[bool]:
        """Return which dimensions a part is folded along: of rows, and of columns without the diagonal."""
        return [False, True] if part == 0 else [True, False]

    def _shape_of(self, part: int) -> tuple[int, ...]:
        """Return the shape of what a part gives."""
        return (self.source.shape[0],)

    def combine(self, values: list[Any]) -> Any:
        """Return the largest, or the least, of the sums of both."""
        sums = super().combine(values)
        best = np.asarray((np.min if self.smallest else np.max)(sums)).reshape(self.shape)
        return best if best.shape else best[()]


def symmetric_norm(
    triangle: Expression, strict: Expression, keepdims: bool, ord: float | str | None
) -> _Norm:
    """Return a norm of a symmetric or Hermitian matrix, from its triangle and the strict one.

    Both are zero elsewhere, and of one matrix, which is read once.
    """
    if ord in _FRO:
        folded = [triangle, strict]
        if triangle.dtype.kind == "c":
            folded = [triangle.real, triangle.imag, strict.real, strict.imag]
        return _Norm(
            "matrix_norm", triangle, [(part, "norm") for part in folded],
            lambda *parts: functools.reduce(np.hypot, parts), folded[0].dtype, None, keepdims,
        )  # fmt: skip
    if ord in (1, -1, math.inf, -math.inf):
        if ord < 0 and not triangle.size:
            raise ShapeError("matrix_norm: the least sum of no rows or columns was asked for; give one.")
        return _LargestMirroredSum(triangle, strict, ord < 0, keepdims)
    return matrix_norm(triangle, keepdims, ord)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> _Norm:
    """Return what ``np.linalg.norm`` does, pending until needed: of vectors or matrices."""
    ndim = len(x.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else None if axis is None else (axis,)
    if axes is None and (ord is None or ndim not in (1, 2)):
        if ord is not None:
            raise ValueError("Improper number of dimensions to norm.")
        return vector_norm(x, None, keepdims)
    axes = tuple(range(ndim)) if axes is None else axes
    if len(axes) == 1:
        return vector_norm(x, axes[0], keepdims, 2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    return matrix_norm(x, keepdims, ord, (axes[0], axes[1]))
