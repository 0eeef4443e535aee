"""QR and LQ by a tree: what Q and R promise, for all shapes, dtypes, limits and kinds of operands."""

import numpy as np
import pytest

import flagstone as fl
from flagstone import linalg
from tests.support.processes import fingerprint

DTYPES = ["float32", "float64", "complex64", "complex128"]
# One tile, one column of tiles, several columns, wide, ragged.
SHAPES = [(1, 1), (5, 3), (3, 5), (40, 40), (9000, 37), (70_000, 5), (1300, 700), (700, 1300), (4700, 530),
          (0, 3), (3, 0)]  # fmt: skip


def matrix(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def eps(dtype):
    return float(np.finfo(dtype).eps)


def check(a, q, r, complete=False):
    """SLATE's ‖QR - A‖₁ ≤ 50 m eps/2 ‖A‖₁, and what it misses: ‖QᴴQ - 1‖₁ / n."""
    m, n = a.shape
    k = m if complete else min(m, n)
    assert q.shape == (m, k)
    assert r.shape == (k, n)
    assert np.array_equal(r, np.triu(r))
    if not a.size:
        return
    bound = 25 * eps(a.dtype)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    q, r, a = q.astype(wide), r.astype(wide), a.astype(wide)
    one = np.linalg.norm
    assert one(q @ r - a, 1) <= bound * max(m, n) * one(a, 1)
    assert one(q.conj().T @ q - np.eye(k), 1) <= bound * max(m, n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reduced(shape, dtype):
    a = matrix(shape, dtype)
    q, r = linalg.qr(a)
    assert q.dtype == r.dtype == a.dtype
    check(a, np.asarray(q), np.asarray(r))
    only = np.asarray(linalg.qr(a, mode="r"))
    check_same_up_to_sign(only, np.linalg.qr(a, mode="r") if a.size else only)
    assert fingerprint(only) == fingerprint(np.asarray(r))


def check_same_up_to_sign(mine, theirs):
    if not mine.size:
        assert mine.shape == theirs.shape
        return
    k = min(mine.shape)
    size = np.linalg.norm(theirs)
    diagonal = np.abs(np.diagonal(mine)[: k - 1]), np.abs(np.diagonal(theirs)[: k - 1])
    assert np.max(np.abs(diagonal[0] - diagonal[1]), initial=0) <= 1000 * eps(mine.dtype) * size


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (1300, 600), (600, 1300), (6, 0)], ids=str)
def test_complete(shape, dtype):
    a = matrix(shape, dtype)
    q, r = linalg.qr(a, mode="complete")
    check(a, np.asarray(q), np.asarray(r), complete=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (37, 9000), (700, 1300), (1300, 700)], ids=str)
def test_lq(shape, dtype):
    a = matrix(shape, dtype)
    left, q = (np.asarray(x) for x in linalg.lq(a))
    check(a.conj().T, q.conj().T, left.conj().T)
    assert fingerprint(np.asarray(linalg.lq(a, mode="r"))) == fingerprint(left)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(9000, 37), (1300, 700), (700, 1300)], ids=str)
def test_reflectors(shape, dtype, tmp_path):
    a = matrix(shape, dtype)
    q = np.asarray(linalg.qr(a, mode="complete").Q) if shape[0] < 5000 else None
    linalg.qr(a, mode="raw", out=tmp_path / "factor.zarr")
    f = linalg.open_factor(tmp_path / "factor.zarr")
    b = matrix((shape[0], 3), dtype, 1)
    bound = 25 * eps(dtype) * max(shape) * np.linalg.norm(b)
    made = linalg.apply_q(f, b, trans=True)
    assert isinstance(made, np.ndarray)
    assert np.linalg.norm(linalg.apply_q(f, made) - b) <= bound
    assert np.linalg.norm(linalg.apply_q(f, b[:, 0], trans=True) - made[:, 0]) <= bound
    right = linalg.apply_q(f, np.ascontiguousarray(b.conj().T), side="right")
    assert np.linalg.norm(right - made.conj().T) <= bound
    if q is not None:
        assert np.linalg.norm(made - q.conj().T @ b) <= bound
    stored = linalg.apply_q(f, fl.from_numpy(b, str(tmp_path / "b.zarr")), trans=True)
    assert isinstance(stored, fl.Array)
    assert fingerprint(np.asarray(stored)) == fingerprint(made)


def test_reflectors_of_an_lq(tmp_path):
    a = matrix((40, 900), "complex128")
    q = np.asarray(linalg.lq(a).Q)
    f = linalg.lq(a, mode="raw")
    b = matrix((900, 2), "complex128", 1)
    assert np.linalg.norm(linalg.apply_q(f, b)[:40] - q @ b) <= 1e-12 * np.linalg.norm(b)


@pytest.mark.parametrize("kind", ["npy", "zarr", "transposed", "conjugated", "lazy", "fortran", "chunks"])
@pytest.mark.parametrize("shape", [(3000, 60), (1100, 600)], ids=str)
def test_operands(kind, shape, tmp_path):
    dtype = "complex128" if kind == "conjugated" else "float64"
    a = matrix(shape, dtype)
    given = a
    if kind in ("npy", "fortran"):
        np.save(tmp_path / "a.npy", np.asfortranarray(a) if kind == "fortran" else a)
        given = fl.open(str(tmp_path / "a.npy"))
    if kind in ("zarr", "transposed"):
        given = fl.from_numpy(
            np.ascontiguousarray(a.T) if kind == "transposed" else a, str(tmp_path / "a.zarr")
        )
        given = given.T if kind == "transposed" else given
    if kind == "chunks":
        given = fl.create(str(tmp_path / "a.zarr"), shape, dtype, (700, 13))
        given[...] = a
    if kind == "conjugated":
        given = fl.from_numpy(a.conj(), str(tmp_path / "a.zarr")).conj()
    if kind == "lazy":
        given = fl.from_numpy(a - 1, str(tmp_path / "a.zarr")) + 1
        a = np.asarray(given)
    q, r = linalg.qr(given)
    plain = linalg.qr(a)
    assert fingerprint(np.asarray(r)) == fingerprint(np.asarray(plain.R))
    assert fingerprint(np.asarray(q)) == fingerprint(np.asarray(plain.Q))


