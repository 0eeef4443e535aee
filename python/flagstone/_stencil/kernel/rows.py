"""Kernels that are functions of rows: what cannot be traced, compiled by Numba and called by the workers."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from ... import _core
from ..given.arguments import number, shown, whole_number

__all__ = ["RowKernel", "row_kernel", "set_rows"]

_DTYPES = "fciu"  # what fields hold, by kind
_MOST_COEFFICIENTS = 64


class RowKernel:
    """A loop over one row of a step, as `row_kernel` compiles it: a kernel of `stencil`.

    Attributes
    ----------
    radius : tuple of int
        How far a step reaches, for each axis.
    dtype : numpy.dtype
        Of the field.
    order, coefficients : int
        Of time; arrays that the function takes after the field.
    flops : float
        Operations of a point, as plans count them.
    """

    __module__ = "flagstone"

    def __init__(
        self, function: Callable[..., None], radius: tuple[int, ...], dtype: np.dtype[Any], order: int,
        coefficients: int, flops: float,
    ) -> None:  # fmt: skip
        self.radius, self.dtype, self.order = radius, dtype, order
        self.coefficients, self.flops = coefficients, flops
        self.name = getattr(function, "__name__", "a function")
        self._rows: list[tuple[str, list[int], int]] = []
        self._code = _code(getattr(function, "py_func", function))
        self._compiled = _compiled(function, self._wrapper(), dtype)

    def __repr__(self) -> str:
        order = ", order=2" if self.order == 2 else ""
        return f"<RowKernel {self.name}: radius {self.radius}, {self.dtype}{order}>"

    def _wrapper(self) -> str:
        """Return ``row(n, to, rows)``, which makes arrays of addresses; notes what each row is."""
        reach = self.radius[-1]

        def nested(offset: list[int]) -> str:
            if len(offset) == len(self.radius) - 1:
                self._rows.append(("neighbour", [*offset, -reach], 0))
                return f"carray(rows[{len(self._rows) - 1}], n + {2 * reach})"
            r = self.radius[len(offset)]
            return "(" + "".join(nested([*offset, o]) + ", " for o in range(-r, r + 1)) + ")"

        arguments = ["carray(to, n)", nested([])]
        others = [("before", 0)] * (self.order == 2) + [("coefficient", i) for i in range(self.coefficients)]
        for kind, which in others:
            self._rows.append((kind, [0] * len(self.radius), which))
            arguments.append(f"carray(rows[{len(self._rows) - 1}], n)")
        return f"def row(n, to, rows):\n    function({', '.join(arguments)})\n"


def row_kernel(
    function: Callable[..., None], radius: Sequence[int], *, dtype: Any = "float64", order: int = 1,
    coefficients: int = 0, flops: float | None = None,
) -> RowKernel:  # fmt: skip
    """Return a function of rows, compiled by Numba, as a kernel of `stencil`.

    For what a function of neighbours cannot say: branches, loops that end early, tables, functions of
    Numba's. Workers call it without the interpreter's lock.

    Parameters
    ----------
    function : callable
        ``function(to, u, [before], [coefficients...])``, in what Numba's ``njit`` compiles (an ``njit``
        function is taken as it is). It writes ``to[i]`` for each of the n points of a row. ``u`` holds the
        rows around them, a tuple a dimension: ``u[rz + dz][ry + dy][rx + dx + i]`` is a neighbour of point i
        in three dimensions, ``u[ry + dy][rx + dx + i]`` in two, ``u[rx + dx + i]`` in one, where (rz, ry,
        rx) is the radius. ``before`` (time order 2 only) and coefficients are n values of the points
        themselves. ``to`` may be the row of ``before``: ``before[i]`` is read before ``to[i]`` is written.
    radius : sequence of int
        How far a step reaches, for each axis of the field.
    dtype : dtype
        Of the field and the coefficients.
    order : {1, 2}
        Of time.
    coefficients : int
        Arrays that `function` takes after the field.
    flops : float, optional
        Operations of a point, for plans. Default: two for each neighbour within the radius.

    Returns
    -------
    RowKernel

    Raises
    ------
    ImportError
        Numba is not installed.
    TypeError
        Numba cannot compile `function` for such rows.
    ValueError
        Another radius, order or dtype than fields have.

    Notes
    -----
    It is compiled here and at once, in some 100 MiB that the process keeps: what a later call holds counts
    from there. Rows come in pieces and in any order; the function must not raise: nobody hears it.

    Examples
    --------
    >>> import flagstone as fl, numpy as np
    >>> def relax(to, u):
    ...     for i in range(len(to)):
    ...         steep = u[1][i + 2] - u[1][i]
    ...         to[i] = u[1][i + 1] if abs(steep) < 0.5 else (u[0][i + 1] + u[2][i + 1]) / 2
    >>> kernel = fl.row_kernel(relax, (1, 1))
    >>> fl.stencil(kernel, np.eye(4), 3, out=np.empty((4, 4))).steps
    3
    """
    who = "row_kernel"
    if not callable(function):
        raise TypeError(f"{who}: the kernel is {shown(function)}; a function of rows is needed.")
    if isinstance(radius, str) or not isinstance(radius, Sequence) or not 1 <= len(radius) <= 3:
        raise ValueError(
            f"{who}: radius is {shown(radius)}; one whole number for each of 1 to 3 axes is needed."
        )
    reach = tuple(whole_number(who, "radius", one, 0, 64) for one in radius)
    if not any(reach):
        raise ValueError(
            f"{who}: the radius is 0 along every axis; a step that looks at no neighbour is a map."
        )
    kind = np.dtype(dtype)
    if kind.kind not in _DTYPES:
        raise ValueError(f"{who}: dtype is {kind}; numbers are needed.")
    order = whole_number(who, "order", order, 1, 2)
    coefficients = whole_number(who, "coefficients", coefficients, 0, _MOST_COEFFICIENTS)
    counted = 2.0 * math.prod(2 * r + 1 for r in reach)
    return RowKernel(
        function, reach, kind, order, coefficients, counted if flops is None else number(who, "flops", flops)
    )


def set_rows(
    core: _core.Stencil, kernel: RowKernel, who: str, ndim: int, dtype: np.dtype[Any], order: int,
    coefficients: int,
) -> str:  # fmt: skip
    """Make a function of rows the kernel of a loop; return a text that tells it from others."""
    asked = (len(kernel.radius), kernel.dtype, kernel.order, kernel.coefficients)
    given = (ndim, dtype, order, coefficients)
    if asked != given:
        told = "{} axes, {}, time order {} and {} coefficients"
        raise ValueError(
            f"{who}: the kernel is for {told.format(*asked)}; the state has {told.format(*given)}. Make it "
            "with row_kernel for these."
        )
    core.row_function(kernel._compiled.address, kernel._rows, list(kernel.radius), kernel.flops)
    return f"rows {kernel.radius} {order} {coefficients} {kernel._code}"


def _compiled(function: Callable[..., None], wrapper: str, dtype: np.dtype[Any]) -> Any:
    """Return the wrapper of a function as a C function of Numba's."""
    try:
        import numba
    except ImportError:
        raise ImportError(
            "row_kernel: Numba, which compiles functions of rows, is not installed; pip install numba, or "
            "give stencil a function of neighbours."
        ) from None
    element = numba.from_dtype(dtype)
    pointer: Any = numba.types.CPointer
    signature = numba.void(numba.int64, pointer(element), pointer(pointer(element)))
    inner = function if hasattr(function, "py_func") else numba.njit(error_model="numpy")(function)
    names: dict[str, Any] = {"function": inner}
    exec(f"from numba import carray\n{wrapper}", names)
    try:
        return numba.cfunc(signature, error_model="numpy")(names["row"])
    except numba.core.errors.NumbaError as error:
        said = str(error).strip().splitlines()
        raise TypeError(
            f"row_kernel: Numba cannot compile the function for rows of {dtype}: {said[0]}"
        ) from error


def _code(function: Any) -> str:
    """Return a digest of a function's code, its constants and what it closes over."""
    digest = hashlib.sha256()

    def add(code: CodeType) -> None:
        digest.update(code.co_code)
        digest.update(repr(code.co_names).encode())
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                add(constant)
            else:
                digest.update(repr(constant).encode())

    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    add(code)
    closed = inspect.getclosurevars(function)
    for name, value in sorted({**closed.globals, **closed.nonlocals}.items()):
        value = getattr(value, "py_func", value)
        if isinstance(value, np.ndarray):
            digest.update(name.encode() + value.tobytes())
        elif hasattr(value, "__code__"):
            digest.update(f"{name} {'itself' if value is function else _code(value)}".encode())
        else:
            digest.update(f"{name} {value!r}".encode())
    return digest.hexdigest()
