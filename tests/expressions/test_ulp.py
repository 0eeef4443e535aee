"""The largest error of every element-wise function, in units in the last place, against wider arithmetic.

The table of docs/guide/elementwise.md is the promise; these tests measure and hold the functions to it.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import flagstone as fl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "elementwise.md"
COLUMNS = ["float16", "float32", "float64", "complex64", "complex128"]
REAL = [
    "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh",
    "divide", "exp", "exp2", "expm1", "hypot", "log", "log10", "log1p", "log2", "multiply", "power",
    "reciprocal", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh",
]  # fmt: skip
COMPLEX = [
    "abs", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cos", "cosh", "divide",
    "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "multiply", "power", "reciprocal", "sin", "sinh",
    "sqrt", "square", "subtract", "tan", "tanh",
]  # fmt: skip
TWO = {"add", "arctan2", "divide", "hypot", "multiply", "power", "subtract"}
#: Always exact, so not in the table.
EXACT = [
    "absolute", "ceil", "copysign", "floor", "fmax", "fmin", "fmod", "maximum", "minimum", "negative", "rint",
    "sign", "trunc",
]  # fmt: skip
COUNT = 1 << 17

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no arithmetic wider than float64 here"),
]


def table() -> dict[tuple[str, str], float]:
    """The cells of the page's table."""
    rows = [line.strip("| \n").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {
        (name.strip(" `"), column): float(cell)
        for name, *cells in rows
        for column, cell in zip(COLUMNS, cells, strict=True)
        if cell.strip() not in ("", "-")
    }


def reals(dtype: str, two: bool) -> list[np.ndarray]:
    """Every float16; else random bits, the usual range, and neighbourhoods of 0, 1 and pi/2."""
    rng = np.random.default_rng(5)
    kind = np.dtype(dtype)
    if kind == np.float16 and not two:
        return [np.arange(1 << 16, dtype=np.uint16).view(np.float16)]
    bits = np.dtype(f"u{kind.itemsize}")

    def one() -> np.ndarray:
        any_bits = rng.integers(0, np.iinfo(bits).max, COUNT, bits, endpoint=True).view(kind)
        any_bits[np.isnan(any_bits)] = np.nan  # signalling ones are free to differ
        near = rng.standard_normal(COUNT) * 2.0 ** rng.integers(-40, 3, COUNT)
        usual = rng.uniform(-12, 12, COUNT)
        turns = np.pi / 2 * rng.integers(-1000, 1000, COUNT)
        return np.concatenate([any_bits, *(x.astype(kind) for x in (near, 1 + near, usual, turns))])

    return [one(), rng.permutation(one())] if two else [one()]


def complexes(dtype: str, two: bool) -> list[np.ndarray]:
    """Parts from 1e-6 to 10, both signs; not on the cuts."""
    rng = np.random.default_rng(6)
    made = []
    for _ in range(2 if two else 1):
        parts = rng.standard_normal((2, COUNT)) * 10.0 ** rng.uniform(-6, 0.5, (2, COUNT))
        made.append((parts[0] + 1j * parts[1]).astype(dtype))
    return made


def wider(name: str, operands: list[np.ndarray]) -> np.ndarray:
    """The same in arithmetic with at least 11 bits more."""
    if operands[0].dtype.kind == "f":
        with_more = np.float64 if operands[0].dtype.itemsize < 8 else np.longdouble
        return getattr(np, name)(*(x.astype(with_more) for x in operands))
    z = [x.astype(np.clongdouble) for x in operands]
    x, y = z[0].real, z[0].imag
    if name == "log1p":  # NumPy's own loses digits near 0
        size = np.abs(1 + z[0])
        real = np.where(size < 0.5, np.log(size), np.log1p(x * (2 + x) + y * y) / 2)
        return real + 1j * np.arctan2(y, 1 + x)
    if name == "expm1":
        return np.expm1(x) * np.cos(y) - 2 * np.sin(y / 2) ** 2 + 1j * (np.exp(x) * np.sin(y))
    two, ten = np.log(np.longdouble(2)), np.log(np.longdouble(10))
    special = {
        "exp2": lambda: np.exp(z[0] * two),
        "log2": lambda: np.log(z[0]) / two,
        "log10": lambda: np.log(z[0]) / ten,
    }
    return special[name]() if name in special else getattr(np, name)(*z)


def units(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest |got - exact| in units in the last place of the exact result (complex: of its size)."""
    real = np.dtype(f"f{got.dtype.itemsize // (2 if got.dtype.kind == 'c' else 1)}")
    info = np.finfo(real)
    size = np.abs(exact)
    largest = size.dtype.type(info.max)
    inside = np.isfinite(exact) & (size <= largest)
    outside = ~inside & ~np.isnan(exact)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
        assert (np.abs(got[outside]) >= info.max).all()
    _, exponent = np.frexp(np.maximum(size[inside], size.dtype.type(info.tiny)))
    unit = np.ldexp(size.dtype.type(1), exponent - info.nmant - 1)
    difference = (
        np.where(np.isinf(got[inside]), np.sign(got[inside].real) * largest, got[inside]) - exact[inside]
    )
    return float((np.abs(difference) / unit).max(initial=0))


def measured(name: str, dtype: str) -> float:
    operands = (complexes if dtype.startswith("c") else reals)(dtype, name in TWO)
    got = np.asarray(getattr(fl, name)(*(fl.from_numpy(x) for x in operands)))
    return units(got, wider(name, operands))


def cells() -> list[tuple[str, str]]:
    return [(n, c) for c in COLUMNS for n in (COMPLEX if c.startswith("c") else REAL)]


def test_the_table_has_every_function():
    assert set(table()) == set(cells())


@pytest.mark.parametrize(("name", "dtype"), cells())
def test_errors_are_those_of_the_table(name, dtype):
    assert measured(name, dtype) <= table()[name, dtype]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_exact_functions_are_exact(name, dtype):
    operands = reals(dtype, name in ("copysign", "fmax", "fmin", "fmod", "maximum", "minimum"))
    got = np.asarray(getattr(np, name)(*(fl.from_numpy(x) for x in operands)))
    np.testing.assert_array_equal(got, getattr(np, name)(*operands))


@functools.cache
def _all() -> dict[tuple[str, str], float]:
    return {cell: measured(*cell) for cell in cells()}


if __name__ == "__main__":  # prints what was measured, for the table
    for name in sorted({*REAL, *COMPLEX}):
        print(f"| `{name}` |", " | ".join(f"{_all().get((name, c), -1):.3f}" for c in COLUMNS), "|")
