"""Rows by group against loops over groups."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def by_loop(name: str, x: np.ndarray, labels: np.ndarray, groups: int) -> np.ndarray:
    rows = [x[labels == g] for g in range(groups)]
    wide = [r.astype(np.float64) if x.dtype.kind == "f" else r for r in rows]
    return np.stack([np.asarray(getattr(r, name)(0)) for r in wide])


@examples(80)
@given(data=st.data(), name=st.sampled_from(["sum", "mean", "var"]))
def test_groups_are_what_a_loop_gives(data, name):
    dtype = data.draw(st.sampled_from(["?", "i2", "i8", "u4", "f4", "f8"]))
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=12))
    kind = np.dtype(dtype).kind
    elements = st.floats(-1e3, 1e3, width=32) if kind == "f" else None
    x = data.draw(hnp.arrays(dtype, shape, elements=elements))
    labels = data.draw(hnp.arrays(np.int64, shape[0], elements=st.integers(-2, 4)))
    groups = 6
    found = getattr(fl, f"group_{name}")(fl.asarray(x), labels, groups=groups)
    wanted = by_loop(name, x, labels, groups)
    assert found.shape == (groups, *shape[1:])
    if name == "sum" and kind in "biu":
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
        return
    assert found.dtype == (x.dtype if kind == "f" else np.float64)
    # n additions and multiplications of numbers of this size, and the rounding to the result's dtype
    size = max(1.0, float(np.abs(x.astype(np.float64)).max(initial=0)))
    eps = np.finfo(found.dtype).eps
    power = 2 if name == "var" else 1
    bound = 8 * eps * shape[0] * size**power + 64 * np.finfo("f8").eps * shape[0] * size**power
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert np.nanmax(np.abs(found - wanted), initial=0) <= bound


def test_counts_and_labels_below_zero():
    labels = np.array([2, 0, -1, 2, -7], np.int32)
    np.testing.assert_array_equal(fl.group_count(labels), [1, 0, 2])
    np.testing.assert_array_equal(fl.group_count(labels, groups=5), [1, 0, 2, 0, 0])
    x = np.arange(10.0).reshape(5, 2)
    np.testing.assert_array_equal(fl.group_sum(fl.asarray(x), labels), [[2, 3], [0, 0], [6, 8]])
    assert np.isnan(fl.group_mean(fl.asarray(x), labels)[1]).all()


def test_sums_of_float64_are_compensated():
    x = np.tile([1e16, 1.0, -1e16], 20_000)[:, None]
    labels = np.zeros(len(x), np.int64)
    assert fl.group_sum(fl.asarray(x), labels)[0, 0] == 20_000


def test_variances_do_not_cancel(rng):
    x = 1e8 + rng.standard_normal((40_000, 3))
    labels = rng.integers(0, 4, len(x))
    found = fl.group_var(fl.rechunk(x, (1000, 2)), labels, ddof=1)
    wanted = np.stack([x[labels == g].var(0, ddof=1) for g in range(4)])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)  # 1e8^2 eps / variance, of the two-pass value itself


@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_bits_whatever_the_limit_and_the_workers(isolated, workers):
    found = isolated(
        """
        import hashlib
        rng = np.random.default_rng(5)
        x = rng.standard_normal((30_000, 300)).astype("f4")
        labels = rng.integers(-1, 700, len(x))
        A = fl.rechunk(x, (500, 128))
        result = []
        for more in (48, 400):
            with fl.Runtime(memory=fl._core.resident_bytes() + (more << 20), workers=workers):
                for f in (fl.group_sum, fl.group_var):
                    result.append(hashlib.sha256(f(A, labels).tobytes()).hexdigest())
        """,
        workers=workers,
    )
    assert found[:2] == found[2:]
    seen = test_the_same_bits_whatever_the_limit_and_the_workers.__dict__.setdefault("seen", found)
    assert seen == found


def test_one_read_whatever_the_number_of_groups(rng, tmp_path):
    x = rng.standard_normal((20_000, 64)).astype("f4")
    A = fl.from_numpy(x, tmp_path / "a.npy")
    labels = rng.integers(0, 1000, len(x))
    plan = fl.group_sum.plan(A, labels)
    fl.group_sum(A, labels)
    assert plan.bytes_read == fl.stats().bytes_read < 1.02 * x.nbytes
    out = np.empty((1000, 64), "f4")
    assert fl.group_mean(A, labels, out=out) is out
    np.testing.assert_allclose(out[3], x[labels == 3].mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "options", "sentence"),
    [
        ([0, 1], {}, "3, one a row, are needed"),
        ([0.5, 1, 2], {}, "integers are needed"),
        (["a", "b", "c"], {}, "np.unique"),
        ([0, 1, 5], {"groups": 3}, "largest label 5; give more"),
    ],
)
def test_bad_input_gets_a_sentence(labels, options, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        fl.group_sum(fl.asarray(np.ones((3, 2))), labels, **options)
    with pytest.raises(TypeError, match="real numbers are needed"):
        fl.group_sum(fl.asarray(np.ones((3, 2), "c8")), [0, 1, 2])


def test_rows_of_nothing():
    found = fl.group_sum(fl.asarray(np.zeros((3, 0, 2), np.uint8)), np.array([0, 1, -1]), groups=4)
    assert found.shape == (4, 0, 2)
    assert found.dtype == np.uint64
