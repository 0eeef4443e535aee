"""Dense products of matrices that are larger than memory."""

from __future__ import annotations

import errno
import os
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._errors.classes import ShapeError
from .._errors.messages import storage_error
from .._expression.expression import Expression
from .._output.codec_choice import Choice
from .._output.create import from_numpy
from .._output.destination import Destination, kept_choice
from .._output.replaceable import check_path, check_replaceable
from .._resume.calls import Again, old_output, resumable
from .._resume.identity import identity, memory_identity, stored_stamp
from .._resume.openers import operand
from .._resume.record import UNRECORDED, Record, seconds_of
from .._runtime.call import Call
from .._runtime.plan import Plan
from .._runtime.routine import Prepared, routine
from .._scratch.builds import whole_or_nothing
from .._sparse.array import SparseArray
from .._sparse.products import Product
from .operands import Vectors, dimensions, promoted

__all__ = ["matmul"]

Matrix: TypeAlias = Array | NDArray[Any]


def _plain(values: NDArray[Any]) -> bool:
    """Say whether BLAS takes the matrix as it lies: one dimension contiguous, the other of a whole step."""
    item = values.itemsize
    if values.ndim != 2 or any(s % item for s in values.strides):
        return values.flags.c_contiguous
    (rows, cols), (row, col) = values.shape, values.strides
    return (col == item and row >= cols * item) or (row == item and col >= rows * item)


