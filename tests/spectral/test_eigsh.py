"""Eigenpairs against LAPACK and SciPy: what is stated of them is computed here, from the vectors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.csgraph as csgraph
import scipy.sparse.linalg as spla

import flagstone as fl

EPS = np.finfo(float).eps
TOL = 1e-6


def laplacian(m, n):
    """Of an m x n grid: of a square one most values are there twice."""
    line = [
        sp.diags_array([-np.ones(k - 1), 2 * np.ones(k), -np.ones(k - 1)], offsets=[-1, 0, 1]) for k in (m, n)
    ]
    return sp.csr_array(sp.kronsum(line[0], line[1]))


def symmetric(n, dtype, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal((n, n))
    if np.dtype(dtype).kind in "iu":
        x = np.round(9 * x)
    x = x + x.conj().T
    return x.astype(dtype)


def wanted(values, which, k):
    """In the order of `which`, of ascending values."""
    if which == "LM":
        return values[np.argsort(-abs(values), kind="stable")][:k]
    if which == "BE":
        both = np.empty(k)
        both[0::2], both[1::2] = values[::-1][: (k + 1) // 2], values[: k // 2]
        return both
    return values[::-1][:k] if which == "LA" else values[:k]


def check(found, a, values, which, tol=TOL):
    """The residual of each pair, that vectors are orthonormal, that no value is missed."""
    a = a.toarray() if sp.issparse(a) else np.asarray(a)
    a = a.astype(complex if a.dtype.kind == "c" else float)
    w, v = found
    v = np.asarray(v)
    n, k = v.shape
    norm = abs(values).max(initial=0)
    allowed = (
        np.maximum(tol * np.maximum(abs(w), EPS ** (2 / 3) * norm), 64 * EPS * norm) + 1e2 * n * EPS * norm
    )
    residual = np.linalg.norm(a @ v - v * w, axis=0)
    assert (residual <= allowed).all()
    assert abs(residual - found.residual).max(initial=0) <= 1e2 * n * EPS * norm
    assert abs(v.conj().T @ v - np.eye(k)).max() <= 1e3 * EPS * np.sqrt(n)
    best = wanted(values, which, k)
    off = (
        abs(w) - abs(best) if which == "LM" else w - best
    )  # of magnitudes that are equal either sign may come first
    assert (abs(off) <= allowed).all()


@pytest.mark.parametrize("which", ["LM", "LA", "SA", "BE"])
@pytest.mark.parametrize("k", [1, 7])
def test_sparse_against_lapack(which, k):
    a = laplacian(17, 13)  # every value once
    shifted = (a - 3 * sp.eye_array(17 * 13)).tocsr()  # indefinite
    found = fl.linalg.eigsh(shifted, k, which=which)
    check(found, shifted, np.linalg.eigvalsh(shifted.toarray()), which)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int32"])
@pytest.mark.parametrize("stored", ["zarr", "npy", "memory"])
def test_dense_dtypes_and_layouts(tmp_path, dtype, stored):
    a = symmetric(150, dtype)
    given = a
    if stored == "zarr":
        given = fl.from_numpy(a, str(tmp_path / "a.zarr"), chunks=(40, 40))
    if stored == "npy":
        np.save(tmp_path / "a.npy", a)
        given = fl.open(tmp_path / "a.npy")
    found = fl.linalg.eigsh(given, 5)
    assert found.V.dtype == ("complex128" if dtype.startswith("complex") else "float64")
    check(found, a, np.linalg.eigvalsh(a.astype(found.V.dtype)), "LM")


def test_tiles_above_the_diagonal_are_not_read(tmp_path):
    n = 1500
    turn = np.random.default_rng(2).standard_normal((n, 20)) * np.geomspace(1, 0.05, 20)
    a = turn @ turn.T
    upper = a.copy()
    upper[:1024, 1024:] = np.nan
    found = fl.linalg.eigsh(fl.from_numpy(upper, str(tmp_path / "a.zarr"), chunks=(512, 512)), 3, tol=1e-5)
    gram = np.linalg.eigvalsh(turn.T @ turn)
    check(found, a, np.concatenate([np.zeros(n - 20), gram]), "LM", 1e-5)


def test_views_and_lazy_operands(tmp_path):
    a = symmetric(80, "float32")
    stored = fl.from_numpy(a, str(tmp_path / "a.zarr"))
    values = np.linalg.eigvalsh(a.astype(float))
    check(fl.linalg.eigsh(stored.T, 3), a, values, "LM")
    check(fl.linalg.eigsh(stored * 2, 3), 2 * a, 2 * values, "LM")
    z = fl.from_numpy(symmetric(20, "complex128"), str(tmp_path / "z.zarr"))
    with pytest.raises(fl.ShapeError, match="conjugates"):
        fl.linalg.eigsh(z.T, 2)


@pytest.mark.parametrize("block", [1, 2, 4, 8])
def test_five_copies_of_a_graph_are_all_found(shared_data, block):
    """ARPACK, and a block method that does not look again, miss some of the copies."""
    edges = np.loadtxt(shared_data / "snap-wiki-Vote" / "wiki-Vote.txt", dtype=np.int64)
    _, ids = np.unique(edges, return_inverse=True)
    ids = ids.reshape(edges.shape)
    a = sp.coo_array((np.ones(len(ids)), (ids[:, 0], ids[:, 1]))).tocsr()
    n = max(a.shape)
    a.resize((n, n))
    a = ((a + a.T) > 0).astype(float)
    keep = np.argsort(-a.sum(1), kind="stable")[:600]  # the heart of it: the rest shows in the time alone
    a = a[keep][:, keep]
    five = sp.block_diag([a] * 5, format="csr")
    values = np.sort(np.tile(np.linalg.eigvalsh(a.toarray()), 5))
    found = fl.linalg.eigsh(five, 20, tol=1e-4, block=block)
    assert found.verified
    assert abs(found.w - wanted(values, "LM", 20)).max() <= 1e-4 * abs(values).max()


def test_components_of_a_graph():
    """D^-½ A D^-½ has the value 1 once a component."""
    rng = np.random.default_rng(8)
    parts = []
    for size in rng.integers(4, 40, 12):
        ring = sp.diags_array(np.ones(size - 1), offsets=1, shape=(size, size))
        parts.append(ring + ring.T)
    a = sp.block_diag(parts, format="csr")
    root = 1 / np.sqrt(a.sum(1))
    normal = sp.csr_array(sp.diags_array(root) @ a @ sp.diags_array(root))
    count, _ = csgraph.connected_components(a)
    found = fl.linalg.eigsh(normal, count + 2, which="LA", block=2)
    assert (abs(found.w[:count] - 1) < TOL).all()
    assert found.w[count] < 1 - 1e-3
    check(found, normal, np.linalg.eigvalsh(normal.toarray()), "LA")


def test_values_that_are_there_twice():
    a = laplacian(12, 12)
    found = fl.linalg.eigsh(a, 16, which="LA", block=1)
    check(found, a, np.linalg.eigvalsh(a.toarray()), "LA")


@pytest.mark.parametrize(
    "a",
    [
        np.zeros((9, 9)),
        np.eye(9),
        np.diag(np.arange(-4.0, 5.0)),
        np.outer(np.arange(9.0), np.arange(9.0)),
        np.array([[3.0]]),
    ],
    ids=["zero", "identity", "diagonal", "rank one", "1 x 1"],
)
def test_every_pair_of_small_and_degenerate_matrices(a):
    for k in {1, (len(a) + 1) // 2, len(a)}:
        check(fl.linalg.eigsh(a, k), a, np.linalg.eigvalsh(a), "LM")


def test_units_do_not_matter():
    a = laplacian(9, 9)
    one = fl.linalg.eigsh(a, 4).w
    for unit in (1e-305, 1e-120, 1e120, 1e200):
        found = fl.linalg.eigsh(a * unit, 4)
        assert abs(found.w / unit - one).max() <= 1e-5 * one[0]
        assert found.residual.max() / unit <= TOL * one[0]


@pytest.mark.parametrize("block", [None, 2])
def test_spectra_that_decay_fast(block):
    """Blocks whose directions are weak, or rounding alone: the basis stays orthonormal all the same."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((60, 12)))[0]
    a = (turn * np.logspace(0, -24, 12)) @ turn.T
    a = (a + a.T) / 2
    for k in (3, 9):
        check(fl.linalg.eigsh(a, k, which="LA", block=block), a, np.linalg.eigvalsh(a), "LA")


