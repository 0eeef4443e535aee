"""Principal components of matrices that are larger than memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, is_transposed
from .._errors.classes import Error, ShapeError
from .._expression.operand import lazy_operand
from .._output.axis_names import names_of
from .._output.column_names import columns_of
from .._output.create import from_numpy
from .._output.path_place import GroupPlace
from .._output.replaceable import check_path
from .._resume.identity import identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import sparse_by_rows
from .annotated import matrix_in
from .result import SMALL, PcaResult

__all__ = ["pca"]


class Pca(Routine[PcaResult]):
    """The checked arguments of one decomposition."""

    operation = "pca"
    plans_beyond = False  # refused by the plan as by the run

    def __init__(
        self, X: Any, k: int, center: bool, method: str, tol: float, seed: int, out: Any, memory: Any,
        members: dict[str, NDArray[Any]] | None = None,
    ) -> None:  # fmt: skip
        """`members` appear with the result, in its group."""
        if method not in ("auto", "gram", "krylov", "krylov-schur"):
            raise ShapeError(f"pca: method is {method!r}; choose 'auto', 'gram', 'krylov' or 'krylov-schur'.")
        if not 0 < tol < 1:
            raise ShapeError(f"pca: tol is {tol}; a number between 0 and 1 is needed.")
        if not hasattr(seed, "__index__") or not 0 <= seed < 1 << 64:
            raise ShapeError(f"pca: seed is {seed}; an integer of 0 or more is needed.")
        if isinstance(k, bool) or not hasattr(k, "__index__"):
            raise ShapeError(f"pca: k is {k!r}; an integer is needed.")
        call = Call("pca", memory, light=True)
        self.X = self._operand(lazy_operand(call, matrix_in("pca", X)))
        self.columns = self._columns(X)
        shape = self.X.shape
        if len(shape) != 2 or not 1 <= k <= min(shape):
            raise ShapeError(
                f"pca: k is {k} and X is {shape_text(tuple(shape))}; k must lie between 1 and "
                f"{min(shape, default=0)}."
            )
        self.k, self.center, self.out = int(k), bool(center), out
        if out is not None:
            check_path("pca", out)
        if isinstance(self.X, SparseArray):
            # What is turned into scratch goes with the process: such a call is begun again.
            self.operation = "" if is_transposed(self.X) else "pca"
            self.X = sparse_by_rows("pca", self.X, memory)
        super().__init__(call)
        call.begin()
        self.call.on(*(Operand.of(self.X).paths if isinstance(self.X, Array) else [self.X.path]))
        self.options = _core.PcaOptions(self.k, self.center, method, float(tol), int(seed))
        self.asked = {
            "k": self.k, "center": self.center, "method": method, "tol": float(tol), "seed": int(seed)
        }  # fmt: skip
        self.input = self._input()
        _core.check_pca(self.input, self.options)
        self.members = members or {}
        self.place = self._place((shape[0], self.k))
        self.places = [self.place]
        self.call.outputs = self.place.named(1 + len(SMALL))

    def _place(self, shape: tuple[int, int]) -> GroupPlace:
        dtype = np.dtype(_core.scores_dtype(self.input))
        columns = self.X.shape[1]
        small = 8 * (self.k * (columns + 5) + columns) + sum(m.nbytes for m in self.members.values())
        return GroupPlace(
            self.call, self.out, "scores", ["row", "component"], shape, dtype,
            _core.scores_chunks(self.input, self.k), shape[0] * self.k * dtype.itemsize + small,
        )  # fmt: skip

    @staticmethod
    def _operand(X: Any) -> Any:
        if isinstance(X, Array):
            X.flush()
            return X
        if isinstance(X, SparseArray):
            return X
        if hasattr(X, "tocsr"):
            return from_blocks([X])
        values = np.asarray(unmasked("pca", X))
        if values.ndim != 2 or values.dtype.kind not in "biufc":
            raise ShapeError(f"pca: X is {type(X).__name__} of {values.ndim} dimensions; a matrix is needed.")
        return from_numpy(values)

    def _columns(self, given: Any) -> list[str | None] | None:
        """Return the names of the columns: those of a table, or of an AnnData's variables."""
        if isinstance(self.X, Array) and (named := columns_of(self.X)) is not None:
            return named
        names = names_of(self.X, 1)
        if names is None and (held := getattr(given, "var_names", None)) is not None:
            names = np.asarray(held).astype(np.str_)
        return None if names is None else [str(name) for name in names]

    def _input(self) -> _core.PcaInput:
        if isinstance(self.X, SparseArray):
            return _core.PcaInput(None, False, self.X.operand())
        x = Operand.of(self.X)
        return _core.PcaInput(x.core, x.transposed, None)

    @property
    def what(self) -> str:
        stored = f" sparse, {self.X.stored_values:,} stored values" if isinstance(self.X, SparseArray) else ""
        return f"pca {shape_text(self.X.shape)} {self.X.dtype.name}{stored}, k = {self.k}"

    def job(self, at: At) -> _core.PcaJob:
        scores = at(self.place)  # first: the place is open from here on, and has its checkpoint
        return _core.pca_job(
            self.input, self.options, scores, self.call.engine.profile, self.place.checkpoint
        )

    def how(self, job: _core.PcaJob) -> How:
        choice = job.choice
        method = str(choice.method) + (f", block {choice.block}" if choice.block > 1 else "")
        return How(method, job.passes or choice.passes, choice.note, choice.most_passes, choice.least_passes)

    def arguments(self) -> dict[str, Any]:
        return {"x": identity(self.X), "members": sorted(self.members)} | self.asked

    def effort(self) -> tuple[float, float]:
        """Return the flops of block Krylov with six passes, and the bytes of these and of the start."""
        m, n = self.X.shape
        values = self.X.stored_values if isinstance(self.X, SparseArray) else m * n
        stored = self.X.stored_bytes if isinstance(self.X, SparseArray) else self.X.nbytes
        return 4.0 * 6 * 1.25 * self.k * values, 7.0 * stored

    def result(self, job: _core.PcaJob) -> PcaResult:
        arrays = {name: getattr(job, name) for name in SMALL}
        arrays["components"] = arrays["components"].reshape(self.k, self.X.shape[1])
        for name, values in {**arrays, **self.members}.items():
            along = "component" if name in SMALL and name != "mean" else "column"
            named = self.columns if name == "components" else None
            self.place.write(name, values, ["component", "column"] if values.ndim == 2 else [along], named)
        about = {"routine": "pca", "method": job.method, "passes": job.passes, "center": self.center,
                 "version": _core.__version__}  # fmt: skip
        return PcaResult(scores=self.place.close({"flagstone": about}), **arrays)


