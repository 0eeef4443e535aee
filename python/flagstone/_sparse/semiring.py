"""Products of a streamed sparse matrix over other additions and multiplications; masks and frontiers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._array.elementwise import Elementwise
from .._array.requests import empty
from .._errors.classes import ShapeError
from .._output.place import IN_MEMORY, Place
from .._runtime.arguments import array_of
from .._runtime.call import Call
from .._runtime.routine import At, How, Routine
from .index import Chosen, as_slice, chosen
from .steps import streamed
from .validation import check_listed

__all__ = ["SEMIRINGS", "SWAPPED", "Over", "SemiringProduct", "dtypes_of", "is_frontier"]

_SMALL = 1 << 20  # bytes that are no reason to refuse anything

_ADDITIONS: dict[str, Any] = {
    "plus": np.add, "min": np.minimum, "max": np.maximum, "or": np.logical_or,
}  # fmt: skip

#: Names of semirings: addition and multiplication.
SEMIRINGS = (
    "plus_times", "min_plus", "max_plus", "max_times", "or_and", "min_first", "min_second", "plus_pair",
)  # fmt: skip

SWAPPED = {"min_first": "min_second", "min_second": "min_first"}  # where X is the first factor


@dataclass(frozen=True)
class Over:
    """How a product adds and multiplies, and which of its elements are wanted.

    Attributes
    ----------
    semiring : str
        One of `SEMIRINGS`.
    mask : array_like, SciPy matrix, SparseArray or None
        One bool for each row (of X A: column) of the product, or a bool array or a pattern of its shape.
    complement : bool
        Those elements instead that the mask leaves out.
    accumulate : bool
        Add to what `out` holds.
    dtype : numpy.dtype or None
        An integer one: whole numbers are multiplied and added exactly, and wrap.
    """

    semiring: str = "plus_times"
    mask: Any = None
    complement: bool = False
    accumulate: bool = False
    dtype: np.dtype[Any] | None = None

    def check(self, who: str) -> None:
        """Refuse what says nothing."""
        if self.dtype is not None and self.semiring != "plus_times":
            raise ShapeError(
                f"{who}: dtype is {self.dtype} and the semiring {self.semiring}, whose dtype follows from "
                "A and "
                "X; leave dtype out, or take plus_times."
            )
        if self.complement and self.mask is None:
            raise ShapeError(
                f"{who}: complement is of a mask, and none was given; give mask= or leave it out."
            )

    @property
    def plain(self) -> bool:
        """Whether it is the product that everybody knows."""
        plus_times = self.semiring == "plus_times" and self.dtype is None
        return plus_times and self.mask is None and not self.accumulate

    @property
    def add(self) -> Any:
        """The addition, as a ufunc."""
        return _ADDITIONS[self.semiring.partition("_")[0]]

    def nothing(self, dtype: np.dtype[Any]) -> Any:
        """Return what adds nothing."""
        addition = self.semiring.partition("_")[0]
        if addition in ("plus", "or"):
            return dtype.type(0)
        if dtype.kind == "f":
            return dtype.type(np.inf if addition == "min" else -np.inf)
        ends = np.iinfo(dtype)
        return dtype.type(ends.max if addition == "min" else ends.min)


def _summed(who: str, name: str, given: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which numbers are added."""
    if given.kind == "f":
        return np.dtype(np.float32 if given.itemsize <= 4 else np.float64)
    if given == np.uint64:
        raise ShapeError(f"{who}: {name} is uint64 and whole numbers are added in int64; give narrower ones.")
    return np.dtype(np.int64)


