"""The array-API part against array-api-strict: every dtype, broadcasting, 0-d, empty, NaN and Inf.

What the standard has and this package has not stands in array_api_exclusions.txt with its reason; the first
test holds that list and the package to each other.
"""

from __future__ import annotations

import itertools
import operator
import re
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

import flagstone as fl
from tests.expressions.test_array_api_lazy import CREATION, PLACED
from tests.support.array_api_oracle import (
    DTYPES,
    EXAMPLES,
    PLACES,
    SEEDS,
    SHAPES,
    agree,
    allowed,
    ours,
    theirs,
    values,
    xp,
)
from tests.support.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
FILE = Path(__file__).parents[1] / "array_api_exclusions.txt"
UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj", "cos", "cosh",
    "exp", "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2",
    "logical_not", "negative", "positive", "real", "reciprocal", "round", "sign", "signbit", "sin", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
BINARY = [
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less", "less_equal",
    "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "not_equal", "pow",
    "remainder", "subtract",
]  # fmt: skip
REDUCTIONS = [
    "sum",
    "prod",
    "mean",
    "var",
    "std",
    "min",
    "max",
    "argmin",
    "argmax",
    "any",
    "all",
    "count_nonzero",
]
OTHERS = ["where", "clip", "matmul", "matrix_transpose", "tensordot", "vecdot"]  # tests/linalg
ALONG = [
    "cumulative_sum",
    "cumulative_prod",
    "diff",
    "isin",
    "nonzero",
    "take",
    "take_along_axis",
]  # tests/along
SORTING = [
    "argsort",
    "searchsorted",
    "sort",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]  # tests/sort
NAMESPACE = [
    "__array_namespace_info__", "asarray", "astype", "can_cast", "finfo", "from_dlpack", "iinfo", "isdtype",
    "result_type",
]  # fmt: skip
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, operator.and_, operator.or_,
    operator.xor,
]  # fmt: skip


def excluded() -> dict[str, str]:
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def test_every_function_of_the_standard_is_tested_or_excluded_with_a_reason():
    standard = {n for n in xp.__all__ if callable(getattr(xp, n)) and not isinstance(getattr(xp, n), type)}
    standard = {n for n in standard if n not in DTYPES and not n.endswith("_flags")} - {"Device"}
    left_out = {name for name in excluded() if "[" not in name and not name.startswith("linalg.")}
    tested = {*UNARY, *BINARY, *REDUCTIONS, *OTHERS, *CREATION, *PLACED, *ALONG, *SORTING, *NAMESPACE}
    assert tested <= standard
    assert standard - tested == left_out
    assert not [name for name in left_out if hasattr(fl, name)]
    assert not [name for name in tested if not hasattr(fl, name)]
    for name, reason in excluded().items():
        assert len(reason) > 5, name
        known = name.split("[")[0]
        assert (
            "[" not in name
            or known.removeprefix("linalg.") in {*tested, *fl.linalg.__all__}
            or known in ("indexing", "complex functions", "Array")
        ), name


def test_every_constant_of_the_standard_is_here():
    for name in DTYPES:
        assert getattr(fl, name) is getattr(np, "bool_" if name == "bool" else name), name
    assert (fl.e, fl.pi, fl.inf, fl.newaxis) == (np.e, np.pi, np.inf, None)
    assert np.isnan(fl.nan)
    assert fl.__array_api_version__ == "2024.12"


def test_the_namespace_of_whatever_is_lazy_is_the_package():
    a = fl.asarray(np.ones((2, 3)))
    for x in (a, a + 1, a.sum(0), a.T):
        assert x.__array_namespace__() is fl
        assert x.__array_namespace__(api_version="2024.12") is fl
        assert x.device == "cpu"
        assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match=r"version '2019\.1' .* 2024\.12"):
        a.__array_namespace__(api_version="2019.1")
    with pytest.raises(ValueError, match="one device"):
        a.to_device("cuda")


