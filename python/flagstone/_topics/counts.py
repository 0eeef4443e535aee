"""Documents of words, checked."""

from __future__ import annotations

from typing import Any

from .._array.array import shape_text
from .._array.handle import is_transposed
from .._errors.classes import ShapeError
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import sparse_by_rows

__all__ = ["counts_of"]


def counts_of(call: Call, X: Any, name: str, words: int | None = None) -> tuple[SparseArray, bool]:
    """Return counts by documents, and whether they lie where they were given; `words`: columns they need."""
    if not isinstance(X, SparseArray) and not hasattr(X, "tocsr"):
        raise TypeError(
            f"{call.who}: {name} is {type(X).__name__}; a sparse matrix of documents x words is needed "
            "(fl.open, or SciPy's)."
        )
    if X.dtype.kind not in "biuf":
        raise ShapeError(f"{call.who}: {name} is {X.dtype}; counts are needed.")
    if len(X.shape) != 2 or 0 in X.shape:
        raise ShapeError(f"{call.who}: {name} is {shape_text(X.shape)}; documents and words are needed.")
    if words is not None and X.shape[1] != words:
        raise ShapeError(
            f"{call.who}: {name} is {shape_text(X.shape)} and the topics know {words} words; as many "
            "columns are needed."
        )
    given = X if isinstance(X, SparseArray) else from_blocks([X])
    made = sparse_by_rows(call.who, given, call.memory)
    call.on(made.path)
    return made, made is X and not is_transposed(X)
