"""Element-wise expressions and reductions against NumPy: dtypes, broadcasting, ragged shapes, outputs."""

from __future__ import annotations

import warnings

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flagstone as fl
from helpers import stored

ALL = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
UNARY = [
    np.absolute, np.arccos, np.arccosh, np.arcsin, np.arcsinh, np.arctan, np.arctanh, np.cbrt, np.ceil,
    np.conjugate, np.cos, np.cosh, np.exp, np.exp2, np.expm1, np.fabs, np.floor, np.invert, np.isfinite,
    np.isinf, np.isnan, np.log, np.log10, np.log1p, np.log2, np.logical_not, np.negative, np.positive,
    np.reciprocal, np.rint, np.sign, np.signbit, np.sin, np.sinh, np.sqrt, np.square, np.tan, np.tanh,
    np.trunc, np.degrees, np.radians,
]  # fmt: skip
BINARY = [
    np.add, np.arctan2, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.copysign, np.equal,
    np.floor_divide, np.fmax, np.fmin, np.fmod, np.greater, np.greater_equal, np.hypot, np.left_shift,
    np.less, np.less_equal, np.logical_and, np.logical_or, np.logical_xor, np.maximum, np.minimum,
    np.multiply, np.not_equal, np.power, np.remainder, np.right_shift, np.subtract, np.true_divide,
    np.float_power,
]  # fmt: skip
REDUCTIONS = ["sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "any", "all"]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def values(rng, shape, dtype) -> np.ndarray:
    """Numbers of every size, zeros, NaN and infinities among them."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        info = np.iinfo(dtype)
        x = rng.integers(max(info.min, -9), 10, shape).astype(dtype)
        pick = rng.random(shape)
        return np.where(pick < 0.05, info.max, np.where(pick > 0.95, info.min, x)).astype(dtype)
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
    if kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    else:
        pick = rng.random(shape)
        x = np.where(pick < 0.04, np.nan, np.where(pick > 0.96, np.inf, np.where(pick > 0.92, -np.inf, x)))
        x = np.where((pick > 0.5) & (pick < 0.55), 0.0, x)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def close(got, wanted, ulp=6) -> None:
    """Equal shape and dtype; floating values within `ulp` units in the last place of the result's size."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, wanted)
        return
    eps = np.finfo(wanted.dtype).eps
    tiny = float(np.finfo(wanted.dtype).smallest_subnormal)
    np.testing.assert_allclose(got, wanted, rtol=ulp * eps, atol=ulp * tiny, equal_nan=True)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("ufunc", UNARY, ids=lambda f: f.__name__)
def test_one_operand_is_numpys(ufunc, dtype):
    x = values(np.random.default_rng(1), (7, 123), dtype)
    if ufunc is np.reciprocal and x.dtype.kind in "iu":
        x[x == 0] = 1  # whatever the processor says
    try:
        wanted = ufunc(x)
    except TypeError:
        with pytest.raises(TypeError):
            ufunc(fl.from_numpy(x))
        return
    if np.dtype(dtype).kind == "c" and ufunc not in (
        np.absolute,
        np.conjugate,
        np.negative,
        np.positive,
        np.square,
    ):
        wide = ufunc(x.astype(np.clongdouble))  # NumPy's own functions are not close everywhere
        got = ufunc(fl.from_numpy(x))[...]
        assert got.dtype == wanted.dtype
        if got.dtype == bool:
            np.testing.assert_array_equal(got, wanted)
        else:
            scale = np.finfo(wanted.dtype).eps * (16 + np.abs(x)) * np.maximum(np.abs(wide), 1e-30)
            good = np.isfinite(wide) & np.isfinite(wanted)
            assert (np.abs(got - wide)[good] <= scale[good]).all()
        return
    close(ufunc(fl.from_numpy(x))[...], wanted)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
def test_two_operands_are_numpys(ufunc, dtype):
    rng = np.random.default_rng(2)
    x, y = values(rng, (5, 211), dtype), values(rng, (211,), dtype)
    kind = np.dtype(dtype).kind
    if ufunc is np.power and kind == "i":
        x, y = np.abs(x % 7).astype(dtype), np.abs(y % 5).astype(dtype)
    if ufunc in (np.power, np.float_power) and kind == "c":
        y = rng.integers(-3, 4, 211).astype(dtype)
    try:
        wanted = ufunc(x, y)
        if kind == "c" and ufunc.__name__ in (
            "fmax",
            "fmin",
            "maximum",
            "minimum",
            "less",
            "greater",
            "less_equal",
            "greater_equal",
        ):
            raise TypeError  # NumPy orders complex numbers by parts, which the array API leaves out
    except TypeError:
        with pytest.raises(TypeError):
            ufunc(fl.from_numpy(x), y)
        return
    ulp = 64 if kind == "c" else 6
    close(ufunc(fl.from_numpy(x), y)[...], wanted, ulp)
    close(ufunc(y, fl.from_numpy(x))[...], ufunc(y, x), ulp)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_promotion_and_broadcasting(data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=6, min_side=0))
    one, other = (data.draw(st.sampled_from(ALL)) for _ in range(2))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, y = (values(rng, s, d) for s, d in zip(shapes.input_shapes, (one, other), strict=True))
    for ufunc in (np.add, np.multiply, np.true_divide, np.less, np.not_equal, np.maximum):
        if ufunc in (np.less, np.maximum) and "complex" in one + other:
            continue
        got = ufunc(fl.from_numpy(x), fl.from_numpy(y))
        with np.errstate(all="ignore"):
            close(got[...], ufunc(x, y), 16)
    close(
        fl.where(fl.from_numpy(x), fl.from_numpy(y), 3)[...],
        np.where(x.astype(bool), y, y.dtype.type(1) * 0 + np.array(3, (fl.from_numpy(y) + 3).dtype)),
    )


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("number", [3, 2.5, 1 + 2j], ids=str)
def test_python_numbers_take_the_dtype_of_what_they_meet(dtype, number):
    x = values(np.random.default_rng(3), (11,), dtype)
    strong = np.dtype(dtype)
    if isinstance(number, int):
        expected = np.dtype("int64") if strong.kind == "b" else strong
    elif isinstance(number, float):
        expected = strong if strong.kind in "fc" else np.dtype("float64")
    else:
        expected = {"c": strong, "f": np.dtype("complex64" if strong.itemsize < 8 else "complex128")}.get(
            strong.kind, np.dtype("complex128")
        )
    assert (fl.from_numpy(x) + number).dtype == expected
    assert (number * fl.from_numpy(x)).dtype == expected


