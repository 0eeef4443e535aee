"""Recipes: chains of routines that people run as one, without intermediate matrices on disk."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._decomposition.pca import Pca
from .._decomposition.result import PcaResult
from .._errors.classes import NumericalError, ShapeError
from .._runtime.call import Call
from .._runtime.plan import Plan, Stats
from .._runtime.routine import Prepared, Routine, routine
from .._runtime.runtime import stats
from .._sparse.array import SparseArray
from .._sparse.reductions import ColumnMoments, RowCounts
from .._sparse.to_csr import by_rows, sparse_by_rows
from .dispersion import choose_genes, dispersion

__all__ = ["SingleCell", "single_cell"]

#: Of 8-byte numbers for every cell beside the steps: totals and least counts, factors, the core's copy, and
#: one on the way.
_PER_CELL = 5
_PER_GENE = 16  # moments, means, dispersions and what is made of them
_OPTIONS: dict[str, Any] = {"method": "auto", "tol": 1e-5, "seed": 0}  # of pca


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


SingleCell.__module__ = "flagstone"  # a NamedTuple takes no such line in its body


class _SingleCell(Routine[SingleCell]):
    """The checked arguments of one call, and its three steps: totals of cells, moments of genes, PCA."""

    def __init__(
        self, X: Any, k: int, genes: int, target: float, out: Any, memory: Any, options: dict[str, Any]
    ) -> None:
        if not isinstance(X, (Array, SparseArray)) or len(X.shape) != 2:
            raise ShapeError(
                f"single_cell: X is {type(X).__name__}; a matrix of cells x genes from fl.open is needed."
            )
        if not 1 <= k <= genes:
            raise ShapeError(f"single_cell: k is {k} and genes is {genes}; k must lie between 1 and genes.")
        if k > min(X.shape):
            raise ShapeError(
                f"single_cell: k is {k} and X is {shape_text(X.shape)}; at most {min(X.shape)} components "
                "exist."
            )
        if not (isinstance(target, (int, float)) and math.isfinite(target) and target > 0):
            raise ShapeError(f"single_cell: target is {target}; counts of a cell, more than 0, are needed.")
        for name in options:
            if name not in _OPTIONS:
                raise TypeError(f"single_cell: {name} is not possible here; choose {', '.join(_OPTIONS)}.")
        X = by_rows("single_cell", X, memory) if isinstance(X, Array) else X
        self.X = sparse_by_rows("single_cell", X, memory)
        self.k, self.genes, self.target, self.out = k, genes, float(target), out
        self.memory, self.options = memory, options
        super().__init__(Call("single_cell", memory))
        self.call.on(self.X.path)

    def _totals(self) -> RowCounts:
        return RowCounts("single_cell", self.X, self.memory)

    def _moments(self, view: Any) -> ColumnMoments:
        return ColumnMoments("single_cell", view, self.memory)

    def _pca(self, view: Any, members: dict[str, NDArray[Any]] | None = None) -> Pca:
        wanted = _OPTIONS | self.options
        step = Pca(
            view, self.k, True, wanted["method"], wanted["tol"], wanted["seed"], self.out, self.memory,
            members if self.out is not None else None,
        )  # fmt: skip
        step.call.who = "single_cell"
        return step

    def _steps(self) -> tuple[Any, ColumnMoments, Pca]:
        """Return the steps as they can be counted before anything is read: with any genes, unscaled."""
        some = self.X.log1p().select(np.arange(min(self.genes, self.X.shape[1])))
        return self._totals(), self._moments(self.X), self._pca(some)

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that are held beside the steps."""
        cells, genes = self.X.shape
        return 8 * (_PER_CELL * cells + _PER_GENE * genes)

    def check(self, beside: int = 0) -> int:
        """Return the least limit that works, or refuse the one that was given; nothing has been read."""
        totals, moments, pca = self._steps()
        # What one step leaves touched of the reserve (stacks, BLAS) is resident when the next asks anew.
        beside += self.beside + self.call.engine.reserve
        needed = max(
            totals.least(),
            moments.least(beside),
            pca.least(beside),
        )
        self.call.check_least(needed)
        return self.call.rounded(needed)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = f"{self.X.stored_values:,} stored values"
        return f"single_cell {shape_text(self.X.shape)} sparse, {stored}, {self.genes} genes, k = {self.k}"

    def plan(self) -> Plan:
        """Count the steps."""
        least = self.check()
        parts = [step.plan() for step in self._steps()]
        before = sum(part.seconds for part in parts[:-1])
        return dataclasses.replace(
            parts[-1],
            what=self.what,
            peak_memory=max(parts[0].peak_memory, *(p.peak_memory + self.beside for p in parts[1:])),
            least_memory=least,
            most_passes=parts[-1].most_passes and parts[-1].most_passes + 2,
            least_seconds=parts[-1].least_seconds and parts[-1].least_seconds + before,
            most_seconds=parts[-1].most_seconds and parts[-1].most_seconds + before,
            **_sums(parts),
        )

    @staticmethod
    def _checked_totals(counted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the totals of cells, whose counts are counts: log1p of less than -1 would be NaN."""
        totals, least = counted.T
        for wrong in np.flatnonzero(~np.isfinite(totals))[:1]:
            raise NumericalError(
                f"single_cell: the counts of cell {wrong} sum to {totals[wrong]}; X must hold counts, "
                "without NaN and Inf."
            )
        for wrong in np.flatnonzero(least < 0)[:1]:
            raise ShapeError(
                f"single_cell: cell {wrong} holds a negative count, {least[wrong]:g}; X must hold counts, "
                "0 or more, not values that were centred or scaled."
            )
        return np.array(totals)

    def run(self) -> SingleCell:
        """Do it: X is read for its rows, for its columns, and as often as the PCA does."""
        self.check()
        done: list[Stats] = []
        counted = self._totals().run()
        done.append(stats())
        totals = self._checked_totals(counted)
        del counted
        factors = totals.copy()
        factors[factors == 0] = 1  # empty cells stay empty
        np.divide(self.target, factors, out=factors)
        moments = self._moments(self.X.scale(rows=factors)).run()
        done.append(stats())
        rows = self.X.shape[0]
        mean = moments[0] / rows
        variance = np.maximum(moments[1] / rows - mean * mean, 0.0) * (rows / max(rows - 1, 1))
        means, dispersions, relative = dispersion(mean, variance)
        chosen = choose_genes(relative, self.genes)
        members = {
            "genes": chosen, "means": means, "dispersions": dispersions, "dispersions_norm": relative,
        }  # fmt: skip
        view = self.X.scale(rows=factors).log1p().select(chosen)
        result = self._pca(view, members).run()
        done.append(stats())
        self.call.keep(dataclasses.replace(
            done[-1],
            what=self.what,
            peak_memory=max(d.peak_memory for d in done),
            resident_at_entry=done[0].resident_at_entry,
            **_sums(done, _STATS),
        ))  # fmt: skip
        return SingleCell(result, chosen, totals, means, dispersions, relative)


_BOTH = ("passes", "bytes_read", "bytes_written", "flops", "seconds")
_STATS = ("tasks", "worker_busy_seconds", "worker_idle_seconds", "ring_busy_seconds", "ring_idle_seconds")


def _sums(parts: list[Any], more: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: sum(getattr(part, name) for part in parts) for name in (*_BOTH, *more)}


@routine
def single_cell(
    X: Any,
    k: int = 50,
    *,
    genes: int = 2000,
    target: float = 1e4,
    out: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
    **options: Any,
) -> Prepared[SingleCell]:
    """Return principal components of counts: normalise, log1p, choose genes by dispersion, PCA.

    Equal to scanpy's ``normalize_total(target_sum=1e4)``, ``log1p``, ``highly_variable_genes(flavor="seurat",
    n_top_genes=2000)`` and a centred PCA of the chosen genes; no intermediate matrix is made.

    Parameters
    ----------
    X : SparseArray or Array
        Counts, cells x genes. What is dense, or sparse and stored by columns (CSC), is packed by rows into
        scratch first, once for a handle (`plan` does that too): one read of it, 3 to 8 bytes written a count.
    k : int
        Number of components.
    genes : int
        How many to choose: more where several are equal at the cutoff, fewer where fewer vary. Genes that
        are 0 in every cell are never chosen.
    target : float
        Counts of every cell after normalisation.
    out : path, optional
        Where the result of the PCA goes, its group with members genes, means, dispersions and
        dispersions_norm beside; appears whole. Default: scratch.
    memory : int or str, optional
        Most resident memory of the process during the call.
    **options
        Of `pca`: method, tol, seed.

    Returns
    -------
    SingleCell
        Named tuple: the components, the chosen genes and their dispersions.

    Raises
    ------
    BudgetError
        The limit is too small for one of the steps; names the least that works for all, before anything is
        read.
    NumericalError
        A cell's counts hold NaN or Inf.
    ShapeError
        A cell holds a negative count.

    Notes
    -----
    Reads X once for the cells' totals, once for the genes' moments, and then as often as the PCA does
    (``fl.stats().passes`` counts all). Beside the PCA: 40 bytes a cell, 128 bytes a gene.
    """
    return _SingleCell(X, k, genes, target, out, memory, options)
