"""Angular momenta as people write them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .._errors.classes import ShapeError

__all__ = ["doubled", "momentum_text"]


def doubled(who: str, name: str, value: Any, nucleons: int) -> int:
    """Return twice an angular momentum, given as 2, "5/2" or 2.5, that so many nucleons can have."""
    try:
        twice = Fraction(value if isinstance(value, (str, int)) else float(value)) * 2
    except (TypeError, ValueError, OverflowError):
        raise ShapeError(f"{who}: {name} is {value!r}; give it as 2, '5/2' or 2.5.") from None
    if twice.denominator != 1 or twice < 0:
        raise ShapeError(f"{who}: {name} is {value!r}; a multiple of a half that is not negative is needed.")
    if int(twice) % 2 != nucleons % 2:
        kind = "half-integer" if nucleons % 2 else "whole"
        raise ShapeError(
            f"{who}: {name} is {value} and there are {nucleons} nucleons; {kind} values are theirs."
        )
    return int(twice)


def momentum_text(two_j: int) -> str:
    """Return it as people write it."""
    return str(two_j // 2) if two_j % 2 == 0 else f"{two_j}/2"
