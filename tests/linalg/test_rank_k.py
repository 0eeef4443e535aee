"""Rank-k updates: numbers against NumPy and by SLATE's formulas, symmetry to the bit, half of the flops."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flagstone as fl
from flagstone.linalg import rank_2k_update, rank_k_update
from tests.support.processes import beside

DTYPES = ["float32", "float64", "complex64", "complex128"]
SMALL = [(1, 1), (1, 300), (300, 1), (257, 130), (2100, 90)]


def random(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def stored(x, kind, folder, name="x"):
    if kind == "zarr":
        return fl.from_numpy(x, folder / f"{name}.zarr", overwrite=True)
    if kind == "npy":
        np.save(folder / f"{name}.npy", x)
        return fl.open(folder / f"{name}.npy")
    if kind == "turned":
        np.save(folder / f"{name}.npy", x.T.copy())
        return fl.open(folder / f"{name}.npy").T
    return fl.from_numpy(x)


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def close(found, wanted, a, b=None, c=0.0) -> None:
    """SLATE's bound: 3 eps (sqrt(k + 2) |A| |B| + 2 |beta| |C|), in the Frobenius norm."""
    found = np.asarray(found)
    b = a if b is None else b
    size = math.sqrt(2 * a.shape[1] + 2) * np.linalg.norm(a) * np.linalg.norm(b) + 2 * c
    assert np.linalg.norm(found - wanted) <= 3 * np.finfo(found.dtype).eps * size


def exactly_hermitian(found) -> None:
    found = np.asarray(found)
    np.testing.assert_array_equal(found, found.conj().T)
    assert not np.diagonal(found).imag.any()


@pytest.mark.parametrize("kind", ["memory", "zarr", "npy", "turned"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SMALL)
def test_numbers(tmp_path, kind, dtype, shape):
    x = random(shape, dtype)
    X = stored(x, kind, tmp_path)
    found = rank_k_update(X, alpha=-0.5)
    close(found, -0.5 * wide(x) @ wide(x).conj().T, x)
    exactly_hermitian(found)
    turned = rank_k_update(X.T, uplo=None)
    close(turned, wide(x).T @ wide(x).conj(), x.T)
    exactly_hermitian(turned)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["lower", "upper"])
@pytest.mark.parametrize("format", ["zarr", "npy", "memory"])
def test_a_triangle_is_stored_alone(tmp_path, dtype, uplo, format):
    x = random((2300, 40), dtype)
    X = fl.from_numpy(x)
    out = np.zeros((2300, 2300), dtype) if format == "memory" else tmp_path / f"c.{format}"
    made = rank_k_update(X, uplo=uplo, out=out)
    half = np.tril if uplo == "lower" else np.triu
    wanted = wide(x) @ wide(x).conj().T
    if format == "zarr":  # its metadata say that it is one
        for whole in (made, fl.open(out)):
            close(np.asarray(whole), wanted, x)
            exactly_hermitian(whole)
        made = fl.open(out, decode=False)
    found = np.asarray(made)
    close(half(found), half(wanted), x)
    far = found[-100:, :100] if uplo == "upper" else found[:100, -100:]
    assert not far.any()
    if uplo == "lower":  # what is mirrored where both are stored
        np.testing.assert_array_equal(half(found), half(np.asarray(rank_k_update(X))))


def test_what_replaces_a_stored_triangle_is_whole(tmp_path):
    x = random((300, 20), "float64")
    S = rank_k_update(fl.from_numpy(x), uplo="upper", out=tmp_path / "c.zarr")
    fl.compute(S + 1, out=tmp_path / "d.zarr")
    np.testing.assert_array_equal(np.asarray(fl.open(tmp_path / "d.zarr")), np.asarray(S) + 1)
    C = fl.open(tmp_path / "c.zarr", mode="r+")
    assert C.mode == "r+"
    other = random((300, 300), "float64", 2)
    fl.compute(fl.from_numpy(other) * 2, out=C)
    np.testing.assert_array_equal(np.asarray(fl.open(tmp_path / "c.zarr")), other * 2)


def test_a_stored_triangle_takes_half_of_the_bytes(tmp_path):
    x = random((8192, 64), "float32")
    rank_k_update(fl.from_numpy(x), uplo="lower", out=tmp_path / "c.zarr")
    half = fl.stats().bytes_written
    rank_k_update(fl.from_numpy(x), out=tmp_path / "d.zarr")
    both = fl.stats().bytes_written
    tiles = 8
    assert half == both * (tiles + 1) / (2 * tiles)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [60, 2500])
