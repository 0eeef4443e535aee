"""SparseArray: a CSR matrix that stays on disk and streams by row panels."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from . import _core, scratch
from .array import Array, shape_text
from .config import Call, current
from .creation import in_group
from .errors import FormatError, ShapeError, StorageError, storage_error
from .lazy_sparse import LazySparse
from .linear import Linear
from .outputs import check_overwrite
from .plan import Plan
from .scratch import whole_or_nothing
from .stamp import check_stamp, stamp

__all__ = ["SparseArray", "from_blocks"]

Floats = NDArray[Any]


class SparseArray(LazySparse, Linear):
    """A sparse matrix on disk, stored by rows (CSR) as one Zarr group that anndata and binsparse read.

    Made by `open` (Zarr group, SciPy `.npz`) and `from_blocks`. Products stream row panels: one read of the
    matrix each, never more than a few panels in memory.
    """

    __hash__ = object.__hash__

    def __init__(
        self, core: _core.CsrMatrix, *, transposed: bool = False, root: SparseArray | None = None,
        import_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        self._stored = core
        self._steps = ()
        self._columns = None
        self._transposed = transposed
        self._root = root
        self._prepared: _core.CsrOperand | None = None
        self._opened: tuple[Callable[..., Any], tuple[Any, ...]] | None = (
            None  # how to open it again, if not by path
        )
        self.import_seconds = import_seconds  #: what `open` spent on bringing a foreign file into scratch

    @property
    def _owner(self) -> SparseArray:
        return self if self._root is None else self._root

    @property
    def _matrix(self) -> _core.CsrMatrix:
        """The matrix as it is stored, for those that copy it."""
        if self.lazy:
            raise TypeError(
                "sparse: this is a view with pending scaling, maps or a choice of columns; it can be "
                "multiplied, summed and decomposed, not exported. to_scipy() loads it."
            )
        return self._stored

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        cols = self._stored.cols if self._columns is None else len(self._columns)
        shape = (self._stored.rows, cols)
        return shape[::-1] if self._transposed else shape

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the values (an import may hold small counts in a byte each)."""
        stored = np.dtype(self._stored.value_dtype)
        if not self._steps:
            return stored
        return np.dtype(np.float32 if stored.itemsize <= 4 else np.float64)

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return int(self._stored.nnz)

    @property
    def nbytes(self) -> int:
        """Bytes that values, indices and pointers take in memory as SciPy holds them."""
        index = 4 if max(self.nnz, *self.shape) < 2**31 else 8
        return self.nnz * (self.dtype.itemsize + index) + (self._stored.rows + 1) * index

    @property
    def stored_bytes(self) -> int:
        """Bytes of one read of the matrix, as packed on disk."""
        return int(self._stored.stored_bytes)

    @property
    def path(self) -> str:
        """The directory that holds it."""
        return str(self._stored.path)

    @property
    def T(self) -> SparseArray:
        """The transpose: a view for products, nothing is moved."""
        view: SparseArray = self._seen()
        view._transposed = not self._transposed
        return view

    def __repr__(self) -> str:
        view = ".T" if self._transposed else ""
        view += " view" if self.lazy else ""
        if self._columns is None:
            density = self.nnz / max(1, self.shape[0] * self.shape[1])
            values = f"{self.nnz:,} stored values ({density:.2%})"
        else:
            values = f"chosen columns of {self._stored.cols:,}, {self.nnz:,} stored values in all of them"
        return (
            f"<flagstone.SparseArray{view} {shape_text(self.shape)} {self.dtype.name}, {values}, "
            f"{_core.format_bytes(self.nbytes)} in memory, {_core.format_bytes(self.stored_bytes)} on disk, "
            f"'{self.path}'>"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        raise TypeError(
            f"asarray: a SparseArray of {shape_text(self.shape)} is not made dense by accident; "
            "call to_scipy() for a SciPy matrix."
        )

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise TypeError(
            f"numpy.{getattr(function, '__name__', function)}: NumPy functions do not load a SparseArray; "
            "call to_scipy() first."
        )

    def __bool__(self) -> bool:
        raise TypeError("bool: the truth of a SparseArray is not defined.")

    def __len__(self) -> int:
        return self.shape[0]

    def operand(self) -> _core.CsrOperand:
        """Return the matrix prepared for streaming (made once)."""
        owner = self._owner
        if owner._prepared is None:
            owner._prepared = _core.prepare_csr(owner._stored)
        if not self.lazy:
            return owner._prepared
        if self._prepared is None:
            self._prepared = self._transformed(owner._prepared)
        return self._prepared

    def to_scipy(self) -> Any:
        """Return a SciPy CSR (of a transpose: CSC) matrix; refuses what would go beyond the memory limit."""
        from scipy import sparse

        call = Call("to_scipy")
        call.room(f"the whole matrix ({self.nnz:,} stored values)", self.nbytes)
        index = np.dtype(np.int32 if max(self.nnz, *self.shape) < 2**31 else np.int64)
        parts = [Array(part)[...] for part in (self._stored.data, self._stored.indices, self._stored.indptr)]
        data, indices, indptr = (
            parts[0].astype(self.dtype, copy=False),
            parts[1].astype(index, copy=False),
            parts[2].astype(index, copy=False),
        )
        matrix = sparse.csr_matrix(
            (data, indices, indptr), (self._stored.rows, self._stored.cols), copy=False
        )
        if self.lazy:
            matrix = self._apply_to_scipy(matrix)
        return matrix.T if self._transposed else matrix

    # Products -----------------------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        """Return ``A @ X`` (``A.T @ X``) as an ndarray; see `multiply`."""
        if isinstance(other, (Array, SparseArray)):
            return NotImplemented
        return self.multiply(other)

    def multiply(self, x: Floats, memory: int | str | None = None) -> Floats:
        """Return ``A X``, or ``Aᵀ X`` for a transpose.

        Parameters
        ----------
        x : ndarray, n x b or n
            float32 or float64, which is the precision of the product; sums over panels are float64.
        memory : int or str, optional
            Most resident memory of the process during the call.

        Notes
        -----
        Reads the matrix once (`stored_bytes`); 2 nnz b flops. X and the result are in memory.
        """
        return Product(self, x, "transposed" if self._transposed else "plain", memory).run()

    def gram(self, x: Floats, memory: int | str | None = None) -> Floats:
        """Return ``Aᵀ (A X)`` with one read of the matrix (`stored_bytes`); 4 nnz b flops."""
        if self._transposed:
            raise ShapeError("gram: Aᵀ is stored by columns; A (Aᵀ X) is two products, A @ (A.T @ X).")
        return Product(self, x, "gram", memory).run()

    def _multiply(self, x: Floats, adjoint: bool) -> Floats:
        a = self.T if adjoint else self
        return Product(a, x, "transposed" if a._transposed else "plain").run()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path: the receiver opens the same matrix, and hears when it went away or was replaced."""
        if self.lazy:
            raise TypeError(
                "pickle: a view with pending steps does not travel; pickle the matrix and repeat them."
            )
        if self._owner._opened is not None:
            return _view_of, (*self._owner._opened, self._transposed)
        path = os.path.abspath(self.path)
        return _reopen, (path, self._transposed, stamp(path))


class Product:
    """One product of a streamed sparse matrix with a block of vectors in memory: run it or plan it."""

    _JOBS: ClassVar = {
        "plain": _core.csr_multiply_job,
        "transposed": _core.csr_multiply_transposed_job,
        "gram": _core.csr_gram_job,
    }

    def __init__(self, a: SparseArray, x: Floats, kind: str, memory: int | str | None = None) -> None:
        self.a, self.kind = a, kind
        self.call = Call("matmul" if kind != "gram" else "gram", memory)
        self.call.on(a.path)
        given = np.asarray(x)
        self._vector = given.ndim == 1
        columns = given[:, None] if self._vector else given
        inner = a.shape[1]
        if given.ndim not in (1, 2) or columns.shape[0] != inner:
            raise ShapeError(
                f"{self.call.who}: A is {shape_text(a.shape)} and X is {shape_text(given.shape)}; "
                f"A's columns must equal X's rows ({inner}, {given.shape[0] if given.ndim else 'none'})."
            )
        if given.dtype.kind not in "biuf":
            raise ShapeError(f"{self.call.who}: X is {given.dtype}; float32 or float64 is needed.")
        self.dtype = np.dtype(np.float32 if given.dtype == np.float32 else np.float64)
        self.x = np.ascontiguousarray(columns, self.dtype)
        rows = a.shape[0] if kind != "gram" else inner
        # Sums over panels are kept in float64 whatever the precision of the products.
        kept = self.dtype if kind == "plain" else np.dtype(np.float64)
        self.shape, self.kept = (rows, self.x.shape[1]), kept

    def _job(self, y: _core.Array) -> _core.Job:
        return self._JOBS[self.kind](self.a.operand(), _core.memory_array(self.x), None, y)

    def _output(self) -> NDArray[Any]:
        y = np.empty(self.shape, self.kept)
        if y.size and self.x.size:
            self.call.check_memory(self._job(_core.memory_array(y)), beside=y.nbytes)
        y.fill(0)  # now, so that its pages count as held before the call
        return y

    @property
    def _what(self) -> str:
        return f"{self.call.who} {shape_text(self.a.shape)} sparse, {self.a.nnz:,} stored values"

    def run(self, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Stream the matrix and return the product."""
        y = self._output()
        if y.size and self.x.size:  # else there is nothing to add up
            done = self.call.run(self._job(_core.memory_array(y)))
            self.call.record(done, self._what, "row panels", 1)
        result = (y[:, 0] if self._vector else y).astype(self.dtype, copy=False)
        if out is None:
            return result
        out[...] = result
        return out

    def plan(self) -> Plan:
        """Count the product."""
        y = _core.memory_array(np.broadcast_to(np.zeros((), self.kept), self.shape).copy())
        return self.call.as_plan(self._job(y), self._what, "row panels", 1)


def _reopen(path: str, transposed: bool, stamped: tuple[int, ...]) -> SparseArray:
    check_stamp(path, stamped)
    matrix = SparseArray(_core.open_csr(path))
    return matrix.T if transposed else matrix


def _view_of(opener: Callable[..., SparseArray], arguments: tuple[Any, ...], transposed: bool) -> SparseArray:
    matrix = opener(*arguments)
    return matrix.T if transposed else matrix


# Building ---------------------------------------------------------------------------------------------------


def csr_parts(block: Any, who: str) -> tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (columns, indptr, indices, data) of a block: SciPy, 2-d ndarray or tuple."""
    if isinstance(block, tuple) and len(block) == 4:
        data, indices, indptr, cols = block
        return int(cols), np.asarray(indptr), np.asarray(indices), np.asarray(data)
    if hasattr(block, "tocsr"):
        block = block.tocsr()
        return int(block.shape[1]), block.indptr, block.indices, block.data
    dense = np.asarray(block)
    if dense.ndim != 2 or dense.dtype.kind not in "biuf":
        raise ShapeError(
            f"{who}: a block is {type(block).__name__}; blocks of rows are SciPy sparse matrices, 2-d arrays "
            "or "
            "(data, indices, indptr, columns)."
        )
    rows, columns = np.nonzero(dense)
    pointers = np.zeros(dense.shape[0] + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=dense.shape[0]), out=pointers[1:])
    return dense.shape[1], pointers, columns, dense[rows, columns]


def value_dtype(dtype: np.dtype[Any], who: str) -> np.dtype[Any]:
    """Return the dtype in which values are stored."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind in "iu":
        return dtype.newbyteorder("=")
    if dtype.kind == "f":
        return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
    raise FormatError(f"{who}: values are {dtype}; real numbers are needed.")


#: What the writer of a matrix holds, before its dtypes are known (more with many cores: asked again then).
_WRITER = 32 << 20
#: What making the blocks may take, temporaries included.
_BLOCKS = 128 << 20


class CsrBuilder:
    """A sparse matrix being written aside from row blocks; appears whole with `publish()`, or not at all."""

    def __init__(
        self,
        call: Call,
        path: str,
        cols: int,
        dtype: np.dtype[Any],
        replace: bool,
        *,
        beside: int = 0,
        narrow: bool = False,
    ) -> None:
        self.path = path
        self._call = call
        held = _core.CsrWriter.memory_bytes(cols, dtype.name)
        call.room("the writer", held + 64 * max(cols, 0) + beside)
        self._dtype = dtype
        output = _core.Output(path, replace)
        self._output: _core.Output | None = output
        self._writer: _core.CsrWriter | None = _core.CsrWriter(output.directory, cols, dtype.name, narrow)

    def append(self, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any]) -> None:
        """Write one block of rows."""
        self._call.room("a block of rows", data.nbytes // 2)
        pointers = np.ascontiguousarray(indptr, np.int64)
        if len(pointers) and pointers[0] != 0:
            pointers = pointers - pointers[0]
        wide = np.int32 if indices.dtype == np.int32 else np.int64
        if self._writer is not None:
            self._writer.append(
                pointers, np.ascontiguousarray(indices, wide), np.ascontiguousarray(data, self._dtype)
            )

    def publish(self) -> SparseArray:
        """Write the tails and make the matrix appear."""
        if self._writer is not None:
            self._writer.finish()
            self._writer = None
        if self._output is not None:
            self._output.publish()
        return SparseArray(_core.open_csr(self.path))

    def discard(self) -> None:
        """Remove what was built."""
        self._writer = self._output = None


def from_blocks(
    blocks: Iterable[Any],
    path: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    dtype: Any = None,
) -> SparseArray:
    """Build a sparse matrix on disk from an iterator of row blocks, in fixed memory.

    Parameters
    ----------
    blocks : iterable
        Row blocks from top to bottom: SciPy sparse matrices, 2-d arrays (zeros are left out) or tuples
        ``(data, indices, indptr, columns)``. Unsorted and duplicate columns are put right.
    path : path, optional
        Where the matrix goes (a directory); default: scratch, until the handle dies.
    overwrite : bool
        Replace, at once and whole, what is there.
    dtype : dtype, optional
        Of the stored values; default: that of the first block.

    Returns
    -------
    SparseArray

    Notes
    -----
    Writes about 3 to 8 bytes a stored value (packed). Holds some 20 MiB and the block at hand; a limit must
    leave 160 MiB, 128 of them for what makes the blocks.
    """
    who = "from_blocks"
    place = scratch.Result(current().scratch, "matrix") if path is None else None
    target = place.path if place is not None else os.fspath(path)  # type: ignore[arg-type]
    if place is None:
        if not overwrite and os.path.lexists(target):
            raise storage_error(
                f"{who}: '{target}' exists; pass overwrite=True to replace it.", errno.EEXIST, target
            )
        check_overwrite(who, target)
        in_group(who, target)
    call = Call(who)
    call.room("making the blocks", _WRITER + _BLOCKS)
    with whole_or_nothing(place), call.measured(who, "row blocks") as done:
        matrix = _write_blocks(call, blocks, target, overwrite, dtype)
        done.bytes_written = matrix.stored_bytes
    if place is not None:
        place.tie(matrix)
    return matrix


def _write_blocks(call: Call, blocks: Iterable[Any], target: str, overwrite: bool, dtype: Any) -> SparseArray:
    who = call.who
    columns = -1
    builder: CsrBuilder | None = None
    try:
        for number, block in enumerate(blocks):
            cols, indptr, indices, data = csr_parts(block, who)
            if builder is None:
                columns = cols
                kind = value_dtype(np.dtype(dtype) if dtype is not None else data.dtype, who)
                builder = CsrBuilder(call, target, cols, kind, overwrite)
            elif cols != columns:
                raise ShapeError(
                    f"{who}: block {number} has {cols} columns and the first {columns}; all need the same."
                )
            if len(indptr) < 1 or len(indices) != len(data) or indptr[-1] - indptr[0] != len(data):
                raise FormatError(
                    f"{who}: block {number} has {len(data)} values, {len(indices)} indices and pointers that "
                    f"end at {indptr[-1] if len(indptr) else 'nothing'}; they must agree."
                )
            try:
                builder.append(indptr, indices, data)
            except StorageError as error:
                raise storage_error(
                    f"{who}: {error}", error.errno or 0, str(error.filename), error.offset
                ) from None
        if builder is None:
            raise ShapeError(
                f"{who}: the iterator gave no blocks; at least one (it may have no rows) is needed."
            )
        return builder.publish()
    except BaseException:
        if builder is not None:
            builder.discard()  # a traceback may keep it alive for long
        raise
