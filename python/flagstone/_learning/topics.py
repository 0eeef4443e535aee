"""The command of documents: topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from .._commands.options import bar, command_runtime, common_options, open_operand, print_json
from .._commands.routines import check_new
from .._runtime.plan import comparison
from .._runtime.runtime import stats
from .._topics.result import TopicsResult
from .._topics.topics import topics as run_topics
from .documents import read_words

_WORDS = 10  # of a topic
_MOST_SHOWN = 40  # topics


@click.command()
@click.argument("x", metavar="X")
@click.option("-k", "k", type=int, required=True, help="Topics.")
@click.option("-o", "--out", help="Zarr group for topics, clusters and what each step found.")
@click.option("--key", help="Member of a group or a file.")
@click.option("--vocab", help="Words, one a line, or a JSON list. [default: their numbers]")
@click.option("--held", help="Other documents, for perplexity; default: none.")
@click.option("--passes", type=int, default=5, show_default=True, help="Of EM; 0: ISLE alone.")
@click.option("--sample", type=float, help="Share of the documents that steps 2 to 4 see.")
@click.option("--eps3", type=float, default=1.0, show_default=True, help="Of documents that make a topic.")
@click.option(
    "--cluster-documents", is_flag=True, help="A topic takes its cluster's documents, as published."
)
@click.option("--edge-topics", type=int, default=0, show_default=True, help="Mixtures of two topics.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace OUT, at once and whole.")
@common_options
def topics(
    x: str, k: int, out: str | None, key: str | None, vocab: str | None, held: str | None, overwrite: bool,
    memory: int | None, scratch_directory: str | None, only_plan: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Topics of documents X (a sparse matrix of counts, documents x words)."""
    if out is not None:
        check_new("topics", out, overwrite or only_plan)
    with command_runtime(memory, scratch_directory, as_json) as runtime:
        counts = open_operand(x, key, as_json)
        others = None if held is None else open_operand(held, key, as_json)
        words = None if vocab is None else read_words("topics", vocab, counts.shape[1])
        given = options | {"out": out}
        plan = run_topics.plan(counts, k, **given)
        if only_plan:
            print_json(plan.as_dict()) if as_json else click.echo(str(plan))
            return
        if not as_json:
            click.echo(str(plan))
        with bar(runtime, "topics", plan, as_json):
            found = run_topics(counts, k, **given)
        done = stats()
        told = _told(found, counts, others, words)
        if as_json:
            print_json({"out": out, **told, "plan": plan.as_dict(), "stats": done.as_dict()})
            return
        click.echo(f"{done.what}\n{comparison(plan, done)}\n{_table(told)}")
        if out is not None:
            click.echo(f"Wrote {out} (from {Path(x).name}).")


def _told(found: TopicsResult, counts: Any, others: Any, words: list[str] | None) -> dict[str, Any]:
    """Return what was found, largest topics first."""
    tops: NDArray[np.int64] = found.top_words(number=_WORDS)
    npmi = found.coherence(counts)
    caught = found.catchwords
    topics = []
    for t in np.argsort(-found.shares, kind="stable").tolist():
        shown = [
            {"word": str(w) if words is None else words[w], "catchword": bool(caught[w] == t)}
            for w in tops[t].tolist()
        ]
        topics.append({"topic": t, "share": float(found.shares[t]), "npmi": float(npmi[t]), "words": shown})
    told: dict[str, Any] = {
        "topics": topics,
        "npmi": float(npmi.mean()),
        "diversity": found.diversity(),
        "without_catchwords": int(len(tops) - len(np.unique(caught[caught >= 0]))),
        "likelihood": found.likelihood.tolist(),
    }
    if others is not None:
        told["perplexity"] = found.perplexity(others)
    return json.loads(json.dumps(told))  # type: ignore[no-any-return]


def _table(told: dict[str, Any]) -> str:
    """Return a row for each topic, catchwords marked, and what tells of all of them."""
    lines = [f"{'topic':>6} {'share':>7} {'NPMI':>6}  words (* catchwords)"]
    for one in told["topics"][:_MOST_SHOWN]:
        words = " ".join(word["word"] + "*" * word["catchword"] for word in one["words"])
        lines.append(f"{one['topic']:>6} {one['share']:>7.1%} {one['npmi']:>6.2f}  {words}")
    if len(told["topics"]) > _MOST_SHOWN:
        lines.append(f"{'...':>6} {len(told['topics']) - _MOST_SHOWN} more")
    below = f"NPMI {told['npmi']:.3f}, diversity {told['diversity']:.2f}"
    below += f", {told['without_catchwords']} topics without catchwords"
    if "perplexity" in told:
        below += f", perplexity of the held-out documents {told['perplexity']:,.0f}"
    return "\n".join([*lines, below])
