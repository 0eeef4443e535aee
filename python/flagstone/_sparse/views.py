"""Sparse matrices seen through scaling, maps and a choice of rows and columns: nothing is written.

The steps are applied to values while panels are decoded: products, `fl.pca` and reductions see the matrix as
it would be. Only what keeps zero zero is possible: values that are not stored stay so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._array.array import shape_text
from .._array.dispatch import dispatch
from .._errors.classes import ShapeError
from .._runtime.arguments import unmasked
from .index import Chosen, as_slice, chosen, keys_of, whole, within
from .steps import keep_symmetry, part_of, seen_dtype, streamed
from .validation import check_listed

__all__ = ["LazySparse"]

_MAPS = {
    "absolute", "arcsin", "arcsinh", "arctan", "cbrt", "ceil", "expm1", "floor", "log1p", "negative", "rint",
    "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
}  # fmt: skip


_COMPLEX_MAPS = {"expm1", "log1p", "negative", "sin", "sinh", "sqrt", "square", "tan", "tanh"}


class LazySparse:
    """The part of `SparseArray` that makes views and reduces them."""

    _stored: _core.CsrMatrix
    _transposed: bool
    _owner: Any
    _steps: tuple[tuple[str, Any], ...]
    _rows: Chosen | None
    _columns: NDArray[np.int64] | None
    _prepared: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the values."""
        raise NotImplementedError

    def _whole(self, who: str, memory: int | str | None = None) -> Any:
        raise NotImplementedError

    @property
    def lazy(self) -> bool:
        """Whether values are changed, or rows or columns left out, on the way in."""
        return bool(self._steps) or self._rows is not None or self._columns is not None

    def _seen(self, *steps: tuple[str, Any], columns: Any = None) -> Any:
        if self._stored.triangle and not keep_symmetry(steps):
            return self._whole("scale")._seen(*steps, columns=columns)
        view: Any = object.__new__(type(self))  # not copy(): that would pickle
        view.__dict__.update(self.__dict__)
        view._root, view._prepared, view._nnz = self._owner, None, None
        view._steps = (*self._steps, *steps)
        if columns is not None:
            view._columns = columns
        return view

    def _of_rows(self, rows: Chosen) -> Any:
        """Return some of the stored rows that are seen; factors of rows are kept for these."""
        if self._stored.triangle:
            return self._whole("A[rows]")._of_rows(rows)
        view = self._seen()
        view._rows = within(self._rows, rows)
        view._steps = tuple(
            (kind, np.ascontiguousarray(what[as_slice(rows)])) if kind == "rows" else (kind, what)
            for kind, what in self._steps
        )
        return view

    def _of_columns(self, columns: Chosen) -> Any:
        if not len(columns):
            raise ShapeError(
                f"select: columns must be a mask of {self.shape[int(not self._transposed)]}, or increasing "
                "indices below it, at least one."
            )
        if self._stored.triangle:
            return self._whole("A[:, columns]")._of_columns(columns)
        check_listed("index", self.shape, self._stored.cols, "new numbers")
        seen = within(self._columns, columns)
        return self._seen(columns=np.asarray(seen, np.int64))

    def scale(
        self,
        *,
        rows: ArrayLike | None = None,
        columns: ArrayLike | None = None,
        factor: complex | None = None,
    ) -> Any:
        """Return the matrix with rows, columns or everything multiplied; lazy, nothing is written.

        Parameters
        ----------
        rows, columns : array_like, optional
            One finite factor for each row (column).
        factor : float or complex, optional
            One for all; a complex one makes the matrix complex.
        """
        given = {"rows": rows, "columns": columns}
        steps: list[tuple[str, Any]] = []
        for axis, (name, values) in enumerate(given.items()):
            if values is None:
                continue
            factors = np.ascontiguousarray(values, np.float64)
            if factors.shape != (self.shape[axis],):
                raise ShapeError(
                    f"scale: {name} is {factors.shape} and the matrix {self.shape}; give one factor for each."
                )
            stored = name if not self._transposed else {"rows": "columns", "columns": "rows"}[name]
            if stored == "columns" and self._columns is not None:
                factors, chosen = np.ones(self._stored.cols), factors
                factors[self._columns] = chosen
            steps.append((stored, factors))
        if factor is not None:
            turned = np.iscomplexobj(factor)
            both = [complex(factor).real, complex(factor).imag] if turned else [factor]
            steps.append(("turn" if turned else "scale", np.asarray(both, np.float64)))
        for _, factors in steps:
            if not np.isfinite(factors).all():
                raise ShapeError("scale: a factor is NaN or Inf, which would change what is not stored.")
        return self._seen(*steps)

    def map(self, name: str) -> Any:
        """Return the matrix with a function applied to its values, by NumPy's name ("log1p", ...); lazy."""
        if name not in _MAPS:
            raise TypeError(
                f"map: {name!r} does not keep zero zero; choose one of {', '.join(sorted(_MAPS))}."
            )
        if self.dtype.kind == "c":
            if name == "absolute":
                return self._seen(("part", "abs"))
            if name not in _COMPLEX_MAPS:
                raise TypeError(
                    f"map: the matrix is {self.dtype.name}, and {name!r} is of real numbers; choose one of "
                    f"absolute, {', '.join(sorted(_COMPLEX_MAPS))}."
                )
        return self._seen(("map", name))

    def conj(self) -> Any:
        """Return the complex conjugate: a view; of real values the matrix itself."""
        return self._seen(("part", "conj")) if self.dtype.kind == "c" else self

    @property
    def real(self) -> Any:
        """The real parts: a view, whose zeros stay stored; of real values the matrix itself."""
        return self._seen(("part", "real")) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Any:
        """The imaginary parts: a view, whose zeros stay stored."""
        return self._seen(("part", "imag"))

    def power(self, n: float) -> Any:
        """Return every value to the power n, more than 0, as SciPy's `power` does; lazy.

        Integers stream as floating numbers, and so do their powers (SciPy keeps the dtype).
        """
        if isinstance(n, bool) or not isinstance(n, (int, float, np.integer, np.floating)):
            raise TypeError(f"power: n is {type(n).__name__}; a number is needed.")
        if not (np.isfinite(n) and n > 0):
            raise ShapeError(
                f"power: n is {n}, which does not keep zero zero; a finite number more than 0 is needed "
                "(to_scipy() has the rest)."
            )
        return self._seen(("power", np.asarray([n], np.float64)))

    def multiply(self, other: Any) -> Any:
        """Return the matrix times `other`, element by element, as SciPy's `multiply` does; lazy.

        Parameters
        ----------
        other : number, array_like or SparseArray
            One factor for all, n (1 x n) factors of columns, or m x 1 factors of rows: ``A * other``. Of a
            sparse matrix the products of elements are written into scratch: `flagstone.sparse.multiply`. The
            product of matrices is ``A @ other``.
        """
        if isinstance(other, LazySparse):
            return dispatch().sparse("multiply")(self, other)
        return self * other

    def astype(self, dtype: Any) -> Any:
        """Return the matrix with values of another dtype; lazy.

        Parameters
        ----------
        dtype : dtype
            float32 (values are rounded to it), float64, complex64, complex128, bool (True where a value is
            not zero), or integers that hold every value of the present dtype. What follows is computed in
            single precision up to 4 bytes (complex: 8), else in double. Of complex values only the complex
            dtypes and bool: `real`, `imag` and ``abs`` say which real numbers are meant.
        """
        wanted = np.dtype(dtype)
        if wanted == self.dtype:
            return self
        known = wanted in (np.float32, np.float64, np.complex64, np.complex128, np.bool_)
        if self.dtype.kind == "c" and wanted.kind not in "cb":
            raise TypeError(
                f"astype: {self.dtype.name} as {wanted} would lose the imaginary parts; take A.real, "
                "A.imag or "
                "abs(A)."
            )
        if not known and (wanted.kind not in "iu" or not np.can_cast(self.dtype, wanted)):
            raise TypeError(
                f"astype: {self.dtype.name} as {wanted} is not possible without loading the matrix; choose "
                "float32, float64, bool, or integers that hold all values (to_scipy() has the rest)."
            )
        return self._seen(("cast", wanted.newbyteorder("=")))

    def log1p(self) -> Any:
        """Return log(1 + x) of every value; lazy."""
        return self.map("log1p")

    def select(self, columns: ArrayLike) -> Any:
        """Return some columns (a mask, or increasing indices); lazy, also ``A[:, columns]``."""
        given = np.asarray(columns)
        cols = self.shape[1]
        if given.dtype == bool and given.shape == (cols,):
            given = np.flatnonzero(given)
        fits = given.ndim == 1 and given.dtype.kind in "iu" and given.size > 0
        if not fits or given[0] < 0 or given[-1] >= cols or (np.diff(given.astype(np.int64)) <= 0).any():
            raise ShapeError(
                f"select: columns must be a mask of {cols}, or increasing indices below it, at least one."
            )
        return self[:, given]

    def __getitem__(self, key: Any) -> Any:
        """Return ``A[rows]``, ``A[:, columns]``, ``A[rows, columns]``: lazy; the number ``A[i, j]``.

        Parameters
        ----------
        key : rows, or rows and columns
            Of each axis a number, a slice with a positive step, a mask, or increasing numbers; an Array, a
            lazy expression or a pending reduction of one dimension is computed first:
            ``A[A.count_nonzero(1) >= 200]``. Two lists choose rows and columns, each for itself.

        Returns
        -------
        SparseArray or number
            Of two dimensions, also of one row or column. A number where both are numbers.

        Raises
        ------
        ShapeError
            Another order, a number twice, a mask of another length, no column.
        IndexError
            Beyond the matrix.

        Notes
        -----
        Reads nothing but what is computed for the key. Whoever uses the result reads the panels of rows that
        hold a chosen one. ``A[i, j]`` reads the chunks of that row. 8 bytes of memory for each chosen row
        that no slice names.
        """
        keys = keys_of(key)
        numbers = [hasattr(k, "__index__") and np.ndim(k) == 0 and not isinstance(k, bool) for k in keys]
        picked = [
            None if whole(item, extent) else chosen(item, axis, extent)
            for axis, (item, extent) in enumerate(zip(keys, self.shape, strict=True))
        ]
        rows, columns = picked[::-1] if self._transposed else picked
        view: Any = self
        if rows is not None:
            view = view._of_rows(rows)
        if columns is not None:
            view = view._of_columns(columns)
        return view._only_element() if all(numbers) else view

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows, lazily, each 1 x n; one that is used costs the panel that holds it."""
        return (self[row] for row in range(self.shape[0]))

    def _only_element(self) -> Any:
        raise NotImplementedError

    def __matmul__(self, other: Any) -> Any:
        raise NotImplementedError

    def __rmatmul__(self, other: Any) -> Any:
        raise NotImplementedError

    def _transformed(self, base: _core.CsrOperand) -> _core.CsrOperand:
        transform = _core.CsrTransform()
        for kind, what in self._steps:
            if kind == "map":
                transform.map(what)
            elif kind == "cast":
                transform.cast(what.name)
            elif kind == "part":
                transform.part(what)
            else:
                transform.scale(kind, what)
        if self._columns is not None:
            transform.select(self._places())
        if isinstance(self._rows, range) and (self._rows.step == 1 or not self._rows):
            base = _core.chosen_csr(base, self._rows.start, max(self._rows.start, self._rows.stop))
        elif self._rows is not None:
            base = _core.chosen_csr(base, np.asarray(self._rows, np.int64))
        if not self._steps and self._columns is None:
            return base
        return _core.transformed_csr(base, transform)

    def _places(self) -> NDArray[np.int64]:
        """Return the place of each stored column among those that stay, or -1."""
        place = np.full(self._stored.cols, -1, np.int64)
        place[self._columns] = np.arange(len(self._columns))  # type: ignore[arg-type]
        return place

    def _applied(
        self,
        first: int,
        pointers: NDArray[Any],
        columns: NDArray[Any],
        values: NDArray[Any],
        places: NDArray[Any] | None,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Apply the steps to rows in memory: `first` and following of those that are seen."""
        values = values.astype(np.dtype(self._stored.value_dtype), copy=False)
        for kind, what in self._steps:
            if kind == "cast":
                values = values.astype(what)
                continue
            real = streamed(values.dtype)
            values = values.astype(real, copy=False)
            if kind == "map":
                values = getattr(np, what)(values)
            elif kind == "part":
                values = part_of(values, what)
            elif kind == "turn":
                values = (values * complex(*what)).astype(seen_dtype(real, kind, what))
            elif kind == "power":
                values = np.power(values, what[0]).astype(real)
            elif kind == "rows":
                factors = what[first : first + len(pointers) - 1]
                values = (values * np.repeat(factors, np.diff(pointers))).astype(real)
            elif kind == "columns":
                values = (values * what[columns]).astype(real)
            else:
                values = (values * what[0]).astype(real)
        if places is None:
            return pointers, columns, values
        moved = places[columns]
        stay = moved >= 0
        ends = np.concatenate([[0], np.cumsum(stay)])[pointers]
        return ends, moved[stay].astype(columns.dtype), values[stay]

    def _apply_to_scipy(self, matrix: Any) -> Any:
        """Apply the steps to a SciPy CSR matrix in memory, in the dtype that products see."""
        matrix.data = self._applied(0, matrix.indptr, matrix.indices, matrix.data, None)[2]
        return matrix if self._columns is None else matrix[:, self._columns]

    # Operators --------------------------------------------------------------------------------------------

    def _factors(self, other: Any, who: str) -> NDArray[Any]:
        """Return a number (complex too), a row or a column of factors in float64, or say what is possible."""
        pending = getattr(other, "_flagstone_value", None)
        if pending is not None:  # a reduction: its values are needed now
            other = pending()
        known = (int, float, complex, np.ndarray, np.generic, list, tuple)
        given = other if isinstance(other, known) else None
        values = np.asarray(unmasked(who, given))
        rows, cols = self.shape
        turned = values.dtype.kind == "c" and values.ndim == 0
        if given is None or (values.dtype.kind not in "biuf" and not turned):
            kind = type(other).__name__ if given is None else f"{type(other).__name__} of {values.dtype}"
            raise TypeError(
                f"{who}: the other operand is {kind}; a number, {cols} factors of columns or {rows} x 1 "
                "factors of rows are needed (A.multiply(B) is of two matrices)."
            )
        if values.ndim and values.shape not in ((cols,), (1, cols), (rows, 1)):
            raise ShapeError(
                f"{who}: the other operand is {shape_text(values.shape)} and the matrix "
                f"{shape_text(self.shape)}; a number, {cols} factors of columns or {rows} x 1 factors of "
                "rows are needed."
            )
        return values.astype(np.complex128 if turned else np.float64)

    def _scaled_by(self, factors: NDArray[Any]) -> Any:
        if factors.ndim == 0:
            return self.scale(factor=factors.item())
        if factors.shape == (self.shape[0], 1) and factors.shape != (1, self.shape[1]):
            return self.scale(rows=factors[:, 0])
        return self.scale(columns=factors.reshape(-1))

    def __mul__(self, other: Any) -> Any:
        return self._scaled_by(self._factors(other, "multiply"))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        factors = self._factors(other, "divide")
        with np.errstate(divide="ignore"):
            return self._scaled_by(np.asarray(1.0 / factors))

    def __neg__(self) -> Any:
        return self.map("negative")

    def __abs__(self) -> Any:
        return self.map("absolute")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Return the lazy view of ``np.log1p(A)``, ``A * v``, ``ndarray / ...``; refuse what would load."""
        if method == "__call__" and not options:
            if ufunc is np.matmul:
                left = inputs[0] is self
                return self.__matmul__(inputs[1]) if left else self.__rmatmul__(inputs[0])
            if len(inputs) == 1 and ufunc is np.conjugate:
                return self.conj()
            if len(inputs) == 1 and ufunc.__name__ in _MAPS:
                return self.map(ufunc.__name__)
            if ufunc is np.multiply:
                return self.__mul__(inputs[1] if inputs[0] is self else inputs[0])
            if ufunc is np.true_divide and inputs[0] is self:
                return self.__truediv__(inputs[1])
            if ufunc in (np.add, np.subtract) and all(isinstance(one, LazySparse) for one in inputs):
                return inputs[0] + inputs[1] if ufunc is np.add else inputs[0] - inputs[1]
        raise TypeError(
            f"numpy.{ufunc.__name__}: not possible on a SparseArray without loading it; call "
            "to_scipy() first."
        )
