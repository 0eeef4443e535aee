"""NumPy's functions that give lazy arrays where they meet one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import creation, join, places, spaced

__all__ = ["by_numpy_name"]

_NAMED = {
    "concatenate": join.concat,
    **{name: getattr(join, name) for name in join.__all__},
    **{name: getattr(places, name) for name in places.__all__},
    **{name: getattr(creation, name) for name in creation.__all__},
    **{name: getattr(spaced, name) for name in spaced.__all__},
}


def by_numpy_name(name: str) -> Callable[..., Any] | None:
    """Return the function that NumPy's of this name gives for an Array; None where there is none."""
    return _NAMED.get(name)
