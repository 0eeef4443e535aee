"""Operands whose rows lie scattered (Fortran's order): copied into scratch by rows before a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._array.handle import Operand
from ..._runtime.plan import Plan, Stats
from ..._runtime.routine import least_of
from ..._runtime.runtime import stats
from ..._storage.rechunk import rechunk

__all__ = ["Copies", "result_chunks"]

_CHUNK = 1 << 20  # bytes of a result's chunk, at most: whole rows, whole planes
_SHORT = 4096  # bytes: a request for less costs a disk as much


def result_chunks(shape: tuple[int, ...], item: int, block: Sequence[int] = ()) -> list[int]:
    """Return chunks of whole rows, of whole planes where they are short: what a superstep writes at once.

    A block that the caller gave is a whole number of them: else it would have to grow.
    """
    edges = [min(n, b) for n, b in zip(shape, block, strict=True)] if block else shape
    chunks = [1] * len(shape)
    left = max(1, _CHUNK // item)
    for d in range(len(shape) - 1, -1, -1):
        chunks[d] = max(1, min(max(1, edges[d]), left))
        while block and edges[d] < shape[d] and edges[d] % chunks[d]:
            chunks[d] -= 1
        if chunks[d] < edges[d]:
            break
        left = max(1, left // max(1, chunks[d]))
    return chunks


def _scattered(operand: Operand) -> bool:
    core, shape = operand.core, operand.shape
    if core.in_memory or operand.given_lazily or tuple(core.chunks) != tuple(core.shape) or 0 in shape:
        return False
    row = shape[-1] * operand.dtype.itemsize
    return bool(core.run_bytes([1] * (len(shape) - 1) + [shape[-1]]) < min(row, _SHORT))


class Copies:
    """The operands of one call that must be copied: one read and one write of each, by `rechunk`."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._of: dict[Any, tuple[Operand, list[tuple[list[Operand], int]]]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def replace(self, operands: list[Operand]) -> None:
        """Put what the planner sees of a copy in the place of each operand that is to be copied."""
        for i, operand in enumerate(operands):
            if not _scattered(operand):
                continue
            _, places = self._of.setdefault(operand.core.id, (operand, []))
            places.append((operands, i))
            first, at = places[0]
            if len(places) > 1:  # one copy of what was given twice
                operands[i] = first[at]
                continue
            core = _core.planned_array(list(operand.shape), operand.dtype.name, self._chunks(operand))
            operands[i] = Operand(operand.given, core)

    @staticmethod
    def _chunks(operand: Operand) -> list[int]:
        return result_chunks(operand.shape, operand.dtype.itemsize)

    def least(self) -> int:
        """Return the least limit of the copies; 0: there are none."""
        each = (
            least_of(rechunk, o.given, self._chunks(o), memory=self._memory) for o, _ in self._of.values()
        )
        return max(each, default=0)

    def plans(self) -> list[Plan]:
        """Count them."""
        return [
            rechunk.plan(operand.given, self._chunks(operand), memory=self._memory)
            for operand, _ in self._of.values()
        ]

    def make(self) -> list[Stats]:
        """Make them, and put them where the planner saw them; they last as long as the operands."""
        done = []
        for operand, places in self._of.values():
            made = Operand.of(rechunk(operand.given, self._chunks(operand), memory=self._memory))
            done.append(stats())
            for operands, i in places:
                operands[i] = made
        return done
