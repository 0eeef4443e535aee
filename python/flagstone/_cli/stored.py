"""Commands on what is stored: info, check, repair, pack, convert."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import click

from .. import _core
from .._commands.options import Size, bar, command_runtime, device_option, print_json
from .._edges.edges import open_edges
from .._errors.messages import storage_error
from .._formats.convert import convert as convert_file
from .._formats.registry import for_writing
from .._maintenance.check import check, repair
from .._maintenance.info import describe, disk_bytes
from .._maintenance.pack import pack
from .._runtime.plan import Plan, format_seconds
from .._runtime.runtime import features, stats
from .._sparse.array import SparseArray


@click.command()
@click.argument("path", required=False)
@click.option("--key", help="Member of a group or a file.")
@click.option("--check", is_flag=True, help="Read and verify everything, as 'flagstone check' does.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(path: str | None, key: str | None, check: bool, as_json: bool) -> None:
    """Say what a file holds and what is wrong with it; without PATH, what this machine and build offer."""
    if path is not None and not os.path.lexists(path):
        raise storage_error(f"info: '{path}' does not exist.", 2, path)
    facts = features() if path is None else describe(path, key, check)
    if as_json:
        print_json(facts)
    else:
        _print_facts(facts)
    if "problem" in facts:
        raise click.exceptions.Exit(1)


def _print_facts(facts: dict[str, Any]) -> None:
    width = max(map(len, facts))
    for name, value in facts.items():
        sized = isinstance(value, int) and ("bytes" in name or name.startswith("memory"))
        text = _core.format_bytes(value) if sized else value
        text = f"{value:,}" if name in ("stored_values", "entries", "rows") else text
        if isinstance(value, (list, tuple)):
            text = ("\n".ljust(width + 5) if name == "members" else " x ").join(map(str, value))
        click.echo(f"  {name.replace('_', ' ').ljust(width)}  {text}")


@click.command("check")
@click.argument("path")
@click.option("--key", help="Only this member.")
@click.option("--repair", "mend", is_flag=True, help="Recover what can be recovered first.")
@click.option("--accept", is_flag=True, help="With --repair: chunks are right as they are.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_command(path: str, key: str | None, mend: bool, accept: bool, as_json: bool) -> None:
    """Read everything that PATH holds and say what is damaged; exit with 1 if something is."""
    if accept and not mend:
        raise click.UsageError("--accept goes with --repair.")
    mended = repair(path, accept=accept) if mend else None
    report = check(path, key)
    if as_json:
        facts = dataclasses.asdict(report) | {"ok": report.ok}
        print_json(facts if mended is None else facts | {"repair": dataclasses.asdict(mended)})
    else:
        if mended is not None:
            click.echo(str(mended))
        click.echo(str(report))
    if not report.ok:
        raise click.exceptions.Exit(1)


@click.command("repair")
@click.argument("path")
@click.option("--accept", is_flag=True, help="What does not match its checksums is right as it is.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def repair_command(path: str, accept: bool, as_json: bool) -> None:
    """Recover what can be recovered of PATH and list what cannot; exit with 1 if something is lost."""
    report = repair(path, accept=accept)
    if as_json:
        print_json(dataclasses.asdict(report) | {"ok": report.ok})
    else:
        click.echo(str(report))
    if not report.ok:
        raise click.exceptions.Exit(1)


@click.command("pack")
@click.argument("src", metavar="SRC")
@click.argument("dst", metavar="DST")
@click.option("--key", help="Member of SRC.")
@click.option("--codec", help="Pack every array so, as blosc-zstd:5+bitshuffle. [default: as it is stored]")
@click.option("--checksum", is_flag=True, help="Put Zarr's crc32c behind every chunk.")
@click.option("--overwrite", is_flag=True, help="Replace DST, at once and whole.")
@click.option("--memory", type=Size(), help="Most resident memory of the process, as 4GiB.")
@device_option
@click.option("--plan", "only_plan", is_flag=True, help="Print what would be done and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def pack_command(
    src: str, dst: str, key: str | None, codec: str | None, checksum: bool, overwrite: bool,
    memory: int | None, only_plan: bool, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write a dense portable copy of SRC (Zarr) as DST: no gaps, no private files, for reading."""
    if not overwrite and os.path.exists(src) and os.path.lexists(dst):
        raise storage_error(f"pack: '{dst}' exists; add --overwrite to replace it.", 17, dst)
    quiet = quiet or as_json
    with command_runtime(memory, None, quiet) as runtime:
        sums = "inner" if checksum else "none"
        plan = pack.plan(src, dst, key=key, codec=codec, checksum=sums, overwrite=overwrite)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "pack", plan, quiet):
            report = pack(src, dst, key=key, codec=codec, checksum=sums, overwrite=overwrite)
        if as_json:
            done = stats()
            print_json({"out": dst, "plan": plan.as_dict(), "stats": done.as_dict()})
        elif not quiet:
            click.echo(str(report))


