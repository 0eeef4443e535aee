"""Products of integers and booleans, and of stacks of matrices: NumPy's bits, dtypes and broadcasting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.support.processes import stored

WHOLE = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
DTYPES = [*WHOLE, "float32", "float64", "complex128"]


def drawn(rng, shape, dtype, wrap=True):
    """Elements over all of the type's range, so that sums wrap; else small ones, whose sums are exact."""
    if dtype == "bool":
        return rng.random(shape) < 0.2
    if dtype[0] == "u" and not wrap:
        return rng.integers(0, 9, shape).astype(dtype)
    if np.dtype(dtype).kind in "iu" and wrap:
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return rng.integers(-8, 9, shape).astype(dtype)


def kept(x, kind, path):
    """As an operand: in memory, in files of both orders (matrices), in chunks, or an expression."""
    if kind == "memory" or x.size == 0:
        return x
    if x.ndim == 2 and kind in ("npy", "npy_f"):
        return stored(x, kind, path)
    if kind in ("npy", "npy_f"):
        np.save(path.with_suffix(".npy"), x)
        return fl.open(path.with_suffix(".npy"))
    chunks = tuple(max(1, -(-n // 2)) for n in x.shape)
    codec = "zstd:1" if kind == "packed" else "raw"
    array = fl.create(path.with_suffix(".zarr"), x.shape, x.dtype, chunks=chunks, codec=codec)
    array[...] = x
    return fl.where(array == array, array, array) if kind == "lazy" else array


KINDS = ["memory", "npy", "npy_f", "zarr", "packed", "lazy"]


@examples(40)
@given(data=st.data())
def test_products_are_numpys(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("product")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    m, k, n = (data.draw(st.integers(0, 40)) for _ in range(3))
    dtypes = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    lead = tuple(data.draw(st.lists(st.integers(0, 4), max_size=2)))
    leads = [
        tuple(1 if data.draw(st.booleans()) else n for n in lead)[data.draw(st.integers(0, 2)) :]
        for _ in "ab"
    ]
    shapes = [(*leads[0], m, k), (*leads[1], k, n)]
    for i in range(2):  # a vector
        if data.draw(st.integers(0, 5)) == 0:
            shapes[i] = (k,)
    wrap = np.result_type(*dtypes).kind in "biu"
    a, b = (drawn(rng, shape, dtype, wrap) for shape, dtype in zip(shapes, dtypes, strict=True))
    A, B = (kept(x, data.draw(st.sampled_from(KINDS)), folder / name) for x, name in ((a, "a"), (b, "b")))
    wanted = np.matmul(a, b)
    lazily = isinstance(A, np.ndarray) and isinstance(B, np.ndarray)
    got = fl.matmul(A, B) if lazily else A @ B
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(np.asarray(got), wanted)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", "bool"])
def test_several_ragged_tiles(tmp_path, rng, dtype):
    m, k, n = (2051, 70, 2060) if dtype == "int8" else (1030, 530, 40)
    a, b = drawn(rng, (k, m), dtype), drawn(rng, (k, n), dtype)
    product = fl.matmul(stored(a, "npy", tmp_path / "a").T, stored(b, "zarr_small", tmp_path / "b"))
    np.testing.assert_array_equal(product[...], a.T @ b)


def test_every_byte_but_0_is_true(tmp_path):
    bytes_of = np.array([[0, 255], [2, 0]], "u1")
    np.save(tmp_path / "mask.npy", bytes_of.view(bool))
    product = fl.open(tmp_path / "mask.npy") @ np.eye(2, dtype=bool)
    np.testing.assert_array_equal(np.asarray(product).view("u1"), [[0, 1], [1, 0]])


@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_scalars_and_out(tmp_path, rng, dtype):
    a, b, c = (drawn(rng, (3, 20, 20), dtype) for _ in range(3))
    out = fl.from_numpy(c, tmp_path / "c.zarr")
    fl.matmul(a, b, out=out, alpha=3, beta=-2)
    np.testing.assert_array_equal(out[...], (3 * (a @ b) - 2 * c).astype(dtype))
    fl.matmul(out, b, out=out)  # an operand, exchanged
    np.testing.assert_array_equal(out[...], (3 * (a @ b) - 2 * c).astype(dtype) @ b)
    into = np.ones((3, 20, 20), dtype)
    assert fl.matmul(a, b, out=into) is into
    np.testing.assert_array_equal(into, a @ b)
    product = fl.matmul(a, b, out=tmp_path / "c.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), product[...])
    vectors = np.zeros((3, 20), dtype)
    assert fl.matmul(fl.from_numpy(a), b[0, 0], out=vectors) is vectors
    np.testing.assert_array_equal(vectors, a @ b[0, 0])


def test_dot_is_numpys(tmp_path, rng):
    a, b, v = drawn(rng, (2, 5, 4), "int32"), drawn(rng, (4, 3), "int32"), drawn(rng, (4,), "int32")
    A = fl.from_numpy(a, tmp_path / "a.zarr")
    for other in (b, v, np.int32(3)):
        got = np.asarray(np.dot(A, other))
        np.testing.assert_array_equal(got, np.dot(a, other))
        np.testing.assert_array_equal(np.asarray(A.dot(other)), got)
    with pytest.raises(fl.ShapeError, match="flagstone.matmul multiplies stacks"):
        np.dot(A, np.ones((2, 4, 5), "i4"))


def test_a_stack_goes_into_an_array_of_one_chunk(tmp_path, rng):
    a, b = (rng.standard_normal((3, 400, 400)) for _ in range(2))
    out = fl.create(tmp_path / "c.zarr", (3, 400, 400), "float64", chunks=(3, 400, 400))
    fl.matmul(fl.from_numpy(a, tmp_path / "a.zarr"), b, out=out)
    np.testing.assert_allclose(out[...], a @ b, rtol=0, atol=400 * np.finfo(float).eps * 20)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3, 4), (3, 4, 5)), "A is a stack of 2 matrices and B of 3; extents must be equal, or 1"),
        (((2, 3, 4), (2, 5, 4)), r"A's columns must equal B's rows \(4, 5\)"),
    ],
)
def test_stacks_that_do_not_meet_are_refused(shapes, message):
    with pytest.raises(fl.ShapeError, match=message):
        fl.matmul(*(np.ones(shape, "i4") for shape in shapes))


