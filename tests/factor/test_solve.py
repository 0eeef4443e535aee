"""Solves with factors, and by factoring: dtypes, triangles, right-hand sides as they were given."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import flagstone as fl
from flagstone import linalg
from tests.factor.matrices import RAGGED, definite, eps, solve_error
from tests.support.processes import DTYPES, KINDS, random_matrix, stored


@pytest.mark.parametrize("n", RAGGED)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cho_solve(tmp_path, rng, n, dtype, upper):
    a, b = definite(rng, n, dtype), random_matrix(rng, (n, 3), dtype)
    factor = linalg.cholesky(a, upper=upper)
    x = linalg.cho_solve((factor, False) if upper else factor, b)
    assert isinstance(x, np.ndarray)
    assert solve_error(a, x, b) <= 25 * eps(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_solve_of_a_definite_matrix(tmp_path, rng, dtype, kind):
    a, b = definite(rng, 530, dtype), random_matrix(rng, (530, 7), dtype)
    x = linalg.solve(stored(a, kind, tmp_path / "a"), stored(b, kind, tmp_path / "b"), assume_a="pos")
    assert solve_error(a, np.asarray(x), b) <= 25 * eps(dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(rng, dtype, trans, lower, unit):
    n = 700
    a = random_matrix(rng, (n, n), dtype) / 40
    if not unit:
        a[np.diag_indices(n)] += 2
    a[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = np.nan  # nobody looks there
    if unit:
        a[np.diag_indices(n)] = np.nan
    b = random_matrix(rng, (n, 5), dtype)
    x = linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit)
    t = np.tril(a, -1) if lower else np.triu(a, 1)
    t = t + (np.eye(n, dtype=dtype) if unit else np.diag(np.diag(a)))
    op = {"N": t, "T": t.T, "C": t.conj().T}[trans if isinstance(trans, str) else "NTC"[trans]]
    assert solve_error(op, x, b) <= 25 * eps(dtype)


def test_right_hand_sides_come_back_as_they_were_given(tmp_path, rng):
    a = definite(rng, 300, "float64")
    factor = linalg.cholesky(a)
    b = rng.standard_normal((300, 4))
    on_disk = fl.from_numpy(b, str(tmp_path / "b.zarr"))
    expected = linalg.cho_solve(factor, b)
    made = linalg.cho_solve(factor, on_disk)
    assert isinstance(made, fl.Array)
    assert np.array_equal(np.asarray(made), expected)
    assert np.array_equal(np.asarray(linalg.cho_solve(factor, on_disk * 1)), expected)
    vector = linalg.cho_solve(factor, b[:, 0])
    assert isinstance(vector, np.ndarray)
    assert vector.shape == (300,)
    assert solve_error(a, vector, b[:, 0]) <= 25 * eps("float64")
    stored_vector = fl.from_numpy(b[:, 0].copy(), str(tmp_path / "v.zarr"))
    one = linalg.cho_solve(factor, stored_vector)
    assert isinstance(one, fl.Array)
    assert np.array_equal(np.asarray(one), vector)
    out = np.full((300, 4), np.nan)
    assert linalg.cho_solve(factor, b, out=out) is out
    assert np.array_equal(out, expected)
    line = np.full(300, np.nan)
    assert np.array_equal(linalg.cho_solve(factor, b[:, 0], out=line), vector)
    assert np.array_equal(line, vector)
    path = linalg.cho_solve(factor, b, out=tmp_path / "x.npy")
    assert np.array_equal(np.load(path.path), expected)
    whole_numbers = linalg.cho_solve(factor, np.arange(300))
    assert whole_numbers.dtype == np.float64


def test_many_right_hand_sides_in_groups(tmp_path, isolated, rng):
    """Columns of x that do not fit together: the factor is read again for each group, with the same bits."""
    np.save(tmp_path / "a.npy", definite(rng, 1500, "float64"))
    np.save(tmp_path / "b.npy", rng.standard_normal((1500, 2600)))
    found = isolated("""
        import hashlib
        factor = fl.linalg.cholesky(fl.open("a.npy"), out="l.zarr")
        from tests.promises.test_limits import least_limit
        b, result = fl.open("b.npy"), []
        work = lambda: fl.linalg.cho_solve(factor, b, out="x.zarr")
        for workers in (1, 2):
            for more in (0, 12 << 20, 4 << 30):
                with fl.Runtime(workers=workers, memory=least_limit(work, workers) + more):
                    x = work()
                    read = fl.stats().bytes_read
                result.append([hashlib.blake2b(np.asarray(x).tobytes()).hexdigest(), read])
        x = np.asarray(x)
        a, b = np.load("a.npy"), np.load("b.npy")
        error = abs(a @ x - b).max() / (abs(a).sum(1).max() * abs(x).max() * 1500)
        result = [result, error]
    """)
    assert len({digest for digest, _ in found[0]}) == 1
    assert found[0][0][1] > found[0][-1][1]  # under the least limit more is read
    assert found[1] <= 25 * eps("float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_zero_on_the_diagonal(rng, dtype):
    t = np.tril(random_matrix(rng, (700, 700), dtype) / 30) + 3 * np.eye(700, dtype=dtype)
    t[600, 600] = 0
    with pytest.raises(fl.NumericalError, match="element 600 of its diagonal is zero") as caught:
        linalg.solve_triangular(t, np.ones(700, dtype), lower=True)
    assert caught.value.index == 601
    assert np.isfinite(linalg.solve_triangular(t, np.ones(700, dtype), lower=True, unit_diagonal=True)).any()


@pytest.mark.parametrize(("kind", "bad"), [("memory", np.nan), ("npy_f", np.inf), ("zarr", np.nan)])
@pytest.mark.parametrize(
    "name",
    ["solve", "solve rcond", "solve pos", "solve mixed", "cho_solve", "cho_solve upper", "solve_triangular",
     "transposed", "lu_solve", "lu_solve trans"],
)  # fmt: skip
def test_what_is_not_finite_on_the_right_is_named(tmp_path, rng, name, kind, bad):
    """As it is taken: the row and the column of b, which stays as it was."""
    a, b = definite(rng, 600, "float64"), rng.standard_normal((600, 520))
    b[555, 517] = bad
    lower, given = np.linalg.cholesky(a), stored(b, kind, tmp_path / "b")
    calls = {
        "solve": lambda: linalg.solve(a, given),
        "solve rcond": lambda: linalg.solve(a, given, rcond=True),
        "solve pos": lambda: linalg.solve(a, given, assume_a="pos"),
        "solve mixed": lambda: linalg.solve(a, given, precision="mixed"),
        "cho_solve": lambda: linalg.cho_solve(lower, given),
        "cho_solve upper": lambda: linalg.cho_solve((lower.T, False), given),
        "solve_triangular": lambda: linalg.solve_triangular(lower, given, lower=True),
        "transposed": lambda: linalg.solve_triangular(lower.T, given, lower=True, trans="T"),
        "lu_solve": lambda: linalg.lu_solve((a, np.arange(600)), given),
        "lu_solve trans": lambda: linalg.lu_solve((a, np.arange(600)), given, trans=1),
    }
    who = "solve_triangular" if name == "transposed" else name.split()[0]
    with pytest.raises(fl.NumericalError, match=f"{who}: b has NaN or Inf at row 555, column 517") as caught:
        calls[name]()
    assert caught.value.index == 556
    assert np.array_equal(np.asarray(given), b, equal_nan=True)


@pytest.mark.parametrize("kind", ["ndarray", "vector", "fortran", "Array", "transposed", "mixed of a file"])
@pytest.mark.parametrize(
    "options",
    [{}, {"assume_a": "pos"}, {"rcond": True}, {"assume_a": "pos", "rcond": True}, {"precision": "mixed"}],
)
def test_right_sides_in_memory_are_looked_at_before_the_factorization(tmp_path, options, kind):
    a, b = -np.ones((70, 70)), np.ones((70, 9))  # neither regular nor positive definite
    b[66, 7] = np.nan
    column = 0 if kind == "vector" else 7
    given = {
        "ndarray": b, "vector": b[:, 7].copy(), "fortran": np.asfortranarray(b), "Array": fl.from_numpy(b),
        "transposed": fl.from_numpy(b.T.copy()).T,
    }.get(kind)  # fmt: skip
    if given is None:
        given, options = stored(b, "npy", tmp_path / "b"), {"precision": "mixed"}
    with pytest.raises(
        fl.NumericalError, match=f"solve: b has NaN or Inf at row 66, column {column};"
    ) as caught:
        linalg.solve(a, given, **options)
    assert caught.value.index == 67


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_on_a_diagonal_is_named(rng, dtype, bad):
    t = np.tril(random_matrix(rng, (700, 700), dtype) / 30) + 3 * np.eye(700, dtype=dtype)
    t[600, 600] = bad
    for whose, call in (
        ("matrix", lambda: linalg.solve_triangular(t, np.ones(700, dtype), lower=True)),
        ("factor", lambda: linalg.cho_solve(t, np.ones(700, dtype))),
        ("matrix", lambda: linalg.inv(t, assume_a="lower triangular")),
    ):
        with pytest.raises(fl.NumericalError, match=f"the {whose} has NaN or Inf at row 600, column 600"):
            call()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: linalg.solve(np.eye(3), np.ones(4), assume_a="pos"), "b is 4 x 1; b needs as many rows"),
        (lambda: linalg.solve(np.eye(3), np.ones(3), assume_a="odd"), "assume_a is 'odd'"),
        (lambda: linalg.cho_solve(np.ones((3, 2)), np.ones(3)), "the matrix is 3 x 2; a square one"),
        (lambda: linalg.solve_triangular(np.eye(3), np.ones(3), trans=3), "trans is 3"),
        (
            lambda: linalg.cho_solve(np.eye(3, dtype="f4"), np.ones(3)),
            "the matrix is float32 and b is float64",
        ),
        (lambda: linalg.solve(np.eye(3), np.ones(3), assume_a="pos", out="x.zarr"), "b is a vector"),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(fl.ShapeError, match=sentence):
        call()


@pytest.mark.parametrize("lower", [False, True])
def test_solve_takes_triangles(rng, lower):
    a = rng.standard_normal((400, 400)) / 30 + 2 * np.eye(400)
    b = rng.standard_normal(400)
    x = linalg.solve(a, b, assume_a="lower triangular" if lower else "upper triangular")
    expected = scipy.linalg.solve_triangular(a, b, lower=lower)
    np.testing.assert_allclose(x, expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 2), (3, 0)])
def test_empty(dtype, n, m):
    a, b = np.eye(n, dtype=dtype), np.zeros((n, m), dtype)
    for assume_a in ("gen", "pos", "lower triangular", "upper triangular"):
        assert linalg.solve(a, b, assume_a=assume_a).shape == (n, m)
        assert linalg.inv(a, assume_a=assume_a).shape == (n, n)
    if np.dtype(dtype).itemsize // (2 if np.dtype(dtype).kind == "c" else 1) == 8:
        assert linalg.solve(a, b, precision="mixed").shape == (n, m)
    for trans in (0, 1, 2):
        assert linalg.solve_triangular(a, b, trans=trans).shape == (n, m)
        assert linalg.lu_solve(linalg.lu_factor(a), b, trans=trans).shape == (n, m)
    assert linalg.cho_solve(a, b).shape == (n, m)
    assert linalg.solve(a, np.zeros(n, dtype)).shape == (n,)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool"])
def test_whole_numbers_are_converted_where_they_are_loaded(tmp_path, rng, dtype):
    """As NumPy factors them: in float64, of arrays on disk without a copy of them."""
    values = np.tril(rng.integers(0, 2, (300, 300))) + 300 * np.eye(300, dtype=int)
    values = (values % 100 + 27 * np.eye(300, dtype=int)).astype(dtype)
    if dtype == "bool":
        values = np.tril(np.ones((300, 300), bool))
    a, b = fl.from_numpy(values, str(tmp_path / "a.zarr")), np.arange(600).reshape(300, 2) % 7
    stored_b = fl.from_numpy(b, str(tmp_path / "b.zarr"))
    wide = values.astype("f8")
    x = linalg.solve(a, b)
    assert x.dtype == np.float64
    assert solve_error(wide, x, b.astype("f8")) <= 25 * eps("f8")
    assert np.array_equal(np.asarray(linalg.solve(a, stored_b)), x)
    assert np.array_equal(np.asarray(linalg.inv(a)), np.asarray(linalg.inv(wide)))
    assert linalg.slogdet(a) == linalg.slogdet(wide)
    assert linalg.cond(a) == linalg.cond(wide)
    assert f"the matrix is {dtype}, converted" in linalg.solve.plan(a, b).note
    assert solve_error(wide, linalg.solve(a, b, precision="mixed"), b.astype("f8")) <= 25 * eps("f8")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda p, c: linalg.cho_solve((c, "upper"), np.ones(2)), "lower is 'upper'; True or False"),
        (lambda p, c: linalg.cho_solve([c, True], np.ones(2)), "the matrix is of type list; an array"),
        (lambda p, c: linalg.cho_solve((1, 2, 3), np.ones(2)), "a tuple of 3 parts; what cholesky"),
        (
            lambda p, c: linalg.inv_diagonal(p, factor=linalg.lu_factor(p)),
            "a LuFactor of 2 parts; what cholesky",
        ),
        (lambda p, c: linalg.inv_diagonal(p, factor=(c, False)), "factor is the upper one; give the lower"),
        (lambda p, c: linalg.cond(p, assume_a="pos", factor=(c, "x")), "lower is 'x'; True or False"),
        (lambda p, c: linalg.cholesky(p, upper="no"), "upper is 'no'; True or False"),
        (lambda p, c: linalg.solve_triangular(p, np.ones(2), lower="L"), "lower is 'L'; True or False"),
        (lambda p, c: linalg.solve_triangular(p, np.ones(2), lower=2), "lower is 2; True or False"),
        (lambda p, c: linalg.solve_triangular(p, np.ones(2), lower=1.0), "lower is 1.0; True or False"),
        (lambda p, c: linalg.solve(p, np.ones(2), rcond=None), "rcond is None; True or False"),
        (lambda p, c: linalg.det(linalg.lu(p)), "det: a LuResult, of several parts"),
        (lambda p, c: linalg.solve(linalg.lu_factor(p), np.ones(2)), "solve: a LuFactor, of several parts"),
    ],
)
def test_factors_of_another_kind(call, told):
    p = np.array([[4.0, 1], [1, 3]])
    with pytest.raises((TypeError, fl.ShapeError), match=told):
        call(p, linalg.cholesky(p))
    np.testing.assert_allclose(linalg.inv_diagonal(p, factor=(linalg.cholesky(p), True)), [3 / 11, 4 / 11])


@pytest.mark.parametrize("one", [1, np.int64(1), np.uint8(1), np.True_])
def test_flags_are_0_and_1_too_as_scipy_hands_them_back(one):
    p, b = np.array([[4.0, 1], [1, 3]]), np.array([1.0, 2])
    wanted = np.linalg.solve(p, b)
    np.testing.assert_allclose(linalg.cho_solve(scipy.linalg.cho_factor(p, lower=one), b), wanted)
    np.testing.assert_allclose(linalg.cho_solve(scipy.linalg.cho_factor(p, lower=0), b), wanted)
    np.testing.assert_allclose(np.asarray(linalg.cholesky(p, upper=one)), np.linalg.cholesky(p).T)
    triangle, unit = np.array([[1.0, 0], [3, 5]]), np.array([[1.0, 0], [3, 1]])
    for trans, by in ((0, unit), (one, unit.T)):
        x = linalg.solve_triangular(triangle, b, trans=trans, lower=one, unit_diagonal=one)
        np.testing.assert_allclose(x, np.linalg.solve(by, b))
    np.testing.assert_allclose(
        linalg.lu_solve(linalg.lu_factor(triangle), b, one), np.linalg.solve(triangle.T, b)
    )
    x, _ = linalg.solve(p, b, assume_a="pos", rcond=one, check=one)
    np.testing.assert_allclose(x, wanted)
    assert isinstance(linalg.svds(p, 1, verify=one, return_singular_vectors=type(one)(0)), np.ndarray)


class _Table:
    """What NumPy takes as an array, with a shape and no dtype, as tables of other packages."""

    shape, ndim = (2, 2), 2

    def __array__(self, dtype=None, copy=None):
        return np.array([[4.0, 1], [1, 3]], dtype)


def test_matrices_are_what_numpy_takes_as_arrays():
    p = np.asarray(_Table())
    for given in (_Table(), memoryview(p), p.tolist()):
        assert linalg.matrix_norm(given, ord=2) == pytest.approx(np.linalg.norm(p, 2))
        assert float(linalg.matrix_norm(given)) == pytest.approx(np.linalg.norm(p))
        assert linalg.cond(given, 2) == pytest.approx(np.linalg.cond(p))
        np.testing.assert_allclose(np.asarray(linalg.inv(given)), np.linalg.inv(p))


@pytest.mark.parametrize("side", ["gen", "pos", "lower triangular"])
@pytest.mark.parametrize("dtype", ["f2", "?", "i1", ">f4", ">c16"])
def test_inv_takes_the_dtypes_that_solve_takes(side, dtype):
    p = np.array([[4, 0], [0, 1]]).astype(dtype)
    inverse = np.asarray(linalg.inv(p, assume_a=side))
    assert inverse.dtype == linalg.solve(p, np.eye(2, dtype=inverse.dtype), assume_a=side).dtype
    np.testing.assert_allclose(inverse, np.diag(1 / np.diagonal(p).astype(inverse.dtype)))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda p: linalg.cond([[1, 2], [3]], 2), r"cond: x is \[\[1, 2\], \[3\]\]; .*rows of one length"),
        (
            lambda p: linalg.matrix_norm([[1, 2], [3]], ord=2),
            r"matrix_norm: x is \[\[1, .*rows of one length",
        ),
        (lambda p: linalg.matrix_norm([[1, 2], [3]]), r"matrix_norm: x is \[\[1, 2\], .*rows of one length"),
        (lambda p: linalg.cond(linalg.lu_factor(p), 2), "cond: a LuFactor, of several parts"),
        (
            lambda p: linalg.matrix_norm(linalg.lu_factor(p), ord=2),
            "matrix_norm: a LuFactor, of several parts",
        ),
        (lambda p: linalg.cond(np.ma.array(p, mask=p > 3), 2), "cond: a masked array"),
        (lambda p: linalg.inv(p.astype(object)), "inv: the matrix is ndarray of object; an Array"),
        (lambda p: linalg.inv(p.astype("U")), "inv: the matrix is ndarray of <U32; an Array"),
        (lambda p: linalg.inv(p.astype("g")), "inv: the matrix is ndarray of .*; an Array"),
    ],
)
def test_what_is_no_matrix_is_refused_by_the_routine_that_was_called(call, told):
    with pytest.raises((TypeError, fl.ShapeError), match=told):
        call(np.array([[4.0, 1], [1, 3]]))
