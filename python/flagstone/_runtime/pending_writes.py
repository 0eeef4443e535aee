"""Small writes inside a transaction: kept until their chunk is whole, memory is short, or it ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core

__all__ = ["WriteCombiner", "flush_all", "of"]

MOST = 256 << 20  # bytes of one array that wait
STAGING: int = _core.box_staging

Boxes = Sequence[tuple[Sequence[int], NDArray[Any]]]
_waiting: dict[int, WriteCombiner] = {}  # by the id of the array
_guard = threading.Lock()


def of(array: _core.Array) -> WriteCombiner | None:
    """Return what waits for an array."""
    return _waiting.get(array.id) if _waiting else None


def flush_all(engine: _core.Engine) -> None:
    """Write what waits, of all arrays: a job is about to read them from the disk."""
    for one in list(_waiting.values()):
        one.flush(engine)


@dataclass
class _Chunk:
    values: NDArray[Any]
    given: NDArray[np.bool_]  # which elements of `values` were assigned
    missing: int

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.given.nbytes


class WriteCombiner:
    """What was assigned to parts of chunks of one array in the transaction that is open."""

    def __init__(self, array: _core.Array) -> None:
        self._array = array
        self._chunks = tuple(array.chunks)
        self._held: dict[tuple[int, ...], _Chunk] = {}  # oldest first
        self._bytes = 0
        self._lock = threading.RLock()
        with _guard:
            _waiting[array.id] = self

    def write(self, engine: _core.Engine, boxes: Boxes) -> None:
        """Take boxes in; chunks that are whole by now go to the disk together."""
        with self._lock:
            whole: list[tuple[Sequence[int], NDArray[Any]]] = []
            limit = min(MOST, max(0, engine.memory - _core.resident_bytes() + self._bytes - STAGING) // 2)
            for start, values in boxes:
                for chunk, inside, outside in self._touched(start, values.shape):
                    self._take(chunk, inside, values[outside], whole, engine, limit)
            engine.write_boxes(self._array, whole)

    def _take(
        self, chunk: tuple[int, ...], inside: tuple[slice, ...], part: NDArray[Any],
        whole: list[tuple[Sequence[int], NDArray[Any]]], engine: _core.Engine, limit: int,
    ) -> None:  # fmt: skip
        start, shape = self._box(chunk)
        if part.shape == shape:
            self._drop(chunk)
            whole.append((start, part))
            return
        held = self._held.get(chunk)
        if held is None:
            needed = int(np.prod(shape, dtype=object)) * (part.dtype.itemsize + 1)
            if self._bytes + needed > limit:
                self._spill(engine, max(0, limit - needed))
            if needed > limit:  # no chunk fits: it is changed on the disk
                engine.write_boxes(
                    self._array, [([a + s.start for a, s in zip(start, inside, strict=True)], part)]
                )
                return
            held = _Chunk(np.empty(shape, part.dtype), np.zeros(shape, bool), int(np.prod(shape)))
            self._held[chunk] = held
            self._bytes += held.nbytes
        held.values[inside] = part
        fresh = held.given[inside]
        held.missing -= fresh.size - int(np.count_nonzero(fresh))
        held.given[inside] = True
        if held.missing == 0:
            self._drop(chunk)
            whole.append((start, held.values))

    def _drop(self, chunk: tuple[int, ...]) -> None:
        if (held := self._held.pop(chunk, None)) is not None:
            self._bytes -= held.nbytes

    def _spill(self, engine: _core.Engine, most: int) -> None:
        """Change the oldest chunks on the disk until `most` bytes wait."""
        while self._held and self._bytes > most:
            chunks, size = [], 0
            for chunk, held in self._held.items():
                chunks.append(chunk)
                size += held.values.nbytes
                if size >= STAGING or self._bytes - size <= most:
                    break
            boxes = []
            for chunk in chunks:
                start, shape = self._box(chunk)
                boxes.append((start, np.empty(shape, self._held[chunk].values.dtype)))
            engine.read_boxes(self._array, boxes)
            for chunk, (_, values) in zip(chunks, boxes, strict=True):
                np.copyto(values, self._held[chunk].values, where=self._held[chunk].given)
            engine.write_boxes(self._array, boxes)
            for chunk in chunks:
                self._drop(chunk)

    def flush(self, engine: _core.Engine) -> None:
        """Put what waits on the disk: the rest of its chunks is read first."""
        with self._lock:
            self._spill(engine, 0)

    def overlay(self, boxes: Boxes) -> None:
        """Put what waits into boxes that were read."""
        with self._lock:
            if not self._held:
                return
            for start, values in boxes:
                for chunk, inside, outside in self._touched(start, values.shape):
                    if (held := self._held.get(chunk)) is not None:
                        np.copyto(values[outside], held.values[inside], where=held.given[inside])

    def discard(self) -> None:
        """Forget it: the transaction has ended."""
        with _guard:
            _waiting.pop(self._array.id, None)
        with self._lock:
            self._held.clear()
            self._bytes = 0

    def _box(self, chunk: tuple[int, ...]) -> tuple[list[int], tuple[int, ...]]:
        start = [c * n for c, n in zip(chunk, self._chunks, strict=True)]
        return start, tuple(
            min(c, n - a) for c, n, a in zip(self._chunks, self._array.shape, start, strict=True)
        )

    def _touched(
        self, start: Sequence[int], shape: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
        """Yield the chunks of a box: which, where in the chunk, where in the box."""
        grids = [range(a // c, -(-(a + n) // c)) for a, n, c in zip(start, shape, self._chunks, strict=True)]
        for chunk in itertools.product(*grids):
            inside, outside = [], []
            for k, a, n, c in zip(chunk, start, shape, self._chunks, strict=True):
                first, last = max(a, k * c), min(a + n, (k + 1) * c)
                inside.append(slice(first - k * c, last - k * c))
                outside.append(slice(first - a, last - a))
            yield chunk, tuple(inside), tuple(outside)
