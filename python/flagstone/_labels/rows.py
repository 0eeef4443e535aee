"""Points and their labels as sparse matrices by rows, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import by_rows, sparse_by_rows

__all__ = ["rows_of"]


def rows_of(call: Call, given: Any, name: str, what: str) -> SparseArray:
    """Return a matrix stored by rows: itself, or a copy in scratch of what is in memory, dense or turned."""
    if hasattr(given, "tocsr") and not isinstance(given, SparseArray):
        _check(call, given, name, what)
        return from_blocks([given])
    if not isinstance(given, (Array, SparseArray)):
        values = np.asarray(given)
        _check(call, values, name, what)
        return from_blocks([values])
    _check(call, given, name, what)
    if isinstance(given, Array):
        made: SparseArray = by_rows(call.who, given, call.memory)
        return made
    return sparse_by_rows(call.who, given, call.memory)


def _check(call: Call, given: Any, name: str, what: str) -> None:
    if len(given.shape) != 2 or np.dtype(given.dtype).kind not in "biuf":
        raise ShapeError(
            f"{call.who}: {name} is {shape_text(tuple(given.shape))} {given.dtype}; a matrix of real "
            f"numbers, {what}, is needed."
        )
    if given.shape[1] == 0:
        raise ShapeError(f"{call.who}: {name} is {shape_text(tuple(given.shape))}; a column is needed.")
