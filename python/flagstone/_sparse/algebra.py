"""What a SparseArray makes of itself and of others: sums, triangles, its diagonal, norms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.dispatch import dispatch
from .._errors.classes import ShapeError
from .._runtime.call import Call
from .reductions import stored_numbers
from .row_blocks import lengths_of_rows, row_blocks, rows_bytes
from .validation import listed

__all__ = ["SparseAlgebra"]

_ENTRY = 24  # bytes that looking at an entry takes: its row, its column, whether they meet


_IN_RANGE = 1e-150, 1e150  # norms whose squares, and those of what counts in them, are normal numbers


def _frobenius(values: Any, memory: int | str | None) -> float:
    """Return the norm of real values, of float64."""
    found = float(np.sqrt(float(values.map("square").sum(memory=memory))))
    if _IN_RANGE[0] < found < _IN_RANGE[1]:
        return found
    largest = float(abs(values).max(memory=memory))
    if not 0 < largest < np.inf:
        return largest
    unit = int(np.clip(np.frexp(largest)[1], -1000, 1000))
    scaled = values.scale(factor=np.ldexp(1.0, -unit)).map("square").sum(memory=memory)
    return float(np.ldexp(np.sqrt(float(scaled)), unit))


def _is_sparse(other: Any) -> bool:
    return isinstance(other, SparseAlgebra)


class SparseAlgebra:
    """The part of `SparseArray` that makes other matrices.

    Those are written, to `out` or into scratch, in fixed memory; `flagstone.sparse` has the same as functions
    with plans.
    """

    shape: Any
    dtype: Any
    _transposed: bool

    @property
    def H(self) -> Any:
        """The conjugate transpose: a view."""
        return self.conj().T  # type: ignore[attr-defined]

    def __add__(self, other: Any) -> Any:
        return self._with("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._with("add", other)

    def __sub__(self, other: Any) -> Any:
        return self._with("subtract", other)

    def _with(self, verb: str, other: Any) -> Any:
        if hasattr(other, "tocsr"):
            raise TypeError(
                f"{verb}: the other operand is a sparse matrix in memory ({type(other).__name__}); "
                "fl.from_blocks([it]) makes a SparseArray of it."
            )
        return dispatch().sparse(verb)(self, other) if _is_sparse(other) else NotImplemented

    def tril(self, k: int = 0, *, out: Any = None, memory: int | str | None = None) -> Any:
        """Return the elements on and below the k-th diagonal: `flagstone.sparse.tril`."""
        return dispatch().sparse("tril")(self, k, out=out, memory=memory)

    def triu(self, k: int = 0, *, out: Any = None, memory: int | str | None = None) -> Any:
        """Return the elements on and above the k-th diagonal: `flagstone.sparse.triu`."""
        return dispatch().sparse("triu")(self, k, out=out, memory=memory)

    def above(self, threshold: float, *, out: Any = None, memory: int | str | None = None) -> Any:
        """Return the stored values that are more than `threshold`: `flagstone.sparse.above`."""
        return dispatch().sparse("above")(self, threshold, out=out, memory=memory)

    def diagonal(self, k: int = 0, *, memory: int | str | None = None) -> NDArray[Any]:
        """Return the k-th diagonal, as an ndarray of the matrix's dtype.

        Parameters
        ----------
        k : int
            0: the main diagonal; above it positive.
        memory : int or str, optional
            Most resident memory of the whole process during the call.

        Raises
        ------
        ShapeError
            There is no such diagonal.

        Notes
        -----
        Reads the matrix once (`stored_bytes`); no flops.
        """
        m, n = self.shape
        if isinstance(k, bool) or not hasattr(k, "__index__"):
            raise ShapeError(f"diagonal: k is {k!r}; the integer number of a diagonal is needed.")
        if not -m < k < n and 0 not in self.shape:
            raise ShapeError(
                f"diagonal: k is {k} and the matrix is {m} x {n}; between {1 - m} and {n - 1} is needed."
            )
        call = Call("diagonal", memory)
        length = max(0, min(m + min(k, 0), n - max(k, 0)))
        seen: Any = self
        nbytes = length * self.dtype.itemsize
        call.room("the diagonal and rows of the matrix", nbytes + rows_bytes(seen, _ENTRY))
        half = seen.triangle  # what lies above its diagonal is mirrored
        offset = -abs(k) if half else -k if self._transposed else k  # in what is stored
        with call.measured(f"diagonal {m} x {n} sparse", "row blocks") as moved:
            found = np.zeros(length, self.dtype)
            for row, pointers, columns, values in row_blocks(call, seen, beside=_ENTRY, stored=half):
                rows = np.repeat(np.arange(row, row + len(pointers) - 1), np.diff(pointers))
                on = columns.astype(np.int64) == rows + offset
                found[np.minimum(rows[on], columns[on])] = values[on]
                del rows, on, columns, values  # before the memory is given back
            moved.bytes_read = seen.stored_bytes
        return np.conj(found) if half and k > 0 else found

    def getnnz(self, axis: int | None = None, *, memory: int | str | None = None) -> Any:
        """Return how many values are stored: in all, or in each column (axis 0) or row (1), as SciPy does.

        Parameters
        ----------
        axis : int, optional
            0: of each column; 1: of each row; default: the number of all.
        memory : int or str, optional
            Most resident memory of the whole process during the call.

        Returns
        -------
        int or ndarray of int64

        Raises
        ------
        ShapeError
            `axis` is another one.

        Notes
        -----
        Stored zeros count. Numbers of stored rows are read from their pointers, 8 bytes each unpacked; those
        of stored columns, and of views that leave columns out, take one read of the matrix.
        """
        seen: Any = self
        seen = seen._whole("getnnz", memory)
        if axis is None:
            return seen.nnz
        if axis not in (0, 1, -1, -2):
            raise ShapeError(f"getnnz: axis is {axis}; 0 (columns), 1 (rows) or None is needed.")
        along_rows = (axis % 2 == 1) != self._transposed
        call = Call("getnnz", memory)
        if along_rows and seen._columns is None:
            with call.measured(f"getnnz {self.shape[0]} x {self.shape[1]} sparse", "pointers"):
                return lengths_of_rows(call, seen)
        return stored_numbers(seen, along_rows, memory)

    def norm(self, ord: str | float | None = None, *, memory: int | str | None = None) -> float:
        """Return a norm, as SciPy's `scipy.sparse.linalg.norm` does.

        Parameters
        ----------
        ord : {"fro", 1, inf, "max"}, optional
            Frobenius (the default); the largest sum of magnitudes of a column (1) or of a row (inf); the
            largest magnitude ("max").
        memory : int or str, optional
            Most resident memory of the whole process during the call.

        Raises
        ------
        ShapeError
            Another order: the 2-norm is the largest singular value.

        Notes
        -----
        Reads the matrix once; sums are compensated, in float64. Where squares leave its range, the
        Frobenius norm takes two reads more. Sums of more than 2³⁵ columns are of those that hold a
        value: the matrix is read three times and written once, with its columns numbered.
        """
        seen: Any = self
        if ord not in (None, "fro", 1, np.inf, "max"):
            raise ShapeError(f"norm: ord is {ord!r}; 'fro', 1, inf or 'max' is needed.")
        if 0 in self.shape:
            return 0.0
        if ord in (None, "fro"):
            return _frobenius((abs(seen) if self.dtype.kind == "c" else seen).astype(np.float64), memory)
        magnitudes = abs(seen)
        if ord == "max":
            return float(magnitudes.max(memory=memory))
        axis = 0 if ord == 1 else 1
        if not listed(self.shape[1 - axis]):
            by_columns = magnitudes if axis == 0 else magnitudes.T
            (magnitudes,), axis = dispatch().numbered("norm", [by_columns], memory), 0
            if not magnitudes.shape[1]:
                return 0.0
        return float(np.max(np.asarray(magnitudes.sum(axis, memory=memory))))
