"""Commands on this machine: scratch, calibrate."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .. import _core, gauge, scratch
from .common import print_json


@click.command("scratch")
@click.option("--clear", is_flag=True, help="Delete imports and what ended processes left behind.")
@click.option("--scratch", "directory", type=click.Path(file_okay=False), help="Scratch directory.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def scratch_command(clear: bool, directory: str | None, as_json: bool) -> None:
    """List what lies in scratch: imported files, results without a name, leftovers."""
    place = Path(directory) if directory else scratch.default_directory()
    if clear:
        number, nbytes = scratch.clear(place)
        if as_json:
            print_json({"directory": str(place), "deleted": number, "bytes": nbytes})
        else:
            click.echo(f"Deleted {number} entries, {_core.format_bytes(nbytes)}.")
        return
    found = scratch.entries(place)
    if as_json:
        rows = [{"path": str(e.path), "kind": e.kind, "bytes": e.nbytes, "source": e.source} for e in found]
        print_json({"directory": str(place), "entries": rows})
        return
    total = _core.format_bytes(sum(entry.nbytes for entry in found))
    click.echo(f"{place}: {len(found)} entries, {total}")
    for entry in found:
        click.echo(f"  {entry.kind:<12} {_core.format_bytes(entry.nbytes):>10}  {entry.source}")


@click.command("calibrate")
@click.argument("path", required=False)
@click.option("--show", is_flag=True, help="Measure nothing; print what is kept for that disk.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def calibrate_command(path: str | None, show: bool, as_json: bool) -> None:
    """Measure the disk that holds PATH (default: scratch) and the processors, for the seconds of plans."""
    quiet = as_json or not sys.stderr.isatty()
    profile = gauge.calibrate(
        path, show=show, progress=None if quiet else lambda what: click.echo(f"  {what} ...", err=True)
    )
    print_json(profile.as_dict()) if as_json else click.echo(str(profile))
