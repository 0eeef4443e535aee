"""LU with LAPACK's pivots, solves, determinants and inverses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import flagstone as fl
from flagstone import linalg
from tests.factor.matrices import definite, eps, norm1, solve_error
from tests.support.processes import DTYPES, KINDS, random_matrix, stored


def unpacked(lu, piv):
    """P, L, U of what LAPACK packs."""
    rows = np.arange(len(piv))
    for i, p in enumerate(piv):
        rows[[i, p]] = rows[[p, i]]
    return rows, np.tril(lu, -1) + np.eye(len(lu), dtype=lu.dtype), np.triu(lu)


def residual(a, lu, piv) -> float:
    rows, lower, upper = unpacked(lu.astype(np.result_type(lu, np.float64)), piv)
    return norm1(a[rows] - lower @ upper) / (len(a) * norm1(a))


@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 300, 515, 1100])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_are_those_of_lapack(tmp_path, rng, n, dtype):
    a = random_matrix(rng, (n, n), dtype)
    lu, piv = linalg.lu_factor(stored(a, "zarr", tmp_path / "a"))
    values = np.asarray(lu)
    wide = np.result_type(dtype, np.float64)
    if np.finfo(dtype).eps < 1e-10:  # in single precision two candidates may change places
        assert np.array_equal(piv, scipy.linalg.lu_factor(a.astype(wide))[1])
    assert residual(a, values, piv) <= 25 * eps(dtype)
    lower = np.tril(values, -1)
    assert (abs(lower.real) + abs(lower.imag)).max(initial=0) <= (2 if values.dtype.kind == "c" else 1) + eps(
        dtype
    )


def test_a_zero_leading_block_does_not_matter(rng):
    a = rng.standard_normal((900, 900))
    a[:400, :400] = 0
    lu, piv = linalg.lu_factor(a)
    assert np.array_equal(piv, scipy.linalg.lu_factor(a)[1])
    assert residual(a, np.asarray(lu), piv) <= 25 * eps("float64")


def test_growth_is_lapacks():
    """Wilkinson's matrix, whose entries double: pivots that stop at a tile would hide that."""
    n = 600  # several tiles; 2^599 is a number
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    lu, piv = linalg.lu_factor(a)
    assert np.array_equal(piv, np.arange(n))
    assert np.asarray(lu)[-1, -1] == 2.0 ** (n - 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_solve(tmp_path, rng, kind, dtype):
    a, b = random_matrix(rng, (530, 530), dtype), random_matrix(rng, (530, 7), dtype)
    given = stored(a, kind, tmp_path / "a")
    x = np.asarray(linalg.solve(given, stored(b, kind, tmp_path / "b")))
    assert solve_error(a, x, b) <= 25 * eps(dtype)
    assert solve_error(a.T, np.asarray(linalg.solve(given.T, b)), b) <= 25 * eps(dtype)
    assert solve_error(a.conj(), np.asarray(linalg.solve(given.conj(), b)), b) <= 25 * eps(dtype)
    both = linalg.lu_solve(linalg.lu_factor(given), b)
    assert solve_error(a, np.asarray(both), b) <= 25 * eps(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_are_scipys(rng, dtype):
    a, b = random_matrix(rng, (300, 300), dtype), random_matrix(rng, (300,), dtype)
    x = linalg.lu_solve(scipy.linalg.lu_factor(a), b)
    assert solve_error(a, x, b) <= 25 * eps(dtype)
    lu, piv = linalg.lu_factor(a)
    y = scipy.linalg.lu_solve((np.asarray(lu), piv), b)
    assert solve_error(a, y, b) <= 25 * eps(dtype)


@pytest.mark.parametrize("n", [0, 1, 2, 129, 515])
@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles_apart(tmp_path, rng, n, dtype):
    """L and U are those of lu_factor to the bit, with nothing in the other halves; p puts the rows back."""
    a = random_matrix(rng, (n, n), dtype)
    p, lower, upper = linalg.lu(stored(a, "npy", tmp_path / "a"))
    packed, piv = linalg.lu_factor(a)
    assert np.array_equal(np.asarray(lower), np.tril(np.asarray(packed), -1) + np.eye(n, dtype=dtype))
    assert np.array_equal(np.asarray(upper), np.triu(np.asarray(packed)))
    assert np.array_equal(np.argsort(p), unpacked(np.asarray(packed), piv)[0])
    wide = np.result_type(dtype, np.float64)
    left = np.asarray(lower).astype(wide)[p] @ np.asarray(upper).astype(wide)
    assert norm1(a - left) <= 25 * eps(dtype) * n * norm1(a) if n else left.shape == (0, 0)


def test_triangles_as_a_group_and_the_permutation_as_a_matrix(tmp_path, rng):
    a = rng.standard_normal((520, 520))
    given = linalg.lu(a, p_indices=False, out=tmp_path / "lu.zarr")
    again = linalg.open_factor(tmp_path / "lu.zarr")
    assert isinstance(again, linalg.LuResult)
    for p, lower, upper in (given, again):
        assert isinstance(p, fl.Array)
        assert norm1(np.asarray(fl.matmul(p, fl.matmul(lower, upper))) - a) <= 25 * eps("f8") * 520 * norm1(a)
    stored_chunks = [path for path in (tmp_path / "lu.zarr").rglob("*") if path.is_file()]
    padded = 2 * 8 * 640**2
    assert (
        sum(path.stat().st_blocks for path in stored_chunks) * 512 < 0.7 * padded
    )  # absent: chunks of zeros
    assert fl.open(tmp_path / "lu.zarr" / "p").shape == (520,)
    linalg.lu(a, out=tmp_path / "indices.zarr")
    assert isinstance(linalg.open_factor(tmp_path / "indices.zarr").p, np.ndarray)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_lu_solve_with_the_transpose(tmp_path, rng, dtype, trans, kind):
    n = 515
    a, b = random_matrix(rng, (n, n), dtype), random_matrix(rng, (n, 4), dtype)
    factor = linalg.lu_factor(a, out=tmp_path / f"lu.{kind}")
    op = {"N": a, "T": a.T, "C": a.conj().T}[trans if isinstance(trans, str) else "NTC"[trans]]
    x = linalg.lu_solve(factor, stored(b, kind, tmp_path / "b"), trans)
    assert solve_error(op, np.asarray(x), b) <= 25 * eps(dtype)
    y = linalg.lu_solve(factor, b[:, 1].copy(), trans=trans)
    assert solve_error(op, y, b[:, 1]) <= 25 * eps(dtype)


def test_a_factor_at_a_path_is_opened_again(tmp_path, rng):
    a, b = rng.standard_normal((515, 515)), rng.standard_normal((515, 3))
    made = linalg.lu_factor(a, out=tmp_path / "lu.zarr")
    again = linalg.open_factor(tmp_path / "lu.zarr")
    assert isinstance(again, fl.linalg.LuFactor)
    assert np.array_equal(np.asarray(again.lu), np.asarray(made.lu))
    assert np.array_equal(again.piv, scipy.linalg.lu_factor(a)[1])
    assert np.array_equal(linalg.lu_solve(again, b), linalg.lu_solve(made, b))
    assert linalg.slogdet(again) == linalg.slogdet(a)
    linalg.lu_factor(a.T, out=tmp_path / "lu.zarr")  # replaced whole
    assert not np.array_equal(linalg.open_factor(tmp_path / "lu.zarr").piv, made.piv)
    for out in (tmp_path / "lu.npy", np.empty((515, 515)), fl.from_numpy(np.zeros((515, 515)))):
        alone = linalg.lu_factor(a, out=out)  # lu alone
        assert np.array_equal(alone.piv, again.piv)
        assert np.array_equal(np.asarray(alone.lu), np.asarray(again.lu))
    none = linalg.lu_factor(np.empty((0, 0)), out=tmp_path / "none.zarr")
    assert linalg.open_factor(tmp_path / "none.zarr").piv.shape == none.piv.shape == (0,)
    with pytest.raises(fl.FormatError, match="lu.zarr"):
        fl.open(tmp_path / "lu.zarr")


def test_a_zero_pivot_stops_the_transposed_solve(rng):
    a = rng.standard_normal((300, 300))
    a[:, 200] = 0
    with pytest.raises(fl.NumericalError, match="element 200 of its diagonal is zero"):
        linalg.lu_solve(linalg.lu_factor(a), np.ones(300), trans=1)


def test_the_same_bits_for_every_limit_and_number_of_workers(tmp_path, isolated, rng):
    np.save(tmp_path / "a.npy", rng.standard_normal((1536, 1536)))
    np.save(tmp_path / "b.npy", rng.standard_normal((1536, 400)))
    *found, read = isolated("""
        import hashlib
        from tests.promises.test_limits import least_limit
        a, b, result, others, read = fl.open("a.npy"), fl.open("b.npy"), [], [], []
        def digest(*arrays):
            return hashlib.blake2b(b"".join(np.asarray(x).tobytes() for x in arrays)).hexdigest()
        for workers in (1, 2):
            for more in (0, 2 << 20, 4 << 30):
                work = lambda: fl.linalg.lu_factor(a, out="lu.zarr")
                with fl.Runtime(workers=workers, memory=least_limit(work, workers) + more):
                    factor = work()
                    read.append(fl.stats().bytes_read)
                work = lambda: fl.linalg.solve(a, b, out="x.zarr")
                with fl.Runtime(workers=workers, memory=least_limit(work, workers) + more):
                    x = work()
                result.append([digest(*factor), digest(x)])
                if workers == 1 and more < 4 << 30:
                    continue
                work = lambda: fl.linalg.lu_solve(factor, b, trans=1, out="y.zarr")
                with fl.Runtime(workers=workers, memory=least_limit(work, workers) + more):
                    y = work()
                work = lambda: fl.linalg.lu(a)
                with fl.Runtime(workers=workers, memory=least_limit(work, workers) + more):
                    apart = work()
                others.append([digest(y), digest(*apart)])
        result = [result, others, read]
    """)
    assert [len(one) for one in found] == [6, 4]
    assert len(set(read)) >= 3, "the limits were those of as many slabs"
    assert all(len({tuple(one) for one in some}) == 1 for some in found)


def test_singular_matrices(rng):
    a = rng.standard_normal((700, 700))
    a[:, 400] = 0
    lu, piv = linalg.lu_factor(a)
    assert np.asarray(lu)[400, 400] == 0
    assert residual(a, np.asarray(lu), piv) <= 25 * eps("float64")
    for call in (lambda: linalg.solve(a, np.ones(700)), lambda: linalg.lu_solve((lu, piv), np.ones(700))):
        with pytest.raises(fl.NumericalError, match="element 400 of its diagonal is zero") as caught:
            call()
        assert caught.value.index == 401
    assert linalg.slogdet(a) == (0, -np.inf)
    assert linalg.det(a) == 0


def test_what_is_not_finite_is_named(rng):
    a = rng.standard_normal((600, 600))
    a[500, 20] = np.nan
    with pytest.raises(fl.NumericalError, match="row 500, column 20;"):
        linalg.solve(a, np.ones(600))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 300, 515])