def test_what_was_there_is_added(tmp_path, dtype, n):
    x, c = random((n, 33), dtype), random((n, n), dtype, 1)
    c = c + c.conj().T
    for uplo in (None, "lower", "upper"):
        spoilt = c.copy()  # one triangle is read
        if uplo is not None:
            spoilt[np.triu_indices(n, 1) if uplo == "lower" else np.tril_indices(n, -1)] = np.nan
        C = fl.from_numpy(c if uplo is None else spoilt, tmp_path / "c.zarr", overwrite=True)
        found = np.asarray(rank_k_update(fl.from_numpy(x), c=C, alpha=2, beta=-3, uplo=uplo))
        wanted = 2 * wide(x) @ wide(x).conj().T - 3 * wide(c)
        half = {None: np.asarray, "lower": np.tril, "upper": np.triu}[uplo]
        if uplo is None:
            close(found, wanted, x, c=3 * np.linalg.norm(c))
            exactly_hermitian(found)
        else:
            assert np.isfinite(half(found)).all()
            close(half(found), half(wanted), x, c=3 * np.linalg.norm(c))
    X = fl.from_numpy(x)
    same = rank_k_update(X, c=C, beta=1, out=C) if uplo is None else None
    assert same is None or same is C


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (70, 500), (2200, 30)])
def test_rank_2k(tmp_path, dtype, shape):
    x, y = random(shape, dtype), random(shape, dtype, 1)
    c = random((shape[0], shape[0]), dtype, 2)
    c = c + c.conj().T
    alpha = 0.5 - 2j if np.dtype(dtype).kind == "c" else -1.5
    wanted = alpha * wide(x) @ wide(y).conj().T
    wanted = wanted + wanted.conj().T
    found = rank_2k_update(stored(x, "npy", tmp_path), stored(y, "zarr", tmp_path, "y"), alpha=alpha)
    close(found, wanted, x, abs(alpha) * 2 * y)
    exactly_hermitian(found)
    found = rank_2k_update(fl.from_numpy(x), fl.from_numpy(y), alpha=alpha, c=fl.from_numpy(c), beta=2)
    close(found, wanted + 2 * wide(c), x, abs(alpha) * 2 * y, 2 * np.linalg.norm(c))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_with_the_transpose_are_recognised(tmp_path, dtype):
    x = random((300, 2100), dtype)
    x[3, 5] = 0.0
    for kind in ("memory", "npy", "zarr"):
        X = stored(x, kind, tmp_path)
        for product, wanted in [
            (lambda X=X: X @ X.T, wide(x) @ wide(x).T),
            (lambda X=X: X.T @ X, wide(x).T @ wide(x)),
            (lambda X=X: X @ X.conj().T, wide(x) @ wide(x).conj().T),
            (lambda X=X: X.conj().T @ X, wide(x).conj().T @ wide(x)),
        ]:
            found = np.asarray(product())
            assert "rank-k" in fl.stats().what
            np.testing.assert_array_equal(found, found.T if np.allclose(wanted, wanted.T) else found.conj().T)
            assert (
                np.linalg.norm(found - wanted)
                <= 3 * np.finfo(x.dtype).eps * math.sqrt(2102) * np.linalg.norm(x) ** 2
            )
    in_memory = np.asarray(fl.matmul(x, x.T))
    np.testing.assert_array_equal(in_memory, in_memory.T)
    Y = fl.from_numpy(x.copy())
    fl.matmul(X, Y.T)
    assert "rank-k" not in fl.stats().what
    out = tmp_path / "product.zarr"
    fl.matmul(X, X.T, out=out)
    fl.matmul(X, X.T, out=out, beta=1)  # C may be anything
    assert "rank-k" not in fl.stats().what


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_lazy_ones_are_recognised_too_and_have_the_bits_of_stored_ones(tmp_path, dtype):
    x = random((200, 300), dtype)
    X = stored(x, "zarr", tmp_path)
    lazy = X * 2 - X.mean(0)
    kept = fl.rechunk(lazy, X.chunks, out=tmp_path / "kept.zarr")
    for product in (
        lambda Y: fl.matmul(Y, Y.T), lambda Y: fl.matmul(Y.T, Y), lambda Y: fl.matmul(Y, Y.conj().T),
        lambda Y: fl.matmul(Y.conj().T, Y),
    ):  # fmt: skip
        found = np.asarray(product(lazy))
        assert "rank-k" in fl.stats().what
        np.testing.assert_array_equal(found, np.asarray(product(kept)))
    fl.matmul(lazy, (X * 3).T)
    assert "rank-k" not in fl.stats().what