def test_mixed_signs_compare_exactly():
    a = np.array([-1, 0, 2**62, 2**63 - 1], "int64")
    b = np.array([2**64 - 1, 0, 2**62, 2**63], "uint64")
    exact = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    A, B = fl.from_numpy(a), fl.from_numpy(b)
    assert (A < B)[...].tolist() == [x < y for x, y in exact]
    assert (B <= A)[...].tolist() == [y <= x for x, y in exact]
    assert (A == B)[...].tolist() == [x == y for x, y in exact]
    assert (A != B)[...].tolist() == [x != y for x, y in exact]
    assert (A > B)[...].tolist() == [x > y for x, y in exact]
    assert (B >= A)[...].tolist() == [y >= x for x, y in exact]


def test_integer_to_a_negative_power_is_refused():
    with pytest.raises(ValueError, match="power: an integer was raised to a negative power"):
        (fl.from_numpy(np.array([2, 3])) ** fl.from_numpy(np.array([1, -1])))[...]


# Reductions -----------------------------------------------------------------------------------------------


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


@settings(max_examples=200, deadline=None)
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
    far = np.random.default_rng(0).standard_normal((200_000, 3)) + 1e9  # Σx² would lose everything
    np.testing.assert_allclose(
        fl.from_numpy(far).var(0), far.astype(np.longdouble).var(0).astype(float), rtol=1e-6
    )
    np.testing.assert_allclose(
        fl.from_numpy(np.ascontiguousarray(far.T)).var(1),
        far.astype(np.longdouble).var(0).astype(float),
        rtol=1e-6,
    )


# Laziness, outputs, protocols -----------------------------------------------------------------------------


def test_nothing_is_read_until_it_is_needed(tmp_path):
    x = np.random.default_rng(6).standard_normal((1500, 1200))
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    e = np.exp(X) / 2
    assert isinstance(e, fl.Expression)
    assert isinstance(np.add(x, X), fl.Expression)
    assert isinstance(x - X, fl.Expression)
    assert isinstance(np.mean(X, axis=0), fl.Reduced)
    (tmp_path / "moved").mkdir()
    y = fl.compute(e, out=tmp_path / "y.zarr")
    assert fl.stats().bytes_read <= 1.4 * x.nbytes + (1 << 20)  # chunks are padded at the edges
    close(fl.open(tmp_path / "y.zarr")[...], np.exp(x) / 2)
    assert y.path