def test_what_is_refused(tmp_path):
    ints = fl.from_numpy(np.ones((2, 2), "i4"), tmp_path / "a.zarr")
    deep = fl.from_numpy(np.ones((2, 2, 2), "i4"), tmp_path / "b.zarr")
    for call, message in [
        (
            lambda: fl.matmul(ints, ints, alpha=0.5),
            "alpha is 0.5 and the matrices are int32; give a whole number",
        ),
        (lambda: fl.matmul(ints > 0, ints > 0, alpha=2), "alpha is 2 and the matrices are bool; give 0 or 1"),
        (lambda: deep.T @ ints, "A is the view of 3 dimensions that reverses all of them"),
        (lambda: fl.matmul(deep, ints, out=np.ones((2, 2), "i4")), "product is 2 x 2 x 2"),
        (lambda: fl.from_numpy(np.arange(4)) @ 3, "matmul: B is a number; a matrix or a vector is needed"),
        (lambda: fl.matmul(3, fl.from_numpy(np.arange(4))), "matmul: A is a number"),
        (lambda: fl.matmul(fl.from_numpy(np.arange(4)), np.float64(3)), "matmul: B is a number"),
        (lambda: fl.matmul(ints, 3), "matmul: B is a number"),
        (lambda: fl.matmul(fl.from_numpy(np.arange(4)), None), "matmul: B is NoneType"),
        (lambda: ints.astype("f2") @ ints.astype("f2"), "float16"),
    ]:
        with pytest.raises((fl.ShapeError, TypeError), match=message):
            call()


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        (((1500, 1100), (1100, 900)), "int32"),
        (((20, 30, 60, 50), (50, 70)), "float64"),
        (((3, 700, 50), (3, 50, 1100)), "int16"),
    ],
)
def test_the_same_bits_for_every_limit_and_what_plans_say(tmp_path, rng, shapes, dtype):
    a, b = (drawn(rng, shape, dtype) for shape in shapes)
    if dtype == "float64":
        a, b = a + rng.random(a.shape), b + rng.random(b.shape)
    A, B = fl.from_numpy(a, tmp_path / "a.zarr"), fl.from_numpy(b, tmp_path / "b.zarr")
    plan = fl.matmul.plan(A, B)
    assert plan.flops == 2 * np.prod(shapes[0][:-2]) * shapes[0][-2] * shapes[0][-1] * shapes[1][-1]
    results = []
    for tight, workers in ((False, 1), (False, 2), (True, 2)):
        with fl.Runtime(workers=workers):
            memory = None
            if tight:
                with pytest.raises(fl.BudgetError) as refused:
                    fl.matmul(A, B, memory=1 << 20)
                memory = refused.value.least
            results.append(np.asarray(fl.matmul(A, B, memory=memory)).copy())
    for one in results[1:]:
        np.testing.assert_array_equal(one, results[0])
    if dtype == "float64":
        k = shapes[0][-1]
        bound = 2 * k * np.finfo("f8").eps * (np.abs(a) @ np.abs(b))
        assert (np.abs(results[0] - a @ b) <= bound).all()
    else:
        np.testing.assert_array_equal(results[0], a @ b)
