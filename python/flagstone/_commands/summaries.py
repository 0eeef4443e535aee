"""Commands that tell what is in a matrix: norm, cov."""

from __future__ import annotations

import math
from typing import Any

import click

from .._linalg.covariance import corrcoef
from .._linalg.covariance import cov as run_cov
from .._linalg.norms import vector_norm
from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .._solve.matrix_norm import matrix_norm
from .options import bar, command_runtime, common_options, open_operand, print_json
from .routines import check_new, dense_operand

_ORDERS = {"fro": "fro", "1": 1, "-1": -1, "2": 2, "inf": math.inf, "-inf": -math.inf, "max": "max"}


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
    """Print a norm of X, a matrix or a vector, in one read; of 2 in several."""
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


@click.command()
@click.argument("x", metavar="X")
@click.option("-o", "--out", required=True, help="Where the result goes: a Zarr directory or a .npy file.")
@click.option("--columns", is_flag=True, help="Variables are the columns of X. [default: its rows]")
@click.option("--correlation", is_flag=True, help="Pearson's correlations in place of covariances.")
@click.option("--dtype", help="Of the arithmetic and the result. [default: at least float64]")
@click.option("--uplo", type=click.Choice(["lower", "upper"]), help="Store this triangle alone.")
@click.option("--key", help="Member of a group or a file.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def cov(
    x: str, out: str, columns: bool, correlation: bool, dtype: str | None, uplo: str | None, key: str | None,
    overwrite: bool, memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write the covariances of the variables in X."""
    check_new("cov", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        advice = "flagstone pca takes sparse matrices"
        array = dense_operand(open_operand(x, key, as_json), x, "cov", advice)
        function: Any = corrcoef if correlation else run_cov
        options: dict[str, Any] = {"rowvar": not columns, "dtype": dtype, "uplo": uplo, "out": out}
        plan = function.plan(array, **options)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "cov", plan, as_json):
            function(array, **options)
        done = stats()
    if as_json:
        print_json({"out": out, "plan": plan.as_dict(), "stats": done.as_dict()})
    else:
        click.echo(f"{done.what} -> {out}\n{comparison(plan, done)}")
