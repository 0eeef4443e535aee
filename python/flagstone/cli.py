"""The command line: ``flagstone info | check | convert | matmul | pca | recipe | scratch | ...``."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from . import (
    _core,
    about,
    array,
    config,
    decomposition,
    errors,
    files,
    gauge,
    integrity,
    linalg,
    obsm,
    recipes,
    scratch,
    sparse,
)
from .convert import convert as convert_file
from .plan import Plan, Stats, comparison, format_seconds

__all__ = ["main"]


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return config.memory_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that every command that runs something takes."""
    for option in reversed([
        click.option("--memory", type=_Size(), help="Most resident memory of the process, as 4GiB."),
        click.option("--scratch", "scratch_directory", metavar="DIRECTORY", help="Scratch directory."),
        click.option("--plan", "only_plan", is_flag=True, help="Print what would be done and run nothing."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ]):  # fmt: skip
        command = option(command)
    return command


def _runtime(memory: int | None, directory: str | None, quiet: bool) -> config.Runtime:
    """Return the runtime of a command; what the bar needs is loaded now, so that plans count it."""
    if not quiet and sys.stderr.isatty():
        import rich.progress  # noqa: F401
    return config.Runtime(memory=memory, scratch=directory)


@contextlib.contextmanager
def _bar(runtime: config.Runtime, label: str, plan: Plan, quiet: bool) -> Iterator[None]:
    from .progress import Bar

    with Bar(label, plan, runtime.memory, quiet) as bar:
        runtime.progress = bar.update
        try:
            yield
        finally:
            runtime.progress = None


def _open(path: str, key: str | None, quiet: bool) -> Any:
    """Open an operand and say when it had to be imported first."""
    opened = files.open_path(path, key)
    if opened.import_seconds and not quiet:
        nbytes = opened.stored_bytes if isinstance(opened, sparse.SparseArray) else opened.nbytes
        click.echo(
            f"Imported {path} into scratch in {format_seconds(opened.import_seconds)} "
            f"({_core.format_bytes(nbytes)} there); it is kept until 'flagstone scratch "
            "--clear'."
        )
    return opened


def _print_json(values: Any) -> None:
    click.echo(json.dumps(values, indent=1))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_core.__version__, prog_name="flagstone")
def cli() -> None:
    """Linear algebra on matrices bigger than memory, inside a memory limit that is true."""


