"""Sparse matrices written in another layout: indices in few bits, patterns, one triangle, all elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import shape_text
from .._errors.classes import ShapeError
from .._resume.identity import identity
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.csrmm import Csrmm
from .._sparse.external_sort import Triplets, Work, build_csr
from .._sparse.row_blocks import row_blocks
from .elementwise import Out
from .written import BESIDE, Rows, SparseResult, in_rows

__all__ = ["Laid", "whole"]

_EXACT = 1e-10  # ‖A x - Aᴴ x‖ ÷ ‖A x‖ that is taken for rounding


class Laid(SparseResult):
    """The same matrix in another layout; of a stored triangle the stored rows."""

    operation = "sparse layout"

    def __init__(self, call: Call, a: SparseArray, layout: str, out: Out) -> None:
        """`layout`: checked words."""
        self.layout = layout
        self.lower = "triangle" in layout and not a.triangle  # what lies above the diagonal goes
        if self.lower:
            _check_symmetric(call, a)
        matrix = in_rows(call, "A", a)
        super().__init__(call, [matrix], matrix.shape, matrix.dtype, matrix.stored_values, out)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = self.operands[0].stored_values
        return f"{self.call.who} {shape_text(self.shape)} sparse as {self.layout}, {stored:,} stored values"

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield the rows."""
        for row, pointers, columns, values in row_blocks(
            self.call, self.operands[0], first, beside=BESIDE, fixed=self.fixed, stored=True
        ):
            if not self.lower:
                yield pointers, columns, values
                continue
            rows = np.repeat(np.arange(row, row + len(pointers) - 1), np.diff(pointers))
            stay = columns.astype(np.int64, copy=False) <= rows
            yield np.concatenate([[0], np.cumsum(stay)])[pointers], columns[stay], values[stay]

    def arguments(self) -> dict[str, Any]:
        """Return the operand and the layout."""
        return {"a": identity(self.operands[0]), "layout": self.layout}


def _check_symmetric(call: Call, a: SparseArray) -> None:
    """Refuse a matrix that is not symmetric or Hermitian: two reads, one of which sums over rows."""
    if a.shape[0] != a.shape[1]:
        raise ShapeError(f"{call.who}: A is {shape_text(a.shape)}; of a square matrix a triangle is stored.")
    x = np.random.default_rng(0).standard_normal(a.shape[1])
    y, mirrored = (np.asarray(Csrmm(Call(call.who, call.memory), one, x).run()) for one in (a, a.H))
    call.begin()
    length, off = float(np.linalg.norm(y)), float(np.linalg.norm(y - mirrored))
    if not off <= _EXACT * length:
        kind = "Hermitian" if a.dtype.kind == "c" else "symmetric"
        raise ShapeError(
            f"{call.who}: A is not {kind} (‖A x - Aᴴ x‖ is {off:.3g} and ‖A x‖ {length:.3g} of a random "
            "x); one "
            "triangle does not tell the other."
        )


def whole(call: Call, a: SparseArray, target: str, overwrite: bool) -> SparseArray:
    """Write all elements of a matrix of which one triangle is stored, sorted through bucket files."""

    def blocks(work: Work) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        for row, pointers, columns, values in row_blocks(call, a, beside=BESIDE, stored=True):
            rows = np.repeat(np.arange(row, row + len(pointers) - 1), np.diff(pointers))
            columns = columns.astype(np.int64)
            yield rows, columns, values
            below = columns < rows
            yield columns[below], rows[below], np.conj(values[below])

    entries = Triplets(*a.shape, 2 * a.stored_values, a.dtype, blocks, checked=True)
    return build_csr(call, a.path, entries, target, overwrite)
