"""What routines of this room have in common: passes that look at one lazy value, results that are small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._expression.compute import deliver, how_of
from .._expression.expression import Expression, as_expression
from .._expression.program import leaves, lower
from .._output.place import IN_MEMORY, Place, check_out
from .._runtime.call import Call
from .._runtime.routine import How, Routine

__all__ = ["Finished", "Look", "Small", "given_value"]


def given_value(who: str, given: Any, kinds: str = "biufc") -> Expression:
    """Return an operand as a lazy value; refuse dtypes that the routine does not take."""
    value = as_expression(given, who)
    if value.dtype.kind not in kinds:
        named = {"c": "complex numbers", "f": "floats", "b": "booleans"}.get(value.dtype.kind, "integers")
        wanted = "integers" if "f" not in kinds else "real numbers"
        raise TypeError(f"{who}: {named} were given ({value.dtype.name}); {wanted} are needed.")
    return value


class Look(Routine[Any]):
    """One lazy value that a job of the core looks at, tile by tile; with `also`, of its shape, two."""

    second: int  #: which value of the pass `also` is

    def __init__(self, call: Call, given: Expression, also: Expression | None = None) -> None:
        self.given, self.also = given, also
        super().__init__(call)
        call.on(*(leaf.payload.path for leaf in self._leaves() if isinstance(leaf.payload, Array)))

    def _leaves(self) -> list[Expression]:
        return [*leaves(self.given), *(leaves(self.also) if self.also is not None else ())]

    def looking(self) -> tuple[_core.Pass, int]:
        """Return the pass over the value's operands, and which of its values it is."""
        for leaf in self._leaves():
            if isinstance(leaf.payload, Array):
                leaf.payload.flush()
        both = [self.given] if self.also is None else [self.given, self.also]
        program, operands, values = lower(both, self.call)
        self.second = values[-1]
        self.call.scratch_in_run()
        built = _core.Pass(program, [0] * self.given.ndim, list(self.given.shape))
        for array, transposed in operands:
            built.operand(array, transposed)
        self.core = built
        return built, values[0]

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} {shape_text(self.given.shape)} {self.given.dtype.name}"

    def how(self, job: Any) -> How:
        """Say how it is computed."""
        return how_of(self.core, "")


class Small(Look):
    """A look whose job makes a few numbers in memory, of which the result is made."""

    def __init__(
        self, call: Call, given: Expression, made: tuple[tuple[int, ...], Any],
        result: tuple[tuple[int, ...], Any], out: Any, more: int = 0, also: Expression | None = None,
    ) -> None:  # fmt: skip
        """`made`, `result`: shape and dtype of what the job writes, and of what the caller gets.

        `more`: bytes of ordinary memory beside what the job writes, for making the result of it.
        """
        super().__init__(call, given, also)
        check_out(call.who, out, result[0], np.dtype(result[1]))
        self.out, self.more = out, more
        self.numbers = Place(call, made[0], np.dtype(made[1]), IN_MEMORY, None)
        self.places = [self.numbers]

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that the call takes."""
        return super().beside + self.more

    def finish(self, numbers: Any) -> Any:
        """Return the result, made of the job's numbers."""
        raise NotImplementedError

    def result(self, job: Any) -> Any:
        """Put the result where it was asked for."""
        value = self.finish(self.numbers.close())
        return deliver(value, self.out)


class Finished:
    """A call of which nothing is left to do: its result is known from the shapes."""

    def __init__(self, routine: Look | None, make: Callable[[], Any], out: Any = None) -> None:
        self._routine, self._make, self._out = routine, make, out

    def plan(self) -> Any:
        """Count nothing."""
        assert self._routine is not None
        return self._routine.plan()

    def run(self) -> Any:
        """Return it."""
        return deliver(self._make(), self._out)
