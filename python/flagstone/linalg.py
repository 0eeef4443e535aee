"""Dense linear algebra on matrices that are larger than memory: products, rank-k updates, norms."""

from ._linalg.matmul import matmul
from ._linalg.norms import matrix_norm, vector_norm
from ._linalg.products import diagonal, matrix_transpose, outer, tensordot, trace, vecdot
from ._linalg.rank_k import rank_2k_update, rank_k_update

__all__ = [
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_transpose",
    "outer",
    "rank_2k_update",
    "rank_k_update",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
