"""The command that goes on with what a killed process left."""

from __future__ import annotations

import contextlib

import click

from .. import _core
from .._commands.options import Size, bar, command_runtime, device_option, print_json
from .._resume.record import expecting
from .._resume.resume import call_of
from .._runtime.plan import Plan
from .._runtime.routine import RoutineFunction
from .._runtime.runtime import stats


@click.command("resume")
@click.argument("path")
@click.option("--memory", type=Size(), help="Most resident memory of the process, as 4GiB.")
@device_option
@click.option("--scratch", "scratch_directory", metavar="DIRECTORY", help="Scratch directory.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def resume_command(path: str, memory: int | None, scratch_directory: str | None, as_json: bool) -> None:
    """Go on with the command or call that was writing PATH when it was killed; the same bits come out."""
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        left, routine, operands, options = call_of(path)
        plan: Plan | None = None
        if isinstance(routine, RoutineFunction):
            with contextlib.suppress(NotImplementedError):
                plan = routine.plan(*operands, **options)
        if not as_json:
            click.echo(f"{left.operation} of {left.path}: going on at {left.done:.0%}.")
        with expecting(left.record), bar(runtime, left.operation, plan, as_json, left.done):
            routine(*operands, **options)
        done = stats()
    if as_json:
        print_json(
            {"out": left.path, "operation": left.operation, "from": left.done, "stats": done.as_dict()}
        )
        return
    moved = f"{_core.format_bytes(done.bytes_read)} read, {_core.format_bytes(done.bytes_written)} written"
    click.echo(f"{done.what} -> {left.path}: {moved}.")
