"""The acoustic wave equation, a time loop of second order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._errors.classes import ShapeError
from .._expression.compute import compute
from .._expression.expression import Expression, as_expression, cast, constant, node
from .._lazy.creation import zeros
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import Prepared, least_of, prepared, routine
from .._runtime.runtime import stats
from .compare import StencilFunction
from .given.arguments import check_field, listed, number, shown, whole_number
from .given.weights import laplacian, spacings
from .result import told_result
from .stencil import stencil

__all__ = ["WaveResult", "sponge", "wave"]


_MOST = (1 << 31) - 1  # steps, and points of a layer


class WaveResult(NamedTuple):
    """A wave field and what was heard of it.

    Attributes
    ----------
    state : pair of Array
        The field one step before the last, and after it.
    traces : ndarray, steps x receivers
        The field at the receivers after each step.
    dt : float
        Seconds of a step.
    snapshots : dict of Array
        What was kept of the field on the way, by name.
    """

    state: Any
    traces: NDArray[Any]
    dt: float
    snapshots: dict[str, Array]

    def __repr__(self) -> str:
        steps = f"{len(self.traces)} steps of {self.dt:.6g}"
        return told_result("WaveResult", self.state, steps, self.snapshots, self.traces)


WaveResult.__module__ = "flagstone"  # a NamedTuple takes no such line in its body


def sponge(
    shape: Sequence[int], width: int | Sequence[int], courant: float = 0.5, *, reflection: float = 1e-2,
    free: Sequence[tuple[int, str]] = (),
) -> Expression:  # fmt: skip
    """Return the damping of an absorbing layer: a coefficient for a damped wave, computed where it is read.

    Parameters
    ----------
    shape : sequence of int
        Of the field.
    width : int or sequence of int
        Points of the layer, for all axes or for each; 0: none.
    courant : float
        Velocity times step divided by spacing.
    reflection : float
        What the layer is made for at normal incidence.
    free : sequence of (axis, "low" or "high")
        Sides without a layer, such as a surface.

    Returns
    -------
    Expression
        Of `shape`, float64: over x points from where the layer begins 3/2 courant/width ln(1/reflection)
        (x/width)², added up over the axes.

    Notes
    -----
    What comes back of a wave is larger than `reflection` where the layer is shorter than two wavelengths:
    at a width of 20 points 3 % of the amplitude at wavelengths of 10 points, 12 % at 20.
    """
    each = [
        whole_number("sponge", "an extent of the shape", n, 0, _MOST)
        for n in listed("sponge", "shape", shape, "extents")
    ]
    several = isinstance(width, (Sequence, np.ndarray)) and not isinstance(width, str) and np.ndim(width)
    widths = [
        whole_number("sponge", "width", w, 0, _MOST)
        for w in (list(width) if several else [width] * len(each))  # type: ignore[arg-type]
    ]
    if len(widths) != len(each):
        raise ValueError(
            f"sponge: width is {shown(width)}; 0 or more points, or as many for each axis, are needed."
        )
    if not 0 < number("sponge", "reflection", reflection) < 1:
        raise ValueError(f"sponge: reflection is {reflection}; a number between 0 and 1 is needed.")
    if number("sponge", "courant", courant) <= 0:
        raise ValueError(f"sponge: courant is {courant}; a positive number is needed.")
    sides = _free_sides(free, len(each))
    total: Expression | None = None
    for axis, (n, w) in enumerate(zip(each, widths, strict=True)):
        profile = _profile(n, w, courant, reflection, [side for at, side in sides if at == axis])
        seen = as_expression(profile.reshape([-1 if d == axis else 1 for d in range(len(each))]), "sponge")
        total = seen if total is None else node("add", total, seen)
    if total is None:
        raise ShapeError("sponge: the shape has no dimension; 1 to 3 are needed.")
    return total


def _free_sides(free: Any, ndim: int) -> list[tuple[int, str]]:
    found = listed("sponge", "free", free, 'pairs (axis, "low" or "high")')
    for one in found:
        pair = one if isinstance(one, (tuple, list)) and len(one) == 2 else (None, None)
        if pair[0] not in range(ndim) or pair[1] not in ("low", "high"):
            raise ValueError(f'sponge: free says {shown(one)}; pairs (axis, "low" or "high") are needed.')
    return [(int(axis), side) for axis, side in found]


def _profile(n: int, width: int, courant: float, reflection: float, free: list[str]) -> NDArray[np.float64]:
    profile = np.zeros(n)
    if width == 0:
        return profile
    inside = np.arange(n, dtype=np.float64)
    most = 1.5 * courant / width * math.log(1 / reflection)
    if "low" not in free:
        profile += np.square(np.clip(width - inside, 0, None) / width)
    if "high" not in free:
        profile += np.square(np.clip(width - (n - 1 - inside), 0, None) / width)
    return most * profile


def _longest_step(weights: dict[tuple[int, ...], float], velocity: float) -> float:
    """(velocity dt)² times the largest eigenvalue of the Laplacian is 4 at the limit; its signs alternate."""
    return 2.0 / (velocity * math.sqrt(sum(abs(w) for w in weights.values())))


def _ricker(frequency: float, dt: float, steps: int) -> NDArray[np.float64]:
    """Return a wavelet of this peak frequency, which begins at 0, its peak after 1.2 / frequency."""
    phase = (math.pi * frequency * (dt * np.arange(steps) - 1.2 / frequency)) ** 2
    return np.asarray((1 - 2 * phase) * np.exp(-phase))


class _Wave:
    """The checked arguments of one call: two passes, of which the first decides the second's step."""

    def __init__(
        self, velocity: Any, steps: Any, spacing: Any, dt: Any, order: Any, frequency: Any, width: Any,
        state: Any, memory: int | str | None,
    ) -> None:  # fmt: skip
        self.call = Call("wave", memory)
        check_field("wave", "the velocity", velocity)
        self.velocity = given = as_expression(
            velocity if isinstance(velocity, (Array, Expression)) else unmasked("wave", velocity), "wave"
        )
        shape, dtype = given.shape, given.dtype
        if dtype not in (np.float32, np.float64):
            raise TypeError(f"wave: the velocity is {dtype.name}; float32 or float64 is needed.")
        if not 1 <= len(shape) <= 3:
            raise ShapeError(f"wave: the velocity has {len(shape)} dimensions; 1, 2 or 3 are needed.")
        self.weights = laplacian(len(shape), order, spacing)
        if state is not None and not (isinstance(state, (tuple, list)) and len(state) == 2):
            raise TypeError(f"wave: state is a {type(state).__name__}; a pair (before, now) is needed.")
        self.state = (zeros(shape, dtype), zeros(shape, dtype)) if state is None else tuple(state)
        self.dt = None if dt is None else number("wave", "dt", dt)
        if self.dt is not None and self.dt <= 0:
            raise ValueError(f"wave: dt is {dt}; a positive number is needed.")
        if frequency is not None and number("wave", "frequency", frequency) <= 0:
            raise ValueError(f"wave: frequency is {frequency}; a positive number is needed.")
        self.frequency, self.width, self.memory = frequency, width, memory
        self.spacing = spacings("wave", len(shape), spacing)
        self.steps = whole_number("wave", "steps", steps, 0, _MOST)

    def on(self, sources: Any, receivers: Any, snapshots: Any, out: Any, method: str, mesh: Any) -> _Wave:
        """Say where it is heard and begins, and where the result goes; refuse what a loop would refuse."""
        self.sources = listed("wave", "sources", sources, "indices, or pairs (index, series)")
        self.receivers, self.snapshots, self.out = receivers, snapshots, out
        self.method, self.mesh = method, mesh
        return self

    def _loop(self, step: float, courant: float) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the loop; its cost depends on no step."""
        shape, dtype = self.velocity.shape, self.velocity.dtype
        squared = node("square", node("multiply", self.velocity, constant(step, dtype)))
        layer = cast(sponge(shape, self.width, courant), dtype)
        return (self.weights, self.state, self.steps), {
            "coefficients": (squared, layer),
            "sources": [_source(one, self.frequency, step, self.steps) for one in self.sources],
            "receivers": self.receivers, "snapshots": self.snapshots, "spacing": self.spacing, "dt": step,
            "out": self.out, "method": self.method, "mesh": self.mesh, "memory": self.memory,
        }  # fmt: skip

    def _prepared(self, step: float, courant: float) -> Any:
        args, options = self._loop(step, courant)
        return prepared(stencil, *args, **options)

    def least(self, beside: int = 0) -> int:
        """Return the least limit that both passes work in."""
        fastest = least_of(compute, _largest(self.velocity), memory=self.memory)
        return beside + max(int(self._prepared(1.0, 0.5).least()), fastest)

    def plan(self) -> Plan:
        """Count both passes."""
        loop: Plan = self._prepared(1.0, 0.5).plan()
        fastest = compute.plan(_largest(self.velocity), memory=self.memory)
        return replace(
            together(self._what(loop.what), [fastest, loop]), method=loop.method, passes=loop.passes
        )

    def run(self) -> WaveResult:
        """Do it."""
        self.call.check_chain(self.least())  # before the first pass
        planned = self._prepared(
            1.0, 0.5
        ).rates  # the first pass corrects the disk's rates: no other choice for it
        fastest = _fastest(self.velocity, self.memory)
        first = stats()
        longest = _longest_step(self.weights, fastest)
        step = 0.9 * longest if self.dt is None else self.dt
        if not step <= longest:
            raise ValueError(f"wave: dt is {self.dt} and the longest step that is stable is {longest:.6g}.")
        call = self._prepared(step, fastest * step / min(self.spacing))
        if planned:
            call.core.rates(*planned.told)
        done = call.run()
        loop = stats()
        self.call.keep(replace(
            together(self._what(loop.what), [first, loop]), method=loop.method, passes=loop.passes,
            resident_at_entry=first.resident_at_entry,
        ))  # fmt: skip
        return WaveResult(done.state, done.traces, step, done.snapshots)

    @staticmethod
    def _what(loop: str) -> str:
        return loop.replace("stencil", "wave", 1)


@partial(routine, kind=StencilFunction)
def wave(
    velocity: Any,
    steps: int,
    /,
    *,
    spacing: float | Sequence[float],
    dt: float | None = None,
    order: int = 8,
    sources: Sequence[Any] = (),
    frequency: float | None = None,
    receivers: Sequence[Any] = (),
    sponge_width: int | Sequence[int] = 20,
    state: Any = None,
    snapshots: Mapping[str, Any] | None = None,
    out: Any = None,
    method: str = "auto",
    mesh: Sequence[int] | None = None,
    memory: int | str | None = None,
) -> Prepared[WaveResult]:
    """Step the acoustic wave equation on in time: u_tt = v² Δu, with a layer around that absorbs.

    Parameters
    ----------
    velocity : Array or ndarray, float32 or float64
        v at each point, of 1 to 3 dimensions.
    steps : int
        How many.
    spacing : float or sequence of float
        Of the grid, for all axes or for each.
    dt : float, optional
        Seconds of a step. Default: 0.9 of the longest that is stable.
    order : {2, 4, 6, 8}
        Of accuracy in space.
    sources : sequence of index, or of (index, series)
        Where a Ricker wavelet of `frequency` is added, or a series of one value a step.
    frequency : float, optional
        Its peak.
    receivers : sequence of index
        Points that are listened to.
    sponge_width : int or sequence of int
        Points of the absorbing layer, as for `sponge`; 0: waves come back from the edges, which are fixed
        at 0.
    state : pair, optional
        ``(before, now)``. Default: silence.
    snapshots : dict, optional
        As for `stencil`; their coordinates are in seconds and in units of the spacing.
    out, method, mesh, memory
        As for `stencil`.

    Returns
    -------
    WaveResult
        `state`, `traces`, `dt`, `snapshots`.

    Raises
    ------
    ValueError
        A step beyond stability; the longest that works is named.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    One read of the velocity for its maximum; then the cost of `stencil` with two coefficients, both
    computed where they are read: (v dt)² of the velocity's bytes, the layer of none. (2 u - (1 - s) before
    + (v dt)² Δu) / (1 + s), 36 flops a point of order 8 in three dimensions.
    """
    made = _Wave(velocity, steps, spacing, dt, order, frequency, sponge_width, state, memory)
    return made.on(sources, receivers, snapshots, out, method, mesh)


def _largest(velocity: Expression) -> Any:
    """Of its size: a step squares it, so that a negative one is as fast."""
    return np.max(np.abs(velocity))


def _fastest(velocity: Expression, memory: int | str | None) -> float:
    fastest = float(np.asarray(compute(_largest(velocity), memory=memory)))
    if not (math.isfinite(fastest) and fastest > 0):
        raise ValueError(f"wave: the largest velocity is {fastest}; a positive number is needed.")
    return fastest


def _source(given: Any, frequency: float | None, dt: float, steps: int) -> tuple[Any, Any]:
    pair = isinstance(given, (tuple, list)) and len(given) == 2
    if pair and not isinstance(given[1], (int, np.integer)):
        return given[0], given[1]
    if frequency is None:
        raise TypeError("wave: a source is a place alone; give frequency=, or (index, series).")
    return given, _ricker(frequency, dt, steps)
