"""Matrices of more columns than can be listed, with the columns that occur numbered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._array.array import Array
from .._array.requests import shape_text
from .._lazy.join import concat
from .._runtime.call import Call
from .._sort.stretches import Stretch, part
from .._sort.unique import unique_inverse
from .._sparse.array import SparseArray
from .._sparse.row_blocks import row_blocks, values_of_rows
from .._sparse_algebra.written import BESIDE, Rows, SparseResult

__all__ = ["numbered"]


class _Numbered(SparseResult):
    """A's rows and values, its columns' numbers from an array of all of them, from `at` on."""

    def __init__(self, call: Call, a: SparseArray, cols: int, numbers: Array, at: int) -> None:
        super().__init__(call, [a], (a.shape[0], cols), a.dtype, a.stored_values, None)
        self.numbers, self.at = numbers, at

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.operands[0].shape)} sparse, columns that occur"

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield rows, of the first one on: nothing of it is noted."""
        at = self.at
        for _, pointers, _, values in row_blocks(
            self.call, self.operands[0], first, beside=BESIDE, fixed=self.fixed
        ):
            yield pointers, part(self.call, self.numbers, at, at + len(values)), values
            at += len(values)


def numbered(who: str, matrices: Sequence[SparseArray], memory: Any = None) -> list[SparseArray]:
    """Return the same matrices, their columns 0 … k−1: those in which one of them stores a value.

    Parameters
    ----------
    who : str
        The call that needs them, for its messages.
    matrices : sequence of SparseArray
        Stored by rows, of equally many columns.
    memory : int or str, optional
        Most resident memory of the whole process.

    Returns
    -------
    list of SparseArray
        In scratch, until the handles die. Columns keep their order, and rows theirs: sums over columns and
        along them have the bits that they would have.

    Notes
    -----
    Two reads of each matrix; columns are written once and sorted (`unique_inverse`), matrices written: no
    number is kept for a column that holds nothing.
    """
    call = Call(who, memory)
    counts = [values_of_rows(call, one) for one in matrices]
    columns = []
    for one, count in zip(matrices, counts, strict=True):
        line = Stretch(call, "columns", (count,), np.int64)
        for _, _, indices, _ in row_blocks(call, one, beside=BESIDE):
            line.append(indices.astype(np.int64))
        columns.append(line.close())
    names, numbers = unique_inverse(columns[0] if len(columns) == 1 else concat(columns), memory=call.memory)
    begins = np.cumsum([0, *counts])
    return [
        _Numbered(Call(who, memory), one, names.shape[0], numbers, int(at)).run()
        for one, at in zip(matrices, begins, strict=False)
    ]
