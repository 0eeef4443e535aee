"""fl.fold: any two functions, a fixed tree, lazy operands, axes, limits, exceptions as themselves."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples


@pytest.fixture
def stored(tmp_path):
    x = np.random.default_rng(0).standard_normal((700, 500))
    X = fl.create(tmp_path / "x.zarr", x.shape, x.dtype, chunks=(256, 128))
    X[...] = x
    return x, X


def first(block):
    return str(int(block[0, 0]))


def pair(left, right):
    return f"({left}+{right})"


def test_combine_need_not_commute_and_its_tree_is_fixed(tmp_path):
    """Blocks in C order, neighbours pairwise, an odd one goes up alone, whatever ends first."""
    names = np.arange(7.0)[:, None] * np.ones((1, 3))
    X = fl.from_numpy(names)
    expected = "(((0+1)+(2+3))+((4+5)+6))"
    for workers in (1, 2, 4):
        with fl.Runtime(workers=workers):
            found = fl.fold(lambda b: str(int(b[0, 0])), pair, X, block=(1, 3))
            assert found == expected
            assert (
                fl.fold(lambda b: str(int(b[0, 0])), pair, X, block=(1, 3), initial="i") == f"(i+{expected})"
            )


def test_blocks_of_two_dimensions_come_in_c_order():
    x = np.arange(12).reshape(4, 3)
    blocks = fl.fold(lambda b: [int(b[0, 0])], operator.add, x, block=(2, 2))
    assert blocks == [0, 2, 6, 8]
    columns = fl.fold(lambda b: [int(b[0, 0])], operator.add, fl.from_numpy(x).T, block=(2, 2))
    assert columns == [0, 6, 2, 8]


def test_several_operands_and_expressions_that_nobody_stores(stored):
    x, X = stored
    found = fl.fold(lambda a, b: np.vdot(a, b), operator.add, X, np.exp(X) - 1)
    np.testing.assert_allclose(found, np.vdot(x, np.exp(x) - 1), rtol=1e-12)
    assert fl.stats().bytes_written == 0
    # Chunks at the edges are stored whole.
    assert fl.stats().bytes_read == 3 * 256 * 4 * 128 * 8
    histogram = fl.fold(lambda b: np.histogram(b, 20, (-4, 4))[0], np.add, X)
    np.testing.assert_array_equal(histogram, np.histogram(x, 20, (-4, 4))[0])


@examples(40)
@given(
    shape=st.lists(st.integers(1, 9), min_size=0, max_size=3),
    axes=st.sets(st.integers(0, 2)),
    data=st.data(),
)
def test_axes_against_numpy(shape, axes, data):
    axis = tuple(a for a in axes if a < len(shape))
    block = tuple(data.draw(st.integers(1, 10)) for _ in shape)
    x = np.random.default_rng(len(shape)).integers(-99, 99, shape)
    found = fl.fold(lambda b: b.sum(axis, dtype="f8"), np.add, x, axis=axis, block=block, dtype="f8")
    np.testing.assert_array_equal(found, x.sum(axis, dtype="f8"))
    largest = fl.fold(lambda b: b.max(axis), np.maximum, x, axis=axis, block=block, initial=5)
    np.testing.assert_array_equal(largest, np.maximum(x.max(axis), 5))


def test_rows_whole_where_a_function_needs_them(stored):
    x, X = stored
    medians = fl.fold(lambda b: np.median(b, 1), np.add, X, axis=1, block=(64, 500))
    np.testing.assert_array_equal(medians, np.median(x, 1))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "complex64", "complex128"])
def test_every_dtype_arrives_as_it_is(dtype):
    x = (np.arange(40).reshape(8, 5) % 7).astype(dtype)
    seen = fl.fold(lambda b: {b.dtype}, operator.or_, fl.from_numpy(x))
    assert seen == {np.dtype(dtype)}
    np.testing.assert_array_equal(fl.fold(np.copy, np.add, x, axis=()), x)


def test_the_same_bits_for_every_limit_and_number_of_workers(isolated):
    bits = isolated("""
        import operator
        x = np.random.default_rng(1).standard_normal((3000, 2100)).astype("f4")
        X = fl.from_numpy(x, "x.zarr")
        del x
        result = []
        call = lambda **more: fl.fold(lambda b: float(b.sum()), operator.add, np.exp(X) * 3, **more)
        try:
            with fl.Runtime(workers=4):
                call(memory="1MiB")
        except fl.BudgetError as error:
            least = error.least
        for memory in (least, 2 * least, "2GiB"):
            for workers in (1, 2, 4):
                with fl.Runtime(workers=workers):
                    result.append(call(memory=memory).hex())
                    assert fl.stats().peak_memory <= fl.stats().memory
    """)
    assert len(bits) == 9
    assert len(set(bits)) == 1


def test_what_waits_is_charged(isolated):
    """A partial result of 8 MiB: the least limit grows by all that may wait, and holds."""
    small, large, peak = isolated("""
        X = fl.create("x.zarr", (64, 1024, 128), "f8", chunks=(4, 1024, 128))
        X[...] = 1.5
        def least(**more):
            try:
                fl.fold(lambda b: b.sum(0), np.add, X, memory="1MiB", **more)
            except fl.BudgetError as error:
                return error.least
        size = 1024 * 128 * 8
        few, many = least(), least(partial=size)
        with fl.Runtime(workers=2):
            assert (fl.fold(lambda b: b.sum(0), np.add, X, partial=size, memory=many) == 96).all()
        result = few, many, fl.stats().peak_memory
    """)
    assert small + (8 << 20) < large
    assert peak <= large


def test_exceptions_leave_as_themselves_and_say_where(stored):
    _, X = stored

    def picky(block):
        raise KeyError("no")

    with pytest.raises(KeyError) as caught:
        fl.fold(picky, operator.add, X)
    assert any("in task 'picky' (block " in note for note in caught.value.__notes__)

    def sour(left, right):
        raise ZeroDivisionError("combine")

    with pytest.raises(ZeroDivisionError, match="combine"):
        fl.fold(np.sum, sour, X, block=(256, 128))


def test_nothing_to_fold():
    empty = fl.from_numpy(np.empty((0, 3)))
    with pytest.raises(fl.ShapeError, match="no elements"):
        fl.fold(np.sum, operator.add, empty)
    assert fl.fold(np.sum, operator.add, empty, initial=7) == 7
    np.testing.assert_array_equal(fl.fold(np.sum, np.add, empty, axis=0, initial=7), [7, 7, 7])
    assert fl.fold(lambda b: b.sum(1), np.add, empty, axis=1).shape == (0,)
    assert fl.fold(float, operator.add, np.float64(3)) == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X: fl.fold(3, np.add, X), TypeError, "function is int"),
        (lambda X: fl.fold(np.sum, X, X), TypeError, "combine is Array"),
        (lambda X: fl.fold(np.sum, np.add), TypeError, "at least one"),
        (lambda X: fl.fold(np.sum, np.add, "x.zarr"), TypeError, "str was given"),
        (lambda X: fl.fold(np.sum, np.add, X, X[:3]), fl.ShapeError, "must be equal"),
        (lambda X: fl.fold(np.sum, np.add, X, block=(3,)), fl.ShapeError, "each dimension"),
        (lambda X: fl.fold(np.sum, np.add, X, axis=2), IndexError, "axis 2"),
        (lambda X: fl.fold(np.sum, np.add, X, dtype="f4"), TypeError, "goes with axis"),
        (lambda X: fl.fold(np.sum, np.add, X, axis=0), fl.ShapeError, "along the axes that stay"),
        (lambda X: fl.fold(np.sum, np.add, X, scratch=-1), ValueError, "scratch"),
        (lambda X: fl.fold(np.sum, np.add, X, memory="1KiB"), fl.BudgetError, "fold: needs at least"),
        (lambda X: fl.fold(lambda b: b, lambda a, _: a, X, block=(256, 500)), fl.Error, "kept a view"),
    ],
)
def test_bad_input(stored, call, error, message):
    with pytest.raises(error, match=message):
        call(stored[1])


def test_the_plan_counts_one_read(stored):
    _, X = stored
    plan = fl.fold.plan(np.sum, operator.add, X)
    fl.fold(np.sum, operator.add, X)
    assert plan.bytes_read == fl.stats().bytes_read
    assert plan.bytes_written == 0
    assert plan.what == "fold 700 x 500 float64 by sum"
