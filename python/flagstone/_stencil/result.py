"""What a time loop leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from .._array.array import Array, shape_text

__all__ = ["StencilResult", "told_result"]


def told_result(kind: str, state: Any, steps: str, snapshots: Any, traces: Any, more: str = "") -> str:
    """Return a line that says what a result holds, and shows no element."""
    if isinstance(state, dict):
        one, what = next(iter(state.values())), f"fields {', '.join(state)}, each "
    else:
        one, what = (state[1], "before and now, each ") if isinstance(state, tuple) else (state, "")
    heard = f"{traces.shape[1]} receivers" if traces.shape[1] else ""
    kept = f"snapshots {', '.join(snapshots)}" if snapshots else ""
    rest = ", ".join(part for part in (steps, heard, kept, more) if part)
    return f"<flagstone.{kind}: {what}{shape_text(one.shape)} {one.dtype.name}, {rest}>"


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
        One value a step, by name, as it was asked for: of several fields ``("u", "max")`` too.
    """

    state: Any
    steps: int
    snapshots: dict[str, Array]
    traces: NDArray[Any]
    reductions: dict[Any, NDArray[Any]]

    def __repr__(self) -> str:
        told = [one if isinstance(one, str) else " of ".join(one[::-1]) for one in self.reductions]
        more = f"reductions {', '.join(told)}" if told else ""
        steps = f"{self.steps} steps"
        return told_result("StencilResult", self.state, steps, self.snapshots, self.traces, more)


StencilResult.__module__ = "flagstone"  # a NamedTuple takes no such line in its body
