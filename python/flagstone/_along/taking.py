"""Elements by index: take, take_along_axis, nonzero; streams of blocks of rows."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array import requests
from .._array.array import PIECE, STAGING, Array, shape_text
from .._array.basic_index import BasicIndexer
from .._array.dispatch import dispatch
from .._array.handle import built_aside
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.compute import compute
from .._expression.expression import Expression, as_expression, cast
from .._expression.program import leaves
from .._expression.reductions import reduce
from .._output.place import Place
from .._runtime.call import Call, Moved
from .._runtime.routine import Streaming
from .scans import one_axis

__all__ = ["nonzero", "take", "take_along_axis"]

_FEW = 4 << 20  # bytes of places that are asked for before they are counted
_BLOCK = 32 << 20  # bytes of a block: as much as a pass takes at most


def _stored(call: Call, given: Any, who: str) -> Any:
    """Return an operand whose parts are read: an Array, or memory; a lazy value is stored first."""
    value = as_expression(off_the_map(call, given), who)
    if value.verb == "leaf":
        if isinstance(value.payload, Array):
            value.payload.flush()
        return value.payload
    if value.verb == "constant":
        return value.payload
    return compute(value, memory=call.memory)


def _part(call: Call, given: Any, key: tuple[Any, ...]) -> NDArray[Any]:
    return requests.take(given, call, key) if isinstance(given, Array) else given[key]


class _Blocks(Streaming[Any]):
    """Blocks of a result that are made one after the other."""

    method = "streaming"

    def __init__(self, call: Call, given: Any, shape: tuple[int, ...], out: Any) -> None:
        super().__init__(call)
        self.given, self.shape = given, shape
        dtype = np.dtype(given.dtype)
        self.place = Place(call, shape, dtype, out, _core.default_chunks(list(shape), dtype.name))

    @property
    def what(self) -> str:
        """What statistics call it."""
        return f"{self.call.who} {shape_text(self.shape)} {self.place.dtype.name}"

    def blocks(self) -> Iterator[tuple[tuple[Any, ...], NDArray[Any]]]:
        """Give out where each block of the result lies, and its elements."""
        raise NotImplementedError

    @property
    def beside(self) -> int:
        """Return the bytes that are held beside a block."""
        packed = self.given._core.unpack_bytes if isinstance(self.given, Array) else 0
        return 2 * PIECE + STAGING + self.place.beside + packed

    def rows(self, extent: int, row: int) -> int:
        """Return how many of `extent` rows of so many bytes are held at a time."""
        most = max(1, min(extent, _BLOCK // max(1, row)))
        step = self.call.share("a block of rows", 3 * row, most, fixed=self.beside)
        chunk = 1 if self.place.in_memory or not self.place.chunks else self.place.chunks[0]
        return step // chunk * chunk if chunk < step else step

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> Any:
        """Make them, and publish the result."""
        if 0 in self.shape:
            self.place.open(stack)
            return self.place.close()
        first = True
        for where, values in self.blocks():
            if first:  # once there was room for a block
                core = self.place.open(stack)
                target = None if self.place.in_memory else built_aside(core)
                first = False
            moved.bytes_read += values.nbytes
            moved.bytes_written += values.nbytes
            if target is None:
                assert self.place.values is not None
                self.place.values[where] = values
            else:
                requests.assign(target, self.call, where, values)
        if target is not None:
            target._core.flush()
        return self.place.close()


class _Take(_Blocks):
    """Parts along one axis, in any order."""

    def __init__(self, call: Call, given: Any, indices: NDArray[Any], axis: int, out: Any) -> None:
        self.indices, self.axis = indices, axis
        shape = (*given.shape[:axis], *indices.shape, *given.shape[axis + 1 :])
        self.flat = (*given.shape[:axis], indices.size, *given.shape[axis + 1 :])
        super().__init__(call, given, shape, out)

    @property
    def row(self) -> int:
        """Return the bytes of a row of a block: of the operand's, where that is longer than the result's."""
        item: int = self.place.dtype.itemsize
        long: int = math.prod(self.flat[1:])
        whole: int = math.prod(self.given.shape[1:])
        if self.axis > 0:
            return max(long, whole) * item
        each: int = math.prod(self.indices.shape[1:])
        return each * long * item

    def least(self) -> int:
        """Return the least limit that the run needs, where the process grows by some MiB until then."""
        return _core.resident_bytes() + self.beside + 3 * self.row + _core.allowed_drift

    def blocks(self) -> Iterator[tuple[tuple[Any, ...], NDArray[Any]]]:
        """Rows of the result, or stretches of indices where these come first."""
        flat = self.indices.ravel()
        if self.axis > 0:
            step = self.rows(self.flat[0], self.row)
            for i in range(0, self.flat[0], step):
                rows = slice(i, min(i + step, self.flat[0]))
                values = _part(self.call, self.given, (rows, *(slice(None),) * (self.axis - 1), flat))
                yield (rows,), values.reshape((rows.stop - rows.start, *self.shape[1:]))
            return
        inner = self.indices.shape[1:]  # whole ones of the result's first dimension
        each = math.prod(inner)
        step = self.rows(self.shape[0] if self.indices.ndim else 1, self.row)
        for i in range(0, self.shape[0] if self.indices.ndim else 1, step):
            last = min(i + step, self.shape[0]) if self.indices.ndim else 1
            values = _part(self.call, self.given, (flat[i * each : last * each],))
            if self.indices.ndim:
                yield (slice(i, last),), values.reshape((last - i, *self.shape[1:]))
            else:
                yield (), values.reshape(self.shape)


def take(
    A: Any, indices: Any, /, axis: int | None = None, out: Any = None, mode: str = "raise", *,
    memory: int | str | None = None,
) -> Any:  # fmt: skip
    """Return the parts at some indices along an axis, in their order.

    Parameters
    ----------
    A : Array, Expression or ndarray
        A lazy expression is stored in scratch first.
    indices : array of int
        Any shape; negative ones count from the end.
    axis : int, optional
        Needed where there are several dimensions.
    out : path, Array or ndarray, optional
        Where the result goes, as for `compute`. Default: scratch.
    mode : {"raise"}
        What is outside is an IndexError.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array

    Raises
    ------
    IndexError
        An index is outside.
    BudgetError
        The limit has no room for a row of the result, thrice.

    Notes
    -----
    No flops. Blocks of 32 MiB of the result, one after the other: of each the chunks that it touches are read
    once; writes the result.
    """
    if mode != "raise":
        raise ValueError(f"take: mode is {mode!r}; 'raise' is possible here.")
    return _taken(A, indices, axis, out, memory).run()


def take_least(A: Any, indices: Any, axis: int) -> int:
    """Return the least limit that `take` needs: of a chain of calls, which refuses once."""
    return _taken(A, indices, axis, None, None).least()


def _taken(A: Any, indices: Any, axis: int | None, out: Any, memory: Any) -> _Take:
    call = Call("take", memory)
    given = _stored(call, A, "take")
    if axis is None:
        if given.ndim != 1:
            raise ValueError(f"take: the array is {shape_text(given.shape)}; say along which axis.")
        axis = 0
    along = one_axis("take", axis, given.ndim)
    chosen = _integers("take", indices)
    _inside("take", chosen, given.shape[along])
    return _Take(call, given, chosen, along, out)


def _integers(who: str, indices: Any) -> NDArray[Any]:
    chosen = np.asarray(indices)
    if chosen.dtype.kind not in "iu" and chosen.size:
        raise TypeError(f"{who}: indices are {chosen.dtype}; integers are needed.")
    return chosen.astype(np.intp, copy=False)


def _inside(who: str, chosen: NDArray[Any], extent: int) -> None:
    for end in (chosen.min(), chosen.max()) if chosen.size else ():
        if not -extent <= end < extent:
            raise IndexError(f"{who}: index {end} is outside of an axis of {extent}.")


class _Along(_Blocks):
    """Elements along an axis, of each lane its own."""

    def __init__(self, call: Call, given: Any, indices: Any, axis: int, out: Any) -> None:
        self.indices, self.axis = indices, axis
        try:
            others = np.broadcast_shapes(
                tuple(1 if d == axis else n for d, n in enumerate(given.shape)),
                tuple(1 if d == axis else n for d, n in enumerate(indices.shape)),
            )
        except ValueError:
            raise ShapeError(
                f"take_along_axis: the array is {shape_text(given.shape)} and indices are "
                f"{shape_text(indices.shape)}; they must broadcast but for the axis."
            ) from None
        shape = tuple(indices.shape[axis] if d == axis else n for d, n in enumerate(others))
        super().__init__(call, given, shape, out)

    def blocks(self) -> Iterator[tuple[tuple[Any, ...], NDArray[Any]]]:
        """Stretches of lanes, whole."""
        cut = 0 if self.axis > 0 else 1
        if cut >= len(self.shape):
            self.rows(1, (self.given.shape[0] + 2 * self.shape[0]) * 8)
            yield (), self.of((slice(None),))
            return
        lanes = math.prod(self.shape[:cut] + self.shape[cut + 1 :])
        long = math.prod(n for d, n in enumerate(self.given.shape) if d != cut)
        step = self.rows(self.shape[cut], max(8 * lanes, 8 * long))
        for i in range(0, self.shape[cut], step):
            where = (slice(None),) * cut + (slice(i, min(i + step, self.shape[cut])),)
            yield where, self.of(where)

    def of(self, where: tuple[slice, ...]) -> NDArray[Any]:
        """Return a block of the result."""

        def own(given: Any) -> NDArray[Any]:
            key = tuple(slice(None) if given.shape[d] == 1 else part for d, part in enumerate(where))
            return _part(self.call, given, key)

        indices = own(self.indices)
        if indices.dtype.kind not in "iu":
            raise TypeError(f"take_along_axis: indices are {indices.dtype}; integers are needed.")
        _inside("take_along_axis", indices, self.given.shape[self.axis])
        return np.take_along_axis(own(self.given), indices.astype(np.intp, copy=False), self.axis)


def take_along_axis(
    A: Any, indices: Any, /, axis: int | None = -1, *, out: Any = None, memory: int | str | None = None
) -> Any:
    """Return, of each lane along an axis, the elements at indices of its own.

    Parameters
    ----------
    A : Array, Expression or ndarray
        A lazy expression is stored in scratch first.
    indices : Array or array of int
        As many dimensions as A, which broadcast but for the axis.
    axis : int
        Along which.
    out : path, Array or ndarray, optional
        Where the result goes, as for `compute`. Default: scratch.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    Array

    Raises
    ------
    IndexError
        An index is outside.
    ShapeError
        The shapes do not agree.
    BudgetError
        The limit has no room for a lane.

    Notes
    -----
    No flops. Reads both once by stretches of whole lanes, about 32 MiB; writes the result.
    """
    call = Call("take_along_axis", memory)
    given, chosen = _stored(call, A, "take_along_axis"), _stored(call, indices, "take_along_axis")
    if given.ndim != chosen.ndim or given.ndim == 0:
        raise ShapeError(
            f"take_along_axis: the array is {shape_text(given.shape)} and indices are "
            f"{shape_text(chosen.shape)}; as many dimensions are needed."
        )
    if axis is None:
        if given.ndim != 1:
            raise ValueError(
                f"take_along_axis: the array is {shape_text(given.shape)}; say along which axis."
            )
        axis = 0
    along = one_axis("take_along_axis", axis, given.ndim)
    return _Along(call, given, chosen, along, out).run()


class _Nonzero(Streaming[tuple[NDArray[np.int64], ...]]):
    """The places of what is not zero."""

    method = "streaming"

    def __init__(self, call: Call, given: Expression) -> None:
        super().__init__(call)
        self.given = given

    @property
    def what(self) -> str:
        """What statistics call it."""
        return f"nonzero {shape_text(self.given.shape)}"

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> tuple[NDArray[np.int64], ...]:
        """Count them, and put their places down."""
        given, shape = self.given, self.given.shape
        if not given.size:
            return tuple(np.empty(0, np.int64) for _ in shape)
        true = cast(given, np.dtype(bool))
        # How many there are is not known yet: a refusal names what the second read takes, and few places.
        self.call.room("the places", 2 * PIECE + STAGING + min(_FEW, 8 * given.size * len(shape)))
        number = int(compute(reduce(true, "sum", None, False), memory=self.call.memory))
        row = max(1, given.size // shape[0]) * (1 + 8 * len(shape))
        fixed = 8 * number * len(shape) + 2 * PIECE + STAGING
        step = self.call.share("the places", row, max(1, min(shape[0], _BLOCK // row)), fixed=fixed)
        found = tuple(np.empty(number, np.int64) for _ in shape)
        at = 0
        for i in range(0, shape[0], step):
            part = np.asarray(dispatch().part(true, BasicIndexer(np.s_[i : i + step], shape), self.call.who))
            moved.bytes_read += part.size * given.dtype.itemsize
            places = np.nonzero(part)
            for d, own in enumerate(places):
                found[d][at : at + len(own)] = own + i if d == 0 else own
            at += len(places[0])
        return found


def nonzero(x: Any, /, *, memory: int | str | None = None) -> tuple[NDArray[np.int64], ...]:
    """Return the indices of what is not zero, an array for each dimension.

    Parameters
    ----------
    x : Array, Expression or ndarray
        Of one dimension or more.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    tuple of ndarray
        int64, in C order: 8 bytes a dimension for each of them, in memory.

    Raises
    ------
    BudgetError
        They do not fit; known once they were counted.

    Notes
    -----
    Two reads: one counts, one puts down.
    """
    call = Call("nonzero", memory)
    given = as_expression(off_the_map(call, x), "nonzero")
    if given.ndim == 0:
        raise ShapeError("nonzero: the array has no dimensions; one at least is needed.")
    for leaf in leaves(given):
        if isinstance(leaf.payload, Array):
            leaf.payload.flush()
    return _Nonzero(call, given).run()
