"""Dense linear algebra on matrices that are larger than memory."""

from ._linalg.cholesky import cholesky
from ._linalg.factor import QrFactor, apply_q
from ._linalg.inverse import Slogdet, det, inv, slogdet
from ._linalg.lstsq import LstsqResult, lstsq
from ._linalg.lu import LuFactor, lu_factor, lu_solve
from ._linalg.matmul import matmul
from ._linalg.qr import QrResult, lq, open_factor, qr
from ._linalg.solve import cho_solve, solve, solve_triangular

__all__ = [
    "LstsqResult", "LuFactor", "QrFactor", "QrResult", "Slogdet", "apply_q", "cho_solve", "cholesky", "det",
    "inv", "lq", "lstsq", "lu_factor", "lu_solve", "matmul", "open_factor", "qr", "slogdet", "solve",
    "solve_triangular",
]  # fmt: skip
