"""Sparse matrices: import, building by blocks, products that stream."""

from __future__ import annotations

import os
import time
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.support.processes import random_csr


def numbers(result) -> np.ndarray:
    return result if isinstance(result, np.ndarray) else result[...]


def counts(rng, rows, cols, density=0.1, dtype="float32"):
    """Small counts, as measured cells have."""
    m = sp.random(rows, cols, density, format="csr", random_state=rng)
    m.data = rng.poisson(2.0, m.nnz).astype(dtype) + np.ones(1, dtype)
    return m


def bound(a, x, dtype):
    """Elementwise: eps of the product's precision times the sum of |a||x|, and a few."""
    return 8 * np.finfo(dtype).eps * (abs(a.astype("float64")) @ abs(x.astype("float64"))) + 1e-300


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("compressed", [True, False])
def test_npz_import(tmp_path, rng, form, compressed):
    m = counts(rng, 3000, 200)
    sp.save_npz(tmp_path / "m.npz", m.asformat(form), compressed=compressed)
    a = fl.open(str(tmp_path / "m.npz"))
    assert tuple(a.shape) == m.shape
    assert a.nnz == m.nnz
    x = rng.standard_normal((200, 7))
    assert np.all(np.abs(numbers(a @ x) - m.astype("float64") @ x) <= bound(m, x, "float64"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32", "float64", "bool"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_npz_dtypes(tmp_path, rng, dtype, index):
    m = sp.random(500, 60, 0.2, format="csr", random_state=rng)
    m.data = np.ones(m.nnz) if dtype == "bool" else rng.integers(1, 100, m.nnz)
    m = m.astype(dtype)
    m.indices, m.indptr = m.indices.astype(index), m.indptr.astype(index)
    sp.save_npz(tmp_path / "m.npz", m)
    a = fl.open(str(tmp_path / "m.npz"))
    x = rng.standard_normal((60, 3))
    np.testing.assert_allclose(numbers(a @ x), m.astype("float64") @ x, rtol=0, atol=1e-10)


def test_unsorted_and_duplicate_columns_are_made_canonical(tmp_path):
    data = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    m = sp.csr_matrix((data, np.array([3, 1, 3, 2, 0]), np.array([0, 3, 3, 5])), shape=(3, 4))
    assert not m.has_canonical_format
    sp.save_npz(tmp_path / "m.npz", m)
    a = fl.open(str(tmp_path / "m.npz"))
    np.testing.assert_array_equal(numbers(a @ np.eye(4)), [[0, 2, 0, 4], [0, 0, 0, 0], [5, 0, 4, 0]])
    assert a.nnz == 4


def test_coo_duplicates_are_summed(tmp_path):
    m = sp.coo_matrix(([1.0, 2.0, 4.0], ([2, 0, 2], [1, 1, 1])), shape=(3, 2))
    sp.save_npz(tmp_path / "m.npz", m)
    a = fl.open(str(tmp_path / "m.npz"))
    np.testing.assert_array_equal(numbers(a @ np.eye(2)), [[0, 2], [0, 0], [0, 5]])


def test_import_is_kept_and_keyed_by_the_file(tmp_path, rng):
    path = tmp_path / "m.npz"
    first = counts(rng, 4000, 300)
    sp.save_npz(path, first)
    scratch = os.environ["FLAGSTONE_SCRATCH"]

    def entries():
        return {
            os.path.join(folder, name): os.stat(os.path.join(folder, name)).st_mtime_ns
            for folder, _, names in os.walk(scratch)
            for name in names
            if "c" in os.path.relpath(folder, scratch).split(os.sep)
        }

    fl.open(str(path))
    after_first = entries()
    fl.open(str(path))
    assert entries() == after_first  # taken from scratch
    second = counts(rng, 4000, 300)
    time.sleep(0.01)
    sp.save_npz(path, second)
    again = fl.open(str(path))
    x = rng.standard_normal((300, 2))
    np.testing.assert_allclose(numbers(again @ x), second @ x, rtol=1e-6, atol=1e-4)


@examples(40)
@given(
    rows=st.integers(1, 400),
    cols=st.integers(1, 50),
    width=st.integers(1, 20),
    density=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    dtype=st.sampled_from(["float32", "float64", "int16"]),
    blocks=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_products(tmp_path_factory, rows, cols, width, density, dtype, blocks, seed):
    rng = np.random.default_rng(seed)
    m = sp.random(rows, cols, density, format="csr", random_state=rng)
    m.data = (m.data * 50 - 20).astype(dtype)
    cuts = np.sort(rng.integers(0, rows + 1, blocks - 1))
    edges = [0, *cuts.tolist(), rows]
    parts = [m[i:j] for i, j in pairwise(edges)]
    a = fl.from_blocks(iter(parts), str(tmp_path_factory.mktemp("blocks") / "a.zarr"))
    assert tuple(a.shape) == m.shape
    wide = m.astype("float64")
    x, y = rng.standard_normal((cols, width)), rng.standard_normal((rows, width))
    assert np.all(np.abs(numbers(a @ x) - wide @ x) <= bound(wide, x, "float64"))
    assert np.all(np.abs(numbers(a.T @ y) - wide.T @ y) <= bound(wide.T, y, "float64") * 2)


def test_products_of_many_panels(tmp_path, rng):
    """More stored values than one panel holds, rows empty here and there, one long row."""
    m = random_csr(60_000, 700, 0.1, 7, "float32")
    m.data[m.indptr[12_345] : m.indptr[12_400]] = 0
    m.eliminate_zeros()
    a = fl.from_blocks((m[i : i + 7_001] for i in range(0, 60_000, 7_001)), str(tmp_path / "a.zarr"))
    assert a.nnz == m.nnz
    x, y = rng.standard_normal((700, 16)), rng.standard_normal((60_000, 16))
    wide = m.astype("float64")
    assert np.all(np.abs(numbers(a @ x) - wide @ x) <= bound(wide, x, "float64"))
    error = np.abs(numbers(a.T @ y) - wide.T @ y)
    assert np.all(error <= bound(wide.T, y, "float64") * 4)


def test_float32_products(tmp_path, rng):
    m = counts(rng, 5000, 300)
    a = fl.from_blocks([m], str(tmp_path / "a.zarr"))
    x = rng.standard_normal((300, 8)).astype("float32")
    assert np.all(np.abs(numbers(a @ x) - m.astype("float64") @ x) <= bound(m, x, "float32"))


def test_vector_operand(tmp_path, rng):
    m = counts(rng, 500, 30)
    a = fl.from_blocks([m], str(tmp_path / "a.zarr"))
    x = rng.standard_normal(30)
    np.testing.assert_allclose(numbers(a @ x), m @ x, rtol=1e-12)


def test_from_blocks_takes_dense_blocks_and_tuples(tmp_path, rng):
    m = counts(rng, 100, 30)
    for i, blocks in enumerate(
        [[m.tocsc()], [m.tocoo()], [sp.csr_array(m)], [m.toarray()[:50], m.toarray()[50:]]]
    ):
        try:
            a = fl.from_blocks(blocks, str(tmp_path / f"{i}.zarr"))
        except fl.Error as error:
            pytest.fail(f"block {type(blocks[0])}: {error}")
        np.testing.assert_allclose(numbers(a @ np.eye(30)), m.toarray())


@pytest.mark.parametrize(("first", "second"), [("i8", "f8"), ("u1", "i8"), ("i1", "i4"), ("f8", "c16")])
def test_values_are_not_cut_to_those_of_the_first_block(first, second):
    blocks = [np.array([[1, 2]], first), np.array([[-3 if second == "i8" else 300.5, 1]]).astype(second)]
    with pytest.raises(fl.ShapeError, match="block 1 are .* do not fit"):
        fl.from_blocks(blocks)
    whole = fl.from_blocks(blocks, dtype=second).to_scipy().toarray()
    np.testing.assert_array_equal(whole, np.vstack(blocks))
    narrow = fl.from_blocks([np.array([[1, 2]], "u1"), np.array([[7, 0]])])  # what fits is taken
    np.testing.assert_array_equal(narrow.to_scipy().toarray(), [[1, 2], [7, 0]])


@pytest.mark.parametrize(
    ("value", "dtype", "rounded"),
    [
        (1e300, "f4", False), (2**24 + 1, "f4", True), (2**53 + 1, "f8", True), (-(2**24) - 1, "c8", True),
        (300, "u1", False), (-1, "u8", False), (0.5, "i4", False), (1j, "f8", False), (np.nan, "i2", False),
    ],
)  # fmt: skip
def test_values_that_a_dtype_does_not_hold_are_refused(value, dtype, rounded):
    """Integers are rounded to floats where these are asked for, and never because of the first block."""
    first, second = np.ones((1, 2), dtype), np.array([[value, 1]])
    entries = ([0, 1], [1, 0], second[0])
    with pytest.raises(fl.ShapeError, match=f"block 1 are .* those of the first block, {first.dtype}; give"):
        fl.from_blocks([first, second])
    for call in (lambda: fl.from_blocks([second], dtype=dtype), lambda: fl.from_coo(entries, dtype=dtype)):
        if rounded:
            assert np.array(value, dtype) in call().to_scipy().toarray()
            continue
        with pytest.raises(fl.ShapeError, match="do not fit into the dtype that was given"):
            call()


def test_values_that_a_dtype_holds_or_rounds_are_taken():
    for value in (0.1, np.inf, -np.inf, np.nan, 1e-60):
        found = fl.from_blocks([np.ones((1, 1), "f4"), np.array([[value]])]).to_scipy().toarray()
        np.testing.assert_array_equal(found, np.array([[1], [value]], "f4"))


def test_from_blocks_overwrite(tmp_path, rng):
    path = str(tmp_path / "a.zarr")
    first, second = counts(rng, 50, 20), counts(rng, 60, 20)
    fl.from_blocks([first], path)
    with pytest.raises(FileExistsError, match="overwrite"):
        fl.from_blocks([second], path)
    fl.from_blocks([second], path, overwrite=True)
    assert tuple(fl.open(path).shape) == (60, 20)


def test_from_blocks_that_raise_leave_nothing(tmp_path, rng):
    def blocks():
        yield counts(rng, 5000, 200)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        fl.from_blocks(blocks(), str(tmp_path / "a.zarr"))
    assert list(tmp_path.iterdir()) == []


def test_products_check_shapes(tmp_path, rng):
    a = fl.from_blocks([counts(rng, 50, 20)], str(tmp_path / "a.zarr"))
    with pytest.raises(fl.ShapeError, match="50 x 20.*30 x 2|20.*30"):
        a @ np.zeros((30, 2))
    with pytest.raises(fl.ShapeError):
        a.T @ np.zeros((20, 2))


def test_a_sparse_array_is_not_loaded_by_accident(tmp_path, rng):
    a = fl.from_blocks([counts(rng, 50, 20)], str(tmp_path / "a.zarr"))
    for function in (np.sum, np.exp, lambda x: np.ones((2, 50)) + x):
        with pytest.raises(TypeError):
            function(a)


def test_real_sets(tmp_path, rng, shared_data):
    for name in ("ecrtm-20NG/train_bow.npz", "multilabel/bibtex.train.X.npz", "multilabel/rcv1sub1.X.npz"):
        m = sp.load_npz(shared_data / name).tocsr()
        a = fl.open(str(shared_data / name))
        assert tuple(a.shape) == m.shape
        x = rng.standard_normal((m.shape[1], 4))
        wide = m.astype("float64")
        assert np.all(np.abs(numbers(a @ x) - wide @ x) <= bound(wide, x, "float64"))


@pytest.mark.parametrize("member", ["data", "indices", "indptr"])
def test_a_lost_shard_of_a_matrix_made_here_is_damage(tmp_path, member):
    import shutil

    fl.from_blocks([np.eye(40), np.zeros((3, 40))], tmp_path / "a.zarr")
    shutil.rmtree(tmp_path / "a.zarr" / member / "c")
    with pytest.raises(fl.FormatError, match=f"{member}/c/0 is missing, and 1 of its chunks"):
        fl.open(tmp_path / "a.zarr")


def test_matrices_of_zeros_are_whole(tmp_path):
    for name, block in (("first", np.eye(1, 9)), ("none", np.zeros((5, 9))), ("empty", np.zeros((0, 9)))):
        A = fl.from_blocks([block], tmp_path / f"{name}.zarr")
        assert fl.open(tmp_path / f"{name}.zarr").nnz == A.nnz == np.count_nonzero(block)
    column = np.zeros((500, 3))
    column[:, 0] = 1  # all stored column numbers are 0
    assert fl.from_blocks([column], tmp_path / "c.zarr").nnz == 500
    assert fl.from_blocks([(np.zeros(4), [0, 1, 0, 2], [0, 2, 4], 3)], tmp_path / "z.zarr").nnz == 4


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0, 0)])
def test_products_of_matrices_without_elements(shape):
    a = fl.from_blocks([sp.csr_matrix(shape)])
    np.testing.assert_array_equal(a @ np.ones((shape[1], 2)), np.zeros((shape[0], 2)))
    np.testing.assert_array_equal(a.T @ np.ones((shape[0], 2)), np.zeros((shape[1], 2)))
    np.testing.assert_array_equal(a @ np.ones(shape[1]), np.zeros(shape[0]))


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_means_of_nothing_are_nan(shape):
    x = fl.from_blocks([sp.csr_matrix(shape)])
    assert np.isnan(x.mean())
    for axis in (0, 1):
        got, wanted = np.asarray(x.mean(axis)).ravel(), np.sum(np.zeros(shape), axis) / max(shape[axis], 1)
        assert got.shape == wanted.shape
        assert np.all(np.isnan(got)) == (shape[axis] == 0 or got.size == 0)


def test_to_scipy_holds_each_part_once(isolated):
    """At its least limit: SciPy copied memory of whole pages, which it took for parts of larger arrays."""
    over, same = isolated(
        """
        import scipy.sparse as sp
        from tests.support.processes import peak_memory, reset_peak
        given = sp.random(40_000, 2000, 0.05, "csr", rng=3, dtype="float32")
        fl.from_blocks([given], "s.zarr").to_scipy()  # once: code is there
        s = fl.open("s.zarr")
        def call(limit):
            fl._core.release_pages()
            fl._core.trim()
            reset_peak()
            with fl.Runtime(memory=limit, workers=2):
                return s.to_scipy()
        try:
            call(1 << 20)
        except fl.BudgetError as error:
            limit = error.least
        found = call(limit)
        result = peak_memory() - limit, bool((found != given).nnz == 0 and found.has_canonical_format)
        """
    )
    assert same
    assert over <= 0, f"{over / 2**20:.1f} MiB over the limit"
