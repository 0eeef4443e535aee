"""The checked arguments of one time loop: what is told to the core, how it is planned, run and published."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import At, How, Routine
from .._runtime.runtime import remember, stats
from .choice import StencilScheme, components_of, scheme_of, told_scheme
from .compare import METHODS
from .given.arguments import extents, listed, number, point_in, series_of, shown, whole_number
from .given.boundary import set_edges
from .given.operands import StepField, coefficient, given_states, several
from .given.rows import Copies
from .given.weights import spacings
from .kernel.rates import KernelRates, worth_measuring
from .places import Places
from .record import told_call
from .reductions import Reductions
from .result import StencilResult
from .snapshots import Snapshot, given_snapshots
from .step_kernel import set_kernel

__all__ = ["TimeLoop"]

_METHODS = ("auto", *METHODS)
_MOST_STEPS = (1 << 31) - 1  # of one call: more are never done


class TimeLoop(Routine[StencilResult]):
    """The checked arguments of one call."""

    operation = "stencil"

    def __init__(self, kernel: Any, state: Any, steps: Any, coefficients: Any, memory: Any) -> None:
        super().__init__(Call("stencil", memory))
        call = self.call
        self.names, self.states = given_states(call, state)
        now = self.states[0]
        self.shape, self.dtype = now.shape, now.dtype
        self.steps = whole_number(call.who, "steps", steps, 0, _MOST_STEPS)
        self.order = 1 if self.names else len(self.states)
        self.coefficients = [
            coefficient(call, one, i, self.shape, self.dtype) for i, one in enumerate(several(coefficients))
        ]
        self.core = _core.Stencil(list(self.shape), self.dtype.name, self.steps)
        field = StepField(
            call.who, len(self.shape), self.dtype, self.order, len(self.coefficients), self.names
        )
        self.kernel = set_kernel(self.core, kernel, field, float(math.prod(self.shape)) * self.steps)
        call.on(*(path for one in self.states for path in one.paths))
        self.given = list(self.states), list(self.coefficients)  # before copies take their places
        self.copies = Copies(call.memory)
        self.copies.replace(self.states)
        self.copies.replace(self.coefficients)

    def edges(self, boundary: Any) -> None:
        """Say what lies beyond the edges."""
        self.boundary, self.sides, self.changing = set_edges(
            self.call.who, self.core, boundary, self.shape, self.dtype, self.steps
        )

    def outputs(
        self, out: Any, snapshots: Any, reductions: Any, until: Any, check: Any,
        spacing: Any, dt: Any,
    ) -> None:  # fmt: skip
        """Say what is left: fields, snapshots, reductions."""
        who = self.call.who
        found: list[Snapshot] = given_snapshots(who, snapshots, self.shape, self.steps, self.names)
        for snapshot in found:
            snapshot.tell(self.core)
        self.reductions = Reductions(who, reductions, until, check, self.dtype, self.names)
        self.reductions.check_state(self.shape, self.kernel.replaced)
        self.reductions.tell(self.core)
        self.spacing = None if spacing is None else spacings(who, len(self.shape), spacing)
        self.dt = None if dt is None else number(who, "dt", dt)
        names = self.names or (["now", "before"] if self.order == 2 else ["state"])
        self.fields = Places(
            self.call, self.shape, self.dtype, names, bool(self.names), out, found, self.block
        )
        self.places = [*self.fields.all, self.traces]

    def points(self, sources: Sequence[Any], receivers: Sequence[Any]) -> None:
        """Say what is added, and what is listened to."""
        who = self.call.who
        self.sources: list[tuple[list[int], NDArray[Any], int]] = []
        for one in listed(who, "sources", sources, "pairs (index, series)"):
            if not isinstance(one, (tuple, list)) or len(one) != 2:
                raise TypeError(f"{who}: a source is {shown(one)}; a pair (index, series) is needed.")
            values = series_of(who, one[1], self.steps, self.dtype)
            at, field = point_in(who, "source", one[0], self.shape, self.names)
            self.sources.append((at, values, field))
            self.core.source(*self.sources[-1])
        found = listed(who, "receivers", receivers, "indices")
        self.receivers = [point_in(who, "receiver", index, self.shape, self.names) for index in found]
        for at, field in self.receivers:
            self.core.receiver(at, field)
        self.traces = Place(self.call, (len(self.receivers), self.steps), self.dtype, IN_MEMORY, None)

    def wishes(self, method: str, block: Any, depth: Any, cache_block: Any, overlap: Any, mesh: Any) -> None:
        """Say what the tuner is not to choose."""
        who = self.call.who
        if method not in _METHODS:
            raise ValueError(
                f"{who}: there is no method {shown(method)}; choose one of {', '.join(_METHODS)}."
            )
        each = f"one extent for each of {len(self.shape)} axes"
        blocks = [] if block is None else extents(who, "block", block, len(self.shape), each)
        if blocks and method == "al4":
            raise ValueError(f"{who}: al4 streams whole planes; give cache_block, or choose al1.")
        deep = 0 if depth is None else whole_number(who, "depth", depth, 1, _MOST_STEPS)
        if deep > max(1, self.steps):
            raise ValueError(
                f"{who}: depth is {depth} and there are {self.steps} steps; 1 to {self.steps} is possible."
            )
        tile = "(planes, rows, levels), 1 or more of each,"
        cached = [] if cache_block is None else extents(who, "cache_block", cache_block, 3, tile)
        if self.changing and method in ("al3", "al4") and self.kernel.stages > 1:
            raise ValueError(
                f"{who}: an edge is a function of the step, which {method} takes of one stage; there are "
                f"{self.kernel.stages}: leave the method out."
            )
        if blocks and method == "auto":
            method = "al1"
        if not isinstance(overlap, (bool, np.bool_)):
            raise TypeError(f"{who}: overlap is {shown(overlap)}; True or False is needed.")
        self.block = tuple(min(b, max(1, n)) for b, n in zip(blocks, self.shape, strict=bool(blocks)))
        self.wished: tuple[list[int], list[float], bool] = cached, [], bool(overlap)
        self.core.wish(method, blocks, deep, *self.wished)
        along = "2 whole numbers of ranks, along the first two dimensions,"
        self.ranks = (1, 1) if mesh is None else tuple(extents(who, "mesh", mesh, 2, along))
        self.core.mesh(*self.ranks)

    def measure(self) -> None:
        """Give the choice the rates of disk and kernel, where the loop is long enough."""
        long = not self.names and worth_measuring(float(math.prod(self.shape)) * self.steps)
        told = self.kernel.key, self.dtype, self.order, len(self.coefficients)
        self.rates = KernelRates(self.call, self.core, *told) if long else None

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        field = f"{shape_text(self.shape)} {self.dtype.name}"
        return f"stencil {field}, {self.steps} steps of {self.kernel.text}, {self.boundary}"

    def job(self, at: At) -> _core.Job:
        """Return the time loop as a job."""
        self.core.scratch(self.call.scratch_in_run(), self.call.who, self.call.runtime.scratch_quota)
        states, snapshots = self.fields.opened(at)
        return self.core.job(
            [one.core for one in self.states],
            states,
            [one.core for one in self.coefficients],
            at(self.traces),
            snapshots,
            _core.checkpoint_seconds() if self._saved() else None,
            self.fields.checkpoint,
        )

    def _saved(self) -> bool:
        """Say whether epochs are saved: a plan has no record, and is to move what the run does."""
        worth = _core.worth_a_record(_core.nominal_seconds(*self.effort()))
        return self.fields.checkpoint is not None or (worth and not self.fields.nameless)

    def arguments(self) -> dict[str, Any]:
        """Return what decides the bits."""
        return told_call(
            *self.given, self.fields.snapshots, self.sources, kernel=self.kernel.told, steps=self.steps,
            boundary=self.sides, receivers=self.receivers, names=self.names, spacing=self.spacing, dt=self.dt,
            reductions=self.reductions.names, until=self.reductions.until, check=self.reductions.check,
        )  # fmt: skip

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes, roughly: a pass over the field for every 32 steps."""
        points = float(math.prod(self.shape))
        passes = -(-self.steps // 32) * (2 * len(self.states) + len(self.coefficients))
        return self.core.flops * points * self.steps, points * self.dtype.itemsize * passes

    def least(self, beside: int = 0) -> int:
        """Return the bytes that the loop needs, or the copies before it."""
        return max(self.copies.least(), super().least(beside))

    def check(self, beside: int = 0) -> int:
        """Refuse a limit that the copies or the loop cannot work in, before any of them."""
        if len(self.copies):
            self.call.check_chain(self.least(beside))  # of both steps, before the first
        return super().check(beside)

    def plan(self) -> Plan:
        """Count the loop, and the copies before it."""
        if self.rates:
            self.rates.use(self.planned)
        if self.rates and not self.rates.measured and self.ranks == (1, 1):
            self._keep_choice()
        loop = super().plan()
        core = self.core
        parts = {
            "exchange": core.exchange_seconds,
            "barrier": core.barrier_seconds,
            "loop": core.loop_seconds,
        }
        loop = replace(loop, stencil=replace(self._rated(loop.seconds), components=parts))
        if not len(self.copies):
            return loop
        made = together(self.what, [*self.copies.plans(), loop])
        return replace(made, method=loop.method, passes=loop.passes, note=self._with_copies(loop.note))

    def _keep_choice(self) -> None:
        """Make what was chosen the wish.

        The least memory of a loop that is sized for a described machine is that of this scheme: the smallest
        one there is would be planned block by block of 256 KiB, by the million.
        """
        core, (cached, rates, overlap) = self.core, self.wished
        if core.method == "al4":
            core.wish("al4", [], core.depth, list(core.cache_block), rates, overlap)
        else:
            core.wish(core.method, list(core.block), core.depth, cached, rates, overlap)

    def run(self) -> StencilResult:
        """Do it."""
        if not len(self.copies):
            return super().run()
        self.check()
        done = self.copies.make()
        made = super().run()
        loop = stats()
        self.call.keep(replace(
            together(self.what, [*done, loop]), method=loop.method, passes=loop.passes,
            note=self._with_copies(loop.note), resident_at_entry=done[0].resident_at_entry,
        ))  # fmt: skip
        return made

    def execute(self, stack: contextlib.ExitStack) -> Any:
        """Run the loop, and tell how it was done."""
        job = super().execute(stack)
        done = stats()
        told = replace(self._rated(done.seconds), components=components_of(done, self.core))
        remember(self.call.runtime, replace(done, stencil=told))
        return job

    def _rated(self, seconds: float) -> StencilScheme:
        return replace(self.scheme, updates_per_second=self.scheme.useful_updates / max(seconds, 1e-9))

    def _with_copies(self, note: str) -> str:
        return f"{note}; operands whose rows lie scattered are copied first"

    def how(self, job: Any) -> How:
        """Say which method, how deep, and which of disk and processors binds."""
        saved = self._saved()
        self.scheme = scheme = scheme_of(
            self.core, self.shape, self.dtype.itemsize, len(self.states), self.steps, saved
        )
        note = told_scheme(scheme, self.block, self.kernel.text, self.ranks, saved)
        return How(scheme.method, scheme.supersteps, note)

    def result(self, job: Any) -> StencilResult:
        """Publish the fields and return them."""
        steps = self.core.steps
        traces = self.traces.close().T[:steps]
        reductions = self.reductions.found(self.core)
        vectors = self.reductions.vectors(reductions)
        if traces.shape[1]:
            vectors["traces"] = traces
        states, snapshots = self.fields.close(steps, self.spacing, self.dt, vectors)
        state: Any = states[0] if self.order == 1 else (states[1], states[0])
        if self.names:
            state = dict(zip(self.names, states, strict=True))
        return StencilResult(state, steps, snapshots, traces, reductions)
