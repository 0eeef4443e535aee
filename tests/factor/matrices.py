"""Positive definite matrices of a known spectrum, and what a result may differ by."""

from __future__ import annotations

import numpy as np

RAGGED = [1, 2, 63, 257, 300, 515, 2061]  # beside tiles of 256, and of 512 (n = 2061: five, ragged)


def eps(dtype) -> float:
    return float(np.finfo(np.dtype(dtype)).eps)


def definite(rng, n: int, dtype, condition: float = 1e3) -> np.ndarray:
    """Hermitian, with eigenvalues from 1 to `condition`, by two reflections: dense, and signed."""
    dtype = np.dtype(dtype)
    a = np.diag(np.geomspace(1, condition, n)).astype(np.result_type(dtype, np.float64))
    for _ in range(2):
        v = rng.standard_normal(n) + (1j * rng.standard_normal(n) if dtype.kind == "c" else 0)
        v /= np.linalg.norm(v)
        a -= 2 * np.outer(v, v.conj() @ a)
        a -= 2 * np.outer(a @ v, v.conj())
    return ((a + a.conj().T) / 2).astype(dtype)


def norm1(a) -> float:
    return float(np.abs(a).sum(axis=0).max())


def solve_error(a, x, b) -> float:
    """‖b − a x‖₁ / (n ‖a‖₁ ‖x‖₁), in units of eps/2: SLATE's testers accept 50."""
    wide = np.result_type(a.dtype, np.float64)
    a, x, b = (y.astype(wide) for y in (a, x.reshape(len(a), -1), b.reshape(len(a), -1)))
    return norm1(b - a @ x) / (len(a) * norm1(a) * norm1(x))


def factor_error(a, lower) -> float:
    """‖a X − L (Lᴴ X)‖ / (n ‖a‖ ‖X‖) for ten columns X, in the widest precision."""
    wide = np.result_type(a.dtype, np.float64)
    a, lower = a.astype(wide), lower.astype(wide)
    x = np.random.default_rng(5).standard_normal((len(a), 10))
    return norm1(a @ x - lower @ (lower.conj().T @ x)) / (len(a) * norm1(a) * norm1(x))
