"""What a step of a lazy view makes of values, and after which steps a triangle still stands for the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["keep_symmetry", "part_of", "seen_dtype", "streamed"]


def streamed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which values are changed on the way in."""
    if dtype.kind == "c":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)


def seen_dtype(dtype: np.dtype[Any], kind: str, what: Any) -> np.dtype[Any]:
    """Return what values of a streamed dtype are after a step that is no cast."""
    single = dtype in (np.float32, np.complex64)
    if kind == "turn":
        return np.dtype(np.complex64 if single else np.complex128)
    if kind == "part" and what != "conj":
        return np.dtype(np.float32 if single else np.float64)
    return dtype


def part_of(values: NDArray[Any], part: str) -> NDArray[Any]:
    """Return the real or imaginary parts, the magnitudes or the conjugates of values."""
    if part in ("conj", "abs"):
        found: NDArray[Any] = np.conj(values) if part == "conj" else np.abs(values)
        return found
    return np.ascontiguousarray(getattr(values, part))


def keep_symmetry(steps: Sequence[tuple[str, Any]]) -> bool:
    """Say whether a symmetric (Hermitian) matrix is one after these steps: a triangle stands for it."""
    both = {kind: what for kind, what in steps if kind in ("rows", "columns")}
    equal = not both or (len(both) == 2 and np.array_equal(both["rows"], both["columns"]))
    return equal and all(kind != "turn" and not (kind == "part" and what == "imag") for kind, what in steps)