def _edges(
    path: str, dst: str, overwrite: bool, layout: str | None, symmetric: bool, duplicates: str | None,
    dense_ids: bool, no_loops: bool,
) -> SparseArray:  # fmt: skip
    """Return a list of edges as a matrix in scratch, in the layout that it is written in."""
    for_writing(dst)  # refuses what is not written, before anything is read
    if dense_ids and not overwrite and os.path.lexists(ids_beside(dst)):
        raise storage_error(
            f"convert: '{ids_beside(dst)}' exists; add --overwrite to replace it.", 17, ids_beside(dst)
        )
    return open_edges(
        path, duplicates=duplicates or "sum", symmetric=symmetric, ids="dense" if dense_ids else "keep",
        loops=not no_loops, layout=layout or "csr",
    )  # fmt: skip


def ids_beside(dst: str) -> str:
    """Return where the old ids of vertices go, beside their matrix."""
    return os.path.splitext(dst.rstrip("/"))[0] + "-ids.npy"


@click.command()
@click.argument("src", metavar="SRC")
@click.argument("dst", metavar="DST")
@click.option("--key", help="Member of SRC.")
@click.option("--overwrite", is_flag=True, help="Replace DST, at once and whole.")
@click.option("--labels", metavar="PATH", help="Of .svm: an array with a label for each row; else zeros.")
@click.option("--zero-based", is_flag=True, help="Of .svm: count columns from 0, not 1.")
@click.option("--header/--no-header", default=None, help="Of .csv: the first line names the columns, or not.")
@click.option("--delimiter", metavar="C", help="Of .csv: what separates fields. [default: guessed; a comma]")
@click.option("--edges", is_flag=True, help="SRC is a list of edges: two ids a line, or two and a value.")
@click.option("--symmetric", is_flag=True, help="Of edges: each also the other way round.")
@click.option("--duplicates", type=click.Choice(["sum", "first", "error"]), help="Of edges. [default: sum]")
@click.option("--dense-ids", is_flag=True, help="Of edges: make ids 0 … n−1; the old ones go to DST-ids.npy.")
@click.option("--no-loops", is_flag=True, help="Of edges: leave out those from a vertex to itself.")
@click.option(
    "--layout", help="Of a sparse matrix in Zarr: csr, bitpacked, pattern, triangle; several with +."
)
@click.option("--memory", type=Size(), help="Most resident memory of the process, as 4GiB.")
@device_option
@click.option("--scratch", "scratch_directory", metavar="DIRECTORY", help="Scratch directory.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def convert(
    src: str, dst: str, key: str | None, overwrite: bool, memory: int | None, scratch_directory: str | None,
    quiet: bool, labels: str | None, zero_based: bool, header: bool | None, delimiter: str | None,
    layout: str | None, edges: bool, **of_edges: Any,
) -> None:  # fmt: skip
    """Write SRC (whatever opens) as DST, whose name chooses.

    .npy .npz .mtx[.gz] .svm[.gz] .csv .tsv .parquet .arrow .h5 .h5ad, else Zarr. A pattern in quotes
    ('parts/*.csv') reads files as one.
    """
    options: dict[str, Any] = {"labels": labels} if labels else {}
    options |= {"zero_based": True} if zero_based else {}
    options |= {"header": header} if header is not None else {}
    options |= {"delimiter": delimiter.replace("\\t", "\t")} if delimiter else {}
    options |= {"layout": layout} if layout else {}
    if not edges and any(of_edges.values()):
        raise click.UsageError("--symmetric, --duplicates, --dense-ids and --no-loops are of --edges.")
    if not overwrite and os.path.exists(src) and os.path.lexists(dst):
        raise storage_error(f"convert: '{dst}' exists; add --overwrite to replace it.", 17, dst)
    with command_runtime(memory, scratch_directory, quiet) as runtime:
        size = disk_bytes(src) if os.path.lexists(src) else 0
        plan = Plan("convert", "streaming", 1, size, 0, 0.0, 0, 0, 0.0, runtime.memory)
        with bar(runtime, "convert", plan, quiet):
            source: Any = _edges(src, dst, overwrite, layout, **of_edges) if edges else src
            convert_file(source, dst, key=key, overwrite=overwrite, **options)
            if edges and source.ids is not None:
                convert_file(source.ids, ids_beside(dst), overwrite=overwrite)
        if not quiet:
            done = stats()
            click.echo(
                f"{src} -> {dst}: {_core.format_bytes(done.bytes_read)} in, "
                f"{_core.format_bytes(done.bytes_written)} out, {format_seconds(done.seconds)}, "
                f"peak {_core.format_bytes(done.peak_memory)}"
            )
