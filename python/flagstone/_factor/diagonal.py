"""What the diagonal of a factor tells for nothing: a condition that there is at least."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import IllConditionedWarning
from .._errors.messages import warn_caller

__all__ = ["FactorDiagonal", "warn_of"]


class FactorDiagonal:
    """The diagonal of a factor, copied as it passes through memory.

    max |r_ii| / min |r_ii| is a lower bound of the condition of the triangle, and no estimate of it: Kahan's
    matrix has a diagonal that says next to nothing. Of A = L Lᴴ its square is one of A's.
    """

    def __init__(self, n: int, dtype: np.dtype[Any], squared: bool) -> None:
        self.values: NDArray[Any] = np.ones(n, dtype)
        self.squared = squared

    @property
    def core(self) -> _core.Array:
        """Where it is copied to."""
        return _core.memory_array(self.values)

    @property
    def bound(self) -> float:
        """What the condition is at least, in any norm."""
        sizes = np.abs(self.values).astype(np.float64)
        if not sizes.size or not sizes.all():
            return float("inf") if sizes.size else 1.0
        with np.errstate(over="ignore"):
            return float((sizes.max() / sizes.min()) ** (2 if self.squared else 1))

    def warn(self, who: str) -> None:
        """Warn where not even one digit of a solution is certain."""
        warn_of(who, "is at least", self.bound, self.values.dtype)


def warn_of(who: str, what: str, condition: float, dtype: np.dtype[Any]) -> None:
    """Warn of a condition that is beyond what a dtype resolves."""
    eps = float(np.finfo(dtype).eps)
    if condition > 1 / eps:
        warn_caller(
            f"{who}: the condition of the matrix {what} {condition:.2g} and {dtype} resolves {1 / eps:.2g}; "
            "the solution may have no correct digit.",
            IllConditionedWarning,
        )