def test_dtypes_are_told_as_numpy_tells_them():
    a = fl.asarray(np.ones(3, np.float32))
    assert fl.isdtype(a.dtype, "real floating")
    assert not fl.isdtype(a.dtype, ("integral", "bool"))
    assert fl.result_type(a, fl.float64) == np.float64
    assert fl.result_type(a, 1.0) == np.float32
    assert fl.result_type(a + 1, fl.int8) == np.float32
    assert fl.can_cast(a, fl.float64)
    assert not fl.can_cast(fl.float64, fl.float32)
    assert fl.finfo(a).eps == np.finfo(np.float32).eps
    assert fl.iinfo(fl.int16).max == 32767
    assert fl.astype(a, fl.float32, copy=False) is a
    assert (fl.astype(a, fl.int8)[...] == np.ones(3, np.int8)).all()
    info = fl.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert info.dtypes()["float64"] == np.float64


def test_asarray_looks_at_memory_and_leaves_what_is_lazy(folder):
    values = np.arange(6.0).reshape(2, 3)
    a = fl.asarray(values)
    values[0, 0] = 9
    assert a[0, 0] == 9
    assert isinstance(a, fl.Array)
    assert fl.asarray(a) is a
    stored = fl.from_numpy(values, folder / "asarray.npy", overwrite=True)
    assert fl.asarray(stored, dtype="float32").dtype == np.float32
    copied = fl.asarray(values, copy=True)
    values[0, 0] = 8
    assert copied[0, 0] == 9
    assert fl.asarray([1, 2], dtype="int8").dtype == np.int8
    assert fl.asarray(3.5).shape == ()
    assert (fl.from_dlpack(values)[...] == values).all()
    with pytest.raises(TypeError, match="cannot be stored"):
        fl.asarray(["text"])
    with pytest.raises(ValueError, match="one, 'cpu'"):
        fl.asarray(values, device="cuda")


def test_one_element_formats_and_rounds():
    one = fl.asarray(np.array(3.14159))
    for x in (one, one * 1, fl.asarray(np.array([3.14159])).sum()):
        assert f"{x:.2f}" == "3.14"
        assert round(x, 1) == 3.1
        assert int(x) == 3
        assert bool(x)
        assert round(x) == 3
    with pytest.raises(TypeError):
        format(fl.asarray(np.ones(3)), ".2f")
    assert np.iscomplexobj(fl.asarray(np.array(1j)))
    assert np.ndim(one) == 0
    assert np.size(one) == 1


def test_transpose_and_dot_are_views_and_products():
    a = np.random.default_rng(1).random((4, 3))
    A = fl.asarray(a)
    assert (A.transpose()[...] == a.T).all()
    assert A.transpose(0, 1) is A
    assert (A.mT[...] == a.T).all()
    assert (A.transpose((1, 0))[...] == a.T).all()
    assert (np.transpose(A)[...] == a.T).all()
    np.testing.assert_allclose(np.asarray(A.dot(fl.asarray(a).T)), a @ a.T, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(np.dot(A, a[0])), a @ a[0], rtol=1e-14)
    assert (A.dot(2)[...] == a * 2).all()
    with pytest.raises(ValueError, match="reverses all"):
        fl.asarray(np.ones((2, 3, 4))).transpose(1, 0, 2)
    with pytest.raises(ValueError, match="2 are needed"):
        _ = fl.asarray(np.ones(3)).mT


def test_every_attribute_of_the_standards_array_is_here_or_excluded_with_a_reason():
    standard = {n for n in vars(type(xp.asarray(0))) if not n.startswith("_") or n.startswith("__")}
    standard -= {"__slots__", "__annotations__", "__weakref__", "__doc__", "__module__", "__new__"}
    missing = {name for name in standard if not hasattr(fl.Array, name)}
    left_out = {name[6:-1] for name in excluded() if name.startswith("Array[")}
    in_place = {f"__i{name}__" for name in (
        "add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub", "truediv",
        "xor",
    )}  # fmt: skip
    assert missing - in_place == left_out - {"__iadd__ and the other in-place operators"}


def test_the_exclusions_are_shown_in_the_documentation():
    page = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "elementwise.md").read_text()
    assert re.search(r"array_api_exclusions\.txt", page)


