"""Commands of spectra: eigsh, svd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .._spectral.eigsh import eigsh as run_eigsh
from .._spectral.svds import svds as run_svds
from .options import bar, command_runtime, common_options, open_operand, print_json
from .routines import check_new

_MOST_SHOWN = 12  # values


def _solver_options(command: Any) -> Any:
    """Add what both commands take."""
    for option in (
        click.argument("a", metavar="A"),
        click.option("-k", "k", type=int, default=6, show_default=True, help="How many."),
        click.option("-o", "--out", help="Zarr group for vectors, values and residuals."),
        click.option("--key", help="Member of a group or a file."),
        click.option("--tol", type=float, default=1e-6, show_default=True, help="Of residuals, relative."),
        click.option("--block", type=int, help="Columns of one application."),
        click.option("--ncv", type=int, help="Columns of the basis."),
        click.option("--passes", type=int, help="Exactly so many applications, whatever is reached."),
        click.option("--maxiter", type=int, help="Applications at most."),
        click.option("--seed", type=int, default=0, show_default=True),
        click.option("--no-verify", is_flag=True, help="Do not look for missed copies of values."),
        click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole."),
    ):  # fmt: skip
        command = option(command)
    return common_options(command)


@click.command()
@click.option("--which", type=click.Choice(["LM", "LA", "SA", "BE"]), default="LM", show_default=True)
@_solver_options
def eigsh(a: str, which: str, **given: Any) -> None:
    """Eigenpairs of a symmetric matrix A (whatever opens), sparse or dense."""
    _run("eigsh", run_eigsh, a, {"which": which}, **given)


@click.command()
@_solver_options
def svd(a: str, **given: Any) -> None:
    """Largest singular values of A (whatever opens) and their vectors."""
    _run("svds", run_svds, a, {}, **given)


def _run(
    who: str, function: Any, a: str, options: dict[str, Any], k: int, out: str | None, key: str | None,
    no_verify: bool, overwrite: bool, memory: int | None, scratch_directory: str | None, only_plan: bool,
    as_json: bool, **more: Any,
) -> None:  # fmt: skip
    if out is not None:
        check_new(who, out, overwrite or only_plan)
    options = options | more | {"out": out, "verify": not no_verify}
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        matrix = open_operand(a, key, as_json)
        plan = function.plan(matrix, k, **options)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, who, plan, as_json):
            found = function(matrix, k, **options)
        done = stats()
        values = found.w if who == "eigsh" else found.s
        if as_json:
            told = {"values": values.tolist(), "residual": found.residual.tolist(), "passes": found.passes,
                    "applications": found.applications, "verified": found.verified}  # fmt: skip
            print_json({"out": out, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(f"{done.what}\n{comparison(plan, done)}\n{_table(values, found.residual)}")
        if out is not None:
            click.echo(f"Wrote {out} (from {Path(a).name}).")


def _table(values: NDArray[Any], residual: NDArray[Any]) -> str:
    lines = [f"{'':>6} {'value':>16} {'residual':>10}"]
    lines += [f"{j:>6} {values[j]:>16.9g} {residual[j]:>10.1e}" for j in range(min(len(values), _MOST_SHOWN))]
    if len(values) > _MOST_SHOWN:
        lines.append(
            f"{'...':>6} {len(values) - _MOST_SHOWN} more, the largest residual {np.max(residual):.1e}"
        )
    return "\n".join(lines)
