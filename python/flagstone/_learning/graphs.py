"""Commands of graphs: embed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from .. import _core
from .._commands.options import bar, command_runtime, common_options, print_json
from .._commands.routines import check_new
from .._edges.edges import open_graph
from .._graph.embedding import spectral_embedding
from .._graph.result import EmbeddingResult
from .._runtime.plan import Plan, Stats, comparison, format_seconds
from .._runtime.runtime import stats
from .._sparse.array import SparseArray

_MOST_SHOWN = 12  # clusters


@click.command()
@click.argument("edges", metavar="EDGES")
@click.option("-k", "k", type=int, default=32, show_default=True, help="How many vectors.")
@click.option("-o", "--out", required=True, help="Zarr group for vectors, values, ids and clusters.")
@click.option("--clusters", type=int, help="How many, at most k. [default: k]")
@click.option("--weighted", is_flag=True, help="The third column weighs edges; those there twice are summed.")
@click.option("--tol", type=float, default=1e-4, show_default=True, help="Of residuals, relative.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def embed(
    edges: str, k: int, out: str, clusters: int | None, weighted: bool, tol: float, seed: int,
    overwrite: bool, memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
) -> None:  # fmt: skip
    """Map a list of EDGES (text, .gz, .npy): leading eigenvectors of D^-½ A D^-½, clusters, a picture.

    Edges are undirected, ids any whole numbers; self-loops are dropped and the largest component is taken.
    """
    check_new("embed", out, overwrite or only_plan)
    options: dict[str, Any] = {"clusters": clusters, "tol": tol, "seed": seed, "out": out}
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        with bar(runtime, "edges", None, as_json):
            matrix = open_graph(edges, weighted)
        imported = stats()
        if not as_json:
            click.echo(graph_text(edges, matrix, imported))
        plan = spectral_embedding.plan(matrix, k, **options)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "embed", plan, as_json):
            found = spectral_embedding(matrix, k, **options)
        done = stats()
        from .._terminal.graph_map import write_map

        picture = write_map(out, matrix, found, f"{Path(edges).name}: {found.told}", "embed")
    told = facts(found)
    if as_json:
        print_json({"out": out, "picture": picture, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
        return
    _show(found, told, plan, done)
    click.echo(f"Wrote {out} and {picture}.")


def graph_text(path: str, matrix: SparseArray, imported: Stats) -> str:
    """Return what was imported, in a line."""
    return (
        f"{Path(path).name}: {matrix.shape[0]:,} vertices, {matrix.stored_values:,} stored values, "
        f"{_core.format_bytes(matrix.stored_bytes)} in scratch; the last sort took "
        f"{format_seconds(imported.seconds)}."
    )


def facts(found: EmbeddingResult) -> dict[str, Any]:
    """Return what JSON tells of a map."""
    return {
        "values": found.w.tolist(), "residual": found.residual.tolist(),
        "sizes": np.bincount(found.clusters).tolist(), "vertices": len(found.vertices),
        "components": found.components, "isolated": found.isolated, "left_out": found.left_out,
        "applications": found.applications, "passes": found.passes, "verified": found.verified,
    }  # fmt: skip


def _show(found: EmbeddingResult, told: dict[str, Any], plan: Plan, done: Stats) -> None:
    from .._terminal.graph_map import gap_of

    click.echo(comparison(plan, done))
    click.echo(f"  graph         {found.told}")
    shown = ", ".join(f"{value:.6g}" for value in found.w[:5]) + (", ..." if len(found.w) > 5 else "")
    click.echo(f"  values        {shown}")
    if gap := gap_of(found.w):
        click.echo(f"  largest gap   {found.w[gap - 1] - found.w[gap]:.3g}, after {gap}")
    click.echo(f"  residuals     at most {found.residual.max():.1e}")
    sizes = told["sizes"]
    more = f", ... {len(sizes) - _MOST_SHOWN} more" if len(sizes) > _MOST_SHOWN else ""
    click.echo(f"  clusters      {len(sizes)}: {', '.join(f'{n:,}' for n in sizes[:_MOST_SHOWN])}{more}")
