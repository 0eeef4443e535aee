"""Documents of words, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, is_transposed
from .._errors.classes import ShapeError
from .._expression.expression import Expression
from .._expression.operand import lazy_operand
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import sparse_by_rows

__all__ = ["Documents", "counts_of", "documents_of", "is_dense"]


@dataclass
class Documents:
    """Counts as passes with known topics read them: a sparse matrix, or a dense array."""

    sparse: SparseArray | None
    dense: Operand | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Documents, words."""
        return self.sparse.shape if self.sparse is not None else self.dense.shape  # type: ignore[union-attr]

    def core(self) -> _core.Documents:
        """Return them as the core reads them."""
        if self.sparse is not None:
            return _core.Documents(self.sparse.operand())
        assert self.dense is not None
        return _core.Documents(self.dense.core, self.dense.transposed)


def is_dense(X: Any) -> bool:
    """Say whether these are counts of every word, zeros too."""
    return isinstance(X, (Array, Expression, np.ndarray))


def documents_of(call: Call, X: Any, name: str, words: int) -> Documents:
    """Return documents of so many words; a dense array is read as it is."""
    if not is_dense(X):
        return Documents(counts_of(call, X, name, words)[0])
    given = lazy_operand(call, X)
    _check(call, given, name, words)
    made = Operand.matrix(call, given, name)
    call.on(*made.paths)
    return Documents(None, made)


def counts_of(call: Call, X: Any, name: str, words: int | None = None) -> tuple[SparseArray, bool]:
    """Return counts by documents, and whether they lie where they were given; `words`: columns they need."""
    if not isinstance(X, SparseArray) and not hasattr(X, "tocsr"):
        raise TypeError(
            f"{call.who}: {name} is {type(X).__name__}; a sparse matrix of documents x words is needed "
            "(fl.open, or SciPy's)."
        )
    _check(call, X, name, words)
    given = X if isinstance(X, SparseArray) else from_blocks([X])
    made = sparse_by_rows(call.who, given, call.memory)
    call.on(made.path)
    return made, made is X and not is_transposed(X)


def _check(call: Call, X: Any, name: str, words: int | None) -> None:
    if X.dtype.kind not in "biuf":
        raise ShapeError(f"{call.who}: {name} is {X.dtype}; counts are needed.")
    if len(X.shape) != 2 or 0 in X.shape:
        raise ShapeError(f"{call.who}: {name} is {shape_text(X.shape)}; documents and words are needed.")
    if words is not None and X.shape[1] != words:
        raise ShapeError(
            f"{call.who}: {name} is {shape_text(X.shape)} and the topics know {words} words; as many "
            "columns are needed."
        )
