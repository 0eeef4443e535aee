"""Maps of graphs: leading eigenvectors of D^-½ A D^-½ of the largest component, and clusters of them."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import built_aside
from .._array.requests import take
from .._errors.classes import ShapeError
from .._resume.identity import identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.call import Call
from .._runtime.plan import Plan, together
from .._runtime.routine import Prepared, Routine, routine
from .._runtime.runtime import stats
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks
from .._sparse.to_csr import sparse_by_rows
from .._spectral.eigsh import Eigsh
from .._spectral.operators import Hermitian
from .clusters import clusters, clusters_bytes
from .components import components, components_bytes
from .result import EmbeddingResult

__all__ = ["spectral_embedding"]

#: Of a vertex beside the solver: its number (three times where some are left out), degree, factor (three
#: times), place (three times), id, cluster.
_PER_VERTEX = 96
_SECONDS = 60e-9  # of a stored value, on the caller's thread: decoded, its labels looked up


class _Part(NamedTuple):
    """The component that is taken."""

    vertices: NDArray[np.int64]
    degrees: NDArray[np.float64]
    ids: NDArray[Any]
    components: int
    isolated: int
    left_out: int

    def view(self, A: SparseArray) -> Any:
        """Return D^-½ A D^-½ of the component, lazily."""
        chosen = A[self.vertices, self.vertices] if self.left_out else A
        factors = 1 / np.sqrt(self.degrees)
        return chosen.astype(np.float64).scale(rows=factors, columns=factors)


class _Pairs(Eigsh):
    """The eigenpairs, with what is known of the vertices in their group."""

    operation = "spectral_embedding"

    def __init__(self, asked: _Embedding, view: Any, part: _Part | None) -> None:
        call = Call(asked.call.who, asked.memory)
        self.asked_of, self.part = asked, part
        self.clusters: NDArray[np.int32] = np.empty(0, np.int32)
        super().__init__(
            call, Hermitian(call, view, asked.memory), asked.k, which="LA", tol=asked.tol, method="auto",
            block=None, ncv=None, keep=None, maxiter=None, passes=None, v0=None, seed=asked.seed, verify=True,
            return_eigenvectors=True, out=asked.out,
        )  # fmt: skip
        self.place.nbytes += 28 * self.A.n
        if not asked.again:
            self.operation = ""

    def arguments(self) -> dict[str, Any]:
        """Return what the caller asked for: the view follows from it."""
        return self.asked_of.told

    def members(self) -> dict[str, Any]:
        """Write clusters, vertices, their ids and degrees."""
        part = self.part
        assert part is not None
        self.place.core.flush()
        vectors = built_aside(self.place.core)
        self.clusters = clusters(self.call, vectors, self.asked_of.clusters, self.asked_of.seed)
        beside: dict[str, NDArray[Any]] = {
            "clusters": self.clusters, "vertices": part.vertices, "ids": part.ids, "degrees": part.degrees,
        }  # fmt: skip
        for name, values in beside.items():
            self.place.write(name, values, ["row"])
        return {name: getattr(part, name) for name in ("components", "isolated", "left_out")}


class _Embedding(Routine[EmbeddingResult]):
    """The checked arguments of one call, and its two steps: components, eigenpairs."""

    def __init__(
        self, A: Any, k: int, number: int | None, tol: float, seed: int, out: Any, memory: Any
    ) -> None:
        who = "spectral_embedding"
        super().__init__(Call(who, memory))
        if not isinstance(A, SparseArray) and not hasattr(A, "tocsr"):
            raise TypeError(
                f"{who}: A is {type(A).__name__}; a sparse matrix is needed (fl.open_edges, fl.from_coo, or "
                "SciPy's)."
            )
        if not A.shape[0]:
            raise ShapeError(f"{who}: A has no rows; a graph with a vertex is needed.")
        if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
            raise ShapeError(f"{who}: A is {shape_text(tuple(A.shape))}; a square matrix is needed.")
        if A.dtype.kind not in "biuf":
            raise ShapeError(f"{who}: A is {A.dtype}; real weights of edges are needed.")
        _check_number(who, "k", k, A.shape[0], "vertices")
        number = k if number is None else number
        _check_number(who, "clusters", number, k, "vectors")
        given = A if isinstance(A, SparseArray) else from_blocks([A])
        self.A = sparse_by_rows(who, given, memory)
        #: what is turned, or made of SciPy's, goes with the process: such a call is begun again
        self.again = self.A is A
        self.k, self.clusters, self.tol, self.seed = int(k), int(number), tol, seed
        self.out, self.memory = out, memory
        self.call.on(self.A.path)

    @property
    def told(self) -> dict[str, Any]:
        """Everything that decides the bits, as JSON."""
        ids = self._ids
        return {
            "a": identity(self.A), "ids": None if ids is None else identity(ids), "k": self.k,
            "clusters": self.clusters, "tol": float(self.tol), "seed": int(self.seed),
        }  # fmt: skip

    @property
    def _ids(self) -> Any:
        """What the file called the vertices; of a view with other rows nobody knows."""
        ids = self.A.ids
        return ids if ids is not None and tuple(ids.shape) == (self.A.shape[0],) else None

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = f"{self.A.stored_values:,} stored values"
        return f"{self.call.who} {shape_text(self.A.shape)} sparse, {stored}, k = {self.k}"

    def _bound(self) -> _Pairs:
        """Return the eigenpairs as they can be counted before anything is read: of all vertices, unscaled."""
        return _Pairs(self, self.A.astype(np.float64), None)

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that are held beside the solver."""
        return _PER_VERTEX * self.A.shape[0]

    def least(self, beside: int = 0) -> int:
        """Return the bytes that the steps need, with `beside` of the caller's."""
        pairs = self._bound()
        # What one step leaves touched of the reserve (stacks, BLAS) is resident when the next asks anew.
        kept = _core.resident_bytes() + beside + self.call.engine.reserve
        n = self.A.shape[0]
        return max(
            kept + components_bytes(self.A),
            kept + self.beside + clusters_bytes(n, self.k, self.clusters),
            pairs.least(beside + self.beside + self.call.engine.reserve),
        )

    def check(self, beside: int = 0) -> int:
        """Return the least limit that works, or refuse the one that was given; nothing has been read."""
        needed = self.least(beside)
        self.call.check_least(needed)
        return self.call.rounded(needed)

    def plan(self) -> Plan:
        """Count the steps, as if no vertex were left out."""
        least = self.check()
        counted = self._bound().plan()
        n, resident = self.A.shape[0], _core.resident_bytes()
        rates = self.call.use_profile().rates
        first = self.A.stored_bytes / rates["read_bytes_per_second"] + _SECONDS * self.A.stored_values
        peaks = (
            resident + components_bytes(self.A),
            resident + self.beside + clusters_bytes(n, self.k, self.clusters),
            counted.peak_memory + self.beside,
        )
        return dataclasses.replace(
            counted,
            what=self.what,
            passes=counted.passes + 1,
            most_passes=counted.most_passes and counted.most_passes + 1,
            bytes_read=counted.bytes_read + self.A.stored_bytes + 16 * n * self.k,
            peak_memory=min(self.call.memory, max(peaks)),
            least_memory=least,
            seconds=counted.seconds + first,
            least_seconds=counted.least_seconds and counted.least_seconds + first,
            most_seconds=counted.most_seconds and counted.most_seconds + first,
            note=f"{counted.note}; counted as if no vertex were left out",
        )

    def _part(self) -> _Part:
        """Read A once, and return its largest component."""
        with self.call.measured(self.what, "row blocks") as moved:
            found = components(self.call, self.A)
            moved.bytes_read = self.A.stored_bytes
        sizes = found.sizes
        best = int(np.argmax(sizes))
        vertices = np.flatnonzero(found.labels == best)
        taken = len(vertices)
        isolated = int(np.count_nonzero(found.degrees == 0))
        degrees = found.degrees[vertices]
        if not degrees.any():
            raise ShapeError(f"{self.call.who}: A holds no edge; there is nothing to embed.")
        if self.k > taken:
            raise ShapeError(
                f"{self.call.who}: k is {self.k} and the largest component has {taken:,} vertices; k must "
                f"lie between 1 and {taken:,}."
            )
        ids = self._ids
        names = vertices if ids is None else np.asarray(_elements(self.call, ids))[vertices]
        return _Part(
            vertices, degrees, names, int(np.count_nonzero(sizes)), isolated, self.A.shape[0] - taken
        )

    def run(self) -> EmbeddingResult:
        """Do it: A is read for its components, and as often as the solver does."""
        self.check()
        part = self._part()
        done = [stats()]
        step = _Pairs(self, part.view(self.A), part)
        pairs = step.run()
        done.append(stats())
        self.call.keep(dataclasses.replace(
            together(self.what, done),
            passes=done[0].passes + done[1].passes,
            resident_at_entry=done[0].resident_at_entry,
            memory=self.call.memory,
        ))  # fmt: skip
        return EmbeddingResult(
            pairs.w, pairs.V, pairs.residual, step.clusters, part.vertices, part.ids, part.degrees,
            part.components, part.isolated, part.left_out, pairs.applications, pairs.passes + 1,
            pairs.verified,
        )  # fmt: skip


