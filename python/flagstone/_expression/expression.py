"""Lazy element-wise expressions: what `A * 2 + np.exp(B)` is until somebody needs its elements.

An `Expression` is a node of a graph over arrays; `flagstone.compute` fuses it into one pass. dtypes follow
NumPy 2 (a Python number takes the dtype of what it meets), shapes broadcast as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.basic_index import BasicIndexer, Key
from .._array.dispatch import dispatch
from .._array.elementwise import Elementwise
from .._array.handle import is_conjugated
from .._array.mapped import in_place
from .._errors.classes import ShapeError
from .._html.table import html_table
from .._runtime.arguments import unmasked
from .program import ordered

__all__ = ["Expression", "as_expression", "cast", "constant", "from_ufunc"]

_BOOL = np.dtype(bool)


class Expression(Elementwise):
    """An array that is not computed yet: element-wise operations on arrays, fused when needed.

    Nothing is read or stored until ``fl.compute(expression, out=...)``, ``expression[i:j]`` or
    ``np.asarray(expression)`` asks for elements; then every operand is read once, whatever the number of
    operations.

    Attributes
    ----------
    shape, dtype
        Of the result, as NumPy 2 would give it.
    """

    __module__ = "flagstone"

    def __init__(
        self, verb: str, args: tuple[Expression, ...], dtype: Any, shape: tuple[int, ...], payload: Any = None
    ) -> None:
        self.verb = verb  #: "leaf", "constant", "cast", or an operation of the kernel
        self.args = args
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shape = shape
        self.payload = payload  #: of a leaf: Array or ndarray; of a constant: a 0-d ndarray
        self.made: Callable[[], Any] | None = None  #: the Array that it is as an operand, while that is used

    @property
    def T(self) -> Expression:
        """The transpose (all dimensions reversed); still lazy."""
        return _transposed(self)

    @property
    def real(self) -> Any:
        """The real part; still lazy."""
        return part(self, "real")

    @property
    def imag(self) -> Any:
        """The imaginary part; still lazy."""
        return part(self, "imag")

    def conj(self) -> Any:
        """Return the complex conjugate; still lazy."""
        return from_ufunc(np.conjugate, (self,))

    def __repr__(self) -> str:
        return (
            f"<flagstone.Expression {self.verb} {shape_text(self.shape)} {self.dtype.name}, "
            f"{_core.format_bytes(self.nbytes)} when computed>"
        )

    def _repr_html_(self) -> str:
        return html_table("Expression", {
            "shape": shape_text(self.shape), "dtype": self.dtype.name, "operation": self.verb,
            "bytes": f"{_core.format_bytes(self.nbytes)} when computed",
        })  # fmt: skip

    def __getitem__(self, key: Key) -> Any:
        """Compute a part and return it as an ndarray; reads that part of the operands."""
        return dispatch().part(self, BasicIndexer(key, self.shape), "getitem")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("asarray: a lazy expression has no elements to look at without computing them.")
        out: NDArray[Any] = np.asarray(dispatch().part(self, BasicIndexer(..., self.shape), "asarray"))
        return out if dtype is None else out.astype(dtype, copy=False)


def constant(value: Any, dtype: Any = None) -> Expression:
    """Return one value as an expression without dimensions."""
    given = np.asarray(value, dtype)
    return Expression("constant", (), given.dtype, (), given)


def as_expression(given: Any, who: str) -> Expression:
    """Return an operand as a node; a Python number must have been given its dtype before."""
    if isinstance(given, Expression):
        return given
    if isinstance(given, Array):
        if is_conjugated(given):
            plain = given.conj()
            leaf = Expression("leaf", (), given.dtype, given.shape, plain)
            return Expression("conjugate", (leaf,), given.dtype, given.shape)
        return Expression("leaf", (), given.dtype, given.shape, given)
    value = getattr(given, "_flagstone_value", None)
    if value is not None:  # a pending reduction: it is needed now
        given = value()
    if isinstance(given, (str, bytes)) or not isinstance(
        given, (np.ndarray, np.generic, list, tuple, int, float, complex)
    ):
        refusal = getattr(given, "_flagstone_refusal", None)  # of dates: they know what they have
        if refusal is not None:
            raise TypeError(f"{who}: {refusal}")
        raise TypeError(
            f"{who}: {type(given).__name__} was given; an Array, a NumPy array or a number is needed."
        )
    given = in_place(unmasked(who, given))
    if isinstance(given, Array):
        return Expression("leaf", (), given.dtype, given.shape, given)
    values = np.asarray(given)
    if values.dtype.kind not in "biufc" or values.dtype.itemsize > 16 or values.dtype.char in "gG":
        raise TypeError(f"{who}: dtype {values.dtype} is not possible here; convert it with astype first.")
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.ndim == 0:
        return constant(values)
    if any(s % values.itemsize for s in values.strides) or not values.flags.aligned:
        values = np.ascontiguousarray(values)
    return Expression("leaf", (), values.dtype, values.shape, values)


def cast(given: Expression, dtype: Any) -> Expression:
    """Return the node converted to `dtype` (itself where it is that already)."""
    wanted = np.dtype(dtype)
    if given.dtype == wanted:
        return given
    if given.verb == "constant":
        with np.errstate(all="ignore"):
            return constant(given.payload.astype(wanted))
    return Expression("cast", (given,), wanted, given.shape)


def broadcast(who: str, *operands: Expression) -> tuple[int, ...]:
    """Return the common shape, or say which shapes do not fit."""
    try:
        return tuple(np.broadcast_shapes(*(o.shape for o in operands)))
    except ValueError:
        shapes = " and ".join(shape_text(o.shape) for o in operands)
        raise ShapeError(
            f"{who}: shapes {shapes} do not broadcast; make them equal, or 1 where they differ."
        ) from None


def node(verb: str, *operands: Expression, dtype: Any = None) -> Expression:
    """Return the node of an operation whose operands have their loop's dtype already."""
    return Expression(
        verb, operands, operands[-1].dtype if dtype is None else dtype, broadcast(verb, *operands)
    )


