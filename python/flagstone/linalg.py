"""Dense linear algebra on matrices that are larger than memory."""

from ._linalg.factor import QrFactor, apply_q
from ._linalg.lstsq import LstsqResult, lstsq
from ._linalg.matmul import matmul
from ._linalg.qr import QrResult, lq, open_factor, qr

__all__ = [
    "LstsqResult", "QrFactor", "QrResult", "apply_q", "lq", "lstsq", "matmul", "open_factor", "qr",
]  # fmt: skip