def test_integers_become_floats():
    a = np.arange(60).reshape(20, 3)
    q, r = linalg.qr(a)
    check(a.astype(float), np.asarray(q), np.asarray(r))


@pytest.mark.parametrize("shape", [(2500, 2200), (4700, 1100)], ids=str)
def test_the_limit_and_the_workers_do_not_change_bits(shape, tmp_path):
    # Slabs of one, two, all columns of tiles, panels that stream: the same operations on every tile.
    a = fl.from_numpy(matrix(shape, "float64"), str(tmp_path / "a.zarr"))
    seen, orders = set(), set()
    for more, workers in [(0, 1), (31 << 20, 2), (48 << 20, 2), (1 << 30, 3)]:
        with fl.Runtime(workers=workers):
            need = linalg.qr.plan(a, mode="r").least_memory
        with fl.Runtime(memory=need + more, workers=workers):
            orders.add(linalg.qr.plan(a, mode="r").method)
            made = linalg.qr(a, mode="r")
        seen.add(fingerprint(np.asarray(made)))
    assert len(seen) == 1
    assert len(orders) >= 2, orders  # three, where the process holds little else


def test_orthogonal_whatever_the_condition():
    rng = np.random.default_rng(3)
    u, v = np.linalg.qr(rng.standard_normal((6000, 40)))[0], np.linalg.qr(rng.standard_normal((40, 40)))[0]
    a = (u * np.geomspace(1, 1e-12, 40)) @ v
    q, r = linalg.qr(a)
    check(a, np.asarray(q), np.asarray(r))


def test_columns_that_are_zero_or_equal():
    a = matrix((3000, 20), "float64")
    a[:, 3], a[:, 7] = 0, a[:, 6]
    q, r = linalg.qr(a)
    check(a, np.asarray(q), np.asarray(r))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scales(scale):
    a = matrix((3000, 20), "float64") * scale
    q, r = linalg.qr(a)
    check(a / scale, np.asarray(q), np.asarray(r) / scale)


def test_results_go_where_they_are_named(tmp_path):
    a = matrix((900, 30), "float64")
    r = linalg.qr(a, mode="r", out=tmp_path / "r.npy")
    assert np.array_equal(np.load(tmp_path / "r.npy"), np.asarray(r))
    into = np.full((30, 30), 7.0)
    linalg.qr(a, mode="r", out=into)
    assert np.array_equal(into, np.asarray(r))
    stored = fl.create(str(tmp_path / "old.zarr"), (30, 30), "float64", (7, 9))
    linalg.qr(a, mode="r", out=stored)
    assert np.array_equal(np.asarray(stored), np.asarray(r))
    linalg.qr(a, out=tmp_path / "both.zarr")
    assert np.array_equal(np.asarray(fl.open(str(tmp_path / "both.zarr/r"))), np.asarray(r))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_named(value):
    a = matrix((5000, 600), "float64")
    a[4321, 567] = value
    with pytest.raises(fl.NumericalError, match="^qr: the matrix has NaN or Inf at row 4321, column 567"):
        linalg.qr(a, mode="r")
    with pytest.raises(fl.NumericalError, match="^lq: the matrix has NaN or Inf at row 9, column 3"):
        linalg.lq(np.where(np.arange(48).reshape(12, 4) == 39, value, 1.0))


def test_refusals(tmp_path):
    a = matrix((50, 4), "float64")
    with pytest.raises(fl.ShapeError, match="mode is 'full'"):
        linalg.qr(a, mode="full")
    with pytest.raises(fl.ShapeError, match="dimensions"):
        linalg.qr(np.zeros((3, 3, 3)))
    with pytest.raises(fl.ShapeError, match="out is"):
        linalg.qr(a, mode="r", out=np.zeros((3, 3)))
    with pytest.raises(fl.ShapeError, match="Zarr directory"):
        linalg.qr(a, out=tmp_path / "q.npy")
    f = linalg.qr(a, mode="raw")
    with pytest.raises(fl.ShapeError, match="rows must be as many"):
        linalg.apply_q(f, np.zeros((4, 2)))
    with pytest.raises(fl.ShapeError, match="side is"):
        linalg.apply_q(f, np.zeros((50, 2)), side="up")
    with pytest.raises(TypeError, match="the factor that qr"):
        linalg.apply_q(a, a)
    fl.from_numpy(a, str(tmp_path / "a.zarr"))
    with pytest.raises(fl.FormatError, match="holds no factor"):
        linalg.open_factor(tmp_path / "a.zarr")
    linalg.cholesky(np.eye(3), out=tmp_path / "l.zarr")
    with pytest.raises(fl.FormatError, match="cholesky stores one array"):
        linalg.open_factor(tmp_path / "l.zarr")
    for routine, part in ((linalg.qr, "R"), (linalg.lq, "L")):
        routine(a, out=tmp_path / "q.zarr")
        with pytest.raises(fl.FormatError, match=f"holds Q and {part} as arrays; open each"):
            linalg.open_factor(tmp_path / "q.zarr")
