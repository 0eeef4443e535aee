"""Dense linear algebra of matrices that are larger than memory."""

from ._linalg.cholesky import cholesky
from ._linalg.matmul import matmul
from ._linalg.solve import cho_solve, solve, solve_triangular

__all__ = ["cho_solve", "cholesky", "matmul", "solve", "solve_triangular"]
