"""Small writes inside a transaction: kept until their chunk is whole, memory is short, or it ends."""

from __future__ import annotations

import itertools
import math
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
_LEAST = 1 << 20  # bytes of staging that a transfer takes at least
_PAGES = 1 << 16

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


def _left(engine: _core.Engine, wanted: int) -> int:
    """Return what the limit leaves; what is kept for later is given back where that is less than `wanted`."""
    left = engine.memory - _core.resident_bytes()
    if left < wanted:
        _core.release_pages()
        _core.trim()
        left = engine.memory - _core.resident_bytes()
    return max(0, left)


def _staging(engine: _core.Engine, untouched: int = 0) -> int:
    """Return what a transfer may hold beside its boxes, of which so many bytes have no pages yet."""
    return max(_LEAST, min(STAGING, _left(engine, STAGING + untouched) - untouched))


def _values(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return memory for a chunk: from 64 KiB on whole pages, which travel without a copy."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _PAGES:
        return np.empty(shape, dtype)
    return _core.pages(nbytes)[:nbytes].view(dtype).reshape(shape)


@dataclass
class _Chunk:
    values: NDArray[Any]
    given: NDArray[np.bool_]  # which elements of `values` were assigned
    missing: int
    call: int  # that assigned something last

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.given.nbytes


class WriteCombiner:
    """What was assigned to parts of chunks of one array in the transaction that is open."""

    def __init__(self, array: _core.Array) -> None:
        self._array = array
        self._chunks = tuple(array.chunks)
        self._held: dict[tuple[int, ...], _Chunk] = {}  # the one that was assigned to last stands last
        self._bytes = 0  # of them
        self._whole: list[tuple[Sequence[int], NDArray[Any]]] = []  # chunks of a call that can be written
        self._whole_bytes = 0  # of those that waited; the others are the caller's
        self._lock = threading.RLock()
        self.changes = 0  # calls that assigned something
        with _guard:
            _waiting[array.id] = self

    def write(self, engine: _core.Engine, boxes: Boxes) -> None:
        """Take boxes in; chunks that are whole by now go to the disk together."""
        with self._lock:
            self.changes += 1
            limit = self._limit(engine)
            try:
                for start, values in boxes:
                    for chunk, inside, outside in self._touched(start, values.shape):
                        limit = self._take(chunk, inside, values[outside], engine, limit)
                self._write_whole(engine)
            finally:
                self._whole, self._whole_bytes = [], 0

    def _limit(self, engine: _core.Engine, wanted: int = 0) -> int:
        """Return how many bytes may wait: half of what is left, for they are read once more when spilled."""
        own = self._bytes + self._whole_bytes
        limit = min(MOST, max(0, engine.memory - _core.resident_bytes() + own - STAGING) // 2)
        if limit < min(MOST, wanted):
            _core.release_pages()  # what is kept for the next results makes room
            limit = min(MOST, max(0, engine.memory - _core.resident_bytes() + own - STAGING) // 2)
        return limit

    def _take(
        self, chunk: tuple[int, ...], inside: tuple[slice, ...], part: NDArray[Any],
        engine: _core.Engine, limit: int,
    ) -> int:  # fmt: skip
        start, shape = self._box(chunk)
        if part.shape == shape:
            self._drop(chunk)
            self._whole.append((start, part))
            return limit
        held = self._held.get(chunk)
        if held is None:
            needed = math.prod(shape) * (part.dtype.itemsize + 1)
            if self._bytes + self._whole_bytes + needed > limit:
                limit = self._limit(engine, self._bytes + self._whole_bytes + needed)
            if self._bytes + self._whole_bytes + needed > limit:
                self._write_whole(engine)
                self._spill(engine, max(0, limit - needed))
            if needed > limit:  # no chunk fits: it is changed on the disk
                box = [a + s.start for a, s in zip(start, inside, strict=True)]
                engine.write_boxes(self._array, [(box, part)], _staging(engine))
                return limit
            given = np.zeros(shape, bool)
            held = _Chunk(_values(shape, part.dtype), given, math.prod(shape), self.changes)
            self._bytes += held.nbytes
        else:
            del self._held[chunk]
        self._held[chunk], held.call = held, self.changes
        held.values[inside] = part
        fresh = held.given[inside]
        held.missing -= fresh.size - int(np.count_nonzero(fresh))
        held.given[inside] = True
        if held.missing == 0:
            self._drop(chunk)
            self._whole.append((start, held.values))
            self._whole_bytes += held.values.nbytes
        return limit

    def _write_whole(self, engine: _core.Engine) -> None:
        whole, self._whole, self._whole_bytes = self._whole, [], 0
        if whole:
            engine.write_boxes(self._array, whole, _staging(engine))

    def _drop(self, chunk: tuple[int, ...]) -> None:
        if (held := self._held.pop(chunk, None)) is not None:
            self._bytes -= held.nbytes

    def _victims(self) -> Iterator[tuple[tuple[int, ...], _Chunk]]:
        """Yield chunks in the order in which they leave.

        First those that neither this call nor the last one assigned to, oldest first. Then the latest: rows
        that come one after the other are a cyclic scan of the chunks that they cross, and of more chunks than
        have room the oldest would always be the next that is needed.
        """
        for chunk, held in self._held.items():
            if held.call >= self.changes - 1:
                break
            yield chunk, held
        for chunk, held in reversed(self._held.items()):
            if held.call < self.changes - 1:
                break
            yield chunk, held

    def _spill(self, engine: _core.Engine, most: int) -> None:
        """Change chunks on the disk until `most` bytes wait."""
        while self._held and self._bytes > most:
            together = min(STAGING, _left(engine, 2 * STAGING) // 2)  # the other half is for the transfer
            boxes: list[tuple[list[int], NDArray[Any]]] = []
            chunks: list[tuple[int, ...]] = []
            size = 0
            for chunk, held in self._victims() if most else sorted(self._held.items()):  # all: as they lie
                if chunks and (size + held.values.nbytes > together or self._bytes - size <= most):
                    break
                chunks.append(chunk)
                start, shape = self._box(chunk)
                boxes.append((start, _values(shape, held.values.dtype)))
                size += held.nbytes
            engine.read_boxes(self._array, boxes, _staging(engine, size))
            for chunk, (_, values) in zip(chunks, boxes, strict=True):
                np.copyto(values, self._held[chunk].values, where=self._held[chunk].given)
            engine.write_boxes(self._array, boxes, _staging(engine))
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
