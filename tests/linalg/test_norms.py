"""Norms against NumPy and LAPACK: every dtype and storage, extreme sizes, NaN and Inf, the same bits."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.linalg.lapack as lapack
import scipy.sparse

import flagstone as fl
from flagstone.linalg import matrix_norm, vector_norm
from tests.support.processes import beside

DTYPES = ["float32", "float64", "complex64", "complex128"]


def random(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def stored(x, kind, folder):
    if kind == "zarr":
        return fl.from_numpy(x, folder / "x.zarr", overwrite=True)
    if kind == "npy":
        np.save(folder / "x.npy", x)
        return fl.open(folder / "x.npy")
    if kind == "turned":
        np.save(folder / "y.npy", x.T.copy())
        return fl.open(folder / "y.npy").T
    return fl.from_numpy(x)


def bound(x) -> float:
    """SLATE's: 10 eps, once sqrt(m n) is taken out; here of the dtype of the result."""
    return 10 * float(np.finfo(x.dtype).eps)


@pytest.mark.parametrize("kind", ["memory", "zarr", "npy", "turned"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (7, 300), (1301, 733)])
def test_matrix_norms_are_lapacks(tmp_path, kind, dtype, shape):
    x = random(shape, dtype)
    X = stored(x, kind, tmp_path)
    wide = np.abs(x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble))
    for ord, wanted in [
        ("fro", np.sqrt((wide**2).sum())), (1, wide.sum(0).max()), (-1, wide.sum(0).min()),
        (math.inf, wide.sum(1).max()), (-math.inf, wide.sum(1).min()), ("max", wide.max()),
    ]:  # fmt: skip
        found = matrix_norm(X, ord=ord, memory="2GiB")
        assert found.dtype == x.real.dtype
        assert abs(float(found) - float(wanted)) <= bound(x) * float(wanted), ord
    if np.dtype(dtype).kind != "c":
        assert matrix_norm(X, ord="max") == np.abs(x).max()  # exactly


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-160, 1.0, 1e160, 1e200, 1e307])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_squares_neither_overflow_nor_underflow(dtype, scale, axis):
    x = random((40, 300), dtype, 3)
    x /= np.abs(x).max() * 20
    found = np.asarray(vector_norm(fl.from_numpy(x * scale), axis=axis))
    wanted = np.linalg.norm((x * scale).astype(np.clongdouble), axis=axis).astype(float)
    # Denormals have no more digits than their last place says.
    np.testing.assert_allclose(found, wanted, rtol=bound(x.real), atol=5e-324)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_numbers_of_all_sizes_meet_in_one_norm(order, axis):
    """What is large hides what is small, wherever either stands: in one block, in others, in other tiles."""
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [rng.uniform(1, 2, (300, 50)) * s for s in (0.0, 1e-320, 1e-200, 1e-125, 1.0, 1e150, 1e300)]
    )
    x = x[::order]
    for part in (x, x[: 300 * 4], x[-300 * 4 :], np.tile(x[::7], (30, 1)), x.T.copy()):
        found = np.asarray(vector_norm(fl.from_numpy(part), axis=axis))
        wanted = np.sqrt((part.astype(np.longdouble) ** 2).sum(axis)).astype(float)
        np.testing.assert_allclose(found, wanted, rtol=bound(x), atol=5e-324)


def test_float32_beyond_the_square_root_of_its_range():
    x = np.array([3e38, 1e-45, 3e-39] * 500, "float32")
    with np.errstate(over="ignore"):
        assert vector_norm(fl.from_numpy(x)) == np.inf  # the norm itself is outside
    y = np.array([3e-39, 4e-39], "float32")
    assert abs(float(vector_norm(fl.from_numpy(y))) - 5e-39) <= 1e-45


