"""Commands that compute: matmul, rechunk, pca, recipe."""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path
from typing import Any

import click

from .._array.array import Array
from .._decomposition.pca import pca as run_pca
from .._decomposition.result import PcaResult
from .._errors.classes import ShapeError
from .._errors.messages import storage_error
from .._formats.hdf5.obsm import check_target, write_obsm
from .._linalg.matmul import matmul as run_matmul
from .._recipes.single_cell import single_cell as run_single_cell
from .._runtime.plan import Plan, Stats, comparison
from .._runtime.runtime import stats
from .._storage.rechunk import rechunk as run_rechunk
from .._storage.rechunk import transpose
from .options import bar, command_runtime, common_options, open_operand, print_json


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("-o", "--out", required=True, help="Where the product goes: a Zarr directory or a .npy file.")
@click.option("--transpose-a", is_flag=True, help="Use the transpose of A.")
@click.option("--transpose-b", is_flag=True, help="Use the transpose of B.")
@click.option("--alpha", type=float, default=1.0, show_default=True)
@click.option("--beta", type=float, default=0.0, show_default=True, help="Adds beta times what OUT holds.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole. [with --beta: always]")
@common_options
def matmul(
    a: str, b: str, out: str, transpose_a: bool, transpose_b: bool, alpha: float, beta: float,
    overwrite: bool, memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write OUT = alpha A B + beta OUT."""
    check_new("matmul", out, overwrite or beta != 0 or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        left, right = _dense(a), _dense(b)
        left, right = left.T if transpose_a else left, right.T if transpose_b else right
        plan = run_matmul.plan(left, right, out=out, alpha=alpha, beta=beta)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "matmul", plan, as_json):
            run_matmul(left, right, out=out, alpha=alpha, beta=beta)
        done = stats()
        if as_json:
            print_json({"out": out, "plan": plan.as_dict(), "stats": done.as_dict()})
        else:
            click.echo(f"{done.what} -> {out}\n{comparison(plan, done)}")


@click.command()
@click.argument("src", metavar="SRC")
@click.argument("dst", metavar="DST")
@click.option("--chunks", help="Of the result, as 2048,2048; -1 for all of a dimension.")
@click.option("--axes", help="Order of the dimensions, as 1,0: the transpose.")
@click.option("--dtype", help="Convert to this type.")
@click.option("--codec", help="Pack the chunks so, as blosc-zstd:3+bitshuffle, or auto. [default: as SRC]")
@click.option(
    "--order",
    type=click.Choice(["C", "F"]),
    help="Of the elements of a chunk. [default: as SRC]",
)
@click.option("--key", help="Member of SRC.")
@click.option("--overwrite", is_flag=True, help="Replace DST, at once and whole.")
@common_options
def rechunk(
    src: str, dst: str, chunks: str | None, axes: str | None, dtype: str | None, codec: str | None,
    order: str | None, key: str | None, overwrite: bool, memory: int | None, scratch_directory: str | None,
    only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write SRC anew as DST: other chunks, dtype, codec, or another order of dimensions."""
    check_new("rechunk", dst, overwrite or only_plan)
    if axes is not None and dtype is not None:
        raise click.UsageError("--dtype and --axes do not go together; take one after the other.")
    pieces = _numbers("--chunks", chunks)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        source = _dense(src, "rechunk", key)
        stored: dict[str, Any] = {"out": dst, "codec": codec, "order": order}
        if axes is None:
            call: Any = functools.partial(run_rechunk, source, pieces, dtype=dtype, **stored)
        else:
            call = functools.partial(transpose, source, _numbers("--axes", axes), chunks=pieces, **stored)
        plan: Plan = call.func.plan(*call.args, **call.keywords)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "rechunk", plan, as_json):
            call()
        done = stats()
        if as_json:
            print_json({"out": dst, "plan": plan.as_dict(), "stats": done.as_dict()})
        else:
            click.echo(f"{done.what} -> {dst}\n{comparison(plan, done)}")


