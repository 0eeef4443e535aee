"""Running sums and products, and differences of neighbours: one read and one write."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._array.array import Array, from_memory, shape_text
from .._array.handle import Operand
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.compute import chunks_for, compute
from .._expression.expression import Expression, as_expression, cast
from .._expression.operand import as_array, lazy_operand
from .._output.place import Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .looks import Finished, Look

__all__ = ["cumulative_prod", "cumulative_sum", "diff", "one_axis"]


def one_axis(who: str, axis: Any, ndim: int) -> int:
    """Return one axis, not negative; NumPy's errors."""
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, (bool, np.bool_)):
        raise TypeError(f"{who}: axis is {axis!r}; an integer is needed.")
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(int(axis), ndim)
    return int(axis) % ndim


class _Scan(Look):
    """The checked arguments of one running sum or product."""

    def __init__(
        self, call: Call, given: Expression, scan: str, axis: int, initial: bool, out: Any, likes: Expression
    ) -> None:
        super().__init__(call, given)
        self.operation, self.likes = call.who, likes
        self.scan, self.axis, self.initial = scan, axis, initial
        shape = list(given.shape)
        shape[axis] += initial
        self.place = Place(call, tuple(shape), given.dtype, out, chunks_for(likes))
        self.places = [self.place]
        call.outputs = self.place.named()

    def job(self, at: At) -> _core.Job:
        """Return the scan as a job."""
        target = at(self.place)
        built, value = self.looking()
        return _core.scan_job(built, value, self.scan, self.axis, self.initial, target, self.place.checkpoint)

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits."""
        return {
            "x": Operand.of(as_array(self.call, self.likes)).identity, "axis": self.axis,
            "dtype": self.place.dtype.name, "include_initial": self.initial,
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, roughly."""
        return float(self.given.size), 2.0 * self.place.nbytes


def _scan(
    who: str, scan: str, x: Any, axis: Any, dtype: Any, initial: bool, out: Any, memory: Any
) -> Prepared[Any]:
    call = Call(who, memory)
    given = as_expression(off_the_map(call, x), who)
    if given.ndim == 0:
        raise ShapeError(f"{who}: the array has no dimensions; one at least is needed.")
    if axis is None:
        if given.ndim > 1:
            raise ValueError(f"{who}: the array is {shape_text(given.shape)}; say along which axis.")
        axis = 0
    along = one_axis(who, axis, given.ndim)
    kind = given.dtype.kind
    natural = np.dtype(np.int64) if kind in "bi" else np.dtype(np.uint64) if kind == "u" else given.dtype
    made = natural if dtype is None else np.dtype(dtype).newbyteorder("=")
    if made.kind not in "biufc" or made.char in "gG":
        raise TypeError(f"{who}: dtype is {made}; a number that can be stored is needed.")
    routine = _Scan(call, cast(given, made), scan, along, bool(initial), out, given)
    if given.size == 0 and 0 not in routine.place.shape:  # the result of nothing alone
        value = np.full(routine.place.shape, 0 if scan == "sum" else 1, made)
        return Finished(routine, lambda: from_memory(value, False, False), out)
    return routine


@routine
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False,
    out: Any = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the running sum along an axis.

    Parameters
    ----------
    x : Array, Expression or ndarray
        Of one dimension or more.
    axis : int, optional
        Needed where there are several dimensions.
    dtype : dtype, optional
        In which is added; default: that of x, 64 bits of integers and booleans.
    include_initial : bool
        Begin with 0: the result is one element longer along the axis.
    out : path, Array or ndarray, optional
        Where the result goes, as for `compute`. Default: scratch, deleted with the last handle.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array

    Raises
    ------
    ShapeError
        `out` does not agree; x has no dimensions.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Reads x once and writes the result once; a flop an element. Elements are added one after the other in
    their order, in the result's dtype, as NumPy does: the same bits as ``np.cumulative_sum``, whatever the
    chunks, the limit and the workers. A call that was killed goes on (`flagstone.resume`) where `out` is a
    path or an Array: what came before stands in the result.
    """
    return _scan("cumulative_sum", "sum", x, axis, dtype, include_initial, out, memory)


@routine
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False,
    out: Any = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the running product along an axis.

    Parameters
    ----------
    x : Array, Expression or ndarray
        Of one dimension or more.
    axis : int, optional
        Needed where there are several dimensions.
    dtype : dtype, optional
        In which is multiplied; default: that of x, 64 bits of integers and booleans.
    include_initial : bool
        Begin with 1: the result is one element longer along the axis.
    out : path, Array or ndarray, optional
        As for `cumulative_sum`.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array

    Raises
    ------
    ShapeError
        `out` does not agree; x has no dimensions.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Reads x once and writes the result once; a flop an element. The order is NumPy's, as for `cumulative_sum`.
    """
    return _scan("cumulative_prod", "prod", x, axis, dtype, include_initial, out, memory)


