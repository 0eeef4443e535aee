"""The array-API standard's linear algebra, its extension too, against array-api-strict."""

from __future__ import annotations

import numpy as np
import pytest

import flagstone as fl
from tests.expressions.test_array_api import excluded
from tests.support.array_api_oracle import agree, ours, values, xp

FLOATS = ["float32", "float64", "complex64", "complex128"]


def test_every_function_of_the_extension_is_here_or_excluded_with_a_reason():
    standard = {name for name in xp.linalg.__all__ if not name[0].isupper()}
    left_out = {name[7:] for name in excluded() if name.startswith("linalg.") and "[" not in name}
    here = {name for name in standard if hasattr(fl.linalg, name)}
    assert not here & left_out
    assert here | left_out == standard
    assert left_out <= standard


def close(found, wanted, dtype):
    found = np.asarray(found)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    few = np.finfo(dtype).eps * 100
    np.testing.assert_allclose(found, wanted, rtol=few, atol=100 * few)


@pytest.mark.parametrize("place", ["memory", "fortran", "npy", "zarr"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_matrices(tmp_path, dtype, place):
    for shape in [(5, 7), (1, 1), (7, 3), (0, 4)]:
        x = values(1, shape, dtype, tame=True)
        X = ours(x, place, tmp_path)
        strict = xp.asarray(x)
        agree("", fl.matrix_transpose(X), np.asarray(xp.matrix_transpose(strict)._array))
        assert fl.linalg.matrix_transpose is fl.matrix_transpose
        for offset in (0, 1, -2, 9, -9):
            wanted = np.asarray(xp.linalg.diagonal(strict, offset=offset)._array)
            agree("", fl.linalg.diagonal(X, offset=offset), wanted)
            agree("", fl.linalg.diagonal(X.T, offset=offset), np.diagonal(x.T, offset))
            close(
                fl.linalg.trace(X, offset=offset),
                np.asarray(xp.linalg.trace(strict, offset=offset)._array),
                dtype,
            )
        agree("", fl.linalg.diagonal(X * 2, offset=1), np.diagonal(x * 2, 1))


def test_a_long_diagonal_reads_the_chunks_that_it_crosses(tmp_path):
    x = np.arange(3000.0 * 2500).reshape(3000, 2500)
    X = fl.create(tmp_path / "x.zarr", x.shape, "float64", chunks=(300, 700))
    X[...] = x
    for offset in (0, 417, -1033):
        np.testing.assert_array_equal(
            np.asarray(fl.linalg.diagonal(X, offset=offset)), np.diagonal(x, offset)
        )
    assert fl.linalg.trace(X) == np.trace(x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_vectors(tmp_path, dtype):
    x, y = values(2, (9,), dtype, tame=True), values(3, (4,), dtype, tame=True)
    X, Y = ours(x, "npy", tmp_path), ours(y, "memory", tmp_path)
    agree("", fl.linalg.outer(X, Y), np.asarray(xp.linalg.outer(xp.asarray(x), xp.asarray(y))._array))
    agree("", fl.linalg.outer(X + 1, y), np.outer(x + 1, y))
    for one, other, axis in [
        ((3, 9), (9,), -1),
        ((3, 9), (3, 9), -2),
        ((2, 3, 4), (3, 4), -1),
        ((5,), (5,), 0),
    ]:
        a, b = values(4, one, dtype, tame=True), values(5, other, dtype, tame=True)
        A, B = ours(a, "zarr", tmp_path), ours(b, "memory", tmp_path)
        wanted = (
            np.asarray(xp.vecdot(xp.asarray(a), xp.asarray(b), axis=axis)._array)
            if axis < 0
            else np.vdot(a, b)
        )
        close(fl.vecdot(A, B, axis=axis), np.asarray(wanted), dtype)
    with pytest.raises(fl.ShapeError, match="3 and 4 elements; they must have as many"):
        fl.vecdot(np.ones(3), fl.asarray(np.ones(4)))
    with pytest.raises(fl.ShapeError, match="vectors are needed"):
        fl.linalg.outer(np.ones((3, 3)), Y)


@pytest.mark.parametrize(
    ("one", "other"),
    [((4,), (4,)), ((3, 4), (4,)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), ()), ((), (4,))],
)
def test_dot_is_numpys(tmp_path, one, other):
    a, b = values(4, one, "complex128", tame=True), values(5, other, "complex128", tame=True)
    for kind in ("zarr", "memory"):
        found = fl.dot(ours(a, kind, tmp_path) if one else a[()], b)
        close(found, np.dot(a, b), "complex128")
    close(fl.dot(a, ours(b, "memory", tmp_path) if other else b[()]), np.dot(a, b), "complex128")
    with pytest.raises(fl.ShapeError, match="dot: b is a stack"):
        fl.dot(np.ones((3, 4)), fl.asarray(np.ones((2, 4, 3))))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("one", "other", "axes"),
    [
        ((3, 4), (4, 5), 1), ((3, 4), (3, 4), 2), ((3,), (4,), 0), ((3, 4), (5,), 0), ((2, 3), (4, 5), 0),
        ((3, 4), (5, 4), ((1,), (1,))), ((4, 3), (4, 5), ((0,), (0,))), ((3, 4), (4, 3), ((0, 1), (1, 0))),
        ((4,), (4,), 1), ((3, 4), (4,), 1), ((2, 3, 4), (2, 3, 4), 3), ((3, 4), (3, 4), ((1, 0), (1, 0))),
    ],
)  # fmt: skip
def test_tensor_products(tmp_path, dtype, one, other, axes):
    a, b = values(6, one, dtype, tame=True), values(7, other, dtype, tame=True)
    wanted = np.asarray(xp.tensordot(xp.asarray(a), xp.asarray(b), axes=axes)._array)
    close(fl.tensordot(ours(a, "zarr", tmp_path), ours(b, "memory", tmp_path), axes=axes), wanted, dtype)


def test_what_tensordot_cannot_do_is_refused():
    a = fl.asarray(np.ones((2, 3, 4)))
    with pytest.raises(fl.ShapeError, match="matrices with one axis"):
        fl.tensordot(a, a, axes=((0,), (0,)))
    with pytest.raises(fl.ShapeError, match="same extents"):
        fl.tensordot(a, a, axes=1)
