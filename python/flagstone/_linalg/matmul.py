"""Dense products of matrices that are larger than memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, is_transposed
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._output.codec_choice import Choice
from .._output.create import from_numpy
from .._output.destination import kept_choice
from .._output.place import Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._scratch.scratch import prepare
from .._sparse.array import SparseArray
from .._sparse.products import Product
from .operands import Vectors, dimensions, promoted
from .rank_k import RankK, with_its_adjoint

__all__ = ["matmul"]


class _Matmul(Routine[Any]):
    """The checked arguments of one product."""

    operation = "matmul"

    def __init__(self, call: Call, a: Any, b: Any, out: Any, alpha: complex, beta: complex) -> None:
        a, b = (lazy_operand(call, one) for one in promoted(call, a, b))
        self.a, self.b = Operand.matrix(call, a, "A"), Operand.matrix(call, b, "B")
        self.alpha, self.beta = complex(alpha), complex(beta)
        _core.check_matmul(self.a.factor, self.b.factor, None)
        self.shape, self.dtype = (self.a.shape[0], self.b.shape[1]), np.dtype(self.a.core.dtype)
        if self.dtype.kind != "c" and (self.alpha.imag or self.beta.imag):
            raise ShapeError(
                f"matmul: alpha or beta is complex and the matrices are {self.dtype}; give real ones."
            )
        _check_out(out, beta)
        chunks = _core.output_chunks(*self.shape, self.dtype.name)
        self.place = Place(
            call, self.shape, self.dtype, out, chunks, called="product", advice="they must agree"
        )
        self.place.codec = Choice(kept_choice(out).codec)  # in rows: what conjugates tiles counts on it
        self.place.reads = [*self.a.reads, *self.b.reads]
        self.old = self.place.old("beta") if beta else None
        self.notes = _core.MatmulNotes()
        if self.a.given_lazily or self.b.given_lazily:
            prepare(call.runtime.scratch)  # what is computed may be kept there
        super().__init__(call, [self.place])
        call.on(*self.a.paths, *self.b.paths)
        call.outputs = 0 if self.place.in_memory else 1

    @property
    def what(self) -> str:
        return f"matmul {shape_text(self.a.shape)} by {shape_text(self.b.shape)}, {self.dtype}"

    def how(self, job: Any) -> How:
        told = [f"{name} is {text}" for name, text in (("A", self.notes.a), ("B", self.notes.b)) if text]
        return How("superblocks", note="; ".join(told), between=self.notes.scratch_bytes)

    def job(self, at: At) -> _core.Job:
        c = at(self.place)  # first: the place is open from here on, and has its checkpoint
        return _core.matmul_job(
            self.a.factor, self.b.factor, self.old, c, self.alpha, self.beta, self.place.checkpoint,
            self.notes,
        )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        return {
            "a": self.a.identity, "b": self.b.identity, "dtype": self.dtype.name,
            "alpha": [self.alpha.real, self.alpha.imag], "beta": [self.beta.real, self.beta.imag],
            "chunks": list(self.place.chunks),
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        (m, n), k = self.shape, self.a.shape[1]
        return 2.0 * m * n * k * (4 if self.dtype.kind == "c" else 1), self.place.nbytes


class _VectorProduct(_Matmul):
    """A product with a vector: the matrix streams, the vector and the result are in memory."""

    def __init__(self, call: Call, a: Any, b: Any, out: Any, alpha: complex, beta: complex) -> None:
        self.vectors, self.given = Vectors(call, a, b), out
        _check_out(out, beta)
        dtype = self.vectors.b.dtype if self.vectors.left else self.vectors.a.dtype
        target = self.vectors.matrix(out, dtype)
        super().__init__(call, self.vectors.a, self.vectors.b, target, alpha, beta)

    @property
    def beside(self) -> int:
        return self.place.nbytes

    def result(self, job: Any) -> Any:
        product = super().result(job)
        if self.given is not None:
            return self.given
        return from_numpy(product.reshape(self.vectors.shape(product.shape)))


def _check_out(out: Any, beta: complex) -> None:
    if out is None and beta:
        raise ShapeError("matmul: beta needs an out= that holds C; give one or leave beta out.")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ShapeError("matmul: out is a read-only ndarray; give a writeable one.")


def _symmetric(call: Call, a: Any, b: Any, out: Any, alpha: complex) -> RankK | None:
    """Return A Aᵀ and A Aᴴ as what they are: half of the flops, and exactly symmetric."""
    turned, hermitian = with_its_adjoint(a, b)
    real = not complex(alpha).imag
    if not turned or a.dtype.char not in "fdFD" or not (real or (a.dtype.kind == "c" and not hermitian)):
        return None
    return RankK(call, lazy_operand(call, a), alpha=alpha, hermitian=hermitian, out=out)


def _sparse(a: SparseArray, b: Any, out: Any, alpha: complex, beta: complex, memory: Any) -> Product:
    if isinstance(b, (Array, SparseArray)):
        raise ShapeError(
            "matmul: a sparse A is multiplied by a NumPy matrix in memory; load B (np.asarray) or its "
            "columns in parts."
        )
    if alpha != 1 or beta != 0 or not (out is None or isinstance(out, np.ndarray)):
        raise ShapeError("matmul: a sparse A takes alpha=1, beta=0 and out=None or an ndarray.")
    return Product(a, b, "transposed" if is_transposed(a) else "plain", memory, out)


@routine
def matmul(
    A: Any,
    B: Any,
    /,
    *,
    out: Any = None,
    alpha: complex = 1,
    beta: complex = 0,
    memory: int | str | None = None,
) -> Prepared[Any]:
    """Return alpha A B + beta C, inside a memory limit.

    Parameters
    ----------
    A, B : Array, Expression or ndarray
        Matrices of one dtype: float32, float64, complex64 or complex128; on disk or in memory, in any layout.
        Lazy expressions are computed where they are loaded, tile by tile, and stored nowhere.
        Transposed and conjugated views (``A.T``, ``A.conj()``) cost nothing. One in memory is converted
        where NumPy would compute in the dtype of the other. One of them, or both, may be a vector: it is
        loaded, the matrix is read once, and the result is an Array in memory. A `SparseArray` A takes an
        ndarray B and returns an ndarray.
    out : path, Array or ndarray, optional
        Where the product goes. A path is replaced at once and whole (a Zarr directory, or a file ending in
        ``.npy``; what is there must be an array or a result). An existing Array, even an operand, gets a new
        version that is built aside and exchanged (a flat file: ``out[...] = A @ B``). Default: scratch; the
        result is deleted when the last handle on it dies, at the latest with the process.
    alpha, beta : number
        beta needs an `out` that holds C.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array
        The product (`out` itself where that was an Array or ndarray).

    Raises
    ------
    ShapeError
        The matrices do not conform.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    ``A @ A.T``, ``A.T @ A`` and ``A @ A.conj().T`` are recognised: half of the flops, exactly symmetric (see
    `flagstone.linalg.rank_k_update`).

    2 m n k flops (complex: 8), and those of lazy operands as often as they are loaded. Reads about
    2 s^1.5 m n k / sqrt(memory) bytes for s-byte elements, at least each operand once (of a lazy one what its
    tiles are computed from), and writes s m n. ``matmul.plan(...)`` takes the same arguments and counts
    exactly.
    """
    if isinstance(A, SparseArray):
        return _sparse(A, B, out, alpha, beta, memory)
    if not beta and (found := _symmetric(Call("matmul", memory), A, B, out, alpha)) is not None:
        return found
    kind = _VectorProduct if 1 in (dimensions(A), dimensions(B)) else _Matmul
    return kind(Call("matmul", memory), A, B, out, alpha, beta)


@resumable("matmul")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {"out": old_output(path, told), "alpha": _number(told["alpha"]), "beta": _number(told["beta"])}
    return matmul, (operand("A", told["a"]), operand("B", told["b"])), options


def _number(parts: list[float]) -> complex | float:
    return complex(*parts) if parts[1] else parts[0]
