"""Kernels that are functions of rows: what cannot be traced, compiled by Numba and called by the workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _core
from ..given.arguments import number, shown, whole_number
from ..given.operands import StepField, field_names
from .loops import Row
from .row_code import c_function, digest_of

__all__ = ["RowKernel", "row_kernel", "set_row_stage", "set_rows"]

_DTYPES = "fciu"  # what fields hold, by kind
_MOST_COEFFICIENTS = 64


@dataclass(frozen=True)
class Rows:
    """What a function takes: rows of which fields, how far around a point, and what else."""

    radius: tuple[int, ...]
    dtype: np.dtype[Any]
    order: int
    coefficients: int
    fields: tuple[str, ...]  # (): of one field, which has no name
    replaces: tuple[str, ...]

    def wrapper(self) -> tuple[str, list[Row]]:
        """Return the text of ``row(n, to, rows)``, which makes arrays of addresses; and what each row is."""
        reach, rows = self.radius[-1], list[Row]()

        def listed(kind: str, offset: list[int], which: int, wider: int = 0) -> str:
            rows.append((kind, offset, which))
            return f"carray(rows[{len(rows) - 1}], n + {wider})"

        def around(field: int, *offset: int) -> str:
            if len(offset) == len(self.radius) - 1:
                return listed("neighbour", [*offset, -reach], field, 2 * reach)
            r = self.radius[len(offset)]
            return "(" + "".join(around(field, *offset, o) + ", " for o in range(-r, r + 1)) + ")"

        point = [0] * len(self.radius)
        arguments = [f"carray(to[{m}], n)" for m in range(len(self.replaces) or 1)]
        arguments += [around(field) for field in range(len(self.fields) or 1)]
        if self.order == 2:
            arguments.append(listed("before", point, 0))
        arguments += [listed("coefficient", point, i) for i in range(self.coefficients)]
        return f"def row(n, to, rows):\n    function({', '.join(arguments)})\n", rows


class RowKernel:
    """A loop over one row of a step, as `row_kernel` compiles it: a kernel or a stage of `stencil`.

    Attributes
    ----------
    radius : tuple of int
        How far a step reaches, for each axis.
    dtype : numpy.dtype
        Of the field.
    order, coefficients : int
        Of time; arrays that the function takes after the field.
    fields, replaces : tuple of str
        Names of the fields whose rows it takes, and of those whose rows it makes; empty: one field.
    flops : float
        Operations of a point, as plans count them.
    """

    __module__ = "flagstone"

    def __init__(self, function: Callable[..., None], rows: Rows, flops: float) -> None:
        self.radius, self.dtype, self.order = rows.radius, rows.dtype, rows.order
        self.coefficients, self.fields, self.replaces = rows.coefficients, rows.fields, rows.replaces
        self.flops = flops
        self.name = getattr(function, "__name__", "a function")
        wrapper, self._rows = rows.wrapper()
        self._digest = digest_of(getattr(function, "py_func", function))
        self._compiled = c_function(function, wrapper, rows.dtype)

    def __repr__(self) -> str:
        order = ", order=2" if self.order == 2 else ""
        fields = f", fields {', '.join(self.fields)}" if self.fields else ""
        return f"<RowKernel {self.name}: radius {self.radius}, {self.dtype}{order}{fields}>"

    @property
    def _told(self) -> str:
        fields = f" {self.fields} {self.replaces}" if self.fields else ""
        return f"rows {self.radius} {self.order} {self.coefficients}{fields} {self._digest}"


def row_kernel(
    function: Callable[..., None], radius: Sequence[int], *, dtype: Any = "float64", order: int = 1,
    coefficients: int = 0, fields: Sequence[str] = (), replaces: Sequence[str] | None = None,
    flops: float | None = None,
) -> RowKernel:  # fmt: skip
    """Return a function of rows, compiled by Numba, as a kernel of `stencil`, or as a stage of one.

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
        Of several fields: ``function(to..., u..., [coefficients...])``, a row for each field that it
        replaces, then the rows around the points in each field that it looks at.
    radius : sequence of int
        How far a step reaches, for each axis of the field.
    dtype : dtype
        Of the fields and the coefficients.
    order : {1, 2}
        Of time; 1 where there are fields.
    coefficients : int
        Arrays that `function` takes after the field; a stage takes the first ones that there are.
    fields : sequence of str, optional
        Names of the fields that `function` looks at, in the order in which it takes them. Default: one
        field, which has no name.
    replaces : sequence of str, optional
        Names of the fields whose rows it makes, likewise. Default: `fields`.
    flops : float, optional
        Operations of a point, for plans. Default: two for each neighbour within the radius, of each field.

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
        Another radius, order, dtype or names than fields have.

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

    Two fields, of which each point of one looks at the other's:

    >>> def settle(to_u, to_v, u, v):
    ...     for i in range(len(to_u)):
    ...         to_u[i] = min(u[1][i + 1], v[0][i + 1])
    ...         to_v[i] = max(v[1][i + 1], u[1][i])
    >>> kernel = fl.row_kernel(settle, (1, 1), fields=("u", "v"))
    >>> sorted(fl.stencil(kernel, {"u": np.eye(4), "v": np.ones((4, 4))}, 3).state)
    ['u', 'v']
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
    read = field_names(who, "fields", fields)
    made = read if replaces is None else field_names(who, "replaces", replaces)
    if bool(read) != bool(made):
        raise ValueError(
            f"{who}: replaces is {shown(replaces)} and fields {shown(fields)}; names of fields that the "
            "function looks at, and of one that it makes at least, are needed (neither: one field)."
        )
    if read and order == 2:
        raise ValueError(
            f"{who}: order is 2, which several fields have not; give what was before as a field."
        )
    counted = 2.0 * math.prod(2 * r + 1 for r in reach) * (len(read) or 1)
    rows = Rows(reach, kind, order, coefficients, read, made)
    return RowKernel(function, rows, counted if flops is None else number(who, "flops", flops))


