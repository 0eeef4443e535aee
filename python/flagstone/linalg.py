"""Dense linear algebra of matrices that are larger than memory."""

from ._linalg.cholesky import cholesky
from ._linalg.inverse import Slogdet, det, inv, slogdet
from ._linalg.lu import LuFactor, lu_factor, lu_solve
from ._linalg.matmul import matmul
from ._linalg.solve import cho_solve, solve, solve_triangular

__all__ = [
    "LuFactor",
    "Slogdet",
    "cho_solve",
    "cholesky",
    "det",
    "inv",
    "lu_factor",
    "lu_solve",
    "matmul",
    "slogdet",
    "solve",
    "solve_triangular",
]
