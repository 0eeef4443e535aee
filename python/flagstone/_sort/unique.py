"""Values that occur once, how often each occurs, where, and which of them every element is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import PIECE, Array, shape_text
from .._runtime.call import Call, Moved
from .._runtime.plan import Plan, Stats, together
from .._runtime.routine import Prepared, routine
from .._runtime.runtime import remember, stats
from .order import stored
from .records import Records
from .stretches import Stretch, flat, length_of, part, stretches

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]

R = TypeVar("R")


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


_LOOKED = 4e-9  # seconds of a processor that a look at an element takes (measured: 3 to 5)


class _Unique(Generic[R]):
    """The checked arguments of one call: elements are sorted, with the places where they were if asked for.

    `wanted`: fields of what is returned, made in this order by `made`.
    """

    def __init__(self, call: Call, x: Any, wanted: Sequence[str], made: Callable[..., R]) -> None:
        self.call, self.wanted, self.made = call, wanted, made
        self.given = stored(call, x)
        self.shape, self.dtype = self.given.shape, np.dtype(self.given.dtype)
        self.size = math.prod(self.shape)
        self.placed = bool({"indices", "inverse_indices"} & set(wanted))
        self.done: list[Stats] = []

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.shape)} {self.dtype.name}"

    # The plan ---------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Count its sorts, and looks at what is sorted, as if no value occurred twice."""
        n, item, flat_already = self.size, self.dtype.itemsize, len(self.shape) == 1
        parts = [self._sorted(self.given if flat_already else _planned(n, self.dtype)).plan()]
        if not flat_already and isinstance(self.given, Array):
            parts.append(self._moved(parts[0], n * item, n * item, 0))
        looks = 1 + len(self.wanted)
        read = looks * n * item + (8 * n if "indices" in self.wanted else 0)
        written = sum(n * (item if name == "values" else 8) for name in self.wanted)
        if "inverse_indices" in self.wanted:
            parts.append(self._brought_back(*(_planned(n, np.dtype(np.int64)) for _ in range(2))).plan())
            if not flat_already:
                read, written = read + 8 * n, written + 8 * n
        parts.append(self._moved(parts[0], read, written, looks * n))
        return replace(
            together(self.what, parts),
            method=parts[0].method,
            passes=parts[0].passes,
            scratch_bytes=max(one.scratch_bytes for one in parts) + written,
            note="results are counted as if no value occurred twice: the sort decides how long they are",
        )

    def _moved(self, like: Plan, read: int, written: int, looked: int) -> Plan:
        """Return the plan of stretches that pass through the interpreter."""
        rates = self.call.use_profile().rates
        seconds = read / rates["read_bytes_per_second"] + written / rates["write_bytes_per_second"]
        return replace(
            like, method="stretches", passes=1, bytes_read=read, bytes_written=written, flops=0.0,
            seconds=seconds + _LOOKED * looked, scratch_bytes=0, spaces=(),
        )  # fmt: skip

    # The run ----------------------------------------------------------------------------------------------

    def run(self) -> R:
        """Sort, look, and make what is wanted."""
        self._sort()
        found = [getattr(self, f"_{name}")() for name in self.wanted]
        told = replace(together(self.what, self.done), method=self.done[0].method, passes=self.done[0].passes)
        remember(self.call.runtime, told)
        return self.made(*found)

    def _sorted(self, line: Any) -> Records:
        return Records(self.call, [line], 1, False, [True, self.placed], [None, None])

    def _brought_back(self, places: Any, numbers: Any) -> Records:
        return Records(self.call, [places, numbers], 1, False, [False, True, False], [None] * 3)

    def _run(self, records: Records) -> list[Any]:
        made = records.run()
        self.done.append(stats())
        self.call.begin()
        return made

    @contextlib.contextmanager
    def _pass(self) -> Iterator[Moved]:
        """Count a pass over what is sorted."""
        with self.call.measured(self.what, "stretches") as moved:
            yield moved
        self.done.append(stats())

    def _sort(self) -> None:
        line = self.given
        if len(self.shape) != 1:
            with self._pass() as moved:
                line = flat(self.call, self.given)
                if isinstance(line, Array):
                    moved.bytes_read = moved.bytes_written = line.nbytes
        made = self._run(self._sorted(line))
        del line
        self.values, self.places = made[0], made[1] if self.placed else None
        self.step = length_of(self.call, len(self.values), 3 * self.dtype.itemsize + 50)
        with self._pass() as moved:
            self.number = sum(int(np.count_nonzero(first)) for _, _, first in self._stretches(moved))

    def _stretches(self, moved: Moved) -> Iterator[tuple[int, NDArray[Any], NDArray[np.bool_]]]:
        """Yield the begin of each stretch, its elements, and which are the first of their value.

        A NaN equals no other; 0.0 and −0.0 are one value.
        """
        before: NDArray[Any] | None = None
        for begin, values in stretches(self.call, self.values, self.step):
            moved.bytes_read += values.nbytes
            first = np.ones(len(values), bool)
            np.not_equal(values[1:], values[:-1], out=first[1:])
            if before is not None:
                first[0] = bool(before != values[0])
            before = values[-1].copy()
            yield begin, values, first

    def _made(self, name: str, shape: tuple[int, ...], dtype: Any, moved: Moved) -> Stretch:
        made = Stretch(self.call, name, shape, dtype)
        moved.bytes_written += math.prod(shape) * np.dtype(dtype).itemsize
        return made

    def _values(self) -> Array:
        with self._pass() as moved:
            made = self._made("values", (self.number,), self.dtype, moved)
            for _, values, first in self._stretches(moved):
                made.append(values[first])
            return made.close()

    def _indices(self) -> Array:
        """Return the place of the first of each value."""
        with self._pass() as moved:
            made = self._made("indices", (self.number,), np.int64, moved)
            for begin, values, first in self._stretches(moved):
                own = part(self.call, self.places, begin, begin + len(values))
                moved.bytes_read += own.nbytes
                made.append(own[first])
            return made.close()

    def _counts(self) -> Array:
        """Return how often each occurs."""
        with self._pass() as moved:
            made = self._made("counts", (self.number,), np.int64, moved)
            open_since = -1
            for begin, _, first in self._stretches(moved):
                starts = begin + np.flatnonzero(first)
                if open_since >= 0:
                    starts = np.concatenate([[open_since], starts])
                made.append(np.diff(starts))
                open_since = int(starts[-1])
            if self.number:
                made.append(np.array([len(self.values) - open_since], np.int64))
            return made.close()

    def _inverse_indices(self) -> Array:
        """Return which value each element is: numbers of values, sorted by the places of elements."""
        with self._pass() as moved:
            numbers = self._made("numbers", (len(self.values),), np.int64, moved)
            known = -1
            for _, _, first in self._stretches(moved):
                own = known + np.cumsum(first)
                numbers.append(own)
                known = int(own[-1])
            line = numbers.close()
        (found,) = self._run(self._brought_back(self.places, line))
        if len(self.shape) == 1:
            return found  # type: ignore[no-any-return]
        with self._pass() as moved:
            made = self._made("inverse", self.shape, np.int64, moved)
            for _, values in stretches(self.call, found, self.step):
                moved.bytes_read += values.nbytes
                made.append(values)
            return made.close()