def test_half_of_the_flops(tmp_path):
    x = random((8192, 256), "float32")
    X = stored(x, "npy", tmp_path)
    rank_k_update(X)
    assert fl.stats().flops == 8192 * 8192 * 256
    fl.matmul(X, fl.from_numpy(x).T)
    assert fl.stats().flops == 2 * 8192 * 8192 * 256


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "float32", "float64"])
@pytest.mark.parametrize("turned", [False, True])
def test_columns_are_standardised_where_they_are_loaded(tmp_path, dtype, turned):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 4, (200, 900)).astype(dtype)  # 3: no value
    kept = np.where(x == 3, np.nan, x.astype(float))
    mean, sd = np.nanmean(kept, 0), np.nanstd(kept, 0)
    z = np.where(x == 3, 0, (kept - mean) / sd)
    X = stored(x, "turned" if turned else "zarr", tmp_path)
    found = rank_k_update(X, center=mean, scale=sd, missing=3, alpha=1 / 900)
    assert found.dtype == (np.float64 if dtype in ("int32", "float64") else np.float32)
    eps = np.finfo(found.dtype).eps
    np.testing.assert_allclose(
        np.asarray(found), z @ z.T / 900, atol=40 * eps * (z**2).sum(1).max() / 900, rtol=0
    )
    exactly_hermitian(found)
    filled = np.where(x == 3, mean, kept)
    found = rank_k_update(X, missing=3, dtype="float64")
    np.testing.assert_allclose(np.asarray(found), filled @ filled.T, rtol=1e-12)
    if dtype.startswith("float"):
        gone = np.where(x == 3, np.nan, x).astype(dtype)
        np.testing.assert_allclose(
            np.asarray(rank_k_update(gone, missing=np.nan, center=mean, dtype="float64")),
            (filled - mean) @ (filled - mean).T, atol=1e-9, rtol=0,
        )  # fmt: skip


@pytest.mark.parametrize("shape", [(100, 80_000), (1100, 17_000)])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_long_sums_are_dealt_out_to_groups(tmp_path, shape, dtype):
    x = random(shape[::-1], dtype, 4)
    X = stored(x, "npy", tmp_path)
    seen = set()
    for workers in (1, 2, 4):
        for room in (110, 2000):
            with fl.Runtime(workers=workers):
                memory = beside(room)
                found = np.asarray(rank_k_update(X.T, memory=memory, out=tmp_path / "c.zarr"))
                seen.add(found.tobytes())
    assert len(seen) == 1
    assert "sums side by side" in str(rank_k_update.plan(X.T))
    close(found, wide(x).T @ wide(x).conj(), x.T)