@pytest.mark.parametrize("call", [
    np.sort, np.linalg.norm, np.add.accumulate, np.frexp, np.modf, lambda X: np.concatenate([X, X]),
    lambda X: np.add(X, 1, out=np.zeros((3, 4))), lambda X: bool(X + 1),
    lambda X: X + "a", lambda X: X @ (X + 1), lambda X: (X + 1) @ X,
])  # fmt: skip
def test_what_would_load_or_means_nothing_is_a_type_error(call):
    with pytest.raises(TypeError):
        call(fl.from_numpy(np.ones((3, 4))))


@pytest.mark.parametrize("out", ["a.zarr", "b.npy", "existing", "operand", "ndarray", "memory"])
def test_outputs(tmp_path, out):
    x = np.random.default_rng(7).standard_normal((1100, 1300))
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    target = {
        "existing": lambda: fl.create(tmp_path / "e.zarr", x.shape, x.dtype, chunks=(300, 700)),
        "operand": lambda: X,
        "ndarray": lambda: np.zeros_like(x),
        "memory": lambda: fl.from_numpy(np.zeros_like(x)),
    }.get(out, lambda: tmp_path / out)()
    y = fl.compute(X * 2 + X.T[:1, :].sum() * 0, out=target)
    assert y is target or out in ("a.zarr", "b.npy")
    close(y[...], x * 2)


def test_an_ndarray_that_is_operand_and_output():
    x = np.arange(12.0).reshape(3, 4)
    y = np.arange(16.0).reshape(4, 4)
    fl.compute(fl.from_numpy(x) * 2, out=x)
    np.testing.assert_array_equal(x, np.arange(12.0).reshape(3, 4) * 2)
    fl.compute(fl.from_numpy(y).T + fl.from_numpy(y), out=y)
    np.testing.assert_array_equal(y, np.arange(16.0).reshape(4, 4).T + np.arange(16.0).reshape(4, 4))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_slices_of_expressions(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=12))
    x = np.random.default_rng(0).standard_normal(shape)
    row = np.random.default_rng(1).standard_normal(shape[-1])
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=False))
    got = (fl.from_numpy(x) * row + 1)[key]
    np.testing.assert_array_equal(got, (x * row + 1)[key])


@pytest.mark.parametrize(
    "key", [..., (slice(3, 900), slice(None, None, 3)), (slice(None, None, -1), 5), (7,)]
)
def test_expressions_are_assigned_by_parts(tmp_path, key):
    x = np.random.default_rng(8).standard_normal((1000, 700))
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    Y = fl.create(tmp_path / "y.zarr", x.shape, x.dtype)
    Y[key] = fl.from_numpy(np.ascontiguousarray(x[key])) * 2
    wanted = np.zeros_like(x)
    wanted[key] = x[key] * 2
    np.testing.assert_array_equal(Y[...], wanted)
    Y[...] = X + Y
    np.testing.assert_array_equal(Y[...], wanted + x)
    S = fl.from_numpy(x[:700], tmp_path / "s.zarr")
    S[...] = S.T * 2
    np.testing.assert_array_equal(S[...], x[:700].T * 2)


def test_reductions_inside_expressions(tmp_path):
    x = np.random.default_rng(9).standard_normal((900, 40)).astype("float32")
    X = fl.from_numpy(x, tmp_path / "x.zarr")
    z = (X - X.mean(0)) / X.std(0)
    np.testing.assert_allclose(z[...], (x - x.mean(0)) / x.std(0), rtol=0, atol=1e-5)
    assert float(abs(z.mean())) < 1e-6


def test_a_deep_chain_is_one_pass():
    e = fl.from_numpy(np.ones(100))
    for _ in range(3000):
        e = e + 1
    assert e[3] == 3001


def test_bits_do_not_depend_on_limit_or_workers(tmp_path):
    x = np.random.default_rng(10).standard_normal((3000, 2500)).astype("float32")
    fl.from_numpy(x, tmp_path / "x.zarr")
    results = set()
    for room in (200 << 20, 2 << 30):
        memory = fl._core.resident_bytes() + room
        for workers in (1, 2, 4):
            with fl.Runtime(memory=memory, workers=workers):
                X = fl.open(tmp_path / "x.zarr")
                e = np.log1p(abs(X) * 3)
                parts = fl.compute(e, e.mean(1), e.var(0), e.sum(), e.argmax(0))
                results.add(b"".join(np.asarray(p).tobytes() for p in parts))
                assert fl.stats().peak_memory <= fl.stats().memory
    assert len(results) == 1


