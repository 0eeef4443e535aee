"""Dense linear algebra on matrices that are larger than memory: products and norms."""

from ._linalg.matmul import matmul
from ._linalg.norms import matrix_norm, vector_norm

__all__ = ["matmul", "matrix_norm", "vector_norm"]
