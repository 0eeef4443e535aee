"""Commands that tell a few numbers of a matrix: norm."""

from __future__ import annotations

import math
from typing import Any

import click

from .._linalg.norms import matrix_norm, vector_norm
from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .options import bar, command_runtime, common_options, open_operand, print_json
from .routines import dense_operand

_ORDERS = {"fro": "fro", "1": 1, "-1": -1, "inf": math.inf, "-inf": -math.inf, "max": "max"}


@click.command()
@click.argument("x", metavar="X")
@click.option(
    "--ord", "order", type=click.Choice(list(_ORDERS)), default="fro", show_default=True,
    help="Which norm of a matrix. [of a vector: fro is the Euclidean one]",
)  # fmt: skip
@click.option("--key", help="Member of a group or a file.")
@common_options
def norm(
    x: str, order: str, key: str | None, memory: int | None, scratch_directory: str | None, only_plan: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Print a norm of X, a matrix or a vector, in one read."""
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        array = dense_operand(
            open_operand(x, key, as_json), x, "norm", "fl.open(X).power(2).sum() has its squares"
        )
        wanted = _ORDERS[order]
        if array.ndim == 1:
            options: dict[str, Any] = {"ord": 2 if order == "fro" else math.inf if order == "max" else wanted}
            function: Any = vector_norm
        else:
            options, function = {"ord": wanted}, matrix_norm
        plan = function.plan(array, **options)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "norm", plan, as_json):
            value = function(array, memory=runtime.memory, **options)
        done = stats()
    if as_json:
        found = value.tolist()
        print_json({"norm": found, "ord": order, "plan": plan.as_dict(), "stats": done.as_dict()})
    else:
        click.echo(f"{value!s}\n{comparison(plan, done)}" if array.ndim < 3 else str(value))
