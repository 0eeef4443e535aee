"""Element-wise functions and reductions by name, and NumPy's own functions when they meet an Array."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._array.dispatch import dispatch
from .._array.elementwise import one_ddof
from .._array.requests import shape_text
from .._errors.classes import ShapeError
from . import expression
from .expression import Expression, as_expression, cast, from_ufunc, part
from .names import NAMES
from .nan_functions import average, nan_to_num, nanmax, nanmean, nanmin, nanstd, nansum, nanvar, ptp
from .norms import matrix_norm, norm, vector_norm
from .reductions import Reduced, axes_of

__all__ = NAMES

_TYPED = ("sum", "prod", "mean", "var", "std")
_DDOF = {"ddof"}
_NO_VALUE = getattr(np, "_NoValue", None)  # what NumPy passes for `initial` where nothing was given
_REDUCTIONS = ("sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "any", "all")


def where(condition: Any, x: Any, y: Any, /) -> Expression:
    """Return, lazily, `x` where `condition` is true and `y` elsewhere; NumPy's rules of dtype and shape."""
    return expression.where(condition, x, y)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Expression:
    """Return, lazily, every element of `x` held between `min` and `max` (either may be None)."""
    given = as_expression(x, "clip")
    if min is not None:
        given = from_ufunc(np.maximum, (given, min))
    if max is not None:
        given = from_ufunc(np.minimum, (given, max))
    return given


def real(x: Any, /) -> Expression:
    """Return, lazily, the real part."""
    return part(x, "real")


def imag(x: Any, /) -> Expression:
    """Return, lazily, the imaginary part."""
    return part(x, "imag")


def round(x: Any, /, decimals: int = 0) -> Expression:
    """Return, lazily, every element rounded to `decimals` (ties to even), as NumPy scales and rounds."""
    given = as_expression(x, "round")
    if given.dtype.kind in "biu" and decimals >= 0:
        return given
    if decimals == 0:
        return from_ufunc(np.rint, (given,))
    if given.dtype.kind in "biu":
        raise TypeError("round: integers are rounded to decimals >= 0 only; convert with astype first.")
    factor = float(10 ** builtins.abs(decimals))
    scale, back = (np.multiply, np.true_divide) if decimals > 0 else (np.true_divide, np.multiply)
    return from_ufunc(back, (from_ufunc(np.rint, (from_ufunc(scale, (given, factor)),)), factor))


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Reduced:
    """Return the number of elements that are not zero (NaN is not) along `axis`, pending until needed."""
    given = as_expression(x, "count_nonzero")
    return _reductions["sum"](cast(given, np.dtype(bool)), axis, keepdims=keepdims)


def _ufunc(name: str, numpy_name: str | None = None) -> Callable[..., Expression]:
    ufunc = getattr(np, numpy_name or name)

    def function(*operands: Any) -> Expression:
        return from_ufunc(ufunc, operands)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return, lazily, NumPy's ``{name}`` of every element; see `flagstone.compute`."
    return function


def _reduction(name: str) -> Callable[..., Reduced]:
    takes = (
        {"keepdims"} | ({"dtype"} if name in _TYPED else set()) | (_DDOF if name in ("var", "std") else set())
    )

    def function(x: Any, /, axis: Any = None, **options: Any) -> Reduced:
        if name in ("var", "std") and "correction" in options:  # the array API's word, and NumPy 2's
            options["ddof"] = one_ddof(name, options.get("ddof"), options.pop("correction"))
        unknown = sorted(set(options) - takes)
        if unknown:
            raise TypeError(
                f"{name}: {', '.join(unknown)} is not possible here; leave it out ({name} takes axis, "
                f"{', '.join(sorted(takes))})."
            )
        method: Reduced = dispatch().reduce(x, name, axis, options.pop("keepdims", False), **options)
        return method

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Return NumPy's ``{name}`` along `axis` (int, tuple, None; keepdims), pending until needed.\n\n"
        "    One pass; ``fl.compute(...)`` takes several of one array in the same pass."
    )
    return function