@pytest.mark.parametrize("ord", ["fro", 1, math.inf, "max"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_inf_are_lapacks(ord, dtype):
    """NaN anywhere gives NaN, Inf alone Inf; both at once either."""
    x = random((257, 130), dtype, 1)
    code = {"fro": "F", 1: "1", math.inf: "I", "max": "M"}[ord]
    lange = getattr(lapack, {"f": "slange", "d": "dlange", "F": "clange", "D": "zlange"}[x.dtype.char])
    rng = np.random.default_rng(2)
    for bad in ([np.nan], [np.inf], [-np.inf], [1e30], [np.nan, 3.0], [np.inf, -np.inf]):
        y = x.copy()
        for value in bad:
            y[rng.integers(257), rng.integers(130)] = value
        found, wanted = float(matrix_norm(fl.from_numpy(y), ord=ord)), lange(code, y)
        np.testing.assert_allclose(found, wanted, rtol=1e-4 if x.real.dtype == np.float32 else 1e-13)
    y[3, 5], y[200, 7] = np.nan, np.inf
    assert not math.isfinite(float(matrix_norm(fl.from_numpy(y), ord=ord)))


@pytest.mark.parametrize("ord", [2, 1, 0, 3, 0.5, math.inf, -math.inf, -1])
@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8"])
def test_vector_norms_along_any_axes(ord, axis, dtype):
    x = np.random.default_rng(5).integers(1, 100, (5, 6, 7)).astype(dtype)
    X = fl.from_numpy(x)
    for keepdims in (False, True):
        found = np.asarray(vector_norm(X, axis=axis, ord=ord, keepdims=keepdims))
        wanted = np.linalg.vector_norm(
            x.astype("float64") if x.dtype.kind == "i" else x, axis=axis, ord=ord, keepdims=keepdims
        )
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == "float32" else 1e-13)


def test_stacks_and_numpys_own_functions():
    x = random((3, 4, 5), "float64")
    X = fl.from_numpy(x)
    for ord in ("fro", 1, -1, np.inf, -np.inf):
        for keepdims in (False, True):
            wanted = np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims)
            np.testing.assert_allclose(matrix_norm(X, ord=ord, keepdims=keepdims), wanted, rtol=1e-14)
            np.testing.assert_allclose(
                np.linalg.matrix_norm(X, ord=ord, keepdims=keepdims), wanted, rtol=1e-14
            )
        np.testing.assert_allclose(
            np.linalg.norm(X, ord, axis=(2, 0)), np.linalg.norm(x, ord, axis=(2, 0)), rtol=1e-14
        )
    for options in ({}, {"axis": 1}, {"axis": (0, 1)}, {"axis": 2, "ord": 1}, {"axis": 0, "keepdims": True}):
        np.testing.assert_allclose(np.linalg.norm(X, **options), np.linalg.norm(x, **options), rtol=1e-14)
        if "axis" not in options or isinstance(options["axis"], int):
            np.testing.assert_allclose(
                np.linalg.vector_norm(X, **options), np.linalg.vector_norm(x, **options), rtol=1e-14
            )
    assert float(np.linalg.norm(X[0], 1)) == np.linalg.norm(x[0], 1)


