"""Dense linear algebra of matrices that are larger than memory."""

from ._linalg.cholesky import cholesky
from ._linalg.factor import QrFactor, apply_q
from ._linalg.lstsq import LstsqResult, lstsq
from ._linalg.matmul import matmul
from ._linalg.qr import QrResult, lq, open_factor, qr
from ._linalg.solve import cho_solve, solve, solve_triangular

__all__ = [
    "LstsqResult", "QrFactor", "QrResult", "apply_q", "cho_solve", "cholesky", "lq", "lstsq", "matmul",
    "open_factor", "qr", "solve", "solve_triangular",
]  # fmt: skip
