"""Choices of rows for routines that read panels as they are stored: copied first, inside the call's limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from .. import _core
from .._errors.classes import Error, ShapeError
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import Routine
from .._sparse.to_csr import all_rows, is_choice, is_view, own_bytes, own_rows, sparse_by_rows

__all__ = ["AfterCopies", "of_rows"]

R = TypeVar("R")


class AfterCopies(Generic[R]):
    """A call with choices of rows among its operands, which is planned as if all rows were taken.

    Panels are as large however many rows are chosen, so that its least limit is that of the whole.
    """

    def __init__(
        self, call: Call, prepare: Callable[..., Routine[R]], operands: list[Any], names: list[str]
    ) -> None:
        self.call, self.prepare, self.operands = call, prepare, operands
        _check_heights(call.who, operands, names)
        self.chosen = [one for one in operands if is_choice(one)]
        self.names = " and ".join(name for name, one in zip(names, operands, strict=True) if is_choice(one))
        whole = [all_rows(one) for one in operands]
        alike = len({_height(one) for one in whole}) == 1
        self.whole = prepare(*whole) if alike else None  # which checks the other arguments, too

    def least(self, beside: int = 0) -> int:
        """Return the bytes that copies and call need, the larger of both."""
        copying = _core.resident_bytes() + max(own_bytes(one) for one in self.chosen) + beside
        return copying if self.whole is None else max(copying, self.whole.least(beside))

    def plan(self) -> Plan:
        """Count it, for all rows that the choices are of."""
        if self.whole is None:
            raise Error(
                f"{self.call.who}: {self.names} is a choice of rows beside an operand that is none of as "
                "many, and what it takes is known when it is stored; plan it with fl.convert(choice, path)."
            )
        made = self.whole.plan()
        rates, least = self.call.use_profile().rates, self.call.rounded(self.least())
        for one in self.chosen:
            moved = one.stored_bytes
            seconds = moved / rates["read_bytes_per_second"] + moved / rates["write_bytes_per_second"]
            peak = _core.resident_bytes() + own_bytes(one)
            copy = Plan(made.what, made.method, 1, moved, moved, 0.0, peak, least, seconds, self.call.memory)
            made = replace(together(made.what, [made, copy]), scratch_bytes=made.scratch_bytes + moved)
        note = f"{self.names} is copied into scratch first; counted for all rows that it is chosen of"
        return replace(made, note=f"{made.note}; {note}" if made.note else note)

    def run(self) -> R:
        """Copy what is chosen, and do it."""
        self.call.check_least(self.least())
        made = self.prepare(*(self._own(one) for one in self.operands))
        made.operation = ""  # what is brought into scratch goes with the process: it begins again
        return made.run()

    def _own(self, one: Any) -> Any:
        return own_rows(self.call, one) if is_choice(one) else one


def of_rows(
    who: str, memory: Any, prepare: Callable[..., Routine[R]], **operands: Any
) -> AfterCopies[R] | Routine[R]:
    """Return a call of operands by rows: what `prepare` makes of them, after copies where rows are chosen."""
    given = [sparse_by_rows(who, one, memory) if is_view(one) else one for one in operands.values()]
    if not any(is_choice(one) for one in given):
        return prepare(*operands.values())
    return AfterCopies(Call(who, memory), prepare, given, list(operands))


def _check_heights(who: str, operands: list[Any], names: list[str]) -> None:
    for name, one in zip(names[1:], operands[1:], strict=True):
        if _height(one) != _height(operands[0]):
            raise ShapeError(
                f"{who}: {names[0]} has {_height(operands[0])} rows and {name} {_height(one)}; a row of each "
                "point is needed."
            )


def _height(given: Any) -> int:
    return int(given.shape[0]) if hasattr(given, "shape") else len(given)