@pytest.mark.parametrize(("call", "message"), [
    (lambda X: X + np.ones(5), "add: shapes 3 x 4 and 5 do not broadcast"),
    (lambda X: fl.compute(X + 1, out=np.zeros((4, 3))), "compute: out is 4 x 3 float64 and the result is 3"),
    (lambda X: fl.compute(X + 1, out=np.zeros((3, 4), "f4")), "astype converts"),
])  # fmt: skip
def test_bad_input_says_what_is_wrong(call, message):
    with pytest.raises(fl.ShapeError, match=message):
        call(fl.from_numpy(np.ones((3, 4))))


def test_a_limit_too_small_is_refused_before_work(tmp_path):
    X = fl.from_numpy(np.ones((3000, 3000)), tmp_path / "x.zarr")
    with pytest.raises(fl.BudgetError) as refused:
        fl.compute(X + 1, memory="20MiB")
    y = fl.compute(X + 1, memory=refused.value.least)
    assert fl.stats().peak_memory <= refused.value.least
    assert float(y.sum()) == 2 * X.size


def test_plans_count_what_runs_move(tmp_path):
    X = fl.from_numpy(np.ones((3000, 3000)), tmp_path / "x.zarr")
    e = X * 2 + 1
    plan = fl.compute.plan(e, e.sum(0), memory="4GiB")
    fl.compute(e, e.sum(0), memory="4GiB")
    # One tile more in the cache, which timing decides, is some per cent of so few.
    assert fl.stats().bytes_read == pytest.approx(plan.bytes_read, rel=0.1)
    assert fl.stats().bytes_written == pytest.approx(plan.bytes_written, rel=0.1)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("value", [300, -1, 2**40, -(2**63) - 1, 2**63, 2**64])
def test_python_integers_beyond_the_dtype_compare_and_divide_as_in_numpy(tmp_path, dtype, value):
    a = np.array([0, 1, 5, 100]).astype(dtype)
    x = fl.from_numpy(a, str(tmp_path / "x.zarr"))
    for f in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal, np.true_divide):
        expected, found = f(a, value), np.asarray(f(x, value))
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    if not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        with pytest.raises(OverflowError):
            np.add(x, value)


def test_messages_name_the_function_that_was_called(tmp_path):
    z = fl.from_numpy(np.ones(3, complex), str(tmp_path / "z.zarr"))
    with pytest.raises(TypeError, match="greater_equal: complex"):
        np.greater_equal(z, 1)


def test_a_later_pass_does_not_see_what_an_earlier_one_stored(tmp_path):
    a = np.arange(12.0).reshape(3, 4)
    X = fl.from_numpy(a, tmp_path / "x.zarr")
    first, second, total = fl.compute(X * 2, X.T + 1, X.sum(0), out=[X, tmp_path / "t.zarr", None])
    np.testing.assert_array_equal(first[...], 2 * a)
    np.testing.assert_array_equal(second[...], a.T + 1)
    np.testing.assert_array_equal(total, a.sum(0))
    y = a.copy()
    _, turned = fl.compute(fl.from_numpy(y) * 2, fl.from_numpy(y).T + 1, out=[y, tmp_path / "u.zarr"])
    np.testing.assert_array_equal(turned[...], a.T + 1)
    np.testing.assert_array_equal(y, 2 * a)


def test_passes_that_fail_publish_nothing(tmp_path):
    X = fl.from_numpy(np.ones((3, 4)), tmp_path / "x.zarr")
    n = fl.from_numpy(np.full((4, 3), -1), tmp_path / "n.zarr")
    with pytest.raises(fl.ShapeError, match="negative"):
        fl.compute(X * 2, 2**n, out=[X, tmp_path / "t.zarr"])
    assert float(X.sum()) == 12
    assert not (tmp_path / "t.zarr").exists()


