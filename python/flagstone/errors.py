"""What the user sees when something is wrong: two bases each, so that existing ``except`` clauses work."""

from ._errors.classes import AccessError as AccessError
from ._errors.classes import (
    BudgetError,
    ConvergenceError,
    DeviceError,
    Error,
    FormatError,
    IllConditionedWarning,
    NumericalError,
    ShapeError,
    StorageError,
)
from ._errors.classes import ExistsError as ExistsError
from ._errors.classes import MissingError as MissingError

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