abs = _ufunc("abs")
add = _ufunc("add")
arccos = _ufunc("arccos")
arccosh = _ufunc("arccosh")
arcsin = _ufunc("arcsin")
arcsinh = _ufunc("arcsinh")
arctan = _ufunc("arctan")
arctan2 = _ufunc("arctan2")
arctanh = _ufunc("arctanh")
bitwise_and = _ufunc("bitwise_and")
bitwise_or = _ufunc("bitwise_or")
bitwise_xor = _ufunc("bitwise_xor")
cbrt = _ufunc("cbrt")
ceil = _ufunc("ceil")
conj = _ufunc("conj")
copysign = _ufunc("copysign")
cos = _ufunc("cos")
cosh = _ufunc("cosh")
divide = _ufunc("divide")
equal = _ufunc("equal")
exp = _ufunc("exp")
exp2 = _ufunc("exp2")
expm1 = _ufunc("expm1")
floor = _ufunc("floor")
floor_divide = _ufunc("floor_divide")
fmax = _ufunc("fmax")
fmin = _ufunc("fmin")
fmod = _ufunc("fmod")
greater = _ufunc("greater")
greater_equal = _ufunc("greater_equal")
hypot = _ufunc("hypot")
isfinite = _ufunc("isfinite")
isinf = _ufunc("isinf")
isnan = _ufunc("isnan")
less = _ufunc("less")
less_equal = _ufunc("less_equal")
log = _ufunc("log")
log10 = _ufunc("log10")
log1p = _ufunc("log1p")
log2 = _ufunc("log2")
logical_and = _ufunc("logical_and")
logical_not = _ufunc("logical_not")
logical_or = _ufunc("logical_or")
logical_xor = _ufunc("logical_xor")
maximum = _ufunc("maximum")
minimum = _ufunc("minimum")
multiply = _ufunc("multiply")
negative = _ufunc("negative")
not_equal = _ufunc("not_equal")
positive = _ufunc("positive")
power = _ufunc("power")
reciprocal = _ufunc("reciprocal")
remainder = _ufunc("remainder")
sign = _ufunc("sign")
signbit = _ufunc("signbit")
sin = _ufunc("sin")
sinh = _ufunc("sinh")
sqrt = _ufunc("sqrt")
square = _ufunc("square")
subtract = _ufunc("subtract")
tan = _ufunc("tan")
tanh = _ufunc("tanh")
trunc = _ufunc("trunc")
bitwise_invert = _ufunc("bitwise_invert", "invert")
bitwise_left_shift = _ufunc("bitwise_left_shift", "left_shift")
bitwise_right_shift = _ufunc("bitwise_right_shift", "right_shift")
# The names of the array-API standard.
acos = arccos
acosh = arccosh
asin = arcsin
asinh = arcsinh
atan = arctan
atan2 = arctan2
atanh = arctanh
pow = power

_reductions = {name: _reduction(name) for name in _REDUCTIONS}
sum = _reductions["sum"]
prod = _reductions["prod"]
mean = _reductions["mean"]
var = _reductions["var"]
std = _reductions["std"]
min = _reductions["min"]
max = _reductions["max"]
argmin = _reductions["argmin"]
argmax = _reductions["argmax"]
any = _reductions["any"]
all = _reductions["all"]


# NumPy's functions ----------------------------------------------------------------------------------------

_UFUNC_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "minimum": "min", "maximum": "max", "logical_and": "all",
    "logical_or": "any",
}  # fmt: skip


def _size(a: Any, axis: Any = None) -> int:
    """Return what np.size does: the number of elements, or the extent of an axis."""
    axes = range(a.ndim) if axis is None else axes_of("size", axis, a.ndim)
    return math.prod(a.shape[d] for d in axes)


