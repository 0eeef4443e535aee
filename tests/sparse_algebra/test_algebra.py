"""Sparse matrices made of sparse ones: SciPy's values and patterns, bits, limits, resume, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from flagstone import _core
from tests.support.error_sentences import fails
from tests.support.examples import examples
from tests.support.processes import random_csr


def equals(made, wanted):
    """The same shape, dtype, pattern and values."""
    wanted = sp.csr_matrix(wanted)
    wanted.sort_indices()
    got = made.to_scipy().tocsr()
    got.sort_indices()
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(got.indptr, wanted.indptr)
    np.testing.assert_array_equal(got.indices, wanted.indices)
    np.testing.assert_array_equal(got.data, wanted.data)


@pytest.fixture(scope="module")
def pair():
    """Two matrices of one shape; a row of one is the other's less."""
    a, b = random_csr(300, 120, 0.06, 1), random_csr(300, 120, 0.05, 2, "float32")
    keep = sp.diags_array((np.arange(300) != 5).astype("f4"))
    b = sp.csr_matrix(keep @ b - (sp.eye_array(300) - keep) @ a.astype("f4"), dtype="f4")
    b.eliminate_zeros()
    a = sp.csr_matrix(a.astype("f4").astype("f8"))
    return fl.from_blocks([a]), fl.from_blocks([b]), a, b


def test_elementwise_is_scipys(pair):
    a, b, x, y = pair
    equals(a + b, x + y)
    assert (a + b).nnz < a.nnz + b.nnz  # what adds up to 0 is gone
    equals(a - b, x - y)
    equals(a.multiply(b), x.multiply(y))
    equals(a.T + b.T, (x + y).T)
    equals(a[:100] + b[200:], x[:100] + y[200:])
    equals(a.log1p() + b * 2, x.log1p() + y * np.float32(2))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32"])
def test_dtypes_are_numpys(dtype):
    x = random_csr(40, 30, 0.2, 3)
    x.data = np.ceil(x.data * 50)
    x, y = x.astype(dtype), random_csr(40, 30, 0.2, 4).astype("float64")
    a, b = fl.from_blocks([x]), fl.from_blocks([y])
    equals(a + a, x + x)
    equals(a + b, x + y)
    equals(a.multiply(a), x.multiply(x))


@examples(20)
@given(k=st.integers(-9, 9), rows=st.integers(0, 7), cols=st.integers(1, 7), seed=st.integers(0, 99))
def test_triangles_and_diagonals_of_any_shape(k, rows, cols, seed):
    x = random_csr(rows, cols, 0.6, seed)
    a = fl.from_blocks([x])
    equals(a.tril(k), sp.tril(x, k))
    equals(a.triu(k), sp.triu(x, k))
    if -rows < k < cols:
        assert np.array_equal(a.diagonal(k), x.diagonal(k))
        assert np.array_equal(a.T.diagonal(-k), x.diagonal(k))


def test_values_above_a_threshold_and_nan():
    x = sp.csr_matrix(np.array([[1.0, np.nan, 0], [-2, 0.5, 3]]))
    equals(fl.from_blocks([x]).above(0.5), np.array([[1.0, 0, 0], [0, 0, 3]]))


def test_joins_along_both_axes(pair):
    a, b, x, y = pair
    equals(fl.concat([a, b]), sp.vstack([x, y]))
    equals(fl.concat([a, b, a], axis=1), sp.hstack([x, y, x]))
    equals(fl.sparse.concat([a[:0], b]), sp.vstack([x[:0], y]))


def test_norms_are_scipys(pair):
    a, _, x, _ = pair
    for order in ("fro", 1, np.inf):
        assert a.norm(order) == pytest.approx(spl.norm(x, order), rel=1e-13)
    assert a.norm() == a.T.norm("fro")
    assert a.norm("max") == abs(x).max()
    assert a.H.shape == (120, 300)
    assert a.conj() is a
    for unit in (1e-300, 1e-160, 1e160, 1e300):  # squares leave the range of float64
        assert (a * unit).norm() == pytest.approx(spl.norm(x) * unit, rel=1e-12)
    with pytest.raises(fl.ShapeError, match="ord is 2"):
        a[:0].norm(2)


def test_bits_do_not_depend_on_the_limit(tmp_path):
    x = random_csr(40_000, 5_000, 5e-3, 5, "float32")
    a = fl.from_blocks([x])
    for limit in (fl.sparse.add.plan(a, a * 3).least_memory + (16 << 20), 8 << 30):
        _core.trim()
        equals(fl.sparse.add(a, a * 3, memory=limit), x + x * np.float32(3))
        assert fl.stats().peak_memory <= limit


def test_a_lazy_view_is_written_as_it_is_seen(pair, tmp_path):
    a, _, x, _ = pair
    fl.convert(a[10:200, ::2].log1p(), tmp_path / "view.zarr")
    equals(fl.open(tmp_path / "view.zarr"), x[10:200, ::2].log1p())


def test_plans_state_a_bound(pair):
    a, b, _, _ = pair
    plan = fl.sparse.add.plan(a, b)
    assert "at most" in plan.note
    assert plan.bytes_read == a.stored_bytes + b.stored_bytes
    fl.sparse.add(a, b)
    assert fl.stats().bytes_read == plan.bytes_read


