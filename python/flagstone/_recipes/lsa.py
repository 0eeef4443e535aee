"""Latent semantic analysis: leading singular triplets of tf-idf weighted counts, which are never written."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._errors.classes import NumericalError, ShapeError
from .._resume.identity import identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import whole_number
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import Prepared, Routine, routine
from .._runtime.runtime import stats
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.pending import SparsePass
from .._sparse.to_csr import sparse_by_rows
from .._spectral.svds import Svds

__all__ = ["LsaResult", "lsa"]

_BLOCK = 1 << 20  # bytes of vectors at a time, while words are looked for
_PER_ROW, _PER_COLUMN = 48, 48  # norms and factors, the core's copies of them, what is on the way


@dataclass(frozen=True, eq=False, repr=False)
class LsaResult:
    """Directions of documents by words; unpacks as ``U, s, Vt``.

    Attributes
    ----------
    U : Array, m x k
        A row for each document.
    s : ndarray, k
        Singular values of the weighted counts, largest first.
    Vt : Array, k x n
        A row for each direction: weights of words.
    idf : ndarray, n
        Weights of words, as scikit-learn's TfidfTransformer gives them.
    residual : ndarray, k
        ‖Xᵀu - σ v‖ of every direction, measured.
    applications : int
        Products of XᵀX (or X Xᵀ) with a block of vectors.
    passes : int
        Reads of X, those for the weights included.
    """

    U: Array
    s: NDArray[Any]
    Vt: Array
    idf: NDArray[Any]
    residual: NDArray[Any]
    applications: int
    passes: int

    def __iter__(self) -> Any:
        """Yield U, s and Vt."""
        return iter((self.U, self.s, self.Vt))

    def top_words(self, number: int = 10) -> NDArray[np.int64]:
        """Return the words of the largest weights of each direction.

        Parameters
        ----------
        number : int
            How many of each.

        Returns
        -------
        ndarray, k x number
            Columns of the counts, the largest weight first. A direction has two ends; the one with the larger
            weight is taken. One read of V.
        """
        number = whole_number("top_words", "number", number)
        ends = []
        for sign in (1, -1):
            weights, words = np.empty((0, len(self.s))), np.empty((0, len(self.s)), np.int64)
            for first, block in _row_blocks(self.Vt.T):
                weights = np.concatenate([weights, sign * block])
                places = np.repeat(np.arange(first, first + len(block))[:, None], len(self.s), axis=1)
                words = np.concatenate([words, places])
                order = np.argsort(-weights, axis=0, kind="stable")[:number]
                weights = np.take_along_axis(weights, order, axis=0)
                words = np.take_along_axis(words, order, axis=0)
            ends.append((weights, words))
        (up, above), (down, below) = ends
        return np.where(up[0] >= down[0], above, below).T

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.4g}" for value in self.s[:5]) + (", ..." if len(self.s) > 5 else "")
        return (
            f"<flagstone.LsaResult of {self.U.shape[0]} x {self.Vt.shape[1]}, {len(self.s)} directions\n"
            f"  s         {shown}\n"
            f"  residual  at most {float(self.residual.max(initial=0)):.2g}\n"
            f"  U         {self.U!r}>"
        )


def _row_blocks(V: Array) -> Iterator[tuple[int, NDArray[Any]]]:
    step = max(1, _BLOCK // (8 * V.shape[1]))
    for first in range(0, V.shape[0], step):
        yield first, np.asarray(V[first : first + step])


LsaResult.__module__ = "flagstone"  # said in its body, dataclass would look for that module


class _Triplets(Svds):
    """The triplets, with the weights of words in their group."""

    operation = "lsa"

    def __init__(self, asked: _Lsa, view: Any, idf: NDArray[np.float64] | None) -> None:
        self.asked_of, self.idf = asked, idf
        super().__init__(
            Call("lsa", asked.memory), view, asked.k, True, None, asked.out, asked.memory, tol=asked.tol,
            method="auto", block=None, ncv=None, keep=None, maxiter=None, passes=None, seed=asked.seed,
            verify=True,
        )  # fmt: skip
        if not asked.again:
            self.operation = ""

    def arguments(self) -> dict[str, Any]:
        """Return what the caller asked for: the view follows from it."""
        asked = self.asked_of
        return {"x": identity(asked.X), "k": asked.k, "tol": float(asked.tol), "seed": int(asked.seed)}

    def members(self) -> dict[str, Any]:
        """Write the weights."""
        assert self.idf is not None
        self.place.write("idf", self.idf, ["column"])
        return {}


class _Lsa(Routine[LsaResult]):
    """The checked arguments of one call, and its three steps: documents of words, lengths, triplets."""

    def __init__(self, X: Any, k: int, tol: float, seed: int, out: Any, memory: Any) -> None:
        super().__init__(Call("lsa", memory))
        if not isinstance(X, SparseArray) and not hasattr(X, "tocsr"):
            raise TypeError(
                f"lsa: X is {type(X).__name__}; a sparse matrix of documents x words is needed (fl.open, or "
                "SciPy's)."
            )
        if X.dtype.kind not in "biuf":
            raise ShapeError(f"lsa: X is {X.dtype}; counts are needed.")
        given = X if isinstance(X, SparseArray) else from_blocks([X])
        self.X = sparse_by_rows("lsa", given, memory)
        if 0 in self.X.shape:
            raise ShapeError(f"lsa: X is {shape_text(self.X.shape)}; documents and words are needed.")
        #: what is turned, or made of SciPy's, goes with the process: such a call is begun again
        self.again = self.X is X
        self.k, self.tol, self.seed, self.out, self.memory = k, tol, seed, out, memory
        self.call.on(self.X.path)

    def _counts(self) -> SparsePass:
        """Return the pass over documents of words: counts, and the least values."""
        step = SparsePass(Call("lsa", self.memory), self.X, "float64")
        self._places: tuple[Any, ...] = (
            step.fold("nonzero", False),
            step.fold("min", False),
            step.fold("sum", False),
        )
        return step

    def _lengths(self, weighted: Any) -> SparsePass:
        """Return the pass over the lengths of documents."""
        step = SparsePass(Call("lsa", self.memory), weighted.map("square"), "float64")
        self._places = (step.fold("sum", True),)
        return step

    def _steps(self) -> tuple[SparsePass, SparsePass, _Triplets]:
        """Return the steps as they can be counted before anything is read: unweighted."""
        plain = self.X.astype(np.float64)
        return self._counts(), self._lengths(plain), _Triplets(self, plain, None)

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that are held beside the steps."""
        rows, columns = self.X.shape
        return _PER_ROW * rows + _PER_COLUMN * columns

    def least(self, beside: int = 0) -> int:
        """Return the bytes that the steps need, with `beside` of the caller's."""
        # What one step leaves touched of the reserve (stacks, BLAS) is resident when the next asks anew.
        held = beside + self.beside + self.call.engine.reserve
        return max(step.least(held) for step in self._steps())

    def check(self, beside: int = 0) -> int:
        """Return the least limit that works, or refuse the one that was given; nothing has been read."""
        needed = self.least(beside)
        self.call.check_least(needed)
        return self.call.rounded(needed)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = f"{self.X.stored_values:,} stored values"
        return f"lsa {shape_text(self.X.shape)} sparse, {stored}, k = {self.k}"

    def plan(self) -> Plan:
        """Count the steps."""
        least = self.check()
        parts = [step.plan() for step in self._steps()]
        last, before = parts[-1], sum(part.seconds for part in parts[:-1])
        return dataclasses.replace(
            together(self.what, parts),
            method=last.method, note=last.note, passes=last.passes + 2, least_memory=least,
            most_passes=last.most_passes and last.most_passes + 2,
            peak_memory=min(self.call.memory, max(part.peak_memory for part in parts) + self.beside),
            least_seconds=last.least_seconds and last.least_seconds + before,
            most_seconds=last.most_seconds and last.most_seconds + before,
        )  # fmt: skip

    def _idf(self) -> NDArray[np.float64]:
        """Read X once; return ln((1 + m) ÷ (1 + documents of the word)) + 1."""
        self._counts().run()
        documents, least, sums = (np.asarray(place.result) for place in self._places)
        for wrong in np.flatnonzero(~np.isfinite(sums[0]))[:1]:
            raise NumericalError(
                f"lsa: the counts of word {wrong} sum to {sums[0][wrong]}; give finite ones."
            )
        stored = documents[1] > 0
        for wrong in np.flatnonzero(stored & (least[0] < 0))[:1]:
            raise ShapeError(
                f"lsa: word {wrong} has the count {least[0][wrong]:g}; counts of 0 or more are needed."
            )
        rows = self.X.shape[0]
        idf: NDArray[np.float64] = np.log((1 + rows) / (1 + documents[0])) + 1
        return idf

    def run(self) -> LsaResult:
        """Do it: X is read for the words, for the lengths of documents, and as often as the solver does."""
        self.check()
        idf = self._idf()
        done = [stats()]
        weighted = self.X.astype(np.float64).scale(columns=idf)
        self._lengths(weighted).run()
        lengths = np.sqrt(np.asarray(self._places[0].result)[:, 0])
        done.append(stats())
        lengths[lengths == 0] = 1  # empty documents stay empty
        step = _Triplets(self, weighted.scale(rows=1 / lengths), idf)
        found = step.run()
        done.append(stats())
        self.call.keep(dataclasses.replace(
            together(self.what, done),
            method=done[-1].method, note=done[-1].note, passes=sum(one.passes for one in done),
            resident_at_entry=done[0].resident_at_entry,
        ))  # fmt: skip
        return LsaResult(
            found.U, found.s, found.Vt, idf, found.residual, found.applications, found.passes + 2
        )


