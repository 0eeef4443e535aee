"""Run lazy expressions and pending reductions: one pass over the operands for all that have one shape."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import values_of
from .._errors.classes import Error
from .._output.create import from_numpy
from .._output.place import IN_MEMORY, Place, check_out
from .._output.replaceable import check_apart
from .._runtime.call import Call
from .._runtime.plan import Plan
from .._runtime.routine import At, How, Prepared, Routine, routine
from .expression import Expression, as_expression
from .program import leaves, lower
from .reductions import Reduced

__all__ = ["Pass", "chunks_for", "compute", "deliver", "how_of"]

_LEAST_CHUNK, _MOST_CHUNK = 256 << 10, 64 << 20


class Pass(Routine[None]):
    """Expressions and reductions of one shape, over part of their index space."""

    def __init__(self, call: Call, shape: tuple[int, ...]) -> None:
        super().__init__(call)
        self.shape = shape
        self.start = [0] * len(shape)
        self.stores: list[tuple[Expression, Any]] = []  # and their places
        self.reductions: list[tuple[Reduced, list[Place]]] = []

    def store(self, given: Expression, place: Any) -> None:
        """Store an expression."""
        self.stores.append((given, place))
        self.places.append(place)

    def reduce(self, given: Reduced, places: list[Place]) -> None:
        """Fold a reduction; each of its parts has a place."""
        self.reductions.append((given, places))
        self.places += places

    def job(self, at: At) -> _core.Job:
        """Return the kernel's pass as a job."""
        roots = [e for e, _ in self.stores] + [part[0] for r, _ in self.reductions for part in r.parts]
        program, operands, values = lower(roots, self.call)
        self.call.scratch_in_run()  # partial results and copies of operands may go there
        built = _core.Pass(program, self.start, list(self.shape))
        for array, transposed in operands:
            built.operand(array, transposed)
        numbers = iter(values)
        for _, place in self.stores:
            built.store(next(numbers), at(place))
        for reduction, places in self.reductions:
            for i, ((_, fold, finish, _), place) in enumerate(zip(reduction.parts, places, strict=True)):
                built.reduce(
                    next(numbers),
                    fold,
                    finish,
                    reduction.ddof,
                    reduction._reduced_of(i),
                    at(place),
                    reduction.keepdims,
                )
        self.core, self.tile = built, tuple(built.tile())
        return built.job()

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        names = [r.name for r, _ in self.reductions]
        stored = f"{len(self.stores)} stored" if self.stores else ""
        return f"compute {shape_text(self.shape)}: " + ", ".join([*([stored] if stored else []), *names])

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return how_of(self.core, f"tiles of {shape_text(self.tile)}")

    def result(self, job: Any = None) -> None:
        """Publish what was stored."""
        for place in self.places:
            place.close()


def how_of(built: _core.Pass, tiles: str) -> How:
    """Say how a pass whose graph was built reads its operands, where that is not once as they lie."""
    if not built.why:
        return How("one pass", tiles=tiles)
    method = "one pass" if built.passes == 1 else "two passes through scratch"
    return How(method, built.passes, f"{tiles}; {built.why}", between=built.scratch_bytes)


def chunks_for(given: Expression) -> list[int]:
    """Chunks of a new array: those of the largest operand of its shape, where they are of a useful size."""
    best: Array | None = None
    for leaf in leaves(given):
        array = leaf.payload
        if isinstance(array, Array) and array.shape == given.shape and array.chunks != array.shape:
            nbytes = int(np.prod(array.chunks, dtype=object)) * given.dtype.itemsize
            if _LEAST_CHUNK <= nbytes <= _MOST_CHUNK and (best is None or array.nbytes > best.nbytes):
                best = array
    if best is not None:
        return list(best.chunks)
    return list(_core.default_chunks(list(given.shape), given.dtype.name))


_NOTHING = "compute: reductions of no elements"


