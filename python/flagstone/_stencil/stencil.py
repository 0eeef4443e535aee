"""Time loops over fields that do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from .._runtime.routine import Prepared, routine
from .compare import StencilFunction
from .result import StencilResult
from .time_loop import TimeLoop

__all__ = ["StencilResult", "stencil"]


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
    given = TimeLoop(kernel, state, steps, coefficients, memory)
    given.edges(boundary)
    given.points(sources, receivers)
    given.wishes(method, block, depth, cache_block, overlap, mesh)
    given.outputs(out, snapshots, reductions, until, check, spacing, dt)
    given.measure()
    return given
