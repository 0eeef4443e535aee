"""Dense products of matrices that are larger than memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _core
from .._array.array import shape_text
from .._array.handle import Operand
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._output.codec_choice import Choice
from .._output.create import from_numpy
from .._output.destination import kept_choice
from .._output.place import Place
from .._resume.openers import old_output, operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import a_number, check_flags, one_of
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._sparse.array import SparseArray
from .._sparse.products import Csrmm
from .._sparse.semiring import SEMIRINGS, Over, SemiringProduct, is_frontier
from .._sparse.semiring_streams import StreamedSemiring, streams
from .._sparse_algebra.product import Kept, SparseProduct
from .adjoints import with_its_adjoint
from .operands import Vectors, dimensions, promoted
from .rank_k import RankK

__all__ = ["matmul"]


class _Matmul(Routine[Any]):
    """The checked arguments of one product."""

    operation = "matmul"

    def __init__(self, call: Call, a: Any, b: Any, out: Any, alpha: complex, beta: complex) -> None:
        a, b = (lazy_operand(call, one) for one in promoted(call, a, b))
        self.a = Operand.matrix(call, a, "A", stacks=True)
        self.b = Operand.matrix(call, b, "B", stacks=True)
        self.alpha, self.beta = complex(alpha), complex(beta)
        self.shape = tuple(_core.check_matmul(self.a.factor, self.b.factor, None))
        self.dtype = np.dtype(self.a.core.dtype)
        _check_scalars(self.dtype, self.alpha, self.beta)
        _check_out(out, beta)
        chunks = _core.default_chunks(list(self.shape), self.dtype.name)
        self.place = Place(
            call, self.shape, self.dtype, out, chunks, called="product", advice="they must agree"
        )
        self.place.codec = Choice(kept_choice(out).codec)  # in rows: what conjugates tiles counts on it
        self.place.reads = [*self.a.reads, *self.b.reads]
        self.old = self.place.old("beta") if beta else None
        self.notes = _core.MatmulNotes()
        if self.a.given_lazily or self.b.given_lazily:
            call.scratch_in_run()  # what is computed may be kept there
        super().__init__(call, [self.place])
        call.on(*self.a.paths, *self.b.paths)
        call.outputs = self.place.named()

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
        flops = 2.0 * math.prod(self.shape) * self.a.shape[-1]
        return flops * (4 if self.dtype.kind == "c" else 1), self.place.nbytes


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


def _check_scalars(dtype: np.dtype[Any], alpha: complex, beta: complex) -> None:
    if dtype.kind != "c" and (alpha.imag or beta.imag):
        raise ShapeError(f"matmul: alpha or beta is complex and the matrices are {dtype}; give real ones.")
    most = {"b": 1, "i": 2**53, "u": 2**53}.get(dtype.kind)
    for name, given in (("alpha", alpha.real), ("beta", beta.real)):
        if most is not None and not (given.is_integer() and abs(given) <= most):
            wanted = "0 or 1" if most == 1 else "a whole number"
            raise ShapeError(f"matmul: {name} is {given:g} and the matrices are {dtype}; give {wanted}.")


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


def _with_vectors(
    call: Call, a: SparseArray, x: Any, over: Over, left: bool, out: Any, alpha: complex, beta: complex
) -> Csrmm | SemiringProduct | StreamedSemiring:
    """Prepare the product of a sparse matrix and vectors."""
    if over.plain and not over.complement and not is_frontier(x):
        return Csrmm(call, a, x, left=left, out=out, alpha=alpha, beta=beta)
    if alpha != 1 or beta:
        raise ShapeError(
            "matmul: over a semiring, with a mask or accumulated, alpha=1 and beta=0 are taken; scale X."
        )
    kind = StreamedSemiring if streams(x, out) else SemiringProduct
    return kind(call, a, x, over, left=left, out=out)


def _of_dtype(A: Any, B: Any, dtype: Any) -> tuple[Any, Any, np.dtype[Any] | None]:
    """Return the operands of a product of this dtype, and the dtype where sums are of whole numbers."""
    if dtype is None:
        return A, B, None
    try:
        wanted = np.dtype(dtype)
    except (TypeError, ValueError):
        raise ShapeError(f"matmul: dtype is a {type(dtype).__name__}; a NumPy dtype is needed.") from None
    sparse = [isinstance(one, SparseArray) for one in (A, B)]
    if not any(sparse):
        raise ShapeError("matmul: dtype is of a product with a SparseArray; convert the operands (A.astype).")
    if wanted.kind not in "iufc" or wanted in (np.float16, np.uint64):
        raise ShapeError(
            f"matmul: dtype is {wanted}; float32, float64, complex64, complex128 or integers of up to "
            "int64 are "
            "needed."
        )
    if all(sparse):
        return A.astype(wanted), B.astype(wanted), None
    if wanted.kind in "iu":
        return A, B, wanted
    dense = B if sparse[0] else A
    dense = dense if hasattr(dense, "astype") else np.asarray(dense)
    if np.dtype(dense.dtype).kind == "c" and wanted.kind != "c":
        raise ShapeError(
            f"matmul: dtype is {wanted} and X is {dense.dtype}; take its real or imaginary part."
        )
    dense = dense.astype(wanted) if dense.dtype != wanted else dense
    return (A, dense, None) if sparse[0] else (dense, B, None)


@routine
def matmul(
    A: Any,
    B: Any,
    /,
    *,
    out: Any = None,
    alpha: complex = 1,
    beta: complex = 0,
    threshold: float | None = None,
    top: int | None = None,
    mask: Any = None,
    complement: bool = False,
    semiring: str = "plus_times",
    accumulate: bool = False,
    dtype: Any = None,
    memory: int | str | None = None,
) -> Prepared[Any]:
    """Return alpha A B + beta C, inside a memory limit; of stacks of matrices, for each of them.

    Parameters
    ----------
    A, B : Array, Expression or ndarray
        Matrices of any dtype but float16, on disk or in memory, in any layout; multiplied in NumPy's dtype
        of both, to which the other one is converted where it is loaded. Products of integers are exact and
        wrap as NumPy's, those of booleans are true where any pair is. More than two dimensions are stacks
        of matrices, which broadcast. Lazy expressions are computed where they are loaded, tile by tile, and
        stored nowhere. Transposed and conjugated views (``A.T``, ``A.conj()``) of matrices cost nothing.
        One of them, or both, may be a vector: it is loaded, the matrix is read once, and the result is an
        Array in memory. One of them may be a `SparseArray`, the other one then of any dtype: float32
        gives float32, complex64 complex64, all else double precision (complex where one of the two is), and
        where it lies in memory and no `out` is named the product is an
        ndarray. Both may be sparse. Beside a `SparseArray` the other one may be a SciPy matrix, of few
        columns and few entries (a frontier): the product is one too.
    out : path, Array or ndarray, optional
        Where the product goes. A path is replaced at once and whole (a Zarr directory, or a file ending in
        ``.npy``; what is there must be an array or a result). An existing Array, even an operand, gets a new
        version that is built aside and exchanged (a flat file: ``out[...] = A @ B``). Default: scratch; the
        result is deleted when the last handle on it dies, at the latest with the process.
    alpha, beta : number
        beta needs an `out` that holds C. Whole numbers where the product is of integers, 0 or 1 of booleans.
    threshold, top, mask, complement : float, int, SparseArray, bool, optional
        Of a product of two sparse matrices, what of each finished row is stored: values at least that large;
        so many of the largest (of equal ones those of lower columns); where the mask stores a value (where it
        stores none). Neither takes magnitudes; masks go first, `top` last. Of a sparse and a dense one, or a
        SciPy one, the mask says which elements are wanted: one bool for each row of the product, a bool array
        or a pattern of its shape. The others stay as `out` has them where the product is accumulated, and are
        what adds nothing else.
    semiring : str
        Of the product of a sparse A and vectors in memory, an addition and a multiplication in place of + and
        x: "plus_times", "min_plus", "max_plus", "max_times", "or_and" (of truths), "min_first" and
        "min_second" (the least first or second factor), "plus_pair" (how many pairs meet).
    accumulate : bool
        Add the product to what `out`, an ndarray, holds.
    dtype : dtype, optional
        Of a product with a `SparseArray`: what the other operand is converted to, and so the precision of
        the product. An integer one where both hold whole numbers: they are multiplied and added in int64,
        exactly and wrapping as NumPy's, with vectors and product in memory.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array or SparseArray
        The product (`out` itself where that was an Array or ndarray).

    Raises
    ------
    ShapeError
        The matrices, or their stacks, do not conform.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    ``A @ A.T``, ``A.T @ A`` and ``A @ A.conj().T`` are recognised: half of the flops, exactly symmetric (see
    `flagstone.linalg.rank_k_update`).

    Of a sparse A that stores P bytes, nnz values and has m x n elements, X with c columns: 2 nnz c flops
    (complex: 8). Where n c numbers fit (of ``A.T @ X`` some sums of them): P + s c (m + n) bytes; else
    columns of X go in blocks, and A is read for each; where not even a narrow one fits, or that moves more, X
    passes for each panel of some two million values. The plan says which. The bits are the same: an element
    is one sum in the order of A's columns (of ``A.T @ X`` of a panel's rows; panels are added in float64).

    Over a semiring, with a mask, or of a SciPy X: vectors and the product lie in memory; nnz c steps. Where
    nothing is added the product is 0, +Inf or the largest whole number, -Inf or the least, or False. Whole
    numbers are added in int64 and saturate, and the largest one is min_plus's infinity; except in plus_times,
    where they are added in float64 (float32 where X is) unless an integer `dtype` is asked for. Truths come
    out as bool. NaN stays in minima and maxima. Of a mask by rows only the stored chunks of A that hold
    values of wanted rows are read; of ``A.T @ X`` with a SciPy X those of rows that X has entries in; of
    pointers those of 65,536 rows or less around each. `stats` has the bytes.

    Of two sparse ones rows of A are multiplied a stretch at a time (Gustavson 1978): one read of A, and of B
    where it fits, else of the rows that each stretch names; 2 flops for each pair of values that meet. Each
    value is one sum over A's columns in their order. How many are stored the plan only bounds. 8 bytes a row
    of B are held.

    2 m n k flops for each matrix (complex: 8; of integers and booleans operations, not by BLAS: some 5 to 40
    times fewer a second), and those of lazy operands as often as they are loaded. Reads about
    2 s^1.5 m n k / sqrt(memory) bytes for s-byte elements, at least each operand once (of a lazy one what its
    tiles are computed from), and writes s m n. ``matmul.plan(...)`` takes the same arguments and counts
    exactly.
    """
    one_of("matmul", "semiring", semiring, *SEMIRINGS)
    check_flags("matmul", complement=complement, accumulate=accumulate)
    alpha, beta = a_number("matmul", "alpha", alpha), a_number("matmul", "beta", beta)
    A, B, whole = _of_dtype(A, B, dtype)
    over = Over(semiring, mask, bool(complement), bool(accumulate), whole)
    if isinstance(A, SparseArray) and isinstance(B, SparseArray):
        if alpha != 1 or beta or semiring != "plus_times" or accumulate:
            raise ShapeError(
                "matmul: the product of two sparse matrices takes alpha=1, beta=0 and plus_times; scale A."
            )
        return SparseProduct(Call("matmul", memory), A, B, Kept(threshold, top, mask, complement), out)
    if threshold is not None or top is not None:
        raise ShapeError("matmul: threshold and top are of a product of two sparse matrices.")
    if isinstance(A, SparseArray) or isinstance(B, SparseArray):
        left = isinstance(B, SparseArray)
        pair = (B, A) if left else (A, B)
        return _with_vectors(Call("matmul", memory), *pair, over, left, out, alpha, beta)
    if not over.plain or complement:
        raise ShapeError(
            f"matmul: A is {type(A).__name__} and B is {type(B).__name__}; semiring, mask, complement and "
            "accumulate need a SparseArray among them (fl.from_blocks([A]) makes one of SciPy's)."
        )
    if not beta and (found := _symmetric(Call("matmul", memory), A, B, out, alpha)) is not None:
        return found
    kind = _VectorProduct if 1 in (dimensions(A), dimensions(B)) else _Matmul
    return kind(Call("matmul", memory), A, B, out, alpha, beta)


@resumable("matmul")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {"out": old_output(path, told), "alpha": _number(told["alpha"]), "beta": _number(told["beta"])}
    return matmul, (operand("A", told["a"]), operand("B", told["b"])), options


@resumable("semiring product")
def _semiring_again(path: str, told: dict[str, Any]) -> Again:
    options = {name: told[name] for name in ("semiring", "complement", "accumulate")}
    options["mask"] = None if told["mask"] is None else operand("mask", told["mask"])
    options["out"] = old_output(path, told)
    whole = np.dtype(told["dtype"]).kind in "iu" and told["semiring"] == "plus_times"
    options["dtype"] = told["dtype"] if whole else None
    return matmul, (operand("A", told["a"]), operand("B", told["b"])), options


@resumable("sparse product")
def _sparse_again(path: str, told: dict[str, Any]) -> Again:
    mask = None if told["mask"] is None else operand("mask", told["mask"])
    kept = {
        "threshold": told["threshold"],
        "top": told["top"],
        "mask": mask,
        "complement": told["complement"],
    }
    return matmul, (operand("A", told["a"]), operand("B", told["b"])), {"out": path} | kept


def _number(parts: list[float]) -> complex | float:
    return complex(*parts) if parts[1] else parts[0]