def test_several_norms_take_one_pass(tmp_path):
    x = random((900, 700), "float64")
    X = stored(x, "npy", tmp_path)
    got = fl.compute(
        matrix_norm(X), matrix_norm(X, ord=1), vector_norm(X, axis=0), vector_norm(X - 1), memory=beside(900)
    )
    assert fl.stats().bytes_read <= 1.01 * x.nbytes
    for found, wanted in zip(
        got,
        (np.linalg.norm(x), np.linalg.norm(x, 1), np.linalg.norm(x, axis=0), np.linalg.norm(x - 1)),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_same_bits_for_every_limit_and_number_of_workers(tmp_path):
    X = stored(random((3000, 1100), "float64"), "npy", tmp_path)
    ways = [lambda: vector_norm(X), lambda: matrix_norm(X, ord=1), lambda: vector_norm(X, axis=0)]
    for way in ways:
        seen = set()
        for workers in (1, 2, 4):
            for room in (80, 2048):
                with fl.Runtime(workers=workers, memory=beside(room)):
                    seen.add(np.asarray(way()).tobytes())
        assert len(seen) == 1


def test_nothing_has_norm_0_and_refusals_say_why():
    for shape in ((0, 4), (4, 0), (0, 0)):
        X = fl.from_numpy(np.empty(shape))
        for ord in ("fro", "max", 1, np.inf):
            assert matrix_norm(X, ord=ord) == 0
        assert vector_norm(X) == 0
        assert np.asarray(vector_norm(X, axis=0)).tolist() == [0.0] * shape[1]
    X = fl.from_numpy(np.ones((3, 4)))
    with pytest.raises(fl.ShapeError, match=r"matrix_norm: ord is 'nuc'; .* is needed"):
        matrix_norm(X, ord="nuc")
    with pytest.raises(fl.ShapeError, match="1 dimensions; two or more"):
        matrix_norm(fl.from_numpy(np.ones(3)))
    with pytest.raises(fl.ShapeError, match="ord is 'fro'; a real number"):
        vector_norm(X, ord="fro")
    with pytest.raises(fl.ShapeError, match="smallest of no elements"):
        vector_norm(fl.from_numpy(np.empty(0)), ord=-np.inf)


def test_plan_counts_one_read(tmp_path):
    X = stored(random((2000, 900), "float64"), "npy", tmp_path)
    plan = matrix_norm.plan(X, ord=1, memory=beside(900))
    assert plan.bytes_read <= 1.01 * X.nbytes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isfinite(float(matrix_norm(X, ord=1, memory=beside(900))))


@pytest.mark.parametrize("kind", ["zarr", "turned"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_norms_are_largest_singular_values(tmp_path, kind, dtype):
    for shape in ((1, 1), (401, 133)):
        _is_two_norm(tmp_path, kind, dtype, shape)


def _is_two_norm(tmp_path, kind, dtype, shape):
    x = random(shape, dtype)
    wanted = np.linalg.norm(x.astype("c16" if np.dtype(dtype).kind == "c" else "f8"), 2)
    found = matrix_norm(stored(x, kind, tmp_path), ord=2)
    assert found.dtype == x.real.dtype
    assert abs(float(found) - wanted) <= max(1e-8, 10 * np.sqrt(min(shape)) * bound(x)) * wanted


def test_two_norms_where_they_go_and_what_they_refuse(tmp_path):
    x = random((400, 90), "float64")
    plan = matrix_norm.plan(x, ord=2, memory=beside(900))
    assert plan.passes > 1
    place = np.zeros((1, 1))
    assert matrix_norm(x, ord=2, keepdims=True, out=place) is place
    assert place[0, 0] == matrix_norm(fl.from_numpy(x), ord=2)  # the same bits from anywhere
    for values, wanted in ((np.zeros((0, 5)), 0.0), (np.zeros((30, 20)), 0.0), (np.eye(30), 1.0)):
        assert matrix_norm(values, ord=2) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(fl.ShapeError, match="one matrix"):
        matrix_norm(np.ones((2, 3, 4)), ord=2)
    with pytest.raises(fl.ShapeError, match="they must agree"):
        matrix_norm(x, ord=2, out=np.zeros(3))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-160, 1e-80, 1e80, 1e160, 1e200, 1e300])
def test_two_norms_neither_overflow_nor_underflow(dtype, scale):
    x = random((40, 7), dtype, 3) / 8
    wanted = np.linalg.norm(x, 2) * scale
    for given in (x * scale, fl.from_numpy(x * scale).T, fl.from_numpy(x) * scale):
        assert matrix_norm(given, ord=2) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_norms_of_nan_and_inf_are_as_the_other_norms(dtype):
    x = random((30, 20), dtype)
    for bad in (np.nan, np.inf, -np.inf):
        y = x.copy()
        y[3, 4] = bad
        np.testing.assert_equal(float(matrix_norm(y, ord=2)), float(matrix_norm(y, ord="max")))


def test_two_norms_of_sparse_matrices_are_scaled_too():
    x = scipy.sparse.random(60, 40, 0.2, format="csr", random_state=0)
    wanted = np.linalg.norm(x.toarray(), 2)
    for given, by in ((x, 1), (x * 1e200, 1e200), (x * 1e-200j, 1e-200)):
        assert matrix_norm(given, ord=2) / by == pytest.approx(wanted, rel=1e-10)


def flat(n: int):
    rng = np.random.default_rng(6)
    yield rng.standard_normal((n, n))
    yield rng.standard_normal((2 * n, n))
    yield np.diag(np.arange(1.0, n + 1))
    yield np.eye(n)
    second = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    yield second  # 2 + 2 cos(pi i / (n + 1))
    second[0, 0] = second[-1, -1] = 1
    yield second  # the Laplacian of a path
    yield np.diag(np.cos(np.pi / 2 * np.arange(n) / n))  # what the count is made for


@pytest.mark.parametrize("n", [90, 400])
def test_two_norms_take_no_more_passes_than_their_plan_states(tmp_path, n):
    for x in flat(n):
        X = stored(x, "npy", tmp_path)
        plan = matrix_norm.plan(X, ord=2)
        assert matrix_norm(X, ord=2) == pytest.approx(np.linalg.norm(x, 2), rel=1e-10)
        done = fl.stats()
        assert done.passes <= plan.most_passes < max(60, n / 2)
        assert done.what == plan.what
        assert done.bytes_read <= 1.01 * done.passes * X.nbytes + 2**16 * done.passes


def test_the_two_norm_of_a_large_tridiagonal_matrix_is_found():
    n = 1000
    x = scipy.sparse.diags([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1], format="csr")
    assert matrix_norm(x, ord=2) == pytest.approx(2 + 2 * np.cos(np.pi / (n + 1)), rel=1e-12)


@pytest.mark.parametrize("scale", [1, 1e-200])
def test_two_norms_of_values_too_close_say_what_to_do(scale):
    x = fl.from_blocks([scipy.sparse.diags(scale * (1 - (np.arange(300) / 300) ** 4), format="csr")])
    reads = matrix_norm.plan(x, ord=2).most_passes - 2  # of the magnitude, and the one that measures
    with pytest.raises(
        fl.ConvergenceError, match=rf"told apart in {reads} reads; take svds\(x, 1\)"
    ) as caught:
        matrix_norm(x, ord=2)
    assert scale * (1 - 1e-4) <= caught.value.partial <= scale * (1 + 1e-12)
    assert "maxiter" not in str(caught.value)


def test_two_norms_of_a_known_spectrum_take_the_planned_passes(tmp_path):
    rng = np.random.default_rng(7)
    q = np.linalg.qr(rng.standard_normal((500, 300)))[0]
    X = stored(q * np.arange(1, 301.0) ** -0.5, "npy", tmp_path)
    plan = matrix_norm.plan(X, ord=2)
    assert matrix_norm(X, ord=2) == pytest.approx(1, rel=1e-12)
    assert fl.stats().passes <= plan.passes


@pytest.mark.parametrize("ord", ["max", 2, "fro", 1])
def test_of_nothing_nothing_is_read_and_stats_say_so(ord):
    fl.compute(fl.from_numpy(np.ones((5, 5))) + 1)
    empty = fl.from_numpy(np.zeros((0, 3)))
    plan = matrix_norm.plan(empty, ord=ord)
    assert matrix_norm(empty, ord=ord, memory="1GiB") == 0
    assert (fl.stats().what, fl.stats().passes, fl.stats().bytes_read) == (plan.what, plan.passes, 0)


@pytest.mark.parametrize("kind", ["symmetric", "hermitian"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("uplo", ["lower", "upper"])
def test_norms_of_a_mirrored_triangle(kind, dtype, uplo):
    rng = np.random.default_rng(5)
    a = rng.standard_normal((300, 300)).astype(dtype)
    if a.dtype.kind == "c":
        a += 1j * rng.standard_normal((300, 300))
    a[(np.triu_indices if uplo == "lower" else np.tril_indices)(300, 1 if uplo == "lower" else -1)] = np.nan
    seen = getattr(fl, kind)(fl.from_numpy(a), uplo)
    whole = np.asarray(seen).astype(np.result_type(dtype, "f8"))
    for ord in ("fro", 1, -1, np.inf, -np.inf, "max"):
        mine = fl.linalg.matrix_norm(seen, ord=ord)
        theirs = np.abs(whole).max() if ord == "max" else np.linalg.norm(whole, ord)
        assert abs(float(mine) - theirs) <= 300 * np.finfo(dtype).eps * theirs
        assert np.shape(np.asarray(fl.linalg.matrix_norm(seen, ord=ord, keepdims=True))) == (1, 1)
    assert float(fl.linalg.matrix_norm(fl.symmetric(np.ones((0, 0))), ord=1)) == 0


def test_one_read_of_a_triangle_gives_the_norms(tmp_path):
    n, edge = 4096, 256
    stored = fl.create(str(tmp_path / "a.zarr"), (n, n), "float64", chunks=(edge, edge))
    for i in range(0, n, edge):
        stored[i : i + edge] = np.random.default_rng(i).standard_normal((edge, n))
    stored.flush()
    triangle = n * (n + 1) // 2 * 8
    for ord in ("fro", 1, "max"):
        plan = fl.linalg.matrix_norm.plan(fl.symmetric(stored), ord=ord)
        fl.linalg.matrix_norm(fl.symmetric(stored), ord=ord, memory=beside(900))
        assert fl.stats().bytes_read == plan.bytes_read <= 1.1 * triangle
