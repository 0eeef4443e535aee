"""Reductions of sparse matrices that are not computed yet: several of one matrix share a read of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._array.elementwise import Elementwise
from .._errors.classes import NumericalError, ShapeError
from .._expression.reductions import Reduced
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .validation import check_listed

__all__ = ["SparsePass", "SparseReduced", "stored_shape"]

_EXACT = 2**53  # integers up to here are exact in float64, in which matrices stream
_FOLDS = {"sum": "sum", "mean": "sum", "min": "min", "max": "max", "count_nonzero": "nonzero"}


def stored_shape(view: Any) -> tuple[int, int]:
    """Return how many stored rows and columns a view sees."""
    rows, columns = view.shape[::-1] if view._transposed else view.shape
    return rows, columns


class SparsePass(Routine[None]):
    """Folds of the stored values of one matrix in one read: two words for each row or column of it.

    Of columns 2 x n, of rows m x 2; of sums of rows m x 1.
    """

    def __init__(self, call: Call, view: Any, real: str) -> None:
        """`real`: what values are decoded in, as products see them."""
        super().__init__(call)
        self.call.on(view.path)
        self.view, self.real = view, real
        self._folds: dict[tuple[str, bool], Place] = {}

    def fold(self, name: str, rows: bool) -> Place:
        """Ask for a fold along rows or columns; return where its words will be; made once."""
        if (name, rows) not in self._folds:
            m, n = stored_shape(self.view)
            check_listed(self.call.who, self.view.shape, m if rows else n, "sums")
            shape = (m, 1 if name == "sum" else 2) if rows else (2, n)
            place = Place(self.call, shape, np.dtype(np.float64), IN_MEMORY, ())
            self._folds[name, rows] = place
            self.places.append(place)
        return self._folds[name, rows]

    def add(self, item: SparseReduced) -> Callable[[], Any]:
        """Ask for what a reduction needs; return what gives its result once that was computed."""
        place = self.fold(*item.needs)
        return lambda: item.finish(place.result)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = f"{self.view.stored_values:,} stored values"
        several = f", {len(self._folds)} folds" if len(self._folds) > 1 else ""
        return f"{self.call.who} {shape_text(self.view.shape)} sparse, {stored}{several}"

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return How("row panels")

    def job(self, at: At) -> _core.Job:
        """Return the job that writes the words; partial results may go to scratch."""
        self.call.scratch_in_run()
        folds = [_core.CsrFold(name, rows, at(place)) for (name, rows), place in self._folds.items()]
        return _core.csr_folds_job(self.view.operand(self.call.memory), self.real, folds)

    def result(self, job: Any = None) -> None:
        """Let the words be taken."""
        for place in self.places:
            place.close()


class SparseReduced(NDArrayOperatorsMixin, Reduced):
    """A reduction of a sparse matrix that is not computed yet, and acts as the array that it will be.

    ``fl.compute(S.sum(0), S.var(0))`` takes several in one read of S; whatever needs its elements
    (arithmetic, an index, `np.asarray`, any method of ndarrays) computes it alone, once.
    """

    __module__ = "flagstone"
    __hash__ = object.__hash__

    def __init__(self, view: Any, name: str, axis: int | None, ddof: float = 0) -> None:
        if axis is not None and axis not in (-2, -1, 0, 1):
            raise np.exceptions.AxisError(axis, 2)
        self.view, self.name, self.ddof = view, name, ddof
        self.axis = None if axis is None else axis % 2
        self.axes = (0, 1) if self.axis is None else (self.axis,)
        self.keepdims = False
        self.shape = () if self.axis is None else (view.shape[1 - self.axis],)
        self.dtype = np.dtype(np.int64 if name == "count_nonzero" else np.float64)
        if name in ("min", "max"):
            self.dtype = view.dtype
            if self.count == 0:
                raise ShapeError(
                    f"{name}: {shape_text(view.shape)} has no elements to choose from; give at least one."
                )
        self._value: Any = None

    @property
    def count(self) -> int:
        """How many elements each result is made of."""
        return int(math.prod(self.view.shape) if self.axis is None else self.view.shape[self.axis])

    @property
    def needs(self) -> tuple[str, bool]:
        """The fold that it is made of, and whether that is along stored rows."""
        if self.axis is None:  # by columns, as long as these are counted when a matrix is written
            rows = stored_shape(self.view)[1] > _core.most_counted_columns
        else:
            rows = (self.axis ^ int(self.view._transposed)) == 1
        if self.name == "var":
            return "moments" if rows else "column moments", rows
        return _FOLDS[self.name], rows

    @property
    def real(self) -> str:
        """What values are decoded in: as products see them, integers as they are."""
        if self.needs[0] == "column moments":
            return "float64"
        return "float32" if self.view.dtype == np.float32 else "float64"

    def pass_key(self) -> Hashable:
        """Return what is equal for reductions that share a read."""
        view = self.view
        # Without steps float32 values are the same in float64.
        real = self.real if view._steps else "float64"
        steps = tuple((kind, id(part)) for kind, part in view._steps)
        return "sparse", id(view._owner), steps, id(view._rows), id(view._columns), real

    def new_pass(self, call: Call) -> SparsePass:
        """Return a pass over the matrix that others may join."""
        return SparsePass(call, self.view, self.real if self.view._steps else "float64")

    def alone(self, memory: Any = None) -> SparsePass:
        """Return the pass of this one reduction."""
        found = SparsePass(Call(self.name, memory), self.view, self.real)
        found.add(self)
        return found

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to read."""
        return 0 in self.view.shape

    def computed(self, memory: Any = None) -> Any:
        """Read the matrix and return the result."""
        found = self.alone(memory)
        place = found.fold(*self.needs)
        if not self.nothing:
            found.run()
        return self.finish(np.zeros(place.shape) if self.nothing else place.result)

    def _flagstone_value(self) -> Any:
        if self._value is None:
            self._value = self.computed()
        return self._value

    def finish(self, found: NDArray[np.float64]) -> Any:
        """Return the result from the words of its fold."""
        rows = self.needs[1]
        words = [found[:, i] for i in range(found.shape[1])] if rows else [found[0], found[1]]
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.name in ("sum", "mean"):
                sums = self._total(found.T if rows else found) if self.axis is None else self._sums(words)
                return np.float64(1) * sums / self.count if self.name == "mean" else sums
            if self.name == "var":
                return self._variances(*words)
        if self.name == "count_nonzero":
            counts = words[0].astype(np.int64)
            return counts if self.axis is not None else int(counts.sum())
        return self._extremes(*words)

    @staticmethod
    def _sums(words: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return sums of columns with what rounding took from each; those of rows have it."""
        sums = np.array(words[0])
        if len(words) == 2:
            np.add(sums, words[1], out=sums, where=np.isfinite(sums))
        return sums

    @staticmethod
    def _total(found: NDArray[np.float64]) -> float:
        """Return the sum of everything, what rounding took from each column included."""
        if not np.isfinite(found[0]).all():
            return float(np.sum(found[0]))
        try:
            return math.fsum(found.flat)
        except OverflowError:  # beyond float64 on the way
            return float(np.sum(found[0]))

    def _variances(self, sums: Any, squares: Any) -> Any:
        if self.axis is None:
            sums, squares = sums.sum(), squares.sum()
        spread: Any = np.maximum(squares - sums * sums / self.count, 0.0) / max(self.count - self.ddof, 0)
        return spread if self.axis is not None else float(spread)

    def _extremes(self, found: NDArray[np.float64], stored: NDArray[np.float64]) -> Any:
        """Zeros that are not stored count."""
        length = self.count if self.axis is not None else stored_shape(self.view)[int(self.needs[1])]
        found = np.where(stored < length, getattr(np, f"{self.name}imum")(found, 0.0), found)
        if self.axis is None:
            found = np.asarray(getattr(found, self.name)())
        if self.dtype.kind in "iu" and self.dtype.itemsize == 8 and (np.abs(found) > _EXACT).any():
            raise NumericalError(
                f"{self.name}: values beyond 2^53 are not exact in float64, in which sparse matrices stream; "
                "store them as float64 or take to_scipy()."
            )
        return found.astype(self.dtype)[()]

    # It acts as the array that it will be ------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, **options: Any) -> Any:
        """Compute it and apply `ufunc`; with an Array or an expression the result is lazy."""
        if any(isinstance(x, Elementwise) and not isinstance(x, SparseReduced) for x in inputs):
            return super().__array_ufunc__(ufunc, method, *map(_value, inputs), **options)
        if any(hasattr(x, "__array_ufunc__") and not _plain(x) for x in inputs):
            return NotImplemented
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(map(_value, out))
        found = getattr(ufunc, method)(*map(_value, inputs), **options)
        return out[0] if out is not None and len(out) == 1 else found

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        """Compute it and apply a function of NumPy."""
        given = [_value(x) if not isinstance(x, (list, tuple)) else type(x)(map(_value, x)) for x in args]
        return function(*given, **{name: _value(x) for name, x in kwargs.items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_value" not in self.__dict__:
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __setitem__(self, key: Any, value: Any) -> None:
        np.asarray(self)[key] = _value(value)

    def __iter__(self) -> Any:
        return iter(np.asarray(self))

    def __reduce__(self) -> Any:
        return np.asarray, (np.asarray(self),)

    def __repr__(self) -> str:
        if self._value is not None:
            return repr(self._value)
        return f"<flagstone.Reduced {self.name} {shape_text(self.shape)} {self.dtype.name}, pending>"


def _value(given: Any) -> Any:
    return given._flagstone_value() if isinstance(given, SparseReduced) else given


def _plain(given: Any) -> bool:
    return isinstance(given, (np.ndarray, np.generic, SparseReduced))


def _of_array(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(np.asarray(self), name)(*args, **options)

    method.__name__, method.__doc__ = name, f"Compute it; as `numpy.ndarray.{name}`."
    return method


for _name in (
    "all", "any", "argmax", "argmin", "astype", "clip", "max", "mean", "min", "prod", "round", "std", "sum",
    "var",
):  # fmt: skip
    setattr(SparseReduced, _name, _of_array(_name))