def _dot(a: Any, b: Any) -> Any:
    """Return what np.dot does of numbers, vectors, matrices, and a stack with a matrix or a vector."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return from_ufunc(np.multiply, (a, b))
    if np.ndim(a) > 1 and np.ndim(b) > 2:
        raise ShapeError(
            f"dot: b is a stack of {shape_text(np.shape(b)[:-2])} matrices, and every row of a would meet "
            "each of them; flagstone.matmul multiplies stacks matrix by matrix."
        )
    return dispatch().matmul(a, b)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    # What libraries ask first; it loads nothing.
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": _size,
    "iscomplexobj": lambda x: x.dtype.kind == "c",
    "isrealobj": lambda x: x.dtype.kind != "c",
    "where": where,
    "real": real,
    "imag": imag,
    "round": round,
    "around": round,
    "amin": _reductions["min"],
    "amax": _reductions["max"],
    "count_nonzero": count_nonzero,
    "dot": _dot,
    "transpose": lambda a, axes=None: a.transpose(axes),
    "nansum": nansum,
    "nanmean": nanmean,
    "nanvar": nanvar,
    "nanstd": nanstd,
    "nanmin": nanmin,
    "nanmax": nanmax,
    "nan_to_num": nan_to_num,
    "ptp": ptp,
    "average": average,
    "norm": norm,
    "matrix_norm": lambda x, *, keepdims=False, ord="fro": matrix_norm(x, keepdims, ord),
    "vector_norm": lambda x, *, axis=None, keepdims=False, ord=2: vector_norm(x, axis, keepdims, ord),
    **_reductions,
}


def numpy_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the lazy form of a call of a ufunc, or of its method."""
    if ufunc is np.matmul and method == "__call__" and not options:
        return dispatch().matmul(*inputs)
    if method == "reduce" and ufunc.__name__ in _UFUNC_REDUCTIONS:
        given = dict(zip(("axis", "dtype", "out", "keepdims", "initial", "where"), inputs[1:], strict=False))
        given = {"axis": 0} | given | options
        if given.get("where") is True:
            del given["where"]
        kept = {k: v for k, v in given.items() if k == "axis" or (v is not None and v is not _NO_VALUE)}
        return _FUNCTIONS[_UFUNC_REDUCTIONS[ufunc.__name__]](inputs[0], **kept)
    if method != "__call__":
        raise TypeError(
            f"numpy.{ufunc.__name__}.{method}: not possible on a flagstone.Array; load a part first."
        )
    if options.get("out") is not None:
        raise TypeError(
            f"numpy.{ufunc.__name__}: out= is not possible here; use flagstone.compute(..., out=...)."
        )
    if options:
        raise TypeError(
            f"numpy.{ufunc.__name__}: {', '.join(sorted(options))} is not possible on a flagstone.Array; "
            "leave it out."
        )
    return from_ufunc(ufunc, inputs)


def numpy_function(self: Any, function: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any:
    """Return the lazy form of a call of a NumPy function; refuse what would load."""
    name = getattr(function, "__name__", str(function))
    if name == "clip":
        bounds = dict(zip(("min", "max"), args[1:], strict=False))
        for short, long in (("a_min", "min"), ("a_max", "max"), ("min", "min"), ("max", "max")):
            if options.get(short) is not None:
                bounds[long] = options[short]
        return clip(args[0], **bounds)
    if name in _FUNCTIONS and (name != "where" or len(args) == 3):
        kept = {k: v for k, v in options.items() if v is not None}
        first = args[0] if args else kept.pop("a") if "a" in kept else kept.pop("x")
        return _FUNCTIONS[name](first, *args[1:], **kept)
    if (placed := dispatch().placed(name)) is not None:
        kept = {k: v for k, v in options.items() if v is not None}
        for refused in {"out", "casting", "subok", "order"} & kept.keys():
            raise TypeError(
                f"numpy.{name}: {refused}= is not possible here, where nothing is moved; leave it out, and "
                "store the result with flagstone.compute(..., out=...) where that is wanted."
            )
        return placed(*args, **kept)
    size = getattr(self, "nbytes", 0)
    raise TypeError(
        f"numpy.{name}: NumPy functions do not load a flagstone.{type(self).__name__} of {size} bytes by "
        "accident; take a part (A[i:j]) or call np.asarray(A) first."
    )


def astype(given: Any, dtype: Any) -> Expression:
    """Return every element converted to a dtype."""
    kind = np.dtype(dtype)
    if kind.kind not in "biufc" or kind.char in "gG":
        raise TypeError(f"astype: {kind} cannot be stored; choose a number.")
    return cast(as_expression(given, "astype"), kind.newbyteorder("="))
