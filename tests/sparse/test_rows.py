"""Rows of sparse matrices, chosen lazily: every routine against SciPy in memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples

ROWS, COLS = 300_000, 24  # panels hold at most 65,536 rows: five of them


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A matrix of five panels, with rows without values, and itself in memory."""
    m = sp.random(ROWS, COLS, 0.1, "csr", np.float64, random_state=1)
    m.data = np.ceil(m.data * 9)
    path = tmp_path_factory.mktemp("rows") / "a.zarr"
    return fl.from_blocks([m], path), m


def keys(extent, rng):
    """Choices of every kind, of some thousand rows or columns."""
    mask = rng.random(extent) < 0.02
    some = np.flatnonzero(mask)
    block = np.zeros(extent, bool)
    block[extent // 3 : extent // 2] = True
    return [
        np.s_[: extent // 4], np.s_[-extent // 5 :], np.s_[extent // 7 : : 5], mask, block, some,
        some.tolist(), [extent // 2], [-3, -1], range(2, 9, 3), extent // 3,
    ]  # fmt: skip


def picked(dense, key, axis=0):
    """What NumPy gives, of two dimensions always."""
    key = [key] if isinstance(key, int) else key
    return dense[key] if axis == 0 else dense[:, key]


@pytest.mark.parametrize("number", range(11))
def test_every_routine_sees_the_rows_that_were_chosen(stored, number):
    A, m = stored
    rng = np.random.default_rng(number)
    key = keys(ROWS, rng)[number]
    view, want = A[key], picked(m.toarray(), key)
    assert view.shape == want.shape
    assert view.dtype == m.dtype
    assert len(view) == len(want)
    assert view.nnz == view.T.nnz == np.count_nonzero(want)
    x, y = rng.integers(-9, 9, (COLS, 3)).astype(float), rng.integers(-9, 9, (len(want), 2)).astype(float)
    np.testing.assert_array_equal(view @ x, want @ x)  # of integers nothing is rounded
    np.testing.assert_array_equal(view.T @ y, want.T @ y)
    np.testing.assert_array_equal(view.gram(x), want.T @ (want @ x))
    loaded = view.to_scipy()
    assert isinstance(loaded, sp.csr_matrix)
    np.testing.assert_array_equal(loaded.toarray(), want)
    np.testing.assert_array_equal(view.T.to_scipy().toarray(), want.T)
    for axis in (None, 0, 1):
        for name in ("sum", "min", "max", "mean", "var", "count_nonzero"):
            wanted = getattr(np, name)(want, axis=axis)
            np.testing.assert_allclose(getattr(view, name)(axis), wanted, rtol=len(want) * 1e-15)
        np.testing.assert_array_equal(view.T.sum(axis), want.T.sum(axis))


@pytest.mark.parametrize("method", ["gram", "krylov"])
@pytest.mark.parametrize("number", [0, 3])
def test_pca_of_chosen_rows(stored, tmp_path, method, number):
    A, m = stored
    key = keys(ROWS, np.random.default_rng(0))[number]
    want = picked(m.toarray(), key)
    bits = set()
    for workers, memory in ((1, None), (2, "3GiB")):
        with fl.Runtime(workers=workers):
            limit = memory or fl.pca.plan(A[key], 4, method=method, memory="3GiB").least_memory + (4 << 20)
            r = fl.pca(A[key], 4, method=method, out=tmp_path / "p.zarr", memory=limit)
            assert fl.stats().peak_memory <= fl.stats().memory
        scores = np.asarray(r.scores)
        bits.add((r.components.tobytes(), r.singular_values.tobytes(), scores.tobytes()))
        moved = np.asarray(r.transform(A[key], out=tmp_path / "t.zarr"))
    assert len(bits) == 1
    centred = want - want.mean(0)
    sigma = np.linalg.svd(centred, compute_uv=False)[:4]
    np.testing.assert_allclose(r.singular_values, sigma, rtol=1e-5)
    np.testing.assert_allclose(r.mean, want.mean(0), rtol=1e-12)
    bound = 1e-6 * np.abs(centred).max() * COLS
    np.testing.assert_allclose(scores, centred @ r.components.T, atol=bound)
    np.testing.assert_allclose(moved, centred @ r.components.T, atol=bound)


def test_panels_without_a_chosen_row_are_not_read(stored):
    A, _ = stored
    x = np.ones((COLS, 2))
    read = {}
    for name, key in {
        "all": slice(None), "first": np.s_[:1000], "first, some": [0, 7, 65_535], "two": np.s_[65_000:66_000],
        "ends": [5, ROWS - 1],
    }.items():  # fmt: skip
        assert fl.matmul.plan(A[key], x).bytes_read > 0
        A[key] @ x
        read[name] = fl.stats().bytes_read
        assert fl.matmul.plan(A[key], x).bytes_read == read[name]
        np.asarray(A[key].sum(1))
        assert A[key].sum.plan(1).bytes_read == fl.stats().bytes_read == read[name]
    # Values lie in chunks of 2^19, of which there are two: a panel of 157,000 values reads one or both.
    assert read["first"] == read["first, some"] < 0.75 * read["all"]
    assert read["two"] == read["first"]
    assert read["ends"] <= read["all"]


def test_a_plan_counts_the_pass_that_statistics_take_no_more(stored):
    A, _ = stored
    for view, passes in ((A, 2), (A[:250_000], 3), (A[:, 2:], 3), (A, 2)):
        plan = fl.pca.plan(view, 3, method="gram")
        assert plan.passes == passes
        fl.pca(view, 3, method="gram")
        assert fl.stats().passes == passes
        assert fl.stats().bytes_read == plan.bytes_read


@pytest.mark.parametrize("first", ["as the others", "empty", "far off"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["krylov", "krylov-schur"])
def test_the_first_product_finds_the_means(first, dtype, method):
    """It subtracts those of the first panel, and is made again where that is of no use; no pass is ahead."""
    rng = np.random.default_rng(5)
    dense = rng.poisson(0.3, (150_000, 40)) * (1.0 + np.arange(40) % 7)
    if first == "empty":
        dense[:70_000] = 0
    if first == "far off":
        dense[:70_000] += 300 * (dense[:70_000] > 0)
        dense[70_000:] *= np.arange(150_000 - 70_000)[:, None] % 2
    A = fl.from_blocks([sp.csr_matrix(dense.astype(dtype))])[1:]  # nobody keeps statistics of chosen rows
    assert (
        fl.pca.plan(A, 3, method=method, tol=1e-7).passes
        == fl.pca.plan(fl.from_blocks([A.to_scipy()]), 3, method=method, tol=1e-7).passes
    )
    r = fl.pca(A, 3, method=method, tol=1e-7)
    want = dense[1:] - dense[1:].mean(0)
    np.testing.assert_allclose(r.mean, dense[1:].mean(0), rtol=1e-12)
    np.testing.assert_allclose(r.singular_values, np.linalg.svd(want, compute_uv=False)[:3], rtol=1e-6)
    np.testing.assert_allclose(r.explained_variance.sum() / r.explained_variance_ratio.sum(),
                               want.var(0, ddof=1).sum(), rtol=1e-9)  # fmt: skip


def test_nan_of_a_row_that_is_not_chosen_is_no_matter():
    dense = np.random.default_rng(0).random((40, 5))
    dense[30, 2] = np.nan
    A = fl.from_blocks([dense])
    with pytest.raises(fl.NumericalError, match="row 30, column 2"):
        fl.pca(A, 2)
    with pytest.raises(fl.NumericalError, match="row 20, column 2"):
        fl.pca(A[10:], 2)
    sigma = fl.pca(A[:30], 2).singular_values
    np.testing.assert_allclose(
        sigma, np.linalg.svd(dense[:30] - dense[:30].mean(0), compute_uv=False)[:2], rtol=1e-6
    )


@examples(20)
@given(data=st.data())
def test_choices_and_steps_in_any_order_are_scipys(data, tmp_path_factory):
    rows, cols = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 60))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "uint8"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    dense = np.where(
        rng.random((rows, cols)) < data.draw(st.sampled_from([0.0, 0.1, 0.6])),
        rng.integers(1, 9, (rows, cols)),
        0,
    )
    view = fl.from_blocks([dense.astype(dtype)], tmp_path_factory.mktemp("rows") / "a.zarr")
    real = np.float32 if np.dtype(dtype).itemsize <= 4 else np.float64
    dense = dense.astype(float)
    for step in data.draw(
        st.lists(st.sampled_from(["rows", "columns", "scale", "log1p", "T", "both"]), max_size=6)
    ):
        if step == "T":
            dense, view = dense.T, view.T
        elif step == "scale":
            f = rng.uniform(0.1, 2, len(dense))
            dense, view = dense * f[:, None], view * f[:, None]
        elif step == "log1p":
            dense, view = np.log1p(dense), view.log1p()
        else:
            key = [slice(None), slice(None)]
            for axis in {"rows": [0], "columns": [1], "both": [0, 1]}[step]:
                extent = dense.shape[axis]
                start, step_by = int(rng.integers(0, extent)), int(rng.integers(1, 4))
                mask = rng.random(extent) < 0.7
                mask[start] = True
                key[axis] = [mask, np.flatnonzero(mask), np.s_[start::step_by]][rng.integers(3)]
            dense, view = dense[key[0]][:, key[1]], view[tuple(key)]
    assert view.shape == dense.shape
    eps = 8 * np.finfo(real).eps
    x, y = rng.standard_normal((dense.shape[1], 2)), rng.standard_normal((dense.shape[0], 2))
    assert (np.abs(view @ x - dense @ x) <= eps * (np.abs(dense) @ np.abs(x)) + 1e-300).all()
    assert (np.abs(view.T @ y - dense.T @ y) <= eps * (np.abs(dense.T) @ np.abs(y)) + 1e-300).all()
    np.testing.assert_allclose(view.to_scipy().toarray(), dense, rtol=eps)
    np.testing.assert_allclose(view.sum(0), dense.sum(0), rtol=eps)
    np.testing.assert_allclose(view.sum(1), dense.sum(1), rtol=eps)
    np.testing.assert_array_equal(view.count_nonzero(1), np.count_nonzero(dense, axis=1))
    np.testing.assert_allclose(view.max(0), dense.max(0), rtol=eps)
    assert view.nnz == np.count_nonzero(dense)
    i, j = int(rng.integers(dense.shape[0])), int(rng.integers(dense.shape[1]))
    np.testing.assert_allclose(view[i, j], dense[i, j], rtol=eps)


def test_masks_of_every_kind(stored, tmp_path):
    A, m = stored
    counts = m.getnnz(1)
    want = m[counts >= 4]
    fl.from_numpy(counts >= 4, tmp_path / "mask.zarr")
    stored_counts = fl.from_numpy(counts, tmp_path / "counts.zarr")
    for mask in (
        A.count_nonzero(1) >= 4, fl.open(tmp_path / "mask.zarr"), stored_counts >= 4, (counts >= 4).tolist(),
        ~(stored_counts < 4), np.flatnonzero(counts >= 4).astype(np.uint32),
    ):  # fmt: skip
        view = A[mask]
        assert view.shape == want.shape
        assert view.sum() == want.sum()
        assert A[mask, 3:9].sum() == want[:, 3:9].sum()
    assert A[A.sum(1) > 1e9].shape == (0, COLS)


def test_one_element_and_one_row(stored):
    A, m = stored
    for i, j in ((0, 0), (-1, -1), (70_000, 3), (np.int32(299_999), np.uint8(23))):
        found = A[i, j]
        assert found == m[int(i), int(j)]
        assert found.dtype == m.dtype
        assert A.T[j, i] == found
        assert A.log1p()[i, j] == np.log1p(found)
    i = int(np.argmax(m.getnnz(1)))
    assert A[i].shape == (1, COLS)
    np.testing.assert_array_equal(A[i].to_scipy().toarray(), m[i].toarray())
    np.testing.assert_array_equal(A[:, 5].to_scipy().toarray(), m[:, 5].toarray())
    assert A[i, 2:4].shape == (1, 2)
    assert A[...].shape == A[..., :].shape == A.shape
    assert not A[:].lazy
    rows = [row.to_scipy().toarray() for row in A[100:103]]
    np.testing.assert_array_equal(np.concatenate(rows), m[100:103].toarray())


def test_a_choice_of_nothing():
    A = fl.from_blocks([np.eye(4)])
    for none in (A[:0], A[[]], A[np.zeros(4, bool)], A[3:2], A[1:3][[]]):
        assert none.shape == (0, 4)
        assert none.nnz == 0
        assert (none @ np.ones(4)).shape == (0,)
        np.testing.assert_array_equal(none.T @ np.zeros((0, 2)), np.zeros((4, 2)))
        np.testing.assert_array_equal(none.sum(0), np.zeros(4))
        assert none.to_scipy().shape == (0, 4)
        assert list(none) == []
        with pytest.raises(fl.ShapeError, match="no elements to choose from"):
            none.max()
        with pytest.raises(fl.ShapeError, match="k is 1 and X is 0 x 4"):
            fl.pca(none, 1)


@pytest.mark.parametrize(("key", "error", "message"), [
    (np.s_[::-1], fl.ShapeError, "the step is -1, and a SparseArray gives rows in increasing order"),
    ([3, 1], fl.ShapeError, "1 comes after 3, and a SparseArray gives rows in increasing order, each once"),
    ([1, 1], fl.ShapeError, "1 comes after 1"),
    (np.s_[:, [3, 1]], fl.ShapeError, "gives columns in increasing order"),
    (np.ones(3, bool), fl.ShapeError, "the mask of rows has 3 elements and the matrix 50 rows"),
    (50, IndexError, "50 is out of bounds for axis 0 with 50 elements"),
    ([2, -51], IndexError, "-51 is out of bounds for axis 0"),
    (np.s_[0, 20], IndexError, "20 is out of bounds for axis 1"),
    (1.5, TypeError, "rows are float of"),
    (None, TypeError, "rows are None"),
    (np.ones((2, 2), int), TypeError, "rows are ndarray of 2 x 2"),
    (np.s_[0, 0, 0], IndexError, "3 indices were given"),
    (np.s_[:, []], fl.ShapeError, "at least one"),
])  # fmt: skip
def test_bad_keys_are_one_sentence(key, error, message):
    A = fl.from_blocks([sp.random(50, 20, 0.3, "csr", random_state=1)])
    with pytest.raises(error, match=message) as refused:
        A[key]
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "turned"), [
    ("x.zarr", False), ("x.npz", False), ("x.h5ad", False), ("x.mtx", False), ("x.npz", True),
    ("x.zarr", True),
    pytest.param("x.h5ad", True, marks=pytest.mark.slow), pytest.param("x.mtx", True, marks=pytest.mark.slow),
])  # fmt: skip
def test_views_are_exported(stored, tmp_path, name, turned):
    A, m = stored
    mask = np.random.default_rng(5).random(ROWS) < 0.01
    for view, want in (
        (A[:9000][mask[:9000], 3:9].log1p(), np.log1p(m[:9000][mask[:9000]][:, 3:9])),
        (A[mask], m[mask]),
    ):
        view, want = (view.T, want.T) if turned else (view, want)
        fl.convert(view, tmp_path / name, overwrite=True)
        back = fl.open(tmp_path / name, **({"key": "X"} if name.endswith("h5ad") else {}))
        assert back.shape == want.shape
        assert back.nnz == want.nnz
        np.testing.assert_allclose(back.to_scipy().toarray(), want.toarray(), rtol=1e-12)


