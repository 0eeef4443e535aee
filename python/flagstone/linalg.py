"""Dense products of matrices that are larger than memory."""

from ._linalg.matmul import matmul

__all__ = ["matmul"]
