"""NumPy's own functions of this room's names, when they meet an Array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._expression import functions
from . import bins, histogram, ranks, scans, taking

__all__ = ["numpy_function"]


def _cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return scans.cumulative_sum(a, axis=axis, dtype=dtype, out=out)


def _cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    return scans.cumulative_prod(a, axis=axis, dtype=dtype, out=out)


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    ends = [None if end is np._NoValue else end for end in (prepend, append)]
    return scans.diff(a, n, axis, *ends)


_OURS: dict[str, Callable[..., Any]] = {
    "cumsum": _cumsum, "cumprod": _cumprod, "cumulative_sum": scans.cumulative_sum,
    "cumulative_prod": scans.cumulative_prod, "diff": _diff, "median": ranks.median,
    "quantile": ranks.quantile, "percentile": ranks.percentile, "histogram": histogram.histogram,
    "bincount": histogram.bincount, "digitize": bins.digitize, "isin": bins.isin, "take": taking.take,
    "take_along_axis": taking.take_along_axis, "nonzero": taking.nonzero,
}  # fmt: skip
_NAMES = ("x", "a", "arr", "element")  # what NumPy calls the array


def numpy_function(self: Any, function: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any:
    """Return what a NumPy function gives of an Array, without loading it; refuse what would load."""
    ours = _OURS.get(getattr(function, "__name__", ""))
    if ours is None or getattr(np, function.__name__, None) is not function:
        return functions.numpy_function(self, function, args, options)
    given = {k: v for k, v in options.items() if v is not np._NoValue}
    if not args:  # the array by its name
        name = next(name for name in _NAMES if name in given)
        args = (given.pop(name),)
    return ours(*args, **given)
