"""What users give: sizes ("4GiB"), counts (workers=4), arrays of NumPy."""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import Error, ShapeError
from .._errors.messages import shown
from . import environment

__all__ = [
    "a_number",
    "array_of",
    "byte_count",
    "check_flags",
    "dtype_of",
    "held_in",
    "is_flag",
    "is_whole",
    "memory_bytes",
    "numbers_of",
    "one_of",
    "quota_bytes",
    "real_number",
    "seconds_between",
    "seed_number",
    "size_bytes",
    "thread_count",
    "unmasked",
    "whole_number",
]

_MOST_LIMIT = 1 << 62  # bytes of a limit
_MOST_THREADS = 4096
_MOST_COUNT = (1 << 63) - 1  # that the core takes


def size_bytes(what: str, given: int | str) -> int:
    """Return a number of bytes; `what` names it where it is none."""
    size: int | str = given
    if isinstance(given, str):
        try:
            size = int(_core.parse_bytes(given))
        except Error:
            raise _bad_size(what, given) from None
    if isinstance(size, (bool, str)) or not hasattr(size, "__float__") or getattr(size, "ndim", None):
        raise _bad_size(what, given)
    if not 1 <= size < _MOST_LIMIT:  # not a number either
        raise _bad_size(what, given)
    return int(size)


def memory_bytes(memory: int | str | None) -> int:
    """Return a limit in bytes; None: $FLAGSTONE_MEMORY, else 60 % of what is allowed."""
    if memory is not None:
        return size_bytes("memory", memory)
    return _core.default_memory()


def seconds_between(what: str, given: Any) -> float:
    """Return a time between two things of a kind, 0 or more; `what` names it where it is none."""
    try:
        found = math.nan if isinstance(given, (bool, str, bytes)) else float(given)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise ValueError(f"{what} is {shown(given)}; a number of seconds, 0 or more, is needed.")
    return found


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


def _bad_size(what: str, given: object) -> ShapeError:
    return ShapeError(f'{what}: {shown(given)} is no size; give bytes or text such as "512MiB" or "4GiB".')


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


def is_whole(given: object) -> bool:
    """Say whether it is one whole number, and no truth value."""
    try:
        operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(given, (bool, np.bool_))


def whole_number(who: str, name: str, given: Any, least: int = 1, most: int = _MOST_COUNT) -> int:
    """Return a count; ShapeError where it is none."""
    if is_whole(given) and least <= operator.index(given) <= most:
        return operator.index(given)
    bounds = f"of at most {most}" if is_whole(given) and given > most else f"of {least} or more"
    raise ShapeError(f"{who}: {name} is {shown(given)}; a whole number {bounds} is needed.")


def seed_number(who: str, given: Any) -> int:
    """Return a seed, of 64 bits."""
    return whole_number(who, "seed", given, 0, (1 << 64) - 1)


def real_number(
    who: str, name: str, given: Any, fits: Callable[[float], bool], needed: str = "a number is needed"
) -> float:
    """Return one number that fits; ShapeError where it is none."""
    value = np.asarray(given)[()] if getattr(given, "ndim", None) == 0 else given
    with contextlib.suppress(OverflowError):  # a whole number beyond float64
        if isinstance(value, numbers.Real) and not isinstance(value, bool) and fits(float(value)):
            return float(value)
    raise ShapeError(f"{who}: {name} is {shown(given)}; {needed}.")


def a_number(who: str, name: str, given: Any) -> Any:
    """Return one number, real or complex, as it was given; ShapeError where it is none."""
    value = np.asarray(given)[()] if getattr(given, "ndim", None) == 0 else given
    with contextlib.suppress(OverflowError):
        if isinstance(value, numbers.Complex) and complex(value) is not None:
            return value
    raise ShapeError(f"{who}: {name} is {shown(given)}; a number is needed.")


def array_of(who: str, name: str, given: Any) -> NDArray[Any]:
    """Return what is in memory as an ndarray of any dtype; ShapeError of what has rows of other lengths."""
    given = unmasked(who, given)
    try:
        return np.asarray(given)
    except Error:
        raise
    except (TypeError, ValueError):
        raise ShapeError(
            f"{who}: {name} is {shown(given)}; an array of numbers, with rows of one length, is needed."
        ) from None


def numbers_of(who: str, name: str, given: Any) -> NDArray[Any]:
    """Return the same, real numbers that are Python's objects (Fraction, Decimal) in float64."""
    values = array_of(who, name, given)
    if values.dtype.kind == "O" and all(isinstance(one, numbers.Number) for one in values.flat):
        with contextlib.suppress(TypeError, ValueError, OverflowError):  # the caller names what it is
            return values.astype(np.float64)
    return values


def dtype_of(who: str, given: Any) -> np.dtype[Any]:
    """Return a dtype; TypeError of what names none."""
    try:
        found: np.dtype[Any] = np.dtype(given)
    except (TypeError, ValueError):
        raise TypeError(f"{who}: dtype is {shown(given)}; a NumPy dtype is needed, as 'float64'.") from None
    return found


def one_of(who: str, name: str, given: Any, *choices: str) -> str:
    """Return a name that there is; ShapeError says which there are."""
    if isinstance(given, str) and given in choices:
        return given
    *first, last = (repr(choice) for choice in choices)
    told = f"{', '.join(first)} or {last}" if first else last
    raise ShapeError(f"{who}: {name} is {shown(given)}; choose {told}.")


Given = TypeVar("Given")


def is_flag(given: Any) -> bool:
    """Say whether it is a truth value, or 0 or 1: SciPy's cho_factor(a, lower=1) hands the 1 back."""
    return isinstance(given, (bool, np.bool_)) or (is_whole(given) and operator.index(given) in (0, 1))


def check_flags(who: str, **flags: object) -> None:
    """Refuse what is no truth value: "no" would be true. What is kept or told is its bool."""
    for name, value in flags.items():
        if not is_flag(value):
            raise TypeError(f"{who}: {name} is {shown(value)}; True or False is needed.")


def unmasked(who: str, given: Given) -> Given:
    """Return an operand; refuse one whose mask ``np.asarray`` would drop."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            f"{who}: a masked array was given, whose mask would be lost; fill it first (x.filled(value))."
        )
    return given


def held_in(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return values in another dtype; None: some are cut off, wrap around or become infinite there."""
    if values.dtype.kind == "O":  # whole numbers beyond 64 bits
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            values = values.astype(np.float64)
    if values.dtype.kind not in "biufc" or (values.dtype.kind == "c" and dtype.kind != "c"):
        return None
    if dtype.kind in "iub" and values.size:
        if values.dtype.kind == "f" and not (np.isfinite(values) & (values == np.trunc(values))).all():
            return None
        least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if not least <= int(values.min()) <= int(values.max()) <= most:  # a float may be just beyond
            return None
    with np.errstate(over="ignore", invalid="ignore"):
        made = np.asarray(values.astype(dtype), order="C")
    if dtype.kind in "fc" and np.isinf(made).sum() > np.isinf(values).sum():
        return None
    return made
