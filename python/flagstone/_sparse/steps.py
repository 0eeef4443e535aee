"""What a step of a lazy view makes of values, and which steps a stored triangle takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import ShapeError

__all__ = ["check_step", "part_of", "seen_dtype", "streamed"]


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


def check_step(path: str, kind: str, what: Any, both: dict[str, Any]) -> None:
    """Refuse a step of a view after which a stored triangle would stand for another matrix.

    `both`: the factors of rows and columns that come together.
    """
    equal = len(both) == 2 and np.array_equal(both["rows"], both["columns"])
    if (kind in ("rows", "columns") and not equal) or (kind, what) == ("part", "imag") or kind == "turn":
        who = "imag" if kind == "part" else "scale"
        raise ShapeError(
            f"{who}: '{path}' stores one triangle, and the result would not be symmetric; give equal "
            "factors of rows and columns, or write all elements with fl.convert(A, path, layout='csr')."
        )
