"""Operands of every dtype, shape and place for the array-API part, and agreement with array-api-strict."""

from __future__ import annotations

import itertools
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import strategies as st

import flagstone as fl

xp = pytest.importorskip("array_api_strict")
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
]  # fmt: skip
#: What rounds more than once: compared in units in the last place (each one's: docs/guide/elementwise.md).
ROUNDED = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "exp", "expm1", "hypot", "log",
    "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh",
}  # fmt: skip
ULP = 8
#: The oracle itself loses relative accuracy near 0: compared against the size of 1.
ABSOLUTE = {"expm1", "log1p", "log", "log2", "log10"}


def values(seed: int, shape: tuple[int, ...], dtype: str, tame: bool = False) -> np.ndarray:
    """Numbers of every size, both zeros, extremes, NaN and infinities (complex and `tame`: finite)."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    pick = np.asarray(rng.random(shape))
    if kind in "iu":
        info = np.iinfo(dtype)
        x = np.asarray(rng.integers(max(info.min, -9), 10, shape)).astype(dtype)
        if tame:
            return x
        return np.where(pick < 0.05, info.max, np.where(pick > 0.95, info.min, x)).astype(dtype)
    x = rng.standard_normal(shape) * (1 if tame else 10.0 ** rng.integers(-3, 3, shape))
    x = np.where(pick < 0.06, 0.0, x)
    if kind == "c":
        return np.asarray(x + 1j * np.where(pick > 0.9, 0.0, rng.standard_normal(shape))).astype(dtype)
    if not tame:
        specials = [
            np.nan,
            np.inf,
            -np.inf,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.0,
            np.finfo(dtype).max,
            np.finfo(dtype).tiny,
        ]
        x = np.where(pick > 0.8, rng.choice(specials, shape), x)
    return np.asarray(x).astype(dtype)


EXAMPLES = 25  # of every function; all of them some 20 s
counter = itertools.count()


def ours(x: np.ndarray, where: str, folder: Path):
    """`x` as an Array: in memory, or on disk in small chunks."""
    if where == "memory":
        return fl.from_numpy(x)
    if where == "fortran":
        return fl.from_numpy(np.array(x, order="F"))
    place = folder / f"x{next(counter) % 4}.{where}"  # few: they replace each other
    if where == "npy":
        return fl.from_numpy(x, place, overwrite=True)
    X = fl.create(place, x.shape, x.dtype, chunks=tuple(min(max(n, 1), 3) for n in x.shape), overwrite=True)
    X[...] = x
    return X


SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)
PLACES = st.sampled_from(["memory", "memory", "memory", "fortran", "zarr", "npy"])
SEEDS = st.integers(0, 2**32)


def theirs(call):
    """What array-api-strict gives, as an ndarray; None where the standard does not allow the dtypes."""
    try:
        result = call()
    except (TypeError, OverflowError):
        return None
    return np.asarray(result._array)


def agree(name: str, got, wanted: np.ndarray) -> None:
    got = np.asarray(got)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "c":
        eps = np.finfo(wanted.dtype).eps
        size = np.abs(wanted) + (1 if name in ABSOLUTE else 0)
        assert (np.abs(got - wanted) <= ULP * 2 * eps * size + 1e-300).all(), (got, wanted)
    elif wanted.dtype.kind == "f" and name in ROUNDED:
        info = np.finfo(wanted.dtype)
        np.testing.assert_allclose(
            got, wanted, rtol=ULP * info.eps, atol=ULP * float(info.smallest_subnormal), equal_nan=True
        )
    else:
        np.testing.assert_array_equal(got, wanted)
        if wanted.dtype.kind == "f" and name not in (
            "maximum",
            "minimum",
            "clip",
        ):  # these may give either zero
            known = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])


def allowed(name: str, *dtypes: str) -> bool:
    """Whether the standard has the function for these dtypes."""
    return (
        theirs(lambda: getattr(xp, name)(*(xp.ones((1,), dtype=getattr(xp, d)) for d in dtypes))) is not None
    )
