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
from .._expression.expression import Expression, as_expression, cast
from .._expression.operand import as_array
from .._expression.reductions import Reduced
from .._runtime.arguments import array_of, unmasked
from .._runtime.call import Call

__all__ = ["Vectors", "as_factored", "dimensions", "one_matrix", "promoted"]

_MULTIPLIED = "fdFD?bhilqBHILQ"  # what BLAS multiplies, and what is exact


def dimensions(given: Any) -> int:
    """Return the number of dimensions of an operand; of what is no array, NumPy's."""
    return int(given.ndim if hasattr(given, "ndim") else np.ndim(given))


def _check_arrays(call: Call, a: Any, b: Any) -> None:
    for name, given in (("A", a), ("B", b)):
        if dimensions(given) > 0:
            continue
        if not _is_number(given):
            raise TypeError(f"{call.who}: {name} is {type(given).__name__}; a matrix or a vector is needed.")
        raise ShapeError(
            f"{call.who}: {name} is a number; a matrix or a vector is needed (* multiplies by a number)."
        )


def _is_number(given: Any) -> bool:
    return (given if hasattr(given, "dtype") else np.asarray(given)).dtype.kind in "biufc"


def promoted(call: Call, a: Any, b: Any) -> tuple[Any, Any]:
    """Return both in NumPy's dtype of the two: what is stored is converted where it is loaded."""
    _check_arrays(call, a, b)
    a, b = (np.asarray(x) if isinstance(x, Reduced) else off_the_map(call, x) for x in (a, b))
    pair: list[Any] = [x if isinstance(x, Elementwise) else np.asarray(unmasked(call.who, x)) for x in (a, b)]
    if any(x.dtype.kind not in "biufc" for x in pair):
        return a, b
    wanted = np.result_type(*(x.dtype for x in pair))
    if wanted.char not in _MULTIPLIED:
        return a, b
    for i, (name, x) in enumerate(zip("AB", pair, strict=True)):
        if x.dtype == wanted:
            continue
        if isinstance(x, np.ndarray):
            call.room(f"{name} in {wanted}", x.size * wanted.itemsize)
            pair[i] = x.astype(wanted)
        else:
            pair[i] = cast(as_expression(x, call.who), wanted)
    return pair[0], pair[1]


def one_matrix(who: str, name: str, given: Any) -> Any:
    """Return what is stored or computed as it is, all else as an ndarray; TypeError of several parts."""
    if hasattr(given, "_fields"):  # LuFactor, QrResult
        made = type(given).__name__
        raise TypeError(f"{who}: a {made}, of several parts, was given; a matrix is needed.")
    if hasattr(given, "dtype") and hasattr(given, "shape"):
        return unmasked(who, given)
    return array_of(who, name, given)


def as_factored(call: Call, given: Any) -> Any:
    """Return an operand in the dtype in which NumPy factors it: whole numbers as float64.

    What is on disk, or computed, is converted where it is loaded.
    """
    given = one_matrix(call.who, "the matrix", given)
    if isinstance(given, Array):
        if given.dtype.kind not in "biu" and given.dtype != np.float16:
            return given
        call.remark = f"the matrix is {given.dtype}, converted to float64 where it is loaded"
        return as_array(call, cast(as_expression(given, call.who), np.dtype(np.float64)))
    values = array_of(call.who, "the matrix", given)
    if values.dtype.kind not in "biu" and values.dtype != np.float16:
        return values
    call.room("the matrix in float64", values.size * 8)
    return values.astype(np.float64)


class Vectors:
    """Two operands of which at least one is a vector, as matrices: a row, a column."""

    def __init__(self, call: Call, a: Any, b: Any) -> None:
        _check_arrays(call, a, b)
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
        *lead, m, n = of_product
        return (*lead, *(() if self.left else (m,)), *(() if self.right else (n,)))

    def matrix(self, out: Any, dtype: Any) -> NDArray[Any]:
        """Return where the product goes, as a matrix: `out`, or new memory that is not touched yet."""
        # one of them is a vector: the other one alone may be a stack
        whole = (*self.a.shape[:-2], *self.b.shape[:-2], self.a.shape[-2], self.b.shape[-1])
        if out is None:
            return np.empty(whole, dtype)
        target = values_of(out) if isinstance(out, Array) and not is_transposed(out) else out
        if not isinstance(target, np.ndarray) or target.shape != self.shape(whole):
            given = shape_text(tuple(out.shape)) if hasattr(out, "shape") else type(out).__name__
            shape = shape_text(self.shape(whole)) or "a number"
            raise ShapeError(
                f"matmul: out is {given} and the product with a vector is {shape}; give an ndarray of that "
                "shape, or leave out."
            )
        return target.reshape(whole)  # adds dimensions of 1: the same memory