def _packed(call: Call, values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a contiguous copy in native byte order, inside the limit."""
    call.room(f"a contiguous copy of {name}", values.nbytes)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


class _Side:
    """One operand: what the core gets; `values` is the ndarray behind it where it lies in memory."""

    def __init__(self, call: Call, given: Any, name: str) -> None:
        self.given = given
        if isinstance(given, Array):
            given.flush()
            self.core, self.flags = given._core, (given._transposed, given._conjugated)
            self.values: NDArray[Any] | None = given._owner._values
            if self.values is not None and not _plain(self.values):
                self.values = _packed(call, self.values, name)
                self.core = _core.memory_array(self.values)
        elif isinstance(given, Expression):
            raise TypeError(
                f"matmul: {name} is a lazy expression; store it first with flagstone.compute({name}, "
                "out=...) (without out=: in scratch)."
            )
        else:
            values = np.asarray(given)
            if values.dtype.kind not in "biufc" or values.dtype.char in "gG":
                raise TypeError(
                    f"matmul: {name} is {type(given).__name__} of {values.dtype}; an Array or a "
                    "NumPy matrix of numbers that can be stored is needed."
                )
            if not _plain(values) or not values.dtype.isnative:
                values = _packed(call, values, name)
            self.core, self.flags, self.values = _core.memory_array(values), (False, False), values
        if len(self.core.shape) != 2:
            raise ShapeError(
                f"matmul: {name} has {len(self.core.shape)} dimensions "
                f"({shape_text(tuple(self.core.shape))}); "
                "2 are needed (reshape a vector to one column)."
            )
        self.operand = _core.Operand(self.core, *self.flags)

    @property
    def identity(self) -> dict[str, Any]:
        """What tells the operand from another one."""
        if isinstance(self.given, Array):
            return identity(self.given)
        assert self.values is not None
        return memory_identity(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        rows, cols = self.core.shape
        return (cols, rows) if self.flags[0] else (rows, cols)


def _inside(path: str) -> str:
    """Return where the only array of a group lies, such as our own results are."""
    if not os.path.isdir(path) or not _core.is_zarr_group(path):
        return path
    _, arrays, groups = _core.open_group(path)
    return f"{path}/{arrays[0]}" if len(arrays) == 1 and not groups else path


class _Matmul:
    """The checked arguments of one product."""

    def __init__(self, a: Any, b: Any, out: Any, alpha: complex, beta: complex, memory: Any) -> None:
        self.call = Call("matmul", memory)
        a, b = promoted(self.call, a, b)
        self.a, self.b = _Side(self.call, a, "A"), _Side(self.call, b, "B")
        self.alpha, self.beta = complex(alpha), complex(beta)
        _core.check_matmul(self.a.operand, self.b.operand, None)
        self.shape = (self.a.shape[0], self.b.shape[1])
        self.dtype = str(self.a.core.dtype)
        if np.dtype(self.dtype).kind != "c" and (self.alpha.imag or self.beta.imag):
            raise ShapeError(
                f"matmul: alpha or beta is complex and the matrices are {self.dtype}; give real ones."
            )
        self.out = out
        self.record: Record | None = None
        self.c_in = self._existing(out)
        self.call.on(self.a.core.path, self.b.core.path)
        self.call.outputs = 0 if self._in_memory() else 1

    def _existing(self, out: Any) -> _core.Array | None:
        """Return the old content of `out` where it is needed, or whose shape and dtype must fit."""
        if out is None:
            if self.beta:
                raise ShapeError("matmul: beta needs an out= that holds C; give one or leave beta out.")
            return None
        if isinstance(out, Array):
            if out._transposed or out._conjugated:
                raise ShapeError("matmul: out is a transposed or conjugated view; give the array itself.")
            if out.mode != "r+":
                raise storage_error(
                    f"matmul: out '{out.path}' is open for reading; open it with mode='r+'.",
                    errno.EACCES, out.path or "",
                )  # fmt: skip
            check_replaceable("matmul", out)
            out.flush()
            held = out._owner._values
            old = out._owner._core
            if held is not None and not _plain(held):
                old = _core.memory_array(_packed(self.call, held, "out"))
        elif isinstance(out, np.ndarray):
            if not out.flags.writeable:
                raise ShapeError("matmul: out is a read-only ndarray; give a writeable one.")
            old = _core.memory_array(out if _plain(out) else _packed(self.call, out, "out"))
        elif isinstance(out, (str, os.PathLike)):
            check_path("matmul", out)
            if not self.beta:
                return None
            path = os.fspath(out)
            if not os.path.exists(path):
                raise storage_error(
                    f"matmul: beta needs the old content of out, and '{path}' does not exist.",
                    errno.ENOENT, path,
                )  # fmt: skip
            old = open_core(_inside(path), "r")
        else:
            raise TypeError(f"matmul: out is {type(out).__name__}; a path, an Array or an ndarray is needed.")
        if tuple(old.shape) != self.shape or old.dtype != self.dtype:
            raise ShapeError(
                f"matmul: out is {shape_text(tuple(old.shape))} {old.dtype} and the product is "
                f"{shape_text(self.shape)} {self.dtype}; they must agree."
            )
        return old

    @property
    def chunks(self) -> tuple[int, ...]:
        if isinstance(self.out, Array) and self.out.path and not self.out.path.endswith(".npy"):
            return tuple(self.out.chunks)
        return tuple(_core.output_chunks(*self.shape, self.dtype))

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * np.dtype(self.dtype).itemsize

    @property
    def what(self) -> str:
        return f"matmul {shape_text(self.a.shape)} by {shape_text(self.b.shape)}, {self.dtype}"

    def job(self, c_out: _core.Array) -> _core.Job:
        c_in = self.c_in if self.beta else None
        checkpoint = None if self.record is None else self.record.checkpoint
        return _core.matmul_job(
            self.a.operand, self.b.operand, c_in, c_out, self.alpha, self.beta, checkpoint
        )

    def _arguments(self) -> dict[str, Any]:
        """Everything that decides the bits of the product, and how to ask for it again."""
        into = isinstance(self.out, Array)
        told: dict[str, Any] = {
            "a": self.a.identity, "b": self.b.identity, "into": into, "dtype": self.dtype,
            "alpha": [self.alpha.real, self.alpha.imag], "beta": [self.beta.real, self.beta.imag],
            "chunks": list(self.chunks),
        }  # fmt: skip
        if into or self.beta:
            told["old"] = stored_stamp(os.path.abspath(self.out.path if into else os.fspath(self.out)))
        return told

    def _begin(self) -> Record:
        (m, n), k = self.shape, self.a.shape[1]
        flops = 2.0 * m * n * k * (4 if np.dtype(self.dtype).kind == "c" else 1)
        self.record = Record("matmul", self._arguments, seconds_of(flops, self.nbytes), self.call.runtime)
        return self.record

    def _in_memory(self) -> bool:
        return isinstance(self.out, np.ndarray) or (isinstance(self.out, Array) and self.out.path is None)

    def planned(self) -> _core.Array:
        if self._in_memory():
            return _core.memory_array(np.empty(self.shape, self.dtype))
        if self.out is None:
            self.call.scratch_bytes["result"] = self.nbytes
        codec = kept_choice(self.out).codec
        return _core.planned_array(list(self.shape), self.dtype, list(self.chunks), codec)

    def plan(self) -> Plan:
        return self.call.as_plan(self.job(self.planned()), self.what, "superblocks", 1)

    # Running ------------------------------------------------------------------------------------------------

    def run(self) -> Matrix:
        self.call.check_memory(self.job(self.planned()))
        if self._in_memory():
            return self._into_memory()
        if self.out is None:
            place = self.call.result("matmul", self.nbytes)
            with whole_or_nothing(place):
                result = self._into_path(place.path)
            place.tie(result)
            return result
        if isinstance(self.out, Array):
            owner = self.out._owner
            # Built aside and exchanged: `out` may be an operand, and a crash leaves the old version.
            owner._handle = self._into_path(str(owner.path), owner, self._begin())._handle
            return self.out
        return self._into_path(os.fspath(self.out), record=self._begin())

    def _execute(self, c_out: _core.Array) -> None:
        done = self.call.run(self.job(c_out))
        where = "" if self.record is None else self.record.where
        self.call.record(done, self.what + where, "superblocks", 1)

    def _into_path(self, path: str, like: Array | None = None, record: Record | None = None) -> Array:
        destination = Destination(
            "matmul", path, self.shape, self.dtype, self.chunks, True, like=like, record=record,
            codec=Choice(kept_choice(like).codec),  # in rows: what conjugates tiles counts on it
        )  # fmt: skip
        with whole_or_nothing(destination), (record or UNRECORDED).kept(destination):
            self._execute(destination.core)
            return destination.publish()

    def _into_memory(self) -> Matrix:
        target = self.out if isinstance(self.out, np.ndarray) else self.out._owner._values
        read = [side.values for side in (self.a, self.b) if side.values is not None]
        aside = (
            self.beta != 0
            or not _plain(target)
            or any(np.may_share_memory(target, values) for values in read)
        )
        built = target
        if aside:  # the core writes C while it still reads its operands
            self.call.room("the result", self.nbytes)
            built = np.empty(self.shape, self.dtype)
        built.fill(0)  # now, so that its pages count as held before the call
        self._execute(_core.memory_array(built))
        if aside:
            target[...] = built
        out: Matrix = self.out
        return out


class _VectorProduct:
    """A product with a vector: the matrix streams, the vector and the result are in memory."""

    def __init__(self, a: Any, b: Any, out: Any, alpha: complex, beta: complex, memory: Any) -> None:
        self.vectors = Vectors(Call("matmul", memory), a, b)
        self.out = out
        if out is None and beta:
            raise ShapeError("matmul: beta needs an out= that holds C; give one or leave beta out.")
        dtype = self.vectors.b.dtype if self.vectors.left else self.vectors.a.dtype
        self.target = self.vectors.matrix(out, dtype)
        self.product = _Matmul(self.vectors.a, self.vectors.b, self.target, alpha, beta, memory)

    def plan(self) -> Plan:
        return self.product.plan()

    def run(self) -> Matrix:
        product = self.product
        product.call.check_memory(product.job(product.planned()), self.target.nbytes)
        product.run()
        if self.out is not None:
            return self.out  # type: ignore[no-any-return]
        return from_numpy(self.target.reshape(self.vectors.shape(self.target.shape)))


def _product(
    a: Any, b: Any, out: Any, alpha: complex, beta: complex, memory: Any
) -> _Matmul | _VectorProduct:
    kind = _VectorProduct if 1 in (dimensions(a), dimensions(b)) else _Matmul
    return kind(a, b, out, alpha, beta, memory)


def _sparse(a: SparseArray, b: Any, out: Any, alpha: complex, beta: complex, memory: Any) -> Product:
    if isinstance(b, (Array, SparseArray)):
        raise ShapeError(
            "matmul: a sparse A is multiplied by a NumPy matrix in memory; load B (np.asarray) or its "
            "columns in parts."
        )
    if alpha != 1 or beta != 0 or not (out is None or isinstance(out, np.ndarray)):
        raise ShapeError("matmul: a sparse A takes alpha=1, beta=0 and out=None or an ndarray.")
    return Product(a, b, "transposed" if a._transposed else "plain", memory, out)


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
    A, B : Array or ndarray
        Matrices of one dtype: float32, float64, complex64 or complex128; on disk or in memory, in any layout.
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
    2 m n k flops (complex: 8). Reads about 2 s^1.5 m n k / sqrt(memory) bytes for s-byte elements, at least
    each operand once, and writes s m n. ``matmul.plan(...)`` takes the same arguments and counts exactly.
    """
    if isinstance(A, SparseArray):
        return _sparse(A, B, out, alpha, beta, memory)
    return _product(A, B, out, alpha, beta, memory)


@resumable("matmul")
def _again(path: str, told: dict[str, Any]) -> Again:
    options = {"out": old_output(path, told), "alpha": _number(told["alpha"]), "beta": _number(told["beta"])}
    return matmul, (operand("A", told["a"]), operand("B", told["b"])), options


def _number(parts: list[float]) -> complex | float:
    return complex(*parts) if parts[1] else parts[0]