@routine
def pca(
    X: Any, k: int, *, center: bool = True, method: str = "auto", tol: float = 1e-5, seed: int = 0,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Prepared[PcaResult]:  # fmt: skip
    """Return the k leading principal components of X, inside a memory limit.

    X is centred without being changed or made dense; the scores go to disk.

    Parameters
    ----------
    X : Array, Expression, SparseArray, ndarray or SciPy matrix, m x n
        Real numbers; tall or wide; an AnnData, its `X` or a data set of h5py too: of one that is backed by a
        file, what lies there. A lazy expression (``A - A.mean(0)``) is computed where it is loaded, once
        a pass, and stored nowhere. What is sparse and stored by columns (CSC) is turned round into scratch,
        once for a handle: one more read, 3 to 8 bytes written a stored value.
    k : int
        Components, between 1 and min(m, n).
    center : bool
        Subtract the column means (False: a truncated SVD).
    method : {"auto", "gram", "krylov", "krylov-schur"}
        "gram": a pass builds the Gram matrix of the smaller side, one writes the scores. "krylov": randomized
        block Krylov with as few passes as `tol` needs, its basis in memory. "krylov-schur": restarted, as
        `flagstone.linalg.eigsh`, its basis in scratch where it does not fit. "auto" compares the costs of the
        first two; the plan says which and why.
    tol : float
        Bound of the error of the singular values, relative to the largest.
    seed : int
        Of the random start; the same seed gives the same bits for every memory limit and worker count that
        use the same method.
    out : path, optional
        A Zarr group that will hold scores, components, singular_values and the rest; replaced at once and
        whole. Default: scratch; deleted when the last handle on the scores dies, at the latest with the
        process.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    PcaResult
        Named tuple, with ``transform(Y)``.

    Raises
    ------
    ShapeError
        k out of range, complex X.
    NumericalError
        X holds NaN or Inf; names the first row and column.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    gram: 2 reads of X; n² m flops dense, Σ nnz(row)² sparse. krylov: one read of X per block step (4 b nnz
    flops for block b, dense 4 b m n); krylov-schur the same, and each σ is within tol σ (the residual of XᵀX
    is at most tol σ²). All write m k scores. ``pca.plan(...)`` takes the same arguments and counts.
    """
    return Pca(X, k, center, method, tol, seed, out, memory)


@resumable("pca")
def _again(path: str, told: dict[str, Any]) -> Again:
    if told["members"]:
        raise Error("resume: the components belong to a recipe; make the same call of it again.")
    options = {name: told[name] for name in ("center", "method", "tol", "seed")}
    return pca, (operand("X", told["x"]), told["k"]), options | {"out": path}
