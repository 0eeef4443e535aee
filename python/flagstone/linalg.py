"""Dense linear algebra on matrices that are larger than memory."""

from ._factor.cholesky import cholesky
from ._factor.lu import LuFactor, LuResult, lu, lu_factor
from ._factor.lu_solve import lu_solve
from ._factor.qr import QrResult, lq, open_factor, qr
from ._factor.reflectors import QrFactor, apply_q
from ._linalg.matmul import matmul
from ._linalg.norms import vector_norm
from ._linalg.products import diagonal, matrix_transpose, outer, tensordot, trace, vecdot
from ._linalg.rank_k import rank_2k_update, rank_k_update
from ._solve.condition import cond
from ._solve.inverse import Slogdet, det, inv, inv_diagonal, slogdet
from ._solve.least_squares import LstsqResult
from ._solve.lstsq import lstsq
from ._solve.matrix_norm import matrix_norm
from ._solve.solve import cho_solve, solve, solve_triangular
from ._spectral.eigsh import eigsh
from ._spectral.lobpcg import lobpcg
from ._spectral.result import EigshResult, SvdsResult
from ._spectral.svds import svds

__all__ = [
    "EigshResult", "LstsqResult", "LuFactor", "LuResult", "QrFactor", "QrResult", "Slogdet", "SvdsResult",
    "apply_q", "cho_solve", "cholesky", "cond", "det", "diagonal", "eigsh", "inv", "inv_diagonal",
    "lobpcg", "lq", "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_norm", "matrix_transpose",
    "open_factor", "outer", "qr", "rank_2k_update", "rank_k_update", "slogdet", "solve", "solve_triangular",
    "svds", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
