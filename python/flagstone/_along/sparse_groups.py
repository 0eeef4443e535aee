"""Rows of sparse matrices by group: sums, means and variances, as they stream past once."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.handle import is_transposed
from .._errors.classes import ShapeError
from .._expression.compute import compute, deliver
from .._output.place import check_out
from .._runtime.call import Call, Moved
from .._runtime.plan import Plan
from .._runtime.routine import Streaming
from .._sparse.array import SparseArray
from .._sparse.row_blocks import row_blocks

__all__ = ["SparseGroups"]

_BESIDE = 56  # bytes of an entry: row, label, place in the table, what stays, the value as it is added
_WIDE = np.longdouble  # of squares: 64 bits of mantissa where the processor has them


class SparseGroups(Streaming[Any]):
    """The checked arguments of one fold by group over stored values; what is not stored counts as 0.

    Each sum is added in the order of rows, whatever the stretches that are read: neither the limit nor what
    is resident changes bits.
    """

    method = "row blocks"

    def __init__(
        self, call: Call, matrix: SparseArray, labels: NDArray[Any], counts: NDArray[np.int64], name: str,
        out: Any, ddof: float,
    ) -> None:  # fmt: skip
        super().__init__(call)
        if matrix.dtype.kind not in "biuf":
            raise TypeError(f"{call.who}: complex numbers were given ({matrix.dtype}); real ones are needed.")
        self.matrix, self.labels, self.counts, self.name = matrix, labels, counts, name
        self.out, self.ddof = out, ddof
        kind = matrix.dtype.kind
        whole: Any = np.uint64 if kind == "u" else np.int64
        sums: Any = _WIDE if name == "var" else whole if kind in "biu" and name == "sum" else np.float64
        result: Any = sums if sums is whole else np.float64 if kind in "biu" else matrix.dtype
        self.sums, self.result_dtype = np.dtype(sums), np.dtype(result)
        self.shape = (len(counts), matrix.shape[1])
        if isinstance(out, np.ndarray) and out.shape != self.shape:
            raise ShapeError(f"{call.who}: out is {out.shape} and the result {self.shape}; they must agree.")
        check_out(call.who, out, self.shape, self.result_dtype, "result", "they must agree")

    @property
    def what(self) -> str:
        """What statistics call it."""
        rows, columns = self.matrix.shape
        return f"{self.call.who} {rows} x {columns} {self.matrix.dtype.name}, sparse"

    @property
    def held(self) -> int:
        """Bytes of tables and of the result."""
        cells = self.shape[0] * self.shape[1]
        tables = 2 if self.name == "var" else 1
        return int(cells * (tables * self.sums.itemsize + 2 * 16 + self.result_dtype.itemsize))

    def plan(self) -> Plan:
        """Count it: the read of one reduction of the matrix, and what is held beside it."""
        read: Plan = compute.plan(self.matrix.sum(0), memory=self.call.memory)
        return replace(
            read, what=self.what, method=self.method, peak_memory=read.peak_memory + self.held,
            least_memory=read.least_memory + self.held,
        )  # fmt: skip

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> Any:
        """Add every stored value to its place."""
        tables = [np.zeros(self.shape, self.sums) for _ in range(2 if self.name == "var" else 1)]
        turned = is_transposed(self.matrix)
        for row, pointers, inner, values in row_blocks(
            self.call, self.matrix, beside=_BESIDE, fixed=self.held
        ):
            moved.bytes_read += values.nbytes + inner.nbytes + pointers.nbytes
            outer = row + np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
            rows, columns = (inner, outer) if turned else (outer, inner)
            group = np.asarray(self.labels[rows], np.int64)
            kept = group >= 0
            if not kept.all():
                group, columns, values = group[kept], columns[kept], values[kept]
            place = group * self.shape[1] + columns
            given = values.astype(self.sums, copy=False)
            np.add.at(tables[0].reshape(-1), place, given)
            if len(tables) > 1:
                np.add.at(tables[1].reshape(-1), place, given * given)
        return deliver(self._finished(tables), self.out)

    def _finished(self, tables: list[NDArray[Any]]) -> NDArray[Any]:
        counts = self.counts[:, None]
        made = tables[0]
        with np.errstate(all="ignore"):
            if self.name == "mean":
                made = made / counts
            elif self.name == "var":
                # sum (x - mean)^2 = sum x^2 - (sum x)^2 / n, in wide numbers; below 0 by rounding alone
                squares = tables[1] - tables[0] * tables[0] / counts
                made = np.where(squares < 0, 0, squares) / np.maximum(counts - self.ddof, 0)
            return np.asarray(made.astype(self.result_dtype, copy=False))