# Python numbers take the dtype of what they meet (NEP 50) -------------------------------------------------


def _beyond(who: str, value: int, strong: np.dtype[Any]) -> Expression:
    """Return an integer that `strong` cannot hold, where NumPy does without holding it."""
    if who in _COMPARISONS or who in _SWAPPED:  # anything beyond the range compares alike
        return constant(math.copysign(math.inf, value))
    if who in _IN_FLOATS or who.startswith("logical_"):
        return constant(value, np.float64)
    raise OverflowError(f"Python integer {value} out of bounds for {strong.name}")


def _weak(who: str, value: complex, strong: np.dtype[Any]) -> Expression:
    if isinstance(value, int):
        if strong.kind == "b":
            return constant(value, np.int64)
        if strong.kind in "iu":
            info = np.iinfo(strong)
            if not info.min <= value <= info.max:
                return _beyond(who, value, strong)
        return constant(value, strong)
    if isinstance(value, float):
        return constant(value, strong if strong.kind in "fc" else np.float64)
    if strong.kind == "c":
        return constant(value, strong)
    return constant(value, np.complex64 if strong in (np.float16, np.float32) else np.complex128)


def operands_of(who: str, given: tuple[Any, ...]) -> list[Expression]:
    """Return the operands as nodes; Python numbers get the dtype of the others."""
    weak = [type(x) in (int, float, complex) for x in given]
    nodes = [None if w else as_expression(x, who) for x, w in zip(given, weak, strict=True)]
    dtypes = [n.dtype for n in nodes if n is not None]
    strong = np.result_type(*dtypes) if dtypes else _BOOL
    if not dtypes:
        return [as_expression(np.asarray(x), who) for x in given]
    return [_weak(who, x, strong) if n is None else n for x, n in zip(given, nodes, strict=True)]


# From NumPy's ufuncs to nodes -----------------------------------------------------------------------------

_SWAPPED = {"greater": "less", "greater_equal": "less_equal"}
_SAME_FOR_INTEGERS = {"floor", "ceil", "trunc"}
_VERBS = {
    "absolute", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "bitwise_and", "bitwise_or", "bitwise_xor", "cbrt", "ceil", "conjugate", "copysign", "cos", "cosh",
    "divide", "equal", "exp", "exp2", "expm1", "floor", "floor_divide", "fmax", "fmin", "fmod", "hypot",
    "invert", "isfinite", "isinf", "isnan", "left_shift", "less", "less_equal", "log", "log10", "log1p",
    "log2", "maximum", "minimum", "multiply", "negative", "not_equal", "power", "reciprocal",
    "remainder", "right_shift", "rint", "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract",
    "tan", "tanh", "trunc",
}  # fmt: skip
_ORDERED = {"fmax", "fmin", "less", "less_equal", "maximum", "minimum"}
_COMPARISONS = {"equal", "not_equal", "less", "less_equal"}
_IN_FLOATS = {"divide", "true_divide", "float_power", "hypot", "arctan2", "copysign"}


def from_ufunc(ufunc: np.ufunc, given: tuple[Any, ...]) -> Expression:
    """Return the lazy expression of a NumPy ufunc; TypeError for one that has no lazy form."""
    name = {"true_divide": "divide", "fabs": "absolute", "float_power": "power", "conj": "conjugate"}.get(
        ufunc.__name__, ufunc.__name__
    )
    asked = ufunc.__name__
    if len(given) != ufunc.nin:
        raise TypeError(f"{asked}: {len(given)} operands were given and {ufunc.nin} are needed.")
    if name == "power" and asked == "power" and type(given[1]) in (int, float):
        quick = _quick_power(given[0], given[1])
        if quick is not None:
            return quick
    operands = operands_of(asked, given)
    if name in _SWAPPED:
        name, operands, ufunc = _SWAPPED[name], operands[::-1], getattr(np, _SWAPPED[name])
    if name.startswith("logical_"):
        return _logical(name, operands)
    if name in ("degrees", "rad2deg", "radians", "deg2rad"):
        factor = 180 / np.pi if name in ("degrees", "rad2deg") else np.pi / 180
        return from_ufunc(np.multiply, (cast(operands[0], _loop(ufunc, operands)[0]), float(factor)))
    if name not in _VERBS and name != "positive":
        raise TypeError(
            f"{name}: there is no lazy form of this NumPy function; take a part (A[i:j]) or call "
            "np.asarray(A) first."
        )
    if name in _SAME_FOR_INTEGERS and operands[0].dtype.kind in "biu":
        return operands[0]
    loop = _loop(ufunc, operands)
    if name == "positive" or (name == "conjugate" and loop[0].kind != "c"):
        return cast(operands[0], loop[0])
    if loop[0].kind == "c" and name in _ORDERED:
        raise TypeError(f"{asked}: complex numbers have no order; compare real parts or absolute values.")
    if name in _COMPARISONS and loop[0] != loop[1]:
        return _compare_signs(name, operands)
    return _apply(name, [cast(o, d) for o, d in zip(operands, loop, strict=False)], loop[-1])


