"""What `spectral_embedding` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from .._array.array import Array

__all__ = ["EmbeddingResult"]


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingResult:
    """Leading eigenpairs of D^-½ A D^-½ of the largest component of a graph; unpacks as ``w, V``.

    Attributes
    ----------
    w : ndarray, k
        Eigenvalues, largest first; the first is 1.
    V : Array, m x k
        Eigenvectors, orthonormal columns, on disk; a row for each vertex of the component.
    residual : ndarray, k
        ‖D^-½ A D^-½ v - λ v‖ of every pair, measured.
    clusters : ndarray, m
        The cluster of each vertex, 0 the largest.
    vertices : ndarray, m
        Rows of A that the component consists of.
    ids : ndarray, m
        What the file called them (`A.ids`), else `vertices`.
    degrees : ndarray, m
        Sums of their rows.
    components : int
        Of the whole graph; `isolated` of them are vertices without an edge.
    isolated : int
        Vertices whose row is empty or zero.
    left_out : int
        Vertices outside the largest component, those included.
    applications : int
        Products of the matrix with a block of vectors.
    passes : int
        Reads of A, that for the components included.
    verified : bool
        Whether copies of a value cannot have been missed.
    """

    w: NDArray[Any]
    V: Array
    residual: NDArray[Any]
    clusters: NDArray[Any]
    vertices: NDArray[Any]
    ids: NDArray[Any]
    degrees: NDArray[Any]
    components: int
    isolated: int
    left_out: int
    applications: int
    passes: int
    verified: bool

    def __iter__(self) -> Any:
        """Yield w, then V."""
        return iter((self.w, self.V))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, key: Any) -> Any:
        return (self.w, self.V)[key]

    @property
    def told(self) -> str:
        """What was taken, and what was left out."""
        n, m = len(self.vertices) + self.left_out, len(self.vertices)
        if not self.left_out:
            return f"{n:,} vertices in one component"
        return (
            f"the largest of {self.components:,} components: {m:,} of {n:,} vertices; {self.left_out:,} left "
            f"out, {self.isolated:,} of them without an edge"
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.4g}" for value in self.w[:5]) + (", ..." if len(self.w) > 5 else "")
        return (
            f"<flagstone.EmbeddingResult of {self.told}, {len(self.w)} pairs, {self.applications} "
            "applications\n"
            f"  w         {shown}\n"
            f"  residual  at most {float(self.residual.max(initial=0)):.2g}\n"
            f"  clusters  {int(self.clusters.max(initial=-1)) + 1}\n"
            f"  V         {self.V!r}>"
        )


EmbeddingResult.__module__ = "flagstone"  # said in its body, dataclass would look for that module
