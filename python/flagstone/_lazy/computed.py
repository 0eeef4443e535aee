"""Arrays of a function of places, or of two sets of points, computed where they are loaded."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Lazy, Operand, lazy_array
from .._errors.classes import Error, ShapeError
from .._resume.identity import identity
from .._resume.openers import operand, told_values
from .._resume.registers import opener
from .generated import extents, number_dtype
from .mapped import member
from .point_kernels import PointKernel, named_kernel

__all__ = ["from_function", "kernel_matrix"]

_BLOCK = 256  # points of a callable's blocks: Python's overhead is some percent of what it computes
_ELEMENTS = _BLOCK * _BLOCK


# Functions of index arrays ----------------------------------------------------------------------------------


class _Block:
    """Call a function of index arrays for one block, and fill the block."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, start: list[int], out: NDArray[Any]) -> None:
        ends = [slice(s, s + n) for s, n in zip(start, out.shape, strict=True)]
        _put(
            "from_function",
            "function",
            self.function(*np.ogrid[tuple(ends)]) if ends else self.function(),
            out,
        )


def _put(who: str, what: str, result: Any, out: NDArray[Any]) -> None:
    """Fill a block with what a function returned for it, or say what does not fit."""
    made = np.asarray(result)
    try:
        fits = np.broadcast_shapes(made.shape, out.shape) == out.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{who}: the {what} returned {shape_text(made.shape)} for a block of {shape_text(out.shape)}; "
            f"return "
            "an array of the block's shape, or one that broadcasts to it."
        )
    if not np.can_cast(made.dtype, out.dtype, "same_kind"):
        raise TypeError(
            f"{who}: the {what} returned {made.dtype} and the array is {out.dtype}; convert what it "
            f"returns, or "
            "name another dtype."
        )
    np.copyto(out, made, casting="same_kind")


