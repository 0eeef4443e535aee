"""The array-API part against array-api-strict: products, conversions to numbers, indexing."""

from __future__ import annotations

import operator

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.array_api_oracle import (
    DTYPES,
    EXAMPLES,
    PLACES,
    SEEDS,
    SHAPES,
    ours,
    theirs,
    values,
    xp,
)
from tests.support.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# Products ---------------------------------------------------------------------------------------------------


@examples(4 * EXAMPLES)
@given(data=st.data())
def test_products_of_matrices_and_vectors(data, folder):
    """The dtypes that BLAS has; an operand of another one is promoted as NumPy does."""
    m, k, n = (data.draw(st.integers(0, 6)) for _ in range(3))
    left, right = data.draw(st.booleans()), data.draw(st.booleans())
    shapes = ((k,) if left else (m, k)), ((k,) if right else (k, n))
    wide = data.draw(st.sampled_from(["float32", "float64", "complex64", "complex128"]))
    other = data.draw(st.sampled_from([d for d in DTYPES[5:] if np.result_type(d, wide) == np.dtype(wide)]))
    a = values(data.draw(SEEDS), shapes[0], wide, tame=True)
    b = values(data.draw(SEEDS), shapes[1], other, tame=True)
    A, B = ours(a, data.draw(PLACES), folder), b
    if other == wide and data.draw(st.booleans()):
        B = ours(b, data.draw(PLACES), folder)
    wanted = a.astype(wide) @ b.astype(wide)
    got = fl.matmul(A, B) if data.draw(st.booleans()) else A @ B
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype == np.dtype(wide)
    size = np.abs(a) @ np.abs(b).astype("float64")
    eps = np.finfo(wide).eps
    assert (np.abs(np.asarray(got) - wanted) <= 4 * (k + 1) * eps * size).all()
    if other == wide and (strict := theirs(lambda: xp.asarray(a) @ xp.asarray(b))) is not None:
        assert (strict.shape, strict.dtype) == (got.shape, got.dtype)
    turned = (B if isinstance(B, np.ndarray) else b).T @ A.T  # ndarray's operator gives it to ours
    np.testing.assert_allclose(np.asarray(turned), wanted.T, rtol=1e-3 if eps > 1e-10 else 1e-9, atol=1e-3)


def test_what_products_do_not_take_is_refused_in_a_sentence(folder):
    half = ours(np.ones((2, 2), "float16"), "zarr", folder)
    small = ours(np.ones((2, 2), "float32"), "zarr", folder)
    for call, message in [
        (lambda: half @ half, "float16; float32, float64, complex64, complex128, integers or booleans"),
        (lambda: small @ np.ones(3, "float32"), r"A's columns must equal B's rows"),
        (
            lambda: fl.matmul(small, np.ones(2, "f4"), out=np.ones((2, 1), "f4")),
            "out is 2 x 1 and the product",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    into = np.zeros(2, "f4")
    assert fl.matmul(small, np.ones(2, "f4"), out=into) is into
    np.testing.assert_array_equal(into, [2, 2])
    assert fl.matmul.plan(small, np.ones(2, "f4")).flops == 8


# Conversions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["memory", "zarr", "npy"])
def test_what_has_no_dimensions_is_a_number(where, folder):
    for convert in (float, int, complex, bool, operator.index):
        for value in (np.array(3), np.array(0), np.array(2.5), np.array(True)):
            X = ours(value, where, folder)
            try:
                wanted = convert(xp.asarray(value))
            except TypeError:
                with pytest.raises(TypeError):
                    convert(X)
                continue
            assert convert(X) == convert(X + np.zeros((), value.dtype)) == wanted
    for shape in ((1,), (2, 3), (0,)):
        X = ours(np.ones(shape), where, folder)
        for convert in (float, int, complex, operator.index):
            with pytest.raises(TypeError, match="not one number"):
                convert(X)
        with pytest.raises(TypeError, match="the truth of an Array"):
            bool(X)


def test_a_mask_is_never_dropped(folder):
    masked = np.ma.masked_array(np.ones((2, 2)), [[True, False], [False, False]])
    X = ours(np.ones((2, 2)), "memory", folder)
    A = fl.from_blocks([np.ones((2, 2))])

    def assign():
        X[...] = masked

    for call in (lambda: X + masked, lambda: masked + X, lambda: fl.maximum(masked, X),
                 lambda: np.add(X, masked),
                 lambda: X @ masked, lambda: X @ masked[0], lambda: fl.matmul(masked, X), lambda: A @ masked,
                 lambda: A * masked, assign, lambda: fl.from_numpy(masked), lambda: fl.pca(masked, 1),
                 lambda: fl.compute(X * 2 + masked), lambda: fl.transpose(masked)):  # fmt: skip
        with pytest.raises(TypeError, match="mask"):
            call()


def test_squares_of_bool_have_numpys_dtype(folder):
    X = ours(np.array([True, False]), "memory", folder)
    for exponent in (1, 2, 3):
        assert (X**exponent).dtype == (np.array([True, False]) ** exponent).dtype
        np.testing.assert_array_equal(np.asarray(X**exponent), [1, 0])
    assert np.power(X, 2).dtype == np.power(np.array([True]), 2).dtype


# Indexing -------------------------------------------------------------------------------------------------


@examples(4 * EXAMPLES)
@given(data=st.data())
def test_parts_are_read_and_assigned(data, folder):
    dtype, shape = data.draw(st.sampled_from(DTYPES)), data.draw(SHAPES)
    x = values(data.draw(SEEDS), shape, dtype)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=False))
    X = ours(x.copy(), data.draw(PLACES), folder)
    full = key if isinstance(key, tuple) else (key,)
    if Ellipsis not in full and len(full) < x.ndim:
        full = (*full, ...)  # the standard asks for every dimension
    wanted = theirs(lambda: xp.asarray(x)[full])
    got = np.asarray(X[key])
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.asarray(fl.positive(X)[key]) if dtype != "bool" else got, wanted)
    new = values(data.draw(SEEDS), wanted.shape, dtype)
    y = xp.asarray(x.copy())
    y[full] = xp.asarray(new)
    X[key] = new
    np.testing.assert_array_equal(X[...], y._array)