@routine
def lsa(
    X: Any, k: int = 100, *, tol: float = 1e-4, seed: int = 0, out: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
) -> Prepared[LsaResult]:  # fmt: skip
    """Return the k leading directions of tf-idf weighted counts, inside a memory limit.

    Counts times ``ln((1 + m) / (1 + documents of the word)) + 1``, each document divided by its length: as
    scikit-learn's TfidfTransformer weighs them by default. The weighted matrix is a view and never written.

    Parameters
    ----------
    X : SparseArray or SciPy matrix, m x n
        Counts, documents x words.
    k : int
        Directions, between 1 and min(m, n).
    tol : float
        Bound of residuals, as of `linalg.svds`.
    seed : int
        Of the random start.
    out : path, optional
        A Zarr group for u, v, s, idf and residuals. Default: scratch; deleted when the last handle on the
        vectors dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    LsaResult
        Unpacks as ``U, s, Vt``; `top_words` names what each direction is made of.

    Raises
    ------
    ShapeError
        A count is negative; k is out of range.
    NumericalError
        X holds NaN or Inf.
    ConvergenceError
        `partial` holds what was reached.
    BudgetError
        The limit is too small; names the least that works for all steps, before anything is read.

    Notes
    -----
    Reads X once for the words and once for the documents, then as often as `linalg.svds` does. Beside it: 48
    bytes a document and a word. No centring: Deerwester et al. 1990.
    """
    return _Lsa(X, k, tol, seed, out, memory)


@resumable("lsa")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {name: told[name] for name in ("tol", "seed")}
    return lsa, (operand("X", told["x"]), told["k"]), options | {"out": path}
