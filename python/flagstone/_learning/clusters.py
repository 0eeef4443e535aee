"""Commands of points: kmeans, knn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from .._array.array import Array
from .._cluster.kmeans import kmeans as run_kmeans
from .._cluster.knn import knn as run_knn
from .._cluster.radius import radius_neighbors
from .._cluster.result import KMeansResult, KnnResult
from .._commands.options import (
    bar,
    command_runtime,
    common_options,
    open_operand,
    places_given,
    print_json,
)
from .._commands.routines import check_new
from .._runtime.plan import Plan, comparison
from .._runtime.runtime import stats
from .._sparse.array import SparseArray

_MOST_SHOWN = 12  # clusters, neighbours
_SAMPLE = 4096  # rows whose distances are looked at
_BLOCK = 4 << 20  # bytes of centers that are in memory at a time


@click.command()
@click.argument("x", metavar="X")
@click.option("-k", "k", type=int, help="Clusters; not needed with centers as --init.")
@click.option("-o", "--out", help="Zarr group for labels, centers and counts.")
@click.option("--key", help="Member of a group or a file.")
@click.option(
    "--init", default="k-means||", show_default=True,
    help="k-means||, k-means++, random, or a file of centers.",
)  # fmt: skip
@click.option("--iterations", type=int, default=300, show_default=True, help="At most so many.")
@click.option(
    "--tol", type=float, default=1e-4, show_default=True, help="Of moves, relative to the variance."
)
@click.option("--metric", type=click.Choice(["euclidean", "cosine"]), default="euclidean", show_default=True)
@click.option(
    "--where",
    "places",
    multiple=True,
    metavar="centers=PLACE",
    help="Where centers lie while they move, and in OUT: memory or disk.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def kmeans(
    x: str, k: int | None, out: str | None, key: str | None, init: str, places: tuple[str, ...],
    overwrite: bool, memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """K-means of points X (whatever opens), one a row."""
    if out is not None:
        check_new("kmeans", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        points = open_operand(x, key, as_json)
        seeds: Any = init
        where = places_given("kmeans", places)
        if init not in ("k-means||", "k-means++", "random") and Path(init).exists():
            seeds = open_operand(init, None, as_json)
            seeds = seeds if where.get("centers") == "disk" else np.asarray(seeds)
        given = options | {"init": seeds, "out": out, "where": where}
        plan = run_kmeans.plan(points, k, **given)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "kmeans", plan, as_json):
            found = run_kmeans(points, k, **given)
        done = stats()
        if as_json:
            told = {"inertia": found.inertia, "iterations": found.iterations, "converged": found.converged,
                    "counts": found.counts.tolist()}  # fmt: skip
            print_json({"out": out, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(f"{done.what}\n{comparison(plan, done)}\n{_clusters(found)}")
        if out is not None:
            click.echo(f"Wrote {out} (from {Path(x).name}).")


def _clusters(found: KMeansResult) -> str:
    """Return sizes of clusters and how far each center is from the next one."""
    counts, centers = found.counts, found.centers
    rows = counts.sum()
    how = "converged" if found.converged else "stopped"
    lines = [
        f"{how} after {found.iterations} iterations; inertia {found.inertia:.6g}, "
        f"{found.inertia / max(rows, 1):.6g} a point",
        f"{len(counts)} clusters of {counts.min():,} to {counts.max():,} points, "
        f"median {np.median(counts):,.0f}",
        f"{'cluster':>8} {'points':>12} {'share':>7} {'nearest center':>15}",
    ]
    order = np.argsort(-counts, kind="stable")
    shown = order[:_MOST_SHOWN]
    for j, near in zip(shown, _nearest(centers, shown), strict=True):
        lines.append(f"{j:>8} {counts[j]:>12,} {counts[j] / rows:>7.1%} {near:>15}")
    if len(counts) > _MOST_SHOWN:
        rest = counts[order[_MOST_SHOWN:]]
        lines.append(f"{'...':>8} {rest.sum():>12,} {rest.sum() / rows:>7.1%}  in {len(rest)} more")
    return "\n".join(lines)


def _nearest(centers: Any, shown: Any) -> list[str]:
    """Return the centers that are next to these; those on disk are read once, some rows at a time."""
    k, d = centers.shape
    if k == 1:
        return ["-"]
    own, step = [np.asarray(centers[int(j)]) for j in shown], max(1, _BLOCK // (8 * d))
    away = np.empty((len(own), k))
    for at in range(0, k, step):
        part = np.asarray(centers[at : at + step])
        for i, row in enumerate(own):
            away[i, at : at + step] = np.sqrt(((part - row) ** 2).sum(axis=1))
    away[np.arange(len(own)), shown] = np.inf
    return [f"{int(row.argmin())} at {row.min():.4g}" for row in away]


@click.command()
@click.argument("q", metavar="Q")
@click.argument("x", metavar="[X]", required=False)
@click.option("-k", "k", type=int, default=10, show_default=True, help="Neighbours.")
@click.option("--radius", type=float, help="All neighbours within it instead of the nearest, as a matrix.")
@click.option("-o", "--out", help="Zarr group for distances and indices.")
@click.option("--key", help="Member of a group or a file.")
@click.option(
    "--metric", type=click.Choice(["euclidean", "cosine", "inner"]), default="euclidean", show_default=True
)
@click.option("--exclude-self", is_flag=True, help="Without X: a row is not its own neighbour.")
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def knn(
    q: str, x: str | None, k: int, radius: float | None, out: str | None, key: str | None, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Exact nearest points in X of each row of Q, or all within a radius; without X, in Q itself."""
    if out is not None:
        check_new("knn", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        queries = open_operand(q, key, as_json)
        points = None if x is None else open_operand(x, key, as_json)
        given = options | {"out": out}
        function: Any = run_knn if radius is None else radius_neighbors
        asked: Any = k if radius is None else radius
        plan = function.plan(queries, points, asked, **given)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "knn", plan, as_json):
            found = function(queries, points, asked, **given)
        done = stats()
        if radius is not None:
            _tell_radius(found, out, plan, as_json)
            return
        rows, table = _neighbours(found)
        if as_json:
            told = {"rows_looked_at": rows, "median_distance": [float(one) for one in table[1]]}
            print_json({"out": out, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(f"{done.what}\n{comparison(plan, done)}\ndistances of {rows:,} rows spread over Q:")
        click.echo(f"{'neighbour':>10} {'10 %':>11} {'median':>11} {'90 %':>11}")
        for j in range(min(k, _MOST_SHOWN)):
            click.echo(f"{j + 1:>10} " + " ".join(f"{part[j]:>11.4g}" for part in table))
        if out is not None:
            click.echo(f"Wrote {out} (from {Path(q).name}).")


def _stretches(m: int) -> list[tuple[int, int]]:
    """Return some stretches of rows, spread over all: where each begins, and its rows."""
    pieces = 8
    length = min(m, _SAMPLE) // pieces or 1
    return [(start, length) for start in sorted({min(i * m // pieces, m - length) for i in range(pieces)})]


def _neighbours(found: KnnResult) -> tuple[int, Any]:
    """Return quantiles of the distance of each neighbour over some stretches of rows."""
    m = found.distances.shape[0]
    looked = np.concatenate([np.asarray(found.distances[s : s + c]) for s, c in _stretches(m)])
    return len(looked), np.quantile(looked, [0.1, 0.5, 0.9], axis=0)


def _tell_radius(found: SparseArray, out: str | None, plan: Plan, as_json: bool) -> None:
    """Print how many neighbours the rows have, by the pointers of some stretches of them."""
    m, n = found.shape
    done, stored = stats(), found.stored_values
    pointers = Array(found.operand().matrix.indptr)
    counts = np.concatenate([np.diff(np.asarray(pointers[s : s + c + 1])) for s, c in _stretches(m)])
    quantiles = np.quantile(counts, [0, 0.1, 0.5, 0.9, 1])
    if as_json:
        told = {"neighbours": stored, "rows_looked_at": len(counts), "median_neighbours": float(quantiles[2])}
        print_json({"out": out, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
        return
    click.echo(f"{done.what}\n{comparison(plan, done)}")
    click.echo(f"{stored:,} neighbours: {stored / m:,.1f} a row, {stored / m / n:.3%} of all pairs")
    click.echo(f"of {len(counts):,} rows spread over Q:")
    click.echo(" ".join(f"{name:>11}" for name in ("fewest", "10 %", "median", "90 %", "most")))
    click.echo(" ".join(f"{count:>11,.0f}" for count in quantiles))
    if out is not None:
        click.echo(f"Wrote {out}.")
