"""What `eigsh` and `svds` return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from .._array.array import Array

__all__ = ["EigshResult", "SvdsResult"]


@dataclass(frozen=True, eq=False, repr=False)
class EigshResult:
    """Eigenpairs of a symmetric or Hermitian matrix; unpacks as ``w, V``.

    Attributes
    ----------
    w : ndarray, k
        Eigenvalues in the order of `which`.
    V : Array, n x k
        Eigenvectors, orthonormal columns, on disk.
    residual : ndarray, k
        ‖A v - λ v‖ of every pair, measured.
    method : str
        What was done.
    applications : int
        Products of A with a block of vectors, those of the last pass included.
    passes : int
        Reads of A.
    verified : bool
        Whether copies of a value cannot have been missed: the block held k random vectors, or a random block
        orthogonal to all pairs was followed and showed none.
    """

    w: NDArray[Any]
    V: Array
    residual: NDArray[Any]
    method: str
    applications: int
    passes: int
    verified: bool

    def __iter__(self) -> Iterator[Any]:
        """Yield w, then V."""
        return iter((self.w, self.V))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, key: Any) -> Any:
        return (self.w, self.V)[key]

    def __repr__(self) -> str:
        told = ", ".join(f"{value:.4g}" for value in self.w[:5]) + (", ..." if len(self.w) > 5 else "")
        sure = "" if self.verified else ", not looked for missed copies"
        return (
            f"<flagstone.linalg.EigshResult of {self.V.shape[0]} x {self.V.shape[0]}, {len(self.w)} pairs by "
            f"{self.method}, {self.applications} applications{sure}\n"
            f"  w         {told}\n"
            f"  residual  at most {float(self.residual.max(initial=0)):.2g}\n"
            f"  V         {self.V!r}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class SvdsResult:
    """Leading singular triplets of a matrix; unpacks as ``U, s, Vt``.

    Attributes
    ----------
    U : Array, m x k, or None
        Left singular vectors.
    s : ndarray, k
        Singular values, largest first.
    Vt : Array, k x n, or None
        Right singular vectors.
    residual : ndarray, k
        ‖Aᵀu - σ v‖ of every triplet with u = A v / σ (‖A v - σ u‖ where U was found first), measured.
    method : str
        What was done.
    applications : int
        Products of AᵀA (or A Aᵀ) with a block of vectors, those of the last pass included.
    passes : int
        Reads of A.
    verified : bool
        Whether copies of a value cannot have been missed.
    """

    U: Array | None
    s: NDArray[Any]
    Vt: Array | None
    residual: NDArray[Any]
    method: str
    applications: int
    passes: int
    verified: bool

    def __iter__(self) -> Iterator[Any]:
        """Yield U, s and Vt."""
        return iter((self.U, self.s, self.Vt))

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: Any) -> Any:
        return (self.U, self.s, self.Vt)[key]

    def __repr__(self) -> str:
        told = ", ".join(f"{value:.4g}" for value in self.s[:5]) + (", ..." if len(self.s) > 5 else "")
        return (
            f"<flagstone.linalg.SvdsResult of {len(self.s)} triplets by {self.method}, "
            f"{self.applications} applications\n"
            f"  U         {self.U!r}\n"
            f"  s         {told}\n"
            f"  Vt        {self.Vt!r}\n"
            f"  residual  at most {float(self.residual.max(initial=0)):.2g}>"
        )


for _kind in (EigshResult, SvdsResult):
    _kind.__module__ = "flagstone.linalg"  # said in its body, dataclass would look for that module
