"""The demonstration: ``flagstone demo``."""

from __future__ import annotations

import click

from .._commands.options import Size


@click.group(invoke_without_command=True)
@click.option("--memory", type=Size(), help="The limit. [default: 512MiB]")
@click.option(
    "--output", default="flagstone-demo", show_default=True, help="Directory for matrix and results."
)
@click.option("--keep", is_flag=True, help="Keep the matrix.")
@click.pass_context
def demo(context: click.Context, memory: int | None, output: str, keep: bool) -> None:
    """PCA of a matrix five times larger than the memory limit, beside scikit-learn under the same cap."""
    context.obj = memory, output
    if context.invoked_subcommand is None:
        from .._demo.demo import run_cells

        run_cells(memory or 512 << 20, output, keep)


@demo.command("pca")
@click.option("--input", "source", required=True, help="Your matrix: Zarr, .npy or SciPy .npz.")
@click.option("-k", "--components", "k", type=int, default=50, show_default=True)
@click.option("--memory", type=Size(), help="The limit. [default: 512MiB]")
@click.option("--output", help="Directory for the results. [default: flagstone-demo]")
@click.pass_context
def demo_pca(context: click.Context, source: str, k: int, memory: int | None, output: str | None) -> None:
    """Do the same with your own file."""
    from .._demo.demo import run_file

    given_memory, given_output = context.obj
    run_file(source, k, memory or given_memory or 512 << 20, output or given_output)


@demo.command("gp")
@click.option("--points", type=int, default=20_000, show_default=True, help="Soundings.")
@click.option("--memory", type=Size(), help="The limit. [default: a fifth of K]")
@click.option("--output", help="Directory for the results. [default: flagstone-demo]")
@click.pass_context
def demo_gp(context: click.Context, points: int, memory: int | None, output: str | None) -> None:
    """Exact Gaussian process of soundings of a known surface, K five times the memory limit."""
    from .._demo.soundings import run_soundings

    given_memory, given_output = context.obj
    run_soundings(memory or given_memory, output or given_output, points)


@demo.command("graph")
@click.option("--input", "source", help="Your list of edges: text, .gz or .npy.")
@click.option("--edges", type=int, default=20_000_000, show_default=True, help="Of the planted graph.")
@click.option("-k", "k", type=int, default=16, show_default=True, help="Vectors of your own graph.")
@click.option("--memory", type=Size(), help="The limit. [default: 256MiB]")
@click.option("--output", help="Directory for the results. [default: flagstone-demo]")
@click.option("--keep", is_flag=True, help="Keep the text.")
@click.pass_context
def demo_graph(
    context: click.Context, source: str | None, edges: int, k: int, memory: int | None, output: str | None,
    keep: bool,
) -> None:  # fmt: skip
    """Map a graph with planted communities from its edges as text, beside SciPy under the same cap."""
    from .._demo.graph import run_edges, run_graph

    given_memory, given_output = context.obj
    limit, folder = memory or given_memory or 256 << 20, output or given_output
    if source is not None:
        run_edges(source, k, limit, folder)
    else:
        run_graph(limit, folder, edges, keep)


@demo.command("topics")
@click.option("--documents", type=click.IntRange(1000), help="How many. [default: five times the limit]")
@click.option("--memory", type=Size(), help="The limit. [default: 160MiB]")
@click.option("--output", help="Directory for the results. [default: flagstone-demo]")
@click.option("--keep", is_flag=True, help="Keep the documents.")
@click.pass_context
def demo_topics(
    context: click.Context, documents: int | None, memory: int | None, output: str | None, keep: bool
) -> None:
    """Topics of documents five times larger than the limit, beside scikit-learn's LDA under the same cap."""
    from .._demo.documents import run_documents

    given_memory, given_output = context.obj
    run_documents(memory or given_memory or 160 << 20, output or given_output, documents, keep)


@demo.command("wave")
@click.option("--steps", type=click.IntRange(min=1), help="How many. [default: 45 s, by the plan]")
@click.option("--memory", type=Size(), help="The limit. [default: 512MiB]")
@click.option("--output", help="Directory for model and pictures. [default: flagstone-demo]")
@click.option("--keep", is_flag=True, help="Keep the model and the last states.")
@click.pass_context
def demo_wave(
    context: click.Context, steps: int | None, memory: int | None, output: str | None, keep: bool
) -> None:
    """Send a wave through a model five times the memory limit, beside plain sweeps under the same cap."""
    from .._demo.wave import run_wave

    given_memory, given_output = context.obj
    run_wave(memory or given_memory or 512 << 20, output or given_output, steps, keep)