def set_rows(core: _core.Stencil, kernel: RowKernel, of: StepField) -> str:
    """Make a function of rows the kernel of a loop; return a text that tells it from others."""
    if kernel.fields:
        raise ValueError(
            f"{of.who}: the kernel is of the fields {', '.join(kernel.fields)} and the state is no dict of "
            "fields; give one, or make the kernel without fields=."
        )
    asked = (len(kernel.radius), kernel.dtype, kernel.order, kernel.coefficients)
    given = (of.ndim, of.dtype, of.order, of.coefficients)
    if asked != given:
        told = "{} axes, {}, time order {} and {} coefficients"
        raise ValueError(
            f"{of.who}: the kernel is for {told.format(*asked)}; the state has {told.format(*given)}. "
            "Make it with row_kernel for these."
        )
    core.row_function(kernel._compiled.address, kernel._rows, list(kernel.radius), kernel.flops)
    return kernel._told


def set_row_stage(core: _core.Stencil, kernel: RowKernel, of: StepField) -> tuple[str, list[int]]:
    """Make a function of rows the next stage; return a text that tells it apart, and what it replaces."""
    if not kernel.fields or not {*kernel.fields, *kernel.replaces} <= set(of.names):
        names = dict.fromkeys([*kernel.fields, *kernel.replaces])
        asked = f"the fields {', '.join(names)}" if names else "one field"
        raise ValueError(
            f"{of.who}: the kernel is of {asked} and the state has {', '.join(of.names)}; make it with "
            "row_kernel, fields= being names of these."
        )
    asked_too, given = (len(kernel.radius), kernel.dtype), (of.ndim, of.dtype)
    if asked_too != given or kernel.coefficients > of.coefficients:
        told = "{} axes, {} and {} coefficients"
        raise ValueError(
            f"{of.who}: the kernel is for {told.format(*asked_too, kernel.coefficients)}; the state has "
            f"{told.format(*given, of.coefficients)}. Make it with row_kernel for these."
        )
    number_of = [of.names.index(name) for name in kernel.fields]
    rows = [(kind, at, number_of[k] if kind == "neighbour" else k) for kind, at, k in kernel._rows]
    replaced = [of.names.index(name) for name in kernel.replaces]
    core.row_stage(kernel._compiled.address, rows, replaced, list(kernel.radius), kernel.flops)
    return kernel._told, replaced
