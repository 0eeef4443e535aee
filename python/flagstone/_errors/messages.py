"""Which exception an error of the system or of the core becomes, and what its sentence advises."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from .. import _core
from .classes import (
    AccessError,
    BudgetError,
    ConvergenceError,
    DeviceError,
    Error,
    ExistsError,
    FormatError,
    MissingError,
    NumericalError,
    ShapeError,
    StorageError,
)

__all__ = [
    "beyond_largest",
    "key_text",
    "not_finite",
    "path_text",
    "shown",
    "storage_error",
    "warn_caller",
    "warn_once",
    "with_advice",
    "writing",
]


_BY_ERRNO = {
    errno.ENOENT: MissingError,
    errno.ENOTDIR: MissingError,
    errno.EEXIST: ExistsError,
    errno.EACCES: AccessError,
    errno.EPERM: AccessError,
    errno.EROFS: AccessError,
}
_PLAIN = {
    kind.__name__: kind
    for kind in (Error, ShapeError, DeviceError, FormatError, NumericalError, ConvergenceError)
}


def storage_error(message: str, number: int, filename: str, offset: int = 0) -> StorageError:
    """Return the StorageError that is also Python's own class for this error number."""
    return _BY_ERRNO.get(number, StorageError)(message, number, filename, offset)


def shown(given: object) -> str:
    """Return a value as a sentence has it: on one line, or its type alone."""
    try:
        text = repr(given)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = ""
    return text if 0 < len(text) <= _SHOWN and "\n" not in text else f"of type {type(given).__name__}"


_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SHOWN = 80  # characters of a value in a sentence
_UNKNOWN = (1 << 64) - 1  # bytes that are free where the system does not say
_HIDDEN = re.compile(rf"/\.([^/]+){re.escape(_core.build_mark)}[0-9a-f]{{16}}(?=[/:' ]|$)")


def not_finite(who: str, name: str, row: int, column: int, index: int | None = None) -> NumericalError:
    """Return what is raised for a NaN or Inf, in the words of the core's kernels.

    `index`: what LAPACK would count; the row, from 1, where it is left out, as of right-hand sides.
    """
    return NumericalError(
        f"{who}: {name} has NaN or Inf at row {row}, column {column}; replace such values first.",
        row + 1 if index is None else index, row, column,
    )  # fmt: skip


def beyond_largest(who: str, place: int) -> NumericalError:
    """Return what is raised for the diagonal of an LU that a call made of a matrix without NaN or Inf."""
    return NumericalError(
        f"{who}: the factor of the matrix has NaN or Inf at row {place}, column {place} and the matrix has "
        "none: elimination went beyond the largest number; scale the matrix down.",
        place + 1, place, place,
    )  # fmt: skip


def with_advice(message: str, number: int, filename: str) -> str:
    """Say, of a full disk, where, how much is free and what to do; name the result, not its build."""
    message = _HIDDEN.sub(r"/\1", message)
    if number not in (errno.ENOSPC, errno.EDQUOT) or "free some space" in message:
        return message
    place = os.path.abspath(filename)
    while not os.path.isdir(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    there = _HIDDEN.sub(r"/\1", place)
    left = _core.free_bytes(place)
    free = f"{_core.format_bytes(left)} are free in '{there}'" if left < _UNKNOWN else f"in '{there}'"
    if number == errno.EDQUOT:
        return (
            f"{message} (the disk quota is used up; {free}); free some space, raise the quota or write "
            "elsewhere, and make the call again."
        )
    return f"{message} ({free}); free some space or write elsewhere, and make the call again."


@contextlib.contextmanager
def writing(who: str, path: str, target: str | None = None) -> Iterator[None]:
    """Say, of a system that refuses what the body writes to `path`, which file, where and why.

    Who writes there knows no names: Python's own files, `zipfile`, `gzip`, pyarrow, HDF5 (which says what it
    could not write back where a file is closed, in words alone, by a RuntimeError). Errors about other files
    stay what they are; `path` may be a directory with all that is in it. `target`: what the caller calls the
    file. Whatever the body had open is closed then: a traceback that somebody keeps would keep the file,
    which has gone, on the disk.
    """
    try:
        yield
    except Error as error:
        _let_go(error)
        raise
    except (OSError, RuntimeError) as error:
        _let_go(error)
        number = getattr(error, "errno", None) or _number_in(error, path)
        if not number or not _is_in(getattr(error, "filename", None), path):
            raise
        told = with_advice(f"{who}: cannot write '{target or path}': {os.strerror(number)}", number, path)
        raise storage_error(told if told.endswith(".") else f"{told}.", number, target or path) from None


def _let_go(error: BaseException) -> None:
    """Clear the calls that an error has left, and those that it came from."""
    one: BaseException | None = error
    while one is not None:
        traceback.clear_frames(one.__traceback__)
        one = one.__context__


def _number_in(error: Exception, path: str) -> int:
    """Return the error number that a library says in words only: HDF5, which names what it closes."""
    found = re.search(r"errno = (\d+)", str(error))
    about = isinstance(error, OSError) or f"'{path}'" in str(error)
    return int(found[1]) if found and about else 0


def _is_in(name: Any, path: str) -> bool:
    """Say whether an error is about a path, or what lies in it, or names nothing."""
    return name is None or f"{os.fsdecode(name)}{os.sep}".startswith(f"{path}{os.sep}")


def path_text(who: str, path: str | bytes | os.PathLike[Any]) -> str:
    """Return a path as text that the core takes, or say why it is none."""
    try:
        place = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"{who}: the path is {shown(path)}; a text or a pathlib.Path is needed.") from None
    try:
        place.encode("utf-8")
    except UnicodeEncodeError:
        raise FormatError(f"{who}: the path {place!r} is not UTF-8; rename it.") from None
    if _REMOTE.match(place):
        raise FormatError(
            f"{who}: '{place}' is no local path, and only those are opened here; mount the bucket "
            "(mount-s3, rclone mount) or copy it (aws s3 cp --recursive, rclone copy), and name that place."
        )
    if not place:
        raise storage_error(f"{who}: the path is empty; name a file or a directory.", errno.ENOENT, place)
    if "\0" in place:
        raise FormatError(f"{who}: the path {place!r} holds a zero byte; no file is called so.")
    return place


def key_text(who: str, key: Any) -> str | None:
    """Return the name of a member, or say why it is none."""
    if key is not None and not isinstance(key, str):
        raise TypeError(
            f"{who}: key is {shown(key)}; one text is needed (of Parquet and Arrow names with commas: 'a,b')."
        )
    return key


_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_said: set[str] = set()


def warn_once(text: str) -> None:
    """Warn whoever called the package of this, once in a process."""
    if text in _said:
        return
    _said.add(text)
    warn_caller(text, UserWarning)


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn whoever called the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def _translate(kind: str, message: str, detail: Any) -> Error:
    """Make the Python exception for a C++ one; the bindings call it."""
    if kind == "BudgetError":
        return BudgetError(message, detail)
    if kind == "ScratchError":  # its sentence says all
        return storage_error(message, *detail)
    if kind == "StorageError":
        return storage_error(with_advice(message, detail[0], detail[1]), *detail)
    if kind == "PivotError":
        index, row, column = detail
        return NumericalError(message, index, *((row, column) if row >= 0 else ()))
    return _PLAIN[kind](message)


_core.register_errors(_translate)
