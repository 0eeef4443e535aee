"""Run lazy expressions and pending reductions: one pass over the operands for all that have one shape."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .array import PIECE, Array, shape_text
from .boxes import Box, Key
from .config import Call
from .creation import Destination
from .errors import Error, ShapeError, storage_error
from .expression import Expression, as_expression, cast, leaves, lower
from .operators import Elementwise, operations
from .outputs import check_apart, check_path, check_replaceable
from .plan import Plan, routine
from .scratch import Result, prepare, whole_or_nothing

__all__ = ["Reduced", "compute"]

_LEAST_CHUNK, _MOST_CHUNK = 256 << 10, 64 << 20
Part = tuple[Expression, str, str, np.dtype[Any]]  # what is folded, how, how it is finished, as what


class Reduced(Elementwise):
    """A reduction that is not computed yet.

    ``fl.compute(a.mean(0), a.var(0))`` takes several in one pass over `a`; ``np.asarray(r)``, ``float(r)``,
    ``r[...]`` and arithmetic with `r` compute it alone, once.
    """

    def __init__(
        self, given: Expression, name: str, axis: Any, keepdims: bool, ddof: float = 0, dtype: Any = None
    ) -> None:
        self.name = name
        self.axes = _axes(name, axis, given.ndim)
        self.keepdims = bool(keepdims)
        self.ddof = ddof
        asked = None if dtype is None else np.dtype(dtype)
        if asked is not None:
            if asked.kind not in ("fc" if name in ("var", "std") else "biufc"):
                raise TypeError(f"{name}: dtype is {asked}; a floating one is needed (numbers, for sums).")
            given = cast(given, asked.newbyteorder("="))
        self.source = given
        self.parts, self.dtype = _parts(given, name)
        if asked is not None and asked.kind in "biu":  # folded in 64 bits: the same modulo 2^bits
            self.dtype = asked.newbyteorder("=")
        reduced = [d in self.axes for d in range(given.ndim)]
        self.reduced = reduced
        self.shape = tuple(
            1 if r else n for n, r in zip(given.shape, reduced, strict=True) if self.keepdims or not r
        )
        nothing = any(given.shape[d] == 0 for d in self.axes)
        if nothing and (name in ("argmin", "argmax") or (name in ("min", "max") and self.size)):
            raise ShapeError(
                f"{name}: {shape_text(given.shape)} has no elements to choose from; give at least one."
            )
        self._value: Any = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, once computed."""
        return self.size * self.dtype.itemsize

    def _flagstone_value(self) -> Any:
        if self._value is None:
            self._value = compute(self)
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._flagstone_value(), dtype)

    def __getitem__(self, key: Key) -> Any:
        """Compute and return a part."""
        return np.asarray(self)[key]

    def __float__(self) -> float:
        return float(self._flagstone_value())

    def __int__(self) -> int:
        return int(self._flagstone_value())

    def __complex__(self) -> complex:
        return complex(self._flagstone_value())

    def __bool__(self) -> bool:
        return bool(self._flagstone_value())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a reduction without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<flagstone.Reduced {self.name} {shape_text(self.shape)} {self.dtype.name}, pending>"

    def combine(self, values: list[NDArray[Any]]) -> Any:
        """Return the result from what the parts gave."""
        out = values[0]
        if len(values) == 2 and self.name in ("sum", "mean"):
            out = np.empty(out.shape, self.dtype)
            out.real, out.imag = values
        elif len(values) == 2:
            out = values[0] + values[1]
            out = np.sqrt(out) if self.name == "std" else out
        out = out.astype(self.dtype, copy=False)
        return out if out.shape else out[()]


def _axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    if name.startswith("arg") and isinstance(axis, tuple):
        raise TypeError(f"{name}: axis is a tuple; an integer or None is needed.")
    found = []
    for item in given:
        number = item.__index__()
        if ndim == 0 and number in (0, -1):  # NumPy takes both
            continue
        if not -ndim <= number < ndim:
            raise np.exceptions.AxisError(number, ndim)
        found.append(number % ndim)
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return tuple(found)