def test_a_start_that_spans_other_pairs_is_looked_past():
    """Vectors that A maps to themselves show nothing else: no residual tells."""
    a = laplacian(9, 7)
    values, vectors = np.linalg.eigh(a.toarray())
    for unit in (1.0, 1e-200, 1e200):
        found = fl.linalg.eigsh(a, 3, v0=vectors[:, :5] * unit, block=5)
        assert found.verified
        check(found, a, values, "LM")
    bare = fl.linalg.eigsh(a, 3, v0=vectors[:, :5], block=5, verify=False)
    assert not bare.verified


def test_operators_of_the_caller():
    a = laplacian(15, 11)
    values = np.linalg.eigvalsh(a.toarray())
    operator = spla.aslinearoperator(a)
    found = fl.linalg.eigsh(operator, 4)
    check(found, a, values, "LM")
    z = symmetric(40, "complex128")
    check(fl.linalg.eigsh(spla.aslinearoperator(z), 3), z, np.linalg.eigvalsh(z), "LM")
    bare = fl.linalg.eigsh(lambda x: a @ x, 4, v0=np.ones(165) + np.arange(165))
    assert abs(bare.w - found.w).max() <= TOL * found.w[0]


def test_an_operator_may_call_the_library(tmp_path):
    """A run inside a run, within the same limit: A = Bᵀ B, neither of them formed."""
    b = np.random.default_rng(4).standard_normal((60, 90))
    stored = fl.from_numpy(b, str(tmp_path / "b.zarr"))
    gram = spla.LinearOperator(
        (90, 90), matmat=lambda x: np.asarray(fl.matmul(stored.T, np.asarray(fl.matmul(stored, x)))),
        matvec=lambda x: b.T @ (b @ x), dtype=float,
    )  # fmt: skip
    check(fl.linalg.eigsh(gram, 5), b.T @ b, np.linalg.eigvalsh(b.T @ b), "LM")


