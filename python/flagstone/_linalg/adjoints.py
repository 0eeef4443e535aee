"""Which products are of a matrix with its own transpose or adjoint, so that half of them is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array.array import Array
from .._array.handle import Operand, is_conjugated, is_transposed, owner_of
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._expression.program import ordered

__all__ = ["with_its_adjoint"]


def with_its_adjoint(a: Any, b: Any) -> tuple[bool, bool]:
    """Say whether b is a's transpose, and whether conjugated: of one file, or in one memory."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        turned = (
            a.ndim == 2 and a.dtype == b.dtype and a.shape == b.shape[::-1] and a.strides == b.strides[::-1]
            and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        )  # fmt: skip
        return bool(turned), a.dtype.kind != "c"
    if isinstance(a, Expression) and isinstance(b, Expression):
        return _with_its_lazy_adjoint(a, b)
    if not isinstance(a, Array) or not isinstance(b, Array):
        return False, False
    one = owner_of(a) is owner_of(b) or Operand.of(a).core.id == Operand.of(b).core.id
    turned = one and len(a.shape) == 2 and is_transposed(a) != is_transposed(b)
    return bool(turned), a.dtype.kind != "c" or is_conjugated(a) != is_conjugated(b)


def _with_its_lazy_adjoint(a: Expression, b: Expression) -> tuple[bool, bool]:
    if a.ndim != 2 or a.shape != b.shape[::-1] or a.dtype != b.dtype:
        return False, False
    conjugated = [x.verb == "conjugate" for x in (a, b)]
    plain = [x.args[0] if conj else x for x, conj in zip((a, b), conjugated, strict=True)]
    try:
        turned = _alike(plain[0].T, plain[1]) or _alike(plain[0], plain[1].T)
    except ShapeError:  # an Array of fewer dimensions is broadcast
        turned = False
    return turned, a.dtype.kind != "c" or conjugated[0] != conjugated[1]


def _alike(a: Expression, b: Expression) -> bool:
    """Say whether two expressions do the same with the same elements."""
    one, other = ordered(a), ordered(b)
    if len(one) != len(other):
        return False
    places = [{id(node): i for i, node in enumerate(nodes)} for nodes in (one, other)]
    for x, y in zip(one, other, strict=True):
        if (x.verb, x.dtype, x.shape) != (y.verb, y.dtype, y.shape):
            return False
        if x.verb in ("leaf", "constant"):
            if not _same_leaf(x.payload, y.payload):
                return False
        elif [places[0][id(arg)] for arg in x.args] != [places[1][id(arg)] for arg in y.args]:
            return False
    return True


def _same_leaf(x: Any, y: Any) -> bool:
    if isinstance(x, Array) and isinstance(y, Array):
        one = owner_of(x) is owner_of(y)
        return one and (is_transposed(x), is_conjugated(x)) == (is_transposed(y), is_conjugated(y))
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.size > 1:
        return x.__array_interface__["data"] == y.__array_interface__["data"] and x.strides == y.strides
    return not isinstance(x, Array) and not isinstance(y, Array) and bool(np.array_equal(x, y))
