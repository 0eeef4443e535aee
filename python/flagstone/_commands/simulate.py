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
from .options import Size, print_json

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


@click.command()
@click.argument("routine", type=click.Choice(sorted(_ROUTINES)))
@click.option("-n", "rows", type=click.IntRange(min=1), required=True, help="Rows.")
@click.option("--cols", type=click.IntRange(min=1), help="Columns. [default: as rows]")
@click.option("--inner", type=click.IntRange(min=1), help="Inner extent of a product. [default: as rows]")
@click.option("--dtype", default="float64", show_default=True)
@click.option(
    "--machine", required=True, metavar="FILE", help="A machine file (flagstone calibrate --machine)."
)
@click.option("--memory", type=Size(), help="Limit of the call. [default: the machine's]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def simulate(
    routine: str, rows: int, cols: int | None, inner: int | None, dtype: str, machine: str,
    memory: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Plan ROUTINE on operands that do not exist, on the machine that FILE describes."""
    node = Machine.read(machine)
    options: dict[str, Any] = {"machine": node, "memory": memory or node.memory}
    plan = _ROUTINES[routine](dtype, rows, cols or rows, inner or rows, **options)
    print_json(plan.as_dict()) if as_json else click.echo(str(plan))
