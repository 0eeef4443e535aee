"""The dense product: two acceptance formulas over dtypes, transposes, shapes, layouts, destinations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples
from tests.support.processes import DTYPES, KINDS, acceptance, random_matrix, stored

OPS = {
    "N": lambda a: a,
    "T": lambda a: a.T,
    "C": lambda a: a.T.conj(),
    "J": lambda a: a.conj(),
}


def operand(rng, rows, cols, dtype, op, signed):
    """A matrix whose op() is rows x cols."""
    shape = (rows, cols) if op in "NJ" else (cols, rows)
    return random_matrix(rng, shape, dtype, signed)


def bound(k, n, signed):
    """In units of eps: 3 for entries in (0, 1), √(k + n) for signed ones."""
    return np.sqrt(k + n) if signed else 3.0


@examples(80, HealthCheck.too_slow)
@given(
    m=st.integers(1, 90), k=st.integers(1, 90), n=st.integers(1, 90),
    dtype=st.sampled_from(DTYPES), op_a=st.sampled_from("NTCJ"), op_b=st.sampled_from("NTCJ"),
    kind_a=st.sampled_from(KINDS), kind_b=st.sampled_from(KINDS),
    alpha=st.sampled_from([1, 0.5, 2]), beta=st.sampled_from([0, 1, 0.25]),
    signed=st.booleans(), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@example(m=1, k=1, n=1, dtype="complex64", op_a="C", op_b="C", kind_a="npy_f", kind_b="zarr", alpha=2, beta=1,
         signed=False, seed=0)  # fmt: skip
def test_products(tmp_path_factory, m, k, n, dtype, op_a, op_b, kind_a, kind_b, alpha, beta, signed, seed):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("product")
    a, b = operand(rng, m, k, dtype, op_a, signed), operand(rng, k, n, dtype, op_b, signed)
    c_in = random_matrix(rng, (m, n), dtype, signed)
    c = fl.from_numpy(c_in, str(folder / "c.zarr"))
    product = fl.matmul(
        OPS[op_a](stored(a, kind_a, folder / "a")), OPS[op_b](stored(b, kind_b, folder / "b")),
        out=c, alpha=alpha, beta=beta,
    )  # fmt: skip
    assert (product.shape, np.dtype(product.dtype)) == ((m, n), np.dtype(dtype))
    error = acceptance(product[...], alpha, OPS[op_a](a), OPS[op_b](b), beta, c_in, rng)
    assert error <= bound(k, n, signed)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op_a", "op_b"), [("N", "N"), ("T", "C"), ("C", "T"), ("T", "J")])
def test_products_of_several_ragged_tiles(tmp_path, rng, dtype, op_a, op_b, signed):
    """Every dimension goes just beyond one tile of 2048."""
    m, k, n = 2051, 2065, 2111
    a, b = operand(rng, m, k, dtype, op_a, signed), operand(rng, k, n, dtype, op_b, signed)
    product = fl.matmul(
        OPS[op_a](stored(a, "npy", tmp_path / "a")), OPS[op_b](stored(b, "zarr", tmp_path / "b")),
        out=str(tmp_path / "c.zarr"),
    )  # fmt: skip
    assert acceptance(product[...], 1, OPS[op_a](a), OPS[op_b](b), 0, None, rng) <= bound(k, n, signed)


@pytest.mark.parametrize(
    "shape", [(1, 5000, 1), (5000, 1, 3), (1, 1, 5000), (3000, 7, 2500), (7, 3000, 5), (2048, 2048, 1)]
)
@pytest.mark.parametrize("kind", ["npy_odd", "npy_f", "zarr_small"])
def test_thin_and_flat(tmp_path, rng, shape, kind):
    m, k, n = shape
    a, b = random_matrix(rng, (m, k), "float32"), random_matrix(rng, (k, n), "float32")
    product = fl.matmul(stored(a, kind, tmp_path / "a"), stored(b, kind, tmp_path / "b"))
    assert acceptance(product[...], 1, a, b, 0, None, rng) <= bound(k, n, True)


def test_complex_alpha_and_beta(tmp_path, rng):
    a, b, c = (random_matrix(rng, (33, 33), "complex128") for _ in range(3))
    out = fl.from_numpy(c, str(tmp_path / "c.zarr"))
    fl.matmul(stored(a, "npy", tmp_path / "a"), b, out=out, alpha=1 - 2j, beta=0.5j)
    assert acceptance(out[...], 1 - 2j, a, b, 0.5j, c, rng) <= bound(33, 33, True)


def test_alpha_zero_only_scales(tmp_path, rng):
    a = np.full((20, 20), np.nan)
    c = rng.random((20, 20))
    out = fl.from_numpy(c, str(tmp_path / "c.zarr"))
    fl.matmul(a, a, out=out, alpha=0, beta=2)
    np.testing.assert_array_equal(out[...], 2 * c)


def test_beta_zero_overwrites_nan(tmp_path, rng):
    a, b = random_matrix(rng, (40, 30), "float64"), random_matrix(rng, (30, 50), "float64")
    out = fl.from_numpy(np.full((40, 50), np.nan), str(tmp_path / "c.zarr"))
    fl.matmul(a, b, out=out)
    np.testing.assert_allclose(out[...], a @ b, rtol=1e-12, atol=1e-13)


def test_nan_and_inf_propagate(tmp_path):
    a = np.ones((5, 5))
    a[2, 3] = np.nan
    a[4, 0] = np.inf
    np.testing.assert_array_equal(fl.matmul(fl.from_numpy(a, str(tmp_path / "a.zarr")), np.ones((5, 5)))[...],
                                  a @ np.ones((5, 5)))  # fmt: skip


@pytest.mark.parametrize(("m", "k", "n"), [(0, 4, 3), (4, 0, 3), (4, 3, 0), (0, 0, 0)])
def test_empty_dimensions(tmp_path, m, k, n):
    product = fl.matmul(np.ones((m, k)), np.ones((k, n)), out=str(tmp_path / "c.zarr"))
    np.testing.assert_array_equal(product[...], np.zeros((m, n)))
    assert fl.open(str(tmp_path / "c.zarr")).shape == (m, n)


def test_empty_inner_dimension_keeps_beta_c(tmp_path, rng):
    c = rng.random((6, 7))
    out = fl.from_numpy(c, str(tmp_path / "c.zarr"))
    fl.matmul(np.ones((6, 0)), np.ones((0, 7)), out=out, beta=3)
    np.testing.assert_array_equal(out[...], 3 * c)


def test_out_path_is_replaced_whole(tmp_path, rng):
    path = str(tmp_path / "c.zarr")
    old = fl.from_numpy(np.full((9, 9), 5.0), path)
    old = fl.open(path)
    x = rng.random((50, 50))
    product = fl.matmul(x, x, out=path)
    np.testing.assert_allclose(fl.open(path)[...], x @ x, rtol=1e-13)
    np.testing.assert_allclose(product[...], x @ x, rtol=1e-13)
    np.testing.assert_array_equal(old[...], np.full((9, 9), 5.0))


@pytest.mark.parametrize("which", ["a", "b", "both", "transposed"])
@pytest.mark.parametrize("beta", [0, 0.5])
def test_out_equal_to_an_operand(tmp_path, rng, which, beta):
    x, y = random_matrix(rng, (300, 300), "float64"), random_matrix(rng, (300, 300), "float64")
    a = fl.from_numpy(x, str(tmp_path / "a.zarr"))
    b = fl.from_numpy(y, str(tmp_path / "b.zarr"))
    truth = {"a": x @ y, "b": x @ y, "both": x @ x, "transposed": x.T @ y}[which]
    start = y if which == "b" else x
    arguments = {"a": (a, b, a), "b": (a, b, b), "both": (a, a, a), "transposed": (a.T, b, a)}[which]
    fl.matmul(*arguments[:2], out=arguments[2], beta=beta)
    np.testing.assert_allclose(arguments[2][...], truth + beta * start, rtol=0, atol=1e-12)


def test_out_equal_to_an_operand_opened_twice(tmp_path, rng):
    x = random_matrix(rng, (200, 200), "float64")
    path = str(tmp_path / "a.zarr")
    fl.from_numpy(x, path)
    fl.matmul(fl.open(path), fl.open(path), out=path)
    np.testing.assert_allclose(fl.open(path)[...], x @ x, rtol=0, atol=1e-12)


def test_out_npy_in_place_of_an_operand(tmp_path, rng):
    x = random_matrix(rng, (100, 100), "float64")
    np.save(tmp_path / "x.npy", x)
    a = fl.open(str(tmp_path / "x.npy"), mode="r+")
    fl.matmul(a, a, out=a)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), x @ x, rtol=0, atol=1e-12)


def test_out_as_ndarray_or_refusal(rng):
    """A NumPy array as `out` is either filled in place or refused with a reason; never ignored."""
    x = rng.random((20, 20))
    out = np.zeros((20, 20))
    try:
        fl.matmul(x, x, out=out)
    except (TypeError, ValueError) as error:
        assert "out" in str(error)  # noqa: PT017
    else:
        np.testing.assert_allclose(out, x @ x, rtol=1e-13)


def test_results_of_mixed_sources_have_the_same_bits(tmp_path, rng):
    """One k-order whatever the storage, for operands of one tiling."""
    x = random_matrix(rng, (500, 400), "float32")
    y = random_matrix(rng, (400, 300), "float32")
    results = {
        fl.matmul(stored(x, a, tmp_path / f"a{i}"), stored(y, b, tmp_path / f"b{i}"))[...].tobytes()
        for i, (a, b) in enumerate(itertools.product(["memory", "npy", "npy_odd"], repeat=2))
    }
    assert len(results) == 1


def test_transposed_product_is_the_product_of_transposes(tmp_path, rng):
    a, b = random_matrix(rng, (120, 80), "float64"), random_matrix(rng, (80, 200), "float64")
    left = fl.matmul(fl.from_numpy(a, str(tmp_path / "a.zarr")), b)[...].T
    right = fl.matmul(b.T, fl.open(str(tmp_path / "a.zarr")).T)[...]
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-13)


def test_result_without_out_is_gone_with_its_handle(isolated):
    leftover = isolated(
        """
        import gc
        scratch = os.environ["FLAGSTONE_SCRATCH"]
        def used():
            return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(scratch) for f in fs)
        before = used()
        x = np.random.default_rng(0).random((1000, 1000))
        c = fl.matmul(x, x)
        assert np.allclose(c[...], x @ x)
        del c
        gc.collect()
        result = used() - before
        """
    )
    assert leftover < 100_000


@pytest.mark.parametrize("of", [
    lambda x: x[::2, ::2], lambda x: x[::-1, ::-1], lambda x: x[:, ::-1],
    lambda x: np.broadcast_to(x[0], x.shape),
    lambda x: x[::3], lambda x: x.T[::2, 1:],
])  # fmt: skip
@pytest.mark.parametrize("wrapped", [False, True])
def test_matrices_in_memory_of_any_strides(rng, of, wrapped):
    x = of(rng.random((60, 60)))
    y = rng.random((x.shape[1], 7))
    a = fl.from_numpy(x) if wrapped else x
    np.testing.assert_allclose(np.asarray(fl.matmul(a, y)), x @ y, rtol=1e-13)
    np.testing.assert_allclose(np.asarray(fl.matmul(y.T, a.T)), y.T @ x.T, rtol=1e-13)
    whole = np.ones((2 * x.shape[0], 14))
    fl.matmul(a, y, out=whole[::2, ::2], beta=2)
    np.testing.assert_allclose(whole[::2, ::2], x @ y + 2, rtol=1e-13)
    assert (whole[1::2] == 1).all()


def test_a_field_of_records_is_packed(rng):
    def field(values):  # steps of 12 bytes: no whole elements
        records = np.zeros(values.shape, dtype=[("value", "f8"), ("weight", "f4")])
        records["value"] = values
        return records["value"]

    x, y = rng.random((6, 5)), rng.random((5, 4))
    np.testing.assert_allclose(np.asarray(fl.matmul(field(x), field(y))), x @ y, rtol=1e-13)
    out = field(np.ones((6, 4)))
    assert fl.matmul(x, y, out=out, beta=2) is out
    np.testing.assert_allclose(out, x @ y + 2, rtol=1e-13)


def test_long_doubles_are_refused():
    with pytest.raises(TypeError, match="longdouble|float128"):
        fl.matmul(np.ones((2, 2), np.longdouble), np.ones((2, 2)))


def test_beta_reads_the_result_that_a_path_holds(tmp_path, rng):
    x, y = rng.random((5, 6)), rng.random((6, 4))
    fl.matmul(x, y, out=tmp_path / "c.zarr")
    fl.matmul(x, y, out=tmp_path / "c.zarr", beta=1)
    np.testing.assert_allclose(fl.open(tmp_path / "c.zarr")[...], 2 * (x @ y), rtol=1e-13)


def test_copies_of_strided_matrices_are_inside_the_limit(rng):
    x, y = np.zeros((6000, 6000))[::2, ::2], np.ones((3000, 4))
    resident = fl.stats().resident_at_entry if fl.matmul(y.T, y) is not None else 0
    with pytest.raises(fl.BudgetError, match="a contiguous copy of A"):
        fl.matmul(x, y, memory=resident + (40 << 20))
    with pytest.raises(fl.BudgetError, match="a contiguous copy of out"):
        fl.matmul(y, y.T, out=x, beta=1, memory=resident + (40 << 20))


@pytest.mark.parametrize(("rows", "columns"), [(4096, 64), (64, 4096), (4096, 1)])
def test_results_of_one_chunk_that_is_longer_than_a_tile(tmp_path, rng, rows, columns):
    a, b = rng.random((rows, 30), np.float32), rng.random((30, columns), np.float32)
    c = fl.matmul(fl.from_numpy(a), b, out=tmp_path / "c.zarr")
    assert c.chunks == c.shape
    np.testing.assert_allclose(c[...], a @ b, rtol=1e-5)


@pytest.mark.parametrize("turned", [False, True])
def test_a_refused_product_with_a_vector_names_what_works(tmp_path, rng, turned):
    a, v = rng.random((3000, 3000)), rng.random(3000)
    A = fl.from_numpy(a, tmp_path / "a.zarr")
    product = (lambda m: fl.matmul(v, A, memory=m)) if turned else (lambda m: fl.matmul(A, v, memory=m))
    with pytest.raises(fl.BudgetError) as refused:
        product("8MiB")
    np.testing.assert_allclose(product(refused.value.least)[...], v @ a if turned else a @ v, rtol=1e-12)
