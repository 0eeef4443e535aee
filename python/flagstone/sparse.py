"""Sparse matrices that stay on disk and stream by row panels."""

from ._sparse.array import SparseArray
from ._sparse.builder import from_blocks

__all__ = ["SparseArray", "from_blocks"]
