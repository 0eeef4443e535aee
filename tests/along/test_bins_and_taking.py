"""Histograms, bins, membership and elements by index: NumPy's."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
DTYPES = ["?", "i1", "u4", "i8", "f2", "f4", "f8"]
NUMBERS = st.floats(-50, 50, width=16)


def values(data, dtypes=DTYPES, least: int = 0) -> np.ndarray:
    dtype = data.draw(st.sampled_from(dtypes))
    elements = st.one_of(NUMBERS, st.just(np.nan)) if dtype[0] == "f" else None
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=least, max_side=9))
    return data.draw(hnp.arrays(dtype, shape, elements=elements))


@examples(60)
@given(data=st.data(), density=st.booleans())
def test_histograms_are_numpys(data, density):
    x = values(data, DTYPES[1:])
    between = data.draw(st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS).map(sorted).map(tuple)))
    edges = st.lists(NUMBERS, min_size=2, max_size=6).map(sorted)
    bins = data.draw(st.one_of(st.integers(1, 12), edges))
    try:
        wanted = np.histogram(x, bins, between, density)
    except ValueError:
        with pytest.raises(ValueError, match="histogram: |bins for data range"):
            fl.histogram(fl.asarray(x), bins, between, density)
        return
    found = fl.histogram(fl.asarray(x), bins, between, density)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])
    assert found[1].dtype == wanted[1].dtype


@examples(40)
@given(data=st.data(), minlength=st.integers(0, 9))
def test_counts_of_whole_numbers_are_numpys(data, minlength):
    x = data.draw(
        hnp.arrays(st.sampled_from(["i4", "u1", "i8"]), st.integers(0, 40), elements=st.integers(0, 30))
    )
    np.testing.assert_array_equal(
        fl.bincount(fl.asarray(x), minlength=minlength), np.bincount(x, minlength=minlength)
    )


@examples(60)
@given(data=st.data(), right=st.booleans(), down=st.booleans())
def test_bins_of_elements_are_numpys(data, right, down):
    x = values(data)
    edges = sorted(data.draw(st.lists(NUMBERS, max_size=7)), reverse=down)
    found = fl.digitize(fl.asarray(x), edges, right)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(np.asarray(found), np.digitize(x, edges, right))


@examples(60)
@given(data=st.data(), invert=st.booleans())
def test_membership_is_numpys(data, invert):
    x = values(data)
    tested = data.draw(st.lists(st.sampled_from([*x.ravel()[:5].tolist(), 3, 4.5, np.nan]), max_size=9))
    found = fl.isin(fl.asarray(x), tested, invert=invert)
    assert found.dtype == bool
    np.testing.assert_array_equal(np.asarray(found), np.isin(x, tested, invert=invert))


@examples(60)
@given(data=st.data())
def test_elements_by_index_are_numpys(data):
    x = values(data, least=1)
    A = data.draw(st.sampled_from([fl.asarray(x), fl.from_numpy(x)]))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    chosen = data.draw(
        hnp.arrays(
            "i4", hnp.array_shapes(min_dims=0, max_dims=2, max_side=5), elements=st.integers(-n, n - 1)
        )
    )
    np.testing.assert_array_equal(np.asarray(fl.take(A, chosen, axis)), np.take(x, chosen, axis))
    lanes = list(x.shape)
    lanes[axis] = data.draw(st.integers(0, 4))
    each = data.draw(hnp.arrays("i8", tuple(lanes), elements=st.integers(-n, n - 1)))
    wanted = np.take_along_axis(x, each, axis)
    np.testing.assert_array_equal(np.asarray(fl.take_along_axis(A, each, axis)), wanted)
    for found, places in zip(fl.nonzero(A), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(found, places)


def test_numpys_functions_of_an_array(rng):
    x = rng.integers(0, 9, (6, 4))
    A = fl.asarray(x)
    assert isinstance(np.take(A, [1, 1], 0), fl.Array)
    np.testing.assert_array_equal(np.asarray(np.isin(A, [1, 2])), np.isin(x, [1, 2]))
    np.testing.assert_array_equal(np.asarray(np.digitize(A, [2, 5])), np.digitize(x, [2, 5]))
    np.testing.assert_array_equal(np.histogram(A, bins=3)[0], np.histogram(x, bins=3)[0])
    np.testing.assert_array_equal(np.bincount(fl.asarray(x[0])), np.bincount(x[0]))
    np.testing.assert_array_equal(np.stack(np.nonzero(A > 3)), np.stack(np.nonzero(x > 3)))
    idx = np.argsort(x, 0)
    np.testing.assert_array_equal(np.asarray(np.take_along_axis(A, idx, 0)), np.take_along_axis(x, idx, 0))


def test_large_results_come_in_blocks(rng, tmp_path):
    x = rng.standard_normal((5000, 1500))  # 57 MiB
    A = fl.from_numpy(x, tmp_path / "a.npy")
    order = rng.permutation(5000)
    np.testing.assert_array_equal(np.asarray(fl.take(A, order, 0)), x[order])
    np.testing.assert_array_equal(np.asarray(fl.take(A, [3, 3, -1], 1)), x[:, [3, 3, -1]])
    each = rng.integers(0, 1500, (5000, 7))
    found = fl.take_along_axis(A, each, 1, out=tmp_path / "taken.npy")
    np.testing.assert_array_equal(found[...], np.take_along_axis(x, each, 1))
    np.testing.assert_array_equal(np.stack(fl.nonzero(A > 2.5)), np.stack(np.nonzero(x > 2.5)))


def test_passes_are_planned(rng, tmp_path):
    x = rng.standard_normal((3000, 900))
    A = fl.from_numpy(x, tmp_path / "a.npy")
    for options, passes in (({}, 2), ({"range": (-1, 1)}, 1), ({"bins": [0, 1, 2]}, 1)):
        plan = fl.histogram.plan(A, **options)
        fl.histogram(A, **options)
        assert plan.passes == fl.stats().passes == passes
        assert plan.bytes_read == fl.stats().bytes_read


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda A: fl.histogram(A, "auto"), "a number of bins or their edges"),
        (lambda A: fl.histogram(A, 0), "one at least is needed"),
        (lambda A: fl.histogram(A, [3, 1]), "they must increase"),
        (lambda A: fl.histogram(A * np.nan), "give range="),
        (lambda A: fl.histogram(A, weights=A * 1j), "complex numbers were given"),
        (lambda A: fl.histogram(A, weights=[1]), "weights are 1 and the elements"),
        (lambda A: fl.bincount(A), "integers are needed"),
        (lambda A: fl.bincount(fl.asarray([-1, 2])), "none may be below 0"),
        (lambda A: fl.bincount(fl.asarray([[1]])), "one dimension is needed"),
        (lambda A: fl.digitize(A, [1, 3, 2]), "they must increase or decrease"),
        (lambda A: fl.isin(A, ["a"]), "real numbers are needed"),
        (lambda A: fl.take(A, [0]), "say along which axis"),
        (lambda A: fl.take(A, [2], 0), "index 2 is outside of an axis of 2"),
        (lambda A: fl.take(A, [0.5], 0), "integers are needed"),
        (lambda A: fl.take_along_axis(A, np.zeros(2, int), 0), "as many dimensions"),
        (lambda A: fl.nonzero(fl.asarray(3)), "one at least is needed"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError, IndexError), match=sentence):
        call(fl.asarray(np.ones((2, 3))))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("kind", ["memory", "npy", "zarr", "turned"])
def test_weights_are_numpys(tmp_path, rng, kind, dtype):
    x = rng.normal(size=(300, 70))
    w = (rng.integers(0, 9, x.shape) * (0.37 if dtype[0] == "f" else 1)).astype(dtype)
    X, W = (fl.from_numpy(one, chunks=(90, 16), path=tmp_path / f"{i}.zarr") for i, one in enumerate((x, w)))
    if kind == "memory":
        X, W = x, w
    if kind == "npy":
        np.save(tmp_path / "x.npy", np.asfortranarray(x))
        X = fl.open(tmp_path / "x.npy")
    if kind == "turned":
        x, w, X, W = x.T, w.T, X.T, w.T
    wide = w.astype("f8")  # NumPy adds float32 in float32; ours in float64, in another order than its float64
    bound = x.size * np.finfo("f8").eps * np.abs(wide).sum()
    for bins in (10, [-2, -0.5, 0, 3]):
        wanted, edges = np.histogram(x, bins, weights=wide)
        found, ours = fl.histogram(X, bins, weights=W)
        assert found.dtype == w.dtype
        np.testing.assert_array_equal(ours, edges)
        rounded = np.finfo("f4").eps * np.abs(wanted) if dtype == "float32" else 0
        assert (np.abs(found.astype("f8") - wanted) <= bound + rounded).all()
    np.testing.assert_allclose(
        fl.histogram(X, 5, density=True, weights=W)[0],
        np.histogram(x, 5, density=True, weights=w)[0],
        rtol=1e-6,
    )
    n = rng.integers(0, 12, 5000)
    v = rng.integers(0, 9, 5000).astype(dtype)
    wanted = np.bincount(n, v, minlength=20)
    found = fl.bincount(fl.from_numpy(n, tmp_path / "n.zarr", chunks=(700,)), v, minlength=20)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)  # sums of whole numbers are exact


def test_weighed_sums_have_the_same_bits_for_every_limit(tmp_path, rng):
    x, w = rng.normal(size=(2, 400_000))
    X, W = fl.from_numpy(x, tmp_path / "x.npy"), fl.from_numpy(w, tmp_path / "w.npy")
    found = []
    for workers, more in ((1, 1 << 30), (3, 1 << 30), (2, 40 << 20)):
        with fl.Runtime(workers=workers):
            found.append(fl.histogram(X, 50, (-3, 3), weights=W, memory=fl._core.resident_bytes() + more)[0])
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
    plan = fl.histogram.plan(X, 50, (-3, 3), weights=W)
    fl.histogram(X, 50, (-3, 3), weights=W)
    assert plan.bytes_read == fl.stats().bytes_read
