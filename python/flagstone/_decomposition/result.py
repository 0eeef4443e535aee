"""Principal components as they are kept: the result, and the group on disk that holds it."""

from __future__ import annotations

import errno
import os
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .._array.array import Array, open_core
from .._errors.messages import storage_error
from .._html.table import html_table
from .._output.column_names import stored_columns
from .transform import project

__all__ = ["SMALL", "PcaResult", "open_pca"]

#: What a result holds beside the scores.
SMALL = (
    "components",
    "singular_values",
    "explained_variance",
    "explained_variance_ratio",
    "mean",
    "residual",
)


class PcaResult(NamedTuple):
    """Principal components of an m x n matrix.

    Attributes
    ----------
    components : ndarray, k x n
        Principal axes, largest first; signs as in scikit-learn.
    singular_values : ndarray, k
        Of the centred matrix.
    explained_variance, explained_variance_ratio : ndarray, k
        σ² / (m - 1), and its share of the total variance.
    mean : ndarray, n
        Column means (zeros where not centred).
    scores : Array, m x k
        The matrix in the new coordinates, on disk.
    residual : ndarray, k
        ‖Xᵀu - σ v‖ of every component, X centred and u = X v / σ: what was reached, measured.
    """

    components: NDArray[Any]
    singular_values: NDArray[Any]
    explained_variance: NDArray[Any]
    explained_variance_ratio: NDArray[Any]
    mean: NDArray[Any]
    scores: Array
    residual: NDArray[Any]

    @property
    def columns(self) -> list[str | None] | None:
        """Names of the columns of `components`: those of the matrix, where it had some (genes, a table's)."""
        place = os.path.dirname(self.scores.path or "")
        names = stored_columns(f"{place}/components") if place else None
        return names if names is not None and len(names) == self.components.shape[1] else None

    def __repr__(self) -> str:
        k, n = self.components.shape
        return (
            f"<flagstone.PcaResult of {self.scores.shape[0]} x {n}, {k} components, "
            f"{float(self.explained_variance_ratio.sum()):.1%} of the variance\n"
            f"  singular_values           {_first(self.singular_values, '4g')}\n"
            f"  explained_variance_ratio  {_first(self.explained_variance_ratio, '3g')}\n"
            f"  residual                  at most {float(self.residual.max(initial=0)):.2g}\n"
            f"  scores                    {self.scores!r}>"
        )

    def _repr_html_(self) -> str:
        k, n = self.components.shape
        return html_table("PcaResult", {
            "matrix": f"{self.scores.shape[0]:,} x {n:,}", "components": str(k),
            "variance": f"{float(self.explained_variance_ratio.sum()):.1%} explained",
            "singular_values": _first(self.singular_values, "4g"),
            "explained_variance_ratio": _first(self.explained_variance_ratio, "3g"),
            "residual": f"at most {float(self.residual.max(initial=0)):.2g}",
            "scores": self.scores.path or "in memory",
        })  # fmt: skip

    def transform(
        self, Y: Any, *, out: str | os.PathLike[str] | None = None, memory: int | str | None = None
    ) -> Any:
        """Return ``(Y - mean) componentsᵀ``.

        Parameters
        ----------
        Y : ndarray, Array, Expression, SparseArray or SciPy matrix, rows x n
            A NumPy or SciPy matrix gives an ndarray, one on disk or a lazy one an Array.
        out : path, optional
            Where an Array result goes; default: scratch, until its handle dies.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Notes
        -----
        Reads Y once; 2 rows n k flops (sparse: 2 nnz k).
        """
        return project(Y, self.components, self.mean, out, memory)


def _first(values: NDArray[Any], digits: str, most: int = 5) -> str:
    told = ", ".join(format(float(value), f".{digits}") for value in values[:most])
    return told + (", ..." if len(values) > most else "")


PcaResult.__module__ = "flagstone"  # a NamedTuple takes no such line in its body


def open_pca(path: str | os.PathLike[str]) -> PcaResult:
    """Return the result that ``pca(..., out=path)`` wrote.

    Parameters
    ----------
    path : path
        The `out` of that call.

    Returns
    -------
    PcaResult
        The scores stay on disk; the rest, 8 (k (n + 5) + n) bytes, is read.
    """
    place = os.fspath(path)
    if not os.path.isdir(f"{place}/scores"):
        raise storage_error(f"open_pca: '{place}' is no result of pca.", errno.ENOENT, place)
    arrays = {name: Array(open_core(f"{place}/{name}", "r"))[...] for name in SMALL}
    return PcaResult(scores=Array(open_core(f"{place}/scores", "r")), **arrays)
