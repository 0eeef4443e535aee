"""The command of documents: topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .._array.array import shape_text
from .._commands.options import (
    bar,
    command_runtime,
    common_options,
    open_operand,
    places_given,
    print_json,
)
from .._commands.routines import check_new
from .._errors.classes import ShapeError
from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .._sparse.array import SparseArray
from .._terminal.topic_map import write_topics
from .._terminal.topic_table import numbers, table
from .._topics.held import hold_out
from .._topics.topics import topics as run_topics
from .documents import read_words


@click.command()
@click.argument("x", metavar="X")
@click.option("-k", "k", type=int, required=True, help="Topics.")
@click.option("-o", "--out", help="Zarr group for topics, clusters and what each step found.")
@click.option("--key", help="Member of a group or a file.")
@click.option("--vocab", help="Words, one a line, or a JSON list. [default: their numbers]")
@click.option(
    "--hold-out",
    "share",
    type=float,
    default=0.05,
    show_default=True,
    help="Share of the documents, for perplexity: no topic sees them, their cluster is -1.",
)
@click.option("--held", help="Other documents for perplexity, and none held out.")
@click.option("--passes", type=int, default=5, show_default=True, help="Of EM; 0: ISLE alone.")
@click.option("--sample", type=float, help="Share of the documents that steps 2 to 4 see.")
@click.option("--eps3", type=float, default=1.0, show_default=True, help="Of documents that make a topic.")
@click.option(
    "--cluster-documents", is_flag=True, help="A topic takes its cluster's documents, as published."
)
@click.option(
    "--solver",
    type=click.Choice(["auto", "gram", "krylov", "krylov-schur"]),
    default="auto",
    show_default=True,
    help="Of the leading subspace.",
)
@click.option(
    "--where",
    "places",
    multiple=True,
    metavar="OPERAND=PLACE",
    help="Where a step's operand lies: thresholded, basis, projection, centers or buckets; memory, disk or "
    "auto. May be given several times.",
)
@click.option("--edge-topics", type=int, default=0, show_default=True, help="Mixtures of two topics.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def topics(
    x: str, k: int, out: str | None, key: str | None, vocab: str | None, held: str | None,
    share: float, places: tuple[str, ...], overwrite: bool, memory: int | None,
    scratch_directory: str | None, only_plan: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Topics of documents X (a sparse matrix of counts, documents x words)."""
    if out is not None:
        check_new("topics", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        counts = open_operand(x, key, as_json)
        seen, others = counts, None if held is None else open_operand(held, key, as_json)
        if others is not None and tuple(others.shape[1:]) != tuple(counts.shape[1:]):
            raise ShapeError(
                f"topics: '{held}' is {shape_text(others.shape)} and X {shape_text(counts.shape)}; "
                "documents of the same words are needed."
            )
        if held is None and isinstance(counts, SparseArray):
            seen, others = hold_out("topics", counts, share, options["seed"])
        words = None if vocab is None else read_words("topics", vocab, counts.shape[1])
        given = options | {"out": out, "where": places_given("topics", places)}
        plan = run_topics.plan(seen, k, **given)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "topics", plan, as_json):
            found = run_topics(seen, k, **given)
        done = stats()
        told = numbers(found, counts, others, words)
        wrote: tuple[str, ...] = ()
        if out is not None:
            title = f"{Path(x).name}: {k} topics of {counts.shape[0]:,} documents"
            wrote = write_topics(out, found, told, title)
        if as_json:
            print_json({"out": out, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(f"{done.what}\n{table(told)}\n{comparison(plan, done)}")
        if out is not None:
            click.echo(f"Wrote {out}, {' and '.join(wrote)}.")
