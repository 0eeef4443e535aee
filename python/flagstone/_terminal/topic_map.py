"""The picture of topics: a map by how far their words are apart, and the largest of them as bars."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._expression.functions import sqrt
from .._linalg.matmul import matmul
from .._topics.result import TopicsResult

__all__ = ["write_topics"]

_MAPPED = 200  # topics, the largest
_BARS = 20
_STEPS = 200  # of stress majorization
_COLOUR = "#4c78a8"


def write_topics(
    out: str | os.PathLike[str], found: TopicsResult, told: dict[str, Any], title: str
) -> tuple[str, str]:
    """Draw `<out>-report.png`, write what was told beside it as JSON, and return both paths.

    `told` is `topic_table.numbers` of the same topics.
    """
    base = os.fspath(out).rstrip("/").removesuffix(".zarr") + "-report"
    with open(f"{base}.json", "w", encoding="utf-8") as file:
        json.dump(told, file, indent=1)
        file.write("\n")
    shown = told["topics"][:_MAPPED]
    _draw(f"{base}.png", placed(hellinger(found, [one["topic"] for one in shown])), shown, title)
    return f"{base}.png", f"{base}.json"


def hellinger(found: TopicsResult, chosen: list[int]) -> NDArray[np.float64]:
    """Return √(1 - Σ √(p q)) of all pairs of some topics: between 0 and 1 (no word in common)."""
    roots = sqrt(found.topics)
    alike = np.asarray(matmul(roots, roots.T), np.float64)[np.ix_(chosen, chosen)]
    away: NDArray[np.float64] = np.sqrt(np.clip(1 - alike, 0, 1))
    np.fill_diagonal(away, 0)
    return away


def placed(away: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places in the plane whose distances are like those given: the least sum of squared differences.

    Classical scaling, then Guttman's transform again and again (SMACOF; de Leeuw 1977).
    """
    n = len(away)
    if n < 3:
        return np.stack([np.arange(n, dtype=float), np.zeros(n)], axis=1)
    centred = away**2 - (away**2).mean(axis=0) - (away**2).mean(axis=1)[:, None] + (away**2).mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    at: NDArray[np.float64] = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 1e-12))
    for _ in range(_STEPS):
        between = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2))
        ratio = np.divide(away, between, out=np.zeros_like(away), where=between > 1e-12)
        at = (ratio.sum(axis=1)[:, None] * at - ratio @ at) / n
    return at


def _draw(path: str, at: NDArray[np.float64], topics: list[dict[str, Any]], title: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 7.5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    spread, bars = figure.subplots(1, 2, width_ratios=(1.35, 1))
    figure.suptitle(title, fontsize=11)
    _map(spread, at, topics)
    _bars(bars, topics[:_BARS])
    figure.savefig(path)


def _map(axes: Any, at: NDArray[np.float64], topics: list[dict[str, Any]]) -> None:
    shares = np.array([one["share"] for one in topics])
    # Discs cover a quarter of the picture together.
    side = max(float(np.ptp(at[:, 0])), float(np.ptp(at[:, 1])), 1e-3) * 1.25
    radii = side * np.sqrt(0.25 * shares / np.pi)
    from matplotlib.patches import Circle

    for (x, y), radius, one in zip(at, radii, topics, strict=True):
        axes.add_patch(Circle((x, y), radius, facecolor=_COLOUR, alpha=0.3, edgecolor=_COLOUR, linewidth=0.8))
        words = "\n".join(word["word"] for word in one["words"][:2])
        axes.text(x, y, words, ha="center", va="center", fontsize=8 if len(topics) <= 60 else 5)
    middle = (at.max(axis=0) + at.min(axis=0)) / 2
    axes.set_xlim(middle[0] - 0.6 * side, middle[0] + 0.6 * side)
    axes.set_ylim(middle[1] - 0.6 * side, middle[1] + 0.6 * side)
    axes.set_aspect("equal")
    which = "Topics" if len(topics) < _MAPPED else f"The {_MAPPED} largest topics"
    axes.set(title=f"{which} by Hellinger distance; area: share of the corpus", xticks=[], yticks=[])


def _bars(axes: Any, topics: list[dict[str, Any]]) -> None:
    order = np.arange(len(topics))
    axes.barh(order, [100 * one["share"] for one in topics], color=_COLOUR, height=0.8, alpha=0.35)
    for place, one in enumerate(topics):
        words = " ".join(word["word"] for word in one["words"][:6])
        axes.text(0, place, f"  {one['topic']}: {words}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set(title=f"The {len(topics)} largest", xlabel="share of the corpus, %", yticks=[])
    axes.spines[["top", "right", "left"]].set_visible(False)
