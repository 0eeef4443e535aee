"""Names of rows and columns as AnnData has them: read from the file at first need, chosen as views choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._array.handle import Handle, derived, is_transposed

__all__ = ["AxisNames", "Names", "names_of", "note_names"]

Names = NDArray[np.str_]
AxisNames = Callable[[], Names | None]  #: reads them
AnyHandle = TypeVar("AnyHandle", bound=Handle)
_KEY = "axis_names"


def note_names(handle: AnyHandle, rows: AxisNames | None, columns: AxisNames | None) -> AnyHandle:
    """Keep beside a handle who reads the names of the rows and columns that are stored."""
    derived(handle)[_KEY] = [rows, columns]
    return handle


def names_of(handle: Any, axis: int) -> Names | None:
    """Return the names along an axis, as the handle is seen; None where the file has none."""
    if len(handle.shape) != 2:
        return None
    kept = derived(handle).get(_KEY)
    stored = 1 - axis if is_transposed(handle) else axis
    if kept is None or kept[stored] is None:
        return None
    if callable(kept[stored]):
        kept[stored] = kept[stored]()
    names: Names | None = kept[stored]
    chosen = getattr(handle, "_columns" if stored else "_rows", None)
    if names is None or chosen is None:
        return names.copy() if names is not None and len(names) == handle.shape[axis] else None
    found: Names = names[np.asarray(chosen)]
    return found
