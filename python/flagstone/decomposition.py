"""Principal components of matrices that are larger than memory."""

from __future__ import annotations

import errno
import json
import os
import shutil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _core, scratch
from .array import Array, open_core, shape_text
from .config import Call
from .creation import Destination, from_numpy, in_group
from .csr_builder import from_blocks
from .errors import ShapeError, storage_error
from .expression import Expression
from .outputs import check_path
from .plan import Plan, routine
from .records import UNRECORDED, Record, identity, seconds_of, sync_tree
from .scratch import whole_or_nothing
from .sparse import SparseArray

__all__ = ["PcaResult", "open_pca", "pca"]

_SMALL = (
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

    def transform(
        self, Y: Any, *, out: str | os.PathLike[str] | None = None, memory: int | str | None = None
    ) -> Any:
        """Return ``(Y - mean) componentsᵀ``.

        Parameters
        ----------
        Y : ndarray, Array, SparseArray or SciPy matrix, rows x n
            A NumPy or SciPy matrix gives an ndarray, one on disk an Array.
        out : path, optional
            Where an Array result goes; default: scratch, until its handle dies.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Notes
        -----
        Reads Y once; 2 rows n k flops (sparse: 2 nnz k).
        """
        n = self.components.shape[1]
        shape = Y.shape if hasattr(Y, "shape") else np.shape(Y)
        if len(shape) != 2 or shape[1] != n:
            raise ShapeError(
                f"transform: Y is {shape_text(tuple(shape))}; {n} columns are needed, as in the fit."
            )
        if isinstance(Y, SparseArray):
            return _transform_sparse(self, Y, out, memory)
        if isinstance(Y, Array) and Y.path:
            return _transform_dense(self, Y, out, memory)
        if hasattr(Y, "tocsr"):
            return np.asarray(Y @ self.components.T) - self.mean @ self.components.T
        values = np.asarray(Y)
        result = (values - self.mean) @ self.components.T
        return result.astype(np.float32) if values.dtype == np.float32 else result


class _Result:
    """Where the scores of a call go: a group (out=path or scratch) that appears whole."""

    def __init__(self, call: Call, out: Any, nbytes: int, record: Record) -> None:
        self._place = call.result(call.who, nbytes) if out is None else None
        self.path = os.fspath(out) if self._place is None else self._place.path
        if self.path.endswith(".npy"):
            raise ShapeError(
                f"{call.who}: out '{self.path}' must be a Zarr directory; it holds several arrays."
            )
        in_group(call.who, self.path)
        output = record.output(self.path, True, nbytes)
        self._output: _core.Output | None = output
        self.directory, self._record = output.directory, record

    def scores(self, shape: tuple[int, int], dtype: str, chunks: tuple[int, ...]) -> _core.Array:
        place = f"{self.directory}/scores"
        if self._record.resumed:  # the pass that writes them starts again
            for name in os.listdir(self.directory):
                shutil.rmtree(f"{self.directory}/{name}", ignore_errors=True)
        _core.write_group(self.directory, "{}")
        made = _core.create_zarr(
            place, list(shape), dtype, list(chunks), dimension_names=["row", "component"]
        )
        if self._record.text:
            sync_tree(self.directory)
        return made

    def leave(self) -> None:
        """Let the state stay, for a call that goes on with it."""
        if self._output is not None:
            self._output.leave()

    def write(self, call: Call, name: str, values: NDArray[Any]) -> None:
        values = np.ascontiguousarray(values)
        along = "component" if name in _SMALL and name != "mean" else "column"
        names = ["component", "column"] if values.ndim == 2 else [along]
        core = _core.create_zarr(
            f"{self.directory}/{name}", list(values.shape), values.dtype.name, dimension_names=names
        )
        call.engine.write_boxes(core, [([0] * values.ndim, values)], 1 << 20)
        core.flush()

    def discard(self) -> None:
        self._output = None
        if self._place is not None:
            self._place.discard()

    def publish(self, attributes: dict[str, Any]) -> Array:
        _core.write_group(self.directory, json.dumps(attributes))
        if self._output is not None:
            self._output.publish()
        scores = Array(open_core(f"{self.path}/scores", "r"), "r")
        if self._place is not None:
            self._place.tie(scores)
        return scores


class _Pca:
    """The checked arguments of one decomposition."""

    def __init__(
        self, X: Any, k: int, center: bool, method: str, tol: float, seed: int, out: Any, memory: Any
    ) -> None:
        if method not in ("auto", "gram", "krylov"):
            raise ShapeError(f"pca: method is {method!r}; choose 'auto', 'gram' or 'krylov'.")
        if not 0 < tol < 1:
            raise ShapeError(f"pca: tol is {tol}; a number between 0 and 1 is needed.")
        if not hasattr(seed, "__index__") or not 0 <= seed < 1 << 64:
            raise ShapeError(f"pca: seed is {seed}; an integer of 0 or more is needed.")
        if isinstance(k, bool) or not hasattr(k, "__index__"):
            raise ShapeError(f"pca: k is {k!r}; an integer is needed.")
        self.X = self._operand(X)
        shape = self.X.shape
        if len(shape) != 2 or not 1 <= k <= min(shape):
            raise ShapeError(
                f"pca: k is {k} and X is {shape_text(tuple(shape))}; k must lie between 1 and "
                f"{min(shape, default=0)}."
            )
        self.k, self.center, self.out = int(k), bool(center), out
        if out is not None:
            check_path("pca", out)
        self.call = Call("pca", memory)
        self.call.on(self.X.path)
        self.call.outputs = 1 + len(_SMALL)
        self.options = _core.PcaOptions(self.k, self.center, method, float(tol), int(seed))
        self.asked = {
            "k": self.k, "center": self.center, "method": method, "tol": float(tol), "seed": int(seed)
        }  # fmt: skip
        self.input = self._input()
        _core.check_pca(self.input, self.options)
        self.shape = (shape[0], self.k)
        self.dtype = str(_core.scores_dtype(self.input))
        self.chunks = tuple(_core.scores_chunks(self.input, self.k))

    @staticmethod
    def _operand(X: Any) -> Any:
        if isinstance(X, Array):
            X.flush()
            return X
        if isinstance(X, SparseArray):
            if X._transposed:
                raise ShapeError(
                    "pca: X is a transposed sparse matrix; store the transpose (from_blocks) and pass that."
                )
            return X
        if hasattr(X, "tocsr"):
            return from_blocks([X])
        if isinstance(X, Expression):
            raise TypeError(
                "pca: X is a lazy expression; store it first with flagstone.compute(X, out=...) "
                "(without out=: in scratch)."
            )
        values = np.asarray(X)
        if values.ndim != 2 or values.dtype.kind not in "biufc":
            raise ShapeError(f"pca: X is {type(X).__name__} of {values.ndim} dimensions; a matrix is needed.")
        return from_numpy(values)

    def _input(self) -> _core.PcaInput:
        if isinstance(self.X, SparseArray):
            return _core.PcaInput(None, False, self.X.operand())
        return _core.PcaInput(self.X._core, self.X._transposed, None)

    @property
    def what(self) -> str:
        stored = f" sparse, {self.X.stored_values:,} stored values" if isinstance(self.X, SparseArray) else ""
        return f"pca {shape_text(self.X.shape)} {self.X.dtype.name}{stored}, k = {self.k}"

    @property
    def nbytes(self) -> int:
        return int(self.shape[0] * self.k * np.dtype(self.dtype).itemsize)

    def job(self, scores: _core.Array, checkpoint: _core.Checkpoint | None = None) -> _core.PcaJob:
        return _core.pca_job(self.input, self.options, scores, self.call.engine.profile, checkpoint)

    def _record(self, members: dict[str, NDArray[Any]] | None) -> Record:
        """Return the record of the call; the passes are counted as for block Krylov."""
        if self.out is None:
            return UNRECORDED
        m, n = self.X.shape
        values = self.X.stored_values if isinstance(self.X, SparseArray) else m * n
        stored = self.X.stored_bytes if isinstance(self.X, SparseArray) else self.X.nbytes
        seconds = seconds_of(4.0 * 6 * 1.25 * self.k * values, 7 * stored)

        def arguments() -> dict[str, Any]:
            return {"x": identity(self.X), "members": sorted(members or {})} | self.asked

        return Record("pca", arguments, seconds, self.call.runtime)

    def planned(self) -> _core.PcaJob:
        return self.job(_core.planned_array(list(self.shape), self.dtype, list(self.chunks)))

    def plan(self) -> Plan:
        self.call.use_profile()
        job = self.planned()
        least = self.call.least_memory(job)
        if least > self.call.memory:
            self.call.check_memory(job)
        counted = self.call.plan(job)
        choice = job.choice
        return self.call.to_plan(
            counted, least, self.what, _method(choice), choice.passes, choice.note, choice.most_passes
        )

    def run(self, members: dict[str, NDArray[Any]] | None = None) -> PcaResult:
        """Decompose; `members` appear with the result, in its group."""
        beside = members or {}
        self.call.check_memory(self.planned())
        small = 8 * (self.k * (self.X.shape[1] + 5) + self.X.shape[1]) + sum(
            m.nbytes for m in beside.values()
        )
        record = self._record(members)
        target = _Result(self.call, self.out, self.nbytes + small, record)
        with whole_or_nothing(target), record.kept(target):
            return self._run(target, beside, record)

    def _run(self, target: _Result, members: dict[str, NDArray[Any]], record: Record) -> PcaResult:
        core = target.scores(self.shape, self.dtype, self.chunks)
        job = self.job(core, record.checkpoint)
        done = self.call.run(job)
        core.flush()
        choice = job.choice
        self.call.record(done, self.what + record.where, _method(choice), job.passes, choice.note)
        arrays = {name: getattr(job, name) for name in _SMALL}
        arrays["components"] = arrays["components"].reshape(self.k, self.X.shape[1])
        for name, values in {**arrays, **members}.items():
            target.write(self.call, name, values)
        about = {"routine": "pca", "method": job.method, "passes": job.passes, "center": self.center,
                 "version": _core.__version__}  # fmt: skip
        scores = target.publish({"flagstone": about})
        return PcaResult(scores=scores, **arrays)


def _method(choice: _core.PcaChoice) -> str:
    return str(choice.method) + (f", block {choice.block}" if choice.block > 1 else "")


def _transform_sparse(result: PcaResult, Y: SparseArray, out: Any, memory: Any) -> Array:
    if Y._transposed:
        raise ShapeError("transform: Y is a transposed sparse matrix; store the transpose and pass that.")
    call = Call("transform", memory)
    k, operand = len(result.components), Y.operand()
    dtype = "float32" if Y.dtype.itemsize <= 4 else "float64"
    axes = _core.memory_array(np.ascontiguousarray(result.components.T, dtype))
    shift = _core.memory_array(np.ascontiguousarray(result.mean[None, :], np.float64))
    shape, chunks = (Y.shape[0], k), (int(operand.panel_rows), k)
    planned = _core.planned_array(list(shape), dtype, list(chunks))
    call.check_memory(_core.csr_multiply_job(operand, axes, shift, planned))
    place = _place(call, out, shape, dtype)
    destination = Destination("transform", out if place is None else place.path, shape, dtype, chunks, True)
    with whole_or_nothing(destination, place):
        done = call.run(_core.csr_multiply_job(operand, axes, shift, destination.core))
        call.record(done, f"transform {shape_text(Y.shape)} sparse", "row panels", 1)
        return _finish(destination, place)


def _transform_dense(result: PcaResult, Y: Array, out: Any, memory: Any) -> Array:
    """Row blocks through memory: (Y_i - mean) componentsᵀ."""
    call = Call("transform", memory)
    k, n = result.components.shape
    dtype = "float32" if Y.dtype.itemsize <= 4 else "float64"
    shape = (Y.shape[0], k)
    axes = np.ascontiguousarray(result.components.T)
    # A row as read, centred and projected; beside the rows, what the transfers stage.
    per_row, staged = (Y.dtype.itemsize + 8) * n + 40 * k, 40 << 20
    call.room("one row and the transfers", per_row + staged)
    free = min(64 << 20, call.memory - _core.resident_bytes() - staged)
    rows = max(1, min(Y.shape[0], free // per_row))
    place = _place(call, out, shape, dtype)
    with call.measured(f"transform {shape_text(Y.shape)}", "row blocks") as done:
        destination = Destination("transform", out if place is None else place.path, shape, dtype, None, True)
        target = Array(destination.core, "r+")
        target._dirty = True  # built aside: no mark is needed
        with whole_or_nothing(destination, place):
            for first in range(0, Y.shape[0], rows):
                block = Y._take(call, np.s_[first : first + rows])
                target._assign(call, np.s_[first : first + rows], (block - result.mean) @ axes)
            done.bytes_read, done.bytes_written = Y.nbytes, target.nbytes
            return _finish(destination, place)


def _place(call: Call, out: Any, shape: tuple[int, int], dtype: str) -> scratch.Result | None:
    if out is not None:
        check_path("transform", out)
        return None
    return call.result("transform", shape[0] * shape[1] * np.dtype(dtype).itemsize)


def _finish(destination: Destination, place: scratch.Result | None) -> Array:
    array = destination.publish()
    if place is not None:
        place.tie(array)
    return array


def open_pca(path: str | os.PathLike[str]) -> PcaResult:
    """Return the result that ``pca(..., out=path)`` wrote."""
    place = os.fspath(path)
    if not os.path.isdir(f"{place}/scores"):
        raise storage_error(f"open_pca: '{place}' is no result of pca.", errno.ENOENT, place)
    arrays = {name: Array(open_core(f"{place}/{name}", "r"))[...] for name in _SMALL}
    return PcaResult(scores=Array(open_core(f"{place}/scores", "r")), **arrays)


def _plan(
    X: Any, k: int, *, center: bool = True, method: str = "auto", tol: float = 1e-5, seed: int = 0,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Plan:  # fmt: skip
    return _Pca(X, k, center, method, tol, seed, out, memory).plan()


@routine(_plan)
def pca(
    X: Any, k: int, *, center: bool = True, method: str = "auto", tol: float = 1e-5, seed: int = 0,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> PcaResult:  # fmt: skip
    """Return the k leading principal components of X, inside a memory limit.

    X is centred without being changed or made dense; the scores go to disk.

    Parameters
    ----------
    X : Array, SparseArray, ndarray or SciPy matrix, m x n
        Real numbers; tall or wide.
    k : int
        Components, between 1 and min(m, n).
    center : bool
        Subtract the column means (False: a truncated SVD).
    method : {"auto", "gram", "krylov"}
        "gram": a pass builds the Gram matrix of the smaller side, one writes the scores. "krylov": randomized
        block Krylov with as few passes as `tol` needs. "auto" compares the two costs; the plan says which
        and why.
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
    flops for block b, dense 4 b m n). Both write m k scores. ``pca.plan(...)`` takes the same arguments and
    counts.
    """
    return _Pca(X, k, center, method, tol, seed, out, memory).run()
