"""Recipes: chains of routines that people run as one, without intermediate matrices on disk."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import config
from .creation import from_numpy
from .decomposition import PcaResult, pca
from .errors import ShapeError
from .outputs import check_path
from .plan import Plan, routine
from .sparse import SparseArray

__all__ = ["SingleCell", "single_cell"]


class SingleCell(NamedTuple):
    """What `single_cell` found.

    Attributes
    ----------
    pca : PcaResult
        Principal components of the chosen genes, log-normalised.
    genes : ndarray
        Indices of the chosen columns, increasing.
    totals : ndarray
        Counts of every cell.
    means, dispersions, normalized_dispersions : ndarray
        Of every gene, as scanpy's ``highly_variable_genes(flavor="seurat")`` gives them.
    """

    pca: PcaResult
    genes: NDArray[np.int64]
    totals: NDArray[np.float64]
    means: NDArray[np.float64]
    dispersions: NDArray[np.float64]
    normalized_dispersions: NDArray[np.float64]


def normalized(X: SparseArray, totals: NDArray[np.float64], target: float = 1e4) -> Any:
    """Return X with every cell scaled to `target` counts, lazily; empty cells stay empty."""
    return X.scale(rows=target / np.where(totals == 0, 1.0, totals))


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
    """Return the columns whose normalised dispersion is among the `count` largest (ties included)."""
    known = np.sort(normalized_dispersions[~np.isnan(normalized_dispersions)])[::-1]
    if not len(known):
        raise ShapeError("single_cell: no gene varies; there is nothing to choose from.")
    cutoff = known[min(count, len(known)) - 1]
    chosen: NDArray[np.int64] = np.flatnonzero(np.nan_to_num(normalized_dispersions) >= cutoff)
    return chosen


def _check(X: Any, k: int, genes: int) -> None:
    if not isinstance(X, SparseArray) or X._transposed:
        raise ShapeError(f"single_cell: X is {type(X).__name__}; a SparseArray of cells x genes is needed.")
    if not 1 <= k <= genes:
        raise ShapeError(f"single_cell: k is {k} and genes is {genes}; k must lie between 1 and genes.")


def _plan(
    X: Any, k: int = 50, *, genes: int = 2000, target: float = 1e4, out: Any = None,
    memory: int | str | None = None, **options: Any,
) -> Plan:  # fmt: skip
    """Return the plan of the PCA: which genes are chosen is not known, so that of the first ones."""
    _check(X, k, genes)
    some = X.log1p().select(np.arange(min(genes, X.shape[1])))
    return pca.plan(some, k, out=out, memory=memory, **options)


@routine(_plan)
def single_cell(
    X: Any,
    k: int = 50,
    *,
    genes: int = 2000,
    target: float = 1e4,
    out: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
    **options: Any,
) -> SingleCell:
    """Return principal components of counts: normalise, log1p, choose genes by dispersion, PCA.

    Equal to scanpy's ``normalize_total(target_sum=1e4)``, ``log1p``, ``highly_variable_genes(flavor="seurat",
    n_top_genes=2000)`` and a centred PCA of the chosen genes; no intermediate matrix is made.

    Parameters
    ----------
    X : SparseArray
        Counts, cells x genes.
    k : int
        Number of components.
    genes : int
        How many to choose.
    target : float
        Counts of every cell after normalisation.
    out : path, optional
        Where the result of the PCA goes, with members genes, means, dispersions and dispersions_norm added to
        its group; default: scratch.
    memory : int or str, optional
        Most resident memory of the process during each step.
    **options
        Of `pca`: method, tol, seed.

    Notes
    -----
    Reads X once for the cells' totals, once for the genes' moments, and then as often as the PCA does
    (``fl.stats().passes``). Beside the PCA: 8 bytes a cell, 40 bytes a gene.
    """
    _check(X, k, genes)
    if out is not None:
        check_path("single_cell", out)
    totals = np.asarray(X.sum(1, memory=memory))
    if (totals < 0).any():
        raise ShapeError("single_cell: a cell's counts sum to less than 0; X must hold counts.")
    scaled = normalized(X, totals, target)
    rows = X.shape[0]
    sums, squares = scaled._moments(memory)
    mean = sums / rows
    variance = np.maximum(squares / rows - mean * mean, 0.0) * (rows / max(rows - 1, 1))
    means, dispersions, relative = dispersion(mean, variance)
    chosen = choose_genes(relative, genes)
    result = pca(scaled.log1p().select(chosen), k, out=out, memory=memory, **options)
    done = config.stats()
    if out is not None:
        members = {"genes": chosen, "means": means, "dispersions": dispersions, "dispersions_norm": relative}
        for name, values in members.items():
            from_numpy(values, f"{os.fspath(out)}/{name}", overwrite=True)
    config._last = done  # what was done is the PCA, not its small members
    return SingleCell(result, chosen, totals, means, dispersions, relative)
