"""Points, weights and centers as the searches take them, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, is_transposed
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._resume.identity import identity
from .._runtime.arguments import array_of, numbers_of
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import sparse_by_rows

__all__ = [
    "METRICS",
    "Points",
    "centers_of",
    "dense_points",
    "neighbour_points",
    "points_of",
    "weights_of",
]

METRICS = ("euclidean", "cosine", "inner")  #: of neighbours


@dataclass
class Points:
    """A matrix whose rows are points, as the core reads it.

    Attributes
    ----------
    shape, dtype
        Of the matrix.
    dense : Operand or None
        It, where it is dense.
    sparse : SparseArray or None
        It by rows, where it is sparse.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dense: Operand | None = None
    sparse: SparseArray | None = None
    name: str = "X"  #: what the caller calls it
    turned: bool = False  #: stored by columns: `sparse` lies in scratch

    @property
    def paths(self) -> list[str]:
        """Where it lies on disk."""
        return self.dense.paths if self.dense is not None else [str(self._stored.path)]

    @property
    def identity(self) -> dict[str, Any]:
        """What tells it from another matrix, and how it is opened again."""
        return self.dense.identity if self.dense is not None else identity(self.sparse)

    @property
    def _stored(self) -> SparseArray:
        assert self.sparse is not None
        return self.sparse

    @property
    def nbytes(self) -> float:
        """Bytes of one read."""
        if self.dense is not None:
            return float(np.prod(self.shape)) * self.dtype.itemsize
        return float(self._stored.stored_bytes)

    @property
    def values(self) -> float:
        """How many values a pass multiplies."""
        return float(np.prod(self.shape)) if self.dense is not None else float(self._stored.stored_values)

    def input(self, who: str, weights: Operand | None = None, *, unit: bool = False) -> _core.PointsInput:
        """Return them as the core's clusters take them."""
        core = None if weights is None else weights.core
        if self.dense is not None:
            return _core.PointsInput(self.dense.core, self.dense.transposed, None, core, unit, who, self.name)
        return _core.PointsInput(None, False, self._stored.operand(), core, unit, who, self.name)


def points_of(call: Call, X: Any, name: str = "X") -> Points:
    """Return points, dense or sparse, checked."""
    if hasattr(X, "tocsr") and not isinstance(X, SparseArray):
        X = from_blocks([X])
    if not isinstance(X, SparseArray):
        dense = dense_points(call, X, name)
        return Points(dense.shape, dense.dtype, dense, name=name)
    _check(call, X, name)
    by_rows = sparse_by_rows(call.who, X, call.memory)
    return Points(tuple(X.shape), np.dtype(X.dtype), None, by_rows, name, is_transposed(X))


def dense_points(call: Call, X: Any, name: str = "X") -> Operand:
    """Return a dense matrix whose rows are points, as the core reads it."""
    if isinstance(X, SparseArray) or hasattr(X, "tocsr"):
        raise ShapeError(f"{call.who}: {name} is sparse; dense points are needed.")
    given = lazy_operand(call, X)
    if isinstance(given, Array):
        given.flush()
    else:
        given = array_of(call.who, name, given)
    _check(call, given, name)
    return Operand.matrix(call, given, name)


def neighbour_points(call: Call, Q: Any, X: Any, exclude_self: bool) -> tuple[Operand, Operand]:
    """Return queries and the points that they choose from: without X the queries themselves."""
    if exclude_self and X is not None:
        raise ShapeError(f"{call.who}: exclude_self is for Q with itself; leave X out, or exclude_self.")
    queries = dense_points(call, Q, "Q")
    return queries, queries if X is None else dense_points(call, X)


def _check(call: Call, given: Any, name: str) -> None:
    if len(given.shape) != 2 or np.dtype(given.dtype).kind not in "biuf":
        raise ShapeError(
            f"{call.who}: {name} is {shape_text(tuple(given.shape))} {given.dtype}; a matrix of real "
            "numbers, a point a row, is needed."
        )
    if 0 in given.shape:
        raise ShapeError(
            f"{call.who}: {name} is {shape_text(tuple(given.shape))}; a point and a coordinate are needed."
        )


def weights_of(call: Call, weights: Any, rows: int) -> Operand | None:
    """Return weights of points, on disk or in memory; their values are looked at where they are read."""
    if weights is None:
        return None
    if isinstance(weights, Array):
        weights.flush()
        made = Operand.of(weights)
    else:
        values = numbers_of(call.who, "weights", weights)
        if values.dtype.kind not in "biuf":
            raise TypeError(f"{call.who}: weights are {values.dtype}; real numbers are needed.")
        made = Operand.of(np.ascontiguousarray(values, np.float64))
    if made.shape != (rows,):
        raise ShapeError(
            f"{call.who}: weights are {shape_text(made.shape)} and X has {rows} rows; one for each is needed."
        )
    return made


def centers_of(call: Call, given: Any, columns: int) -> NDArray[np.float64]:
    """Return centers in memory, in float64."""
    if isinstance(given, SparseArray) or hasattr(given, "tocsr"):
        raise ShapeError(f"{call.who}: init is sparse; dense centers are needed (init.toarray()).")
    made = numbers_of(call.who, "init", given)
    if made.ndim != 2 or made.shape[1] != columns or not len(made) or made.dtype.kind not in "biuf":
        raise ShapeError(
            f"{call.who}: init is {shape_text(made.shape)} {made.dtype} and X has {columns} columns; real "
            "centers, one a row, with as many are needed."
        )
    made = np.ascontiguousarray(made, np.float64)
    if not np.isfinite(made).all():
        raise ShapeError(f"{call.who}: init holds NaN or Inf; give finite centers.")
    return made
