"""Products of two sparse matrices, and of dense ones on a pattern: SciPy's values, what is kept, limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import _core
from tests.sparse_algebra.test_algebra import equals
from tests.support.error_sentences import fails
from tests.support.processes import fingerprint, random_csr


@pytest.fixture(scope="module")
def factors():
    """300 x 140 and 140 x 220, with their SciPy twins."""
    x, y = random_csr(300, 140, 0.06, 1), random_csr(140, 220, 0.05, 2)
    return fl.from_blocks([x]), fl.from_blocks([y]), x, y


def test_products_are_scipys(factors):
    a, b, x, y = factors
    equals(a @ b, x @ y)
    equals(a @ a.T, x @ x.T)
    equals(a.T @ a, x.T @ x)
    equals(a[3:90, ::2] @ b[::2].log1p(), x[3:90, ::2] @ y[::2].log1p())
    equals(a[:0] @ b, x[:0] @ y)
    zeros = fl.from_blocks([np.zeros((5, 300))])
    assert (zeros @ a).nnz == 0


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
def test_dtypes_are_numpys(dtype):
    x = random_csr(50, 40, 0.2, 3)
    x.data = np.ceil(x.data * 3)
    x = x.astype(dtype)
    equals(fl.from_blocks([x]) @ fl.from_blocks([x]).T, x @ x.T)


def test_what_of_a_row_is_kept(factors):
    a, b, x, y = factors
    whole = (x @ y).toarray()
    large = fl.matmul(a, b, threshold=0.5)
    assert np.array_equal(large.to_scipy().toarray(), np.where(whole >= 0.5, whole, 0))
    pattern = random_csr(300, 220, 0.1, 9)
    mask, places = fl.from_blocks([pattern]), pattern.toarray() != 0
    some = fl.matmul(a, b, mask=mask)
    assert np.array_equal(some.to_scipy().toarray(), np.where(places, whole, 0))
    others = fl.matmul(a, b, mask=mask, complement=True, threshold=0.3, top=2).to_scipy()
    candidates = np.where(places | (whole < 0.3), -np.inf, whole)
    wanted = -np.sort(-candidates, 1)[:, :2]
    got = np.full((300, 2), -np.inf)
    for i, row in enumerate(np.split(others.data, others.indptr[1:-1])):
        got[i, : len(row)] = -np.sort(-row)
    assert np.array_equal(got, wanted)


def test_large_whole_numbers_are_told_apart():
    """Beyond 2^53 neighbours are one number of float64."""
    ones = fl.from_blocks([np.ones((1, 1), "i8")])
    row = fl.from_blocks([np.array([[1 << 60, (1 << 60) + 1, (1 << 60) - 1]])])
    kept = fl.matmul(ones, row, top=1).to_scipy()
    assert (kept.indices.tolist(), kept.data.tolist()) == ([1], [(1 << 60) + 1])


def test_of_equal_values_the_lower_columns_stay():
    ones = fl.from_blocks([sp.csr_matrix(np.ones((2, 1)))])
    row = fl.from_blocks([sp.csr_matrix(np.array([[-1.0, 2, 5, 5, 5, np.nan]]))])
    top = fl.matmul(ones, row, top=2).to_scipy()
    assert np.array_equal(top.indices, [2, 3, 2, 3])
    assert fl.matmul(ones, row, top=9).nnz == 12
    assert fl.matmul(ones, row, threshold=-1, top=9).nnz == 10


def test_bits_do_not_depend_on_the_limit():
    """Where B has no room, the rows that a stretch names are read."""
    x, y = random_csr(400, 20_000, 1e-3, 5), random_csr(20_000, 8000, 5e-3, 6)
    a, b = fl.from_blocks([x]), fl.from_blocks([y])
    wanted = x @ y
    for limit in (fl.matmul.plan(a, b).least_memory + (24 << 20), 8 << 30):
        _core.trim()
        equals(fl.matmul(a, b, memory=limit), wanted)
        assert fl.stats().peak_memory <= limit


def test_plans_state_a_bound(factors):
    a, b, x, y = factors
    plan = fl.matmul.plan(a, b, top=3)
    assert "at most 900 values" in plan.note
    assert plan.flops == pytest.approx(2 * x.nnz * y.nnz / 140)


def test_a_killed_product_goes_on(process, tmp_path):
    fl.from_blocks([random_csr(700, 900, 0.03, 3)], tmp_path / "s.zarr")
    fl.from_blocks([random_csr(900, 1500, 0.05, 4)], tmp_path / "t.zarr")
    call = 'fl.matmul(fl.open("s.zarr"), fl.open("t.zarr"), top=100, out="c.zarr")\n'
    whole = process(call + 'result = digest("c.zarr")')
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(call, kill=1)
    what, again = process('fl.resume("c.zarr")\nresult = told()["what"], digest("c.zarr")')
    assert "resumed at" in what
    assert again == whole


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sddmm_is_the_product_on_a_pattern(tmp_path, rng, dtype):
    s = random_csr(400, 300, 0.05, 7, dtype)
    x, y = (rng.standard_normal((n, 33)).astype(dtype) for n in (400, 300))
    stored = fl.from_blocks([s])
    disk = [fl.from_numpy(one, tmp_path / f"{i}.zarr") for i, one in enumerate((x, y))]
    made = fl.sddmm(stored, *disk, out=tmp_path / "c.zarr")
    got, wide = made.to_scipy(), x.astype("f8") @ y.T.astype("f8")
    assert got.dtype == dtype
    assert np.array_equal(got.indices, s.indices)
    wanted = s.multiply(wide).toarray()
    bound = 40 * np.finfo(dtype).eps * s.multiply(abs(x).astype("f8") @ abs(y.T)).toarray()
    assert (abs(got.toarray() - wanted) <= bound).all()
    assert fingerprint(fl.sddmm(stored, x, y).to_scipy().data) == fingerprint(got.data)
    turned = fl.sddmm(stored.T, y, x).to_scipy().T.tocsr()
    assert (abs(turned.toarray() - wanted) <= bound).all()


def test_bits_of_sddmm_do_not_depend_on_the_limit(tmp_path, rng):
    s = fl.from_blocks([random_csr(2000, 60_000, 1e-3, 7, "float32")])
    x = fl.from_numpy(rng.standard_normal((2000, 100)).astype("f4"), tmp_path / "x.zarr")
    y = fl.from_numpy(rng.standard_normal((60_000, 100)).astype("f4"), tmp_path / "y.zarr")
    bits = set()
    for limit in (fl.sddmm.plan(s, x, y).least_memory + (24 << 20), 8 << 30):
        _core.trim()
        made = fl.sddmm(s, x, y, memory=limit)
        assert fl.stats().peak_memory <= limit
        bits.add(fingerprint(made.to_scipy().data))
    assert len(bits) == 1


def test_refusals_say_who_and_what(factors):
    a, b, _, _ = factors
    with fails(fl.ShapeError, r"matmul: A is 300 x 140 and B is 300 x 140; A's columns"):
        a @ a
    with fails(
        fl.ShapeError, r"matmul: the product of two sparse matrices takes alpha=1, beta=0 and plus_times"
    ):
        fl.matmul(a, b, alpha=2)
    for top in (0, 1.5, "2"):
        with fails(fl.ShapeError, r"matmul: top is .*; an integer of 1 or more is needed"):
            fl.matmul(a, b, top=top)
    with fails(fl.ShapeError, r"matmul: threshold is 'a'; a number is needed"):
        fl.matmul(a, b, threshold="a")
    with fails(fl.ShapeError, r"matmul: complement is of a mask, and none was given"):
        fl.matmul(a, b, complement=True)
    with fails(TypeError, r"matmul: X is a sparse matrix in memory \(csr_matrix\); fl.from_blocks"):
        a @ sp.csr_matrix((140, 3))
    with fails(fl.ShapeError, r"matmul: mask is 300 x 140 and the product is 300 x 220; they must be equal"):
        fl.matmul(a, b, mask=a)
    with fails(fl.ShapeError, r"matmul: threshold and top are of a product"):
        fl.matmul(a, np.ones((140, 2)), top=3)
    with fails(fl.ShapeError, r"sddmm: S is 300 x 140, X 300 x 3 and Y 140 x 4; a row of X"):
        fl.sddmm(a, np.ones((300, 3)), np.ones((140, 4)))
    with fails(fl.BudgetError, r"matmul"):
        fl.matmul(a, b, memory="1MiB")
