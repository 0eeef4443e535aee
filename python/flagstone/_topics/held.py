"""Documents that no topic is to see."""

from __future__ import annotations

import numpy as np

from .._errors.classes import ShapeError
from .._sparse.array import SparseArray

__all__ = ["hold_out"]


def hold_out(who: str, X: SparseArray, share: float, seed: int) -> tuple[SparseArray, SparseArray | None]:
    """Return X without a share of its documents, drawn at random, and those alone: None where there are none.

    Both are views with all rows of X, in which the others are empty; 16 bytes a document.
    """
    if not 0 <= share < 1:
        raise ShapeError(f"{who}: {share:g} of the documents cannot be held out; give a share below 1, or 0.")
    held = np.random.default_rng([seed, X.shape[0]]).random(X.shape[0]) < share
    if not held.any() or held.all():
        return X, None
    return X.scale(rows=~held), X.scale(rows=held)
