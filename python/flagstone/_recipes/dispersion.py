"""Which genes vary most: dispersions by the published formulas."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import ShapeError

__all__ = ["choose_genes", "dispersion"]


def dispersion(
    mean: NDArray[np.float64], variance: NDArray[np.float64], bins: int = 20
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return (log1p mean, log dispersion, dispersion normalised within bins of the mean) of every gene.

    The published formulas of Satija et al. (2015) as scanpy states them: dispersion = variance / mean, both
    logged; genes fall into `bins` equally wide bins of the mean; within a bin the dispersion is centred by
    its mean and divided by its standard deviation (n - 1). A bin of one gene gives 1.
    """
    size = np.where(mean == 0, 1e-12, mean)
    spread = variance / size
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.log(np.where(spread == 0, np.nan, spread))
    size = np.log1p(size)
    edges = np.linspace(size.min(), size.max(), bins + 1)
    edges[0] -= (edges[-1] - edges[0]) * 0.001  # the least mean belongs to the first bin
    place = np.clip(np.searchsorted(edges, size, side="left") - 1, 0, bins - 1)
    result = np.full(len(size), np.nan)
    for b in range(bins):
        inside = place == b
        known = spread[inside & ~np.isnan(spread)]
        if not len(known):
            continue
        center, width = (known.mean(), known.std(ddof=1)) if len(known) > 1 else (0.0, known[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            result[inside] = (spread[inside] - center) / width
    return size, spread, result


def choose_genes(normalized_dispersions: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the columns whose normalised dispersion is among the `count` largest (ties included).

    As scanpy chooses: a gene without a dispersion (it never varies, or its whole bin is alike) is never
    taken, whatever the cutoff is; where fewer have one than are asked for, all that have one are.
    """
    known = np.sort(normalized_dispersions[~np.isnan(normalized_dispersions)])[::-1]
    if not len(known):
        raise ShapeError("single_cell: no gene varies; there is nothing to choose from.")
    cutoff = known[min(count, len(known)) - 1]
    with np.errstate(invalid="ignore"):
        chosen: NDArray[np.int64] = np.flatnonzero(normalized_dispersions >= cutoff)  # NaN compares false
    return chosen