def _parts(given: Expression, name: str) -> tuple[list[Part], np.dtype[Any]]:
    """Return what the kernel folds for a reduction, and the result's dtype (NumPy's)."""
    kind = given.dtype.kind
    bools, index = np.dtype(bool), np.dtype(np.int64)
    if name in ("any", "all"):
        return [(cast(given, bools), name, "value", bools)], bools
    if kind == "c":
        if name not in ("sum", "mean", "var", "std"):
            raise TypeError(f"{name}: complex numbers were given; this reduction takes real ones.")
        halves = [from_part(given, "real"), from_part(given, "imag")]
        half = halves[0].dtype
        fold, finish = (
            ("sum", "value" if name == "sum" else "mean") if name in ("sum", "mean") else ("var", "var")
        )
        return [(h, fold, finish, half) for h in halves], given.dtype if name in ("sum", "mean") else half
    result = given.dtype
    folded = cast(given, np.float32) if result == np.float16 else given
    if name in ("sum", "prod"):
        result = np.dtype(np.int64) if kind in "bi" else np.dtype(np.uint64) if kind == "u" else result
        return [(folded, name, "value", folded.dtype if kind == "f" else result)], result
    if name in ("mean", "var", "std"):
        if kind in "biu":
            folded = cast(given, np.float64)
            result = folded.dtype
        return [(folded, "sum" if name == "mean" else "var", name, folded.dtype)], result
    if name in ("argmin", "argmax"):
        return [(folded, name, "index", index)], index
    return [(folded, name, "value", folded.dtype)], result


def from_part(given: Expression, which: str) -> Expression:
    """Return the real or imaginary part as a node."""
    return given.real if which == "real" else given.imag  # type: ignore[no-any-return]


# One pass -------------------------------------------------------------------------------------------------


class Place:
    """Where one result goes: `plan()` for the planner, `open()` for the run, `close()` afterwards."""

    def __init__(
        self, call: Call, shape: tuple[int, ...], dtype: np.dtype[Any], out: Any, chunks: Any
    ) -> None:
        self.call, self.shape, self.dtype, self.out = call, shape, dtype, out
        self.chunks = chunks
        self.result: Any = None
        self.values: NDArray[Any] | None = None
        self.destination: Destination | None = None
        self.scratch: Result | None = None
        _check_out(call.who, out, shape, dtype)
        if isinstance(out, Array):
            check_replaceable(call.who, out)
            if out.path is not None and not out.path.endswith(".npy"):
                self.chunks = out.chunks

    @property
    def in_memory(self) -> bool:
        return (
            self.out is IN_MEMORY
            or isinstance(self.out, np.ndarray)
            or (isinstance(self.out, Array) and self.out.path is None)
        )

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def planned(self) -> _core.Array:
        if self.in_memory:
            return _core.memory_array(np.empty(self.shape, self.dtype))
        return _core.planned_array(list(self.shape), self.dtype.name, list(self.chunks))

    def open(self, stack: contextlib.ExitStack) -> _core.Array:
        if self.in_memory:
            self.values = np.empty(self.shape, self.dtype)
            self.values.fill(0)  # now, so that its pages count as held before the call
            return _core.memory_array(self.values)
        path: Any = self.out.path if isinstance(self.out, Array) else self.out
        if path is None:
            self.scratch = self.call.result("compute", self.nbytes)
            stack.enter_context(whole_or_nothing(self.scratch))
            path = self.scratch.path
        self.destination = Destination(self.call.who, path, self.shape, self.dtype.name, self.chunks, True)
        stack.enter_context(whole_or_nothing(self.destination))
        return self.destination.core

    def close(self) -> Any:
        if self.out is IN_MEMORY:
            return self.values
        if isinstance(self.out, np.ndarray):
            self.out[...] = self.values
            return self.out
        if self.destination is None:  # an Array in memory
            self.out._owner._values[...] = self.values
            return self.out
        made = self.destination.publish()
        if self.scratch is not None:
            self.scratch.tie(made)
        if isinstance(self.out, Array):  # built aside and exchanged: it may be an operand
            self.out._owner._handle = made._handle
            return self.out
        return made


#: As `out`: an ndarray that nobody gave.
IN_MEMORY = object()