def test_a_killed_sum_goes_on(process, tmp_path):
    fl.from_blocks([random_csr(6000, 1500, 0.25, 3)], tmp_path / "s.zarr")
    call = 'S = fl.open("s.zarr")\nfl.sparse.add(S, S[:], out="c.zarr")\n'
    whole = process(call + 'result = digest("c.zarr")')
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(call, kill=1)
    assert not (tmp_path / "c.zarr").exists()
    what, again = process('fl.resume("c.zarr")\nresult = told()["what"], digest("c.zarr")')
    assert "resumed at" in what
    assert again == whole


def test_refusals_say_who_and_what(pair, tmp_path):
    a, b, _, _ = pair
    with fails(fl.ShapeError, r"add: A is 300 x 120 and B is 299 x 120; they must be equal"):
        a + b[1:]
    with fails(TypeError, r"add: B is ndarray; a SparseArray is needed"):
        fl.sparse.add(a, np.ones((300, 120)))
    with fails(fl.ShapeError, r"concat: matrix 0 is 300 x 120 and matrix 1 is 120 x 300; extents must"):
        fl.concat([a, b.T])
    with fails(fl.ShapeError, r"diagonal: k is 120 and the matrix is 300 x 120"):
        a.diagonal(120)
    with fails(fl.ShapeError, r"norm: ord is 2; 'fro', 1, inf or 'max' is needed"):
        a.norm(2)
    with fails(fl.ShapeError, r"tril: out '.*c\.npy' holds a dense array"):
        a.tril(out=tmp_path / "c.npy")
    with fails(fl.BudgetError, r"add"):
        fl.sparse.add(a, b, memory="1MiB")
    with fails(fl.ShapeError, r"concat: axis is None, which joins one dimension"):
        fl.concat([a, b], axis=None)
    with fails(fl.ShapeError, r"concat: no matrices were given"):
        fl.sparse.concat([])
    with fails(fl.ShapeError, r"tril: k is 1.5; the integer number of a diagonal"):
        a.tril(1.5)
    with fails(fl.ShapeError, r"above: threshold is 'a'; a number is needed"):
        a.above("a")
    in_memory = sp.csr_matrix(a.shape)
    for call in (lambda: a + in_memory, lambda: in_memory + a):
        with fails(TypeError, r"add: the other operand is a sparse matrix in memory \(csr_matrix\)"):
            call()
    with pytest.raises(TypeError):
        a + 1


# Transposes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_transposes_are_scipys(tmp_path, dtype):
    a = random_csr(300, 140, 0.06, 1)
    a.data = np.ceil(a.data * 90)
    a = a.astype(dtype)
    s = fl.from_blocks([a])
    out = tmp_path / "t.zarr"
    made = fl.transpose(s, out=out)
    equals(made, a.T)
    assert not made._transposed  # by rows
    equals(fl.open(out), a.T)
    assert sp.csr_matrix(made.to_scipy()).has_canonical_format
    equals(fl.transpose(made, (1, 0)), a)
    equals(fl.transpose(s.T), a)  # a copy
    equals(fl.transpose(s[3:90, ::2]), a[3:90, ::2].T)
    if np.dtype(dtype).kind == "f":
        equals(fl.transpose(s.log1p()), a.T.log1p())
    equals(fl.transpose(s, out=out), a.T)  # replaced


def test_empty_and_ragged_ones(tmp_path):
    for shape in ((1, 1), (5, 900), (900, 5), (7, 1)):
        equals(fl.transpose(fl.from_blocks([sp.csr_matrix(shape)])), sp.csr_matrix(shape[::-1]))
    one = sp.csr_matrix(np.ones((1, 40)))
    equals(fl.transpose(fl.from_blocks([one])), one.T)


def test_plans_and_limits(tmp_path):
    a = random_csr(60_000, 30_000, 0.0005, 3)
    s = fl.from_blocks([a])
    plan = fl.transpose.plan(s, out=tmp_path / "t.zarr")
    assert "transpose 60000 x 30000 sparse" in str(plan)
    fl.transpose(s, out=tmp_path / "t.zarr", memory=plan.least_memory)
    assert fl.stats().peak_memory <= plan.least_memory
    equals(fl.open(tmp_path / "t.zarr"), a.T)
    equals(fl.transpose(s, memory=plan.least_memory + (1 << 30)), a.T)
    with fails(fl.BudgetError, r"transpose"):
        fl.transpose(s, memory="1MiB")


def test_refusals(tmp_path):
    s = fl.from_blocks([random_csr(30, 20, 0.1, 1)])
    with fails(fl.ShapeError, r"transpose: axes are \(0, 1\) and A is sparse; \(1, 0\) is needed"):
        fl.transpose(s, (0, 1))
    with fails(TypeError, r"transpose: chunks, checksum, codec and order are of dense arrays"):
        fl.transpose(s, chunks=(3, 3))
    with fails(fl.ShapeError, r"transpose: out 't.npy' holds a dense array"):
        fl.transpose(s, out="t.npy")
