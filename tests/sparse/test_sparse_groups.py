"""Rows of sparse matrices by group: what dense ones have, whatever the layout, the view and the limit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

ROWS, COLUMNS, GROUPS = 700, 40, 6


@pytest.fixture
def stored(tmp_path, rng):
    x = rng.integers(1, 9, (ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.2)
    labels = rng.integers(-1, GROUPS - 1, ROWS)  # the last group has no rows

    def store(dtype, layout="csr"):
        m = sp.csr_matrix(x.astype(dtype) * (0.3 if dtype[0] == "f" else 1))
        if layout == "csc":
            sp.save_npz(tmp_path / "x.npz", m.tocsc())
            return fl.open(tmp_path / "x.npz"), m.toarray(), labels
        return fl.from_blocks([m[:300], m[300:]], tmp_path / f"x{dtype}.zarr"), m.toarray(), labels

    return store


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", ["sum", "mean", "var"])
def test_groups_are_those_of_the_dense_matrix(stored, layout, dtype, name):
    s, x, labels = stored(dtype, layout)
    x = x.astype(s.dtype)
    group = getattr(fl, f"group_{name}")
    found, wanted = group(s, labels, groups=GROUPS), group(fl.asarray(x), labels, groups=GROUPS)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    # n additions of values up to 9 in float64, squared in longdouble; rounded once to the dtype of the result
    bound = ROWS * np.finfo("f8").eps * 81 + 2 * (
        np.finfo(found.dtype).eps if found.dtype.kind == "f" else 0
    ) * abs(wanted)
    same = np.isnan(found) == np.isnan(wanted)
    assert same.all()
    assert (np.nan_to_num(np.abs(found - wanted)) <= np.nan_to_num(bound)).all()
    if name == "var":
        ddof = fl.group_var(s, labels, groups=GROUPS, ddof=1)
        np.testing.assert_allclose(
            ddof, group(fl.asarray(x), labels, groups=GROUPS, ddof=1), rtol=1e-6, atol=1e-13
        )


def test_views_limits_and_plans(stored, tmp_path):
    s, x, labels = stored("float64")
    whole = fl.group_sum(s, labels)
    np.testing.assert_array_equal(
        fl.group_sum(s, labels, memory=fl._core.resident_bytes() + (48 << 20)), whole
    )
    chosen = x[:, 3] > 0
    np.testing.assert_allclose(
        fl.group_sum(s[chosen, 5:20], labels[chosen], groups=GROUPS),
        np.stack([x[chosen][labels[chosen] == g][:, 5:20].sum(0) for g in range(GROUPS)]), rtol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(
        fl.group_sum(s.power(2), labels), fl.group_sum(fl.asarray(x**2), labels), rtol=1e-12
    )
    np.testing.assert_allclose(
        fl.group_mean(s.T, np.arange(COLUMNS) % 3),
        fl.group_mean(fl.asarray(x.T), np.arange(COLUMNS) % 3),
        rtol=1e-12,
    )
    into = np.empty((GROUPS - 1, COLUMNS))
    fl.group_sum(s, labels, out=into)
    np.testing.assert_array_equal(into, whole)
    plan = fl.group_sum.plan(s, labels)
    fl.group_sum(s, labels)
    assert plan.passes == fl.stats().passes == 1
    assert "group_sum 700 x 40" in plan.what


def test_what_does_not_fit_is_refused_before_a_read(stored):
    s, _, labels = stored("float64")
    for call, message in [
        (lambda: fl.group_sum(s, labels[1:]), "labels are 699; 700, one a row, are needed"),
        (lambda: fl.group_sum(s, labels / 2), "labels are float64; integers are needed"),
        (lambda: fl.group_sum(s, labels, out=np.empty((2, 2))), "out is"),
        (lambda: fl.group_sum(s, labels, groups=2), "groups is 2 and the largest label 4"),
    ]:
        with pytest.raises((fl.ShapeError, TypeError, ValueError), match=message):
            call()
    with pytest.raises(fl.BudgetError) as refused:
        fl.group_sum(s, labels, groups=1 << 20, memory=fl._core.resident_bytes() + (32 << 20))
    assert refused.value.least > 1 << 28
