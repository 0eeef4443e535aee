"""What users give: sizes ("4GiB"), counts (workers=4), arrays of NumPy."""

from __future__ import annotations

import operator
from typing import TypeVar

import numpy as np

from .. import _core
from .._errors.classes import Error
from . import environment

__all__ = [
    "byte_count",
    "check_flags",
    "memory_bytes",
    "quota_bytes",
    "size_bytes",
    "thread_count",
    "unmasked",
]

_MOST_LIMIT = 1 << 62  # bytes of a limit
_MOST_THREADS = 4096


def size_bytes(what: str, given: int | str) -> int:
    """Return a number of bytes; `what` names it where it is none."""
    size: int | str = given
    if isinstance(given, str):
        try:
            size = int(_core.parse_bytes(given))
        except Error:
            raise _bad_size(what, given) from None
    if isinstance(size, (bool, str)) or not hasattr(size, "__float__"):
        raise _bad_size(what, given)
    if not 1 <= size < _MOST_LIMIT:  # not a number either
        raise _bad_size(what, given)
    return int(size)


def memory_bytes(memory: int | str | None) -> int:
    """Return a limit in bytes; None: $FLAGSTONE_MEMORY, else 60 % of what is allowed."""
    if memory is not None:
        return size_bytes("memory", memory)
    return _core.default_memory()


def quota_bytes(quota: int | str | None) -> int | None:
    """Return a quota of scratch in bytes; None: $FLAGSTONE_SCRATCH_QUOTA, and where that is not set None."""
    if quota is None:
        return environment.scratch_quota()
    where = "scratch_quota"
    if isinstance(quota, str):
        try:
            quota = int(_core.parse_bytes(quota))
        except Error:
            raise _bad_size(where, quota) from None
    if isinstance(quota, bool) or not hasattr(quota, "__index__") or not 0 <= quota < _MOST_LIMIT:
        raise _bad_size(where, quota)
    return int(quota)


def _bad_size(what: str, given: object) -> ValueError:
    return ValueError(f'{what}: {given!r} is no size; give bytes or text such as "512MiB" or "4GiB".')


def byte_count(what: str, given: int | str) -> int:
    """Return a number of bytes that may be 0."""
    return 0 if given == 0 and not isinstance(given, bool) else size_bytes(what, given)


def thread_count(name: str, number: object) -> int:
    """Return a number of threads, or say what is needed."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"Runtime: {name} is {number!r}; a whole number is needed.")
    if not 1 <= operator.index(number) <= _MOST_THREADS:
        raise ValueError(f"Runtime: {name} is {number}; 1 to {_MOST_THREADS} are taken.")
    return operator.index(number)


Given = TypeVar("Given")


def check_flags(who: str, **flags: object) -> None:
    """Refuse what is no truth value: "no" would be true."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{who}: {name} is {value!r}; True or False is needed.")


def unmasked(who: str, given: Given) -> Given:
    """Return an operand; refuse one whose mask ``np.asarray`` would drop."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            f"{who}: a masked array was given, whose mask would be lost; fill it first (x.filled(value))."
        )
    return given
