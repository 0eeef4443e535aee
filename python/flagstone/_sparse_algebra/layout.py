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
from .._sparse.row_blocks import row_blocks
from .elementwise import Out
from .written import BESIDE, Rows, SparseResult, in_rows

__all__ = ["Laid"]

_PART = 1 << 13  # elements whose marks are made at once


class Laid(SparseResult):
    """The same matrix in another layout; of a stored triangle the stored rows."""

    operation = "sparse layout"

    def __init__(self, call: Call, a: SparseArray, layout: str, out: Out) -> None:
        """`layout`: checked words."""
        self.layout = layout
        self.lower = "triangle" in layout and not a.triangle  # what lies above the diagonal goes
        if self.lower and a.shape[0] != a.shape[1]:
            raise ShapeError(
                f"{call.who}: A is {shape_text(a.shape)}; of a square matrix a triangle is stored."
            )
        matrix = in_rows(call, "A", a, halves=True)
        super().__init__(call, [matrix], matrix.shape, matrix.dtype, matrix.stored_values, out)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = self.operands[0].stored_values
        return f"{self.call.who} {shape_text(self.shape)} sparse as {self.layout}, {stored:,} stored values"

    @property
    def read_bytes(self) -> int:
        """Bytes of the operand, twice where its triangles are compared first."""
        return super().read_bytes * (2 if self.lower else 1)

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield the rows, where a triangle tells all of them."""
        if self.lower and first == 0:  # a dead process that wrote rows had compared them
            _check_symmetric(self.call, self.operands[0], self.fixed)
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


def _check_symmetric(call: Call, a: SparseArray, fixed: int) -> None:
    """Refuse a matrix that is not symmetric or Hermitian, to the bit: one read, by rows.

    Sums of 64 bits over the elements below the diagonal and over the mirrored ones above it, each mixed from
    row, column and value: they differ for all but 2^-64 of matrices with an element that has no twin.
    Beside `fixed` bytes of the writer, whose limit was asked for: one refusal names both.
    """
    kind = "Hermitian" if a.dtype.kind == "c" else "symmetric"
    balance, real = 0, True
    for row, pointers, columns, values in row_blocks(call, a, beside=BESIDE, fixed=fixed):
        rows = np.repeat(np.arange(row, row + len(pointers) - 1), np.diff(pointers))
        for first in range(0, len(rows), _PART):
            part = slice(first, first + _PART)
            marks, real_diagonal = _marks(rows[part], columns[part].astype(np.int64), values[part])
            balance = (balance + marks) % 2**64
            real &= real_diagonal
    if balance != 0 or not real:
        mirrored = "A.H" if kind == "Hermitian" else "A.T"
        raise ShapeError(
            f"{call.who}: A is not {kind}: an element differs from its mirror image, so one triangle does "
            f"not tell the other; where only rounding differs, store (A + {mirrored}) * 0.5."
        )


def _marks(rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[Any]) -> tuple[int, bool]:
    """Return marks of the lower triangle less those of the upper one, and whether the diagonal is real."""
    below, stored = columns < rows, (columns != rows) & (values != 0)
    mark = _mixed(np.maximum(rows, columns).view(np.uint64))
    mark = _mixed(mark ^ np.minimum(rows, columns).view(np.uint64))
    parts = [values]
    if values.dtype.kind == "c":
        parts = [values.real, np.where(below, values.imag, -values.imag)]
    for part in parts:
        exact = part + 0.0 if part.dtype.kind == "f" else part  # -0.0 is 0.0
        bits = exact.astype(np.float64 if part.dtype.kind == "f" else np.int64)
        mark = _mixed(mark ^ bits.view(np.uint64))
    real = values.dtype.kind != "c" or not np.any(values.imag[columns == rows])
    return int(mark[stored & below].sum()) - int(mark[stored & ~below].sum()), bool(real)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64 bits (the finaliser of SplitMix64; Steele, Lea and Flood 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
