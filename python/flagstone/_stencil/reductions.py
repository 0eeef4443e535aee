"""What is told of every step, and what ends a loop early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import ShapeError
from .given.arguments import field_number, listed, number, shown

__all__ = ["Reductions"]

_KINDS = ("max", "min", "sum", "l2", "change")


@dataclass(frozen=True)
class _Reduction:
    key: Any  #: as the caller names it: a kind, or a field's name and a kind
    field: int
    kind: str


class Reductions:
    """The reductions of one call: what the caller gets, and what else is computed for `until`.

    `fields`: names of several fields; of one none. A reduction of several is "max" (of the first of them) or
    ("v", "max").
    """

    def __init__(
        self, who: str, given: Any, until: Any, check: Any, dtype: np.dtype[Any], fields: Sequence[str] = ()
    ) -> None:
        self.who, self.dtype, self.fields = who, dtype, list(fields)
        given = [given] if isinstance(given, str) else listed(who, "reductions", given, "names")
        self.asked = list(dict.fromkeys(self._reduction(one) for one in given))
        if until is not None and (not isinstance(until, Mapping) or not until):
            raise TypeError(
                f"{who}: until is {shown(until)}; a mapping such as {{'change': 1e-6}} is needed: the loop "
                "ends where a reduction is at most so much."
            )
        self.criteria = [
            (self._reduction(key), number(who, f"until {shown(key)}", most))
            for key, most in (until or {}).items()
        ]
        if not isinstance(check, (bool, np.bool_)):
            raise TypeError(f"{who}: check is {shown(check)}; True or False is needed.")
        self.check = bool(check)

    @property
    def names(self) -> list[Any]:
        """What was asked, as JSON."""
        return [_told(one.key) for one in self.asked]

    @property
    def until(self) -> Any:
        """The criteria, as JSON."""
        if not self.fields:
            return {one.key: most for one, most in self.criteria} or None
        return [[_told(one.key), most] for one, most in self.criteria] or None

    def check_state(self, shape: tuple[int, ...], replaced: Sequence[int]) -> None:
        """Refuse a state that nothing can be told of; `replaced`: how many stages replace each field."""
        every = [*self.asked, *(one for one, _ in self.criteria)]
        if (every or self.check) and 0 in shape:
            raise ShapeError(
                f"{self.who}: the state is {shape_text(shape)} and has no point to tell of; ask for no "
                "reductions, until or check."
            )
        for one in every:
            if self.fields and one.kind == "change" and replaced[one.field] != 1:
                raise ValueError(
                    f"{self.who}: {replaced[one.field]} stages replace the field "
                    f"'{self.fields[one.field]}', and 'change' is told of fields that one stage replaces; "
                    "ask for another reduction of it."
                )

    def tell(self, core: _core.Stencil) -> None:
        """Ask the core for them."""
        for field in range(max(1, len(self.fields))):
            until = [(one.kind, most) for one, most in self.criteria if one.field == field]
            kinds = [one.kind for one in self.asked if one.field == field]
            core.reduce(field, list(dict.fromkeys([*kinds, *(kind for kind, _ in until)])), until, self.check)

    def found(self, core: _core.Stencil) -> dict[Any, NDArray[Any]]:
        """Return one value a step that was done, by what the caller calls it."""
        each = {one.key: core.reduced(one.field, one.kind) for one in self.asked}
        return {key: np.frombuffer(values, dtype).copy() for key, (dtype, values) in each.items()}

    def vectors(self, found: Mapping[Any, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return them by their places in a group."""
        where = {one.key: [self.fields[one.field]] if self.fields else [] for one in self.asked}
        kinds = {one.key: one.kind for one in self.asked}
        return {"/".join(["reductions", *where[key], kinds[key]]): values for key, values in found.items()}

    def _reduction(self, given: Any) -> _Reduction:
        kind, field = given, 0
        if self.fields and isinstance(given, (tuple, list)) and len(given) == 2:
            field, kind = field_number(self.who, "a reduction", given[0], self.fields), given[1]
            given = tuple(given)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise ValueError(
                f"{self.who}: there is no reduction {shown(kind)}; choose among {', '.join(_KINDS)}."
            )
        if self.dtype.kind == "c" and kind in ("max", "min"):
            raise TypeError(
                f"{self.who}: the field is {self.dtype.name}, which has no {kind}; 'l2' tells its size."
            )
        return _Reduction(given, field, kind)


def _told(key: Any) -> Any:
    return list(key) if isinstance(key, tuple) else key
