"""What a time loop leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from .._array.array import Array

__all__ = ["StencilResult"]


class StencilResult(NamedTuple):
    """What a time loop leaves.

    Attributes
    ----------
    state : Array or ndarray, or a pair of them
        The field after the last step; of time order 2 (before, now); of several fields a dict.
    steps : int
        Steps that were done.
    snapshots : dict of Array
        What was kept of the field on the way, by name: times x what was asked for.
    traces : ndarray, steps x receivers
        The field's values at the receivers after each step.
    reductions : dict of ndarray
        One value a step, by name.
    """

    state: Any
    steps: int
    snapshots: dict[str, Array]
    traces: NDArray[Any]
    reductions: dict[str, NDArray[Any]]


StencilResult.__module__ = "flagstone"  # a NamedTuple takes no such line in its body
