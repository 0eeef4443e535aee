"""Topics as a person reads them aloud: a row for each, and what tells of all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import ShapeError
from .._topics.result import TopicsResult

__all__ = ["numbers", "table"]

_WORDS = 10  # of a topic
_MOST_SHOWN = 40  # topics


def numbers(found: TopicsResult, counts: Any, held: Any, words: list[str] | None) -> dict[str, Any]:
    """Return what json can hold of topics, the largest first; `held`: documents for perplexity, or None."""
    tops: NDArray[np.int64] = found.top_words(number=_WORDS)
    npmi = found.coherence(counts, number=_WORDS)
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
        "diversity": found.diversity(_WORDS),
        "without_catchwords": int(len(tops) - len(np.unique(caught[caught >= 0]))),
        "likelihood": found.likelihood.tolist(),
    }
    if held is not None:
        try:
            told["perplexity"] = found.perplexity(held)
        except ShapeError:  # after a long job no reason to lose what it found
            told["perplexity"] = None
    return told


def table(told: dict[str, Any]) -> str:
    """Return a row for each topic, catchwords marked, and what tells of all of them."""
    lines = [f"{'topic':>6} {'share':>7} {'NPMI':>6}  words (* catchwords)"]
    for one in told["topics"][:_MOST_SHOWN]:
        words = " ".join(word["word"] + "*" * word["catchword"] for word in one["words"])
        lines.append(f"{one['topic']:>6} {one['share']:>7.1%} {one['npmi']:>6.2f}  {words}")
    if len(told["topics"]) > _MOST_SHOWN:
        lines.append(f"{'...':>6} {len(told['topics']) - _MOST_SHOWN} more")
    bare = told["without_catchwords"]
    if (perplexity := told.get("perplexity", 0)) is None:
        lines.append("no document that was held out has two words: perplexity is not known")
    elif perplexity:
        lines.append(f"perplexity of held-out documents {perplexity:,.0f}")
    lines.append(
        f"coherence (NPMI) {told['npmi']:.3f}, diversity {told['diversity']:.2f}, "
        f"{bare} topic{'s' * (bare != 1)} without catchwords"
    )
    return "\n".join(lines)
