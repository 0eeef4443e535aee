"""Sparse matrices from entries in any order: SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
import flagstone._edges.coo as coo
from tests.support.examples import examples


def of_scipy(rows, columns, values, shape):
    made = sp.coo_matrix((values, (rows, columns)), shape=shape).tocsr()
    made.sum_duplicates()
    return made


def same(found, wanted) -> None:
    assert found.shape == wanted.shape
    stored = found.to_scipy() if found.shape[0] else sp.csr_matrix(found.shape)
    np.testing.assert_array_equal(stored.indptr, wanted.indptr)
    np.testing.assert_array_equal(stored.indices, wanted.indices)
    np.testing.assert_array_equal(stored.data, wanted.data)


@examples(8)
@given(data=st.data(), step=st.sampled_from([1, 3, 1 << 17]))
def test_entries_are_scipys(data, step):
    number = data.draw(st.integers(0, 40))
    ids = st.lists(st.integers(0, 6), min_size=number, max_size=number)
    rows, columns = (np.array(data.draw(ids), data.draw(st.sampled_from(["i8", "u4", "i2"]))) for _ in "rc")
    values = np.array(data.draw(ids), data.draw(st.sampled_from(["f4", "f8", "i4"]))) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coo, "_STEP", step)
        patch.setattr(coo, "_ROWS", max(1, step // 2))
        same(fl.from_coo((rows, columns, values), shape=(9, 7)), of_scipy(rows, columns, values, (9, 7)))
        counted = of_scipy(rows, columns, np.ones(number, "i4"), (9, 7))
        blocks = ((rows[i : i + 5], columns[i : i + 5]) for i in range(0, number, 5))
        same(fl.from_coo(blocks, shape=(9, 7)), counted)
        both = of_scipy(rows, columns, values, (7, 7))
        loops = sp.diags_array(both.diagonal(), format="csr", dtype=both.dtype)
        wanted = (both + both.T - loops).tocsr()
        wanted.eliminate_zeros()
        same(fl.from_coo((rows, columns, values), shape=(7, 7), symmetric=True), wanted)


def test_entries_on_disk_in_little_memory(isolated):
    assert (
        isolated(
            """
        rng = np.random.default_rng(3)
        rows, columns = rng.integers(0, 40_000, (2, 400_000))
        a, b = fl.from_numpy(rows, "rows.npy"), fl.from_numpy(columns, "columns.zarr")
        wanted = np.bincount(rows, minlength=40_000)
        del rows, columns
        result = []
        for more in (110, 500):
            memory = fl._core.resident_bytes() + (more << 20)
            m = fl.from_coo((a, b), f"m{more}.zarr", shape=(40_000, 40_000), memory=memory)
            result += [fl.stats().peak_memory <= memory, bool((np.asarray(m.sum(1)).ravel() == wanted).all())]
        """
        )
        == [True] * 4
    )


def test_duplicates_first_and_refused(tmp_path):
    entries = ([1, 0, 1], [2, 0, 2], [5.0, 6.0, 7.0])
    arrays = tuple(np.array(one) for one in entries)
    first = fl.from_coo(arrays, tmp_path / "m.zarr", duplicates="first")
    np.testing.assert_array_equal(first.to_scipy().toarray(), [[6, 0, 0], [0, 0, 5]])
    with pytest.raises(fl.StorageError, match="exists"):
        fl.from_coo(arrays, tmp_path / "m.zarr")
    with pytest.raises(fl.FormatError, match="row 1, column 2 is there twice"):
        fl.from_coo(arrays, duplicates="error")


@pytest.mark.parametrize("duplicates", ["sum", "first"])
def test_made_symmetric_it_is_so_to_the_bit(duplicates, rng):
    """Entries of both sides of the diagonal, some of them several times: rounding must not part them."""
    rows, columns = rng.integers(0, 12, (2, 900))
    values = rng.standard_normal(900)
    found = fl.from_coo((rows, columns, values), symmetric=True, duplicates=duplicates, shape=(12, 12))
    dense = found.to_scipy().toarray()
    np.testing.assert_array_equal(dense, dense.T)
    wanted = np.zeros((12, 12))
    for i, j, value in zip(rows[::-1], columns[::-1], values[::-1], strict=True):  # the first one comes last
        for place in {(i, j), (j, i)}:
            wanted[place] = value if duplicates == "first" else wanted[place] + value
    np.testing.assert_allclose(dense, wanted, rtol=1e-12)
    half = fl.from_coo(
        (rows, columns, values), symmetric=True, duplicates=duplicates, shape=(12, 12), layout="triangle"
    )
    np.testing.assert_array_equal(half.to_scipy().toarray(), dense)


def test_bad_entries_are_named():
    def refused(error, match, entries, **options):
        with pytest.raises(error, match=match):
            fl.from_coo(entries, **options)

    a = np.array([0, 3])
    refused(fl.FormatError, "the row -1", (np.array([-1, 0]), a))
    refused(fl.FormatError, "the column -2", (a, np.array([-2, 0])))
    refused(fl.FormatError, "the row 3 and the shape is 3 x 9", (a, a), shape=(3, 9))
    refused(fl.ShapeError, "a symmetric matrix is square", (a, a), shape=(3, 9), symmetric=True)
    refused(fl.ShapeError, "the columns of entries are 1 and its rows 2", (a, a[:1]))
    refused(TypeError, "the rows of entries are float64", (a / 2, a))
    refused(TypeError, r"block 0 is int; \(rows, columns\)", [3])
    refused(fl.ShapeError, "block 1 has 3 columns and the first 2", [(a, a), (a, a, a)])
    refused(ValueError, "duplicates is 'last'", (a, a), duplicates="last")
    refused(fl.ShapeError, "shape is 5; two whole numbers", (a, a), shape=5)
    refused(fl.ShapeError, "the rows of entries are 2 x 1; one dimension is needed", (a[:, None], a))
    refused(TypeError, "entries is NoneType; .* SciPy coo", None)
    refused(TypeError, "dtype is 'foo'", (a, a), dtype="foo")
    refused(TypeError, "from_coo: the path is 5", (a, a), path=5)
    refused(fl.ShapeError, "id 9223372036854775808; ids below", (np.array([0, 1 << 63], "u8"), a))
    on_disk = fl.from_numpy(np.array([0, 1 << 63], "u8"))
    refused(fl.ShapeError, "id 9223372036854775808; ids below", (on_disk, fl.from_numpy(a)))


def test_a_stray_id_is_refused_before_its_pointers_are_written(tmp_path):
    entries = np.array([1 << 62]), np.array([0])
    for place in (None, tmp_path / "m.zarr"):
        with pytest.raises(fl.FormatError, match=f"the last row is {1 << 62}, .*ids='dense'"):
            fl.from_coo(entries, place)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "error"), [("c.npy", fl.ShapeError), ("c.csv", fl.FormatError)])
def test_a_name_of_another_format_is_refused(name, error, tmp_path):
    with pytest.raises(error, match=name):
        fl.from_coo((np.array([0]), np.array([1])), tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_values_are_not_cut_to_those_of_the_first_block():
    ids = np.array([0])
    blocks = [(ids, ids, np.array([one])) for one in (1, 2.5)]
    with pytest.raises(fl.ShapeError, match="block 1 are float64 .* int64; give dtype='float64'"):
        fl.from_coo(blocks)
    with pytest.raises(fl.ShapeError, match="block 1 are int64 .* int8"):
        fl.from_coo([(ids, ids, np.array([1], "i1")), (ids, ids, np.array([300]))])
    assert fl.from_coo(blocks, dtype="f8").to_scipy()[0, 0] == 3.5
    assert fl.from_coo(blocks[::-1]).to_scipy()[0, 0] == 3.5


def test_lists_and_scipys_coo():
    lists = [0, 1], [1, 0], [1.0, 2.0]
    same(fl.from_coo(lists), of_scipy(*lists, (2, 2)))
    same(fl.from_coo(lists[:2]), of_scipy(*lists[:2], np.ones(2, "i4"), (2, 2)))
    for kind in (sp.coo_matrix, sp.coo_array):
        given = kind((lists[2], lists[:2]), shape=(3, 5))
        same(fl.from_coo(given), given.tocsr())
        assert fl.from_coo(given, shape=(7, 6)).shape == (7, 6)


def test_an_out_that_is_no_path_is_told():
    matrix = fl.from_coo((np.arange(9), np.arange(9), np.ones(9)))
    for call in (lambda: fl.linalg.svds(matrix, 2, out=3), lambda: fl.linalg.lu(np.eye(4), out=3)):
        with pytest.raises(TypeError, match="out is int; a path is needed"):
            call()
