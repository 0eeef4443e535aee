"""Sparse results: rows that are made a stretch at a time and written as one CSR group, whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import ShapeError
from .._output.destination import in_group
from .._output.replaceable import check_overwrite, check_path
from .._resume.record import UNRECORDED, Record, seconds_of
from .._runtime.call import Call, Moved
from .._runtime.plan import Plan
from .._runtime.routine import Streaming
from .._scratch import quota, scratch
from .._scratch.builds import whole_or_nothing
from .._sparse.array import SparseArray
from .._sparse.builder import CsrBuilder, value_dtype
from .._sparse.row_blocks import row_blocks, rows_bytes
from .._sparse.to_csr import sparse_by_rows

__all__ = ["BESIDE", "Rows", "SparseResult", "aligned", "in_rows", "part_of"]

#: Pointers from 0, columns in increasing order, values: some rows of a matrix.
Rows = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

BESIDE = 64  # bytes of an entry: a second block, columns of 64 bits, masks, and what the writer orders
_NONE: Rows = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
_LEAST = 1 << 15  # entries of a stretch at least, as row_blocks has them


def in_rows(call: Call, name: str, matrix: Any, *, halves: bool = False) -> SparseArray:
    """Return an operand stored by rows, its triangles too with `halves`; refuse what is no SparseArray."""
    if not isinstance(matrix, SparseArray):
        raise TypeError(
            f"{call.who}: {name} is {type(matrix).__name__}; a SparseArray is needed (fl.from_blocks makes "
            "one of rows in memory)."
        )
    return sparse_by_rows(call.who, matrix, call.memory, halves=halves, vectors=False)


class SparseResult(Streaming[SparseArray]):
    """One sparse matrix that is written from stretches of rows: who derives says what they are.

    Parameters
    ----------
    call : Call
        Whose result it is.
    operands : list of SparseArray
        What is read, stored by rows.
    shape, dtype
        Of the result.
    bound : int
        At most so many values are stored: how many, the rows say when they are made.
    out : path or None
        None: scratch.
    """

    operation = ""  #: of its records; "": it is begun again
    method = "row blocks"
    layout = "csr"  #: in which the result is written

    def __init__(
        self, call: Call, operands: Sequence[SparseArray], shape: tuple[int, int], dtype: Any, bound: int,
        out: Any,
    ) -> None:  # fmt: skip
        super().__init__(call)
        self.operands, self.shape, self.bound, self.out = list(operands), shape, int(bound), out
        self.dtype = value_dtype(np.dtype(dtype), call.who)
        call.on(*(one.path for one in self.operands))
        call.outputs = 0 if out is None else 4  # the group's arrays, and itself
        if out is not None and not isinstance(out, (str, os.PathLike)):
            raise TypeError(f"{call.who}: out is {type(out).__name__}; a path is needed for a sparse result.")
        if out is not None:
            if os.fspath(out).endswith(".npy"):
                raise ShapeError(
                    f"{call.who}: out '{out}' holds a dense array; give the path of a directory."
                )
            if _core.is_csr_group(os.fspath(out)):
                check_overwrite(call.who, os.fspath(out))
            else:
                check_path(call.who, out)
            in_group(call.who, os.fspath(out))

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield stretches of rows from `first` on; their length decides no bits."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Return everything that decides the bits, as JSON."""
        raise NotImplementedError

    @property
    def working(self) -> int:
        """Bytes that making a stretch takes at least, beside the operands' rows."""
        return _LEAST * BESIDE

    @property
    def beside(self) -> int:
        """The same with the operands' rows."""
        return sum(rows_bytes(one, BESIDE) for one in self.operands) + self.working

    @property
    def read_bytes(self) -> int:
        """Bytes of the operands as stored, each as often as it is read."""
        return sum(one.stored_bytes for one in self.operands)

    @property
    def flops(self) -> float:
        """Arithmetic of all rows."""
        return 0.0

    @property
    def note(self) -> str:
        """What the plan says."""
        return f"the result stores at most {self.bound:,} values: a bound"

    @property
    def held_bytes(self) -> int:
        """What it holds beside the process, the writer too."""
        held: int = _core.CsrWriter.memory_bytes(self.shape[1], self.dtype.name)
        return self.beside + held + 64 * self.shape[1]

    def plan(self) -> Plan:
        """Count it: what is written is a bound."""
        rates = self.call.use_profile().rates
        read, written = self.read_bytes, self.bound * (8 + self.dtype.itemsize) + 16 * (self.shape[0] + 1)
        seconds = read / rates["read_bytes_per_second"] + written / rates["write_bytes_per_second"]
        seconds += self.flops / 2e8 + 60e-9 * sum(one.stored_values for one in self.operands)
        needed = int(_core.resident_bytes() + self.held_bytes + _core.allowed_drift)  # as a refusal names it
        least, peak = self.call.rounded(needed), min(self.call.memory, needed)
        return Plan(
            self.what, self.method, 1, read, written, self.flops, peak, least, seconds, self.call.memory,
            self.note,
        )  # fmt: skip

    @property
    def seconds(self) -> float:
        """Return about how long it takes: only for what is worth a record."""
        return seconds_of(40 * self.flops, 4 * (self.read_bytes + self.bound * self.dtype.itemsize))

    def begin(self, stack: contextlib.ExitStack) -> tuple[CsrBuilder, scratch.Result | None, Record]:
        """Open the result, which `stack` undoes, with the rows that a dead process noted."""
        call, place, record = self.call, None, UNRECORDED
        if self.out is None:
            directory = scratch.prepare(call.runtime.scratch)
            place = scratch.Result(directory, "matrix")
            stack.enter_context(whole_or_nothing(place))
            stack.enter_context(
                quota.counting(call.who, directory, call.runtime.scratch_quota, Path(place.path))
            )
        elif self.operation:
            record = Record(self.operation, self.arguments, self.seconds, call.runtime)
        target = os.fspath(self.out) if place is None else place.path
        builder = CsrBuilder(
            call, target, self.shape[1], self.dtype, True, record=record, beside=self.beside,
            entries=max(1, self.bound), layout=self.layout,
        )  # fmt: skip
        builder.rows = builder.held
        stack.enter_context(whole_or_nothing(builder))
        stack.enter_context(record.kept(builder))
        self.fixed = builder.bytes
        return builder, place, record

    def end(self, builder: CsrBuilder, place: scratch.Result | None) -> SparseArray:
        """Make the result appear, whose rows were all written."""
        if builder.rows != self.shape[0]:
            raise AssertionError(f"{self.call.who}: {builder.rows} of {self.shape[0]} rows were made")
        matrix = builder.publish()
        if place is not None:
            place.tie(matrix)
        return matrix

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> SparseArray:
        """Write the rows."""
        builder, place, record = self.begin(stack)
        # On this thread: what NumPy frees on another one stays in that thread's arena, which nobody trims.
        for pointers, columns, values in self.rows(builder.held):
            builder.append(pointers, columns.astype(np.int64, copy=False), values)
            builder.offer(builder.rows / max(1, self.shape[0]))
        matrix = self.end(builder, place)
        moved.bytes_read, moved.bytes_written, moved.where = (
            self.read_bytes,
            matrix.stored_bytes,
            record.where,
        )
        return matrix


