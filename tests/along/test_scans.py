"""Running sums, products and differences: NumPy's bits, whatever the chunks, the limit and the workers."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
DTYPES = ["?", "i1", "i4", "u2", "u8", "f2", "f4", "f8", "c8", "c16"]


def drawn(data, least: int = 0) -> np.ndarray:
    """An array of any dtype and shape, NaN and infinities among its numbers."""
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=least, max_side=9))
    return data.draw(hnp.arrays(data.draw(st.sampled_from(DTYPES)), shape))


def placed(data, values: np.ndarray) -> fl.Array:
    """The same in memory, in a file, in small chunks, transposed."""
    place = data.draw(st.sampled_from(["memory", "chunks", "transposed"]))
    if place == "memory":
        return fl.asarray(values)
    if place == "transposed":
        return fl.from_numpy(np.ascontiguousarray(values.T)).T
    chunks = tuple(data.draw(st.integers(1, max(1, n))) for n in values.shape)
    return fl.rechunk(values, chunks)


def same(found, wanted) -> None:
    assert isinstance(found, fl.Array)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(np.asarray(found), wanted)


def near(found, wanted, n: int) -> None:
    """Products of n complex numbers, of which NumPy rounds ac - bd once or thrice, as the processor has it.

    Each is within 2 sqrt(2) eps (Higham, *Accuracy and Stability*, lemma 3.5) where nothing nears overflow.
    """
    found = np.asarray(found)
    assert found.dtype == wanted.dtype
    limits = np.finfo(wanted.dtype)
    held = np.isfinite(wanted) & (np.abs(wanted) < np.sqrt(limits.max))
    bound = 4 * n * limits.eps * np.abs(wanted[held]) + limits.tiny
    assert np.all(np.abs(found[held] - wanted[held]) <= bound)
    assert not np.any(np.isfinite(found[np.isnan(wanted)]))


@examples(120)
@given(data=st.data(), name=st.sampled_from(["cumulative_sum", "cumulative_prod"]), initial=st.booleans())
def test_scans_are_numpys(data, name, initial):
    x = drawn(data)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    options = {"axis": axis, "include_initial": initial}
    found, wanted = getattr(fl, name)(placed(data, x), **options), getattr(np, name)(x, **options)
    if name == "cumulative_prod" and x.dtype.kind == "c":
        near(found, wanted, x.shape[axis])
    else:
        same(found, wanted)


@examples(60)
@given(data=st.data(), n=st.integers(0, 4))
def test_differences_are_numpys(data, n):
    x = drawn(data)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    same(fl.diff(placed(data, x), n, axis), np.diff(x, n, axis))


def test_numpys_functions_of_an_array_give_arrays(rng):
    x = rng.standard_normal((7, 5))
    A = fl.asarray(x)
    same(np.cumsum(A, 0), np.cumsum(x, 0))
    same(np.cumprod(A, axis=1), np.cumprod(x, axis=1))
    same(np.cumsum(A + 1, axis=0, dtype="f4"), np.cumsum(x + 1, axis=0, dtype="f4"))
    same(np.diff(A), np.diff(x))
    same(np.diff(A, 2, axis=0), np.diff(x, 2, axis=0))


def test_a_dtype_and_a_lazy_value(rng):
    x = rng.integers(0, 99, (50, 40))
    same(fl.cumulative_sum(fl.asarray(x), axis=1, dtype="f4"), np.cumulative_sum(x, axis=1, dtype="f4"))
    same(fl.cumulative_sum(fl.asarray(x) * 2 > 99, axis=0), np.cumulative_sum(x * 2 > 99, axis=0))
    same(fl.diff(fl.asarray(x) * 2), np.diff(x * 2))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_same_bits_whatever_the_limit_and_the_workers(isolated, workers, axis):
    found = isolated(
        """
        import hashlib
        x = np.random.default_rng(5).standard_normal((3000, 900)).astype("f4")
        A = fl.rechunk(x, (128, 200))
        wanted = [np.cumulative_sum(x, axis=axis), np.diff(x, axis=axis)]
        result = []
        for more in (56, 400):
            limit = fl._core.resident_bytes() + (more << 20)
            with fl.Runtime(memory=limit, workers=workers):
                for f, w in zip((fl.cumulative_sum, fl.diff), wanted):
                    result.append(bool(np.array_equal(np.asarray(f(A, axis=axis)), w)))
        """,
        workers=workers,
        axis=axis,
    )
    assert found == [True] * 4


def test_one_read_and_one_write(rng, tmp_path):
    x = rng.standard_normal((4096, 512))
    A = fl.from_numpy(x, tmp_path / "a.npy")
    for function, options in ((fl.cumulative_sum, {"axis": 0}), (fl.diff, {"axis": 0}), (fl.diff, {"n": 2})):
        plan = function.plan(A, **options, out=tmp_path / "out.npy")
        function(A, **options, out=tmp_path / "out.npy")
        done = fl.stats()
        assert plan.bytes_read == done.bytes_read
        assert plan.bytes_written == pytest.approx(done.bytes_written, rel=0.01)
        assert x.nbytes <= done.bytes_read < 1.01 * x.nbytes
        assert done.bytes_written < 1.01 * x.nbytes


def test_a_chunk_is_read_once_for_the_difference_with_the_next(rng, tmp_path):
    A = fl.rechunk(rng.standard_normal((2048, 1024)), (256, 256), codec="zstd:1")
    fl.diff(A, axis=0)
    stored = fl.stats().bytes_read
    fl.compute(A.sum())
    assert stored <= 1.02 * fl.stats().bytes_read


def test_out_may_be_the_operand(rng, tmp_path):
    x = rng.standard_normal((300, 20))
    A = fl.from_numpy(x, tmp_path / "a.zarr")
    A = fl.open(tmp_path / "a.zarr", mode="r+")
    assert fl.cumulative_sum(A, axis=0, out=A) is A
    np.testing.assert_array_equal(A[...], np.cumulative_sum(x, axis=0))
    into = np.empty((299, 20))
    fl.diff(fl.asarray(x), axis=0, out=into)
    np.testing.assert_array_equal(into, np.diff(x, axis=0))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda A: fl.cumulative_sum(A), "2 x 3; say along which axis"),
        (lambda A: fl.cumulative_sum(A, axis=2), "axis 2 is out of bounds"),
        (lambda A: fl.cumulative_sum(A, axis=0.5), "an integer is needed"),
        (lambda A: fl.cumulative_sum(fl.asarray(3.0)), "one at least is needed"),
        (lambda A: fl.cumulative_sum(A, axis=0, dtype="S3"), "a number that can be stored"),
        (lambda A: fl.cumulative_sum(A, axis=0, out=np.empty((3, 3))), "they must agree|that agrees"),
        (lambda A: fl.diff(A, -1), "n is -1"),
        (lambda A: fl.diff(A, prepend=0), "join them to the array first"),
        (lambda A: fl.diff(fl.asarray(3.0)), "one at least is needed"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call(fl.asarray(np.ones((2, 3))))
