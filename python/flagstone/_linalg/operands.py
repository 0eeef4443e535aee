"""What a product takes beside two matrices of one dtype: vectors, and operands in memory of another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._array.elementwise import Elementwise
from .._array.handle import is_transposed, values_of
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.expression import Expression, cast
from .._expression.reductions import Reduced
from .._runtime.arguments import unmasked
from .._runtime.call import Call

__all__ = ["Vectors", "as_factored", "dimensions", "promoted"]

_MULTIPLIED = ("f4", "f8", "c8", "c16")  # what BLAS multiplies


def dimensions(given: Any) -> int:
    """Return the number of dimensions of an operand; of what is no array, NumPy's."""
    return int(given.ndim if hasattr(given, "ndim") else np.ndim(given))


def promoted(call: Call, a: Any, b: Any) -> tuple[Any, Any]:
    """Return both in NumPy's dtype of the two where only what is in memory or lazy has to be converted."""
    a, b = (np.asarray(x) if isinstance(x, Reduced) else off_the_map(call, x) for x in (a, b))
    if any(isinstance(x, Expression) for x in (a, b)):
        a, b = _cast_lazily(a, b)
    if isinstance(a, Elementwise) and isinstance(b, Elementwise):
        return a, b
    pair: list[Any] = [x if isinstance(x, Elementwise) else np.asarray(unmasked(call.who, x)) for x in (a, b)]
    if any(x.dtype.kind not in "biufc" for x in pair):
        return a, b
    wanted = np.result_type(*(x.dtype for x in pair))
    if wanted not in [np.dtype(one) for one in _MULTIPLIED]:
        return a, b
    if any(x.dtype != wanted for x in pair if not isinstance(x, np.ndarray)):
        return a, b  # stored in another dtype: refused by name, where the shapes are
    for i, (name, x) in enumerate(zip("AB", pair, strict=True)):
        if x.dtype != wanted:
            call.room(f"{name} in {wanted}", x.size * wanted.itemsize)
            pair[i] = x.astype(wanted)
    return pair[0], pair[1]


def as_factored(call: Call, given: Any) -> Any:
    """Return an operand in memory in the dtype in which NumPy factors it: whole numbers as float64."""
    if isinstance(given, Array):
        return given
    values = np.asarray(unmasked(call.who, given))
    if values.dtype.kind not in "biu" and values.dtype != np.float16:
        return values
    call.room("the matrix in float64", values.size * 8)
    return values.astype(np.float64)


def _cast_lazily(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both with expressions converted to NumPy's dtype of the two, where that is multiplied."""
    if not all(hasattr(x, "dtype") and x.dtype.kind in "biufc" for x in (a, b)):
        return a, b
    wanted = np.result_type(a.dtype, b.dtype)
    if wanted not in [np.dtype(one) for one in _MULTIPLIED]:
        return a, b
    a, b = (cast(x, wanted) if isinstance(x, Expression) else x for x in (a, b))
    return a, b


class Vectors:
    """Two operands of which at least one is a vector, as matrices: a row, a column."""

    def __init__(self, call: Call, a: Any, b: Any) -> None:
        self.left, self.right = dimensions(a) == 1, dimensions(b) == 1
        a = self._loaded(call, a, "A")[None, :] if self.left else a
        b = self._loaded(call, b, "B")[:, None] if self.right else b
        self.a, self.b = promoted(call, a, b)

    @staticmethod
    def _loaded(call: Call, given: Any, name: str) -> NDArray[Any]:
        if isinstance(given, (Array, Expression)):
            call.room(f"the vector {name}", given.nbytes)
        return np.asarray(unmasked(call.who, given))

    def shape(self, of_product: tuple[int, ...]) -> tuple[int, ...]:
        """Return NumPy's shape of the product, without the dimensions that were added."""
        m, n = of_product
        return (*(() if self.left else (m,)), *(() if self.right else (n,)))

    def matrix(self, out: Any, dtype: Any) -> NDArray[Any]:
        """Return where the product goes, as a matrix: `out`, or new memory that is not touched yet."""
        m, n = self.a.shape[0], self.b.shape[1]
        if out is None:
            return np.empty((m, n), dtype)
        target = values_of(out) if isinstance(out, Array) and not is_transposed(out) else out
        if not isinstance(target, np.ndarray) or target.shape != self.shape((m, n)):
            given = shape_text(tuple(out.shape)) if hasattr(out, "shape") else type(out).__name__
            shape = shape_text(self.shape((m, n))) or "a number"
            raise ShapeError(
                f"matmul: out is {given} and the product with a vector is {shape}; give an ndarray of that "
                "shape, or leave out."
            )
        return target.reshape(m, n)  # adds dimensions of 1: the same memory
