"""Cholesky factors: dtypes, layouts, triangles, limits, what is not positive definite, killed calls."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import flagstone as fl
from flagstone import _core, linalg
from tests.factor.matrices import RAGGED, definite, eps, factor_error
from tests.support.killed_calls import left_at
from tests.support.processes import DTYPES, KINDS, stored


@pytest.mark.parametrize("n", RAGGED)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_the_factor(tmp_path, rng, n, dtype, upper):
    a = definite(rng, n, dtype)
    factor = np.asarray(linalg.cholesky(stored(a, "zarr", tmp_path / "a"), upper=upper))
    lower = factor.conj().T if upper else factor
    assert factor.dtype == np.dtype(dtype)
    assert factor_error(a, lower) <= 25 * eps(dtype)
    assert not np.triu(lower, 1).any()
    assert (np.diag(lower).real > 0).all()
    assert not np.diag(lower).imag.any()
    expected = np.linalg.cholesky(a.astype(np.result_type(dtype, np.float64)))
    # Sun (1991): the factor moves by the condition times the backward error.
    assert abs(lower - expected).max() <= 1e3 * 8 * n * eps(dtype) * abs(expected).max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("view", ["", "T", "conj", "H"])
def test_layouts_and_views(tmp_path, rng, kind, view):
    a = definite(rng, 530, "complex128")
    seen = {"": a, "T": a.T, "conj": a.conj(), "H": a.conj().T}[view]
    given = stored(np.array(seen, order="C"), kind, tmp_path / "a")
    given = {"": given, "T": given.T, "conj": given.conj(), "H": given.conj().T}[view]
    bits = np.asarray(linalg.cholesky(given))
    assert np.array_equal(bits, np.asarray(linalg.cholesky(a)))
    assert factor_error(a, bits) <= 25 * eps("complex128")


@pytest.mark.parametrize("upper", [False, True])
def test_one_triangle_is_read(rng, upper):
    a = definite(rng, 700, "float64")
    half = np.triu(a) if upper else np.tril(a)
    poisoned = half + (
        np.tril(np.full(a.shape, np.nan), -1) if upper else np.triu(np.full(a.shape, np.nan), 1)
    )
    assert np.array_equal(
        np.asarray(linalg.cholesky(poisoned, upper=upper)), np.asarray(linalg.cholesky(a, upper=upper))
    )


def test_lazy_matrices_have_the_bits_of_stored_ones(tmp_path, rng):
    a = definite(rng, 1100, "float32")
    x = fl.from_numpy(a, str(tmp_path / "a.zarr"))
    lazy = linalg.cholesky(x * 2 + 1, shift=0.5)
    with_shift = fl.compute(x * 2 + 1)
    assert np.array_equal(np.asarray(lazy), np.asarray(linalg.cholesky(np.asarray(with_shift), shift=0.5)))


def test_shift_is_added_to_the_diagonal(rng):
    a = definite(rng, 600, "float64") - 2 * np.eye(600)  # not positive definite without
    with pytest.raises(fl.NumericalError):
        linalg.cholesky(a)
    shifted = a + 3 * np.eye(600)
    factor = np.asarray(linalg.cholesky(a, shift=3))
    assert factor_error(shifted, factor) <= 25 * eps("float64")


@pytest.mark.parametrize("out", ["l.zarr", "l.npy", "ndarray", "fortran", "array", "itself"])
def test_where_the_factor_goes(tmp_path, rng, out):
    a = definite(rng, 520, "float64")
    x = fl.from_numpy(a, str(tmp_path / "a.zarr"))
    expected = np.asarray(linalg.cholesky(a))
    place = {
        "ndarray": np.full(a.shape, 7.0), "fortran": np.full(a.shape, 7.0, order="F"),
        "array": fl.from_numpy(np.full(a.shape, 7.0), str(tmp_path / "old.zarr")), "itself": x,
    }.get(out, tmp_path / out)  # fmt: skip
    made = linalg.cholesky(x, out=place)
    if out == "fortran":  # another layout: other bits
        assert factor_error(a, np.asarray(made)) <= 25 * eps("float64")
    else:
        assert np.array_equal(np.asarray(made), expected)
    if not out.startswith("l."):
        assert made is place


def test_chunks_above_the_diagonal_are_absent(tmp_path, rng):
    a = definite(rng, 2048, "float64")
    linalg.cholesky(a, out=str(tmp_path / "l.zarr"))
    on_disk = sum(file.stat().st_blocks * 512 for file in (tmp_path / "l.zarr").rglob("*") if file.is_file())
    assert on_disk <= 0.62 * a.nbytes  # (1 + 1/8) / 2 of it, and metadata


def test_the_same_bits_for_every_limit_and_number_of_workers(tmp_path, isolated, rng):
    np.save(tmp_path / "a.npy", definite(rng, 2000, "float64"))
    found, read = isolated("""
        import hashlib
        from tests.promises.test_limits import least_limit
        a, found, read = fl.open("a.npy"), [], []
        work = lambda: fl.linalg.cholesky(a, out="l.zarr")
        for workers in (1, 2, 4):
            for more in (0, 6 << 20, 12 << 20, 4 << 30):
                with fl.Runtime(workers=workers, memory=least_limit(work, workers) + more):
                    work()
                read.append(fl.stats().bytes_read)
                found.append(hashlib.blake2b(np.asarray(fl.open("l.zarr")).tobytes()).hexdigest())
        result = found, read
    """)
    assert len(found) == 12
    assert len(set(found)) == 1
    assert len(set(read)) >= 4, "the limits were those of as many runs"


def test_kac_murdock_szego(tmp_path):
    """ρ^|i−j| has a factor that is known: its first column, and √(1 − ρ²) of them below."""
    n, rho = 1300, 0.9
    i = np.arange(n)
    a = rho ** abs(i[:, None] - i[None, :])
    expected = np.tril(a) * np.where(i == 0, 1, np.sqrt(1 - rho**2))
    factor = np.asarray(linalg.cholesky(a))
    assert abs(factor - expected).max() <= 20 * n * eps("float64")


# What has no factor -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [1, 256, 257, 1111])
def test_not_positive_definite_tells_the_minor(tmp_path, rng, dtype, order):
    a = np.eye(1200, dtype=dtype)
    a[order - 1, order - 1] = -1
    a[1150, 1150] = -1  # a later one does not matter
    x = fl.from_numpy(a, str(tmp_path / "a.zarr"))
    with pytest.raises(fl.NumericalError, match=f"minor of order {order} ") as caught:
        linalg.cholesky(x, out=tmp_path / "l.zarr")
    assert caught.value.index == order
    assert isinstance(caught.value, np.linalg.LinAlgError)
    assert not (tmp_path / "l.zarr").exists()
    assert np.array_equal(np.asarray(x), a)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("row", "col"), [(0, 0), (700, 700), (900, 3), (1199, 1198)])
def test_what_is_not_finite_is_named(rng, value, row, col):
    a = np.eye(1200)
    a[row, col] = value
    with pytest.raises(fl.NumericalError, match=f"row {row}, column {col};") as caught:
        linalg.cholesky(a)
    assert caught.value.index == row + 1


def test_an_overflow_inside_is_found():
    a = np.diag(np.full(600, 1e-300))
    a[500, 2] = 1e300
    with pytest.raises(fl.NumericalError) as caught:
        linalg.cholesky(a)
    assert caught.value.index == 501


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: np.ones((3, 4)), "cholesky: the matrix is 3 x 4; a square one is needed."),
        (lambda: np.ones(3), "2 are needed"),
    ],
)
def test_refusals(make, sentence):
    with pytest.raises(fl.Error, match=sentence.replace("(", r"\(")):
        linalg.cholesky(make())


@pytest.mark.parametrize("shift", [np.nan, np.inf, 1j, "much"])
def test_a_shift_is_a_finite_number(shift):
    with pytest.raises(fl.ShapeError, match="shift is .*; a finite real number is needed"):
        linalg.cholesky(np.eye(3), shift=shift)


def test_empty_and_whole_numbers():
    assert linalg.cholesky(np.zeros((0, 0))).shape == (0, 0)
    assert np.array_equal(np.asarray(linalg.cholesky(np.array([[4, 2], [2, 5]]))), [[2, 0], [1, 2]])


# Costs and killed calls -------------------------------------------------------------------------------------


def test_the_plan_is_what_happens(tmp_path, rng):
    x = fl.from_numpy(definite(rng, 3000, "float64"), str(tmp_path / "a.zarr"))
    limit = linalg.cholesky.plan(x, memory="4GiB").least_memory + (30 << 20)
    plan = linalg.cholesky.plan(x, memory=limit)
    linalg.cholesky(x, out=tmp_path / "l.zarr", memory=limit)
    done = fl.stats()
    # Which tiles of the factor stay over from one column to the next depends on when tasks end, by some.
    assert done.bytes_read == pytest.approx(plan.bytes_read, rel=0.1)
    assert done.bytes_written == pytest.approx(plan.bytes_written, rel=0.05)
    assert done.flops == plan.flops
    assert done.flops == pytest.approx(3000**3 / 3, rel=0.25)  # tiles: the diagonal ones are done whole
    assert done.bytes_written == pytest.approx((1 + 1 / 8) / 2 * x.nbytes, rel=0.05)


_KILLED = """
a = fl.open("a.zarr")
fl.linalg.cholesky(a, out="l.zarr", shift=0.25, upper=upper, memory=memory)
result = told() | {"digest": hashlib.blake2b(np.asarray(fl.open("l.zarr")).tobytes()).hexdigest()}
"""


@pytest.mark.parametrize("upper", [False, True])
def test_a_killed_call_goes_on_with_the_same_bits(process, tmp_path, rng, upper):
    fl.from_numpy(definite(rng, 2500, "float64"), str(tmp_path / "a.zarr"))
    whole = process(_KILLED, memory="200MiB", upper=upper)
    fl.delete(tmp_path / "l.zarr")
    process(_KILLED, kill=5, memory="200MiB", upper=upper)
    (left,) = left_at(tmp_path / "l.zarr")
    assert left.operation == "cholesky"
    assert 0 < left.done < 1
    code = (
        'fl.resume("l.zarr", memory=memory)\n'
        'found = hashlib.blake2b(np.asarray(fl.open("l.zarr")).tobytes()).hexdigest()\n'
        'result = told() | {"digest": found}'
    )
    again = process(code, memory="1GiB")
    assert again["digest"] == whole["digest"]
    assert "resumed" in again["what"]
    assert again["flops"] < whole["flops"]


def test_another_shift_is_another_call(process, tmp_path, rng):
    fl.from_numpy(definite(rng, 1500, "float64"), str(tmp_path / "a.zarr"))
    process(_KILLED, kill=3, memory="1GiB", upper=False)
    other = process(_KILLED.replace("0.25", "0.5"), memory="1GiB", upper=False)
    assert "resumed" not in other["what"]
    factor = np.asarray(linalg.cholesky(fl.open(tmp_path / "a.zarr"), shift=0.5))
    assert other["digest"] == hashlib.blake2b(factor.tobytes()).hexdigest()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 300, 1100])
def test_the_diagonal_of_the_inverse(tmp_path, rng, dtype, n):
    """Squared lengths of the columns of L⁻¹, with an error of (n + 1) eps ‖L⁻¹‖ each (Higham 2002, 14.2)."""
    a = definite(rng, n, dtype, condition=100) if n else np.zeros((0, 0), dtype)
    wide = a.astype(np.result_type(dtype, "f8"))
    expected = np.real(np.diagonal(np.linalg.inv(wide)))
    spoilt = a.copy()
    spoilt[np.triu_indices(n, 1)] = np.nan  # nobody looks there
    found = linalg.inv_diagonal(stored(spoilt, "npy", tmp_path / "a"))
    assert found.dtype == a.real.dtype
    np.testing.assert_allclose(found, expected, rtol=200 * max(n, 1) * eps(dtype))
    if n:
        assert np.array_equal(linalg.inv_diagonal(a, factor=linalg.cholesky(a)), found)


def test_the_diagonal_of_the_inverse_under_limits(isolated, tmp_path, rng):
    """The same bits for groups of columns of any width, n³/3 flops and a bit; the plan knows them."""
    np.save(tmp_path / "a.npy", definite(rng, 1700, "float64"))
    found = isolated("""
        from flagstone._runtime.routine import least_of
        factor, result = fl.linalg.cholesky(fl.open("a.npy"), out="l.zarr"), []
        for more in (0, 1 << 30):
            least = least_of(fl.linalg.inv_diagonal, None, factor=factor, memory="1GiB")
            memory = least + more + (32 << 20)
            plan = fl.linalg.inv_diagonal.plan(None, factor=factor, memory=memory)
            values = fl.linalg.inv_diagonal(None, factor=factor, memory=memory)
            done = fl.stats()
            result.append([values.tolist(), plan.flops, done.flops, plan.bytes_read, done.bytes_read])
    """)
    assert found[0][0] == found[1][0]
    for _, planned, done, planned_bytes, read in found:
        assert planned == done < 1.6 * 1700**3 / 3
        assert read == pytest.approx(planned_bytes, rel=0.02)


def test_the_forward_half_runs_with_the_factorization():
    """A solve reads its factor once after factoring, not twice: of it, what had no room in memory."""
    a, b = fl.planned((12288, 12288), "float64"), np.ones((12288, 2))
    solving = linalg.solve.plan(a, b, assume_a="pos", memory=_core.resident_bytes() + (400 << 20))
    triangle = 8 * 12288 * 12288 / 2
    assert solving.bytes_written > triangle / 4
    assert solving.bytes_read < 1.1 * triangle + 1.35 * solving.bytes_written


def test_check_compares_both_triangles(tmp_path, rng):
    a = definite(rng, 300, "complex128")
    stored = fl.from_numpy(a, str(tmp_path / "a.zarr"))
    plain, checked = linalg.cholesky(stored), linalg.cholesky(stored, check=True)
    assert np.array_equal(np.asarray(plain), np.asarray(checked))
    plan = linalg.cholesky.plan(stored, check=True)
    assert plan.bytes_read > linalg.cholesky.plan(stored).bytes_read
    linalg.cholesky(stored, check=True)
    assert fl.stats().bytes_read == plan.bytes_read
    a[7, 250] += 1e-3
    for call in (
        lambda: linalg.cholesky(a, check=True),
        lambda: linalg.solve(a, a[:, 0], assume_a="pos", check=True),
    ):
        with pytest.raises(fl.NumericalError, match="not Hermitian: at row 250, column 7"):
            call()
    linalg.cholesky(a)  # the lower triangle alone
    with pytest.raises(fl.ShapeError, match="check is for assume_a='pos'"):
        linalg.solve(a, a[:, 0], check=True)