def _unfit(who: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> ShapeError:
    return ShapeError(
        f"{who}: out is {shape_text(out.shape)} {out.dtype} and the result is {shape_text(shape)} "
        f"{dtype.name}; give {what} that agrees (astype converts the expression)."
    )


def _check_out(who: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse a place that cannot hold a result of this shape and dtype."""
    if isinstance(out, Array):
        if out._transposed or out._conjugated:
            raise ShapeError(f"{who}: out is a transposed or conjugated view; give the array itself.")
        if out.mode != "r+":
            raise storage_error(
                f"{who}: out '{out.path}' is open for reading; open it with mode='r+'.",
                errno.EACCES,
                out.path or "",
            )
        if out.shape != shape or out.dtype != dtype:
            raise _unfit(who, out, shape, dtype, "an Array")
        out.flush()
    elif isinstance(out, np.ndarray):
        if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
            raise _unfit(who, out, shape, dtype, "a writeable ndarray")
    elif isinstance(out, (str, os.PathLike)):
        check_path(who, out)
    elif not (out is None or out is IN_MEMORY):
        raise TypeError(f"{who}: out is {type(out).__name__}; a path, an Array or an ndarray is needed.")


class _Pass:
    """Expressions and reductions of one shape, over part of their index space."""

    def __init__(self, call: Call, shape: tuple[int, ...]) -> None:
        self.call, self.shape = call, shape
        self.start = [0] * len(shape)
        self.stores: list[tuple[Expression, Place]] = []
        self.reductions: list[tuple[Reduced, list[Place]]] = []

    def build(self, arrays: Callable[[Place], _core.Array]) -> _core.Pass:
        roots = [e for e, _ in self.stores] + [part[0] for r, _ in self.reductions for part in r.parts]
        program, operands, values = lower(roots)
        directory = str(prepare(self.call.runtime.scratch))
        built = _core.Pass(program, self.start, list(self.shape), directory)
        for array, transposed in operands:
            built.operand(array, transposed)
        numbers = iter(values)
        for _, place in self.stores:
            built.store(next(numbers), arrays(place))
        for reduction, places in self.reductions:
            for (_, fold, finish, _), place in zip(reduction.parts, places, strict=True):
                built.reduce(
                    next(numbers),
                    fold,
                    finish,
                    reduction.ddof,
                    reduction.reduced,
                    arrays(place),
                    reduction.keepdims,
                )
        return built

    @property
    def what(self) -> str:
        names = [r.name for r, _ in self.reductions]
        stored = f"{len(self.stores)} stored" if self.stores else ""
        return f"compute {shape_text(self.shape)}: " + ", ".join([*([stored] if stored else []), *names])

    def beside(self) -> int:
        """Bytes of ordinary memory that the results take."""
        places = [p for _, p in self.stores] + [p for _, ps in self.reductions for p in ps]
        return sum(p.nbytes for p in places if p.in_memory)

    def check(self, beside: int = 0) -> int:
        """Refuse a limit that cannot work; return the bytes held with it, `beside` by passes before."""
        held = beside + self.beside()
        self.call.check_memory(self.build(Place.planned).job(), held)
        return held

    def run(self, stack: contextlib.ExitStack) -> None:
        """Compute what is stored, aside; `close` publishes it."""
        job = self.build(lambda place: place.open(stack)).job()
        done = self.call.run(job)
        self.call.record(done, self.what, "one pass", 1)

    def close(self) -> None:
        for _, place in self.stores:
            place.result = place.close()
        for _, places in self.reductions:
            for place in places:
                place.result = place.close()

    def plan(self) -> Plan:
        built = self.build(Place.planned)
        note = f"tiles of {shape_text(tuple(built.tile()))}"
        return self.call.as_plan(built.job(), self.what, "one pass", 1, note)


def _chunks_for(given: Expression) -> list[int]:
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


class _Job:
    """The checked arguments of one call of compute."""

    def __init__(self, given: tuple[Any, ...], out: Any, memory: Any) -> None:
        if not given:
            raise TypeError("compute: nothing to compute; give expressions or reductions.")
        self.call = Call("compute", memory)
        outs = self._outs(out, len(given))
        check_apart("compute", outs)
        self.passes: list[_Pass] = []
        self.answers: list[Callable[[], Any]] = []
        groups: dict[Any, _Pass] = {}
        for item, place in zip(given, outs, strict=True):
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

    def _expression(self, groups: dict[Any, _Pass], given: Expression, out: Any) -> None:
        place = Place(self.call, given.shape, given.dtype, out, _chunks_for(given))
        chunks = tuple(place.chunks) if not place.in_memory else None
        wanted = groups.get(given.shape)
        if wanted is None or any(
            p.in_memory is False and tuple(p.chunks) != chunks for _, p in wanted.stores
        ):
            wanted = self._new(groups, given.shape)
        wanted.stores.append((given, place))
        self.answers.append(lambda: place.result)

    def _reduction(self, groups: dict[Any, _Pass], item: Reduced, out: Any) -> None:
        shape = item.source.shape
        if item.source.size == 0:
            self.answers.append(lambda: _of_nothing(item, out))
            return
        _check_out(self.call.who, out, item.shape, item.dtype)
        wanted = groups.get(shape) or self._new(groups, shape)
        places = [Place(self.call, item.shape, part[3], IN_MEMORY, None) for part in item.parts]
        wanted.reductions.append((item, places))
        self.answers.append(lambda: _deliver(item.combine([p.result for p in places]), out))

    def _new(self, groups: dict[Any, _Pass], shape: tuple[int, ...]) -> _Pass:
        groups[shape] = _Pass(self.call, shape)
        self.passes.append(groups[shape])
        return groups[shape]

    def run(self) -> Any:
        held = 0
        for item in self.passes:
            held = item.check(held)
        with contextlib.ExitStack() as stack:
            for item in self.passes:
                item.run(stack)
            for item in self.passes:  # now: a result may lie over what a later pass reads
                item.close()
        answers = [answer() for answer in self.answers]
        return answers[0] if len(answers) == 1 else tuple(answers)

    def plan(self) -> Plan:
        if len(self.passes) != 1:
            raise Error(
                f"compute.plan: these take {len(self.passes)} passes (their shapes or chunks differ); "
                "plan each alone."
            )
        return self.passes[0].plan()


def _deliver(value: Any, out: Any) -> Any:
    """Put a reduction's result where it was asked for."""
    if out is None:
        return value
    if isinstance(out, (str, os.PathLike)):
        return operations["from_numpy"](np.asarray(value), out, True)
    if isinstance(out, Array) and out.path is None:
        out._owner._values[...] = value  # type: ignore[index]
        return out
    out[...] = value
    if isinstance(out, Array):
        out.flush()
    return out


def _of_nothing(item: Reduced, out: Any) -> Any:
    options: dict[str, Any] = {"axis": item.axes, "keepdims": item.keepdims}
    if item.name in ("var", "std"):
        options["ddof"] = item.ddof
    if item.name.startswith("arg"):
        return _deliver(np.empty(item.shape, item.dtype), out)
    with np.errstate(all="ignore"):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = getattr(np, item.name)(np.empty(item.source.shape, item.source.dtype), **options)
    return _deliver(value, out)


def _plan(*expressions: Any, out: Any = None, memory: int | str | None = None) -> Plan:
    return _Job(expressions, out, memory).plan()


@routine(_plan)
def compute(*expressions: Any, out: Any = None, memory: int | str | None = None) -> Any:
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
    return _Job(expressions, out, memory).run()


# What slices, np.asarray and assignment need --------------------------------------------------------------


def _part(given: Expression, box: Box, who: str) -> Any:
    """Compute a part into memory."""
    call = Call(who)
    shape = tuple((n - 1) * s + 1 if n else 0 for n, s in zip(box.shape, box.step, strict=True))
    found = _box(call, given, box.start, shape) if box.count else np.empty(shape, given.dtype)
    found = found[tuple(slice(None, None, s) for s in box.step)]
    if box.flips:
        found = found[box.flips]
    out = found.reshape(box.kept)
    return out[()] if not out.shape else out


def _box(call: Call, given: Expression, start: Sequence[int], shape: tuple[int, ...]) -> NDArray[Any]:
    for leaf in leaves(given):
        if isinstance(leaf.payload, Array):
            leaf.payload.flush()
    item = _Pass(call, shape)
    item.start = list(start)
    place = Place(call, shape, given.dtype, IN_MEMORY, None)
    item.stores.append((given, place))
    item.check()
    with contextlib.ExitStack() as stack:
        item.run(stack)
        item.close()
    found: NDArray[Any] = place.result
    return found


def _assign(target: Array, key: Key, value: Any) -> None:
    """Store an expression into part of an Array, by pieces; whole first where the two overlap otherwise."""
    given = as_expression(value, "setitem")
    call = Call("setitem")
    box = Box(key, target.shape)
    simple = box.kept == box.shape and not box.flips and given.shape == box.kept and box.count > 0
    same = [
        leaf.payload for leaf in leaves(given)
        if isinstance(leaf.payload, Array) and leaf.payload._core.id == target._core.id
    ]  # fmt: skip
    whole = box.kept == target.shape and not box.strided
    if same and not (
        whole and all(a._transposed == target._transposed and a.shape == given.shape for a in same)
    ):
        given = as_expression(compute(given), "setitem")
    if not simple:
        target._assign(call, key, np.asarray(given))
        return
    rows = max(1, PIECE // max(1, box.bounding_row * target.dtype.itemsize))
    chunk = target.chunks[0] if target.chunks else 1
    rows = max(chunk, rows // chunk * chunk) if chunk < target.shape[0] else rows
    for first in range(0, box.shape[0], rows):
        last = min(first + rows, box.shape[0])
        part = _box(call, given, [first, *[0] * (given.ndim - 1)], (last - first, *given.shape[1:]))
        step = box.step[0]
        head = slice(box.start[0] + first * step, box.start[0] + (last - 1) * step + 1, step)
        tail = [
            slice(s, s + (n - 1) * step + 1, step)
            for s, n, step in zip(box.start[1:], box.shape[1:], box.step[1:], strict=True)
        ]
        target._assign(call, (head, *tail), part)


def _reduce(given: Any, name: str, axis: Any, keepdims: bool, **more: Any) -> Reduced:
    return Reduced(as_expression(given, name), name, axis, keepdims, **more)


operations["part"] = _part
operations["assign"] = _assign
operations["reduce"] = _reduce