class Broken:
    shape, dtype = (50, 50), np.dtype(float)

    def __init__(self, answer):
        self.matmat = answer


def raising(x):
    raise KeyError("mine")


def test_what_operators_do_wrong():
    with pytest.raises(fl.ShapeError, match="A made"):
        fl.linalg.eigsh(Broken(lambda x: x[:3]), 2)
    with pytest.raises(fl.ShapeError, match="dtype"):
        fl.linalg.eigsh(Broken(lambda x: x * 1j), 2)
    with pytest.raises(fl.NumericalError, match="NaN"):
        fl.linalg.eigsh(Broken(lambda x: x * np.nan), 2)
    with pytest.raises(KeyError, match="mine"):
        fl.linalg.eigsh(Broken(raising), 2)
    with pytest.raises(ValueError, match="read-only"):
        fl.linalg.eigsh(Broken(lambda x: x.__setitem__(0, 1)), 2)


def test_what_is_refused():
    a = symmetric(30, "float64")
    refused = [
        (fl.ShapeError, "square", (a[:20], 2), {}),
        (fl.ShapeError, "k is 31", (a, 31), {}),
        (fl.ShapeError, "k is 0", (a, 0), {}),
        (fl.ShapeError, "which is 'XX'", (a, 2), {"which": "XX"}),
        (fl.ShapeError, "method is 'lu'", (a, 2), {"method": "lu"}),
        (fl.ShapeError, "ncv is 3", (a, 2), {"ncv": 3, "block": 1}),
        (fl.ShapeError, "keep is 29", (a, 2), {"keep": 29, "block": 1}),
        (fl.ShapeError, "tol is 0", (a, 2), {"tol": 0}),
        (fl.ShapeError, "tol is 'x'", (a, 2), {"tol": "x"}),
        (fl.ShapeError, "v0 is ", (a, 2), {"v0": 3.0}),
        (fl.ShapeError, "block is 99", (a, 2), {"block": 99}),
        (fl.ShapeError, "v0 is 3", (a, 2), {"v0": np.ones(3)}),
        (fl.ShapeError, "v0 holds", (a, 2), {"v0": np.zeros(30)}),
        (fl.ShapeError, "v0 holds", (a, 2), {"v0": np.ones((30, 2))}),
        (fl.ShapeError, "seed is -1", (a, 2), {"seed": -1}),
        (fl.ShapeError, "give a matrix", (object(), 2), {}),
        (fl.NumericalError, "not symmetric", (np.triu(a), 2), {}),
        (fl.NumericalError, "NaN", (np.where(a > 3, np.nan, 1.0), 2), {}),
    ]
    for kind, match, given, options in refused:
        with pytest.raises(kind, match=match):
            fl.linalg.eigsh(*given, **options)