class _Difference(Routine[Any]):
    """The checked arguments of one difference."""

    operation = "diff"

    def __init__(self, call: Call, given: Any, times: int, axis: int, out: Any) -> None:
        super().__init__(call)
        self.source, self.times, self.axis = Operand.of(given), times, axis
        shape = list(self.source.shape)
        shape[axis] = max(0, shape[axis] - times)
        self.place = Place(
            call, tuple(shape), self.source.dtype, out, chunks_for(as_expression(given, call.who))
        )
        self.places = [self.place]
        call.outputs = self.place.named()
        call.on(self.source.core.path)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"diff {shape_text(self.source.shape)} {self.source.dtype.name}"

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return How("one pass")

    def job(self, at: At) -> _core.Job:
        """Return the differences as a job."""
        target = at(self.place)
        return _core.difference_job(
            self.source.core, self.source.transposed, self.axis, self.times, target, self.place.checkpoint
        )

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits."""
        return {"x": self.source.identity, "n": self.times, "axis": self.axis}

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, roughly."""
        return float(self.times * self.place.nbytes), 2.0 * self.place.nbytes


@routine
def diff(
    x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None, *, out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the differences of neighbours along an axis, `n` times over.

    Parameters
    ----------
    x : Array, Expression or ndarray
        Of one dimension or more. A lazy expression is computed where it is loaded.
    n : int
        How often differences are taken.
    axis : int
        Along which.
    prepend, append : optional
        Not taken: join them to x first.
    out : path, Array or ndarray, optional
        As for `cumulative_sum`.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array
        ``n`` elements shorter along the axis; of x's dtype (booleans: whether neighbours differ).

    Raises
    ------
    ShapeError
        `out` does not agree; x has no dimensions.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Reads x once and writes the result once; n flops an element. NumPy's bits. A call that was killed goes on
    where `out` is a path or an Array.
    """
    who = "diff"
    if prepend is not None or append is not None:
        raise TypeError("diff: prepend and append are not taken; join them to the array first.")
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise ValueError(f"diff: n is {n!r}; a whole number of 0 or more is needed.")
    call = Call(who, memory)
    given = lazy_operand(call, x)
    value = as_expression(given, who)
    if value.ndim == 0:
        raise ShapeError("diff: the array has no dimensions; one at least is needed.")
    along = one_axis(who, axis, value.ndim)
    if n == 0:
        return _Copy(value, out, memory)
    if isinstance(given, Array):
        given.flush()
    return _Difference(call, value.payload, int(n), along, out)


class _Copy:
    """No difference at all: the array as it is."""

    def __init__(self, value: Expression, out: Any, memory: Any) -> None:
        self.arguments = (value,), {"out": out, "memory": memory}

    def plan(self) -> Any:
        """Count it."""
        return compute.plan(*self.arguments[0], **self.arguments[1])

    def run(self) -> Any:
        """Do it."""
        return compute(*self.arguments[0], **self.arguments[1])


@resumable("cumulative_sum")
def _sum_again(path: str, told: dict[str, Any]) -> Again:
    return cumulative_sum, (operand("x", told["x"]),), _options(path, told)


@resumable("cumulative_prod")
def _prod_again(path: str, told: dict[str, Any]) -> Again:
    return cumulative_prod, (operand("x", told["x"]),), _options(path, told)


def _options(path: str, told: dict[str, Any]) -> dict[str, Any]:
    names = ("axis", "dtype", "include_initial")
    return {name: told[name] for name in names} | {"out": old_output(path, told)}


@resumable("diff")
def _diff_again(path: str, told: dict[str, Any]) -> Again:
    return diff, (operand("x", told["x"]), told["n"], told["axis"]), {"out": old_output(path, told)}
