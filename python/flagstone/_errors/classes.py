"""What the user sees when something is wrong: two bases each, so that existing ``except`` clauses work."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "BudgetError",
    "ConvergenceError",
    "DeviceError",
    "Error",
    "FormatError",
    "IllConditionedWarning",
    "NumericalError",
    "ShapeError",
    "StorageError",
]


class Error(Exception):
    """Base of everything that Flagstone raises."""

    __module__ = "flagstone"


class ShapeError(Error, ValueError):
    """Shapes, tiles, dtypes or counts do not conform."""

    __module__ = "flagstone"


class BudgetError(Error, MemoryError):
    """The limit cannot hold the least working set; raised before any data is moved.

    Attributes
    ----------
    least : int
        The memory limit, in bytes, that works.
    """

    __module__ = "flagstone"

    def __init__(self, message: str, least: int = 0) -> None:
        super().__init__(message)
        self.least = least


class IllConditionedWarning(UserWarning):
    """A solution may have no correct digit: the condition of the matrix is beyond 1 / eps of its dtype."""

    __module__ = "flagstone"


class StorageError(Error, OSError):
    """The system said no after retries.

    Attributes
    ----------
    errno : int
        The system's error number.
    filename : str
        The file concerned.
    offset : int
        Where in the file, in bytes.
    """

    __module__ = "flagstone"

    def __init__(self, message: str, number: int = 0, filename: str = "", offset: int = 0) -> None:
        super().__init__(number, message)
        self.message = message
        self.filename = filename
        self.offset = offset

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.errno, self.filename, self.offset)


class MissingError(StorageError, FileNotFoundError):
    """A path that does not exist."""

    __module__ = "flagstone.errors"


class ExistsError(StorageError, FileExistsError):
    """A path that exists already and was not to be replaced."""

    __module__ = "flagstone.errors"


class AccessError(StorageError, PermissionError):
    """A path that may not be read or written."""

    __module__ = "flagstone.errors"


class DeviceError(Error, RuntimeError):
    """A device failed, is lost or is not there; what it had is not used, and nothing goes on elsewhere."""

    __module__ = "flagstone"


class FormatError(Error, ValueError):
    """Not a format that is read here, or a damaged file."""

    __module__ = "flagstone"


class NumericalError(Error, np.linalg.LinAlgError):
    """Not positive definite, singular, NaN or Inf where numbers are needed.

    Attributes
    ----------
    index : int or None
        Where, counted from 1 as LAPACK's info, if there is such a place: the order of the leading minor
        that is not positive or not finite, the column whose pivot is zero.
    row, column : int or None
        Of an element that is NaN or Inf, counted from 0, of what the sentence names.
    """

    __module__ = "flagstone"

    def __init__(
        self,
        message: str = "",
        index: int | None = None,
        row: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.index, self.row, self.column = index, row, column

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.index, self.row, self.column)


class ConvergenceError(NumericalError):
    """An iteration did not reach its tolerance.

    Attributes
    ----------
    partial : object
        What was reached, as the routine returns it; None where there is nothing.
    """

    __module__ = "flagstone"

    partial: Any = None
