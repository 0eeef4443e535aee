"""Values that occur once, how often each occurs, where, and which of them every element is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._runtime.call import Call
from .order import stored
from .records import Records
from .stretches import Stretch, flat, length_of, part, stretches

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


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


class _Unique:
    """Elements of an array, sorted with the places where they were."""

    def __init__(self, who: str, x: Any, memory: Any, *, placed: bool) -> None:
        self.call = call = Call(who, memory)
        given = stored(call, x)
        self.shape, self.dtype = given.shape, given.dtype
        line = flat(call, given)
        made = Records(call, [line], 1, False, [True, placed], [None, None]).run()
        del line, given
        call.begin()
        self.values, self.places = made[0], made[1] if placed else None
        item = self.dtype.itemsize
        self.step = length_of(call, len(self.values), 3 * item + 50)
        self.number = sum(int(np.count_nonzero(first)) for _, _, first in self._stretches())

    def _stretches(self) -> Any:
        """Yield the begin of each stretch, its elements, and which are the first of their value.

        A NaN equals no other; 0.0 and −0.0 are one value.
        """
        before: NDArray[Any] | None = None
        for begin, values in stretches(self.call, self.values, self.step):
            first = np.ones(len(values), bool)
            np.not_equal(values[1:], values[:-1], out=first[1:])
            if before is not None:
                first[0] = bool(before != values[0])
            before = values[-1].copy()
            yield begin, values, first

    def counts(self) -> Array:
        """Return how often each occurs."""
        made = Stretch(self.call, "counts", (self.number,), np.int64)
        open_since = -1
        for begin, _, first in self._stretches():
            starts = begin + np.flatnonzero(first)
            if open_since >= 0:
                starts = np.concatenate([[open_since], starts])
            made.append(np.diff(starts))
            open_since = int(starts[-1])
        if self.number:
            made.append(np.array([len(self.values) - open_since], np.int64))
        return made.close()

    def first(self, of: Any, name: str, dtype: Any) -> Array:
        """Return what `of` holds at the first of each value."""
        made = Stretch(self.call, name, (self.number,), dtype)
        for begin, values, first in self._stretches():
            own = values if of is self.values else part(self.call, of, begin, begin + len(values))
            made.append(own[first])
        return made.close()

    def inverse(self) -> Array:
        """Return which value each element is: numbers of values, sorted by the places of elements."""
        numbers = Stretch(self.call, "numbers", (len(self.values),), np.int64)
        known = -1
        for _, _, first in self._stretches():
            own = known + np.cumsum(first)
            numbers.append(own)
            known = int(own[-1])
        line = numbers.close()
        kept = [False, True, False]
        (found,) = Records(self.call, [self.places, line], 1, False, kept, [None] * 3).run()
        self.call.begin()
        if len(self.shape) == 1:
            return found  # type: ignore[no-any-return]
        made = Stretch(self.call, "inverse", self.shape, np.int64)
        for _, values in stretches(self.call, found, self.step):
            made.append(values)
        return made.close()


def unique_values(x: Any, /, *, memory: int | str | None = None) -> Array:
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
    made = _Unique("unique_values", x, memory, placed=False)
    return made.first(made.values, "values", made.dtype)


def unique_counts(x: Any, /, *, memory: int | str | None = None) -> UniqueCounts:
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
    made = _Unique("unique_counts", x, memory, placed=False)
    return UniqueCounts(made.first(made.values, "values", made.dtype), made.counts())


def unique_inverse(x: Any, /, *, memory: int | str | None = None) -> UniqueInverse:
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
    made = _Unique("unique_inverse", x, memory, placed=True)
    return UniqueInverse(made.first(made.values, "values", made.dtype), made.inverse())


def unique_all(x: Any, /, *, memory: int | str | None = None) -> UniqueAll:
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
    made = _Unique("unique_all", x, memory, placed=True)
    values = made.first(made.values, "values", made.dtype)
    return UniqueAll(values, made.first(made.places, "indices", np.int64), made.inverse(), made.counts())
