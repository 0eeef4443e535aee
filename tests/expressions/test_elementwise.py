"""Element-wise expressions against NumPy: dtypes, broadcasting, ragged shapes, laziness."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flagstone as fl
from tests.support.examples import examples

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


@examples(120)
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


# Laziness and protocols -------------------------------------------------------------------------------------


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
    np.sort, np.add.accumulate, np.frexp, np.modf, lambda X: np.hstack([X, X]),
    lambda X: np.add(X, 1, out=np.zeros((3, 4))), lambda X: bool(X + 1),
    lambda X: X + "a", lambda X: (X + 1) @ "a",
])  # fmt: skip
def test_what_would_load_or_means_nothing_is_a_type_error(call):
    with pytest.raises(TypeError):
        call(fl.from_numpy(np.ones((3, 4))))


@examples(60)
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


@pytest.mark.parametrize("name", ["logical_and", "add", "power", "maximum", "arctan2"])
def test_an_operand_that_is_missing_is_told_at_once(name):
    a = fl.from_numpy(np.ones((3, 4)))
    with pytest.raises(TypeError, match=f"{name}: 1 operands were given and 2 are needed"):
        getattr(fl, name)(a)
