"""Matrices of 2^40 columns: written, transformed and summed in fixed memory, or refused in a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl

COLUMNS = 1 << 40


@pytest.fixture(scope="module")
def entries():
    """A quarter of a million entries, a tenth of them at the place of another."""
    rng = np.random.default_rng(7)
    rows, columns = rng.integers(0, 300_000, 250_000), rng.integers(0, COLUMNS, 250_000)
    rows[:25_000], columns[:25_000] = rows[-25_000:], columns[-25_000:]
    return rows, columns, rng.integers(1, 10, 250_000).astype("f4")


@pytest.fixture(scope="module")
def truth(entries):
    """The same with columns numbered by those that occur, and these."""
    rows, columns, values = entries
    names, inverse = np.unique(columns, return_inverse=True)
    made = sp.coo_matrix((values, (rows, inverse)), (300_000, len(names))).tocsr()
    return made, names


def same(found, truth):
    made, names = truth
    S = found if sp.issparse(found) else found.to_scipy()
    assert S.shape == (made.shape[0], COLUMNS)
    np.testing.assert_array_equal(S.indptr, made.indptr)
    np.testing.assert_array_equal(S.indices, names[made.indices])
    np.testing.assert_array_equal(S.data, made.data)


@pytest.fixture(scope="module")
def stored(entries, tmp_path_factory):
    path = tmp_path_factory.mktemp("hyper") / "a.zarr"
    return fl.from_coo(entries, path, shape=(300_000, COLUMNS))


def test_is_written(isolated, tmp_path, entries, truth):
    """As a process of its own: within the limit, and as plans and `info` see it."""
    for name, one in zip(("rows", "columns", "values"), entries, strict=True):
        np.save(tmp_path / f"{name}.npy", one)
    peak = isolated(
        """
        from flagstone import _core
        parts = [fl.open(f"{name}.npy") for name in ("rows", "columns", "values")]
        fl.from_coo(parts, "a.zarr", shape=(300_000, 1 << 40), memory="256MiB")
        result = fl.stats().peak_memory
        """
    )
    assert peak <= 256 << 20
    same(fl.open(tmp_path / "a.zarr"), truth)


def test_is_written_in_other_ways(stored, truth, tmp_path):
    same(fl.convert(stored, tmp_path / "copy.zarr") or fl.open(tmp_path / "copy.zarr"), truth)
    fl.convert(stored, tmp_path / "packed.zarr", layout="bitpacked")
    same(fl.open(tmp_path / "packed.zarr"), truth)
    fl.convert(stored, tmp_path / "a.npz")
    same(sp.load_npz(tmp_path / "a.npz"), truth)
    fl.convert(stored, tmp_path / "a.mtx")
    same(fl.open(tmp_path / "a.mtx"), truth)
    blocks = [stored[first : first + 100_000].to_scipy() for first in range(0, 300_000, 100_000)]
    same(fl.from_blocks(blocks), truth)


def test_is_added_stacked_and_cut(stored, truth):
    made, names = truth
    same(fl.sparse.add(stored, stored), (2 * made, names))
    same(stored * 2.0, (2 * made, names))
    entries = made.tocoo()
    assert stored.tril().nnz == int((names[entries.col] <= entries.row).sum())
    assert fl.concat([stored, stored], axis=1).shape == (300_000, 2 * COLUMNS)
    same(fl.concat([stored[:1000], stored[1000:]], axis=0), truth)
    np.testing.assert_array_equal(stored[5:9].to_scipy().data, made[5:9].data)


def test_is_summed(stored, truth):
    made, _ = truth
    assert float(stored.sum()) == made.sum()
    assert float(stored.mean()) == made.sum() / 300_000 / COLUMNS
    assert (float(stored.max()), float(stored.min())) == (made.max(), made.min())
    assert stored.count_nonzero() == made.count_nonzero()
    squares = float(made.multiply(made).sum())
    assert float(stored.var()) == pytest.approx(squares / 300_000 / COLUMNS, rel=1e-5)
    np.testing.assert_array_equal(np.asarray(stored.sum(1)), np.asarray(made.sum(1)).ravel())
    np.testing.assert_array_equal(np.asarray(stored.max(1)), made.max(1).toarray().ravel())
    for ord in ("fro", 1, np.inf):
        assert stored.norm(ord) == pytest.approx(sp.linalg.norm(made, ord), rel=1e-6)
    assert stored.norm("max") == abs(made).max()


def test_columns_that_occur_are_numbered(stored, truth, isolated, tmp_path):
    """Where nothing of a result is counted by columns: norms, products over them; in fixed memory."""
    made, names = truth
    assert abs(stored * -1.0).T.norm(np.inf) == made.sum(0).max()
    none = np.zeros(0, int)
    empty = fl.from_coo((none, none, np.zeros(0)), shape=(7, COLUMNS))
    assert (empty.norm(1), fl.matmul(empty, empty.T).nnz) == (0.0, 0)
    other = fl.from_coo((np.arange(9), names[5:14], np.ones(9, "f4")), shape=(9, COLUMNS))
    few = sp.csr_matrix((np.ones(9, "f4"), (np.arange(9), np.arange(5, 14))), (9, len(names)))
    for A, B, wanted in ((stored[:9000], other, made[:9000] @ few.T), (other, stored, few @ made.T)):
        assert abs(fl.matmul(A, B.T).to_scipy() - wanted).nnz == 0
    fl.convert(stored, tmp_path / "a.zarr")
    peak = isolated(
        """
        A = fl.open("a.zarr")
        fl.matmul(A, A.T, out="square.zarr", memory="256MiB")
        peaks = [fl.stats().peak_memory]
        A.norm(1, memory="256MiB")
        result = max(*peaks, fl.stats().peak_memory)
        """
    )
    assert peak <= 256 << 20
    assert abs(fl.open(tmp_path / "square.zarr").to_scipy() - made @ made.T).nnz == 0


def test_what_cannot_be_kept_is_refused_before_columns_are_numbered(stored):
    before = fl.stats().what
    for kept, sentence in (({"top": 0}, "top"), ({"mask": stored}, "must be equal")):
        with pytest.raises(fl.ShapeError, match=sentence):
            fl.matmul(stored, stored.T, **kept)
    assert fl.stats().what == before


def test_what_a_list_of_all_columns_needs_is_refused(stored, tmp_path):
    """At once and in a sentence, not by a loop over 2^40 columns."""
    A, x = stored, np.ones((300_000, 2), "f4")
    for refused in (
        lambda: np.asarray(A.sum(0)),
        lambda: A[:, :100],
        lambda: A[:, [3, 5]].sum(),
        lambda: fl.matmul(A.T, x),
        lambda: fl.matmul(x.T, A),
        lambda: A @ fl.zeros(COLUMNS),
        lambda: fl.matmul(A.T, x[:, :1] > 0, semiring="or_and"),
        lambda: fl.linalg.svds(A, 2),
        lambda: fl.pca(A, 2),
        lambda: fl.matmul(A.T, A),
        lambda: fl.transpose(A, out=tmp_path / "t.zarr"),
        lambda: fl.convert(A.T, tmp_path / "t.zarr"),
        lambda: fl.convert(A, tmp_path / "a.h5ad"),
    ):
        with pytest.raises(fl.ShapeError, match=r"1099511627776 .*are too many; number those") as caught:
            refused()
        assert str(caught.value).count("\n") == 0
    assert not list(tmp_path.iterdir())


def test_rows_beyond_the_disk_are_refused(entries):
    rows, columns, values = entries
    with pytest.raises(fl.FormatError, match=r"every row up to it takes a pointer .*ids='dense'"):
        fl.from_coo((columns, rows, values), shape=(COLUMNS, 300_000))


def test_edges_of_any_ids_come_in(isolated, tmp_path):
    """2^40 x 2^40, a hundred thousand edges: the ids that occur are numbered."""
    rng = np.random.default_rng(3)
    edges = rng.integers(0, COLUMNS, (100_000, 2))
    np.save(tmp_path / "edges.npy", edges)
    found = isolated(
        """
        A = fl.open_edges("edges.npy", ids="dense", memory="256MiB")
        result = [A.nnz, A.shape[0], fl.stats().peak_memory, int(np.asarray(A.ids)[-1])]
        """
    )
    ids = np.unique(edges)
    assert found[:2] == [100_000, len(ids)]
    assert found[2] <= 256 << 20
    assert found[3] == ids[-1]
