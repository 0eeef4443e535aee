"""The command that plans a routine on a machine that is described in a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .._factor.cholesky import cholesky
from .._factor.lu import lu_factor
from .._factor.qr import qr
from .._lazy.creation import planned
from .._linalg.matmul import matmul
from .._machine.machine import Machine
from .._runtime.plan import Plan
from .._stencil.compare import METHODS, StencilComparison
from .._stencil.given.weights import laplacian
from .._stencil.stencil import stencil
from .options import Size, print_json
from .stencils import heat

#: What each routine is planned with: rows, columns, inner extent.
_ROUTINES: dict[str, Callable[..., Plan]] = {
    "matmul": lambda dtype, n, cols, inner, **options: matmul.plan(
        planned((n, inner), dtype), planned((inner, cols), dtype), out="simulated.zarr", **options
    ),
    "cholesky": lambda dtype, n, cols, inner, **options: cholesky.plan(
        planned((n, n), dtype), out="simulated.zarr", **options
    ),
    "lu": lambda dtype, n, cols, inner, **options: lu_factor.plan(planned((n, n), dtype), **options),
    "qr": lambda dtype, n, cols, inner, **options: qr.plan(
        planned((n, cols), dtype), mode="r", out="simulated.zarr", **options
    ),
}

#: Which of the options that not all take each routine does.
_TAKEN = {
    "matmul": {"-n", "--cols", "--inner"}, "cholesky": {"-n"}, "lu": {"-n"}, "qr": {"-n", "--cols"},
    "stencil": {
        "--shape", "--steps", "--kernel", "--method", "--block", "--depth", "--mesh", "--no-overlap",
        "--compare",
    },
}  # fmt: skip

#: Weights of a step, and whether it is of time order 2 with a coefficient: the wave's velocities.
_KERNELS: dict[str, tuple[Callable[[int], dict[tuple[int, ...], float]], bool]] = {
    "heat": (lambda ndim: heat(ndim, 2, 0.1), False),
    "wave": (lambda ndim: laplacian(ndim, 8), True),
}


def _extents(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split("x")
    if not 1 <= len(parts) <= 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{text!r}; 1 to 3 extents as 512x512x1024 are needed.", ctx, param)
    return tuple(int(part) for part in parts)


def _check_taken(routine: str, **given: Any) -> None:
    """Refuse options that the routine would not look at."""
    for name, value in given.items():
        option = "-n" if name == "rows" else f"--{name.replace('_', '-')}"
        if value not in (None, False) and option not in _TAKEN[routine]:
            raise click.UsageError(f"{routine} takes no {option}; leave it out.")


def _time_loop(
    kernel: str, shape: tuple[int, ...], dtype: str, steps: int, compare: bool, options: dict[str, Any]
) -> Plan | StencilComparison:
    weights, wave = _KERNELS[kernel]
    field = planned(shape, dtype)
    state = (planned(shape, dtype), field) if wave else field
    given: dict[str, Any] = {"coefficients": planned(shape, dtype)} if wave else {}
    routine: Any = stencil  # its face has compare, its function has not
    call = routine.compare if compare else routine.plan
    found: Plan | StencilComparison = call(
        weights(len(shape)), state, steps, out="simulated.zarr", **given, **options
    )
    return found


@click.command()
@click.argument("routine", type=click.Choice(sorted([*_ROUTINES, "stencil"])))
@click.option("-n", "rows", type=click.IntRange(min=1), help="Rows.")
@click.option("--cols", type=click.IntRange(min=1), help="Columns. [default: as rows]")
@click.option("--inner", type=click.IntRange(min=1), help="Inner extent of a product. [default: as rows]")
@click.option("--dtype", default="float64", show_default=True)
@click.option(
    "--machine", required=True, metavar="FILE", help="A machine file (flagstone calibrate --machine)."
)
@click.option("--memory", type=Size(), help="Limit of the call. [default: the machine's]")
@click.option("--shape", callback=_extents, help="Of a stencil's field, as 512x512x1024.")
@click.option("--steps", type=click.IntRange(min=1), help="Of a stencil.")
@click.option(
    "--kernel", type=click.Choice(sorted(_KERNELS)), default="heat", show_default=True, help="Likewise."
)
@click.option("--method", type=click.Choice(["auto", *METHODS]), default="auto", show_default=True)
@click.option("--block", callback=_extents, help="Of its blocks, as 512x4096x4096. [default: chosen]")
@click.option("--depth", type=click.IntRange(min=1), help="Steps of a superstep. [default: chosen]")
@click.option("--mesh", callback=_extents, help="Ranks along its first two dimensions, as 2x2.")
@click.option("--no-overlap", is_flag=True, help="Blocks are read, computed and written in turn.")
@click.option("--compare", is_flag=True, help="What every method of a stencil would do.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def simulate(
    routine: str, rows: int | None, cols: int | None, inner: int | None, dtype: str, machine: str,
    memory: int | None, shape: tuple[int, ...] | None, steps: int | None, kernel: str, method: str,
    block: tuple[int, ...] | None, depth: int | None, mesh: tuple[int, ...] | None, no_overlap: bool,
    compare: bool, as_json: bool,
) -> None:  # fmt: skip
    """Plan ROUTINE on operands that do not exist, on the machine that FILE describes."""
    _check_taken(
        routine, rows=rows, cols=cols, inner=inner, shape=shape, steps=steps, block=block, depth=depth,
        mesh=mesh, no_overlap=no_overlap, compare=compare,
        kernel=None if kernel == "heat" else kernel, method=None if method == "auto" else method,
    )  # fmt: skip
    node = Machine.read(machine)
    options: dict[str, Any] = {"machine": node, "memory": memory or node.memory}
    plan: Plan | StencilComparison
    if routine == "stencil":
        if shape is None or steps is None:
            raise click.UsageError("give --shape and --steps, of the field and of the loop.")
        options |= {"method": method, "block": block, "depth": depth, "mesh": mesh, "overlap": not no_overlap}
        plan = _time_loop(kernel, shape, dtype, steps, compare, options)
    elif rows is None:
        raise click.UsageError("give -n, the rows.")
    else:
        plan = _ROUTINES[routine](dtype, rows, cols or rows, inner or rows, **options)
    print_json(plan.as_dict()) if as_json else click.echo(str(plan))
