"""Products over semirings, masks and frontiers: their definition, what is read, limits, refusals, graphs."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import csgraph

import flagstone as fl
from tests.support.error_sentences import fails
from tests.support.killed_calls import left_at
from tests.support.processes import random_csr

EXAMPLES = Path(__file__).parents[2] / "examples"
BIG, LEAST = np.iinfo("i8").max, np.iinfo("i8").min


def of_graph(a: sp.csr_matrix) -> fl.SparseArray:
    return fl.from_blocks([a[:100], a[100:]])


@pytest.fixture(scope="module")
def matrix():
    """400 x 150 whole numbers, empty rows and columns, its twin."""
    a = random_csr(400, 150, 0.05, 5).tolil()
    a[17], a[:, 40] = 0, 0
    a = a.tocsr()
    a.data = np.ceil(a.data * 20) - 10
    return of_graph(a.astype("i4")), a


OPERATIONS = {
    "plus_times": (np.add, lambda a, x: a * x, 0),
    "min_plus": (np.minimum, lambda a, x: a + x, np.inf),
    "max_plus": (np.maximum, lambda a, x: a + x, -np.inf),
    "max_times": (np.maximum, lambda a, x: a * x, -np.inf),
    "or_and": (np.logical_or, lambda a, x: (a != 0) & (x != 0), False),
    "min_first": (np.minimum, lambda a, x: a + 0 * x, np.inf),
    "min_second": (np.minimum, lambda a, x: 0 * a + x, np.inf),
    "plus_pair": (np.add, lambda a, x: 1 + 0 * a + 0 * x, 0),
}


SWAPPED = {"min_first": "min_second", "min_second": "min_first"}  # where X comes first


def twin(a, x, name, there=None):
    """The definition, entry by entry; and where a pair met."""
    add, times, nothing = OPERATIONS[name]
    a = a.tocoo()
    y = np.full((a.shape[0], x.shape[1]), nothing, bool if name == "or_and" else float)
    met = np.zeros(y.shape, bool)
    for i, j, value in zip(a.row, a.col, a.data, strict=True):
        here = np.ones(x.shape[1], bool) if there is None else there[j]
        y[i, here] = add(y[i, here], times(value, x[j, here]))
        met[i] |= here
    return y, met


def in_int64(wanted, nothing):
    """What the definition says, where nothing is infinity of int64."""
    ends = {np.inf: BIG, -np.inf: LEAST}
    finite = np.where(np.isfinite(wanted), wanted, 0).astype("i8")
    return np.where(wanted == nothing, ends.get(nothing, 0), finite)


@pytest.mark.parametrize("name", OPERATIONS)
def test_products_are_their_definition(matrix, rng, name):
    s, a = matrix
    whole = rng.integers(-9, 9, (150, 3))
    for op, t in ((s, a), (s.T, a.T.tocsr())):
        x = np.resize(whole, (t.shape[1], 3))
        wanted, _ = twin(t, x, name)
        got = fl.matmul(op, x, semiring=name)
        assert got.dtype == {"or_and": "?", "plus_times": "f8"}.get(name, "i8")
        exact = wanted if got.dtype != "i8" else in_int64(wanted, OPERATIONS[name][2])
        np.testing.assert_array_equal(got, exact)
        for dtype in ("f4", "f8"):
            got = fl.matmul(op, x.astype(dtype), semiring=name)
            np.testing.assert_array_equal(got, exact if got.dtype == "i8" else wanted)
        np.testing.assert_array_equal(fl.matmul(op, x[:, 0].astype("f8"), semiring=name), got[:, 0])
        turned = fl.matmul(x.T, op.T, semiring=SWAPPED.get(name, name))
        np.testing.assert_array_equal(turned.T, fl.matmul(op, x, semiring=name))


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_frontier_gives_a_scipy_matrix_of_what_it_meets(matrix, rng, name):
    s, a = matrix
    for op, t in ((s, a), (s.T, a.T.tocsr())):
        dense = rng.integers(1, 9, (t.shape[1], 2)) * (rng.random((t.shape[1], 2)) < 0.04)
        x = sp.csr_matrix(dense)
        wanted, met = twin(t, dense, name, dense != 0)
        got = fl.matmul(op, x, semiring=name)
        assert sp.issparse(got)
        assert got.shape == wanted.shape
        there = np.zeros(met.shape, bool)
        there[got.tocoo().row, got.tocoo().col] = True
        np.testing.assert_array_equal(there, met)
        np.testing.assert_array_equal(got.toarray()[met], wanted[met])
        masked = fl.matmul(op, x, semiring=name, mask=wanted[:, 0] == 5, complement=True)
        there[wanted[:, 0] == 5] = False
        assert masked.nnz == there.sum()
        turned = fl.matmul(x.T, op.T, semiring=SWAPPED.get(name, name))
        np.testing.assert_array_equal(turned.toarray().T, got.toarray())


def test_masks_and_accumulation(matrix, rng):
    s, a = matrix
    x = rng.integers(-9, 9, (150, 2))
    wanted = in_int64(twin(a, x, "min_plus")[0], np.inf)
    rows, cells = rng.random(400) < 0.3, rng.random((400, 2)) < 0.5
    for mask in (rows, cells, np.zeros(400, bool), np.ones(400, bool)):
        for complement in (False, True):
            where = np.broadcast_to(mask[:, None] if mask.ndim == 1 else mask, (400, 2)) != complement
            got = fl.matmul(s, x, semiring="min_plus", mask=mask, complement=complement)
            np.testing.assert_array_equal(got, np.where(where, wanted, BIG))
            y = rng.integers(-9, 9, (400, 2))
            after = np.where(where, np.minimum(y, wanted), y)
            kept = fl.matmul(
                s, x, semiring="min_plus", mask=mask, complement=complement, out=y, accumulate=True
            )
            assert kept is y
            np.testing.assert_array_equal(y, after)
            fl.matmul(s, x, semiring="min_plus", mask=mask, complement=complement, out=y)
            np.testing.assert_array_equal(y, np.where(where, wanted, BIG))
    pattern = sp.csr_matrix(cells)
    for mask in (pattern, fl.from_blocks([pattern])):
        np.testing.assert_array_equal(
            fl.matmul(s, x, semiring="min_plus", mask=mask), np.where(cells, wanted, BIG)
        )
    turned = fl.matmul(s.T, np.ones(400), mask=np.arange(150) % 2 == 0)  # plus_times
    np.testing.assert_allclose(turned, np.where(np.arange(150) % 2 == 0, a.T @ np.ones(400), 0), rtol=1e-12)


def test_a_mask_may_be_out(matrix, rng, tmp_path):
    """What clears `out` must not clear the mask: of rows and of cells, with X in memory and on disk."""
    s, a = matrix
    met, square = (a[:150] != 0).astype(int), s[:150]
    x = rng.random((150, 150)) < 0.1
    for mask, given in ((rng.random(150) < 0.5, x[:, 0]), (rng.random((150, 150)) < 0.5, x)):
        wanted = mask & (met @ given > 0)
        on_disk = fl.from_numpy(given, str(tmp_path / f"x{given.ndim}.zarr"))
        for one in (given, on_disk):
            y = mask.copy()
            fl.matmul(square, one, semiring="or_and", mask=y, out=y)
            np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8"])
def test_whole_numbers_go_into_what_was_asked_for(matrix, rng, dtype):
    s, a = matrix
    x, y = rng.integers(-9, 9, 150), rng.integers(-9, 9, 400).astype(dtype)
    wanted = (y + a.toarray().astype(int) @ x).astype(dtype)
    fl.matmul(s, x, dtype=dtype, out=y, accumulate=True)
    np.testing.assert_array_equal(y, wanted)


def test_views_are_seen_and_whole_numbers_saturate(matrix):
    s, a = matrix
    x = np.full(150, BIG - 3)
    near = fl.matmul(s, x, semiring="min_plus")
    assert near[17] == BIG  # an empty row
    assert (near <= BIG).all()
    least = fl.matmul(s, np.full(150, LEAST + 1), semiring="max_plus")
    assert (least[np.diff(a.indptr) > 0] < 0).all()
    some = s[5:90, ::3].scale(factor=2.0)
    got = fl.matmul(some, np.zeros(50), semiring="max_plus", mask=np.arange(85) % 3 == 0)
    wanted = twin(a[5:90, ::3] * 2, np.zeros((50, 1)), "max_plus")[0][:, 0]
    np.testing.assert_array_equal(got, np.where(np.arange(85) % 3 == 0, wanted, -np.inf))
    nan = fl.matmul(s, np.where(np.arange(150) == 3, np.nan, 1), semiring="min_second")
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(nan)), np.sort(a.tocsc()[:, [3]].indices))


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """3.2 million values in seven chunks, eight a row."""
    rng = np.random.default_rng(4)
    rows, cols = 400_000, 300_000
    columns = np.sort(rng.integers(0, cols - 8, (rows, 8)), 1) + np.arange(8)
    a = sp.csr_matrix((rng.random(8 * rows, "f4"), columns.ravel(), np.arange(rows + 1) * 8), (rows, cols))
    return fl.from_blocks([a], tmp_path_factory.mktemp("semiring") / "long.zarr"), a


def test_a_frontier_reads_the_chunks_that_hold_its_rows(long):
    s, a = long
    fl.matmul(s, np.zeros(a.shape[1], "f4"), semiring="min_plus")
    every = fl.stats().bytes_read
    assert every >= 0.98 * s.stored_bytes
    chunk = 1 << 19
    rows = np.concatenate(
        [np.arange(100) * 7 + 70_000, np.arange(100) * 5 + 395_000]
    )  # in two of seven chunks
    chunks = len(np.unique(rows * 8 // chunk))
    assert chunks == 2
    share = (s.stored_bytes / (a.nnz / chunk)) * chunks
    wanted = np.zeros(a.shape[0], bool)
    wanted[rows] = True
    pulled = fl.matmul(s, np.zeros(a.shape[1], "f4"), semiring="min_plus", mask=wanted)
    assert fl.stats().bytes_read <= 1.2 * share
    np.testing.assert_array_equal(pulled[rows], a[rows].data.reshape(-1, 8).min(1))
    assert np.isinf(pulled).sum() == a.shape[0] - len(rows)
    x = sp.coo_matrix((np.ones(len(rows)), (rows, 0 * rows)), (a.shape[0], 1))
    plan = fl.matmul.plan(s.T, x, semiring="plus_pair")
    pushed = fl.matmul(s.T, x, semiring="plus_pair")
    assert fl.stats().bytes_read <= 1.2 * share
    assert plan.bytes_read == pytest.approx(fl.stats().bytes_read, rel=0.01)
    wanted = np.bincount(a[rows].indices, minlength=a.shape[1])
    np.testing.assert_array_equal(pushed.toarray()[:, 0], wanted)


def test_bits_do_not_depend_on_limits_or_workers(long):
    s, a = long
    x = np.random.default_rng(2).standard_normal((a.shape[0], 2))
    results = []
    for workers in (1, 2):
        for more in (0, 1 << 30):
            with fl.Runtime(memory=fl.matmul.plan(s.T, x, mask=np.ones(a.shape[1], bool)).least_memory + more,
                            workers=workers):  # fmt: skip
                results.append(fl.matmul(s.T, x, mask=np.ones(a.shape[1], bool)))
    assert all((one == results[0]).all() for one in results)
    np.testing.assert_allclose(results[0], a.T @ x, rtol=1e-5, atol=1e-6)


def test_the_whole_product_of_a_mask_is_charged(long):
    s, a = long
    x = np.random.default_rng(3).random((a.shape[1], 10)).astype("f4")
    rows = np.zeros(a.shape[0], bool)
    rows[[5, 70, 700]] = True
    whole = 4 * a.shape[0] * 10
    plans = [fl.matmul.plan(s, x[:, :n], mask=rows).least_memory for n in (1, 10)]
    assert plans[1] - plans[0] >= 0.8 * whole
    with fl.Runtime(memory=plans[1]):
        got = fl.matmul(s, x, mask=rows)
        assert fl.stats().peak_memory <= plans[1]
    np.testing.assert_allclose(got[rows], a[rows] @ x, rtol=1e-5)
    assert not got[~rows].any()


def test_refusals_say_who_and_what(matrix):
    s, _ = matrix
    x = np.ones(150)
    for asked, sentence in (
        (
            {"mask": np.ones(3, bool)},
            r"matmul: the mask is 3; one bool for each of 400 rows, or 400 is needed",
        ),
        ({"mask": np.ones(400)}, r"matmul: the mask is float64; bool is needed"),
        ({"accumulate": True}, r"matmul: accumulate needs an out= that holds Y"),
        ({"complement": True}, r"matmul: complement is of a mask, and none was given"),
        (
            {"semiring": "max_plus", "out": np.ones(3)},
            r"matmul: out is 3 float64 and the product 400 float64",
        ),
        (
            {"semiring": "max_plus", "alpha": 2},
            r"matmul: over a semiring, with a mask or accumulated, alpha=1",
        ),
    ):
        with fails(fl.ShapeError, sentence):
            fl.matmul(s, x, **asked)
    with fails(
        FileNotFoundError, r"matmul: accumulate needs the old content of out, and 'none.zarr' does not"
    ):
        fl.matmul(s, x, semiring="max_plus", out="none.zarr", accumulate=True)
    with fails(ValueError, r"matmul: semiring is 'times_plus'; choose 'plus_times', 'min_plus'"):
        fl.matmul(s, x, semiring="times_plus")
    with fails(fl.ShapeError, r"matmul: A's columns must equal X's rows and X is 4 x 1; 150 are needed"):
        fl.matmul(s, sp.csr_matrix((4, 1)))
    with fails(fl.ShapeError, r"matmul: X is uint64 and whole numbers are added in int64"):
        fl.matmul(s, x.astype("u8"), semiring="min_plus")
    with fails(fl.ShapeError, r"semiring, mask, complement and accumulate need a SparseArray"):
        fl.matmul(np.ones((3, 3)), np.ones((3, 3)), semiring="min_plus")
    with fails(fl.BudgetError, r"matmul"):
        fl.matmul(s, x, semiring="min_plus", memory="1MiB")


# Vectors on disk ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATIONS)
def test_vectors_on_disk_give_what_those_in_memory_give(matrix, rng, tmp_path, name):
    s, _ = matrix
    for op in (s, s.T):
        x = rng.integers(-9, 9, (op.shape[1], 3)).astype("f4")
        stored = fl.from_numpy(x, tmp_path / "x.zarr", chunks=(64, 2), overwrite=True)
        wanted = fl.matmul(op, x, semiring=name)
        made = fl.matmul(op, stored, semiring=name, out=tmp_path / "y.zarr")
        assert made.dtype == wanted.dtype
        np.testing.assert_array_equal(made[...], wanted)
        turned = fl.matmul(stored.T, op.T, semiring=SWAPPED.get(name, name))
        np.testing.assert_array_equal(turned[...].T, wanted)


def test_vectors_and_masks_on_disk(matrix, rng, tmp_path):
    s, _ = matrix
    x = rng.integers(-9, 9, (150, 3)).astype("f4")
    mask = rng.random((400, 3)) < 0.5
    rows = np.ascontiguousarray(mask[:, 0])
    stored = fl.from_numpy(x, tmp_path / "x.zarr", chunks=(64, 2))
    masks = fl.from_numpy(mask, tmp_path / "m.zarr", chunks=(100, 3))
    kept = fl.from_numpy(rows, tmp_path / "rows.zarr")
    how = {"semiring": "min_plus"}
    wanted = fl.matmul(s, x, **how)
    np.testing.assert_array_equal(fl.matmul(s, x, out=tmp_path / "y.npy", **how)[...], wanted)
    np.testing.assert_array_equal(fl.matmul(s, stored * 1, **how)[...], wanted)  # lazy
    column = fl.from_numpy(x[:, 0], tmp_path / "v.zarr")
    for out in (None, tmp_path / "w.zarr"):
        found = fl.matmul(s, column, out=out, **how)
        assert isinstance(found, fl.Array)
        assert found.shape == (400,)
        np.testing.assert_array_equal(found[...], wanted[:, 0])
    for complement in (False, True):
        for here, there in ((mask, masks), (rows, kept), (sp.csr_matrix(mask), sp.csr_matrix(mask))):
            np.testing.assert_array_equal(
                fl.matmul(s, stored, mask=there, complement=complement, **how)[...],
                fl.matmul(s, x, mask=here, complement=complement, **how),
            )
    turned = fl.matmul(stored.T, s.T, mask=masks.T, **how)
    np.testing.assert_array_equal(turned[...].T, fl.matmul(s, x, mask=mask, **how))
    bound = 40 * np.finfo("f4").eps * 90
    plain = fl.matmul(s, column, out=tmp_path / "p.zarr")  # of the usual product: a vector on disk
    np.testing.assert_allclose(plain[...], s @ x[:, 0], rtol=0, atol=bound)
    np.testing.assert_array_equal(s @ column, s @ x[:, 0])
    np.testing.assert_array_equal(fl.matmul(fl.open(tmp_path / "w.zarr") * 0 + 1, s), np.ones(400) @ s)


def test_products_on_disk_are_added_to_what_is_there(matrix, rng, tmp_path):
    s, _ = matrix
    x, y = rng.integers(-9, 9, (150, 2)), rng.integers(-9, 9, (400, 2))
    for mask in (None, rng.random(400) < 0.2, rng.random((400, 2)) < 0.5, np.zeros(400, bool)):
        old = fl.from_numpy(y, tmp_path / "y.zarr", overwrite=True)
        out = fl.open(tmp_path / "y.zarr", mode="r+")
        wanted = fl.matmul(s, x, semiring="min_plus", mask=mask, out=y.copy(), accumulate=True)
        made = fl.matmul(s, x, semiring="min_plus", mask=mask, out=out, accumulate=True)
        assert made is out
        np.testing.assert_array_equal(out[...], wanted)
        del old
        fl.matmul(s, x, semiring="min_plus", mask=mask, out=out)  # replaced
        np.testing.assert_array_equal(out[...], fl.matmul(s, x, semiring="min_plus", mask=mask))
    whole = fl.matmul(s, fl.from_numpy(x, tmp_path / "x.zarr"), dtype="int16", out=tmp_path / "z.zarr")
    assert whole.dtype == np.int16
    np.testing.assert_array_equal(whole[...], fl.matmul(s, x, dtype="int16"))


def test_vectors_that_do_not_fit_are_cut_at_the_same_bits(long, tmp_path):
    """X and Y are 48 and 64 MB; the limit leaves room for neither."""
    s, a = long
    rng = np.random.default_rng(6)
    x, z = rng.standard_normal((a.shape[1], 20)), rng.standard_normal((a.shape[0], 20))
    fl.from_numpy(x, tmp_path / "x.zarr", chunks=(10_000, 8))
    fl.from_numpy(z, tmp_path / "z.zarr", chunks=(10_000, 8))
    del x, z
    rows = np.ones(a.shape[0], bool)
    rows[40_000:300_000] = False
    for op, given, mask in ((s, "x.zarr", rows), (s.T, "z.zarr", None)):
        how = {"semiring": "plus_times" if mask is not None else "max_plus", "mask": mask}
        vectors = fl.open(tmp_path / given)
        wanted = fl.matmul(op, vectors[...], **how)
        plan = fl.matmul.plan(op, vectors, out=tmp_path / "y.zarr", memory="4GiB", **how)
        assert plan.passes == 1
        limit = plan.least_memory + (16 << 20)
        with fl.Runtime(memory=limit, workers=2):
            plan = fl.matmul.plan(op, vectors, out=tmp_path / "y.zarr", **how)
            made = fl.matmul(op, vectors, out=tmp_path / "y.zarr", **how)
            assert plan.passes > 1 or "stretches" in str(plan)
            assert fl.stats().peak_memory <= limit
            assert fl.stats().bytes_read <= 1.02 * plan.bytes_read  # some of it is still in the cache
        same = (made[i : i + 50_000] == wanted[i : i + 50_000] for i in range(0, len(wanted), 50_000))
        assert all(part.all() for part in same)
        del wanted


_STREAMED = """
s, x = fl.open("s.zarr"), fl.open("x.zarr")
mask = fl.open("m.zarr")
fl.matmul(s, x, semiring="min_plus", mask=mask, out="y.zarr", memory=memory)
result = told() | {"digest": digest("y.zarr"), "saves": len(saves)}
"""


def test_a_killed_product_over_a_semiring_goes_on(process, tmp_path, rng):
    a = random_csr(120_000, 3000, 0.003, 5)
    fl.from_blocks([a], tmp_path / "s.zarr")
    fl.from_numpy(rng.random((3000, 60)), tmp_path / "x.zarr")
    fl.from_numpy(rng.random((120_000, 60)) < 0.5, tmp_path / "m.zarr")
    whole = process(_STREAMED, memory="260MiB")
    assert whole["saves"] > 1
    fl.delete(tmp_path / "y.zarr")
    process(_STREAMED, kill=whole["saves"] // 2, memory="240MiB")
    (left,) = left_at(tmp_path / "y.zarr")
    assert left.operation == "semiring product"
    assert 0 < left.done < 1
    again = process('fl.resume("y.zarr")\nresult = told() | {"digest": digest("y.zarr")}')
    assert "resumed" in again["what"]
    assert again["digest"] == whole["digest"]
    assert again["read"] < 0.9 * whole["read"]


# Graphs ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph():
    """600 vertices, several components, weights."""
    a = random_csr(600, 600, 0.002, 8)
    return (a + a.T).tocsr()


def example(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_breadth_first_levels_are_csgraphs(graph):
    levels = example("breadth_first")["levels"]
    for source in (0, 77):
        wanted = csgraph.shortest_path(graph, unweighted=True, indices=source)
        wanted[np.isinf(wanted)] = -1
        np.testing.assert_array_equal(levels(of_graph(graph), source), wanted)


def test_shortest_paths_are_csgraphs(graph):
    distances = example("shortest_paths")["distances"]
    wanted = csgraph.bellman_ford(graph, indices=5)
    np.testing.assert_allclose(distances(of_graph(graph), 5), wanted, rtol=1e-12)


def test_components_are_csgraphs(graph):
    count, wanted = csgraph.connected_components(graph, directed=False)
    found = example("components")["components"](of_graph(graph))
    assert found.max() + 1 == count
    np.testing.assert_array_equal(found, wanted)  # both number them in the order of their first vertices
