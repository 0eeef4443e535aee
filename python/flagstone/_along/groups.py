"""Rows by group: sums, means, variances and numbers, one read whatever the number of groups."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.elementwise import one_ddof
from .._array.mapped import off_the_map
from .._errors.classes import ShapeError
from .._expression.compute import deliver
from .._expression.expression import Expression, cast
from .._runtime.call import Call
from .._runtime.routine import At, Prepared, routine
from .._sparse.array import SparseArray
from .._sparse.to_csr import all_elements
from .looks import Finished, Small, given_value
from .sparse_groups import SparseGroups

__all__ = ["group_count", "group_mean", "group_sum", "group_var"]


def _labels(who: str, given: Any, rows: int | None) -> NDArray[Any]:
    labels = np.asarray(given)
    if labels.ndim != 1 or (rows is not None and len(labels) != rows):
        wanted = "one a row" if rows is None else f"{rows}, one a row,"
        raise ShapeError(f"{who}: labels are {shape_text(labels.shape)}; {wanted} are needed.")
    if labels.dtype.kind not in "iu":
        raise TypeError(
            f"{who}: labels are {labels.dtype}; integers are needed (np.unique(names, return_inverse=True) "
            "makes them of names)."
        )
    if labels.dtype == np.uint64 and len(labels) and int(labels.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{who}: a label is {int(labels.max())}; the number of groups must fit in memory.")
    return labels


def _number(who: str, labels: NDArray[Any], groups: Any) -> int:
    found = max(0, int(labels.max()) + 1) if len(labels) else 0
    if groups is None:
        return found
    if not isinstance(groups, (int, np.integer)) or groups < found:
        raise ValueError(f"{who}: groups is {groups!r} and the largest label {found - 1}; give more.")
    return int(groups)


def _counts(labels: NDArray[Any], groups: int) -> NDArray[np.int64]:
    """Return the rows of each group; a few at a time, so that no copy of all labels is made."""
    counts = np.zeros(groups, np.int64)
    for i in range(0, len(labels), 1 << 20):
        part = labels[i : i + (1 << 20)]
        counts += np.bincount(part[part >= 0], minlength=groups)[:groups]
    return counts


class _Groups(Small):
    """The checked arguments of one fold by group."""

    def __init__(
        self, call: Call, given: Expression, labels: NDArray[Any], groups: int, name: str, out: Any,
        ddof: float = 0,
    ) -> None:  # fmt: skip
        kind = given.dtype.kind
        if name == "sum":
            folded = cast(given, _folded(given.dtype))
            result = folded.dtype if kind in "biu" else given.dtype
        else:
            folded = cast(given, np.float64 if kind in "biu" else _folded(given.dtype))
            result = np.dtype(np.float64) if kind in "biu" else given.dtype
        self.name, self.labels, self.groups, self.ddof = name, labels, groups, ddof
        self.fold = "var" if name == "var" else "sum"
        words = _core.group_words(self.fold, folded.dtype.name)
        rest = given.shape[1:]
        numbers = folded.dtype if self.fold == "sum" and folded.dtype.kind in "iu" else np.dtype(np.float64)
        self.result_dtype = result
        self.plain: NDArray[np.int64] | None = None  # the labels as the kernel takes them
        copied = 8 * len(labels) if labels.dtype != np.int64 or not labels.flags.c_contiguous else 0
        more = 2 * math.prod((groups, *rest)) * 8 + copied
        super().__init__(
            call, folded, ((words, groups, *rest), numbers), ((groups, *rest), result), out, more
        )

    def job(self, at: At) -> _core.Job:
        """Return the fold as a job."""
        target = at(self.numbers)
        built, value = self.looking()
        labels = _core.memory_array(np.empty(0, np.int64) if self.plain is None else self.plain)
        return _core.group_job(built, value, self.fold, labels, self.groups, target)

    def execute(self, stack: contextlib.ExitStack) -> Any:
        """Run the job, once there is room for the labels."""
        self.plain = np.ascontiguousarray(self.labels, np.int64)
        return super().execute(stack)

    def finish(self, numbers: NDArray[Any]) -> Any:
        """Return sums, means or variances."""
        shape = (self.groups, *(1,) * (numbers.ndim - 2))
        with np.errstate(all="ignore"):
            if self.name == "var":
                counts = _counts(self.labels, self.groups).reshape(shape)
                left = np.maximum(counts - self.ddof, 0)
                return (numbers[1] / left).astype(self.result_dtype)
            made = numbers[0]
            if len(numbers) > 1:
                made = np.where(np.isfinite(numbers[0]), numbers[0] + numbers[1], numbers[0])
            if self.name == "mean":
                made = made / _counts(self.labels, self.groups).reshape(shape)
            return made.astype(self.result_dtype, copy=False)


def _folded(dtype: np.dtype[Any]) -> Any:
    """Return what the kernel adds up."""
    if dtype.kind in "bi":
        return np.int64
    return np.uint64 if dtype.kind == "u" else np.float32 if dtype == np.float16 else dtype


def _by_group(
    name: str, a: Any, labels: Any, groups: Any, out: Any, memory: Any, ddof: float = 0
) -> Prepared[Any]:
    who = f"group_{name}"
    call = Call(who, memory)
    if isinstance(a, SparseArray):
        checked = _labels(who, labels, a.shape[0])
        counts = _counts(checked, _number(who, checked, groups))
        return SparseGroups(call, all_elements(who, a, call.memory), checked, counts, name, out, ddof)
    given = given_value(who, off_the_map(call, a), "biuf")
    if given.ndim == 0:
        raise ShapeError(f"{who}: the array has no dimensions; rows are needed.")
    checked = _labels(who, labels, given.shape[0])
    routine = _Groups(call, given, checked, _number(who, checked, groups), name, out, ddof)
    if 0 in given.shape[1:]:  # there is nothing to look at
        shape = (routine.groups, *given.shape[1:])
        return Finished(routine, lambda: np.zeros(shape, routine.result_dtype), out)
    return routine


@routine
def group_sum(
    A: Any, labels: Any, /, *, groups: int | None = None, out: Any = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return the sums of rows by group: row g of the result is group g.

    Parameters
    ----------
    A : Array, Expression, ndarray or SparseArray
        Rows along the first dimension; real numbers.
    labels : array of int
        The group of each row; below 0: none.
    groups : int, optional
        How many there are; default: the largest label and one. Groups without rows are 0.
    out : path, Array or ndarray, optional
        Where the result goes. Default: an ndarray.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    ndarray
        groups x the other extents of A; of A's dtype, 64 bits of integers and booleans.

    Raises
    ------
    ShapeError
        There is not one label a row; `out` does not agree.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    Reads A once, whatever the number of groups; a flop an element. Sums of float64 are compensated, narrower
    floats are added in float64. At most 8 tables of sums, of 64 MiB altogether unless one is larger, are
    filled in turn and joined in a fixed order: neither the limit nor the workers change bits. Of a sparse
    matrix stored values are added in float64 (integers: 64 bits) in the order of rows, on one processor.
    """
    return _by_group("sum", A, labels, groups, out, memory)


