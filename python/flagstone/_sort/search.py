"""Where values belong in a sorted array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._along.taking import take
from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._runtime.call import Call
from .order import stored
from .stretches import Stretch, flat, length_of, part, stretches

__all__ = ["searchsorted"]


def _check_sorter(line: Any, sorter: Any) -> None:
    shape = tuple(sorter.shape) if hasattr(sorter, "shape") else np.shape(sorter)
    if shape != tuple(line.shape):
        given = shape_text(shape) if shape else "one number"
        raise ShapeError(
            f"searchsorted: sorter is {given} and x1 {shape_text(line.shape)}; a place for each "
            "element of x1, as argsort(x1) gives them, is needed."
        )


def searchsorted(
    x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None, memory: int | str | None = None
) -> Array:
    """Return where values belong in a sorted array, so that it stays sorted.

    Parameters
    ----------
    x1 : Array, Expression or ndarray
        One dimension, sorted as `sort` does it (not looked at).
    x2 : Array, Expression or ndarray
        The values, of any dimensions.
    side : {"left", "right"}
        Before or behind elements that are equal.
    sorter : Array or ndarray of int, optional
        Places that sort x1: ``argsort(x1)``.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array
        int64, of x2's shape, in scratch.

    Raises
    ------
    ShapeError
        x1 has not one dimension, or `sorter` another shape.
    ValueError
        `side` is neither.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Holds a stretch of both at a time, 8 MiB of each or less: reads x2 once, and x1 once a stretch of x2 that
    reaches over it. O(log n) comparisons a value and stretch of x1.
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is {side!r}; choose 'left' or 'right'.")
    call = Call("searchsorted", memory)
    line, wanted = stored(call, x1), stored(call, x2)
    if line.ndim != 1:
        raise ShapeError(f"searchsorted: x1 is {shape_text(line.shape)}; one dimension is needed.")
    if sorter is not None:
        _check_sorter(line, sorter)
        line = take(line, sorter, 0, memory=memory)
    shape = wanted.shape
    values = wanted.reshape(-1) if wanted.ndim == 0 else flat(call, wanted)
    made = Stretch(call, "places", shape, np.int64)
    step = length_of(
        call, max(1, line.shape[0], values.shape[0]), line.dtype.itemsize + values.dtype.itemsize + 24
    )
    for first in range(0, values.shape[0], step):
        last = min(first + step, values.shape[0])
        made.append(_places(call, line, part(call, values, first, last), side, step))
    return made.close()


def _places(call: Call, line: Any, block: NDArray[Any], side: str, step: int) -> NDArray[np.int64]:
    places = np.zeros(len(block), np.int64)
    for _, known in stretches(call, line, step):
        # The stretches are sorted: what belongs behind one counts all of it, what belongs before nothing.
        places += np.searchsorted(known, block, side)  # type: ignore[call-overload]
    return places
