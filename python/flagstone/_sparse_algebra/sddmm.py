"""S ∘ (X Yᵀ) on the pattern of S: products of dense rows only where S stores a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array
from .._array.requests import shape_text, take
from .._errors.classes import ShapeError
from .._expression.operand import lazy_operand
from .._resume.identity import identity, memory_identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._runtime.routine import Prepared, routine
from .._sparse.array import SparseArray
from .._sparse.row_blocks import row_blocks
from .elementwise import Out
from .written import BESIDE, Rows, SparseResult, in_rows, part_of

__all__ = ["sddmm"]

_PIECE = 4 << 20  # bytes of gathered rows of X, and of Y, at a time


class _Sampled(SparseResult):
    """The checked arguments of one call."""

    operation = "sddmm"

    def __init__(self, call: Call, s: Any, x: Any, y: Any, out: Out) -> None:
        matrix = in_rows(call, "S", s)
        self.x, self.y = (self._dense(call, name, one) for name, one in (("X", x), ("Y", y)))
        wanted = matrix.shape[0], matrix.shape[1]
        if (self.x.shape[0], self.y.shape[0]) != wanted or self.x.shape[1] != self.y.shape[1]:
            raise ShapeError(
                f"{call.who}: S is {shape_text(wanted)}, X {shape_text(tuple(self.x.shape))} and Y "
                f"{shape_text(tuple(self.y.shape))}; a row of X for each row of S, one of Y for each column, "
                "of one length, are needed."
            )
        narrow = matrix.dtype in (np.float32, np.complex64)
        narrow = narrow and all(one.dtype == np.float32 for one in (self.x, self.y))
        self.real = np.dtype(np.float32 if narrow else np.float64)  # of the products of rows
        dtype = np.result_type(self.real, np.complex64) if matrix.dtype.kind == "c" else self.real
        super().__init__(call, [matrix], wanted, dtype, matrix.stored_values, out)
        self.matrix = matrix

    @staticmethod
    def _dense(call: Call, name: str, given: Any) -> Any:
        found = lazy_operand(call, given)
        if not isinstance(found, Array):
            found = np.asarray(unmasked(call.who, found))
        if found.ndim != 2 or found.dtype.kind not in "biuf":
            raise ShapeError(
                f"{call.who}: {name} is {shape_text(tuple(found.shape))} {found.dtype}; a matrix of real "
                "numbers is needed."
            )
        return found

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = self.operands[0].stored_values
        return f"sddmm {shape_text(self.shape)} sparse, {stored:,} stored values, rows of {self.x.shape[1]}"

    @property
    def flops(self) -> float:
        """Two for each value and column of X."""
        return 2.0 * self.operands[0].stored_values * float(self.x.shape[1])

    @property
    def read_bytes(self) -> int:
        """S, X and Y once: Y again where it does not fit."""
        dense = sum(one.nbytes for one in (self.x, self.y) if isinstance(one, Array))
        return self.operands[0].stored_bytes + dense

    @property
    def note(self) -> str:
        """How much is stored is known."""
        return "the pattern is that of S"

    def _row(self) -> int:
        """Bytes of a row of X or Y, as it is stored and as it is multiplied."""
        return int(max(1, self.x.shape[1]) * (8 + max(self.x.dtype.itemsize, self.y.dtype.itemsize)))

    @property
    def working(self) -> int:
        """Some rows of X and of Y, gathered."""
        return super().working + 4 * max(_PIECE, self._row())

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield rows of S with their values multiplied by the products."""
        call, n = self.call, self.shape[1]
        height = call.share("rows of Y", 2 * self._row(), max(1, n), fixed=self.fixed + self.beside)
        held = self._part(self.y, 0, n) if height >= n else None
        tall = max(1, _PIECE // self._row())
        for row, *block in row_blocks(
            call, self.matrix, first, beside=BESIDE, fixed=self.fixed + self.working
        ):
            for low in range(0, len(block[0]) - 1, tall):
                high = min(low + tall, len(block[0]) - 1)
                pointers, columns, values = part_of((block[0], block[1], block[2]), low, high)
                x = self._part(self.x, row + low, row + high)
                made = np.empty(len(values), self.real)
                at = np.repeat(np.arange(high - low), np.diff(pointers))
                for start in range(0, n, max(1, height)):
                    y = held if held is not None else self._part(self.y, start, min(n, start + height))
                    here = (
                        slice(None) if held is not None else (columns >= start) & (columns < start + height)
                    )
                    made[here] = self._products(x, at[here], y, columns[here].astype(np.int64) - start)
                    if held is not None:
                        break
                yield pointers, columns, values.astype(self.dtype) * made

    def _part(self, dense: Any, low: int, high: int) -> NDArray[Any]:
        part = take(dense, self.call, np.s_[low:high]) if isinstance(dense, Array) else dense[low:high]
        return np.ascontiguousarray(part, self.real)

    def _products(
        self, x: NDArray[Any], rows: NDArray[Any], y: NDArray[Any], columns: NDArray[Any]
    ) -> NDArray[Any]:
        """Return x[rows] · y[columns], a sum along each pair of rows: who stands beside it matters not."""
        found = np.empty(len(rows), self.real)
        step = max(1, _PIECE // self._row())
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            found[part] = (x[rows[part]] * y[columns[part]]).sum(1)
        return found

    def arguments(self) -> dict[str, Any]:
        """Return the operands."""
        x, y = (identity(one) if isinstance(one, Array) else memory_identity(one) for one in (self.x, self.y))
        return {"s": identity(self.matrix), "x": x, "y": y}


@routine
def sddmm(
    S: SparseArray, X: Any, Y: Any, /, *, out: Out = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return S ∘ (X Yᵀ): products of rows of X and Y where S stores a value, times that value.

    Parameters
    ----------
    S : SparseArray
        m x n; views too.
    X, Y : Array, Expression or ndarray
        m x k and n x k, of real numbers, on disk or in memory.
    out : path, optional
        Where the result goes, replaced at once and whole; default: scratch, until the handle dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    SparseArray
        With the pattern of S; in float32 where all three are of single precision, else float64; complex where
        S is.

    Raises
    ------
    ShapeError
        Extents do not conform.
    BudgetError
        The limit is too small; raised before any data is moved.

    Notes
    -----
    Reads S and X once, and Y once where it fits, else once for each stretch of S; writes nnz(S) values;
    2 nnz(S) k flops. The same bits for every limit: a value is one sum over a row. A killed one goes on.
    """
    return _Sampled(Call("sddmm", memory), S, X, Y, out)


@resumable("sddmm")
def _again(path: str, told: dict[str, Any]) -> Again:
    return sddmm, tuple(operand(name, told[name.lower()]) for name in "SXY"), {"out": path}
