"""The picture of a latent semantic analysis: singular values, documents, top words of directions."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._recipes.lsa import LsaResult
from .report import sample_rows

__all__ = ["write_documents"]

_DIRECTIONS = 10  # whose words are shown
_WORDS = 6  # of each
_ROWS = 1 << 12  # documents that are read at a time


def write_documents(
    out: str | os.PathLike[str], result: LsaResult, words: list[list[str]], title: str
) -> str:
    """Draw `<out>-documents.png` and return its path; documents are a sample of 20,000 at most."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = os.fspath(out).rstrip("/").removesuffix(".zarr") + "-documents.png"
    figure = Figure(figsize=(15, 5), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    values, documents, table = figure.subplots(1, 3, width_ratios=(0.8, 1.1, 1.2))
    figure.suptitle(title, fontsize=11)
    values.plot(np.arange(1, len(result.s) + 1), result.s, "o-", color="#4c78a8", markersize=3, linewidth=0.8)
    values.set(title="Singular values", xlabel="direction", yscale="log")
    values.spines[["top", "right"]].set_visible(False)
    _documents(documents, result)
    table.axis("off")
    table.set_title("Top words of the first directions")
    for j, top in enumerate(words[:_DIRECTIONS]):
        table.text(0, 1 - (j + 0.5) / _DIRECTIONS, f"{j + 1:>3}  {' '.join(top[:_WORDS])}", fontsize=8)
    figure.savefig(path)
    return path


def _documents(axes: Any, result: LsaResult) -> None:
    rows = sample_rows(result.U)
    step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    # Stretches of whole rows: one with steps holds much more than what it takes.
    some = np.concatenate([
        np.asarray(result.U[i : i + _ROWS])[-i % step :: step, :3]
        for i in range(0, result.U.shape[0], _ROWS)
    ]) * result.s[:3]  # fmt: skip
    # The first direction of counts tells lengths and common words: the next two tell subjects apart.
    x, y = (1, 2) if some.shape[1] > 2 else (0, some.shape[1] - 1)
    axes.scatter(some[:, x], some[:, y], s=4, color="#4c78a8", linewidths=0, alpha=0.5, rasterized=True)
    every = "" if step == 1 else f", one in {step}"
    axes.set(title=f"Documents{every}", xlabel=f"direction {x + 1}", ylabel=f"direction {y + 1}")
    axes.spines[["top", "right"]].set_visible(False)