def test_the_recipe_of_filtered_cells(tmp_path):
    """The first step of every analysis, in one line, and what follows."""
    rng = np.random.default_rng(3)
    m = sp.random(3000, 400, 0.1, "csr", random_state=2)
    m.data = np.ceil(rng.gamma(1, 3, m.nnz))
    S = fl.from_blocks([m], tmp_path / "s.zarr")
    cells = S[S.count_nonzero(1) >= 40]
    kept = fl.from_blocks([m[m.getnnz(1) >= 40]], tmp_path / "kept.zarr")
    assert 1000 < cells.shape[0] < 2900
    ours, theirs = fl.single_cell(cells, 5, genes=100), fl.single_cell(kept, 5, genes=100)
    np.testing.assert_array_equal(ours.genes, theirs.genes)
    np.testing.assert_array_equal(ours.totals, theirs.totals)
    np.testing.assert_allclose(ours.pca.singular_values, theirs.pca.singular_values, rtol=1e-6)
    counted = fl.single_cell.plan(cells, 5, genes=100)
    fl.single_cell(cells, 5, genes=100)
    assert counted.passes == fl.stats().passes


def test_reprs_read_nothing(stored):
    A, m = stored
    text = repr(A[5:25, 3:6])
    assert f"20 of {ROWS:,} rows, 3 of {COLS} columns" in text
    assert f"{m.nnz:,} stored values in all of them" in text
    assert A[:100].stored_values < A.stored_values
    assert A[:100].stored_bytes < A.stored_bytes
    assert A[:100].nbytes >= m[:100].data.nbytes


def test_least_limits_hold_and_are_refused_before_anything_is_read(stored):
    A, _ = stored
    view = A[np.random.default_rng(0).random(ROWS) < 0.5]
    calls = {
        "sum": lambda **k: view.sum(0, **k),
        "gram": lambda **k: view.gram(np.ones((COLS, 2)), **k),
        "pca": lambda **k: fl.pca(view, 3, **k),
    }
    for name, call in calls.items():
        with pytest.raises(fl.BudgetError, match=f"^{name}: needs") as refused:
            call(memory="1MiB")
        call(memory=refused.value.least)
        assert fl.stats().peak_memory <= refused.value.least
