"""Eigenpairs of matrices that are larger than memory, and of operators."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._output.path_place import GroupPlace
from .._output.replaceable import check_path
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import array_of, check_flags
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .operators import Hermitian
from .options import not_converged, options_again, recorded, solver_options, start_block
from .result import EigshResult

__all__ = ["eigsh"]


_OPTIONS = (
    "which", "tol", "method", "block", "ncv", "keep", "maxiter", "passes", "seed", "verify",
    "return_eigenvectors",
)  # fmt: skip


class Eigsh(Routine[Any]):
    """The checked arguments of one call."""

    operation = "eigsh"

    def __init__(
        self, call: Call, A: Hermitian, k: int, *, which: str, tol: float, method: str, block: int | None,
        ncv: int | None, keep: int | None, maxiter: int | None, passes: int | None, v0: ArrayLike | None,
        seed: int, verify: bool, return_eigenvectors: bool, out: Any,
    ) -> None:  # fmt: skip
        check_flags(call.who, return_eigenvectors=return_eigenvectors)
        self.A, self.vectors = A, bool(return_eigenvectors)
        if A.function is not None:
            self.operation = ""  # nobody knows whether it is the same one: such a call is begun again
        if out is not None:
            check_path(call.who, out)
        #: lives as long as the job
        self.start = None if v0 is None else start_block(call.who, v0, A.n, A.dtype)
        self.options = solver_options(
            call.who, A.n, k, self.start, which=which, tol=tol, method=method, block=block, ncv=ncv,
            keep=keep, maxiter=maxiter, passes=passes, seed=seed, verify=verify, dtype=A.dtype,
            symmetry=A.symmetry,
        )  # fmt: skip
        self.k = int(k)
        self.asked = recorded(
            self.start, which=which, tol=tol, method=method, block=block, ncv=ncv, keep=keep, maxiter=maxiter,
            passes=passes, seed=seed, verify=verify, return_eigenvectors=self.vectors,
        )  # fmt: skip
        self.place = GroupPlace(
            call, out, "vectors", ["row", "pair"], (A.n, self.k), A.dtype,
            _core.vectors_chunks(self.options, A.n), A.n * self.k * A.dtype.itemsize + 16 * self.k,
        )  # fmt: skip
        super().__init__(call, [self.place])
        call.outputs = self.place.named(3)

    @property
    def what(self) -> str:
        return f"{self.call.who} {self.A.what}, k = {self.k}"

    def job(self, at: At) -> _core.EigshJob:
        vectors = at(self.place)  # first: the place is open from here on, and has its checkpoint
        return _core.eigsh_job(self.A.input, self.options, vectors, self.place.checkpoint)

    def arguments(self) -> dict[str, Any]:
        return {"a": self.A.identity(), "k": self.k} | self.asked

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes of 6.5 k vectors, each applied and projected on a basis of 2.5 k."""
        return 6.5 * self.k * (2 * self.A.values + 20.0 * self.A.n * self.k), 16.0 * self.A.n * self.k

    def how(self, job: _core.EigshJob) -> How:
        o = self.options
        note = f"block {o.block}, basis of {o.ncv} columns"
        if job.applications and not job.verified:
            note += "; missed copies of values are not looked for" if o.block < self.k else ""
        return How(o.method, job.passes, note, o.most)

    def members(self) -> dict[str, Any]:
        """Put more beside the pairs, before their group appears; return what its attributes tell of it."""
        return {}

    def result(self, job: _core.EigshJob) -> Any:
        w, residual = np.array(job.values), np.array(job.residuals)
        self.place.write("values", w, ["pair"])
        self.place.write("residual", residual, ["pair"])
        about = {
            "routine": self.call.who, "method": job.method, "applications": job.applications,
            "converged": job.converged, "verified": job.verified, "version": _core.__version__,
        } | self.members()  # fmt: skip
        found = EigshResult(
            w, self.place.close({"flagstone": about}), residual, job.method, job.applications, job.passes,
            job.verified,
        )  # fmt: skip
        if not job.converged:
            raise not_converged(self.call.who, job, found)
        return found if self.vectors else w


