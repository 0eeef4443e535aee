"""Commands on this machine: scratch, calibrate."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .. import _core
from .._commands.options import print_json
from .._resume.leftovers import Leftover, registered
from .._runtime.arguments import quota_bytes
from .._runtime.calibrate import calibrate
from .._runtime.plan import format_seconds
from .._scratch import entries, quota, scratch


@click.command("scratch")
@click.option("--clear", is_flag=True, help="Name and delete imports and what ended processes left behind.")
@click.option("--yes", is_flag=True, help="With --clear: do not ask.")
@click.option("--all", "everything", is_flag=True, help="With --clear: also what can be resumed.")
@click.option("--scratch", "directory", type=click.Path(file_okay=False), help="Scratch directory.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def scratch_command(
    clear: bool, yes: bool, everything: bool, directory: str | None, as_json: bool
) -> None:  # fmt: skip
    """List what lies in scratch (imports, results without a name), and what can be resumed elsewhere."""
    if (everything or yes) and not clear:
        raise click.UsageError(f"{'--all' if everything else '--yes'} goes with --clear.")
    place = Path(directory) if directory else scratch.default_directory()
    begun = registered(place)
    if clear:
        _agreed(place, [one for one in begun if not one.live] if everything else [], yes, as_json)
        number, nbytes = entries.clear(place)
        kept = [one for one in begun if not one.live]
        if everything:
            for one in kept:
                _core.sweep_leftovers(one.path)
            number, nbytes, kept = number + len(kept), nbytes + sum(one.nbytes for one in kept), []
        if as_json:
            print_json({"directory": str(place), "deleted": number, "bytes": nbytes, "kept": len(kept)})
            return
        click.echo(f"Deleted {number} entries, {_core.format_bytes(nbytes)}.")
        for one in kept:
            click.echo(f"Kept {one.path}, {_progress(one)}; --all deletes it too.")
        return
    found = entries.entries(place)
    named = quota_bytes(None)
    most, held = _core.usual_quota(str(place)) if named is None else named, quota.held(place)
    free = scratch.free_bytes(place) if place.is_dir() else None
    if as_json:
        rows = [{"path": str(e.path), "kind": e.kind, "bytes": e.nbytes, "source": e.source} for e in found]
        print_json({
            "directory": str(place), "entries": rows, "begun": [_facts(one) for one in begun],
            "quota": most, "held": held, "free": free, "clearable": entries.clearable(place),
        })  # fmt: skip
        return
    size = _core.format_bytes
    total = size(sum(entry.nbytes for entry in found))
    click.echo(f"{place}: {len(found)} entries, {total}")
    limit = f"quota {size(most)} (FLAGSTONE_SCRATCH_QUOTA), {size(held)} held"
    clearable = size(entries.clearable(place))
    click.echo(f"  {limit}; {size(free or 0)} free on the disk; --clear frees {clearable}")
    for entry in found:
        click.echo(f"  {entry.kind:<12} {_core.format_bytes(entry.nbytes):>10}  {entry.source}")
    for one in begun:
        kind = "running" if one.live else "resumable" if one.resumable else "left behind"
        click.echo(f"  {kind:<12} {_core.format_bytes(one.nbytes):>10}  {one.path}, {_progress(one)}")


def _agreed(place: Path, begun: list[Leftover], yes: bool, quiet: bool) -> None:
    """Name what is about to be deleted, and ask; without anybody to ask, say how to go on."""
    found = [one for one in entries.entries(place) if one.kind != "result" and one.source != "in progress"]
    total = _core.format_bytes(sum(one.nbytes for one in found) + sum(one.nbytes for one in begun))
    what = f"{len(found) + len(begun)} entries, {total}, of '{place}'"
    asked = not (yes or not (found or begun))
    if asked and (quiet or not sys.stdin.isatty()):
        raise click.UsageError(f"--clear would delete {what}, and nobody can be asked here; add --yes.")
    if not quiet:
        for one in found:
            click.echo(f"  {one.kind:11} {_core.format_bytes(one.nbytes):>10}  {one.path.name}  {one.source}")
        for left in begun:
            click.echo(f"  {'resumable':11} {_core.format_bytes(left.nbytes):>10}  {left.path}")
    if asked:
        click.confirm(f"Delete {what}? Imports are made again when they are needed", abort=True)


def _progress(one: Leftover) -> str:
    since = f", {format_seconds(one.age)} ago" if one.saves else ""
    return f"{one.operation or 'unknown'} {one.done:.0%} done{since}"


def _facts(one: Leftover) -> dict[str, object]:
    return {
        "path": one.path, "operation": one.operation, "done": one.done, "bytes": one.nbytes,
        "checkpoints": one.saves, "age": one.age, "running": one.live, "resumable": one.resumable,
    }  # fmt: skip


@click.command("calibrate")
@click.argument("path", required=False)
@click.option("--show", is_flag=True, help="Measure nothing; print what is kept for that disk.")
@click.option("--kernels", is_flag=True, help="Measure the kernels of factorizations too.")
@click.option("--machine", metavar="FILE", help="Write a machine file, for plans elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def calibrate_command(
    path: str | None, show: bool, kernels: bool, machine: str | None, as_json: bool
) -> None:
    """Measure the disk that holds PATH (default: scratch) and the processors, for the seconds of plans."""
    quiet = as_json or not sys.stderr.isatty()
    profile = calibrate(
        path,
        show=show,
        progress=None if quiet else lambda what: click.echo(f"  {what} ...", err=True),
        kernels=kernels,
        machine=machine,
    )
    print_json(profile.as_dict()) if as_json else click.echo(str(profile))


@click.command("timeline")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="A picture of it, as run.png."
)
@click.option("--run", "number", type=click.IntRange(min=1), help="Which run. [default: the longest]")
@click.option("--overwrite", is_flag=True, help="Replace OUT.")
def timeline_command(file: Path, out: Path | None, number: int | None, overwrite: bool) -> None:
    """Say what the runs in FILE did (made with --timeline or fl.timeline) and draw one of them."""
    from .._terminal.timeline import draw, read_runs, report

    if out is not None and out.exists() and not overwrite:
        raise click.UsageError(f"timeline: '{out}' exists; --overwrite replaces it.")
    runs = read_runs(file)
    if not runs:
        raise click.UsageError(f"timeline: '{file}' holds no runs; nothing ran while it was written.")
    if number is not None and number > len(runs):
        raise click.UsageError(
            f"timeline: --run {number} was asked for, and '{file}' holds {len(runs)} runs."
        )
    chosen = runs[number - 1] if number else max(runs, key=lambda run: run.seconds)
    for run in runs if number is None and len(runs) <= 12 else [chosen]:
        click.echo(report(run))
    if number is None and len(runs) > 12:
        click.echo(f"{len(runs)} runs, of which this is the longest; --run N names another.")
    if out is not None:
        draw(chosen, out)
        click.echo(f"drew {chosen.name} -> {out}")
