"""Points and their labels as sparse matrices by rows, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._runtime.arguments import array_of
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import by_rows, sparse_by_rows

__all__ = ["rows_of"]


def rows_of(call: Call, given: Any, name: str, what: str, least: int = 0) -> SparseArray:
    """Return a matrix stored by rows: itself, or a copy in scratch of what is in memory, dense or turned."""
    in_memory = not isinstance(given, (Array, SparseArray))
    if in_memory and not hasattr(given, "tocsr"):
        given = array_of(call.who, name, given)
    _check(call, given, name, what, least)
    if in_memory:
        return from_blocks([given])
    if isinstance(given, Array):
        made: SparseArray = by_rows(call.who, given, call.memory)
        return made
    return sparse_by_rows(call.who, given, call.memory)


def _check(call: Call, given: Any, name: str, what: str, least: int) -> None:
    if len(given.shape) != 2 or np.dtype(given.dtype).kind not in "biuf":
        raise ShapeError(
            f"{call.who}: {name} is {shape_text(tuple(given.shape))} {given.dtype}; a matrix of real "
            f"numbers, {what}, is needed."
        )
    if given.shape[1] == 0 or given.shape[0] < least:
        needed = "a column" if given.shape[1] == 0 else "a row"
        raise ShapeError(f"{call.who}: {name} is {shape_text(tuple(given.shape))}; {needed} is needed.")
