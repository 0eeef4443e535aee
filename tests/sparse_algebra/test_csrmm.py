"""Products of sparse matrices with dense ones, Aᴴ (A X) too: values, places, bits, limits, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import flagstone as fl
from flagstone import _core
from tests.support.error_sentences import fails
from tests.support.processes import fingerprint, random_csr


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    """700 x 300 in float64, an empty row and column, its SciPy twin."""
    a = random_csr(700, 300, 0.06, 5).tolil()
    a[17], a[:, 40] = 0, 0
    a = a.tocsr()
    return fl.from_blocks([a[:300], a[300:]], tmp_path_factory.mktemp("csrmm") / "a.zarr"), a


def close(y, a, x, dtype):
    """Elementwise: k eps of the sum of |a||x|, and a few."""
    wanted = a @ x.astype("f8")
    bound = 40 * np.finfo(dtype).eps * (abs(a) @ abs(x.astype("f8"))) + 1e-300
    got = np.asarray(y)
    assert got.shape == wanted.shape
    assert got.dtype == dtype
    assert (abs(got - wanted) <= bound).all()
    return fingerprint(got)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("cols", [1, 3, 65])
def test_every_place_of_x_and_y_gives_the_same_bits(matrix, tmp_path, rng, dtype, cols):
    s, a = matrix
    for op, twin in ((s, a), (s.T, a.T.tocsr())):
        x = rng.standard_normal((twin.shape[1], cols)).astype(dtype)
        stored = fl.from_numpy(x, tmp_path / f"x{op.shape[0]}.zarr")
        turned = fl.from_numpy(np.ascontiguousarray(x.T), tmp_path / f"t{op.shape[0]}.zarr")
        bits = close(op @ x, twin, x, dtype)
        assert close(op @ np.asfortranarray(x), twin, x, dtype) == bits
        assert close(op @ stored, twin, x, dtype) == bits
        assert close(op @ turned.T, twin, x, dtype) == bits
        assert close(op @ (stored * 1), twin, x, dtype) == bits  # lazy
        for name in ("y.zarr", "y.npy"):
            assert close(fl.matmul(op, stored, out=tmp_path / name), twin, x, dtype) == bits
        for left in (x.T, turned, stored.T):
            assert close((left @ op.T).T, twin, x, dtype) == bits
        assert close(fl.matmul(turned, op.T, out=tmp_path / "left.zarr").T, twin, x, dtype) == bits


def test_alpha_beta_update_y_whole(matrix, tmp_path, rng):
    s, a = matrix
    x, y = rng.standard_normal((300, 20)), rng.standard_normal((700, 20))
    wanted = 2 * (a @ x) - 0.5 * y
    bound = 40 * np.finfo("f8").eps * (2 * (abs(a) @ abs(x)) + abs(y))
    memory = y.copy()
    assert fl.matmul(s, x, out=memory, alpha=2, beta=-0.5) is memory
    assert (abs(memory - wanted) <= bound).all()
    stored = fl.from_numpy(y, tmp_path / "y.zarr", chunks=(64, 7))
    stored = fl.open(stored.path, mode="r+")
    assert fl.matmul(s, x, out=stored, alpha=2, beta=-0.5) is stored
    assert np.array_equal(np.asarray(stored), memory)
    turned = fl.matmul(x.T, s.T, out=tmp_path / "turned.zarr", alpha=2)
    assert (abs(np.asarray(turned).T - 2 * (a @ x)) <= bound).all()


def test_vectors_and_what_is_empty(matrix, tmp_path, rng):
    s, a = matrix
    v, w = rng.standard_normal(300), rng.standard_normal(700)
    close(s @ v, a, v, "f8")
    close(w @ s, a.T.tocsr(), w, "f8")
    close(s @ fl.from_numpy(v), a, v, "f8")
    assert (s @ np.ones((300, 0))).shape == (700, 0)
    nothing = fl.from_blocks([np.zeros((0, 5))], tmp_path / "nothing.zarr")
    assert (nothing @ np.ones((5, 2))).shape == (0, 2)
    assert not (nothing.T @ np.ones((0, 2))).any()
    zeros = fl.from_blocks([np.zeros((9, 5))], tmp_path / "zeros.zarr")
    assert not np.asarray(fl.matmul(zeros, np.ones((5, 2)), out=tmp_path / "z.zarr")).any()
    one = fl.from_blocks([np.full((1, 1), 3.0)], tmp_path / "one.zarr")
    assert (one @ np.array([2.0])) == 6


def test_not_finite_values_travel(tmp_path):
    a = np.zeros((4, 3))
    a[0, 0], a[1, 1], a[2, 2] = np.nan, np.inf, 1
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    got = s @ np.array([[1.0, 2], [0.5, 1], [np.inf, 0]])
    assert np.isnan(got[0]).all()
    assert np.isposinf(got[1]).all()
    assert np.isposinf(got[2, 0])
    assert got[2, 1] == 0


def limits(plan) -> list[int]:
    """The least limit, some more, and one that holds all."""
    return [plan.least_memory + (8 << 20), plan.least_memory + (40 << 20), 8 << 30]


@pytest.mark.parametrize("kind", ["plain", "transposed", "left"])
def test_bits_do_not_depend_on_the_limit(tmp_path, rng, kind):
    """X (or Y) of 50,000 rows passes in stretches, or is held whole; views of rows and columns, too."""
    a = random_csr(6000, 50_000, 1e-3, 3, "float32")
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    if kind == "transposed":
        s, a = s.T, a.T.tocsr()
    x = rng.standard_normal((a.shape[1], 70)).astype("f4")
    stored = fl.from_numpy(x, tmp_path / "x.zarr")
    call = (stored.T, s.T) if kind == "left" else (s, stored)
    seen, bits = set(), set()
    for limit in limits(fl.matmul.plan(*call)):
        _core.trim()
        y = fl.matmul(*call, memory=limit)
        done = fl.stats()
        assert done.peak_memory <= limit
        seen.add(done.note)
        bits.add(close(y.T if kind == "left" else y, a, x, "f4"))
    assert len(bits) == 1
    assert len(seen) > 1  # they were cut in more than one way


def test_views_of_rows_and_columns_on_disk(matrix, tmp_path, rng):
    s, a = matrix
    view, twin = s[::3, 20:250].log1p(), a[::3, 20:250].log1p()
    x = rng.standard_normal((230, 9))
    stored = fl.from_numpy(x, tmp_path / "x.zarr")
    assert close(view @ stored, twin, x, "f8") == close(view @ x, twin, x, "f8")
    z = rng.standard_normal((twin.shape[0], 9))
    close(view.T @ fl.from_numpy(z, tmp_path / "z.zarr"), twin.T.tocsr(), z, "f8")


def test_the_plan_says_how_and_what_it_moves(matrix, tmp_path, rng):
    s, _ = matrix
    x = fl.from_numpy(rng.standard_normal((300, 64)), tmp_path / "x.zarr")
    plan = fl.matmul.plan(s, x, out=tmp_path / "y.zarr")
    fl.matmul(s, x, out=tmp_path / "y.zarr")
    done = fl.stats()
    assert (plan.method, plan.passes) == ("row panels", 1)
    assert plan.flops == done.flops == pytest.approx(2 * s.nnz * 64)
    assert plan.bytes_read == done.bytes_read


def test_a_killed_product_goes_on(process, tmp_path, rng):
    fl.from_blocks([random_csr(3000, 1500, 0.25, 3)], tmp_path / "s.zarr")
    fl.from_numpy(rng.standard_normal((1500, 1200)), tmp_path / "x.zarr")
    call = 'fl.matmul(fl.open("s.zarr"), fl.open("x.zarr"), out="c.zarr", memory="260MiB")\n'
    whole = process(call + 'result = digest("c.zarr")')
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(call, kill=1)
    assert not (tmp_path / "c.zarr").exists()
    what, again = process('fl.resume("c.zarr")\nresult = told()["what"], digest("c.zarr")')
    assert "resumed at" in what
    assert again == whole


def test_refusals_say_who_and_what(matrix, tmp_path):
    s, _ = matrix
    with fails(fl.ShapeError, r"matmul: A is 700 x 300 and X is 30 x 2; A's columns must equal X's rows"):
        s @ np.ones((30, 2))
    with fails(fl.ShapeError, r"matmul: X is 2 x 30 and A is 700 x 300; X's columns must equal A's rows"):
        np.ones((2, 30)) @ s
    with fails(fl.ShapeError, r"matmul: X is <U1; numbers are needed"):
        s @ np.full((300, 2), "a")
    with fails(fl.ShapeError, r"matmul: beta needs an out= that holds Y"):
        fl.matmul(s, np.ones((300, 2)), beta=1)
    with fails(fl.ShapeError, r"matmul: alpha is complex and the product is float64"):
        fl.matmul(s, np.ones((300, 2)), alpha=1j)
    with fails(fl.ShapeError, r"matmul: out is 3 x 2 float64 and the product is 700 x 2 float64"):
        fl.matmul(s, np.ones((300, 2)), out=np.ones((3, 2)))
    with fails(fl.BudgetError, r"matmul"):
        fl.matmul(s, fl.from_numpy(np.ones((300, 2)), tmp_path / "x.zarr"), memory="1MiB")


def test_a_flat_file_larger_than_the_limit_is_written_by_stretches(tmp_path, rng):
    rows, cols = 500_000, 48
    ends = np.arange(rows + 1)
    a = sp.csr_matrix((np.ones(rows, "f4"), ends[:-1] % 300, ends), (rows, 300))
    s = fl.from_blocks([a[i : i + 100_000] for i in range(0, rows, 100_000)], tmp_path / "a.zarr")
    x = fl.from_numpy(rng.random((300, cols), "f4"), tmp_path / "x.zarr")
    out = tmp_path / "y.npy"
    limit = fl.matmul.plan(s, x, out=out).least_memory + (16 << 20)
    del a, ends
    fl.matmul(s, x, out=out, memory=limit)
    assert fl.stats().peak_memory <= limit
    assert fl.stats().bytes_read < 2 * (s.stored_bytes + x.nbytes)  # A once
    y = np.load(out, mmap_mode="r")
    np.testing.assert_array_equal(y[:300], np.asarray(x))
    np.testing.assert_array_equal(y[-300:], np.asarray(x)[np.arange(rows - 300, rows) % 300])


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("cols", [1, 50, 64])
def test_sums_of_wide_matrices_by_stripes(tmp_path, rng, dtype, cols):
    """Sums of more than 2 MiB are kept by stripes of columns: dense enough, and with columns left out."""
    n = 600_000 if cols == 1 else 30_000
    filled = random_csr(40_000, 400, 0.05, 8, "float32")  # 20 values a column and more
    some = random_csr(40_000, n - 400, 30_000 / 40_000 / (n - 400), 9, "float32")
    a = sp.hstack([filled, some]).tocsr()
    s = fl.from_blocks([a[:17_000], a[17_000:]], tmp_path / "a.zarr")
    if np.dtype(dtype).kind == "c":
        a, s = a * 1j, s * 1j
    x = rng.standard_normal((40_000, cols)).astype(dtype)
    wanted = a.T.astype("c16") @ x.astype("c16")
    eps = np.finfo(dtype).eps
    bound = 200 * eps * (abs(a).T.astype("f8") @ abs(x).astype("f8")) + 1e-300
    seen = set()
    for workers, given in ((1, x), (2, x), (4, fl.from_numpy(x))):
        with fl.Runtime("2GiB", workers=workers):
            got = np.asarray(s.T @ given)
        assert got.dtype == dtype
        assert (abs(got - wanted) <= bound).all()
        seen.add(fingerprint(got))
    assert len(seen) == 1


def test_wide_sums_over_many_panels(tmp_path, rng):
    """Panels in two groups, columns in stretches, an odd last stripe: the same bits at any limit."""
    rows, n = 620_000, 60_001  # ten panels of 65,536 rows
    a = random_csr(rows, n, 3 / n, 5, "float32")
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    x = fl.from_numpy(rng.standard_normal((rows, 12)).astype("f4"), tmp_path / "x.zarr")
    wanted = a.T.astype("f8") @ np.asarray(x, "f8")
    bound = 20 * np.finfo("f4").eps * (abs(a).T.astype("f8") @ abs(np.asarray(x, "f8"))) + 1e-300
    seen = set()
    for workers, share in ((1, 1.0), (2, 1.2), (2, 4.0)):
        with fl.Runtime("1GiB", workers=workers):
            least = fl.matmul.plan(s.T, x, out=tmp_path / "z.zarr").least_memory
        with fl.Runtime(int(share * least), workers=workers):
            got = fl.matmul(s.T, x, out=tmp_path / f"z{workers}-{share}.zarr")
        assert (abs(np.asarray(got) - wanted) <= bound).all()
        seen.add(fingerprint(np.asarray(got)))
    assert len(seen) == 1


def test_least_memory_of_wide_sums(tmp_path, rng):
    """Sums in float64, a panel of X, and what a process and its panels take: nothing is held twice."""
    a = random_csr(20_000, 100_000, 1e-3, 4, "float32")
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    x = fl.from_numpy(rng.standard_normal((20_000, 64)).astype("f4"))
    plan = fl.matmul.plan(s.T, x, memory="1GiB")
    held = 8 * 100_000 * 64
    assert plan.peak_memory <= _core.resident_bytes() + held + 4 * 20_000 * 64 * 2 + (130 << 20)
    assert plan.bytes_read < 1.2 * (s.stored_bytes + x.nbytes)


def gram_bound(a, x, dtype):
    """Elementwise: some hundred eps of the sum of |a|ᵀ|a||x|."""
    magnitudes = abs(a).astype("f8")
    return 200 * np.finfo(dtype).eps * (magnitudes.T @ (magnitudes @ abs(x).astype("f8"))) + 1e-300


@pytest.fixture(scope="module")
def wide_columns(tmp_path_factory):
    """Four panels of 70,000 columns, some of them dense; the last panels hold values of few."""
    a = sp.vstack([
        sp.hstack([random_csr(17_000, n, share, 8, "float32") for n, share in ((300, 0.1), (69_701, 1e-4))]),
        random_csr(200_000, 70_001, 2e-5, 7, "float32"),
    ]).tocsr()  # fmt: skip
    return fl.from_blocks([a[:17_000], a[17_000:]], tmp_path_factory.mktemp("gram") / "a.zarr"), a


@pytest.mark.parametrize(("dtype", "cols"), [("f4", 64), ("f4", 70), ("f8", 33), ("c8", 32), ("c16", 19)])
def test_wide_gram_sums_have_one_order(wide_columns, tmp_path, rng, dtype, cols):
    """In memory and on disk, one worker and four, whole and in blocks of columns: the same bits."""
    s, a = wide_columns
    if np.dtype(dtype).kind == "c":
        a, s = a * (1 + 2j), s * (1 + 2j)
    x = rng.standard_normal((70_001, cols)).astype(dtype)
    stored = fl.from_numpy(x, tmp_path / "x.zarr")
    wanted = a.conj().T @ (a @ x.astype("c16" if np.dtype(dtype).kind == "c" else "f8"))
    with fl.Runtime("1GiB", workers=2):
        least = s.gram.plan(stored, out=tmp_path / "y.zarr").least_memory
    seen = set()
    for workers, given, memory in ((1, x, 1 << 30), (4, stored, 1 << 30), (2, stored, least + (24 << 20))):
        _core.trim()
        with fl.Runtime(memory, workers=workers):
            got = s.gram(given)
            done = fl.stats()
        assert isinstance(got, np.ndarray) == isinstance(given, np.ndarray)
        assert done.peak_memory <= memory
        assert done.passes == (1 if memory == 1 << 30 else done.passes) >= 1
        got = np.asarray(got)
        assert got.dtype == dtype
        assert (abs(got - wanted) <= gram_bound(a, x, dtype)).all()
        seen.add(fingerprint(got))
    assert len(seen) == 1


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_short_gram_sums_keep_their_tree(tmp_path, rng, dtype):
    a = random_csr(3000, 300, 0.05, 5, "float32")
    if dtype == "c16":
        a = a * 1j
    s = fl.from_blocks([a[:1000], a[1000:]], tmp_path / "a.zarr")
    for cols in (1, 3, 70):
        x = rng.standard_normal((300, cols)).astype(dtype)
        wanted, limit = a.conj().T @ (a @ x), gram_bound(a, x, dtype)
        seen = set()
        for given in (x, np.asfortranarray(x), fl.from_numpy(x), fl.from_numpy(x) * 1):
            got = np.asarray(s.gram(given))
            assert (abs(got - wanted) <= limit).all()
            seen.add(fingerprint(got))
        assert len(seen) == 1
        into = np.zeros_like(x)
        assert s.gram(x, out=into) is into
        assert fingerprint(into) in seen
    np.testing.assert_array_equal(s.gram(x[:, 0]), np.asarray(s.gram(fl.from_numpy(x[:, 0]))))


def test_a_gram_product_larger_than_the_limit(isolated, tmp_path, rng):
    """X and Aᵀ(A X) of 171 MiB each on disk, made within 256 MiB in blocks of columns."""
    a = random_csr(20_000, 700_000, 2e-5, 3, "float32")
    fl.from_blocks([a], tmp_path / "a.zarr")
    x = rng.standard_normal((700_000, 64)).astype("f4")
    fl.from_numpy(x, tmp_path / "x.zarr")
    passes, least, peak = isolated(
        """
        A, X = fl.open("a.zarr"), fl.open("x.zarr")
        plan = A.gram.plan(X, out="y.zarr", memory="256MiB")
        Y = A.gram(X, out="y.zarr", memory="256MiB")
        result = [plan.passes, plan.least_memory, fl.stats().peak_memory]
        """
    )
    assert passes > 1
    assert least <= 256 << 20
    assert peak <= 256 << 20
    y = np.asarray(fl.open(tmp_path / "y.zarr"))
    assert (abs(y - a.T @ (a @ x.astype("f8"))) <= gram_bound(a, x, "f4")).all()


def test_a_killed_gram_product_goes_on(process, tmp_path, rng):
    fl.from_blocks([random_csr(3000, 1500, 0.25, 3)], tmp_path / "s.zarr")
    fl.from_numpy(rng.standard_normal((1500, 1200)), tmp_path / "x.zarr")
    call = 'fl.open("s.zarr").gram(fl.open("x.zarr"), out="c.zarr", memory="260MiB")\n'
    whole = process(call + 'result = digest("c.zarr")')
    (tmp_path / "c.zarr").rename(tmp_path / "whole.zarr")
    process(call, kill=1)
    assert not (tmp_path / "c.zarr").exists()
    what, again = process('fl.resume("c.zarr")\nresult = told()["what"], digest("c.zarr")')
    assert "resumed at" in what
    assert again == whole


def test_least_memory_of_gram_products(tmp_path, rng):
    """The sums in float64, a panel of T, and what a process and its panels take: nothing is held twice."""
    a = random_csr(16_000, 100_000, 1e-3, 4, "float32")
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    x = rng.standard_normal((100_000, 64)).astype("f4")
    plan = s.gram.plan(x, memory="1GiB")
    held = 12 * 100_000 * 64  # Y beside them
    assert plan.peak_memory <= _core.resident_bytes() + held + 4 * 16_000 * 64 * 2 + (130 << 20)
    assert plan.bytes_read < 1.2 * s.stored_bytes
    assert plan.flops == pytest.approx(4 * a.nnz * 64, rel=0.01)


def test_refusals_of_gram_products(tmp_path):
    a = random_csr(50, 30, 0.2, 1, "float32")
    s = fl.from_blocks([a], tmp_path / "a.zarr")
    with pytest.raises(fl.ShapeError, match=r"gram: Aᵀ is stored by columns"):
        s.T.gram(np.ones((50, 2)))
    with pytest.raises(fl.ShapeError, match=r"gram: A is 50 x 30 and X is 29 x 2; .*\(30, 29\)"):
        s.gram(np.ones((29, 2)))
    with pytest.raises(fl.ShapeError, match=r"gram: .*30 x 2"):
        s.gram(np.ones((30, 2)), out=np.ones((30, 3)))
    assert s.gram(np.ones((30, 0))).shape == (30, 0)
