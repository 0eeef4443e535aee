"""What every streaming call uses: blocks made ahead, and how much has been read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

from numpy.typing import NDArray

from .call import Call
from .progress import Whole, shown

__all__ = ["STEP", "Block", "Reported", "ahead"]


STEP = 1 << 19  #: entries held at a time
Block = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
T = TypeVar("T")


def ahead(blocks: Iterator[T]) -> Iterator[T]:
    """Make the next block in another thread while this one is used: two blocks are held."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, blocks, end)
        while (block := waiting.result()) is not end:
            waiting = pool.submit(next, blocks, end)
            yield block  # type: ignore[misc]


class Reported:
    """Tells the runtime's progress callback how much of a file has been read."""

    def __init__(self, call: Call, total: int) -> None:
        self._call, self.bytes_read, self.bytes_written, self.flops = call, 0, 0, 0.0
        self.total, self._next = total, 0.0
        self._hears: Any = None
        self._bar = ExitStack()

    def at(self, nbytes: int) -> None:
        """Say that so many bytes have been dealt with; about ten times a second somebody looks."""
        self.bytes_read = nbytes
        now = time.monotonic()
        progress = self._call.runtime.progress
        if not progress or now < self._next:
            return
        self._next = now + 0.1
        if self._hears is None:
            whole = Whole(self.total)
            self._hears = self._bar.enter_context(
                shown(progress, self._call.who, lambda: whole, self._call.memory)
            )
        self._hears(self)
        if nbytes >= self.total:
            self._bar.close()
