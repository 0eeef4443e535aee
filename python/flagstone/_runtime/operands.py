"""Operands that somebody gives as NumPy arrays."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

__all__ = ["unmasked"]

Given = TypeVar("Given")


def unmasked(who: str, given: Given) -> Given:
    """Return an operand; refuse one whose mask ``np.asarray`` would drop."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            f"{who}: a masked array was given, whose mask would be lost; fill it first (x.filled(value))."
        )
    return given
