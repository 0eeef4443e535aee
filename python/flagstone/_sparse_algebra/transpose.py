"""Aᵀ of a sparse matrix written by rows: entries pass through bucket files, each once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._array.handle import is_transposed
from .._array.requests import shape_text
from .._resume.identity import identity
from .._resume.record import UNRECORDED, Record, seconds_of
from .._runtime.call import Call, Moved
from .._runtime.streaming import Reported
from .._scratch import quota, scratch
from .._scratch.builds import whole_or_nothing
from .._sparse.array import SparseArray
from .._sparse.row_blocks import row_blocks
from .._sparse.to_csr import all_elements, csc_to_csr, entry_bytes, held_bytes, looked_bytes
from .elementwise import Out
from .written import Rows, SparseResult

__all__ = ["SparseTranspose"]


class SparseTranspose(SparseResult):
    """Aᵀ by rows (csrcsc): a counting sort by column, or a copy where A is a transpose itself."""

    operation = "sparse transpose"
    method = "buckets"

    def __init__(self, call: Call, a: SparseArray, out: Out) -> None:
        a = all_elements(call.who, a, call.memory)
        self.seen = a.T  # what is written
        stored = a.stored_values
        super().__init__(call, [a], self.seen.shape, a.dtype, stored, out)
        self.sorted = is_transposed(self.seen)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = self.operands[0].stored_values
        return f"{self.call.who} {shape_text(self.operands[0].shape)} sparse, {stored:,} stored values"

    @property
    def beside(self) -> int:
        """Bytes that blocks, a bucket and its sorting take."""
        return held_bytes(self.seen) if self.sorted else super().beside

    @property
    def read_bytes(self) -> int:
        """A once; where it is sorted its indices before that, to count them, and what lies in buckets."""
        a = self.operands[0]
        if not self.sorted:
            return a.stored_bytes
        return a.stored_bytes + looked_bytes(a) + self._between

    @property
    def _between(self) -> int:
        return self.bound * entry_bytes(self.seen)

    def plan(self) -> Any:
        """Count it, with the buckets on their way."""
        if self.sorted:
            self.call.scratch_bytes["buckets"] = self._between
        return super().plan()

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield rows as they are stored."""
        for _, pointers, columns, values in row_blocks(self.call, self.seen, first, fixed=self.fixed):
            yield pointers, columns, values

    def arguments(self) -> dict[str, Any]:
        """Return the operand."""
        return {"a": identity(self.operands[0])}

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> SparseArray:
        """Sort the entries, or copy the rows."""
        if not self.sorted:
            return super().stream(moved, stack)
        call, place, record = self.call, None, UNRECORDED
        if self.out is None:
            directory = scratch.prepare(call.runtime.scratch)
            place = scratch.Result(directory, "matrix")
            stack.enter_context(whole_or_nothing(place))
            folder = Path(place.path)
            stack.enter_context(quota.counting(call.who, directory, call.runtime.scratch_quota, folder))
        else:
            seconds = seconds_of(0, 4 * self._between)
            record = Record(self.operation, self.arguments, seconds, call.runtime)
        target = os.fspath(self.out) if place is None else place.path
        report = Reported(call, 2 * self.bound * self.dtype.itemsize)
        matrix = csc_to_csr(call, self.seen, target, True, report, record=record)
        if place is not None:
            place.tie(matrix)
        moved.bytes_read = self.read_bytes
        moved.bytes_written = self._between + matrix.stored_bytes
        moved.where = record.where
        return matrix