def _block(shape: list[int], dtype: np.dtype[Any]) -> list[int]:
    """Return the extents of blocks: chunks, halved until they are short. Bits may follow from them."""
    block = [max(1, n) for n in _core.default_chunks(shape, dtype.name)]
    while int(np.prod(block, dtype=object)) > _ELEMENTS:
        longest = block.index(max(block))
        block[longest] = -(-block[longest] // 2)
    return block


def _key(who: str, key: Any) -> str | None:
    if key is not None and not isinstance(key, str):
        raise TypeError(f"{who}: key is {type(key).__name__}; a text is needed.")
    return key


def from_function(
    function: Callable[..., Any], shape: Any, dtype: Any = None, *, key: str | None = None
) -> Array:
    """Return a read-only Array of a function of indexes, which is called block by block where it is loaded.

    Parameters
    ----------
    function : callable
        Takes one integer index array for each dimension, as ``np.ogrid`` gives them: they broadcast to the
        block. Returns the block's values. Called on worker threads, with the interpreter's lock, again each
        time that a block is loaded: it must return the same values then.
    shape : int or tuple of int
    dtype : dtype, optional
        Default: float64.
    key : str, optional
        Names what the function computes, for records: a killed call that is made again with the same key goes
        on. Without one nobody can know that the function is the same, and such a call begins again.

    Returns
    -------
    Array
        An operand of every routine; never stored unless it is copied.

    Raises
    ------
    ShapeError
        The shape; while it is loaded: what the function returned does not fit its block.

    Notes
    -----
    Moves no bytes. Blocks lie on a fixed grid of at most 65,536 elements, so bits follow neither from tiles
    nor from limits; a single element computes its block. Six blocks of 8-byte elements are charged for what
    the function allocates.
    """
    if not callable(function):
        raise TypeError(f"from_function: function is {type(function).__name__}; a callable is needed.")
    kind, shape = number_dtype("from_function", dtype), extents("from_function", shape)
    return _of_function(function, shape, kind, _key("from_function", key))


def _of_function(
    function: Callable[..., Any], shape: list[int], kind: np.dtype[Any], key: str | None
) -> Array:
    core = _core.function_array(_Block(function), shape, kind.name, _block(shape, kind), [])
    told = [key or uuid.uuid4().hex, shape, kind.name]
    return lazy_array(core, Lazy("a function", (), "function", lambda: told, anonymous=key is None))


@opener("function")
def _function_again(key: str, *told: Any) -> Array:
    raise Error(
        f"resume: an operand is the function '{key}' of indexes; make the same call again, with the same "
        f"key= "
        "and out=."
    )


# Kernel matrices --------------------------------------------------------------------------------------------


class _Pair:
    """Call a kernel for a block of points by another, and fill the block."""

    def __init__(self, kernel: Callable[..., Any], symmetric: bool) -> None:
        self.kernel, self.symmetric = kernel, symmetric

    def __call__(self, start: list[int], x: NDArray[Any], y: NDArray[Any], out: NDArray[Any]) -> None:
        alone = self.symmetric and start[0] == start[1] and len(x) == len(y)
        _put("kernel_matrix", "kernel", self.kernel(x) if alone else self.kernel(x, y), out)


def kernel_matrix(
    X: Any, Y: Any = None, kernel: Any = "rbf", *, length_scale: Any = None, gamma: float | None = None,
    coef0: float | None = None, degree: float | None = None, dtype: Any = None, key: str | None = None,
) -> Array:  # fmt: skip
    """Return the read-only matrix of k(row of X, row of Y), computed where it is loaded and never stored.

    Parameters
    ----------
    X, Y : Array, Expression or ndarray
        Points, one a row, on disk or in memory; real numbers. Y: default X, and the matrix is symmetric to
        the bit.
    kernel : {"rbf", "matern12", "matern32", "matern52", "linear", "polynomial", "cosine"} or callable
        A callable takes two blocks of points and returns their matrix; a block on the diagonal of a symmetric
        matrix is asked as ``kernel(X_i)``, as scikit-learn's kernel objects need it. Only their upper and
        lower triangles are as symmetric as the callable.
    length_scale : float or sequence, optional
        Of rbf and Matérn kernels: a number, or one for each coordinate. Default: 1.
    gamma : float, optional
        rbf: exp(-gamma r²), in place of `length_scale`. polynomial: default 1 / coordinates.
    coef0, degree : float, optional
        polynomial: (gamma xᵀy + coef0)^degree; default 1 and 3.
    dtype : dtype, optional
        float32 or float64; default: that of the points where it is one of these, else float64.
    key : str, optional
        What a callable is, for records, as in `from_function`.

    Returns
    -------
    Array
        An operand of every routine; never stored unless it is copied.

    Raises
    ------
    ShapeError
        Points do not fit each other or the lengths.

    Notes
    -----
    A box of m x n elements loads m + n points. An element takes 3 d operations and an exponential (2 d beyond
    32 dimensions, where distances come from norms and products of centred points; linear, polynomial, cosine:
    2 d). Each is computed in float64 from its two points alone, rounded once; what is nearer to zero than the
    smallest normal number becomes zero. The diagonal of distances is exact, and so are doubles of a point.
    """
    x = _points("X", X)
    y = x if Y is None else _points("Y", Y)
    if x.shape[1] != y.shape[1]:
        raise ShapeError(
            f"kernel_matrix: X has {x.shape[1]} coordinates and Y {y.shape[1]}; points of both must have as "
            f"many."
        )
    given = np.result_type(x.dtype, y.dtype) if dtype is None else number_dtype("kernel_matrix", dtype)
    if given not in (np.float32, np.float64):
        if dtype is not None:
            raise TypeError(f"kernel_matrix: dtype is {given}; choose float32 or float64.")
        given = np.dtype(np.float64)
    options = {"length_scale": length_scale, "gamma": gamma, "coef0": coef0, "degree": degree}
    if callable(kernel):
        if named := [name for name, value in options.items() if value is not None]:
            raise TypeError(
                f"kernel_matrix: {named[0]} was given with a callable, which has its own parameters; leave "
                f"it out."
            )
        return _of_callable(kernel, x, None if Y is None else y, given, _key("kernel_matrix", key))
    if key is not None:
        raise TypeError("kernel_matrix: key is for kernels that are callables; leave it out.")
    known = named_kernel(kernel, x, **options)
    return _of_kernel(known, x, None if Y is None else y, given)


def _points(name: str, given: Any) -> Any:
    values = member("kernel_matrix", given)
    if values.ndim != 2 or values.dtype.kind not in "biuf" or values.dtype.char == "g":
        raise ShapeError(
            f"kernel_matrix: {name} is {shape_text(values.shape) or 'a number'} of {values.dtype}; a matrix "
            f"of "
            "real numbers is needed, one point a row."
        )
    if isinstance(values, np.ndarray) and not values.dtype.isnative:
        return values.astype(values.dtype.newbyteorder("="))
    return values


def _pair(x: Any, y: Any) -> list[tuple[_core.Array, bool]]:
    first = Operand.of(x)
    operands = [first] if y is None else [first, Operand.of(y)]
    return [(one.core, one.transposed) for one in operands]


def _of_kernel(kernel: PointKernel, x: Any, y: Any, dtype: np.dtype[Any]) -> Array:
    pair = _pair(x, y)
    core = _core.kernel_array(
        kernel.name, kernel.gamma, kernel.coef0, kernel.degree, kernel.length, kernel.centre, pair[0],
        pair[-1], dtype.name,
    )  # fmt: skip
    members = (x,) if y is None else (x, y)
    return lazy_array(
        core,
        Lazy(
            "a kernel matrix", members, "kernel_matrix",
            lambda: [kernel.told(), [_told(one) for one in members], dtype.name],
        ),
    )  # fmt: skip


def _of_callable(kernel: Any, x: Any, y: Any, dtype: np.dtype[Any], key: str | None) -> Array:
    pair = _pair(x, y)
    shape = [x.shape[0], x.shape[0] if y is None else y.shape[0]]
    core = _core.function_array(_Pair(kernel, y is None), shape, dtype.name, [_BLOCK, _BLOCK], pair)
    members = (x,) if y is None else (x, y)
    name = key or uuid.uuid4().hex
    return lazy_array(
        core,
        Lazy(
            "a kernel matrix", members, "function",
            lambda: [name, shape, dtype.name, *[_told(one) for one in members]], anonymous=key is None,
        ),
    )  # fmt: skip


def _told(given: Any) -> dict[str, Any]:
    return identity(given) if isinstance(given, Array) else told_values(given)


@opener("kernel_matrix")
def _again(told: dict[str, Any], members: list[Any], dtype: str) -> Array:
    points = [operand("points", one) for one in members]
    return _of_kernel(PointKernel(**told), points[0], points[1] if len(points) > 1 else None, np.dtype(dtype))