def _loop(ufunc: np.ufunc, operands: list[Expression]) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes of NumPy's own loop: of each operand, and of the result."""
    dtypes: tuple[np.dtype[Any], ...] = ufunc.resolve_dtypes((*(o.dtype for o in operands), None))
    return tuple(np.dtype(d.newbyteorder("=").name) for d in dtypes)


def _apply(name: str, operands: list[Expression], dtype: np.dtype[Any]) -> Expression:
    """Half precision is computed in float32 and rounded after every operation, as NumPy does."""
    if operands[0].dtype == np.float16:
        wide = node(name, *(cast(o, np.float32) for o in operands))
        if dtype == _BOOL:
            return Expression(name, wide.args, _BOOL, wide.shape)
        return cast(wide, np.float16)
    return node(name, *operands, dtype=dtype)


def _quick_power(base: Any, exponent: float) -> Expression | None:
    operand = as_expression(base, "power") if not isinstance(base, (int, float, complex)) else None
    if operand is None:
        return None
    if exponent == 2 and operand.dtype.kind != "b" and (operand.dtype.kind in "fc" or type(exponent) is int):
        return from_ufunc(np.square, (operand,))
    if operand.dtype.kind in "fc" and exponent == 0.5:
        return from_ufunc(np.sqrt, (operand,))
    if operand.dtype.kind in "fc" and exponent == -1:
        return from_ufunc(np.reciprocal, (operand,))
    return None


def _logical(name: str, operands: list[Expression]) -> Expression:
    truths = [cast(o, _BOOL) for o in operands]
    if name == "logical_not":
        return node("invert", truths[0])
    return node({"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}[name[8:]], *truths)


def _compare_signs(name: str, operands: list[Expression]) -> Expression:
    """int64 against uint64, exactly: a negative number is less than any of the other."""
    a, b = operands
    signed, unsigned = (a, b) if a.dtype.kind == "i" else (b, a)
    negative = node("less", cast(signed, np.int64), constant(0, np.int64), dtype=_BOOL)
    pair = [cast(o, np.uint64) for o in operands]
    plain = node(name, *pair, dtype=_BOOL)
    if name == "equal" or (name != "not_equal" and a is unsigned):
        return node("bitwise_and", node("invert", negative), plain)
    return node("bitwise_or", negative, plain)


def where(condition: Any, x: Any, y: Any) -> Expression:
    """Return, lazily, `x` where `condition` is true and `y` elsewhere."""
    which = cast(as_expression(condition, "where"), _BOOL)
    one, other = operands_of("where", (x, y))
    dtype = np.result_type(one.dtype, other.dtype)
    one, other = cast(one, dtype), cast(other, dtype)
    return Expression("select", (which, one, other), dtype, broadcast("where", which, one, other))


def part(given: Any, which: str) -> Expression:
    """Return the real or imaginary part."""
    z = as_expression(given, which)
    if z.dtype.kind == "c":
        return Expression(which, (z,), np.float32 if z.dtype == np.complex64 else np.float64, z.shape)
    return z if which == "real" else from_ufunc(np.multiply, (z, z.dtype.type(0)))


def _transposed(given: Expression) -> Expression:
    """Return the graph with every leaf transposed."""
    made: dict[int, Expression] = {}
    for item in ordered(given):
        if item.verb == "leaf":
            leaf = item.payload
            if item.ndim < given.ndim and not isinstance(leaf, np.ndarray):
                raise ShapeError(
                    "T: an Array of fewer dimensions is broadcast in this expression; transpose before "
                    "combining."
                )
            if isinstance(leaf, np.ndarray):
                leaf = leaf.reshape((1,) * (given.ndim - leaf.ndim) + leaf.shape)
            turned = leaf.T
            made[id(item)] = Expression("leaf", (), item.dtype, turned.shape, turned)
        elif item.verb == "constant":
            made[id(item)] = item
        else:
            args = tuple(made[id(a)] for a in item.args)
            made[id(item)] = Expression(item.verb, args, item.dtype, broadcast("T", *args), item.payload)
    return made[id(given)]
