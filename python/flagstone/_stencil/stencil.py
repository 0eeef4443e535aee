"""Time loops over fields that do not fit into memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._output.place import IN_MEMORY, Place
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._runtime.runtime import remember, stats
from .choice import StencilScheme, components_of, scheme_of, told_scheme
from .compare import METHODS, StencilFunction
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

__all__ = ["StencilResult", "stencil"]

_METHODS = ("auto", *METHODS)
_MOST_STEPS = (1 << 31) - 1  # of one call: more are never done


class _Stencil(Routine[StencilResult]):
    """The checked arguments of one call."""

    operation = "stencil"
    replaced: Sequence[int] = ()  #: of several fields: by how many stages each
    stages: int = 1  #: of a step

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


@partial(routine, kind=StencilFunction)
def stencil(
    kernel: Mapping[Any, float] | NDArray[Any] | Callable[..., Any],
    state: Any,
    steps: int,
    /,
    *,
    coefficients: Any = (),
    boundary: Any = "fixed",
    sources: Sequence[Any] = (),
    receivers: Sequence[Any] = (),
    snapshots: Mapping[str, Any] | None = None,
    reductions: Sequence[Any] = (),
    until: Mapping[Any, float] | None = None,
    check: bool = False,
    spacing: float | Sequence[float] | None = None,
    dt: float | None = None,
    out: Any = None,
    method: str = "auto",
    block: Sequence[int] | None = None,
    depth: int | None = None,
    cache_block: Sequence[int] | None = None,
    overlap: bool = True,
    mesh: Sequence[int] | None = None,
    memory: int | str | None = None,
) -> Prepared[StencilResult]:
    """Step a field on in time, bigger than memory: many steps for one read and one write of it.

    Parameters
    ----------
    kernel : mapping, ndarray or function
        What a step makes of a point's neighbours: weights (a mapping of offsets, or an array of odd extents
        whose middle is the point), or a function ``f(u, ...)`` in which ``u[0, 0, -1]`` is a neighbour. A
        function is called once, with stand-ins; it chooses with `where`, not with ``if``. Its arguments are
        the field, the step before (time order 2 only), then the coefficients. Of several fields: one or a
        list of functions (stages) whose parameters are names of fields, then the coefficients, and which
        return a dict of the fields that they replace, all at once.
    state : Array or ndarray, or a pair of them
        The field, of 1 to 3 dimensions; ``(before, now)`` for time order 2; a dict of named fields of one
        shape and dtype. float32, float64, complex or integer.
    steps : int
        How many.
    coefficients : Array, ndarray, Expression or a sequence of them
        Of the field's shape, or such as broadcast to it: a step reads them at the point itself. Converted to
        the field's dtype; whole numbers that it holds where that is one of integers.
    boundary : str, dict or sequence
        "fixed" (0, or ``{"fixed": value}``: a number, an array of that face, or a function of the number of
        steps that are done, which returns a number), "periodic", "neumann" (no flux through the cell's face:
        NumPy's symmetric), "mirror" (no slope at the node: NumPy's reflect); for all axes, or one for each,
        or a pair (low, high) for an axis.
    sources : sequence of (index, series)
        ``series[t]``, which the field's dtype holds, is added to the point's value at step t + 1.
    receivers : sequence of index
        Points whose values after each step are returned. Of several fields an index, here and of a source,
        begins with a name (``("u", 3, 4)``), else it is of the first field.
    snapshots : dict, optional
        What to keep of the field on the way, by name: ``(16, np.s_[:, 512, :])`` for these points after
        every 16 steps, ``([1, 10, 100], np.s_[::4, ::4, ::4])`` for chosen steps; a number of steps alone:
        the whole field; of several fields ``(16, "u", np.s_[...])``. Compressed, each written once, while
        its points are made: nothing is read for it.
    reductions : sequence of {"max", "min", "sum", "l2", "change"}, or of (field, such)
        What to tell of the field after each step: extremes, the sum, the root of the sum of squares, the
        largest change of a point. Sums are exact and rounded once, integers' are modulo 2^64: no choice
        changes a bit. NaN anywhere makes them NaN. Of several fields: of the first, or ``("u", "max")``;
        'change' is of fields that one stage replaces.
    until : dict, optional
        ``{"change": 1e-6}``, of several fields ``{("u", "change"): 1e-6}`` too: ends at the end of the
        superstep in which a reduction was at most so much.
    check : bool
        Whether to look for NaN and Inf, at the end of every superstep.
    spacing, dt : float, optional
        Of the grid, for all axes or for each, and of a step: coordinates of snapshots. Default: indices and
        steps.
    out : path, Array or ndarray, or a pair of them, optional
        Where the result goes. A path is an array of one state; of time order 2, or with snapshots, a group
        (Notes). Default: scratch.
    method : {"auto", "al4", "al3", "al2", "al1", "sweep"}
        How the field travels (Notes). No choice changes a bit of the result.
    block, depth, cache_block : optional
        What is chosen else: extents of a block (all but `al4`), steps of a superstep, (planes, rows, steps)
        of what stays in the cache: of `al3` planes of a band, of `al1` and `sweep` rows of a strip count.
    overlap : bool
        False: blocks are read, computed and written in turn, as the paper does; slower, and what each takes
        can be told apart.
    mesh : pair of int, optional
        Ranks along the first two dimensions, each with its part of the field (Notes). Default: (1, 1).
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    StencilResult
        `state`, `steps`, `snapshots`, `traces`, `reductions`.

    Raises
    ------
    ShapeError
        Arrays do not fit each other, an index lies outside, or sleeves are wider than a rank's core.
    TypeError, ValueError
        The kernel branches on a value, looks at no neighbour or makes complex numbers of a real field; steps,
        depth, boundary are not possible; the field's dtype does not hold weights, a series, a coefficient.
    NumericalError
        A step made NaN or Inf, and `check` is set; names the first step and its first point.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    A group holds the state ("state", or "now" and "before"), "traces", "reductions/NAME" (of
    several fields "reductions/FIELD/NAME"), and for each
    snapshot a group "snapshots/NAME" of the array NAME and its coordinates "time", "z", "y", "x", which
    xarray opens as it is. `until` and `check` make supersteps wait for each other; a loop that ends early
    writes the field once more.

    Of weights W(u), the weighted sum of neighbours, a step makes W(u); with one coefficient k, u + k W(u);
    with two, u + k W(u) + s. Of time order 2: W(u) - before; 2 u - before + k W(u); with damping s, (2 u -
    (1 - s) before + k W(u)) / (1 + s). The association is fixed: neighbours of equal weight are added in C
    order of their offsets, each sum times its weight, the products in the order in which weights come
    first.

    A superstep of t steps moves p + c reads and p writes of the field (p: time order, c: coefficients) and
    updates each point t times: "al4", planes that stream, every step following the one before it in strips
    that stay in the cache; "al1" reads blocks with halos of radius x t and computes the halos too; "al2"
    cuts these again for the cache; "al3" reads and writes two arrays of its own in scratch (of several fields
    two each; at checkpoints copies too), in tiles that lean back by the radius a step or stage, and computes
    nothing twice; "sweep" is one step deep. Operands whose
    rows lie scattered in their file (Fortran's order) are copied into
    scratch first: one read and one write of each. Ranks of a mesh exchange sleeves of radius x t before each
    superstep, which is carried out by the method in one rank after the other; the field is distributed to
    them and collected: two reads and two writes more of each state, one of each coefficient. Flops: 8 a
    point for 7 weights of which 6 are equal.
    Source: Midorikawa and Tan (blocks with halos); Wellein et al. 2009 (wavefronts).
    """
    given = _Stencil(kernel, state, steps, coefficients, memory)
    given.edges(boundary)
    given.points(sources, receivers)
    given.wishes(method, block, depth, cache_block, overlap, mesh)
    given.outputs(out, snapshots, reductions, until, check, spacing, dt)
    given.measure()
    return given