def aligned(
    call: Call, operands: Sequence[SparseArray], first: int, *, beside: int = BESIDE, fixed: int = 0
) -> Iterator[tuple[int, list[Rows]]]:
    """Yield (first row, the same rows of every operand), stretch by stretch; each operand is read once."""
    share = len(operands)
    each = beside * share + 64 * (share - 1)  # of an entry of one, what comes with those of the others
    streams = [row_blocks(call, one, first, beside=each, fixed=fixed) for one in operands]
    held: list[tuple[int, Rows]] = [(first, _NONE)] * share
    row, rows = first, operands[0].shape[0]
    while row < rows:
        for at, stream in enumerate(streams):
            start, block = held[at]
            if start + len(block[0]) - 1 == row:  # all of it was given
                start, pointers, columns, values = next(stream)
                held[at] = start, (pointers, columns, values)
        end = min(start + len(block[0]) - 1 for start, block in held)
        yield row, [part_of(block, row - start, end - start) for start, block in held]
        row = end


def part_of(block: Rows, first: int, last: int) -> Rows:
    """Return rows [first, last) of a stretch, its pointers from 0."""
    pointers, columns, values = block
    if first == 0 and last == len(pointers) - 1:
        return block
    low, high = int(pointers[first]), int(pointers[last])
    return pointers[first : last + 1] - low, columns[low:high], values[low:high]
