"""The picture of a graph: its matrix in the order of the file and of the clusters, and its spectrum."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._graph.density import densities, places_of
from .._graph.result import EmbeddingResult
from .._runtime.call import Call
from .._sparse.array import SparseArray

__all__ = ["gap_of", "write_map"]

_COLOUR = "#4c78a8"


def gap_of(w: NDArray[Any]) -> int:
    """Return after how many values the largest step comes; 0 of fewer than three.

    The step after the first, which is 1 in every graph, tells nothing of clusters.
    """
    return int(np.argmax(w[1:-1] - w[2:])) + 2 if len(w) > 2 else 0


def write_map(
    out: str | os.PathLike[str], A: SparseArray, result: EmbeddingResult, title: str, who: str
) -> str:
    """Draw `<out>-map.png` and return its path: one more read of A."""
    path = os.fspath(out).rstrip("/").removesuffix(".zarr") + "-map.png"
    n, m = A.shape[0], len(result.vertices)
    call = Call(who)
    call.room("the order of the vertices", 4 * n + 24 * m)
    order = np.argsort(result.clusters, kind="stable")
    places = [places_of(n, result.vertices), places_of(n, result.vertices, order)]
    del order
    _draw(path, densities(call, A, places), result, title)
    return path


def _draw(path: str, counted: list[NDArray[np.int64]], result: EmbeddingResult, title: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    file, clusters, spectrum = figure.subplots(1, 3, width_ratios=(1, 1, 0.9))
    figure.suptitle(title, fontsize=11)
    m = len(result.vertices)
    for axes, counts, name in (
        (file, counted[0], "in the order of the file"),
        (clusters, counted[1], f"in the order of {int(result.clusters.max()) + 1} clusters"),
    ):
        axes.imshow(np.log1p(counts), cmap="Greys", interpolation="nearest", extent=(0, m, m, 0))
        axes.set(title=f"{m:,} vertices {name}", xticks=[], yticks=[])
    _spectrum(spectrum, result.w)
    figure.savefig(path)


def _spectrum(axes: Any, w: NDArray[Any]) -> None:
    axes.plot(np.arange(1, len(w) + 1), w, "o-", color=_COLOUR, markersize=4, linewidth=0.8)
    title = "Eigenvalues"
    if gap := gap_of(w):
        axes.axvspan(gap, gap + 1, color="#e45756", alpha=0.2, linewidth=0)
        title += f": a gap of {w[gap - 1] - w[gap]:.3g} after {gap}"
    axes.set(title=title, xlabel="pair", ylabel="eigenvalue of D^-½ A D^-½")
    axes.locator_params(axis="x", integer=True)
    axes.spines[["top", "right"]].set_visible(False)