@click.command("transpose")
@click.argument("src", metavar="SRC")
@click.argument("dst", metavar="DST")
@click.option("--key", help="Member of SRC.")
@click.option("--overwrite", is_flag=True, help="Replace DST, at once and whole.")
@common_options
def turn(
    src: str, dst: str, key: str | None, overwrite: bool, memory: int | None, scratch_directory: str | None,
    only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write the transpose of SRC, dense or sparse (by rows), to DST."""
    check_new("transpose", dst, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        source = open_operand(src, key, True)
        plan: Plan = transpose.plan(source, out=dst)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        with bar(runtime, "transpose", plan, as_json):
            transpose(source, out=dst)
        done = stats()
        if as_json:
            print_json({"out": dst, "plan": plan.as_dict(), "stats": done.as_dict()})
        else:
            click.echo(f"{done.what} -> {dst}\n{comparison(plan, done)}")


def check_new(who: str, out: str, replaced: bool) -> None:
    """Refuse to replace what nobody said may be replaced, and a place that cannot be: before any work."""
    parent = os.path.dirname(os.path.abspath(out))
    if not os.path.isdir(parent):
        raise storage_error(
            f"{who}: the directory '{parent}' does not exist; create it first.", errno.ENOENT, out
        )
    if not replaced and os.path.lexists(out):
        raise storage_error(f"{who}: '{out}' exists; add --overwrite to replace it.", errno.EEXIST, out)


def _numbers(option: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r}; whole numbers with commas are needed.", param_hint=option
        ) from None


def _dense(path: str, who: str = "matmul", key: str | None = None) -> Array:
    what = "the command multiplies dense matrices" if who == "matmul" else "flagstone convert writes it anew"
    return dense_operand(open_operand(path, key, True), path, who, what)


def dense_operand(opened: Any, path: str, who: str, what: str) -> Array:
    """Return what was opened where it is dense; else refuse it, and say `what` to do."""
    if not isinstance(opened, Array):
        raise ShapeError(f"{who}: '{path}' is sparse; {what}.")
    return opened


@click.command()
@click.argument("x", metavar="X")
@click.option("-k", "--components", "k", type=int, required=True, help="Number of components.")
@click.option("-o", "--out", help="Zarr group for scores, components and the rest.")
@click.option("--into-obsm", is_flag=True, help="Put the scores into X itself (AnnData), as obsm/X_pca.")
@click.option("--key", help="Member of a group or a file.")
@click.option("--center/--no-center", default=True, show_default=True, help="Subtract column means.")
@click.option("--method", type=click.Choice(["auto", "gram", "krylov"]), default="auto", show_default=True)
@click.option("--tol", type=float, default=1e-5, show_default=True, help="Error of σ relative to σ₁.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def pca(
    x: str, k: int, out: str | None, into_obsm: bool, key: str | None, center: bool,
    method: str, tol: float, seed: int, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Principal components of X (whatever opens), with a report (PNG, JSON) beside OUT."""
    if out is None and not into_obsm:
        raise click.UsageError("Missing option '-o' / '--out' (or --into-obsm).")
    if out is not None:
        check_new("pca", out, overwrite or only_plan)
    options: dict[str, Any] = {"center": center, "method": method, "tol": tol, "seed": seed, "out": out}
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        matrix = open_operand(x, key, as_json)
        if into_obsm:
            check_target(x, "X_pca", matrix.shape[0], True)
        plan = run_pca.plan(matrix, k, **options)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "pca", plan, as_json):
            result = run_pca(matrix, k, **options)
        done = stats()
        if into_obsm:
            write_obsm(x, "X_pca", result.scores)
        if out is not None:
            finish_pca(result, plan, done, out, Path(x).name, as_json)
        elif as_json:
            print_json({"out": f"{x}:obsm/X_pca", "plan": plan.as_dict(), "stats": done.as_dict()})
        else:
            click.echo(f"{comparison(plan, done)}\nWrote obsm/X_pca of {x}.")


@click.group()
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
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def single_cell(
    x: str, k: int, out: str, genes: int, target: float, key: str | None, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Normalise counts, log1p, choose genes by dispersion (seurat), principal components."""
    check_new("recipe single-cell", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        matrix = open_operand(x, key, as_json)
        plan = run_single_cell.plan(matrix, k, genes=genes, target=target, out=out)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "single-cell", plan, as_json):
            found = run_single_cell(matrix, k, genes=genes, target=target, out=out)
        done = stats()
    if not as_json:
        click.echo(f"Chose {len(found.genes):,} of {matrix.shape[1]:,} genes.")
    finish_pca(found.pca, plan, done, out, Path(x).name, as_json)


def finish_pca(result: PcaResult, plan: Plan, done: Stats, out: str, title: str, as_json: bool) -> None:
    """Write the report and print what was found."""
    from .._terminal import report

    facts = report.numbers(result, done, plan)
    picture, written = report.write(out, result, facts, title=title)
    if as_json:
        print_json({"out": out, "picture": picture, "report": written, **facts})
        return
    relative = result.residual.max() / max(result.singular_values[0], 1e-300)
    click.echo(comparison(plan, done))
    shown = ", ".join(f"{value:.4g}" for value in result.singular_values[:5])
    more = ", ..." if len(result.singular_values) > 5 else ""
    click.echo(f"  singular values   {shown}{more}")
    click.echo(f"  explained         {report.variance_text(result.explained_variance_ratio)}")
    click.echo(f"  largest residual  {relative:.1e} of σ₁")
    click.echo(f"Wrote {out}, {picture} and {written}.")
