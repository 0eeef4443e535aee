"""Arrays of any dtype, shape and chunks."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import flagstone as fl

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


def values(shape, dtype, seed=0) -> np.ndarray:
    """Bits of any kind that are numbers of this dtype."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "fc":
        x = rng.standard_normal(shape)
        x = x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x
        return np.asarray(x).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 120, shape).astype(dtype)


def stored_as(x: np.ndarray, path, chunks) -> fl.Array:
    a = fl.create(str(path), x.shape, x.dtype, chunks)
    if x.size:
        a[...] = x
    return a


@st.composite
def shapes(draw):
    shape = tuple(draw(st.lists(st.integers(0, 40), min_size=0, max_size=4)))
    chunks = tuple(draw(st.integers(1, max(1, n + 3))) for n in shape)
    others = tuple(draw(st.integers(1, max(1, n + 3))) for n in shape)
    return shape, chunks, others
