"""Increasing numbers of rows or columns, as they stand in a record."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_text", "of_text"]

_MOST_TEXT = 1 << 20  # characters


def as_text(numbers: range | NDArray[np.int64] | None) -> Any:
    """Return a choice as JSON: a range by three numbers, others as packed bits; "": they are too many."""
    if numbers is None or isinstance(numbers, range):
        return None if numbers is None else [numbers.start, numbers.stop, numbers.step]
    bits = np.zeros(int(numbers[-1]) + 1, bool)
    bits[numbers] = True
    text = base64.b64encode(zlib.compress(np.packbits(bits).tobytes())).decode()
    return text if len(text) <= _MOST_TEXT else ""


def of_text(told: Any) -> Any:
    """Return what `as_text` made of a choice, as a key of an index; None: all."""
    if told is None or not isinstance(told, str):
        return slice(None) if told is None else slice(*told)
    return np.flatnonzero(np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(told)), np.uint8)))