def test_no_convergence_tells_what_was_reached():
    a = laplacian(40, 40)
    with pytest.raises(fl.ConvergenceError, match="after") as caught:
        fl.linalg.eigsh(a, 5, which="SA", block=1, ncv=12, tol=1e-10, maxiter=8)
    partial = caught.value.partial
    assert partial.w.shape == (5,)
    assert partial.V.shape == (1600, 5)
    residual = np.linalg.norm(a @ np.asarray(partial.V) - np.asarray(partial.V) * partial.w, axis=0)
    assert abs(residual - partial.residual).max() <= 1e3 * EPS * 8


def test_passes_widths_seeds_and_starts():
    a = laplacian(20, 20)
    few = fl.linalg.eigsh(a, 5, passes=3)
    assert few.applications == 4  # the last one measures
    best = fl.linalg.eigsh(a, 5, block=7, ncv=53, keep=11)  # no multiples of each other
    check(best, a, np.linalg.eigvalsh(a.toarray()), "LM")
    w, v = best
    again = fl.linalg.eigsh(a, 5, v0=np.asarray(v))
    assert again.applications < best.applications
    same, other = fl.linalg.eigsh(a, 5, seed=3), fl.linalg.eigsh(a, 5, seed=3)
    assert np.array_equal(np.asarray(same.V), np.asarray(other.V))
    assert np.allclose(fl.linalg.eigsh(a, 5, return_eigenvectors=False), w)
    assert "EigshResult" in repr(best)


def test_the_group_and_the_plan(tmp_path):
    a = laplacian(30, 30)
    plan = fl.linalg.eigsh.plan(a, 8)
    assert plan.passes > 1
    assert "block" in str(plan)
    found = fl.linalg.eigsh(a, 8, out=tmp_path / "pairs.zarr")
    assert np.array_equal(fl.open(tmp_path / "pairs.zarr/values")[...], found.w)
    assert found.V.path.startswith(str(tmp_path))


def test_same_bits_for_every_limit_and_number_of_workers(isolated):
    """The basis in memory, and on disk."""
    found = isolated(
        """
        import scipy.sparse as sp
        from tests.support.processes import fingerprint
        n = 30000
        d = np.random.default_rng(1).permutation(np.geomspace(1, 1e-3, n))
        beside = np.full(n - 1, 1e-4)
        a = fl.from_blocks([sp.csr_matrix(sp.diags([beside, d, beside], [-1, 0, 1]))])
        ask = dict(block=8, ncv=64, passes=9)
        least = fl.linalg.eigsh.plan(a, 20, memory="8GiB", **ask).least_memory
        result = []
        for memory, workers in (("8GiB", 1), ("8GiB", 2), (least, 2)):
            with fl.Runtime(memory=memory, workers=workers):
                pairs = fl.linalg.eigsh(a, 20, **ask)
                result.append([fingerprint(np.asarray(pairs.V), pairs.w), fl.stats().bytes_written,
                               fl.stats().peak_memory <= fl.stats().memory])
        """
    )
    assert len({bits for bits, _, _ in found}) == 1
    assert all(kept for _, _, kept in found)
    assert found[2][1] > found[1][1] + 5e6  # the basis went out