# info -------------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("path", required=False)
@click.option("--key", help="Member of a group or a file.")
@click.option("--check", is_flag=True, help="Read and verify everything, as 'flagstone check' does.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(path: str | None, key: str | None, check: bool, as_json: bool) -> None:
    """Say what a file holds and what is wrong with it; without PATH, what this machine and build offer."""
    if path is not None and not os.path.lexists(path):
        raise errors.storage_error(f"info: '{path}' does not exist.", 2, path)
    facts = config.features() if path is None else about.describe(path, key, check)
    if as_json:
        _print_json(facts)
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


# check ------------------------------------------------------------------------------------------------------


@cli.command("check")
@click.argument("path")
@click.option("--key", help="Only this member.")
@click.option("--repair", "mend", is_flag=True, help="Recover what can be recovered first.")
@click.option("--accept", is_flag=True, help="With --repair: chunks are right as they are.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_command(path: str, key: str | None, mend: bool, accept: bool, as_json: bool) -> None:
    """Read everything that PATH holds and say what is damaged; exit with 1 if something is."""
    if accept and not mend:
        raise click.UsageError("--accept goes with --repair.")
    mended = integrity.repair(path, accept=accept) if mend else None
    report = integrity.check(path, key)
    if as_json:
        facts = dataclasses.asdict(report) | {"ok": report.ok}
        _print_json(facts if mended is None else facts | {"repair": dataclasses.asdict(mended)})
    else:
        if mended is not None:
            click.echo(str(mended))
        click.echo(str(report))
    if not report.ok:
        raise click.exceptions.Exit(1)


# convert ----------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("src", metavar="SRC")
@click.argument("dst", metavar="DST")
@click.option("--key", help="Member of SRC.")
@click.option("--overwrite", is_flag=True, help="Replace DST, at once and whole.")
@click.option("--memory", type=_Size(), help="Most resident memory of the process, as 4GiB.")
@click.option("--scratch", "scratch_directory", metavar="DIRECTORY", help="Scratch directory.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def convert(
    src: str, dst: str, key: str | None, overwrite: bool, memory: int | None, scratch_directory: str | None,
    quiet: bool,
) -> None:  # fmt: skip
    """Write SRC (whatever opens) as DST, whose name chooses: .npy .npz .mtx[.gz] .h5, else Zarr."""
    if not overwrite and os.path.exists(src) and os.path.lexists(dst):
        raise errors.storage_error(f"convert: '{dst}' exists; add --overwrite to replace it.", 17, dst)
    with _runtime(memory, scratch_directory, quiet) as runtime:
        size = about.disk_bytes(src) if os.path.lexists(src) else 0
        plan = Plan("convert", "streaming", 1, size, 0, 0.0, 0, 0, 0.0, runtime.memory)
        with _bar(runtime, "convert", plan, quiet):
            convert_file(src, dst, key=key, overwrite=overwrite)
        if not quiet:
            stats = config.stats()
            click.echo(
                f"{src} -> {dst}: {_core.format_bytes(stats.bytes_read)} in, "
                f"{_core.format_bytes(stats.bytes_written)} out, {format_seconds(stats.seconds)}, "
                f"peak {_core.format_bytes(stats.peak_memory)}"
            )


# matmul -----------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("-o", "--out", required=True, help="Where the product goes: a Zarr directory or a .npy file.")
@click.option("--transpose-a", is_flag=True, help="Use the transpose of A.")
@click.option("--transpose-b", is_flag=True, help="Use the transpose of B.")
@click.option("--alpha", type=float, default=1.0, show_default=True)
@click.option("--beta", type=float, default=0.0, show_default=True, help="Adds beta times what OUT holds.")
@_common
def matmul(
    a: str, b: str, out: str, transpose_a: bool, transpose_b: bool, alpha: float, beta: float,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write OUT = alpha A B + beta OUT."""
    with _runtime(memory, scratch_directory, as_json) as runtime:
        left, right = _dense(a), _dense(b)
        left, right = left.T if transpose_a else left, right.T if transpose_b else right
        plan = linalg.matmul.plan(left, right, out=out, alpha=alpha, beta=beta)
        if only_plan:
            _print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with _bar(runtime, "matmul", plan, as_json):
            linalg.matmul(left, right, out=out, alpha=alpha, beta=beta)
        stats = config.stats()
        if as_json:
            _print_json({"out": out, "plan": plan.as_dict(), "stats": stats.as_dict()})
        else:
            click.echo(f"{stats.what} -> {out}\n{comparison(plan, stats)}")


def _dense(path: str) -> array.Array:
    opened = _open(path, None, True)
    if not isinstance(opened, array.Array):
        raise errors.ShapeError(f"matmul: '{path}' is sparse; the command multiplies dense matrices.")
    return opened


# pca --------------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("x", metavar="X")
@click.option("-k", "--components", "k", type=int, required=True, help="Number of components.")
@click.option("-o", "--out", help="Zarr group for scores, components and the rest.")
@click.option("--into-obsm", is_flag=True, help="Put the scores into X itself (AnnData), as obsm/X_pca.")
@click.option("--key", help="Member of a group or a file.")
@click.option("--center/--no-center", default=True, show_default=True, help="Subtract column means.")
@click.option("--method", type=click.Choice(["auto", "gram", "krylov"]), default="auto", show_default=True)
@click.option("--tol", type=float, default=1e-5, show_default=True, help="Error of σ relative to σ₁.")
@click.option("--seed", type=int, default=0, show_default=True)
@_common
def pca(
    x: str, k: int, out: str | None, into_obsm: bool, key: str | None, center: bool,
    method: str, tol: float, seed: int,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Principal components of X (whatever opens), with a report (PNG, JSON) beside OUT."""
    if out is None and not into_obsm:
        raise click.UsageError("Missing option '-o' / '--out' (or --into-obsm).")
    options: dict[str, Any] = {"center": center, "method": method, "tol": tol, "seed": seed, "out": out}
    with _runtime(memory, scratch_directory, as_json) as runtime:
        matrix = _open(x, key, as_json)
        if into_obsm:
            obsm.check_target(x, "X_pca", matrix.shape[0], True)
        plan = decomposition.pca.plan(matrix, k, **options)
        if only_plan:
            _print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with _bar(runtime, "pca", plan, as_json):
            result = decomposition.pca(matrix, k, **options)
        stats = config.stats()
        if into_obsm:
            obsm.write_obsm(x, "X_pca", result.scores)
        if out is not None:
            finish_pca(result, plan, stats, out, Path(x).name, as_json)
        elif as_json:
            _print_json({"out": f"{x}:obsm/X_pca", "plan": plan.as_dict(), "stats": stats.as_dict()})
        else:
            click.echo(f"{comparison(plan, stats)}\nWrote obsm/X_pca of {x}.")


# recipes ----------------------------------------------------------------------------------------------------


@cli.group()
def recipe() -> None:
    """Chains of routines, without intermediate matrices on disk."""


@recipe.command("single-cell")
@click.argument("x", metavar="X")
@click.option(
    "-k", "--components", "k", type=int, default=50, show_default=True, help="Number of components."
)
@click.option("-o", "--out", required=True, help="Zarr group for scores, components, genes and the rest.")
@click.option("--genes", type=int, default=2000, show_default=True, help="How many genes to choose.")
@click.option("--target", type=float, default=1e4, show_default=True, help="Counts of a cell, normalised.")
@click.option("--key", help="Member of a group or a file.")
@_common
def single_cell(
    x: str, k: int, out: str, genes: int, target: float, key: str | None,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Normalise counts, log1p, choose genes by dispersion (seurat), principal components."""
    with _runtime(memory, scratch_directory, as_json) as runtime:
        matrix = _open(x, key, as_json)
        plan = recipes.single_cell.plan(matrix, k, genes=genes, target=target, out=out)
        if only_plan:
            _print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with _bar(runtime, "single-cell", plan, as_json):
            found = recipes.single_cell(matrix, k, genes=genes, target=target, out=out)
        stats = config.stats()
    if not as_json:
        click.echo(f"Chose {len(found.genes):,} of {matrix.shape[1]:,} genes.")
    finish_pca(found.pca, plan, stats, out, Path(x).name, as_json)


def finish_pca(
    result: decomposition.PcaResult, plan: Plan, stats: Stats, out: str, title: str, as_json: bool
) -> None:
    """Write the report and print what was found."""
    from . import report

    facts = report.numbers(result, stats, plan)
    picture, written = report.write(out, result, facts, title=title)
    if as_json:
        _print_json({"out": out, "picture": picture, "report": written, **facts})
        return
    relative = result.residual.max() / max(result.singular_values[0], 1e-300)
    click.echo(comparison(plan, stats))
    shown = ", ".join(f"{value:.4g}" for value in result.singular_values[:5])
    more = ", ..." if len(result.singular_values) > 5 else ""
    click.echo(f"  singular values   {shown}{more}")
    click.echo(f"  explained         {report.variance_text(result.explained_variance_ratio)}")
    click.echo(f"  largest residual  {relative:.1e} of σ₁")
    click.echo(f"Wrote {out}, {picture} and {written}.")


# scratch ----------------------------------------------------------------------------------------------------


@cli.command("scratch")
@click.option("--clear", is_flag=True, help="Delete imports and what ended processes left behind.")
@click.option("--scratch", "directory", type=click.Path(file_okay=False), help="Scratch directory.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def scratch_command(clear: bool, directory: str | None, as_json: bool) -> None:
    """List what lies in scratch: imported files, results without a name, leftovers."""
    place = Path(directory) if directory else scratch.default_directory()
    if clear:
        number, nbytes = scratch.clear(place)
        if as_json:
            _print_json({"directory": str(place), "deleted": number, "bytes": nbytes})
        else:
            click.echo(f"Deleted {number} entries, {_core.format_bytes(nbytes)}.")
        return
    found = scratch.entries(place)
    if as_json:
        rows = [{"path": str(e.path), "kind": e.kind, "bytes": e.nbytes, "source": e.source} for e in found]
        _print_json({"directory": str(place), "entries": rows})
        return
    total = _core.format_bytes(sum(entry.nbytes for entry in found))
    click.echo(f"{place}: {len(found)} entries, {total}")
    for entry in found:
        click.echo(f"  {entry.kind:<12} {_core.format_bytes(entry.nbytes):>10}  {entry.source}")


# calibrate --------------------------------------------------------------------------------------------------


@cli.command("calibrate")
@click.argument("path", required=False)
@click.option("--show", is_flag=True, help="Measure nothing; print what is kept for that disk.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def calibrate_command(path: str | None, show: bool, as_json: bool) -> None:
    """Measure the disk that holds PATH (default: scratch) and the processors, for the seconds of plans."""
    quiet = as_json or not sys.stderr.isatty()
    profile = gauge.calibrate(
        path, show=show, progress=None if quiet else lambda what: click.echo(f"  {what} ...", err=True)
    )
    _print_json(profile.as_dict()) if as_json else click.echo(str(profile))


# demo -------------------------------------------------------------------------------------------------------


@cli.group(invoke_without_command=True)
@click.option("--memory", type=_Size(), help="The limit. [default: 512MiB]")
@click.option(
    "--output", default="flagstone-demo", show_default=True, help="Directory for matrix and results."
)
@click.option("--keep", is_flag=True, help="Keep the matrix.")
@click.pass_context
def demo(context: click.Context, memory: int | None, output: str, keep: bool) -> None:
    """PCA of a matrix five times larger than the memory limit, beside scikit-learn under the same cap."""
    context.obj = memory, output
    if context.invoked_subcommand is None:
        from .demo import run_cells

        run_cells(memory or 512 << 20, output, keep)


@demo.command("pca")
@click.option("--input", "source", required=True, help="Your matrix: Zarr, .npy or SciPy .npz.")
@click.option("-k", "--components", "k", type=int, default=50, show_default=True)
@click.option("--memory", type=_Size(), help="The limit. [default: 512MiB]")
@click.option("--output", help="Directory for the results. [default: flagstone-demo]")
@click.pass_context
def demo_pca(context: click.Context, source: str, k: int, memory: int | None, output: str | None) -> None:
    """Do the same with your own file."""
    from .demo import run_file

    given_memory, given_output = context.obj
    run_file(source, k, memory or given_memory or 512 << 20, output or given_output)


def main() -> None:
    """Run the command line; exit with 0, 1 (failed), 2 (not understood) or 130 (interrupted)."""
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("flagstone: interrupted; nothing half-written is left.", err=True)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (errors.Error, OSError, MemoryError, ValueError, TypeError) as error:
        if os.environ.get("FLAGSTONE_TRACEBACK"):
            raise
        click.echo(f"flagstone: {error}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
