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
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import flagstone as fl

xp = pytest.importorskip("array_api_strict")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FILE = Path(__file__).with_name("array_api_exclusions.txt")
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
]  # fmt: skip
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
OTHERS = ["where", "clip", "matmul"]
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, operator.and_, operator.or_,
    operator.xor,
]  # fmt: skip
#: What rounds more than once: compared within units in the last place (docs/elementwise.md: each one's).
ROUNDED = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "exp", "expm1", "hypot", "log",
    "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh",
}  # fmt: skip
ULP = 8
#: The oracle itself loses relative accuracy near 0: compared against the size of 1.
ABSOLUTE = {"expm1", "log1p", "log", "log2", "log10"}


def excluded() -> dict[str, str]:
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def test_every_function_of_the_standard_is_tested_or_excluded_with_a_reason():
    standard = {n for n in xp.__all__ if callable(getattr(xp, n)) and not isinstance(getattr(xp, n), type)}
    standard = {n for n in standard if n not in DTYPES and not n.endswith("_flags")} - {"Device"}
    left_out = {name for name in excluded() if "[" not in name}
    tested = {*UNARY, *BINARY, *REDUCTIONS, *OTHERS}
    assert tested <= standard
    assert standard - tested == left_out
    assert not [name for name in left_out if hasattr(fl, name)]
    assert not [name for name in tested if not hasattr(fl, name)]
    for name, reason in excluded().items():
        assert len(reason) > 5, name
        known = name.split("[")[0]
        assert "[" not in name or known in tested or known in ("indexing", "complex functions", "Array"), name


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


# Operands -------------------------------------------------------------------------------------------------


