"""Medians and quantiles: NumPy's, by partition in memory and by counting bits."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone._along.ranks import _METHODS as METHODS
from tests.support.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
DTYPES = ["?", "i1", "u1", "i4", "u8", "i8", "f2", "f4", "f8"]
LARGE = 34 << 20  # bytes of an array whose lanes lie whole in no tile


def same(found, wanted) -> None:
    found = np.asarray(found)
    if not (np.asarray(wanted).size == 1 and np.isnan(wanted).all()):  # NumPy gives NaN of the array's dtype
        assert found.dtype == np.asarray(wanted).dtype
    assert found.shape == np.shape(wanted)
    np.testing.assert_array_equal(found, wanted)


@examples(120)
@given(data=st.data(), keepdims=st.booleans())
def test_medians_are_numpys(data, keepdims):
    dtype = data.draw(st.sampled_from(DTYPES))
    x = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, max_side=7)))
    axes = st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none()
    axis = data.draw(st.one_of(st.none(), axes))
    same(fl.median(fl.asarray(x), axis, keepdims=keepdims), np.median(x, axis, keepdims=keepdims))


@examples(150)
@given(data=st.data(), method=st.sampled_from(METHODS), scale=st.sampled_from([1, 100]))
def test_quantiles_are_numpys(data, method, scale):
    dtype = data.draw(st.sampled_from(DTYPES[1:]))
    elements = st.floats(-100, 100, width=16) if dtype[0] == "f" else None
    x = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, max_side=7), elements=elements))
    axis = data.draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
    number = st.floats(0, 1).map(lambda q: q * scale)
    q = data.draw(st.one_of(number, st.lists(number, min_size=1, max_size=4)))
    name = "quantile" if scale == 1 else "percentile"
    wanted = getattr(np, name)(x, q, axis=axis, method=method)
    same(getattr(fl, name)(fl.asarray(x), q, axis, method=method), wanted)


def special(rng, dtype: str, rows: int, columns: int) -> np.ndarray:
    """Numbers of many sizes, and columns of what is dear to count: equal ones, two kinds, few bits apart."""
    x = rng.standard_normal((rows, columns)) * 10.0 ** rng.integers(-3, 3, columns)
    if dtype[0] in "iu":
        x = np.abs(x) * 50 % 120
    x = x.astype(dtype)
    x[:, 0] = 7
    x[:, 1] = np.where(np.arange(rows) % 2, 3, 5)
    x[: rows // 2, 2] = 0
    x[:, 3] = (1 + np.arange(rows) % 3 * np.finfo(dtype).eps) if dtype[0] == "f" else 1
    if dtype[0] == "f":
        x[5, 4], x[6, 5], x[7:9, 6] = np.nan, np.inf, -np.inf
    return x


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "f2"])
def test_counting_bits_gives_numpys_median(dtype, rng):
    columns = 24
    x = special(rng, dtype, LARGE // columns // np.dtype(dtype).itemsize, columns)
    A = fl.asarray(x)
    plan = fl.median.plan(A, 0)
    same(fl.median(A, 0), np.median(x, 0))
    done = fl.stats()
    assert "counted by" in plan.note + done.note
    most = {"f4": 3, "i4": 3, "u1": 1, "f2": 2, "f8": 6}[dtype]
    assert done.passes <= most
    assert plan.passes <= 3
    same(fl.median(A), np.median(x))


def test_counting_bits_gives_numpys_quantiles(rng):
    x = special(rng, "f4", LARGE // 20 // 4, 20)
    q = [0, 0.01, 0.5, 0.9, 1]
    same(fl.quantile(fl.asarray(x), q, 0), np.quantile(x, q, axis=0))


def test_counts_that_do_not_fit_are_taken_in_stripes(isolated):
    assert isolated(
        """
        x = np.random.default_rng(3).standard_normal((3000, 3000)).astype("f4")
        A = fl.from_numpy(x, "x.npy")
        del x
        with fl.Runtime(memory=fl._core.resident_bytes() + (70 << 20), workers=2):
            found = fl.median(A, 0)
            note, passes = fl.stats().note, fl.stats().passes
        result = [bool(np.array_equal(found, np.median(A[...], 0))), "stripes" in note, passes]
        """
    ) == [True, True, 3]


def test_a_pass_reads_the_array_once(rng, tmp_path):
    x = rng.standard_normal((LARGE // 24 // 4, 24)).astype("f4")
    A = fl.from_numpy(x, tmp_path / "a.npy")
    least = fl.median.plan(A, 0).least_memory
    plan = fl.median.plan(A, 0, memory=least)
    fl.median(A, 0, memory=least)
    done = fl.stats()
    assert done.passes == plan.passes == 3
    assert plan.bytes_read == pytest.approx(done.bytes_read, rel=0.01)
    assert done.bytes_read < 3.03 * x.nbytes
    with pytest.raises(fl.BudgetError) as refused:
        fl.median(A, 0, memory=least - (8 << 20))
    fl.median(A, 0, memory=refused.value.least)


def test_numpys_functions_of_an_array(rng):
    x = rng.standard_normal((30, 7))
    A = fl.asarray(x)
    same(np.median(A, axis=0), np.median(x, axis=0))
    same(np.quantile(A, 0.3, axis=1, keepdims=True), np.quantile(x, 0.3, axis=1, keepdims=True))
    same(np.percentile(A + 1, [3, 50]), np.percentile(x + 1, [3, 50]))
    out = np.empty(7)
    assert fl.median(A, 0, out=out) is out
    same(out, np.median(x, axis=0))


def test_nothing_has_no_median():
    assert np.isnan(fl.median(fl.asarray(np.empty((0, 3))), 0)).all()
    assert fl.median(fl.asarray(np.empty((3, 0))), 0).shape == (0,)
    with pytest.raises(fl.ShapeError, match="give at least one"):
        fl.quantile(fl.asarray(np.empty(0)), 0.5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda A: fl.quantile(A, 1.5), "from 0 to 1"),
        (lambda A: fl.percentile(A, -1), "from 0 to 100"),
        (lambda A: fl.quantile(A, 0.5, method="exact"), "choose one of inverted_cdf"),
        (lambda A: fl.quantile(A, 0.5, weights=[1]), "weights are not taken"),
        (lambda A: fl.median(A * 1j), "real numbers are needed"),
        (lambda A: fl.quantile(A > 0, 0.5), "convert them with astype"),
        (lambda A: fl.median(A, 0, out=np.empty(7)), "that agrees"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call(fl.asarray(np.ones((2, 3))))
