"""All methods side by side: what each would do, without doing any of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import _core
from .._errors.classes import BudgetError
from .._runtime.plan import Plan, format_seconds
from .._runtime.routine import P, R, RoutineFunction

__all__ = ["METHODS", "StencilComparison", "StencilFunction"]

METHODS = ("al4", "al3", "al2", "al1", "sweep")


@dataclass(frozen=True)
class StencilComparison:
    """Plans of one time loop by every method.

    Attributes
    ----------
    plans : dict of Plan
        By the method's name; only those that the limit has room for.
    refused : dict of str
        Why the others cannot work: what they need, or what of the call they do not take.
    """

    __module__ = "flagstone"

    plans: dict[str, Plan]
    refused: dict[str, str]

    @property
    def best(self) -> str:
        """The method that takes the least time; "" where none works."""
        return min(self.plans, key=lambda name: self.plans[name].seconds, default="")

    def as_dict(self) -> dict[str, Any]:
        """Return the plans as a dictionary that json can write."""
        told = {name: plan.as_dict() for name, plan in self.plans.items()}
        return {"best": self.best, "plans": told, "refused": self.refused}

    def __str__(self) -> str:
        head = ("method", "depth", "supersteps", "block", "read", "written", "work", "peak", "bound", "time")
        rows = [head, *(self._row(name, plan) for name, plan in self.plans.items())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *(f"{name}: {why}" for name, why in self.refused.items())])

    @staticmethod
    def _row(name: str, plan: Plan) -> tuple[str, ...]:
        one = plan.choice
        cut = one.block or one.cache_block
        return (
            name, str(one.depth), str(one.supersteps), " x ".join(map(str, cut)),
            _core.format_bytes(plan.bytes_read), _core.format_bytes(plan.bytes_written),
            f"{one.updates / max(1.0, one.useful_updates):.2f}", _core.format_bytes(plan.peak_memory),
            one.bound, format_seconds(plan.seconds),
        )  # fmt: skip


class StencilFunction(RoutineFunction[P, R]):
    """A time loop: ``f(...)`` runs, ``f.plan(...)`` counts, ``f.compare(...)`` counts by every method."""

    def compare(self, *args: Any, **kwargs: Any) -> StencilComparison:
        """Return the plan of each method; takes the same arguments.

        Work is updates ÷ points times steps: halos are computed more than once. The state may be
        ``fl.planned(shape, dtype)``: nothing needs to exist. Reads and writes nothing.

        Returns
        -------
        StencilComparison
            `plans`, `refused`, `best`; prints as a table.
        """
        kwargs.pop("method", None)
        plans: dict[str, Plan] = {}
        refused: dict[str, str] = {}
        wrong: list[ValueError] = []  # of a method (a block and al4), or of all: then of the call
        for method in METHODS:
            try:
                plan = self.plan(*args, method=method, **kwargs)
                if plan.least_memory > plan.memory:
                    refused[method] = f"needs {_core.format_bytes(plan.least_memory)}"
                else:
                    plans[method] = plan
            except BudgetError as error:
                refused[method] = str(error)
            except ValueError as error:
                refused[method] = str(error)
                wrong.append(error)
        if len(wrong) == len(METHODS):
            raise wrong[0]
        return StencilComparison(plans, refused)