def test_determinants(rng, dtype, n):
    a = random_matrix(rng, (n, n), dtype)
    wide = a.astype(np.result_type(dtype, np.float64))
    expected = np.linalg.slogdet(wide)
    for found in (linalg.slogdet(a), linalg.slogdet(linalg.lu_factor(a))):
        assert found.logabsdet.dtype == found.sign.real.dtype == np.dtype(dtype).type(0).real.dtype
        assert abs(found.logabsdet - expected.logabsdet) <= 1e3 * max(n, 1) * eps(dtype)
        assert abs(found.sign - expected.sign) <= 1e3 * max(n, 1) * eps(dtype)
    small = random_matrix(rng, (7, 7), dtype)
    assert linalg.det(small) == pytest.approx(np.linalg.det(small), rel=1e3 * eps(dtype))
    k = definite(rng, max(n, 1), dtype)
    sign, logarithm = linalg.slogdet(k, assume_a="pos")
    assert sign == 1
    assert logarithm == pytest.approx(
        np.linalg.slogdet(k.astype(wide.dtype))[1], rel=1e3 * eps(dtype), abs=1e-3
    )


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_inverses(tmp_path, rng, dtype, assume_a):
    a = definite(rng, 520, dtype, condition=100)
    made = linalg.inv(stored(a, "zarr", tmp_path / "a"), assume_a=assume_a)
    assert isinstance(made, fl.Array)
    inverse = np.asarray(made)
    assert inverse.dtype == np.dtype(dtype)
    # SLATE's testers: ‖I − A⁻¹ A‖₁ / (n ‖A‖₁ ‖A⁻¹‖₁).
    assert norm1(np.eye(520) - inverse @ a) / (520 * norm1(a) * norm1(inverse)) <= 50 * eps(dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("uplo", ["lower", "upper"])
def test_inverses_of_triangles(tmp_path, rng, dtype, uplo):
    """What `triangular` made is known to be a triangle: substitution, and of a lower one a third of it."""
    n = 620
    a = definite(rng, n, dtype, condition=100)
    for unit in (False, True):
        t = fl.triangular(stored(a, "npy", tmp_path / f"a{unit}"), uplo, unit_diagonal=unit)
        seen = np.asarray(t)
        made = linalg.inv(t, out=tmp_path / "inverse.zarr")
        assert fl.stats().flops < (1 if uplo == "lower" else 1.6) * n**3 * (4 if dtype[0] == "c" else 1)
        assert fl.stats().method == "substitution"
        inverse = np.asarray(made)
        assert np.array_equal(inverse, np.tril(inverse) if uplo == "lower" else np.triu(inverse))
        assert norm1(np.eye(n) - inverse @ seen) / (n * norm1(seen) * norm1(inverse)) <= 50 * eps(dtype)
        said = linalg.inv(a if not unit else seen, assume_a=f"{uplo} triangular")
        assert np.array_equal(np.asarray(said), inverse)
        b = seen @ np.ones((n, 2), dtype)
        x = linalg.solve(t, b)
        assert np.array_equal(x, linalg.solve(seen, b, assume_a=f"{uplo} triangular"))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: linalg.lu_factor(np.ones((3, 2))), "lu_factor: the matrix is 3 x 2; a square one"),
        (lambda: linalg.lu(np.ones((3, 2))), "lu: the matrix is 3 x 2; a square one"),
        (lambda: linalg.lu_solve((np.eye(3), [0, 1, 2]), np.ones(3), 3), "trans is 3"),
        (lambda: linalg.lu_solve(np.eye(3), np.ones(3)), "a pair .lu, piv. is needed"),
        (lambda: linalg.lu_solve((np.eye(3), [0, 0, 2]), np.ones(3)), "piv must be 3 whole numbers"),
        (lambda: linalg.lu_solve((np.eye(3), [0, 1, 3]), np.ones(3)), "piv must be 3 whole numbers"),
        (lambda: linalg.det(np.eye(3), assume_a="upper"), "'gen' or 'pos' is needed"),
        (lambda: linalg.inv(np.ones(3)), "inv: the matrix has 1 dimensions"),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(fl.ShapeError, match=sentence):
        call()
