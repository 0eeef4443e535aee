"""Sizes and counts that users give: "4GiB", workers=4."""

from __future__ import annotations

import operator
import os

from . import _core
from .errors import Error

__all__ = ["memory_bytes", "thread_count"]

_MOST_LIMIT = 1 << 62  # bytes of a limit
_MOST_THREADS = 4096


def memory_bytes(memory: int | str | None) -> int:
    """Return a limit in bytes; None: $FLAGSTONE_MEMORY, else 60 % of what is allowed."""
    where = "memory"
    if memory is None:
        memory = os.environ.get("FLAGSTONE_MEMORY") or int(0.6 * _core.allowed_memory())
        where = "FLAGSTONE_MEMORY" if isinstance(memory, str) else where
    if isinstance(memory, str):
        try:
            memory = int(_core.parse_bytes(memory))
        except Error:
            raise _bad_memory(where, memory) from None
    if isinstance(memory, bool) or not hasattr(memory, "__float__"):
        raise _bad_memory(where, memory)
    if not 1 <= memory < _MOST_LIMIT:  # not a number either
        raise _bad_memory(where, memory)
    return int(memory)


def _bad_memory(where: str, given: object) -> ValueError:
    return ValueError(f'{where}: {given!r} is no size; give bytes or text such as "512MiB" or "4GiB".')


def thread_count(name: str, number: object) -> int:
    """Return a number of threads, or say what is needed."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"Runtime: {name} is {number!r}; a whole number is needed.")
    if not 1 <= operator.index(number) <= _MOST_THREADS:
        raise ValueError(f"Runtime: {name} is {number}; 1 to {_MOST_THREADS} are taken.")
    return operator.index(number)