@routine
def group_mean(
    A: Any, labels: Any, /, *, groups: int | None = None, out: Any = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return the means of rows by group: row g of the result is group g.

    Parameters
    ----------
    A, labels, groups, out, memory
        As for `group_sum`. Groups without rows are NaN.

    Returns
    -------
    ndarray
        groups x the other extents of A; of A's dtype, float64 of integers and booleans.

    Raises
    ------
    ShapeError
        There is not one label a row; `out` does not agree.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    One read of A; as `group_sum`.
    """
    return _by_group("mean", A, labels, groups, out, memory)


@routine
def group_var(
    A: Any, labels: Any, /, *, groups: int | None = None, ddof: float | None = None,
    correction: float | None = None, out: Any = None, memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the variances of rows by group: row g of the result is group g.

    Parameters
    ----------
    A, labels, groups, out, memory
        As for `group_sum`. Groups without rows are NaN.
    ddof, correction : float
        What is subtracted from the number of rows; two words for one number.

    Returns
    -------
    ndarray
        groups x the other extents of A; of A's dtype, float64 of integers and booleans.

    Raises
    ------
    ShapeError
        There is not one label a row; `out` does not agree.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    One read of A; 5 flops an element: Welford's update in float64, tables joined by Chan's formula. Of a
    sparse matrix squares less the square of sums, in NumPy's longdouble: where the mean is m standard
    deviations, m squared times as much rounding (of longdouble) as the result has of its own.
    """
    return _by_group("var", A, labels, groups, out, memory, one_ddof("group_var", ddof, correction))


def group_count(labels: Any, /, *, groups: int | None = None, out: Any = None) -> Any:
    """Return the number of rows of each group.

    Parameters
    ----------
    labels : array of int
        The group of each row; below 0: none.
    groups : int, optional
        How many there are; default: the largest label and one.
    out : path, Array or ndarray, optional
        Where the result goes. Default: an ndarray.

    Returns
    -------
    ndarray
        int64, one number a group.

    Notes
    -----
    Looks at the labels alone.
    """
    call = Call("group_count")
    checked = _labels("group_count", np.asarray(labels) if isinstance(labels, Array) else labels, None)
    number = _number("group_count", checked, groups)
    call.room("the result", 8 * number)
    return deliver(_counts(checked, number), out)