# Elementwise ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNARY)
@examples(EXAMPLES)
@given(data=st.data())
def test_functions_of_one_operand(name, data, folder):
    dtype = data.draw(st.sampled_from([d for d in DTYPES if allowed(name, d)]))
    x = values(data.draw(SEEDS), data.draw(SHAPES), dtype)
    wanted = theirs(lambda: getattr(xp, name)(xp.asarray(x)))
    if x.dtype.kind == "c" and not np.isfinite(wanted).all():
        return  # excluded: log of zero and the like
    X = ours(x, data.draw(PLACES), folder)
    agree("hypot" if name == "abs" and dtype[0] == "c" else name, getattr(fl, name)(X), wanted)


def legal(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return b changed where the standard leaves the result open."""
    if b.dtype.kind not in "iu":
        return b
    if name in ("floor_divide", "remainder"):
        return np.asarray(np.where(b == 0, 1, b), b.dtype)
    if name in ("bitwise_left_shift", "bitwise_right_shift"):
        return np.asarray(b.astype(object) % (8 * np.result_type(a, b).itemsize), b.dtype)
    return np.asarray(b.astype(object) % 7, b.dtype) if name == "pow" else b


@pytest.mark.parametrize("name", BINARY)
@examples(EXAMPLES)
@given(data=st.data())
def test_functions_of_two_operands_broadcast_and_promote(name, data, folder):
    pairs = [pair for pair in itertools.product(DTYPES, DTYPES) if allowed(name, *pair)]
    one, other = data.draw(st.sampled_from(pairs))
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=5)
    ).input_shapes
    a = values(data.draw(SEEDS), shapes[0], one, tame=name == "pow" and one.startswith("c"))
    b = legal(
        name, a, values(data.draw(SEEDS), shapes[1], other, tame=name == "pow" and other.startswith("c"))
    )
    wanted = theirs(lambda: getattr(xp, name)(xp.asarray(a), xp.asarray(b)))
    if wanted.dtype.kind == "c" or "c" in (a.dtype.kind, b.dtype.kind):
        assume(np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(wanted).all())
    A, B = ours(a, data.draw(PLACES), folder), ours(b, data.draw(PLACES), folder)
    agree(name, getattr(fl, name)(A, B), wanted)


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
@examples(EXAMPLES, HealthCheck.filter_too_much)
@given(data=st.data())
def test_operators_with_python_numbers(function, data, folder):
    dtype = data.draw(st.sampled_from(DTYPES))
    ordered = function in (operator.lt, operator.le, operator.gt, operator.ge)
    number = data.draw(
        st.sampled_from([0, 1, 2, 3, 7, -3, 0.5, -2.0, 1j, True, False, float("nan"), float("inf")])
    )
    x = values(data.draw(SEEDS), data.draw(SHAPES), dtype, tame=True)
    swap = data.draw(st.booleans())
    name = {"pow": "pow", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder"}.get(
        function.__name__, function.__name__
    )
    assume(not (ordered and (isinstance(number, complex) or x.dtype.kind == "c")))
    if name in ("floor_divide", "remainder", "pow") and x.dtype.kind in "iu":
        assume(not swap and not isinstance(number, complex) and number > 0)
    wanted = theirs(lambda: function(number, xp.asarray(x)) if swap else function(xp.asarray(x), number))
    assume(wanted is not None)
    if "c" in (wanted.dtype.kind, x.dtype.kind):
        assume(np.isfinite(wanted).all())
    X = ours(x, data.draw(PLACES), folder)
    agree(name, function(number, X) if swap else function(X, number), wanted)


@examples(2 * EXAMPLES)
@given(data=st.data())
def test_where_and_clip(data, folder):
    kind = data.draw(st.sampled_from([["bool"], DTYPES[1:5], DTYPES[5:9], DTYPES[9:11], DTYPES[11:]]))
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=5)
    ).input_shapes
    a = values(data.draw(SEEDS), shapes[0], data.draw(st.sampled_from(kind)))
    b = values(data.draw(SEEDS), shapes[1], data.draw(st.sampled_from(kind)))
    c = values(data.draw(SEEDS), shapes[2], "bool")
    place = data.draw(PLACES)
    A, B, C = ours(a, place, folder), ours(b, "memory", folder), ours(c, "memory", folder)
    agree("where", fl.where(C, A, B), theirs(lambda: xp.where(xp.asarray(c), xp.asarray(a), xp.asarray(b))))
    if a.dtype.kind in "iuf":
        low, high = sorted(data.draw(st.tuples(st.integers(0, 100), st.integers(0, 100))))
        agree("clip", fl.clip(A, low, high), theirs(lambda: xp.clip(xp.asarray(a), low, high)))


@examples(2 * EXAMPLES)
@given(data=st.data())
def test_conversions(data, folder):
    source, target = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    x = values(data.draw(SEEDS), data.draw(SHAPES), source, tame=True)
    assume(np.dtype(target).kind != "u" or x.dtype.kind in "bu")  # negative numbers: undefined
    wanted = theirs(lambda: xp.astype(xp.asarray(x), getattr(xp, target)))
    assume(wanted is not None)
    agree("astype", ours(x, data.draw(PLACES), folder).astype(target), wanted)


# Reductions -----------------------------------------------------------------------------------------------


def axes(data, ndim: int, one: bool):
    choices = [st.none()]
    if ndim:
        choices.append(st.integers(-ndim, ndim - 1))
        if not one:
            choices.append(hnp.valid_tuple_axes(ndim))
    return data.draw(st.one_of(choices))


@pytest.mark.parametrize("name", REDUCTIONS)
@examples(2 * EXAMPLES)
@given(data=st.data())
def test_reductions(name, data, folder):
    dtype = data.draw(
        st.sampled_from([d for d in DTYPES if allowed(name, d) and (name, d[:7]) != ("prod", "complex")])
    )
    shape = data.draw(SHAPES)
    x = values(
        data.draw(SEEDS), shape, dtype, tame=name in ("prod", "var", "std") and data.draw(st.booleans())
    )
    if x.dtype.kind == "f" and name in ("sum", "prod", "mean", "var", "std"):  # the oracle must not overflow
        x = np.where(np.abs(x) > 1e6, np.where(np.isinf(x), x, 1.0), x).astype(dtype)
    if name == "prod" and x.dtype.kind == "f":
        x = np.where((np.abs(x) < 1e-3) & (x != 0), 1.0, x).astype(dtype)
    axis, keepdims = axes(data, x.ndim, name.startswith("arg")), data.draw(st.booleans())
    options = {}
    if name in ("var", "std"):
        options["correction"] = data.draw(st.sampled_from([0.0, 1.0]))
    if name in ("sum", "prod") and data.draw(st.booleans()):
        options["dtype"] = data.draw(
            st.sampled_from([d for d in DTYPES[1:] if np.dtype(d).kind == x.dtype.kind] or [None])
        )

    def strict():
        given = {**options, **({"dtype": getattr(xp, options["dtype"])} if options.get("dtype") else {})}
        return getattr(xp, name)(xp.asarray(x), axis=axis, keepdims=keepdims, **given)

    try:
        wanted = theirs(strict)
    except ValueError:  # nothing to choose from
        with pytest.raises(ValueError, match="no elements"):
            getattr(fl, name)(ours(x, "memory", folder), axis, keepdims=keepdims)
        return
    got = np.asarray(
        getattr(fl, name)(ours(x, data.draw(PLACES), folder), axis, keepdims=keepdims, **options)
    )
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind not in "fc" or name in ("min", "max"):
        np.testing.assert_array_equal(got, wanted)
        return
    # The oracle adds in the dtype: n additions of numbers of this size, relative rounding eps each.
    n, eps = max(x.size, 2), np.finfo(wanted.dtype).eps
    finite = np.where(np.isfinite(x), np.abs(x), 0).astype(np.float64)
    size = {"sum": finite.sum(), "mean": finite.max(initial=0), "var": (finite**2).max(initial=0) * 4,
            "std": finite.max(initial=0) * 4 * np.sqrt(n), "prod": 0}[name]  # fmt: skip
    tolerance = 4 * n * eps * size if name != "std" else 4 * np.sqrt(n * eps) * size
    np.testing.assert_allclose(got, wanted, rtol=4 * n * eps, atol=tolerance, equal_nan=True)
