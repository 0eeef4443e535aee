"""Angular momenta as people write them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np

from .._errors.classes import ShapeError
from .._errors.messages import shown

__all__ = ["MOST_TWO_J", "doubled", "momentum_text"]

MOST_TWO_J = 61  #: of an orbit that is held
_WRITTEN = re.compile(r"[+-]?\d{1,9}(?:\.\d{0,9}|/\d{1,9})?")


def doubled(who: str, name: str, value: Any, nucleons: int) -> int:
    """Return twice an angular momentum, given as 2, "5/2" or 2.5, that so many nucleons can have."""
    try:
        twice = _fraction(value) * 2
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ShapeError(f"{who}: {name} is {shown(value)}; give it as 2, '5/2' or 2.5.") from None
    if twice.denominator != 1 or twice < 0:
        raise ShapeError(
            f"{who}: {name} is {shown(value)}; a multiple of a half that is not negative is needed."
        )
    if twice > MOST_TWO_J * nucleons:
        most = momentum_text(MOST_TWO_J * nucleons)
        raise ShapeError(f"{who}: {name} is {shown(value)}; {nucleons} nucleons have {most} at most.")
    if int(twice) % 2 != nucleons % 2:
        kind = "half-integer" if nucleons % 2 else "whole"
        raise ShapeError(
            f"{who}: {name} is {value} and there are {nucleons} nucleons; {kind} values are theirs."
        )
    return int(twice)


def _fraction(value: Any) -> Fraction:
    if isinstance(value, (bool, np.bool_)) or (
        isinstance(value, str) and not _WRITTEN.fullmatch(value.strip())
    ):
        raise TypeError
    return Fraction(value if isinstance(value, (str, int)) else float(value))


def momentum_text(two_j: int) -> str:
    """Return it as people write it."""
    return str(two_j // 2) if two_j % 2 == 0 else f"{two_j}/2"
