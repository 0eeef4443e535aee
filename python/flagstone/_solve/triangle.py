"""What follows from a triangle R of [1 A b]: solutions, standard errors, the ridge path.

R = U S Vᴴ gives for every ridge value λ x = V S/(S² + λ) Uᴴz, Σ s²/(s² + λ) degrees of freedom, and
RSS = ρ² + Σ |λ/(s² + λ) uᴴz|² (Golub, Heath and Wahba 1979 for GCV).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import NumericalError

__all__ = ["Triangle", "from_gram", "rank_of", "spectral_fit"]


def spectral_fit(
    u: NDArray[Any], s: NDArray[Any], vh: NDArray[Any], z: NDArray[Any], beyond: NDArray[Any], m: int,
    more: int, ridge: Sequence[float], rank: int,
) -> dict[str, Any]:  # fmt: skip
    """Return solutions for all ridge values.

    `z`: right-hand sides in the basis that `u` is in; `beyond`: squared lengths of what lies outside of it;
    `more`: degrees of freedom beside those of the singular values; `rank`: how many of these count.
    """
    s, real = s.astype(np.float64), s.dtype
    kept, v = s[:rank], vh[:rank].conj().T
    projected = u.conj().T @ z
    square = np.abs(projected).astype(np.float64) ** 2
    lost = beyond + square[rank:].sum(axis=0)
    fit: dict[str, list[Any]] = {
        name: [] for name in ("x", "residuals", "stderr", "degrees_of_freedom", "gcv", "spread", "sigma2")
    }
    for value in ridge:
        damped = kept / (kept**2 + value) if value else 1 / kept
        rss = lost + ((value / (kept**2 + value)) ** 2 @ square[:rank] if value else 0.0)
        df = float((kept * damped).sum()) + more
        with np.errstate(divide="ignore", invalid="ignore"):
            sigma2 = rss / (m - df) if m > df else np.full_like(rss, np.nan)
            gcv = m * rss / (m - df) ** 2 if m > df else np.full_like(rss, np.nan)
        spread = (np.abs(v).astype(np.float64) ** 2) @ damped**2  # the diagonal of the covariance ÷ σ²
        fit["x"].append(v @ (damped.astype(real)[:, None] * projected[:rank]))
        fit["residuals"].append(rss.astype(real))
        fit["stderr"].append(np.sqrt(spread[:, None] * sigma2[None, :]).astype(real))
        fit["degrees_of_freedom"].append(df)
        fit["gcv"].append(gcv.astype(real))
        fit["spread"].append(v * damped.astype(real)[None, :])
        fit["sigma2"].append(sigma2)
    made: dict[str, Any] = {
        name: np.array(values) for name, values in fit.items() if name not in ("spread", "sigma2")
    }
    return made | {
        "spread": fit["spread"],
        "sigma2": fit["sigma2"],
        "rank": rank,
        "singular_values": s.astype(real),
    }


def rank_of(s: NDArray[Any], rcond: float) -> int:
    """Return how many singular values count, as NumPy does."""
    return int(np.count_nonzero(s > rcond * s[0])) if s.size else 0


def from_gram(gram: NDArray[Any], known: int) -> NDArray[Any]:
    """Return R of the Gram matrix of [A b], of which the first `known` columns are A's."""
    try:
        lower = np.linalg.cholesky(gram[:known, :known])
    except np.linalg.LinAlgError:
        raise NumericalError(
            "lstsq: the normal equations are not positive definite in this precision; leave method out, the "
            "QR takes any matrix."
        ) from None
    r = np.zeros_like(gram)
    r[:known, :known] = lower.conj().T
    r[:known, known:] = z = np.linalg.solve(lower, gram[:known, known:])
    left = np.diagonal(gram)[known:].real - (np.abs(z) ** 2).sum(axis=0)
    r[range(known, len(r)), range(known, len(r))] = np.sqrt(np.maximum(left, 0))
    return r


class Triangle:
    """R of [1 A b], which may have fewer rows than columns."""

    def __init__(self, r: NDArray[Any], m: int, n: int, intercept: bool) -> None:
        first = int(intercept)
        width = r.shape[1]
        square = np.zeros((width, width), r.dtype)
        square[: r.shape[0]] = np.triu(r)
        self.m, self.intercept = m, intercept
        self.top = square[:first]  # the row of the intercept
        self.a = square[first : first + n, first : first + n]
        self.z = square[first : first + n, first + n :]
        rest = square[first + n :, first + n :]
        self.beyond = (np.abs(rest).astype(np.float64) ** 2).sum(axis=0)

    def fit(self, ridge: Sequence[float], rcond: float) -> dict[str, Any]:
        """Return everything for all ridge values."""
        n = self.a.shape[0]
        u, s, vh = np.linalg.svd(self.a)
        made = spectral_fit(
            u, s, vh, self.z, self.beyond, self.m, int(self.intercept), ridge, rank_of(s, rcond)
        )
        made["total"] = (np.abs(self.z).astype(np.float64) ** 2).sum(axis=0) + self.beyond
        if self.intercept:
            corner, across, z = self.top[0, 0], self.top[0, 1 : 1 + n], self.top[0, 1 + n :]
            made["intercept"] = np.array([(z - across @ x) / corner for x in made["x"]])
            made["intercept_stderr"] = np.array([
                np.sqrt(sigma2 * (1 + (np.abs(across @ spread) ** 2).sum())) / np.abs(corner)
                for spread, sigma2 in zip(made["spread"], made["sigma2"], strict=True)
            ])  # fmt: skip
        del made["spread"], made["sigma2"]
        return made
