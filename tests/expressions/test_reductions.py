"""Reductions against NumPy: dtypes, axes, ragged shapes, tiles of every storage."""

from __future__ import annotations

import math
import warnings

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.expressions.test_elementwise import ALL, close, values
from tests.support.examples import examples
from tests.support.processes import stored

REDUCTIONS = ["sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "any", "all"]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def reduced(name, x, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(np, name)(x, **options)


def check_reduction(name, got, x, options) -> None:
    wanted = np.asarray(reduced(name, x, **options))
    got = np.asarray(got)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind not in "fc" or name in ("min", "max"):
        np.testing.assert_array_equal(got, wanted)
        return
    # |error| <= eps (result) + n eps (sum of sizes): compared with the sum in a wider precision.
    wide = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
    exact = np.asarray(reduced(name, wide, **options))
    eps = np.finfo(wanted.dtype).eps
    size = np.asarray(
        reduced(
            "sum" if name == "sum" else "mean",
            np.abs(wide),
            axis=options["axis"],
            keepdims=options["keepdims"],
        )
    )
    # Narrow floats are added in float64; float64 itself pairwise, whose error goes with the sum of sizes.
    pairwise = 16.0 if eps < 1e-10 else 1e-7
    slack = {"prod": 64 * np.abs(exact), "var": 8 * np.abs(exact) + pairwise * size**2}.get(
        name, 8 * np.abs(exact) + pairwise * size
    )
    good = (
        np.isfinite(exact.real)
        & np.isfinite(exact.imag)
        & (np.abs(exact) < 1e4 if wanted.dtype == np.float16 else True)
    )
    good = good & (np.abs(exact) < np.finfo(wanted.dtype).max)
    assert (
        np.abs(got - exact)[good]
        <= (eps * slack + 2 * float(np.finfo(wanted.dtype).smallest_subnormal))[good]
    ).all()
    infinite = ~np.isfinite(exact.real)
    np.testing.assert_array_equal(got.real[infinite], exact.real[infinite].astype(got.real.dtype))


@examples(200)
@given(data=st.data())
def test_reductions_are_numpys(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=9))
    dtype = data.draw(st.sampled_from(ALL))
    name = data.draw(st.sampled_from(REDUCTIONS))
    if dtype.startswith("complex") and name not in ("sum", "mean", "var", "std", "any", "all"):
        return
    ndim = len(shape)
    axis = data.draw(st.one_of(st.none(), st.integers(-ndim, ndim - 1)))
    if not name.startswith("arg") and data.draw(st.booleans()):
        axis = tuple(data.draw(st.sets(st.integers(0, ndim - 1))))
    options = {"axis": axis, "keepdims": data.draw(st.booleans())}
    x = values(np.random.default_rng(data.draw(st.integers(0, 999))), shape, dtype)
    if name == "prod":
        x = (x % 3).astype(dtype) if x.dtype.kind in "iu" else x
    try:
        reduced(name, x, **options)
    except ValueError:
        with pytest.raises(ValueError):
            getattr(fl.from_numpy(x), name)(**options)[...]
        return
    check_reduction(name, getattr(fl.from_numpy(x), name)(**options), x, options)


@pytest.mark.parametrize("kind", ["zarr", "zarr_small", "npy", "npy_f", "npy_odd", "memory_strided"])
@pytest.mark.parametrize("dtype", ["float32", "int16", "complex128"])
def test_tiles_of_every_storage(tmp_path, kind, dtype):
    """Several tiles along both dimensions, ragged at the edges."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-3, 3, (1301, 1733)) * 10
    x = (x + 1j * rng.uniform(-1, 1, x.shape) if dtype == "complex128" else x).astype(dtype)
    X = stored(x, kind, tmp_path / "x")
    e = fl.abs(X) * 2 + 1
    y, rows, columns, total = fl.compute(e, fl.sum(e, 1), fl.mean(e, axis=0), fl.max(e))
    wanted = np.abs(x) * 2 + 1
    close(y[...], wanted, 4)
    wide = wanted.astype(np.longdouble)
    np.testing.assert_allclose(
        rows, wide.sum(1).astype(np.float64), rtol=1e-6 if dtype == "float32" else 1e-14
    )
    np.testing.assert_allclose(
        columns, wide.mean(0).astype(np.float64), rtol=1e-6 if dtype == "float32" else 1e-14
    )
    assert total == y[...].max()
    turned = fl.compute((X.T + 1).T) if isinstance(X, fl.Array) else fl.compute(fl.real(X) + 1)
    close(turned[...], (x + 1) if isinstance(X, fl.Array) else x.real + 1, 4)


def test_argument_reductions_find_the_first_across_tiles(tmp_path):
    x = np.zeros((2100, 1500), "float32")
    x[2050, 3] = x[17, 1400] = 5
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    assert int(X.argmax()) == x.argmax() == 17 * 1500 + 1400
    np.testing.assert_array_equal(X.argmax(axis=0), x.argmax(0))
    np.testing.assert_array_equal(X.argmax(axis=1), x.argmax(1))
    x[1000, 1000] = np.nan
    X = fl.from_numpy(x, tmp_path / "y.zarr")
    assert int(X.argmin()) == x.argmin() == 1000 * 1500 + 1000
    assert np.isnan(float(X.min()))
    assert np.isnan(float(X.max()))


def test_sums_stay_exact_where_plain_addition_does_not():
    x = np.full((1 << 20,), 0.1, "float32")
    assert float(fl.from_numpy(x).sum()) == np.float32(x.astype(np.float64).sum())
    y = np.tile([1e16, 1.0, -1e16, 1.0], 50_000).reshape(-1, 4)
    assert fl.from_numpy(y.reshape(-1, 1)).sum(0)[0] == 100_000
    for n in (1, 10, 1000, 200_000):  # inside a block, where lanes and blocks meet, between tiles
        z = np.array([1e16, 1, -1e16] * n + [1.0])
        assert float(fl.from_numpy(z).sum()) == n + 1
    far = np.random.default_rng(0).standard_normal((200_000, 3)) + 1e9  # Σx² would lose everything
    np.testing.assert_allclose(
        fl.from_numpy(far).var(0), far.astype(np.longdouble).var(0).astype(float), rtol=1e-6
    )
    np.testing.assert_allclose(
        fl.from_numpy(np.ascontiguousarray(far.T)).var(1),
        far.astype(np.longdouble).var(0).astype(float),
        rtol=1e-6,
    )


@examples(60)
@given(
    hnp.arrays(
        "float64", st.integers(1, 9000), elements=st.floats(-1e300, 1e300), fill=st.floats(-1e18, 1e18)
    )
)
def test_sums_of_float64_are_as_if_added_in_twice_the_precision(x):
    """Sum2's bound (Ogita, Rump, Oishi 2005, 4.5): u |s| + γ² Σ|x|, γ = (n - 1) u / (1 - (n - 1) u)."""
    exact, u = math.fsum(x), np.finfo(float).eps / 2
    gamma = len(x) * u
    with np.errstate(over="ignore"):
        # twice u |s|: what is compared with is rounded too
        bound = 2 * u * abs(exact) + 2 * gamma * gamma * math.fsum(np.abs(x))
    assert abs(float(fl.from_numpy(x).sum()) - exact) <= bound