def dtypes_of(
    who: str, semiring: str, a: Any, x: np.dtype[Any], asked: np.dtype[Any] | None
) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return in which dtype a product of A and X is added up, and as what X is read."""
    truth = np.dtype(np.bool_)
    if a.dtype.kind == "c":
        raise ShapeError(
            f"{who}: A is {a.dtype}; over a semiring, with a mask, of a sparse X or accumulated real "
            "values are needed: take A.real, A.imag or abs(A)."
        )
    if semiring == "or_and":
        return truth, truth
    if semiring == "plus_pair":
        return np.dtype(np.int64), truth
    changed = any(kind != "cast" or what.kind == "b" for kind, what in a._steps)
    values = a.dtype if not changed else streamed(a.dtype)
    if semiring == "min_first":
        return _summed(who, "A", values), truth
    whole = values.kind in "biu" and x.kind in "biu"
    if asked is not None and not whole:
        raise ShapeError(
            f"{who}: dtype is {asked}, A is {values} and X is {x}; exact sums of whole numbers "
            "need integers in both (A stored as integers, X.astype(int))."
        )
    whole = whole and (semiring != "plus_times" or asked is not None)
    if semiring == "min_second" or whole:
        _summed(who, "A", values)
        made = _summed(who, "X", x)
    else:
        made = np.dtype(np.float32 if x == np.float32 else np.float64)
    return made, made


def _seen(array: _core.Array) -> _core.Operand:
    return _core.Operand(array, False, False)


def is_frontier(x: Any) -> bool:
    """Say whether it is a SciPy matrix."""
    return hasattr(x, "tocoo") and hasattr(x, "nnz")


class OverSemiring(Routine[Any]):
    """What products over semirings have in common: their shape and their name."""

    a: Any
    over: Over
    operand: _core.CsrOperand
    vector: bool
    left: bool
    outer: int
    width: int

    @property
    def _seen(self) -> tuple[int, ...]:
        """The shape of the product as the caller gets it."""
        if self.vector:
            return (self.outer,)
        return (self.width, self.outer) if self.left else (self.outer, self.width)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        name = f"{self.call.who} {self.over.semiring} {shape_text(self.a.shape)} sparse"
        return f"{name}, {self.operand.read_values:,} stored values"


class SemiringProduct(OverSemiring):
    """A X or X A over a semiring, of a sparse A on disk and vectors in memory: run it or plan it.

    Inside everything is A X: of X A the transposes are taken, of a transposed A the sums over stored rows.
    """

    def __init__(
        self, call: Call, a: Any, x: Any, over: Over, *, left: bool = False, out: Any = None
    ) -> None:
        self.over, self.left, self.out = over, left, out
        over.check(call.who)
        self.semiring = SWAPPED.get(over.semiring, over.semiring) if left else over.semiring
        if over.accumulate and out is None:
            raise ShapeError(f"{call.who}: accumulate needs an out= that holds Y; give one or leave it out.")
        a = a._whole(call.who, call.memory)
        call.on(a.path)
        matrix = a.T if left else a
        self.sparse = is_frontier(x)
        x = self._vectors(call, x, matrix.shape[1])
        self.dtype, kept = dtypes_of(call.who, self.semiring, a, x.dtype, over.dtype)
        self.outer, self.width = matrix.shape[0], x.shape[1]
        check_listed(call.who, a.shape, max(a.shape), "values")
        self.there = None if not self.sparse else self._stored_of(call, "where X has entries", x)
        self.x = self._dense(call, x, kept)
        self.turned = matrix._transposed
        self.allowed = None if over.mask is None else self._mask(call)
        self.old = self._old(call.who) if out is not None else None
        if self.allowed is not None and self.old is not None and np.may_share_memory(self.allowed, self.old):
            if self.allowed.nbytes > _SMALL:
                call.room("a copy of the mask, which is out", self.allowed.nbytes)
            self.allowed = self.allowed.copy()  # it is read after `out` was cleared
        self.rows: Chosen | None = None  # of the product, those that are computed; None: all
        rows = matrix.T if self.turned else matrix  # as they are stored
        picked = self._picked(rows.shape[0])
        if picked is not None and len(picked) < rows.shape[0]:
            rows = rows._of_rows(picked)
            self.operand = _core.touched_csr(rows.operand())
            if self.turned:
                self.x = np.ascontiguousarray(self.x[as_slice(picked)])
                self.there = np.ascontiguousarray(self.there[as_slice(picked)])  # type: ignore[index]
            else:
                self.rows = picked
        else:
            self.operand = rows.operand()
        self.a, self.seen = a, rows.shape[0]
        made = self.outer if self.rows is None else len(self.rows), self.width
        self.place = Place(call, made, self.dtype, IN_MEMORY, ())
        self.found = Place(call, made, np.dtype(np.bool_), IN_MEMORY, ()) if self.sparse else None
        super().__init__(call, [self.place] if self.found is None else [self.place, self.found])

    # Arguments --------------------------------------------------------------------------------------------

    def _vectors(self, call: Call, x: Any, inner: int) -> Any:
        """Return X with a column for each vector: an ndarray, or SciPy's matrix."""
        self.vector = False
        if not self.sparse:
            given: Any = x
            if isinstance(x, Elementwise) and given.nbytes > _SMALL:
                call.room("X", given.nbytes)
            x = array_of(call.who, "X", x)
            self.vector = x.ndim == 1
        if x.ndim not in ((2,) if self.sparse else (1, 2)) or x.dtype.kind not in "biuf":
            raise ShapeError(
                f"{call.who}: X is {shape_text(tuple(x.shape))} {x.dtype}; a vector or a matrix of real "
                "numbers is needed."
            )
        shape = tuple(x.shape)
        x = x[:, None] if self.vector else x.T if self.left else x
        if x.shape[0] != inner:
            name = "rows must equal X's columns" if self.left else "columns must equal X's rows"
            raise ShapeError(f"{call.who}: A's {name} and X is {shape_text(shape)}; {inner} are needed.")
        return x

    @staticmethod
    def _stored_of(call: Call, what: str, x: Any) -> NDArray[np.bool_]:
        if math.prod(x.shape) > _SMALL:
            call.room(what, math.prod(x.shape))
        there, entries = np.zeros(x.shape, np.bool_), x.tocoo()
        there[entries.row, entries.col] = True
        return there

    def _dense(self, call: Call, x: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        as_it_is = isinstance(x, np.ndarray) and x.dtype == dtype and x.flags.c_contiguous
        nbytes = x.shape[0] * x.shape[1] * (dtype.itemsize + 1)
        if nbytes > _SMALL and not as_it_is:
            call.room("X and where it is", nbytes)
        if self.semiring in ("plus_pair", "min_first"):  # which pairs there are is all that counts
            return np.ones(x.shape, np.bool_) if self.there is None else self.there
        if self.there is None:
            return np.ascontiguousarray(x, dtype)
        made, entries = np.zeros(x.shape, dtype), x.tocoo(copy=True)
        entries.sum_duplicates()
        made[entries.row, entries.col] = entries.data
        return made

    def _mask(self, call: Call) -> NDArray[np.bool_]:
        """Return which elements are wanted: one for each row of the product, or of its shape."""
        mask, seen = self.over.mask, self._seen
        if hasattr(mask, "to_scipy"):
            if mask.nbytes + math.prod(seen) > _SMALL:
                call.room("the mask", math.prod(seen) + mask.nbytes)
            mask = mask.to_scipy()
        given = (
            self._stored_of(call, "the mask", mask)
            if is_frontier(mask)
            else array_of(call.who, "the mask", mask)
        )
        if given.dtype.kind != "b":
            raise ShapeError(f"{call.who}: the mask is {given.dtype}; bool is needed (mask != 0).")
        if given.shape == seen and given.ndim == 2:
            given = given.T if self.left else given
        elif given.shape != (self.outer,):
            raise ShapeError(
                f"{call.who}: the mask is {shape_text(given.shape)}; {self._wanted_mask()} is needed."
            )
        if not self.over.complement:
            return given
        if given.nbytes > _SMALL:
            call.room("the mask's complement", given.nbytes)
        return ~given

    def _wanted_mask(self) -> str:
        way = "column" if self.left and not self.vector else "row"
        return f"one bool for each of {self.outer} {way}s, or {shape_text(self._seen)}"

    def _old(self, who: str) -> NDArray[Any]:
        out = self.out
        if not isinstance(out, np.ndarray) or self.sparse:
            what = (
                "the product with a sparse X is a SciPy matrix"
                if self.sparse
                else f"out is {type(out).__name__}"
            )
            raise ShapeError(
                f"{who}: {what}; over a semiring, or with a mask, out is an ndarray or left out."
            )
        dtype = self.dtype if self.over.dtype is None else self.over.dtype
        if out.shape != self._seen or out.dtype != dtype or not out.flags.writeable:
            raise ShapeError(
                f"{who}: out is {shape_text(out.shape)} {out.dtype} and the product {shape_text(self._seen)} "
                f"{dtype}; they must agree, and out be writeable."
            )
        return out[:, None] if self.vector else out.T if self.left else out

    def _picked(self, extent: int) -> Chosen | None:
        """Return which stored rows are needed: those of X's entries, or of the mask's; None: all."""
        if self.turned:
            return chosen(self.there.any(1), 0, extent) if self.there is not None else None
        if self.allowed is None:
            return None
        return chosen(self.allowed if self.allowed.ndim == 1 else self.allowed.any(1), 0, extent)

    # The call ---------------------------------------------------------------------------------------------

    def how(self, job: Any) -> How:
        """Say how it is computed, and which rows are read."""
        told = "" if self.seen == self.a._seen_rows else f"{self.seen:,} of {self.a._seen_rows:,} stored rows"
        return How("row panels", note=told)

    @property
    def beside(self) -> int:
        """Bytes that results take: what is computed, and the whole product where that is not all of it."""
        whole = self.rows is not None and self.old is None and not self.sparse
        asked = self.over.dtype
        each = self.dtype.itemsize if whole else 0
        each += 0 if asked is None or asked == self.dtype else asked.itemsize
        return int(super().beside + self.outer * self.width * each)

    def job(self, at: At) -> _core.Job:
        """Return the job."""
        there = None if self.there is None else _core.memory_array(self.there)
        return _core.csr_semiring_job(
            self.operand, self.semiring, self.turned, _seen(_core.memory_array(self.x)), there,
            _seen(at(self.place)), None if self.found is None else at(self.found),
        )  # fmt: skip

    def run(self) -> Any:
        """Stream the matrix and return the product."""
        if 0 in self.place.shape or 0 in self.x.shape or self.operand.read_values == 0:
            if self.beside > _SMALL:
                self.call.room("the product", self.beside)
            made = np.full(self.place.shape, self.over.nothing(self.dtype), self.dtype)
            return self._given(made, np.zeros(self.place.shape, np.bool_))
        return super().run()

    def result(self, job: Any) -> Any:
        """Return the product as the caller gets it."""
        made = self.place.close()
        return self._given(made, None if self.found is None else self.found.close())

    def _given(self, made: NDArray[Any], found: NDArray[np.bool_] | None) -> Any:
        if self.sparse:
            assert found is not None
            return self._as_scipy(made, found)
        if self.allowed is not None or self.old is not None:
            made = self._merged(made)
        if self.out is not None:
            return self.out
        if self.over.dtype not in (None, made.dtype):  # into pages, which go back whole
            wide, made = made, empty(made.shape, self.over.dtype)
            np.copyto(made, wide, casting="unsafe")
        return made[:, 0] if self.vector else made.T if self.left else made

    def _wanted(self) -> NDArray[np.bool_]:
        """Return the mask by rows and columns."""
        assert self.allowed is not None
        return self.allowed if self.allowed.ndim == 2 else self.allowed[:, None]

    def _merged(self, made: NDArray[Any]) -> NDArray[Any]:
        """Put what was computed among what is not wanted, of `out` or nothing: some rows at a time."""
        nothing, accumulate = self.over.nothing(self.dtype), self.over.accumulate
        if self.old is not None:
            whole = self.old
            if self.rows is not None and not accumulate:
                whole[...] = nothing
        elif self.rows is None:
            whole = made
        else:
            whole = np.full((self.outer, self.width), nothing, self.dtype)
        step = max(1, _SMALL // max(1, self.width * self.dtype.itemsize))
        for at in range(0, len(made), step):
            part = made[at : at + step]
            rows: Any = slice(at, at + step) if self.rows is None else as_slice(self.rows[at : at + step])
            if accumulate:
                part = self.over.add(whole[rows], part)
            if self.allowed is not None:
                part = np.where(self._wanted()[rows], part, whole[rows] if accumulate else nothing)
            whole[rows] = part
        return whole

    def _as_scipy(self, made: NDArray[Any], found: NDArray[np.bool_]) -> Any:
        from scipy import sparse

        if self.allowed is not None:
            found = found & self._wanted()[slice(None) if self.rows is None else as_slice(self.rows)]
        row, column = np.nonzero(found)
        values = made[row, column]
        if self.rows is not None:
            row = np.arange(self.outer)[as_slice(self.rows)][row]
        shape = (self.outer, self.width)
        if self.over.dtype is not None:
            values = values.astype(self.over.dtype, copy=False)
        product = sparse.csr_matrix((values, (row, column)), shape=shape)
        return product.T.tocsr() if self.left else product