class _Compute:
    """The checked arguments of one call of compute: routines of one shape each, one after the other."""

    def __init__(self, given: tuple[Any, ...], out: Any, memory: Any) -> None:
        if not given:
            raise TypeError("compute: nothing to compute; give expressions or reductions.")
        self.call = Call("compute", memory)
        outs = self._outs(out, len(given))
        check_apart("compute", outs)
        self.passes: list[Any] = []  # routines
        self.answers: list[Callable[[], Any]] = []
        groups: dict[Any, Any] = {}
        for item, place in zip(given, outs, strict=True):
            if isinstance(item, Reduced) and (key := item.pass_key()) is not None:
                self._streamed(groups, key, item, place)
                continue
            source = item.source if isinstance(item, Reduced) else as_expression(item, "compute")
            for leaf in leaves(source):
                if isinstance(leaf.payload, Array):
                    leaf.payload.flush()
            if isinstance(item, Reduced):
                self._reduction(groups, item, place)
            else:
                self._expression(groups, source, place)

    @staticmethod
    def _outs(out: Any, number: int) -> list[Any]:
        if number == 1:
            return [out]
        if out is None:
            return [None] * number
        if not isinstance(out, Sequence) or isinstance(out, (str, bytes)) or len(out) != number:
            raise TypeError(
                f"compute: {number} results take a list of {number} places as out (None: the default)."
            )
        return list(out)

    def _expression(self, groups: dict[Any, Pass], given: Expression, out: Any) -> None:
        place = Place(self.call, given.shape, given.dtype, out, chunks_for(given))
        chunks = tuple(place.chunks) if not place.in_memory else None
        wanted = groups.get(given.shape)
        if wanted is None or any(
            p.in_memory is False and tuple(p.chunks) != chunks for _, p in wanted.stores
        ):
            wanted = self._new(groups, given.shape)
        wanted.store(given, place)
        self.answers.append(lambda: place.result)

    def _reduction(self, groups: dict[Any, Pass], item: Reduced, out: Any) -> None:
        shape = item.source.shape
        if item.source.size == 0:
            self.answers.append(lambda: deliver(item._of_nothing(), out))
            return
        check_out(self.call.who, out, item.shape, item.dtype)
        wanted = groups.get(shape) or self._new(groups, shape)
        places = [
            Place(self.call, item._shape_of(i), part[3], IN_MEMORY, None) for i, part in enumerate(item.parts)
        ]
        wanted.reduce(item, places)
        self.answers.append(lambda: deliver(item.combine([p.result for p in places]), out))

    def _streamed(self, groups: dict[Any, Any], key: Any, item: Any, out: Any) -> None:
        """Join the pass over what is no expression, which the reduction knows how to begin."""
        check_out(self.call.who, out, item.shape, item.dtype)
        if item.nothing:
            self.answers.append(lambda: deliver(item.computed(), out))
            return
        if key not in groups:
            groups[key] = item.new_pass(self.call)
            self.passes.append(groups[key])
        answer = groups[key].add(item)
        self.answers.append(lambda: deliver(answer(), out))

    def _new(self, groups: dict[Any, Pass], shape: tuple[int, ...]) -> Pass:
        groups[shape] = Pass(self.call, shape)
        self.passes.append(groups[shape])
        return groups[shape]

    def run(self) -> Any:
        held = 0
        for item in self.passes:
            held = item.check(held)
        with contextlib.ExitStack() as stack:
            for item in self.passes:
                item.execute(stack)
            for item in self.passes:  # now: a result may lie over what a later pass reads
                item.result()
        if not self.passes:
            self.call.did_nothing(_NOTHING)
        answers = [answer() for answer in self.answers]
        return answers[0] if len(answers) == 1 else tuple(answers)

    def least(self, beside: int = 0) -> int:
        """Return the least limit, of one pass after the other."""
        return max((int(item.least(beside)) for item in self.passes), default=0)

    def plan(self) -> Plan:
        if not self.passes:
            return self.call.nothing(_NOTHING)
        if len(self.passes) != 1:
            raise Error(
                f"compute.plan: these take {len(self.passes)} passes (their shapes or chunks differ); "
                "plan each alone."
            )
        plan: Plan = self.passes[0].plan()
        return plan


def deliver(value: Any, out: Any) -> Any:
    """Put a reduction's result where it was asked for."""
    if out is None:
        return value
    if isinstance(out, (str, os.PathLike)):
        return from_numpy(np.asarray(value), out, True)
    if isinstance(out, Array) and (values := values_of(out)) is not None:
        values[...] = value
        return out
    out[...] = value
    if isinstance(out, Array):
        out.flush()
    return out


@routine
def compute(*expressions: Any, out: Any = None, memory: int | str | None = None) -> Prepared[Any]:
    """Compute lazy expressions and pending reductions, inside a memory limit.

    Parameters
    ----------
    *expressions : Expression, Reduced or Array
        ``a * x + 1``, ``np.exp(a)``, ``a.mean(0)``. Those of one shape share one pass over their operands.
    out : path, Array or ndarray, or a list of them for several expressions, optional
        Where results go. A path is replaced at once and whole (an array, an earlier result; anything else
        there is refused); an existing Array, even an operand, gets a new version that is built aside and
        exchanged (flat files: assign, ``out[...] = expression``). Default: an expression becomes an Array in
        scratch that is deleted with its last handle, a reduction an ndarray or a number.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array, ndarray or number, or a tuple of them

    Raises
    ------
    ShapeError
        `out` does not agree with the result; an integer was raised to a negative power.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Reads every operand once and writes every stored result once: the sum of their bytes. One flop for each
    operation and element. A pending reduction inside an expression (``X - X.mean(0)``) is computed first, in
    a pass of its own. The limit and the number of workers do not change bits.
    """
    return _Compute(expressions, out, memory)
