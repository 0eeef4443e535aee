"""The small report of a principal component analysis: one picture, one JSON file, beside the output."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._decomposition.result import PcaResult
from .._runtime.plan import Plan, Stats

__all__ = ["numbers", "sample_rows", "write"]

_POINTS = 20_000


def sample_rows(scores: Array, count: int = _POINTS) -> NDArray[np.int64]:
    """Return up to `count` row numbers, evenly spread."""
    step = max(1, -(-scores.shape[0] // count))
    return np.arange(0, scores.shape[0], step)


def numbers(result: PcaResult, stats: Stats, plan: Plan | None = None) -> dict[str, Any]:
    """Return what json can hold of a result."""
    return {
        "singular_values": result.singular_values.tolist(),
        "explained_variance": result.explained_variance.tolist(),
        "explained_variance_ratio": result.explained_variance_ratio.tolist(),
        "residual": result.residual.tolist(),
        "rows": result.scores.shape[0],
        "columns": result.components.shape[1],
        "stats": stats.as_dict(),
        "plan": plan.as_dict() if plan is not None else None,
    }


def write(
    out: str | os.PathLike[str],
    result: PcaResult,
    facts: dict[str, Any],
    labels: NDArray[Any] | None = None,
    title: str = "",
) -> tuple[str, str]:
    """Write `<out>-report.png` (scree plot, first two scores) and `<out>-report.json`; return their paths.

    `labels`, one per row of the scores, colours the points.
    """
    base = os.fspath(out).rstrip("/").removesuffix(".zarr") + "-report"
    with open(f"{base}.json", "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")
    _draw(f"{base}.png", result, labels, title)
    return f"{base}.png", f"{base}.json"


def _draw(path: str, result: PcaResult, labels: NDArray[Any] | None, title: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    scree, scatter = figure.subplots(1, 2, width_ratios=(1, 1.15))
    if title:
        figure.suptitle(title, fontsize=11)
    _scree(scree, result.explained_variance_ratio)
    rows = sample_rows(result.scores)
    step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    _scores(scatter, result, result.scores[::step, :2], None if labels is None else labels[rows], step)
    figure.savefig(path)


def variance_text(ratio: NDArray[Any]) -> str:
    """Return "50 components, 12.3 % of the variance"."""
    plural = "" if len(ratio) == 1 else "s"
    return f"{len(ratio)} component{plural}, {100 * ratio.sum():.1f} % of the variance"


def _scree(axes: Any, ratio: NDArray[Any]) -> None:
    order = np.arange(1, len(ratio) + 1)
    axes.bar(order, 100 * ratio, color="#4c78a8", width=0.8)
    axes.set(
        xlabel="component",
        ylabel="variance explained, %",
        title=f"Scree plot: {variance_text(ratio)}",
        xlim=(0.3, len(ratio) + 0.7),
    )
    axes.locator_params(axis="x", integer=True)
    axes.spines[["top", "right"]].set_visible(False)


def _scores(
    axes: Any, result: PcaResult, points: NDArray[Any], labels: NDArray[Any] | None, step: int
) -> None:
    ratio = 100 * result.explained_variance_ratio
    first, second = points[:, 0], points[:, 1] if points.shape[1] > 1 else np.zeros(len(points))
    size = 4 if len(points) > 2000 else 12
    look: dict[str, Any] = {"s": size, "linewidths": 0, "alpha": 0.6, "rasterized": True}
    if labels is None:
        axes.scatter(first, second, color="#4c78a8", **look)
    else:
        axes.scatter(first, second, c=labels, cmap="tab20", **look)
    axes.set_xlabel(f"component 1 ({ratio[0]:.1f} %)")
    axes.set_ylabel(f"component 2 ({ratio[1]:.1f} %)" if len(ratio) > 1 else "nothing: k is 1")
    every = "" if step == 1 else f", one row in {step}"
    colour = "" if labels is None else ", coloured by planted type"
    which = "First two scores" if len(ratio) > 1 else "First score"
    axes.set_title(f"{which}{every}{colour}")
    axes.spines[["top", "right"]].set_visible(False)
