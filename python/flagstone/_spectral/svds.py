"""Leading singular triplets of matrices that are larger than memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._array.handle import Operand, is_transposed
from .._errors.classes import NumericalError, ShapeError
from .._expression.expression import Expression
from .._expression.operand import lazy_operand
from .._output.path_place import GroupPlace
from .._output.replaceable import check_path
from .._resume.identity import identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import is_flag, unmasked
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import sparse_by_rows
from .options import not_converged, options_again, recorded, solver_options, start_block
from .result import SvdsResult

__all__ = ["svds"]

_OPTIONS = (
    "tol", "method", "block", "ncv", "keep", "maxiter", "passes", "seed", "verify",
    "return_singular_vectors",
)  # fmt: skip


class Svds(Routine[Any]):
    """The checked arguments of one call."""

    operation = "svds"

    def __init__(
        self, call: Call, A: Any, k: int, wanted: bool | str, v0: ArrayLike | None, out: Any, memory: Any,
        **options: Any,
    ) -> None:  # fmt: skip
        if is_flag(wanted):
            wanted = bool(wanted)
        elif not isinstance(wanted, str) or wanted not in ("u", "vh"):
            raise ShapeError(
                f"{call.who}: return_singular_vectors is {wanted!r}; choose True, False, 'u' or 'vh'."
            )
        if out is not None:
            check_path(call.who, out)
        self.wanted, self.k = wanted, k
        #: A is stored as the transpose of what was given: U and V change places
        self.turned = False
        self.input = self._input(call, A, memory)
        side, right = self.input.side, self.input.right
        if not hasattr(k, "__index__") or isinstance(k, bool) or not 1 <= k <= min(self.shape):
            raise ShapeError(
                f"{call.who}: k is {k!r} and A is {shape_text(self.shape)}; k must lie between 1 and "
                f"{min(self.shape)}."
            )
        self.start = None if v0 is None else start_block(call.who, v0, side, self.dtype)
        self.options = solver_options(
            call.who, side, k, self.start, which="LA", dtype=self.dtype, symmetry=1e-8, **options
        )
        self.asked = recorded(self.start, return_singular_vectors=wanted, **options)
        if isinstance(self.matrix, SparseArray) and self.turned:
            self.operation = ""  # what it was given is another matrix than the one that is read
        longer = self.shape[1] if right == self.turned else self.shape[0]
        self.place = GroupPlace(
            call, out, "u" if right != self.turned else "v", ["row", "triplet"], (longer, k), self.dtype,
            self.input.chunks(k, self.options.block), self.dtype.itemsize * k * (longer + side + 2),
        )  # fmt: skip
        self.shorter = self.place.member(
            "v" if self.place.name == "u" else "u", ["row", "triplet"], (side, k),
            _core.vectors_chunks(self.options, side),
        )  # fmt: skip
        super().__init__(call, [self.place])
        call.outputs = self.place.named(4)

    def _input(self, call: Call, A: Any, memory: Any) -> _core.SvdsInput:
        if isinstance(A, SparseArray) or hasattr(A, "tocsr"):
            a = A if isinstance(A, SparseArray) else from_blocks([A])
            self._check(call, a)
            self.turned = is_transposed(a)
            # Of Aᴴ, stored by rows, U and V are V and U of A.
            self.matrix: Any = sparse_by_rows(call.who, a.H if self.turned else a, memory)
            self.kind = f"sparse, {a.stored_values:,} stored values"
            call.on(self.matrix.path)
            return _core.SvdsInput(None, False, self.matrix.operand())
        if not isinstance(A, (Array, Expression, np.ndarray)):
            raise ShapeError(
                f"{call.who}: A is {type(A).__name__}; a matrix is needed (of an operator, eigsh takes AᵀA)."
            )
        given = unmasked(call.who, A) if isinstance(A, np.ndarray) else A
        self._check(call, given)
        if isinstance(given, Array):
            given.flush()
        operand = Operand.matrix(call, lazy_operand(call, given), "A")
        self.matrix, self.kind = operand, str(np.dtype(given.dtype))
        call.on(*operand.paths)
        return _core.SvdsInput(operand.core, operand.transposed, None)

    def _check(self, call: Call, a: Any) -> None:
        if len(a.shape) != 2 or 0 in a.shape:
            raise ShapeError(
                f"{call.who}: A is {shape_text(tuple(a.shape))}; a matrix with rows and columns is needed."
            )
        kind = np.dtype(a.dtype).kind
        if kind not in ("biufc" if isinstance(a, SparseArray) else "biuf"):
            raise ShapeError(
                f"{call.who}: A is {a.dtype}; real values are needed of a dense matrix (of a complex one, "
                "eigsh takes AᴴA)."
            )
        self.dtype = np.dtype(np.complex128 if kind == "c" else np.float64)
        self.shape = tuple(a.shape)

    @property
    def what(self) -> str:
        return f"{self.call.who} {shape_text(self.shape)} {self.kind}, k = {self.k}"

    def job(self, at: At) -> _core.SvdsJob:
        other = at(self.place)  # first: the place is open from here on, and has its checkpoint
        return _core.svds_job(self.input, self.options, at(self.shorter), other, self.place.checkpoint)

    def arguments(self) -> dict[str, Any]:
        a = self.matrix
        return {"a": a.identity if isinstance(a, Operand) else identity(a), "k": int(self.k)} | self.asked

    def effort(self) -> tuple[float, float]:
        """Return flops and bytes of 6.5 k vectors, each applied and projected on a basis of 2.5 k."""
        a, side = self.matrix, self.input.side
        values = float(a.stored_values) if isinstance(a, SparseArray) else float(np.prod(self.shape))
        return 6.5 * self.k * (4 * values + 20.0 * side * self.k), 16.0 * side * self.k

    def how(self, job: _core.SvdsJob) -> How:
        o = self.options
        of = "AᵀA" if self.input.right != self.turned else "A Aᵀ"
        return How(o.method, job.passes, f"of {of}, block {o.block}, basis of {o.ncv} columns", o.most + 1)

    def members(self) -> dict[str, Any]:
        """Put more beside the triplets, before their group appears; return what its attributes tell of it."""
        return {}

    def result(self, job: _core.SvdsJob) -> Any:
        s, residual = np.array(job.values), np.array(job.residuals)
        name = self.shorter.name
        self.shorter.close()
        self.place.write("s", s, ["triplet"])
        self.place.write("residual", residual, ["triplet"])
        about = {
            "routine": "svds", "method": job.method, "applications": job.applications,
            "converged": job.converged, "verified": job.verified, "version": _core.__version__,
        } | self.members()  # fmt: skip
        vectors = {self.place.name: self.place.close({"flagstone": about})}
        vectors[name] = Array(open_core(f"{self.place.path}/{name}", "r"), "r")
        if self.place.scratch is not None:
            self.place.scratch.tie(vectors[name])
        if not np.isfinite(s).all():
            raise NumericalError(f"{self.call.who}: A holds NaN or Inf.")
        made = SvdsResult(
            vectors["u"] if self.wanted in (True, "u") else None, s,
            _adjoint(vectors["v"]) if self.wanted in (True, "vh") else None,
            residual, job.method, job.applications, job.passes, job.verified,
        )  # fmt: skip
        if not job.converged:
            raise not_converged(self.call.who, job, made)
        return s if self.wanted is False else made


def _adjoint(v: Array) -> Any:
    return v.conj().T if v.dtype.kind == "c" else v.T


@routine
def svds(
    A: Any, k: int = 6, *, tol: float = 1e-6, method: str = "auto", block: int | None = None,
    ncv: int | None = None, keep: int | None = None, maxiter: int | None = None, passes: int | None = None,
    v0: ArrayLike | None = None, seed: int = 0, verify: bool = True,
    return_singular_vectors: bool | str = True, out: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
) -> Prepared[Any]:  # fmt: skip
    """Return the k largest singular values of a matrix and their vectors, inside a memory limit.

    Block Krylov-Schur on the cheaper of AᵀA and A Aᵀ (see `eigsh`); the other side's vectors are written by
    the pass that measures.

    Parameters
    ----------
    A : SparseArray, Array, Expression, ndarray or SciPy matrix, m x n
        Real; a sparse one may be complex.
    k : int
        Triplets, between 1 and min(m, n).
    tol : float
        ‖Aᵀu - σ v‖ ≤ tol σ for each triplet, or what rounding allows (64 eps σ₁² / σ), measured.
    method, block, ncv, keep, maxiter, passes, v0, seed, verify, memory
        As in `eigsh`, of the shorter side; v0 is of its length.
    return_singular_vectors : {True, False, "u", "vh"}
        Which vectors the result holds; False: s alone.
    out : path, optional
        A Zarr group for u, v, s and residuals. Default: scratch; deleted when the last handle on the vectors
        dies.

    Returns
    -------
    SvdsResult
        Unpacks as ``U, s, Vt``, largest first; None for what is left out.

    Raises
    ------
    ShapeError
        A is dense and complex, or no matrix; k, block or ncv are out of range.
    NumericalError
        A holds NaN or Inf.
    ConvergenceError
        After `maxiter` applications; `partial` holds what was reached.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    An application reads A once and takes 4 b nnz flops (dense: 4 b m n); a sparse A with fewer rows than a
    quarter of its columns is read twice. All vectors go to disk; after the solver, which holds what `eigsh`
    does, the last pass holds two blocks of the shorter side's (where A is read twice one of the longer side's
    too), as wide as the solver's or 64 MiB, and reads A once for each. AᵀA has the squares of σ: values below
    1e-7 σ₁ are not told from 0, and their vectors on the longer side are zeros.
    """
    return Svds(
        Call("svds", memory), A, k, return_singular_vectors, v0, out, memory, tol=tol, method=method,
        block=block, ncv=ncv, keep=keep, maxiter=maxiter, passes=passes, seed=seed, verify=verify,
    )  # fmt: skip


@resumable("svds")
def _again(path: str, told: dict[str, Any]) -> Again:
    return svds, (operand("A", told["a"]), told["k"]), options_again("svds", told, _OPTIONS) | {"out": path}