@routine
def eigsh(
    A: Any, k: int = 6, *, which: str = "LM", tol: float = 1e-6, method: str = "auto",
    block: int | None = None, ncv: int | None = None, keep: int | None = None, maxiter: int | None = None,
    passes: int | None = None, v0: ArrayLike | None = None, seed: int = 0, verify: bool = True,
    return_eigenvectors: bool = True, out: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return k eigenpairs of a symmetric or Hermitian matrix, inside a memory limit.

    Block Krylov-Schur with thick restart; the basis lies on disk where it does not fit.

    Parameters
    ----------
    A : SparseArray, Array, Expression, ndarray, SciPy matrix or operator, n x n
        Symmetric or Hermitian. Of an Array with square chunks the lower triangle is read. An operator is a
        LinearOperator of SciPy, or a function that multiplies an n x b ndarray and has a `shape` (or comes
        with `v0`); it may call this library, within the same limit.
    k : int
        Pairs, between 1 and n.
    which : {"LM", "LA", "SA", "BE"}
        Largest magnitude, largest, smallest, or both ends (one more of the upper).
    tol : float
        ``‖A v - λ v‖ ≤ tol max(|λ|, eps^⅔ ‖A‖)``, or what rounding allows (64 eps ‖A‖), measured.
    method : {"auto", "krylov-schur", "krylov"}
        "krylov": a basis without restarts.
    block : int, optional
        Columns of one application; default: 1.25 k up to k = 200, then 128, fewer where n is so large that
        two blocks take more than 512 MiB.
    ncv : int, optional
        Columns of the basis before a restart, at least k + 2 block; no multiple of the block is needed.
    keep : int, optional
        Ritz vectors that a restart keeps; default: k and half of the rest.
    maxiter : int, optional
        Applications at most, beside those that measure; default 1000.
    passes : int, optional
        Exactly so many applications and one pass that measures, whatever is reached (no restarts).
    v0 : ndarray, optional
        Vectors to start from, n or n x b, in any units.
    seed : int
        Of the random start.
    verify : bool
        Where the block is narrower than k, or v0 is given: follow a random block that is orthogonal to all
        pairs, until no missed copy of a value shows. About five more applications.
    return_eigenvectors : bool
        False: w alone.
    out : path, optional
        A Zarr group for vectors, values and residuals. Default: scratch; deleted when the last handle on V
        dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    EigshResult
        Unpacks as ``w, V``, in the order of `which`.

    Raises
    ------
    ShapeError
        A is not square; k, block or ncv are out of range.
    NumericalError
        A is not symmetric (``|xᴴAy - yᴴAx|`` for random x and y), or holds NaN or Inf.
    ConvergenceError
        After `maxiter` applications; `partial` holds what was reached.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Each application reads A once (4 b nnz flops or 2 b n²) and the basis of p columns twice: 8 n p b flops,
    16 n p bytes (float64) where it lies on disk. Memory: two blocks, 16 n b bytes, and some panels. A
    restart reads and writes the basis once. ``eigsh.plan(...)`` counts with a stated number of applications.
    Sources: Stewart 2002; Zhou and Saad 2008.
    """
    call = Call("eigsh", memory)
    v0 = None if v0 is None else array_of("eigsh", "v0", v0)
    rows = None if v0 is None or v0.ndim == 0 else len(v0)
    return Eigsh(
        call, Hermitian(call, A, memory, rows), k, which=which, tol=tol, method=method, block=block, ncv=ncv,
        keep=keep, maxiter=maxiter, passes=passes, v0=v0, seed=seed, verify=verify,
        return_eigenvectors=return_eigenvectors, out=out,
    )  # fmt: skip


@resumable("eigsh")
def _again(path: str, told: dict[str, Any]) -> Again:
    return eigsh, (operand("A", told["a"]), told["k"]), options_again("eigsh", told, _OPTIONS) | {"out": path}
