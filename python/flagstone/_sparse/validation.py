"""Whether the parts of a compressed matrix agree: looked at by whoever takes them as they are stored.

The kernels look for themselves; SciPy, and what is exported, would take the numbers as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import FormatError, ShapeError

__all__ = [
    "LAYOUTS", "check_columns", "check_extents", "check_listed", "check_pointers", "layout_of", "listed",
    "words_of",
]  # fmt: skip

#: "csr": values and whole indices, as every peer reads them. "bitpacked": indices as differences in few bits.
#: "pattern": all values are 1, none is stored. "triangle": one triangle of a symmetric or Hermitian matrix.
LAYOUTS = ("csr", "bitpacked", "pattern", "triangle")

#: Pointers of 8 bytes, by rows or by columns, fill the 47 bits of address that a process has.
_MOST_EXTENT = 1 << 44
#: Numbers of a vector of 256 GiB: more rows or columns are ids that nobody numbered.
_MOST_LISTED = 1 << 35
_DAMAGED = "the file is damaged, write or copy it again."


def check_extents(rows: int, cols: int, what: str) -> None:
    """Refuse extents that no matrix has: negative ones, and those whose pointers fit into no memory."""
    if min(rows, cols) < 0 or max(rows, cols) >= _MOST_EXTENT:
        why = (
            "extents must not be negative" if min(rows, cols) < 0
            else "no memory holds pointers of so many rows or columns"
        )  # fmt: skip
        raise FormatError(f"{what} has the shape {rows} x {cols}, and {why}; write or copy it again.")


def listed(extent: int) -> bool:
    """Whether so few rows or columns are there that a number for each of them can be kept."""
    return extent <= _MOST_LISTED


def check_listed(who: str, shape: tuple[int, ...], extent: int, what: str) -> None:
    """Refuse so many rows or columns that nothing can be kept for each of them; `what`: what would be."""
    if not listed(extent):
        raise ShapeError(
            f"{who}: the matrix is {shape[0]} x {shape[1]}, and {what} for each of {extent} rows or columns "
            "are too many; number those that occur (fl.open_edges(path, ids='dense'), np.unique)."
        )


def check_columns(columns: NDArray[Any], cols: int, first: int, place: str) -> None:
    """Refuse an index outside the matrix. `first`: which stored value the first index belongs to.

    Cost: one pass over the indices in memory.
    """
    seen = columns.view(f"u{columns.dtype.itemsize}")  # what is negative becomes large
    if not len(seen) or int(seen.max()) < cols:
        return
    bad = int(np.argmax(seen >= cols))
    raise FormatError(
        f"csr: {place}: stored value {first + bad} has the index {columns[bad]}, which is outside the "
        f"matrix's {cols} stored columns; {_DAMAGED}"
    )


def check_pointers(pointers: NDArray[np.int64], row: int, rows: int, nnz: int, place: str) -> None:
    """Refuse pointers of the rows from `row` on that decrease, or that the stored values do not reach.

    Cost: one pass over them, and a byte each.
    """
    if not len(pointers):
        raise FormatError(f"csr: {place}: the pointers end at row {row} of {rows}; {_DAMAGED}")
    less = pointers[1:] < pointers[:-1]
    if less.any():
        bad = int(np.argmax(less))
        raise FormatError(
            f"csr: {place}: row {row + bad} lies from value {pointers[bad]} to {pointers[bad + 1]}; pointers "
            f"must not decrease; {_DAMAGED}"
        )
    end = row + len(pointers) - 1 == rows
    if (row == 0 and pointers[0] != 0) or pointers[-1] > nnz or (end and pointers[-1] != nnz):
        raise FormatError(
            f"csr: {place}: the pointers of rows {row} to {row + len(pointers) - 1} go from {pointers[0]} to "
            f"{pointers[-1]}, and there are {nnz} stored values; {_DAMAGED}"
        )


def words_of(who: str, layout: Any) -> str:
    """Return the words of a layout in their order, checked: "bitpacked+triangle"."""
    words = [word.strip() for word in layout.split("+")] if isinstance(layout, str) else [layout]
    for word in words:
        if word not in LAYOUTS:
            raise ShapeError(
                f"{who}: layout is {layout!r}; choose 'csr', or of 'bitpacked', 'pattern' and 'triangle' "
                "one or "
                "several with + between them."
            )
    if "csr" in words and len(words) > 1:
        raise ShapeError(f"{who}: layout is {layout!r}; 'csr' stands alone.")
    return "+".join(word for word in LAYOUTS if word in words)


def layout_of(bitpacked: bool, pattern: bool, triangle: bool) -> str:
    """Return the layout that has these."""
    words = zip(LAYOUTS[1:], (bitpacked, pattern, triangle), strict=True)
    return "+".join(word for word, has in words if has) or "csr"