def _elements(call: Call, ids: Any) -> Any:
    return take(ids, call, ...) if isinstance(ids, Array) else ids


def _check_number(who: str, name: str, given: Any, most: int, of: str) -> None:
    if isinstance(given, bool) or not hasattr(given, "__index__") or not 1 <= given <= most:
        raise ShapeError(
            f"{who}: {name} is {given!r} and there are {most:,} {of}; a number between 1 and {most:,} is "
            "needed."
        )


@routine
def spectral_embedding(
    A: Any, k: int, *, clusters: int | None = None, tol: float = 1e-4, seed: int = 0,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> Prepared[EmbeddingResult]:  # fmt: skip
    """Return the k leading eigenvectors of D^-½ A D^-½ of a graph's largest component, and clusters.

    D is the diagonal of the degrees (sums of rows). The scaled matrix is a view and never written.

    Parameters
    ----------
    A : SparseArray or SciPy matrix, n x n
        Symmetric; weights of 0 or more. `open_edges` and `from_coo` make one of edges.
    k : int
        Vectors, between 1 and the vertices of the largest component.
    clusters : int, optional
        How many, between 1 and k: the leading vectors that are used; default k.
    tol : float
        Bound of residuals, as of `linalg.eigsh`.
    seed : int
        Of the start and of the sample that pivots are chosen from.
    out : path, optional
        A Zarr group for vectors, values, residual, clusters, vertices, ids and degrees. Default: scratch;
        deleted when the last handle on V dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    EmbeddingResult
        Unpacks as ``w, V``; `told` says what was left out. Vertices without an edge are components of one.

    Raises
    ------
    ShapeError
        A is not square, holds a negative weight or no edge; k is larger than the largest component.
    NumericalError
        A holds NaN or Inf, or is not symmetric.
    ConvergenceError
        `partial` holds what was reached.
    BudgetError
        The limit is too small; names the least that works for a graph in one component.

    Notes
    -----
    One read of A for degrees and components (16 bytes a vertex), then `linalg.eigsh` with ``which="LA"``; 96
    bytes a vertex beside it. Clusters: two reads of V, 2 n k² flops, by column-pivoted QR of a sample of its
    rows. Where several components are largest, the one with the least vertex is taken. Sources: Damle, Minden
    and Ying 2019; Liu and Tarjan 2019.
    """
    return _Embedding(A, k, clusters, tol, seed, out, memory)


@resumable("spectral_embedding")
def _again(path: str, told: dict[str, Any]) -> Again:
    A = operand("A", told["a"])
    if told["ids"] is not None:
        A.ids = operand("ids", told["ids"])
    options = {name: told[name] for name in ("clusters", "tol", "seed")}
    return spectral_embedding, (A, told["k"]), options | {"out": path}
