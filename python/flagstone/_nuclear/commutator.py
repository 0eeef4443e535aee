"""Whether a Hamiltonian that lies somewhere as rows commutes with J²."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array.array import shape_text
from .._errors.classes import NumericalError, ShapeError
from .._linalg.matmul import matmul
from .._runtime.arguments import whole_number
from .._runtime.call import Call
from .._runtime.routine import least_of
from .._sparse.array import SparseArray
from .space import Space

__all__ = ["check_scalar", "commutator"]

_MOST = 1e-10  # of the norm of H in float64: what rounding leaves
_SEED = 20120828  # of the vectors


def commutator(H: Any, space: Space, two_m: int, *, probes: int = 4) -> float:
    """Return ``‖[H, J²]‖ / ‖H‖`` of a stored Hamiltonian, by random vectors.

    Parameters
    ----------
    H : SparseArray or SciPy matrix, D x D
        On the rows of one total M, as ``space.hamiltonian(two_m)`` has them, with both triangles.
    space : Space
        Of these rows; its interaction is not asked for.
    two_m : int
        Twice M.
    probes : int
        Normal vectors x: the mean of ``‖Cx‖²`` is the square of C's Frobenius norm, with a relative error of
        sqrt(2 / probes) at most.

    Returns
    -------
    float
        About 1e-14 where H conserves J.

    Raises
    ------
    ShapeError
        H has not the rows of this space and M.

    Notes
    -----
    Reads H twice; 8 D · probes bytes for each of five blocks of vectors in memory, 4 nnz · probes flops. J²
    is applied group by group, J₋J₊ + M(M + 1), and never stored.
    """
    who = "nuclear.commutator"
    call = Call(who)
    if not isinstance(space, Space):
        raise ShapeError(f"{who}: space is {type(space).__name__}; a nuclear.Space is needed.")
    probes = whole_number(who, "probes", probes, 1, 1000)
    basis = space.basis(two_m)
    n = basis.dimension
    shape = tuple(getattr(H, "shape", ()))
    if shape != (n, n) or not hasattr(H, "__matmul__"):
        raise ShapeError(
            f"{who}: H is {shape_text(shape) if shape else type(H).__name__} and the rows of 2M = {two_m} "
            f"are {n}; a sparse matrix of as many rows and columns is needed."
        )
    vectors = 40 * n * probes
    if isinstance(H, SparseArray):  # the products refuse no limit that was let through here
        call.check_least(least_of(matmul, H, np.empty((n, probes))) + vectors)
    call.room("the vectors", vectors)
    x = np.random.default_rng(_SEED).standard_normal((n, probes))
    hx, turned = np.ascontiguousarray(H @ x, np.float64), np.empty_like(x)
    basis.j_squared(x, turned)
    off = np.ascontiguousarray(H @ turned, np.float64)
    basis.j_squared(hx, turned)
    off -= turned
    whole = float(np.linalg.norm(hx))
    return float(np.linalg.norm(off)) / whole if whole > 0 else 0.0


def check_scalar(who: str, H: Any, space: Space, two_m: int) -> None:
    """Refuse a Hamiltonian that does not conserve J, in the precision of its values."""
    off = commutator(H, space, two_m)
    most = _MOST if np.dtype(H.dtype).itemsize >= 8 else 1e-5
    if not off <= most:
        raise NumericalError(
            f"{who}: H breaks J: ‖[H, J²]‖ is {off:.1e} of ‖H‖, where rounding leaves {most:.0e}; states of "
            "one J are none of its own. Give one that was made of scalar elements."
        )
