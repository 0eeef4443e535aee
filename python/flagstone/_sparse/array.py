"""SparseArray: a CSR matrix that stays on disk and streams by row panels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import STAGING, Array, shape_text
from .._array.dispatch import dispatch
from .._array.handle import stored_identity
from .._array.linear_operator import LinearOperator
from .._array.pickling import check_stamp, stamp
from .._array.requests import take
from .._html.table import html_table
from .._resume.choices import as_text
from .._resume.identity import identity
from .._resume.registers import OPENERS, opener
from .._runtime.call import Call
from .._runtime.routine import planned_by
from .algebra import SparseAlgebra
from .products import Csrmm, GramProduct
from .reductions import SparseReductions, stored_numbers
from .row_blocks import row_blocks, rows_bytes, values_of_rows
from .steps import seen_dtype, streamed
from .validation import check_columns, check_pointers, layout_of
from .views import LazySparse

__all__ = ["SparseArray", "matrix_of"]

Floats = NDArray[Any]


class SparseArray(SparseReductions, SparseAlgebra, LazySparse, LinearOperator):
    """A sparse matrix on disk, stored by rows (CSR) as one Zarr group that anndata and binsparse read.

    Made by `open` (Zarr group, SciPy `.npz`) and `from_blocks`. Products stream row panels: one read of the
    matrix each, never more than a few panels in memory.
    """

    __module__ = "flagstone"

    __hash__ = object.__hash__

    def __init__(
        self, core: _core.CsrMatrix, *, transposed: bool = False, root: SparseArray | None = None,
        import_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        self._stored = core
        self._steps = ()
        self._rows = None  # of the stored ones, those that are seen; None: all
        self._columns = None
        self._transposed = transposed
        self._root = root
        self._prepared: _core.CsrOperand | None = None
        self._column_nnz: NDArray[np.int64] | None = None  # counted at first need, by views
        self._nnz: int | None = None  # of a view of rows, the same
        self._opened: tuple[str, tuple[Any, ...]] | None = None  # by which opener, if not by path
        self._derived: dict[Any, Any] = {}  # what was made of it for all its handles
        self.ids: Any = None  #: of vertices as a file had them, where `open_edges` made them 0 … n−1
        self.import_seconds = import_seconds  #: what `open` spent on bringing a foreign file into scratch

    @property
    def _owner(self) -> SparseArray:
        return self if self._root is None else self._root

    @property
    def _matrix(self) -> _core.CsrMatrix:
        """The matrix as it is stored, for those that copy it."""
        if self.lazy:
            raise TypeError(
                "sparse: this is a view with pending scaling, maps or a choice of rows or columns, and the "
                "matrix as it is stored is needed; fl.convert(view, 'x.zarr') stores the view."
            )
        return self._stored

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows = self._stored.rows if self._rows is None else len(self._rows)
        cols = self._stored.cols if self._columns is None else len(self._columns)
        shape = (rows, cols)
        return shape[::-1] if self._transposed else shape

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the values (an import may hold small counts in a byte each)."""
        found = np.dtype(self._stored.value_dtype)
        for kind, what in self._steps:
            found = what if kind == "cast" else seen_dtype(streamed(found), kind, what)
        return found

    @property
    def stored_values(self) -> int:
        """Number of values that one read passes, those of rows and columns that are left out included.

        Of a choice of rows the values of the panels that hold one of them.
        """
        return int(self._stored.nnz if self._rows is None else self.operand().read_values)

    @property
    def nnz(self) -> int:
        """Number of stored values; of a stored triangle of those alone.

        Of a choice of rows counted in their pointers, of one of columns with one read of the matrix; once.
        """
        if self._rows is not None:
            if self._nnz is None:
                counted = self._columns is not None
                self._nnz = int(stored_numbers(self).sum()) if counted else values_of_rows(Call("nnz"), self)
            return self._nnz
        if self._columns is None:
            return self.stored_values
        owner: Any = self._owner
        if owner._column_nnz is None:
            owner._column_nnz = stored_numbers(owner.T if owner._transposed else owner)
        return int(owner._column_nnz[self._columns].sum())

    @property
    def nbytes(self) -> int:
        """Bytes that values, indices and pointers take in memory as SciPy holds them (views: at most)."""
        index = 4 if max(self.stored_values, *self.shape) < 2**31 else 8
        return self.stored_values * (self.dtype.itemsize + index) + (self._seen_rows + 1) * index

    @property
    def _seen_rows(self) -> int:
        """How many stored rows are seen."""
        return self._stored.rows if self._rows is None else len(self._rows)

    @property
    def stored_bytes(self) -> int:
        """Bytes of one read of the matrix, as packed on disk; of a choice of rows the share of its panels."""
        return int(self._stored.stored_bytes if self._rows is None else self.operand().matrix.stored_bytes)

    @property
    def path(self) -> str:
        """The directory that holds it."""
        return str(self._stored.path)

    @property
    def triangle(self) -> bool:
        """Whether one triangle of a symmetric or Hermitian matrix is stored.

        Products with dense matrices and `eigsh` read it as it is; for everything else all elements are
        written into scratch first, once for all handles of the matrix.
        """
        return bool(self._stored.triangle)

    @property
    def layout(self) -> str:
        """How it lies on disk: "csr", or of "bitpacked", "pattern" and "triangle" those that hold, with +."""
        stored = self._stored
        return layout_of(_core.csr_bitpacked(stored), _core.csr_is_pattern(stored), self.triangle)

    def _whole(self, who: str, memory: int | str | None = None) -> SparseArray:
        """Return the matrix with all elements in its rows: itself, or of a triangle a copy in scratch."""
        if not self.triangle:
            return self
        from .to_csr import all_elements  # which needs this module

        return all_elements(who, self, memory)

    @property
    def T(self) -> SparseArray:
        """The transpose: a view for products, nothing is moved."""
        if self.triangle:
            mirrored: SparseArray = self.conj()
            return mirrored
        view: SparseArray = self._seen()
        view._transposed = not self._transposed
        return view

    def _repr_html_(self) -> str:
        return html_table("SparseArray", {
            "shape": shape_text(self.shape), "dtype": self.dtype.name,
            "stored values": f"{self.stored_values:,}", "bytes in memory": _core.format_bytes(self.nbytes),
            "bytes on disk": _core.format_bytes(self.stored_bytes), "where": self.path,
        })  # fmt: skip

    def __repr__(self) -> str:
        view = ".T" if self._transposed else ""
        view += " view" if self.lazy else ""
        half = ", one triangle" if self.triangle else ""
        if self._rows is not None:  # how many values they hold takes a look at pointers or values
            chosen = f"{self._seen_rows:,} of {self._stored.rows:,} rows"
            more = (
                "" if self._columns is None else f", {len(self._columns):,} of {self._stored.cols:,} columns"
            )
            return (
                f"<flagstone.SparseArray{view} {shape_text(self.shape)} {self.dtype.name}, {chosen}{more} "
                f"of '{self.path}' as it is stored, {self._stored.nnz:,} stored values in all of them>"
            )
        if self._columns is None:
            density = self.stored_values / max(1, self.shape[0] * self.shape[1])
            values = f"{self.stored_values:,} stored values ({density:.2%}{half})"
        else:  # how many of them takes a read
            stored = f"{self.stored_values:,} stored values in all of them"
            values = f"chosen columns of {self._stored.cols:,}, {stored}"
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

    def operand(self, memory: int | str | None = None) -> _core.CsrOperand:
        """Return the matrix prepared for streaming (made once), with all elements.

        Parameters
        ----------
        memory : int or str, optional
            Limit of the pass that unfolds a stored triangle into scratch; the Runtime's if None.

        Returns
        -------
        operand
            What the core's routines take.
        """
        return self._whole("sparse", memory).product_operand()

    def product_operand(self) -> _core.CsrOperand:
        """Return the same of products, which take a stored triangle as it is."""
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

        if self.triangle:
            return self._whole("to_scipy").to_scipy()
        call = Call("to_scipy")
        if self._rows is not None:
            return self._rows_to_scipy(call)
        index = np.dtype(np.int32 if max(self.stored_values, *self.shape) < 2**31 else np.int64)
        stored = self._stored
        parts = (stored.indptr, index), (stored.indices, index), (stored.data, np.dtype(stored.value_dtype))
        call.room(f"the whole matrix ({self.stored_values:,} stored values)", self._loading(parts))
        indptr = take(Array(stored.indptr), call, ...)
        check_pointers(indptr.astype(np.int64, copy=False), 0, stored.rows, stored.nnz, self.path)
        indptr = indptr.astype(index, copy=False)
        indices = take(Array(stored.indices), call, ...)
        check_columns(indices, stored.cols, 0, self.path)
        indices = indices.astype(index, copy=False)
        call.tidy()  # what was converted is kept for the next results
        data = take(Array(stored.data), call, ...).astype(stored.value_dtype, copy=False)
        # Given to the constructor they are copied: it takes memory of whole pages for a larger array's.
        matrix = sparse.csr_matrix((stored.rows, stored.cols), dtype=stored.value_dtype)
        matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
        if self.lazy:
            matrix = self._apply_to_scipy(matrix)
        return matrix.T if self._transposed else matrix

    def _rows_to_scipy(self, call: Call) -> Any:
        """Load the rows that are seen, stretch after stretch; columns that are left out go at once."""
        from scipy import sparse

        most = values_of_rows(call, self)
        index = np.dtype(np.int32 if max(most, *self.shape) < 2**31 else np.int64)
        rows = self._seen_rows
        held = most * (self.dtype.itemsize + index.itemsize) + (rows + 1) * index.itemsize
        call.room(f"the chosen rows ({most:,} stored values)", held + rows_bytes(self))
        data, indices = np.empty(most, self.dtype), np.empty(most, index)
        indptr = np.zeros(rows + 1, index)
        end = 0
        for row, pointers, columns, values in row_blocks(call, self, fixed=held):
            last = end + len(values)
            data[end:last], indices[end:last] = values, columns
            indptr[row + 1 : row + len(pointers)] = pointers[1:] + end
            end = last
        cols = self._stored.cols if self._columns is None else len(self._columns)
        matrix = sparse.csr_matrix((rows, cols), dtype=self.dtype)
        matrix.data, matrix.indices, matrix.indptr = data[:end], indices[:end], indptr
        return matrix.T if self._transposed else matrix

    def _only_element(self) -> Any:
        """Return the one number of a view of one row and one column: the row's chunks are read."""
        call = Call("index", light=True)
        values = [values for _, _, _, values in row_blocks(call, self)]
        return np.concatenate(values).sum(dtype=self.dtype) if values else self.dtype.type(0)

    def _loading(self, parts: Sequence[tuple[_core.Array, np.dtype[Any]]]) -> int:
        """Return the most that is held while parts are read one after the other into their dtypes."""
        most = kept = 0
        for part, dtype in parts:
            count, item = part.shape[0], np.dtype(part.dtype).itemsize
            converted = count * dtype.itemsize if np.dtype(part.dtype) != dtype else 0
            # As stored, staged or converted; pointers are looked at in differences.
            beside = max(min(STAGING, count * item), converted, 17 * count if part is parts[0][0] else 0)
            most = max(most, kept + count * item + beside + part.unpack_bytes)
            kept += count * dtype.itemsize
        return 3 * kept if self.lazy else most

    # Products -----------------------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        """Return ``A X``; `flagstone.matmul` takes a limit, an `out` and factors.

        Parameters
        ----------
        other : ndarray, Array, lazy expression or SparseArray, n x b or n
            float32, float64, complex64 or complex128: the precision of the product, which is complex where A
            or X is; sums over panels are float64 (complex128).

        Returns
        -------
        ndarray or Array
            In memory where X is, else in scratch.

        Notes
        -----
        Reads the matrix once (`stored_bytes`) where X or a block of its columns fits, else as
        `flagstone.matmul` says; 2 nnz b flops (complex: 8). The product with a `SparseArray` is one, in
        scratch.
        """
        if isinstance(other, SparseArray):
            return dispatch().matmul(self, other)
        return Csrmm(Call("matmul"), self, other).run()

    def __rmatmul__(self, other: Any) -> Any:
        """Return ``X A``: see ``A @ X``."""
        return Csrmm(Call("matmul"), self, other, left=True).run()

    def _gram(self, x: Any, memory: int | str | None = None, *, out: Any = None) -> GramProduct:
        return GramProduct(self, x, memory, out=out)

    @planned_by(_gram)
    def gram(self, x: Any, memory: int | str | None = None, *, out: Any = None) -> Any:
        """Return ``Aᴴ (A X)`` with one read of the matrix (`stored_bytes`); 4 nnz b flops (complex: 16).

        Parameters
        ----------
        x : ndarray, Array or lazy expression, n or n x b
            float32, float64, complex64 or complex128: the precision of the products; sums over panels are
            float64 (complex128).
        memory : int or str, optional
            Most resident memory of the whole process during the call.
        out : path, Array or ndarray, optional
            Where the n x b product goes.

        Returns
        -------
        ndarray or Array
            In memory where X is and no `out` is named; an X on disk makes an Array.

        Raises
        ------
        ShapeError
            A is a transpose; X has other rows than A columns; `out` does not fit.
        BudgetError
            The limit has no room for one column of X and its sums, and two panels.

        Notes
        -----
        X and the float64 sums of a block of columns are held, 12 n bytes a column of float32 (8 n where X
        lies in memory in rows): A is read once for each block. ``A.gram.plan(x)`` says how often.
        """
        return GramProduct(self, x, memory, out=out).run()

    def _multiply(self, x: Floats, adjoint: bool) -> Floats:
        a = self.H if adjoint else self
        return np.asarray(Csrmm(Call("matmul"), a, x).run())

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


@identity.register
def _(operand: SparseArray) -> dict[str, Any]:
    told = stored_identity(operand, operand.path)
    chosen = {"rows": as_text(operand._rows), "columns": as_text(operand._columns)}
    if operand.lazy and not operand._steps and "" not in chosen.values():
        told["chosen"] = chosen
    elif operand.lazy:
        found = hashlib.blake2b(digest_size=16)  # of the pending steps
        rows = () if operand._rows is None else (("rows", operand._rows),)
        for step in (*operand._steps, ("columns", operand._columns), *rows):
            for part in step:
                found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        told["steps"] = found.hexdigest()
    return told


def matrix_of(matrix: SparseArray, *, half: bool = False) -> _core.CsrMatrix:
    """Return the matrix as it is stored, for those that copy it; refuse a view with pending steps.

    `half`: of a stored triangle what is stored; otherwise all elements.
    """
    if not half:
        matrix = matrix._whole("sparse")
    return matrix._matrix


@opener("csr")
def open_csr(path: str) -> SparseArray:
    """Open a CSR group."""
    return SparseArray(_core.open_csr(path))


def _reopen(path: str, transposed: bool, stamped: tuple[int, ...]) -> SparseArray:
    check_stamp(path, stamped)
    matrix = open_csr(path)
    return matrix.T if transposed else matrix


def _view_of(name: str, arguments: tuple[Any, ...], transposed: bool) -> SparseArray:
    matrix: SparseArray = OPENERS[name](*arguments)
    return matrix.T if transposed else matrix
