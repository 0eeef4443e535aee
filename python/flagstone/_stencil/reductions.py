"""What is told of every step, and what ends a loop early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ShapeError
from .given.arguments import listed, number, shown

__all__ = ["Reductions"]

_KINDS = ("max", "min", "sum", "l2", "change")


class Reductions:
    """The reductions of one call: `names`, which the caller gets, and what else is computed for `until`."""

    def __init__(self, who: str, given: Any, until: Any, check: Any, dtype: np.dtype[Any]) -> None:
        given = [given] if isinstance(given, str) else listed(who, "reductions", given, "names")
        self.names = list(dict.fromkeys(_kind(who, name, dtype) for name in given))
        if until is not None and (not isinstance(until, Mapping) or not until):
            raise TypeError(
                f"{who}: until is {shown(until)}; a mapping such as {{'change': 1e-6}} is needed: the loop "
                "ends where a reduction is at most so much."
            )
        self.until = [
            (_kind(who, name, dtype), number(who, f"until '{name}'", most))
            for name, most in (until or {}).items()
        ]
        if not isinstance(check, (bool, np.bool_)):
            raise TypeError(f"{who}: check is {shown(check)}; True or False is needed.")
        self.check = bool(check)

    def check_state(self, who: str, fields: bool, shape: tuple[int, ...]) -> None:
        """Refuse a state that nothing can be told of."""
        if not self.names and not self.until and not self.check:
            return
        if fields:
            raise ValueError(
                f"{who}: reductions, until and check are of a field alone, and the state is a dict; give "
                "snapshots or receivers instead."
            )
        if 0 in shape:
            raise ShapeError(
                f"{who}: the state is {shape_text(shape)} and has no point to tell of; ask for no "
                "reductions, until or check."
            )

    def tell(self, core: _core.Stencil) -> None:
        """Ask the core for them."""
        asked = list(dict.fromkeys([*self.names, *(name for name, _ in self.until)]))
        core.reduce(asked, self.until, self.check)

    def found(self, core: _core.Stencil) -> dict[str, NDArray[Any]]:
        """Return one value a step that was done, by name."""
        each = {name: core.reduced(name) for name in self.names}
        return {name: np.frombuffer(values, dtype).copy() for name, (dtype, values) in each.items()}


def _kind(who: str, name: Any, dtype: np.dtype[Any]) -> str:
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(f"{who}: there is no reduction {shown(name)}; choose among {', '.join(_KINDS)}.")
    if dtype.kind == "c" and name in ("max", "min"):
        raise TypeError(f"{who}: the field is {dtype.name}, which has no {name}; 'l2' tells its size.")
    return name
