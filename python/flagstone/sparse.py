"""Sparse matrices that stay on disk and stream by row panels."""

from ._sparse.array import SparseArray
from ._sparse.builder import from_blocks
from ._sparse_algebra.elementwise import above, add, concat, multiply, subtract, tril, triu

__all__ = ["SparseArray", "above", "add", "concat", "from_blocks", "multiply", "subtract", "tril", "triu"]
