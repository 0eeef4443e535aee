"""A B of two sparse matrices by rows (Gustavson 1978), and what is kept of each finished row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.dispatch import dispatch
from .._array.handle import is_transposed
from .._array.requests import shape_text
from .._errors.classes import BudgetError, ShapeError
from .._resume.identity import identity
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.row_blocks import lengths_of_rows, row_blocks, rows_bytes
from .._sparse.validation import listed
from .elementwise import Out, as_scipy, load_scipy
from .written import BESIDE, Rows, SparseResult, in_rows

__all__ = ["Kept", "SparseProduct"]

_ENTRY = 32  # bytes of a value of a finished row: twice, while what is kept is chosen
_MOST = 1 << 22  # products of values of a stretch at most


@dataclass(frozen=True)
class Kept:
    """What of a finished row is stored: decided before anything is written.

    Attributes
    ----------
    threshold : float or None
        Values at least that large (not their magnitudes); NaN is not.
    top : int or None
        So many of the largest values of a row; of equal ones those of lower columns.
    mask : SparseArray or None
        Where it stores a value; `complement`: where it stores none.
    """

    threshold: float | None = None
    top: int | None = None
    mask: SparseArray | None = None
    complement: bool = False

    def check(self, who: str) -> None:
        """Refuse what says nothing."""
        top, threshold = self.top, self.threshold
        if top is not None and (isinstance(top, bool) or not hasattr(top, "__index__") or top < 1):
            raise ShapeError(f"{who}: top is {top!r}; an integer of 1 or more is needed.")
        if threshold is not None and (np.asarray(threshold).dtype.kind not in "iuf" or np.ndim(threshold)):
            raise ShapeError(f"{who}: threshold is {threshold!r}; a number is needed.")
        if self.complement and self.mask is None:
            raise ShapeError(
                f"{who}: complement is of a mask, and none was given; give mask= or leave it out."
            )

    def of(self, rows: Rows, cols: int, mask: Rows | None) -> Rows:
        """Return what stays of a stretch of rows."""
        pointers, columns, values = rows
        row = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
        stay = np.ones(len(values), bool)
        if mask is not None:
            masked = np.repeat(np.arange(len(mask[0]) - 1), np.diff(mask[0]))
            seen, known = columns.astype(np.int64, copy=False), mask[1].astype(np.int64)
            if len(pointers) * cols >= 1 << 63:  # numbered, places are of 64 bits
                names, numbers = np.unique(np.concatenate([seen, known]), return_inverse=True)
                cols, seen, known = len(names), numbers[: len(seen)], numbers[len(seen) :]
            stay &= np.isin(row * cols + seen, masked * cols + known) != self.complement
        if self.threshold is not None:
            stay &= values >= self.threshold
        if self.top is not None:
            stay = _largest(rows, stay, self.top)
        return np.concatenate([[0], np.cumsum(stay)])[pointers], columns[stay], values[stay]


def _largest(rows: Rows, stay: NDArray[np.bool_], top: int) -> NDArray[np.bool_]:
    """Return which of those that stay are among the `top` largest of their row."""
    pointers, columns, values = rows
    work = np.empty(max(1, int(np.diff(pointers).max(initial=0))), np.int64)
    columns = np.ascontiguousarray(columns, np.int32 if columns.dtype == np.int32 else np.int64)
    chosen = stay.view(np.uint8)
    _core.keep_largest(
        np.ascontiguousarray(pointers, np.int64),
        columns,
        _in_order(values),
        top,
        work,
        chosen,
    )
    return stay


def _in_order(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers of float64 that are in the order of the values."""
    whole = values.dtype.kind in "iu" and len(values) > 0
    if whole and max(-int(values.min()), int(values.max())) > 1 << 53:
        values = np.unique(values, return_inverse=True)[1]
    return np.ascontiguousarray(values, np.float64)