def test_two_results_need_two_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = fl.from_numpy(np.ones((3, 4)), "x.zarr"), np.zeros((3, 4))
    for out in (
        ["s.zarr", "./s.zarr"],
        ["g.zarr", "g.zarr/a"],
        [X, "x.zarr"],
        [y, y[:]],
        [y, fl.from_numpy(y)],
    ):
        with pytest.raises(ValueError, match="compute: two results would go to"):
            fl.compute(X + 1, X + 2, out=out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.zarr"]
    assert float(X.sum()) == 12


@pytest.mark.parametrize("compute", [
    lambda X, out: fl.compute(X + 1, out=out), lambda X, out: fl.matmul(X, X, out=out),
    lambda X, out: fl.map_tiles(np.exp, X, out=out),
], ids=["compute", "matmul", "map_tiles"])  # fmt: skip
@pytest.mark.parametrize("name", ["raw.bin", "raw.npy", "plain.bin"])
def test_files_that_are_written_in_place_are_no_out(tmp_path, compute, name):
    X = fl.from_numpy(np.ones((4, 4)))
    with open(tmp_path / name, "wb") as file:
        if name == "plain.bin":
            np.save(file, np.ones((4, 4)))
        else:
            file.write(b"header!!" + np.ones((4, 4)).tobytes())
    before = (tmp_path / name).read_bytes()
    R = (
        fl.open(tmp_path / name, mode="r+") if name == "plain.bin"
        else fl.open_raw(tmp_path / name, "f8", (4, 4), offset=8, mode="r+")
    )  # fmt: skip
    with pytest.raises(fl.StorageError, match="is written in place.*assign it") as caught:
        compute(X, R)
    assert str(caught.value).count(". ") == 0
    assert (tmp_path / name).read_bytes() == before
    R[...] = fl.matmul(X, X)  # what the message says
    R.flush()
    assert (tmp_path / name).read_bytes() == before[: -16 * 8] + np.full(16, 4.0).tobytes()
    fl.compute(fl.from_numpy(np.ones((2, 4, 4))).sum(0), out=R)  # small: assigned, not exchanged
    assert (tmp_path / name).read_bytes() == before[: -16 * 8] + np.full(16, 2.0).tobytes()


def test_what_is_no_result_is_not_replaced(tmp_path):
    X = fl.from_numpy(np.random.default_rng(0).random((40, 30)))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("precious")
    (tmp_path / "note.txt").write_text("precious")
    (tmp_path / "n.npy").write_text("precious")
    for name in ("mine", "note.txt", "n.npy"):
        place = tmp_path / name
        for call in (
            lambda out: fl.compute(X + 1, out=out),
            lambda out: fl.compute(X.sum(0), out=out),
            lambda out: fl.matmul(X, X.T, out=out),
            lambda out: fl.pca(X, 3, out=out),
            lambda out: fl.pca(X, 3).transform(
                fl.from_numpy(np.ones((9, 30)), tmp_path / "y.zarr", True), out=out
            ),
            lambda out: fl.map_tiles(np.exp, X, out=out),
        ):
            with pytest.raises((fl.StorageError, fl.ShapeError), match="not replaced|must be a Zarr"):
                call(place)
    assert (tmp_path / "mine" / "precious.txt").read_text() == "precious"
    assert (tmp_path / "note.txt").read_text() == (tmp_path / "n.npy").read_text() == "precious"
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "old.npy", np.ones(3))
    for name in ("empty", "old.npy"):
        assert fl.compute(X + 1, out=tmp_path / name).shape == X.shape
        assert fl.compute(X + 2, out=tmp_path / name).shape == X.shape


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


def test_groups_that_are_no_result_are_not_replaced(tmp_path):
    x = np.random.default_rng(0).random((30, 30))
    A = fl.from_numpy(x, tmp_path / "data.zarr" / "a")
    fl.from_numpy(x, tmp_path / "data.zarr" / "b")
    S = fl.from_blocks([x], tmp_path / "s.zarr")
    fl.from_numpy(x, tmp_path / "noted.zarr")
    (tmp_path / "noted.zarr" / "notes.txt").write_text("precious")
    for name in ("data.zarr", "s.zarr", "noted.zarr"):
        for call in (
            lambda out: fl.matmul(A, A, out=out), lambda out: fl.pca(S, 2, out=out),
            lambda out: fl.compute(A + 1, out=out), lambda out: fl.single_cell(S, 2, genes=9, out=out),
        ):  # fmt: skip
            with pytest.raises(FileExistsError, match="so it is not replaced"):
                call(tmp_path / name)
    np.testing.assert_array_equal(fl.open(tmp_path / "data.zarr", key="b")[...], x)
    np.testing.assert_array_equal(fl.open(tmp_path / "noted.zarr", key="array")[...], x)
    assert fl.open(tmp_path / "s.zarr").nnz == 900
    fl.pca(S, 2, out=tmp_path / "r.zarr")  # a result is: by another, and by an array
    fl.pca(S, 3, out=tmp_path / "r.zarr")
    fl.compute(A + 1, out=tmp_path / "r.zarr")
    fl.compute(A + 1, out=tmp_path / "data.zarr" / "b")
    np.testing.assert_array_equal(fl.open(tmp_path / "data.zarr", key="b")[...], x + 1)


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
