"""What commands share: options, the runtime of a command, its bar, operands, JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from .. import _core
from .._array.array import Array
from .._errors.classes import FormatError, ShapeError
from .._expression.times import TimeArray
from .._formats.open import open_path
from .._runtime.arguments import memory_bytes, quota_bytes
from .._runtime.devices import device_of_text
from .._runtime.plan import Plan, format_seconds
from .._runtime.runtime import Runtime
from .._runtime.timeline import timeline
from .._sparse.array import SparseArray

_QUOTA = "flagstone.scratch_quota"
_TIMELINE = "flagstone.timeline"
_DEVICES = "flagstone.devices"


class Size(click.ParamType[int]):
    """Bytes, as memory_bytes() reads them."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes that a text names."""
        try:
            return memory_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _keep_quota(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        try:
            ctx.meta[_QUOTA] = quota_bytes(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None


def _keep_timeline(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    ctx.meta[_TIMELINE] = value


def _keep_devices(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:
    if value == ("auto",):
        ctx.meta[_DEVICES] = "auto"
    elif value:
        try:
            ctx.meta[_DEVICES] = [] if value == ("none",) else [device_of_text(text) for text in value]
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None


device_option = click.option(
    "--device", metavar="NAME", multiple=True, expose_value=False, callback=_keep_devices,
    help="A memory beside the host's, as cuda:0, cuda:0:8GiB or emulated:64MiB; auto; none. May be repeated.",
)  # fmt: skip


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that every command that runs something takes."""
    for option in reversed([
        click.option("--memory", type=Size(), help="Most resident memory of the process, as 4GiB."),
        device_option,
        click.option("--scratch", "scratch_directory", metavar="DIRECTORY", help="Scratch directory."),
        click.option(
            "--scratch-quota", metavar="SIZE", expose_value=False, callback=_keep_quota,
            help="Most bytes in the scratch directory, as 200GiB.",
        ),
        click.option(
            "--timeline", metavar="FILE", expose_value=False, callback=_keep_timeline,
            help="Write what runs and when, for 'flagstone timeline' and ui.perfetto.dev.",
        ),
        click.option("--plan", "only_plan", is_flag=True, help="Print what would be done and run nothing."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ]):  # fmt: skip
        command = option(command)
    return command


def command_runtime(memory: int | None, directory: str | None, quiet: bool) -> Runtime:
    """Return the runtime of a command; what the bar needs is loaded now, so that plans count it."""
    if not quiet and sys.stderr.isatty():
        import rich.progress  # noqa: F401
    ctx = click.get_current_context()
    if (path := ctx.meta.get(_TIMELINE)) and not ctx.params.get("only_plan"):
        ctx.with_resource(timeline(path))
    quota, beside = ctx.meta.get(_QUOTA), ctx.meta.get(_DEVICES)
    return Runtime(memory=memory, scratch=directory, scratch_quota=quota, devices=beside)


@contextlib.contextmanager
def bar(runtime: Runtime, label: str, plan: Plan | None, quiet: bool, start: float = 0.0) -> Iterator[None]:
    """Show the progress of what runs inside, unless quiet."""
    from .._runtime.progress import Bar

    with Bar(label, plan, runtime.memory, quiet, start) as shown:
        runtime.progress = shown.update
        try:
            yield
        finally:
            runtime.progress = False


def open_operand(path: str, key: str | None, quiet: bool) -> Any:
    """Open an operand and say when it had to be imported first."""
    opened = open_path(path, key)
    if isinstance(opened, TimeArray):
        who = click.get_current_context().info_name
        raise FormatError(
            f"{who}: '{path}' holds {opened.dtype}, and commands take numbers; in Python fl.open(...).stored "
            "has them."
        )
    if opened.import_seconds and not quiet:
        nbytes = opened.stored_bytes if isinstance(opened, SparseArray) else opened.nbytes
        click.echo(
            f"Imported {path} into scratch in {format_seconds(opened.import_seconds)} "
            f"({_core.format_bytes(nbytes)} there); it is kept until 'flagstone scratch "
            "--clear'."
        )
    return opened


def dense_matrix(who: str, path: str) -> Array:
    """Open an operand that must be dense."""
    opened = open_operand(path, None, True)
    if not isinstance(opened, Array):
        raise ShapeError(f"{who}: '{path}' is sparse; the command takes dense matrices.")
    return opened


def print_json(values: Any) -> None:
    """Print one JSON object."""
    click.echo(json.dumps(values, indent=1))


def places_given(who: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Return where operands lie, as ``where=`` takes it, of texts as "centers=disk"."""
    places: dict[str, str] = {}
    for text in texts:
        name, sign, place = text.partition("=")
        if not sign or not name or not place:
            raise ShapeError(
                f"{who}: --where is '{text}'; an operand and its place are needed, as centers=disk."
            )
        if name in places:
            raise ShapeError(f"{who}: --where places '{name}' twice; give one place.")
        places[name] = place
    return places