def values(seed: int, shape: tuple[int, ...], dtype: str, tame: bool = False) -> np.ndarray:
    """Numbers of every size, both zeros, extremes, NaN and infinities (complex and `tame`: finite)."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    pick = np.asarray(rng.random(shape))
    if kind in "iu":
        info = np.iinfo(dtype)
        x = np.asarray(rng.integers(max(info.min, -9), 10, shape)).astype(dtype)
        if tame:
            return x
        return np.where(pick < 0.05, info.max, np.where(pick > 0.95, info.min, x)).astype(dtype)
    x = rng.standard_normal(shape) * (1 if tame else 10.0 ** rng.integers(-3, 3, shape))
    x = np.where(pick < 0.06, 0.0, x)
    if kind == "c":
        return np.asarray(x + 1j * np.where(pick > 0.9, 0.0, rng.standard_normal(shape))).astype(dtype)
    if not tame:
        specials = [
            np.nan,
            np.inf,
            -np.inf,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.0,
            np.finfo(dtype).max,
            np.finfo(dtype).tiny,
        ]
        x = np.where(pick > 0.8, rng.choice(specials, shape), x)
    return np.asarray(x).astype(dtype)


EXAMPLES = 25  # of every function; all of them some 20 s
counter = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("array-api")


def ours(x: np.ndarray, where: str, folder: Path):
    """`x` as an Array: in memory, or on disk in small chunks."""
    if where == "memory":
        return fl.from_numpy(x)
    if where == "fortran":
        return fl.from_numpy(np.array(x, order="F"))
    place = folder / f"x{next(counter) % 4}.{where}"  # few: they replace each other
    if where == "npy":
        return fl.from_numpy(x, place, overwrite=True)
    X = fl.create(place, x.shape, x.dtype, chunks=tuple(min(max(n, 1), 3) for n in x.shape), overwrite=True)
    X[...] = x
    return X


SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)
PLACES = st.sampled_from(["memory", "memory", "memory", "fortran", "zarr", "npy"])
SEEDS = st.integers(0, 2**32)


def theirs(call):
    """What array-api-strict gives, as an ndarray; None where the standard does not allow the dtypes."""
    try:
        result = call()
    except (TypeError, OverflowError):
        return None
    return np.asarray(result._array)


def agree(name: str, got, wanted: np.ndarray) -> None:
    got = np.asarray(got)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "c":
        eps = np.finfo(wanted.dtype).eps
        size = np.abs(wanted) + (1 if name in ABSOLUTE else 0)
        assert (np.abs(got - wanted) <= ULP * 2 * eps * size + 1e-300).all(), (got, wanted)
    elif wanted.dtype.kind == "f" and name in ROUNDED:
        info = np.finfo(wanted.dtype)
        np.testing.assert_allclose(
            got, wanted, rtol=ULP * info.eps, atol=ULP * float(info.smallest_subnormal), equal_nan=True
        )
    else:
        np.testing.assert_array_equal(got, wanted)
        if wanted.dtype.kind == "f" and name not in (
            "maximum",
            "minimum",
            "clip",
        ):  # these may give either zero
            known = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])


def allowed(name: str, *dtypes: str) -> bool:
    """Whether the standard has the function for these dtypes."""
    return (
        theirs(lambda: getattr(xp, name)(*(xp.ones((1,), dtype=getattr(xp, d)) for d in dtypes))) is not None
    )


# Elementwise ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=EXAMPLES, deadline=None)
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
@settings(max_examples=EXAMPLES, deadline=None)
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
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
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


@settings(max_examples=2 * EXAMPLES, deadline=None)
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


@settings(max_examples=2 * EXAMPLES, deadline=None)
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
@settings(max_examples=2 * EXAMPLES, deadline=None)
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


# Products ---------------------------------------------------------------------------------------------------


@settings(max_examples=4 * EXAMPLES, deadline=None)
@given(data=st.data())
def test_products_of_matrices_and_vectors(data, folder):
    """Both dtypes BLAS has; an operand in memory of another dtype is promoted as NumPy does."""
    m, k, n = (data.draw(st.integers(0, 6)) for _ in range(3))
    left, right = data.draw(st.booleans()), data.draw(st.booleans())
    shapes = ((k,) if left else (m, k)), ((k,) if right else (k, n))
    wide = data.draw(st.sampled_from(["float32", "float64", "complex64", "complex128"]))
    other = data.draw(st.sampled_from([d for d in DTYPES[5:] if np.result_type(d, wide) == np.dtype(wide)]))
    a = values(data.draw(SEEDS), shapes[0], wide, tame=True)
    b = values(data.draw(SEEDS), shapes[1], other, tame=True)
    A, B = ours(a, data.draw(PLACES), folder), b
    if other == wide and data.draw(st.booleans()):
        B = ours(b, data.draw(PLACES), folder)
    wanted = a.astype(wide) @ b.astype(wide)
    got = fl.matmul(A, B) if data.draw(st.booleans()) else A @ B
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype == np.dtype(wide)
    size = np.abs(a) @ np.abs(b).astype("float64")
    eps = np.finfo(wide).eps
    assert (np.abs(np.asarray(got) - wanted) <= 4 * (k + 1) * eps * size).all()
    if other == wide and (strict := theirs(lambda: xp.asarray(a) @ xp.asarray(b))) is not None:
        assert (strict.shape, strict.dtype) == (got.shape, got.dtype)
    turned = (B if isinstance(B, np.ndarray) else b).T @ A.T  # ndarray's operator gives it to ours
    np.testing.assert_allclose(np.asarray(turned), wanted.T, rtol=1e-3 if eps > 1e-10 else 1e-9, atol=1e-3)


def test_what_products_do_not_take_is_refused_in_a_sentence(folder):
    ints = ours(np.ones((2, 2), "int32"), "zarr", folder)
    small = ours(np.ones((2, 2), "float32"), "zarr", folder)
    for call, message in [
        (lambda: ints @ ints, "int32; float32, float64, complex64 or complex128 is needed"),
        (lambda: ints @ np.ones(2), "int32; float32"),
        (lambda: small @ np.ones(2), "float32 and B is float64; one dtype is needed"),
        (lambda: small @ np.ones(3, "float32"), r"A's columns must equal B's rows"),
        (
            lambda: fl.matmul(small, np.ones(2, "f4"), out=np.ones((2, 1), "f4")),
            "out is 2 x 1 and the product",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    into = np.zeros(2, "f4")
    assert fl.matmul(small, np.ones(2, "f4"), out=into) is into
    np.testing.assert_array_equal(into, [2, 2])
    assert fl.matmul.plan(small, np.ones(2, "f4")).flops == 8


# Conversions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["memory", "zarr", "npy"])
def test_what_has_no_dimensions_is_a_number(where, folder):
    for convert in (float, int, complex, bool, operator.index):
        for value in (np.array(3), np.array(0), np.array(2.5), np.array(True)):
            X = ours(value, where, folder)
            try:
                wanted = convert(xp.asarray(value))
            except TypeError:
                with pytest.raises(TypeError):
                    convert(X)
                continue
            assert convert(X) == convert(X + np.zeros((), value.dtype)) == wanted
    for shape in ((1,), (2, 3), (0,)):
        X = ours(np.ones(shape), where, folder)
        for convert in (float, int, complex, operator.index):
            with pytest.raises(TypeError, match="not one number"):
                convert(X)
        with pytest.raises(TypeError, match="the truth of an Array"):
            bool(X)


def test_a_mask_is_never_dropped(folder):
    masked = np.ma.masked_array(np.ones((2, 2)), [[True, False], [False, False]])
    X = ours(np.ones((2, 2)), "memory", folder)
    A = fl.from_blocks([np.ones((2, 2))])

    def assign():
        X[...] = masked

    for call in (lambda: X + masked, lambda: masked + X, lambda: fl.maximum(masked, X),
                 lambda: np.add(X, masked),
                 lambda: X @ masked, lambda: X @ masked[0], lambda: fl.matmul(masked, X), lambda: A @ masked,
                 lambda: A * masked, assign, lambda: fl.from_numpy(masked), lambda: fl.pca(masked, 1),
                 lambda: fl.compute(X * 2 + masked), lambda: fl.transpose(masked)):  # fmt: skip
        with pytest.raises(TypeError, match="mask"):
            call()


def test_squares_of_bool_have_numpys_dtype(folder):
    X = ours(np.array([True, False]), "memory", folder)
    for exponent in (1, 2, 3):
        assert (X**exponent).dtype == (np.array([True, False]) ** exponent).dtype
        np.testing.assert_array_equal(np.asarray(X**exponent), [1, 0])
    assert np.power(X, 2).dtype == np.power(np.array([True]), 2).dtype


# Indexing -------------------------------------------------------------------------------------------------


@settings(max_examples=4 * EXAMPLES, deadline=None)
@given(data=st.data())
def test_parts_are_read_and_assigned(data, folder):
    dtype, shape = data.draw(st.sampled_from(DTYPES)), data.draw(SHAPES)
    x = values(data.draw(SEEDS), shape, dtype)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=False))
    X = ours(x.copy(), data.draw(PLACES), folder)
    full = key if isinstance(key, tuple) else (key,)
    if Ellipsis not in full and len(full) < x.ndim:
        full = (*full, ...)  # the standard asks for every dimension
    wanted = theirs(lambda: xp.asarray(x)[full])
    got = np.asarray(X[key])
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.asarray(fl.positive(X)[key]) if dtype != "bool" else got, wanted)
    new = values(data.draw(SEEDS), wanted.shape, dtype)
    y = xp.asarray(x.copy())
    y[full] = xp.asarray(new)
    X[key] = new
    np.testing.assert_array_equal(X[...], y._array)


def test_the_exclusions_are_shown_in_the_documentation():
    page = (FILE.parent.parent / "docs" / "elementwise.md").read_text()
    assert re.search(r"array_api_exclusions\.txt", page)