@pytest.mark.parametrize("uplo", [None, "lower", "upper"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_same_bits_for_every_limit_and_number_of_workers(tmp_path, uplo, dtype):
    x = random((4700 if dtype == "float32" else 2300, 1500), dtype, 5)
    X = stored(x, "zarr", tmp_path)
    seen, written = set(), set()
    for workers in (1, 2, 4):
        with fl.Runtime(workers=workers):
            for room in (130, 240, 3000):
                found = rank_k_update(X, uplo=uplo, memory=beside(room), out=tmp_path / "c.zarr")
                seen.add(np.asarray(found).tobytes())
                written.add(fl.stats().bytes_written)
    assert len(seen) == 1
    assert len(written) == 1  # each tile once


def test_bytes_read_are_those_of_the_schedule(tmp_path):
    """√2 x the bound of Beaumont et al., and what ragged superblocks add; each tile written once."""
    n, k, s = 16384, 2048, 4
    X = fl.create(tmp_path / "x.zarr", (n, k), "float32")
    plan = rank_k_update.plan(X, memory=beside(300))
    budget = 240 * 2**20
    bound = s**1.5 * n * n * k / math.sqrt(2 * budget) + s * n * k
    assert plan.bytes_written == s * n * n
    assert plan.bytes_read <= 2.2 * bound


def test_conjugated_tiles_have_room_wherever_they_lie(tmp_path):
    """Sizes at which a chunk is the whole result, and others; BLAS conjugates only what it transposes."""
    for n, kinds in ((1, ["npy"]), (2, ["memory", "npy"]), (64, ["memory", "zarr", "npy"]), (513, ["zarr"])):
        x = random((5, n), "complex128")
        for kind in kinds:
            X = stored(x, kind, tmp_path, f"{n}")
            turned = stored(x.T.copy(), kind, tmp_path, f"{n}t")
            for seen, given in (
                (x.T, X.T),
                (x.conj().T, X.T.conj()),
                (x.T, turned),
                (x.conj().T, turned.conj()),
            ):
                wanted = seen @ seen.conj().T
                for out in (None, np.zeros((n, n), complex), np.zeros((n, n), complex, order="F")):
                    close(rank_k_update(given, out=out), wanted, seen)
                    close(fl.matmul(given, seen.conj().T.copy(), out=out), wanted, seen)
        close(np.asarray(fl.cov(fl.from_numpy(x), rowvar=False)).reshape(n, n) * 4, _centred(x), x.T)


def _centred(x):
    z = (x - x.mean(0)).T
    return z @ z.conj().T


@pytest.mark.parametrize("uplo", ["lower", "upper"])
@pytest.mark.parametrize("n", [1, 5, 600, 1300])
def test_beside_a_triangle_everything_is_zero(tmp_path, uplo, n):
    x = random((n, 3), "complex128")
    half = np.tril if uplo == "lower" else np.triu
    places = np.full((n, n), 7.0 + 0j), fl.from_numpy(np.full((n, n), 7.0 + 0j)), tmp_path / "c.npy"
    wanted = half(np.asarray(rank_k_update(x)))
    for out in (*places, tmp_path / "c.zarr"):
        made = rank_k_update(x, uplo=uplo, out=out)
        found = np.asarray(fl.open(out, decode=False) if str(out).endswith(".zarr") else made)
        np.testing.assert_array_equal(found, half(found))
        close(found, wanted, x)
    both = rank_2k_update(x, x[::-1].copy(), uplo=uplo, out=places[0])
    np.testing.assert_array_equal(both, half(both))


@pytest.mark.parametrize(("dtype", "missing"), [("f4", 1e300), ("f4", -1e39), ("f2", 1e5), ("c8", 1e300j)])
def test_a_code_beyond_the_dtype_is_refused(dtype, missing):
    x = np.array([[1, np.inf], [2, 3]], dtype)
    with pytest.raises(fl.ShapeError, match=f"missing is .* and A {x.dtype}, which cannot hold it"):
        rank_k_update(x, missing=missing)
    assert np.isfinite(
        np.asarray(rank_k_update(x, missing=np.inf, dtype="f4" if dtype == "f2" else None))
    ).all()


@pytest.mark.parametrize("missing", [0.5, 300, -200, np.nan, 1j])
def test_a_code_that_the_dtype_cannot_hold_is_refused(missing):
    x = np.array([[0, 1, 2], [2, 1, 0]], "int8")
    with pytest.raises(fl.ShapeError, match="missing is .* and A int8, which cannot hold it"):
        rank_k_update(x, missing=missing)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"missing": "a"}, "missing is 'a'; a number is needed"),
        ({"center": "a"}, "center is <U1; numbers that float64 can hold are needed"),
        ({"scale": [1, 1j, 2]}, "scale is complex128; numbers that float64 can hold are needed"),
        ({"center": [[1], [1, 2]]}, "center is .*; an array of numbers"),
        ({"alpha": "x"}, "alpha is 'x'; a number is needed"),
        ({"beta": None}, "beta is None; a number is needed"),
        ({"missing": 1j}, "missing is 1j and A float64; a real number is needed"),
        ({"c": np.ones((3, 3))}, "C is 3 x 3 float64 and the result 4 x 4"),
        ({"c": np.ones((4, 4), "f4")}, "C is 4 x 4 float32 and the result 4 x 4 float64"),
    ],
)
def test_what_is_no_number_is_named(options, told):
    with pytest.raises(fl.ShapeError, match=f"rank_k_update: {told}"):
        rank_k_update(np.ones((4, 3)), **options)
    for call in (rank_k_update, fl.cov):
        with pytest.raises(TypeError, match="dtype is 'foo'; a NumPy dtype is needed"):
            call(np.ones((4, 3)), dtype="foo")


def test_refusals():
    x = np.ones((4, 3))
    with pytest.raises(fl.ShapeError, match="rank_k_update: center is 4 and A has 3 columns"):
        rank_k_update(x, center=np.ones(4))
    with pytest.raises(fl.ShapeError, match="scale is 0 at 1"):
        rank_k_update(x, scale=[1, 0, 1])
    with pytest.raises(fl.ShapeError, match="beta is 1 and there is no C"):
        rank_k_update(x, beta=1)
    with pytest.raises(fl.ShapeError, match="C is 3 x 3 float64 and the result 4 x 4"):
        rank_k_update(x, c=np.ones((3, 3)), beta=1)
    with pytest.raises(fl.ShapeError, match="uplo is 'L'"):
        rank_k_update(x, uplo="L")
    with pytest.raises(fl.ShapeError, match="result Hermitian; give real"):
        rank_k_update(x, alpha=1j)
    with pytest.raises(fl.ShapeError, match="A is 4 x 3 float64 and B is 3 x 3"):
        rank_2k_update(x, np.ones((3, 3)))
    for shape in ((0, 3), (3, 0), (0, 0)):
        found = np.asarray(rank_k_update(np.ones(shape)))
        np.testing.assert_array_equal(found, np.zeros((shape[0], shape[0])))


def test_nan_goes_where_it_belongs(tmp_path):
    x = random((2200, 50), "float64")
    x[7, 3] = np.nan
    found = np.asarray(rank_k_update(stored(x, "npy", tmp_path)))
    bad = np.isnan(found)
    assert bad[7].all()
    assert bad[:, 7].all()
    assert bad.sum() == 2 * 2200 - 1
