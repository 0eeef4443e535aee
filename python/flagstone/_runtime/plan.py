"""What a call would do and what it did: the same fields, printed as the same short table."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from .. import _core
from .._html.table import html_table
from .spaces import Space, rows_of
from .spaces import together as spaces_together

__all__ = ["Costs", "Plan", "Stats", "comparison", "format_seconds", "together"]


def format_seconds(seconds: float) -> str:
    """Return "0.8 s", "42 s", "3 min 05 s" or "2 h 10 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


@dataclass(frozen=True)
class _Costs:
    """Fields that a plan and a finished run share."""

    what: str
    method: str
    passes: int
    bytes_read: int
    bytes_written: int
    flops: float
    peak_memory: int
    least_memory: int
    seconds: float
    memory: int = 0
    note: str = ""
    most_passes: int = 0
    stencil: Any = field(default=None, kw_only=True)
    spaces: tuple[Space, ...] = field(default=(), kw_only=True)

    def _rows(self) -> list[tuple[str, str]]:
        limit = f" of {_core.format_bytes(self.memory)}" if self.memory else ""
        rows = [
            ("method", self.method),
            ("passes", f"{self.passes} over the input{self._more_passes()}"),
            ("read", _core.format_bytes(self.bytes_read)),
            ("written", _core.format_bytes(self.bytes_written)),
            ("flops", f"{self.flops:.3g}"),
            ("peak memory", _core.format_bytes(self.peak_memory) + limit),
        ]
        if self.least_memory:
            rows.append(("least memory", _core.format_bytes(self.least_memory)))
        rows += rows_of(self.spaces)
        return [*rows, ("time", format_seconds(self.seconds) + self._range())]

    def _range(self) -> str:
        return ""

    def _more_passes(self) -> str:
        if self.most_passes <= self.passes:
            return ""
        return f"; up to {self.most_passes} where its spectrum is flat"

    def __str__(self) -> str:
        lines = [self.what, *(f"  {name:<13} {text}" for name, text in self._rows())]
        if self.note:
            lines += textwrap.wrap(
                self.note, 100, initial_indent="  why           ", subsequent_indent=" " * 16
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [("call", self.what), *self._rows(), *([("why", self.note)] if self.note else [])]
        return html_table(type(self).__name__, dict(rows))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary that json can write."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.stencil is not None:
            told["stencil"] = asdict(self.stencil)
        told["spaces"] = [asdict(one) for one in self.spaces]
        return told


@dataclass(frozen=True)
class Plan(_Costs):
    """What a call would do, counted by running its tasks on a virtual clock.

    Nothing is read, written or computed.

    Attributes
    ----------
    method : str
        The algorithm that would be used; `note` says why.
    passes : int
        Reads of the input. Where the count depends on the data: what a spectrum that falls like a power
        needs.
    most_passes : int
        Reads of an input whose spectrum is flat: for `pca` noise without any structure; for iterations the
        count after which they give up. 0 where the count is certain.
    least_seconds, most_seconds : float
        Of an input of low rank, and of `most_passes`; 0 where the count of passes is certain.
    bytes_read, bytes_written : int
        Bytes submitted to the disk.
    flops : float
        Floating point operations.
    peak_memory, least_memory : int
        Most resident memory of the process, and the least limit that works, in bytes.
    seconds : float
        Estimated from the rates of this machine.
    rates : str
        Where those come from: measured (`calibrate`), a quick probe, or the default.
    scratch_bytes : int
        What lies in scratch at its fullest: a result without `out=`, tiles between two passes. Packed results
        count as long as they can be.
    scratch_quota : int
        What may lie there, of all calls together; 0: no quota.
    advice : str
        What the next budget buys, where workers wait for memory; else "".
    bound : str
        Of a simulated machine: what the call could not be shorter than, of the disk, the workers and the
        longest chain of tasks that wait for one another.
    idle_share : float
        Of a simulated machine: the share of its workers' time in which they have nothing to do.
    stencil : StencilScheme or None
        Of a time loop: what was chosen, and what that does. (`choice` is another name of it.)
    spaces : tuple of Space
        Where the runtime has devices, what each memory would hold and move, the host's first; else ().
    """

    __module__ = "flagstone"

    rates: str = ""
    scratch_bytes: int = 0
    scratch_quota: int = 0
    least_seconds: float = 0.0
    most_seconds: float = 0.0
    advice: str = ""
    bound: str = ""
    idle_share: float = 0.0

    @property
    def choice(self) -> Any:
        """What was chosen for a time loop; None of other calls."""
        return self.stencil

    def _range(self) -> str:
        if self.most_seconds <= self.seconds:
            return ""
        return (
            f"; {format_seconds(self.least_seconds)} to {format_seconds(self.most_seconds)} by its spectrum"
        )

    def _rows(self) -> list[tuple[str, str]]:
        rows = super()._rows()
        if self.scratch_bytes:
            most = f", quota {_core.format_bytes(self.scratch_quota)}" if self.scratch_quota else ""
            rows.append(("scratch", _core.format_bytes(self.scratch_bytes) + most))
        if self.advice:
            rows.append(("memory", self.advice))
        if self.bound:
            rows += [("idle workers", f"{self.idle_share:.0%}"), ("bound by", self.bound)]
        return [*rows, ("rates", self.rates)] if self.rates else rows

    def __repr__(self) -> str:
        return f"<Plan: {self}>"


@dataclass(frozen=True)
class Stats(_Costs):
    """What the last call did; `peak_memory` is what the kernel says (VmHWM), `stencil` what a loop was.

    `spaces`: where the runtime has devices, what each memory held and moved, the host's first; else ().

    Of a projection: `pairs` of groups, `nonzeros` of H that were made, and `components`, seconds: `make` H,
    `multiply` and `wait` of workers, `read` and `write` of the disk, whose time is shared by bytes.
    """

    __module__ = "flagstone"

    tasks: int = 0
    worker_busy_seconds: float = 0.0
    worker_idle_seconds: float = 0.0
    ring_busy_seconds: float = 0.0
    ring_idle_seconds: float = 0.0
    resident_at_entry: int = 0
    budget: int = 0
    peak_budget: int = 0
    io: str = ""
    pairs: int = 0
    nonzeros: int = 0
    components: dict[str, float] = field(default_factory=dict)

    def _rows(self) -> list[tuple[str, str]]:
        return [*super()._rows(), ("disk", self.io)]

    def __repr__(self) -> str:
        return f"<Stats: {self}>"


Costs = TypeVar("Costs", Plan, Stats)

_ADDED = (
    "bytes_read", "bytes_written", "flops", "seconds", "tasks", "worker_busy_seconds", "worker_idle_seconds",
    "ring_busy_seconds", "ring_idle_seconds",
)  # fmt: skip
_MOST = ("peak_memory", "least_memory", "scratch_bytes", "peak_budget")


def together(what: str, parts: Sequence[Costs]) -> Costs:
    """Return the plan, or the statistics, of calls that are made one after the other."""
    told: dict[str, Any] = {"what": what}
    names = {one.name for one in fields(parts[0])}
    told.update({name: sum(getattr(one, name) for one in parts) for name in _ADDED if name in names})
    told.update({name: max(getattr(one, name) for one in parts) for name in _MOST if name in names})
    told["spaces"] = spaces_together(one.spaces for one in parts)
    return replace(max(parts, key=lambda one: one.flops), **told)


def comparison(plan: Plan, stats: Stats) -> str:
    """Return predicted against actual as a short table."""
    rows = [
        ("", "predicted", "actual"),
        ("method", plan.method, stats.method),
        ("passes", str(plan.passes), str(stats.passes)),
        ("read", _core.format_bytes(plan.bytes_read), _core.format_bytes(stats.bytes_read)),
        ("written", _core.format_bytes(plan.bytes_written), _core.format_bytes(stats.bytes_written)),
        ("time", format_seconds(plan.seconds), format_seconds(stats.seconds)),
        ("peak memory", _core.format_bytes(plan.peak_memory), _core.format_bytes(stats.peak_memory)),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(f"  {line}" for line in lines)