def _numbered(call: Call, a: Any, b: Any) -> tuple[Any, Any] | None:
    """Return A and B with the columns of A, B's rows, numbered by those that occur: where they are too many.

    B is the transpose of a matrix that is stored by rows, or none of its rows could be stored either.
    """
    if not (isinstance(a, SparseArray) and isinstance(b, SparseArray)) or a.shape[1] != b.shape[0]:
        return None
    if listed(a.shape[1]) or is_transposed(a) or not is_transposed(b):
        return None
    same = identity(a) == identity(b.T)
    made = dispatch().numbered(call.who, [a] if same else [a, b.T], call.memory)
    return made[0], made[-1].T


class SparseProduct(SparseResult):
    """A B: for a stretch of rows of A the rows of B that it names are read, all at once where B fits."""

    operation = "sparse product"

    def __init__(self, call: Call, a: Any, b: Any, kept: Kept, out: Out) -> None:
        if a.shape[1] != b.shape[0]:
            raise ShapeError(
                f"{call.who}: A is {shape_text(a.shape)} and B is {shape_text(b.shape)}; A's columns must "
                f"equal B's rows ({a.shape[1]}, {b.shape[0]})."
            )
        shape = a.shape[0], b.shape[1]
        load_scipy()
        kept.check(call.who)
        ordered = kept.top is not None or kept.threshold is not None
        if ordered and np.result_type(a.dtype, b.dtype).kind == "c":
            raise ShapeError(
                f"{call.who}: the product is complex, and no complex number is larger than another; leave "
                "out top= and threshold=."
            )
        if kept.mask is not None:
            mask = in_rows(call, "mask", kept.mask)
            if mask.shape != shape:
                raise ShapeError(
                    f"{call.who}: mask is {shape_text(mask.shape)} and the product is {shape_text(shape)}; "
                    "they must be equal."
                )
            kept = Kept(kept.threshold, kept.top, mask, kept.complement)
        #: of the operands, where they are numbered
        self.told = None if (made := _numbered(call, a, b)) is None else (identity(a), identity(b))
        a, b = made or (a, b)
        a, b = in_rows(call, "A", a), in_rows(call, "B", b)
        self.a, self.b, self.kept = a, b, kept
        operands = [a, b] if kept.mask is None else [a, b, kept.mask]
        held: int = _core.CsrWriter.memory_bytes(b.shape[1], np.result_type(a.dtype, b.dtype).name)
        needed = sum(rows_bytes(one, BESIDE) for one in operands) + self.working
        call.room("the writer and rows of both", needed + held + 64 * b.shape[1])
        self.lengths = lengths_of_rows(call, b)  # of a view at most
        longest = int(self.lengths.max(initial=0))
        bound = min(a.stored_values * longest, shape[0] * shape[1])
        if kept.top is not None:
            bound = min(bound, shape[0] * int(kept.top))
        if kept.mask is not None and not kept.complement:
            bound = min(bound, kept.mask.stored_values)
        super().__init__(call, operands, shape, np.result_type(a.dtype, b.dtype), bound, out)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.a.shape)} by {shape_text(self.b.shape)}, sparse"

    @property
    def flops(self) -> float:
        """Two for each pair of values that meet: as if A's values were spread evenly over its columns."""
        return 2.0 * self.a.stored_values * float(self.lengths.mean()) if self.lengths.size else 0.0

    @property
    def working(self) -> int:
        """The rows of B that a row of A names, of which one may be as long as B allows, and the product's."""
        longest = min(self.b.shape[1], self.b.stored_values)
        return int(8 * self.b.shape[0] + min(_MOST, max(longest, 1 << 15)) * 2 * _ENTRY)

    def arguments(self) -> dict[str, Any]:
        """Return the operands and what is kept."""
        kept = self.kept
        a, b = self.told or (identity(self.a), identity(self.b))
        return {
            "a": a, "b": b, "threshold": kept.threshold, "top": kept.top,
            "mask": None if kept.mask is None else identity(kept.mask), "complement": kept.complement,
        }  # fmt: skip

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield rows: each is one sum over A's columns, in their order."""
        call, cols = self.call, self.shape[1]
        held = self._whole_b()
        masks = self._masks(first)
        for row, *block in row_blocks(call, self.a, first, beside=BESIDE, fixed=self.fixed + self.working):
            for rows in self._stretches(row, (block[0], block[1], block[2])):
                product = self._product(rows, held)
                mask = None if masks is None else masks.take(len(rows[0]) - 1)
                yield self._in_order(self.kept.of(product, cols, mask))

    def _in_order(self, rows: Rows) -> Rows:
        """Return rows by columns: of the largest few only these are sorted."""
        if self.kept.top is None:
            return rows
        made = as_scipy(rows, self.shape[1])
        made.has_canonical_format = made.has_sorted_indices = False
        made.sort_indices()
        return rows[0], made.indices, made.data

    def _stretches(self, row: int, block: Rows) -> Iterator[Rows]:
        """Cut rows of A where the values of B that they name grow beyond what is held at a time."""
        pointers, columns, values = block
        each = np.concatenate([[0], np.cumsum(self.lengths[columns])])[pointers]
        room = self.call.share("rows of B and of the product", 2 * _ENTRY, _MOST, fixed=self.fixed, least=1)
        at = 0
        while at < len(pointers) - 1:
            end = int(np.searchsorted(each, each[at] + room, side="right")) - 1
            if end == at and (needed := int(each[at + 1] - each[at])) > _MOST // 4:
                self.call.room(f"row {row + at} of the product ({needed:,} values meet)", 2 * _ENTRY * needed)
            end = min(max(end, at + 1), len(pointers) - 1)
            low, high = int(pointers[at]), int(pointers[end])
            yield pointers[at : end + 1] - low, columns[low:high], values[low:high]
            at = end

    def _whole_b(self) -> Any:
        """Return all of B in memory where that leaves half of the room, else None."""
        b = self.b
        needed = 3 * b.stored_values * (b.dtype.itemsize + 8) + 16 * b.shape[0]
        try:
            left = self.call.room("B", needed + self.fixed + self.beside)
        except BudgetError:
            return None
        return self._loaded(b) if left > needed else None

    def _loaded(self, b: SparseArray) -> Any:
        parts = [(p, c, v) for _, p, c, v in row_blocks(self.call, b, fixed=self.fixed)]
        ends = np.cumsum([0, *(len(v) for _, _, v in parts)])
        pointers = [np.zeros(1, np.int64), *(p[1:] + e for (p, _, _), e in zip(parts, ends, strict=False))]
        columns = np.concatenate([c for _, c, _ in parts]) if parts else np.zeros(0, np.int64)
        values = np.concatenate([v for _, _, v in parts]) if parts else np.zeros(0, b.dtype)
        return as_scipy((np.concatenate(pointers), columns, values), b.shape[1])

    def _product(self, rows: Rows, held: Any) -> Rows:
        pointers, columns, values = rows
        if held is None:
            named, columns = np.unique(columns.astype(np.int64), return_inverse=True)
            held = self._loaded(self.b[named])
        left = as_scipy((pointers, columns, values), held.shape[0])
        made = left @ held
        if self.kept.top is None:
            made.sort_indices()
        return made.indptr.astype(np.int64), made.indices, made.data

    def _masks(self, first: int) -> _Stream | None:
        mask = self.kept.mask
        if mask is None:
            return None
        return _Stream(row_blocks(self.call, mask, first, beside=BESIDE, fixed=self.fixed + self.working))


class _Stream:
    """Stretches of rows, given out in other lengths."""

    def __init__(self, blocks: Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]) -> None:
        self._blocks = blocks
        self._held: Rows = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)

    def take(self, rows: int) -> Rows:
        """Return the next rows."""
        while len(self._held[0]) - 1 < rows:
            _, pointers, columns, values = next(self._blocks)
            p, c, v = self._held
            self._held = (
                np.concatenate([p, pointers[1:] + p[-1]]), np.concatenate([c, columns]),
                np.concatenate([v, np.ones(len(values))]),
            )  # fmt: skip
        pointers, columns, values = self._held
        end = int(pointers[rows])
        self._held = pointers[rows:] - end, columns[end:], values[end:]
        return pointers[: rows + 1], columns[:end], values[:end]