def _planned(length: int, dtype: np.dtype[Any]) -> Array:
    """Return an array that only planners see."""
    return Array(_core.planned_array([length], dtype.name, [max(1, min(length, PIECE // dtype.itemsize))]))


@routine
def unique_values(x: Any, /, *, memory: int | str | None = None) -> Prepared[Array]:
    """Return the values that occur, each once, in increasing order.

    Parameters
    ----------
    x : Array, Expression or ndarray
        Of any dtype and dimensions. A lazy expression is stored in scratch first.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array
        One dimension, in scratch (`convert` keeps it). Every NaN is a value of its own, as the array API has
        it; 0.0 and −0.0 are one.

    Raises
    ------
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    A `sort` (of several dimensions: after one read and one write that put the elements in C order), two
    reads of what is sorted, one write of the result. No table of values is held in memory.
    """
    return _Unique(Call("unique_values", memory), x, ("values",), lambda values: values)


@routine
def unique_counts(x: Any, /, *, memory: int | str | None = None) -> Prepared[UniqueCounts]:
    """Return the values that occur, and how often each does.

    Parameters
    ----------
    x : Array, Expression or ndarray
        As for `unique_values`.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    UniqueCounts
        ``values`` as for `unique_values`, ``counts`` int64.

    Raises
    ------
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    As `unique_values`, with one read more of what is sorted.
    """
    return _Unique(Call("unique_counts", memory), x, UniqueCounts._fields, UniqueCounts)


@routine
def unique_inverse(x: Any, /, *, memory: int | str | None = None) -> Prepared[UniqueInverse]:
    """Return the values that occur, and which of them every element is.

    Parameters
    ----------
    x : Array, Expression or ndarray
        As for `unique_values`.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    UniqueInverse
        ``values`` as for `unique_values`; ``inverse_indices`` int64 of x's shape: ``take(values,
        inverse_indices)`` is x.

    Raises
    ------
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    An `argsort` and a sort of 16 bytes an element, which brings the numbers of values back to where elements
    were.
    """
    return _Unique(Call("unique_inverse", memory), x, UniqueInverse._fields, UniqueInverse)


@routine
def unique_all(x: Any, /, *, memory: int | str | None = None) -> Prepared[UniqueAll]:
    """Return the values that occur, where each is first, which of them elements are, and how often.

    Parameters
    ----------
    x : Array, Expression or ndarray
        As for `unique_values`.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    UniqueAll
        ``values``, ``indices`` (of the elements in C order), ``inverse_indices`` of x's shape, ``counts``.

    Raises
    ------
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    As `unique_inverse`, with two reads more of what is sorted.
    """
    return _Unique(Call("unique_all", memory), x, UniqueAll._fields, UniqueAll)
