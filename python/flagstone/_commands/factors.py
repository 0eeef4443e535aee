"""Commands that factor and solve: cholesky, lu, solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np

from .._factor.cholesky import cholesky as run_cholesky
from .._factor.lu import lu as run_lu
from .._output.create import from_numpy
from .._runtime.plan import Plan, comparison
from .._runtime.runtime import Runtime, current, remember, stats
from .._solve.inverse import diagonal_of
from .._solve.solve import solve as run_solve
from .options import bar, command_runtime, common_options, dense_matrix, print_json
from .routines import check_new


def _done(
    who: str, runtime: Runtime, plan: Plan, only_plan: bool, as_json: bool, out: str,
    work: Callable[[], dict[str, Any]],
) -> None:  # fmt: skip
    """Print the plan; or run, and print what came of it."""
    if only_plan:
        print_json(plan.as_dict()) if as_json else click.echo(str(plan))
        return
    with bar(runtime, who, plan, as_json):
        told, done = work(), stats()
    if as_json:
        print_json({"out": out} | told | {"plan": plan.as_dict(), "stats": done.as_dict()})
        return
    for name, value in told.items():
        click.echo(f"{name.replace('_', ' '):<30} {value:.10g}")
    click.echo(f"{done.what} -> {out}\n{comparison(plan, done)}")


def _of_diagonal(factor: Any, squared: bool) -> dict[str, Any]:
    """Tell the determinant and what the condition is at least; of L with L Lᴴ both are squares."""
    sizes = np.abs(diagonal_of(factor)).astype(np.float64)
    times = 2 if squared else 1
    with np.errstate(divide="ignore"):
        told = {"log_determinant": times * float(np.log(sizes).sum())}
    if sizes.size:
        least = sizes.min()
        told["condition_at_least"] = float(sizes.max() / least) ** times if least > 0 else float("inf")
    return told


@click.command()
@click.argument("a", metavar="A")
@click.option("-o", "--out", required=True, help="Where the factor goes: a Zarr directory or a .npy file.")
@click.option("--upper", is_flag=True, help="Write U with Uᴴ U = A. [default: L with L Lᴴ = A]")
@click.option("--shift", type=float, default=0.0, show_default=True, help="Added to the diagonal.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def cholesky(
    a: str, out: str, upper: bool, shift: float, overwrite: bool, memory: int | None,
    scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write the Cholesky factor of A; print log-determinant and a lower bound of the condition."""
    check_new("cholesky", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        options: dict[str, Any] = {"upper": upper, "shift": shift, "out": out}
        matrix = dense_matrix("cholesky", a)
        plan = run_cholesky.plan(matrix, **options)
        _done(
            "cholesky", runtime, plan, only_plan, as_json, out,
            lambda: _of_diagonal(run_cholesky(matrix, **options), True),
        )  # fmt: skip


@click.command()
@click.argument("a", metavar="A")
@click.option("-o", "--out", required=True, help="A Zarr group for p, L and U.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def lu(
    a: str, out: str, overwrite: bool, memory: int | None, scratch_directory: str | None, only_plan: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Write p, L and U with A = L[p] U; print log |det A| and what the condition of U is at least."""
    check_new("lu", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        matrix = dense_matrix("lu", a)
        plan = run_lu.plan(matrix, out=out)
        _done(
            "lu", runtime, plan, only_plan, as_json, out,
            lambda: _of_diagonal(run_lu(matrix, out=out).U, False),
        )  # fmt: skip


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("-o", "--out", required=True, help="Where X goes: a Zarr directory or a .npy file.")
@click.option("--assume-a", default="gen", show_default=True, help="What is known of A: gen, pos, ...")
@click.option("--precision", type=click.Choice(["mixed"]), help="Factor in float32 and refine.")
@click.option("--rcond", is_flag=True, help="Estimate the condition too.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def solve(
    a: str, b: str, out: str, assume_a: str, precision: str | None, rcond: bool, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write X with A X = B."""
    check_new("solve", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        matrix, right = dense_matrix("solve", a), dense_matrix("solve", b)
        vector = right.ndim == 1
        sides: Any = np.asarray(right) if vector else right
        options: dict[str, Any] = {
            "assume_a": assume_a, "precision": precision, "rcond": rcond, "out": None if vector else out,
        }  # fmt: skip
        plan = run_solve.plan(matrix, sides, **options)

        def work() -> dict[str, Any]:
            made = run_solve(matrix, sides, **options)
            x, told = (made[0], {"condition": 1 / made[1] if made[1] else np.inf}) if rcond else (made, {})
            if vector:
                done = stats()  # of the solve, not of the copy
                from_numpy(x, out, overwrite=True)
                remember(current(), done)
            return told

        _done("solve", runtime, plan, only_plan, as_json, out, work)
