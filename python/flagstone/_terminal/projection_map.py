"""The report of projections: which groups H couples, energies by J, where the time went."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._runtime.plan import Stats
from .._subspace.stored import ProjectedMatrix

__all__ = ["Projected", "block_pattern", "write_report"]

_PIXELS = 480
_COLOURS = {
    "make": "#4c78a8", "multiply": "#72b7b2", "read": "#f58518", "write": "#e45756", "wait": "#bab0ac",
}  # fmt: skip


class Projected(NamedTuple):
    """One J: what was asked, what was found, what it took."""

    J: str
    H: ProjectedMatrix
    energies: list[float]
    done: Stats


def block_pattern(H: ProjectedMatrix) -> NDArray[np.float64]:
    """Return the share of each cell of a grid over H' that its blocks fill; reads the list of blocks."""
    n = H.shape[0]
    size = min(_PIXELS, max(n, 1))
    first = np.concatenate([[0], np.cumsum(H.columns)]) * size / max(n, 1)
    low = np.minimum(first[:-1].astype(int), size - 1)
    high = np.clip(np.ceil(first[1:]).astype(int), low + 1, size)
    grid = np.zeros((size, size))
    for at in range(0, H.blocks.shape[0], 1 << 20):
        i, j = np.asarray(H.blocks[at : at + (1 << 20)]).T
        filled = (first[i + 1] - first[i]) * (first[j + 1] - first[j])
        large = (high[i] - low[i] > 1) | (high[j] - low[j] > 1)
        np.add.at(grid, (low[i[~large]], low[j[~large]]), filled[~large])
        for g, h in zip(i[large], j[large], strict=True):
            grid[low[g] : high[g], low[h] : high[h]] = 1
    np.minimum(np.maximum(grid, grid.T), 1, out=grid)
    return grid


def write_report(base: str, title: str, found: Sequence[Projected], facts: dict[str, Any]) -> tuple[str, str]:
    """Write `<base>-report.png` and `<base>-report.json`; return their paths."""
    picture, written = f"{base}-report.png", f"{base}-report.json"
    with open(written, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")
    _draw(picture, title, found)
    return picture, written


def _draw(path: str, title: str, found: Sequence[Projected]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    pattern, spectrum, time = figure.subplots(1, 3, width_ratios=(1, 0.9, 0.9))
    figure.suptitle(title, fontsize=11)
    _pattern(pattern, found[0])
    _spectrum(spectrum, found)
    _components(time, found)
    figure.savefig(path)


def _pattern(axes: Any, one: Projected) -> None:
    n = one.H.shape[0]
    axes.imshow(np.log1p(block_pattern(one.H)), cmap="Blues", interpolation="nearest", extent=(0, n, n, 0))
    share = one.H.nnz / max(n * n, 1)
    axes.set(
        title=f"H', J = {one.J}: {len(one.H.columns):,} groups, {100 * share:.2g} % of its elements",
        xticks=[], yticks=[],
    )  # fmt: skip


def _spectrum(axes: Any, found: Sequence[Projected]) -> None:
    for place, one in enumerate(found):
        axes.hlines(one.energies, place - 0.35, place + 0.35, color="#4c78a8", linewidth=1.2)
    axes.set(title="Lowest eigenvalues", xlabel="J", ylabel="energy", xlim=(-0.6, len(found) - 0.4))
    axes.set_xticks(range(len(found)), [one.J for one in found])
    axes.spines[["top", "right"]].set_visible(False)


def _components(axes: Any, found: Sequence[Projected]) -> None:
    left = np.zeros(len(found))
    for name, colour in _COLOURS.items():
        seconds = np.array([one.done.components.get(name, 0.0) for one in found])
        axes.barh(range(len(found)), seconds, left=left, color=colour, label=name)
        left += seconds
    axes.set(title="Seconds of workers and disk", xlabel="s")
    axes.set_yticks(range(len(found)), [f"J = {one.J}" for one in found])
    axes.invert_yaxis()
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
