"""What a time loop's scheme is and does, for plans and statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .. import _core
from .._array.array import shape_text
from .._runtime.plan import Stats

__all__ = ["StencilScheme", "components_of", "scheme_of", "told_scheme"]


@dataclass(frozen=True)
class StencilScheme:
    """How a time loop is carried out, and what that costs.

    Attributes
    ----------
    method : str
        "al4", "al3", "al2", "al1" or "sweep".
    depth, supersteps : int
        Steps of a superstep at most, and how many of them there are.
    block : tuple of int
        Extents of a block, of al3 of a tile; of al4 empty.
    cache_block : tuple of int
        Planes, rows and levels of one task of al4; else empty.
    held_planes : int
        Planes (of one dimension: elements) of what lies between supersteps that stay in memory; the others
        go through scratch once a superstep.
    scratch_bytes : int
        What those take there, of al3 with the copies that checkpoints make; of a mesh its sub-buffers.
    bound : {"compute", "disk"}
        Which takes longer, by the counts.
    elements_read, elements_written : float
        Of states and coefficients, all supersteps together; halos that are read twice count twice. Of a mesh
        with what is distributed, exchanged and collected.
    updates, useful_updates : float
        Points that are computed, and points x steps: halos are what lies between.
    face_elements, sleeve_elements : float
        Rows that strips of al4 hand on, in memory, each written once and read once; what ranks exchange.
    updates_per_second : float
        Useful ones.
    components : dict
        Seconds, of what was done: "compute" and "waiting" of all workers together, "disk" (a request under
        way); of a mesh "exchange", and "barrier": what a rank with a machine of its own would wait for the
        slowest, on average. They overlap, so their sum exceeds the time. Of plans the last two, and "loop":
        of a mesh the time without distributing and collecting, which the first of several nodes does.
    sockets : tuple of dict
        Of `al1`, `al2`, `sweep` on several sockets, of what was done: for each its "blocks", their "updates",
        and how many of them "strayed": a processor of another socket touched or ended them.
    """

    __module__ = "flagstone"

    method: str
    depth: int
    supersteps: int
    block: tuple[int, ...]
    cache_block: tuple[int, ...]
    held_planes: int
    scratch_bytes: int
    bound: str
    elements_read: float
    elements_written: float
    updates: float
    useful_updates: float
    face_elements: float = 0.0
    sleeve_elements: float = 0.0
    updates_per_second: float = 0.0
    components: dict[str, float] = field(default_factory=dict)
    sockets: tuple[dict[str, float], ...] = ()


def components_of(done: Stats, core: _core.Stencil) -> dict[str, float]:
    """Return what each part of a loop took, seconds; without a mesh nothing is exchanged."""
    return {
        "compute": done.worker_busy_seconds, "waiting": done.worker_idle_seconds,
        "disk": done.ring_busy_seconds, "exchange": core.exchange_seconds, "barrier": core.barrier_seconds,
    }  # fmt: skip


def told_scheme(
    scheme: StencilScheme, block: tuple[int, ...], kernel: str, ranks: tuple[int, ...], saved: bool
) -> str:
    """Return a line of a plan; `block`: what the caller gave, `saved`: whether checkpoints are made."""
    if scheme.method == "al4":
        planes, strip, levels = scheme.cache_block
        cut = f"batches of {planes} planes, strips of {strip}, {levels} levels in the cache"
    else:
        cut = f"blocks of {shape_text(scheme.block)}"
        if block and block != scheme.block:
            cut += f" (given: {shape_text(block)}; whole chunks of the result, and no less than halos)"
    if scheme.method == "al3":
        cut += " on two arrays a field" + (", a third at checkpoints" if saved and ranks == (1, 1) else "")
    mesh = "" if ranks == (1, 1) else f"mesh {shape_text(ranks)}, "
    return f"{mesh}{scheme.depth} steps a superstep, {cut}; {kernel}; {scheme.bound} bound"


def scheme_of(
    core: _core.Stencil, shape: tuple[int, ...], item: int, order: int, steps: int, saved: bool
) -> StencilScheme:
    """Return what the core chose when it counted or ran last; `saved`: whether checkpoints are made."""
    streams = core.method == "al4"
    points = math.prod(shape)
    away = max(0, shape[0] - core.held) * (points // max(1, shape[0]))
    turns = 3 if saved else 2  # read, written, spoken of by the last checkpoint
    between = min(turns, core.supersteps - 1) * order * away * item
    return StencilScheme(
        core.method, core.depth, core.supersteps,
        () if streams else tuple(core.block), tuple(core.cache_block) if streams else (),
        core.held, core.scratch_bytes or between,
        "compute" if core.compute_bound else "disk",
        core.elements_read, core.elements_written, core.updates, float(points) * steps, core.face_elements,
        core.sleeve_elements,
        sockets=tuple(dict(zip(("blocks", "updates", "strayed"), one, strict=True)) for one in core.sockets),
    )  # fmt: skip