def test_sums_of_infinities_and_overflow_are_numpys():
    inf = np.inf
    for x in ([1, inf], [inf, 1, -inf], [-inf] * 40, [1e308] * 40, [np.nan] + [1.0] * 40):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = np.sum(np.array(x))
        np.testing.assert_equal(float(fl.from_numpy(np.array(x, "float64")).sum()), wanted)


def test_reductions_inside_expressions(tmp_path):
    x = np.random.default_rng(9).standard_normal((900, 40)).astype("float32")
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    z = (X - X.mean(0)) / X.std(0)
    np.testing.assert_allclose(z[...], (x - x.mean(0)) / x.std(0), rtol=0, atol=1e-5)
    assert float(abs(z.mean())) < 1e-6


@pytest.mark.parametrize("options", [
    {"initial": 100}, {"where": np.ones((3, 4), bool)}, {"out": np.zeros(4)}, {"initial": 0},
])  # fmt: skip
def test_arguments_of_reductions_are_taken_or_refused(options):
    X = fl.from_numpy(np.ones((3, 4)))
    name = next(iter(options))
    for call in (np.add.reduce, np.sum, fl.sum):
        with pytest.raises(TypeError, match=f"^sum: {name} is not possible here"):
            call(X, axis=0, **options)
    with pytest.raises(TypeError, match="dtype is not possible"):
        fl.max(X, dtype="f4")
    np.testing.assert_array_equal(np.add.reduce(X, 0, None, None, True), np.full((1, 4), 3.0))
    assert np.add.reduce(X, axis=None, where=True)[()] == 12


@pytest.mark.parametrize("name", ["sum", "prod", "mean"])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "?", "f4", "f8"])
@pytest.mark.parametrize("source", ["i1", "i8", "f8"])
def test_the_dtype_asked_for_is_the_dtype_got(name, dtype, source):
    a = np.random.default_rng(0).integers(1, 100, (12, 5)).astype(source)
    got = np.asarray(getattr(fl.from_numpy(a), name)(0, dtype=dtype))
    expected = getattr(a, name)(0, dtype=dtype)
    assert got.dtype == np.dtype(dtype).newbyteorder("=")
    if name == "mean" and dtype in ("i1", "u1", "?"):  # NumPy's own sum wraps around before it divides
        return
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    with pytest.raises(TypeError, match="a floating one is needed"):
        fl.var(fl.from_numpy(a), dtype="i4")


@pytest.mark.parametrize("axis", [0, -1, None, ()])
def test_reductions_of_arrays_without_dimensions(axis):
    assert fl.from_numpy(np.array(5.0)).sum(axis)[()] == 5
    with pytest.raises(np.exceptions.AxisError):
        fl.from_numpy(np.array(5.0)).sum(1)


def test_a_reduction_keeps_its_value_and_an_expression_does_not(tmp_path):
    X = fl.from_numpy(np.ones((4, 3)), tmp_path / "x.zarr")
    seen, unseen, lazy = X.mean(), X.mean(), X * 2
    assert float(seen) == 1
    assert lazy[0, 0] == 2
    X[...] = 0
    assert float(seen) == 1
    assert float(unseen) == 0
    assert lazy[0, 0] == 0
