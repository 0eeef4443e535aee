"""Elements in order, along an axis: in memory by tiles of lines, beyond it by an external sort."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from .. import _core
from .._along.scans import one_axis
from .._array.array import Array, shape_text
from .._array.handle import Operand, is_conjugated, is_lazy, is_transposed
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.compute import compute
from .._expression.expression import Expression, as_expression
from .._expression.operand import lazy_operand
from .._output.place import Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import check_flags
from .._runtime.call import Call
from .._runtime.plan import Plan
from .._runtime.routine import At, How, Prepared, Routine, least_of, routine
from .._storage.rechunk import rechunk

__all__ = ["argsort", "sort", "stored"]

_WHOLE = 32 << 20  # bytes of the lines that are sorted in memory at a time
_CHUNK = 4 << 20


def stored(call: Call, given: Any) -> Any:
    """Return an operand as it is read: an Array without a view, or memory; a lazy value is stored first."""
    value = _numbers(call, given)
    if value.verb != "leaf":
        return compute(value, memory=call.memory) if value.verb != "constant" else value.payload
    found = value.payload
    if isinstance(found, Array):
        found.flush()
        if (is_transposed(found) and found.ndim > 1) or is_conjugated(found):
            return rechunk(found, memory=call.memory)
    return found


def _numbers(call: Call, given: Any) -> Expression:
    value = as_expression(off_the_map(call, given), call.who)
    if value.dtype.kind not in "biufc":
        raise TypeError(f"{call.who}: {value.dtype.name} was given; numbers that can be stored are needed.")
    return value


class _Sort(Routine[Any]):
    """The checked arguments of one sort along an axis."""

    def __init__(self, call: Call, given: Any, axis: int, descending: bool, places: bool, out: Any) -> None:
        super().__init__(call)
        self.operation = call.who
        self.given, self.axis, self.descending, self.places_wanted = given, axis, descending, places
        self.source = Operand.of(given)
        self.shape, self.dtype = tuple(given.shape), np.dtype(self.source.dtype)
        made = np.dtype(np.int64) if places else self.dtype
        length, self.lanes = self.shape[axis], 1
        width = self.dtype.itemsize + (8 if places else 0)
        chunks = self._chunks_of(given)
        beside = math.prod(c for d, c in enumerate(chunks) if d != axis)
        #: chunks that the source gets first: of a view, and where too many lines cross one of its own
        self.anew: tuple[int, ...] | None = chunks if _is_view(given) else None
        self.lines = len(self.shape) > 1 and length * width <= _WHOLE
        if len(self.shape) > 1 and beside * length * width > 2 * _WHOLE:
            self.anew = chunks = self._along(length, width)
        self.first = "chunks of lines first" if self.anew is not None else ""
        self.chunks = chunks
        self.place = Place(call, self.shape, made, out, list(chunks))
        self.places = [self.place]
        if not self.lines and len(self.shape) > 1 and not self.place.in_memory:
            kept = [c for d, c in enumerate(self.place.chunks) if d != axis]
            if any(c > 1 for c in kept) and beside > 1:
                raise ShapeError(
                    f"{call.who}: lines of {length} elements are longer than what is sorted in memory, and "
                    f"out has chunks of {shape_text(tuple(self.place.chunks))}; give a path, or chunks of "
                    "one line."
                )
        call.outputs = self.place.named()
        call.on(self.source.core.path)

    def _chunks_of(self, given: Any) -> tuple[int, ...]:
        stored = isinstance(given, Array) and not (is_lazy(given) or _is_view(given))
        if stored and given.chunks != given.shape:
            return tuple(given.chunks)
        return tuple(_core.default_chunks(list(self.shape), self.dtype.name))

    def _along(self, length: int, width: int) -> tuple[int, ...]:
        """Return chunks of few lines, as long as a chunk may be."""
        chunks = [1] * len(self.shape)
        chunks[self.axis] = max(1, min(length, _CHUNK // self.dtype.itemsize))
        left = min(_CHUNK // self.dtype.itemsize // chunks[self.axis], _WHOLE // max(1, length * width))
        for d in reversed(range(len(self.shape))):
            if d != self.axis and left > 1:
                chunks[d] = max(1, min(self.shape[d], left))
                left //= chunks[d]
        return tuple(chunks)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.shape)} {self.dtype.name}"

    def how(self, job: Any) -> How:
        """Say how it is sorted."""
        note = self.first
        if isinstance(job, _core.SortJob):
            why = "; ".join(text for text in (job.why, note) if text)
            return How("external sort" if job.runs > 1 else "in memory", job.passes, why)
        return How("lines in memory", 1, note)

    def job(self, at: At) -> _core.Job:
        """Return the sort as a job."""
        target, source = at(self.place), self.source.core
        if self.anew is not None:
            source = _core.planned_array(list(self.shape), self.dtype.name, list(self.anew))
        make = _core.sort_lines_job if self.lines else _core.sort_job
        return make(source, self.axis, self.descending, self.places_wanted, target, self.place.checkpoint)

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits."""
        return {
            "x": Operand.of(self.given).identity, "axis": self.axis, "descending": self.descending,
            "chunks": list(self.place.chunks),
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, roughly."""
        size = math.prod(self.shape)
        return 8.0 * size * max(1, self.shape[self.axis]).bit_length(), 2.0 * self.place.nbytes

    def plan(self) -> Plan:
        """Count it on a virtual clock, with the pass that makes chunks of lines."""
        plan = super().plan()
        if self.anew is None:
            return plan
        first = rechunk.plan(self.given, self.anew, memory=self.call.memory)
        return dataclasses.replace(
            plan,
            passes=plan.passes + first.passes,
            bytes_read=plan.bytes_read + first.bytes_read,
            bytes_written=plan.bytes_written + first.bytes_written,
            peak_memory=max(plan.peak_memory, first.peak_memory),
            least_memory=max(plan.least_memory, first.least_memory),
            seconds=plan.seconds + first.seconds,
        )

    def run(self) -> Any:
        """Do it, once lines lie in chunks of their own."""
        if self.anew is not None:
            first = least_of(rechunk, self.given, self.anew, memory=self.call.memory)
            self.call.check_least(max(self.least(), first))
            self.source = Operand.of(rechunk(self.given, self.anew, memory=self.call.memory))
            self.anew = None
            self.call.begin()
        return super().run()


def _is_view(given: Any) -> bool:
    """Say whether elements lie otherwise than they are seen."""
    return isinstance(given, Array) and ((is_transposed(given) and given.ndim > 1) or is_conjugated(given))


def _prepared(
    who: str, x: Any, axis: Any, descending: bool, stable: bool, places: bool, out: Any, memory: Any
) -> _Sort:
    call = Call(who, memory)
    value = _numbers(call, x)
    given = value.payload if value.verb in ("leaf", "constant") else lazy_operand(call, value)
    if isinstance(given, Array):
        given.flush()
    if given.ndim == 0:
        raise ShapeError(f"{who}: the array has no dimensions; one at least is needed.")
    check_flags(who, stable=stable, descending=descending)
    return _Sort(call, given, one_axis(who, axis, given.ndim), bool(descending), places, out)


@routine
def sort(
    x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True, out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the elements in order along an axis.

    Parameters
    ----------
    x : Array, Expression or ndarray
        Of one dimension or more, of any dtype that can be stored. A lazy expression is computed where it
        is loaded.
    axis : int
        Along which; default: the last.
    descending : bool
        The largest first; NaN stays last.
    stable : bool
        Taken for the standard's sake: the sort is always stable.
    out : path, Array or ndarray, optional
        Where the result goes, as for `compute`; may be x itself, which is then exchanged whole. Default:
        scratch, deleted with the last handle.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array
        Of x's shape and dtype.

    Raises
    ------
    ShapeError
        `out` does not agree; x has no dimensions.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    NumPy's order and its bits: −0.0 equals 0.0, NaN is last, complex numbers go by their real part first. Of
    one dimension: one read and one write where the elements fit into memory, else up to two of both (sorted
    runs, of which what has room stays in memory, and a merge of them; where there are some more runs than can
    be merged at once, the last ones once more, and with twice as many all). Lines along an axis of several
    dimensions: one read and one write where they fit into 32 MiB each; where many lines cross a chunk,
    `rechunk` comes first. O(n log n) steps. Whatever the limit and the
    workers: the same bits, since a stable sort has one result. A call that was killed goes on
    (`flagstone.resume`) where `out` is a path or an Array: sorted runs lie beside the result till it is done.
    Source: merges by rank, as in Rahn, Sanders
    and Singler, "Scalable distributed-memory external sorting", ICDE 2010.
    """
    return _prepared("sort", x, axis, descending, stable, False, out, memory)


@routine
def argsort(
    x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True, out: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the places from which `sort` takes its elements.

    Parameters
    ----------
    x : Array, Expression or ndarray
        As for `sort`.
    axis : int
        Along which; default: the last.
    descending : bool
        The largest first; equal ones stay in their order, NaN stays last.
    stable : bool
        Taken for the standard's sake: the sort is always stable.
    out : path, Array or ndarray, optional
        As for `sort`; int64.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array
        Of x's shape, int64: ``take_along_axis(x, argsort(x), -1)`` is sorted.

    Raises
    ------
    ShapeError
        `out` does not agree; x has no dimensions.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    As `sort`, with 8 bytes more an element between the passes; writes 8 bytes an element.
    """
    return _prepared("argsort", x, axis, descending, stable, True, out, memory)


def _options(path: str, told: dict[str, Any]) -> dict[str, Any]:
    return {"axis": told["axis"], "descending": told["descending"], "out": old_output(path, told)}


@resumable("sort")
def _sort_again(path: str, told: dict[str, Any]) -> Again:
    return sort, (operand("x", told["x"]),), _options(path, told)


@resumable("argsort")
def _argsort_again(path: str, told: dict[str, Any]) -> Again:
    return argsort, (operand("x", told["x"]),), _options(path, told)
