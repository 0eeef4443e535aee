"""Commands that put elements in order: sort."""

from __future__ import annotations

import functools
from typing import Any

import click

from .._runtime.plan import Plan, comparison
from .._runtime.runtime import stats
from .._sort.order import argsort
from .._sort.order import sort as run_sort
from .options import bar, command_runtime, common_options, open_operand, print_json
from .routines import check_new, dense_operand


@click.command()
@click.argument("src", metavar="SRC")
@click.argument("dst", metavar="DST")
@click.option("--axis", type=int, default=-1, show_default=True, help="Along which dimension.")
@click.option("--descending", is_flag=True, help="The largest first; NaN stays last.")
@click.option("--places", is_flag=True, help="Write the places that sort SRC, not its elements.")
@click.option("--key", help="Member of SRC.")
@click.option("--overwrite", is_flag=True, help="Replace DST, at once and whole.")
@common_options
def sort(
    src: str, dst: str, axis: int, descending: bool, places: bool, key: str | None, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write the elements of SRC in order to DST."""
    check_new("sort", dst, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        source = dense_operand(open_operand(src, key, True), src, "sort", "dense arrays are sorted")
        routine: Any = argsort if places else run_sort
        call = functools.partial(routine, source, axis=axis, descending=descending, out=dst)
        plan: Plan = routine.plan(*call.args, **call.keywords)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "sort", plan, as_json):
            call()
        done = stats()
        if as_json:
            print_json({"out": dst, "plan": plan.as_dict(), "stats": done.as_dict()})
        else:
            click.echo(f"{done.what} -> {dst}\n{comparison(plan, done)}")
