"""Sums, products by element, triangles and joins of sparse matrices: one read of each, one write."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.requests import shape_text
from .._errors.classes import ShapeError
from .._resume.identity import identity
from .._resume.openers import operand
from .._resume.registers import Again, resumable
from .._runtime.call import Call
from .._runtime.routine import Prepared, routine
from .._sparse.array import SparseArray
from .._sparse.row_blocks import row_blocks
from .written import BESIDE, Rows, SparseResult, aligned, in_rows

__all__ = [
    "above", "add", "as_scipy", "by_name", "concat", "load_scipy", "multiply", "subtract", "tril", "triu",
]  # fmt: skip

Out = str | os.PathLike[str] | None


def load_scipy() -> None:
    """Load what makes rows, so that its 15 MiB are resident when a limit is asked, and in plans."""
    importlib.import_module("scipy.sparse")


def as_scipy(block: Rows, cols: int) -> Any:
    """Return a stretch of rows as SciPy's matrix, without a copy and without a look at it."""
    from scipy import sparse

    pointers, columns, values = block
    index = np.dtype(np.int32 if max(len(values), cols) < 2**31 else np.int64)
    matrix = sparse.csr_matrix((len(pointers) - 1, cols), dtype=values.dtype)
    matrix.data, matrix.indptr = values, pointers.astype(index, copy=False)
    matrix.indices = columns.astype(index, copy=False)
    matrix.has_canonical_format = True
    return matrix


class _Pairwise(SparseResult):
    """A + B, A - B or A ∘ B."""

    operation = "sparse pair"

    def __init__(self, call: Call, verb: str, a: Any, b: Any, out: Out) -> None:
        self.verb = verb
        load_scipy()
        pair = [in_rows(call, name, one) for name, one in (("A", a), ("B", b))]
        if pair[0].shape != pair[1].shape:
            raise ShapeError(
                f"{call.who}: A is {shape_text(pair[0].shape)} and B is {shape_text(pair[1].shape)}; they "
                "must be equal."
            )
        stored = [one.stored_values for one in pair]
        bound = min(stored) if verb == "multiply" else min(sum(stored), pair[0].shape[0] * pair[0].shape[1])
        dtype = np.result_type(*(one.dtype for one in pair))
        if verb == "subtract" and dtype.kind == "b":
            raise TypeError(
                f"{call.who}: both matrices are bool, of which there is no difference; use astype."
            )
        super().__init__(call, pair, pair[0].shape, dtype, bound, out)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = sum(one.stored_values for one in self.operands)
        return f"{self.call.who} {shape_text(self.shape)} sparse, {stored:,} stored values"

    @property
    def flops(self) -> float:
        """One for each value."""
        return float(sum(one.stored_values for one in self.operands))

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield rows as SciPy makes them of the same rows: elements that become 0 are not stored."""
        for _, pair in aligned(self.call, self.operands, first, fixed=self.fixed):
            a, b = (as_scipy(one, self.shape[1]) for one in pair)
            made = (
                a + b if self.verb == "add" else a - b if self.verb == "subtract" else a.multiply(b).tocsr()
            )
            made.sort_indices()
            yield made.indptr.astype(np.int64), made.indices, made.data

    def arguments(self) -> dict[str, Any]:
        """Return the verb and the operands."""
        a, b = map(identity, self.operands)
        return {"verb": self.verb, "a": a, "b": b}


@routine
def add(
    A: SparseArray, B: SparseArray, /, *, out: Out = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return A + B of two sparse matrices, as ``A + B`` does.

    Parameters
    ----------
    A, B : SparseArray
        Of one shape; views too. One stored by columns (a transpose) is turned round in scratch first.
    out : path, optional
        Where the result goes, replaced at once and whole; default: scratch, until the handle dies.
    memory : int or str, optional
        Most resident memory of the whole process during the call.

    Returns
    -------
    SparseArray
        In NumPy's dtype of the two (bool is stored as uint8, half precision as float32). Elements whose
        values add up to 0 are not stored, as in SciPy.

    Raises
    ------
    ShapeError
        Shapes differ.

    Notes
    -----
    Reads each once and writes at most nnz(A) + nnz(B) values; as many flops. A killed one goes on.
    """
    return _Pairwise(Call("add", memory), "add", A, B, out)


@routine
def subtract(
    A: SparseArray, B: SparseArray, /, *, out: Out = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return A - B of two sparse matrices; everything else as `add`."""
    return _Pairwise(Call("subtract", memory), "subtract", A, B, out)


@routine
def multiply(
    A: SparseArray, B: SparseArray, /, *, out: Out = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return A ∘ B, element by element, of two sparse matrices, as ``A.multiply(B)`` does.

    Parameters
    ----------
    A, B, out, memory
        As for `add`.

    Returns
    -------
    SparseArray
        Values where both store one; products that are 0 are not stored, as in SciPy.

    Raises
    ------
    ShapeError
        Shapes differ.

    Notes
    -----
    Reads each once and writes at most min(nnz(A), nnz(B)) values; as many flops.
    """
    return _Pairwise(Call("multiply", memory), "multiply", A, B, out)


class _Kept(SparseResult):
    """Those elements of a matrix that a rule keeps."""

    operation = "sparse part"

    def __init__(self, call: Call, rule: str, number: float, a: Any, out: Out) -> None:
        self.rule, self.number = rule, number
        matrix = in_rows(call, "A", a)
        if rule == "above" and matrix.dtype.kind == "c":
            raise ShapeError(
                f"{call.who}: A is {matrix.dtype}, and no complex number is larger than another; take abs(A)."
            )
        super().__init__(call, [matrix], matrix.shape, matrix.dtype, matrix.stored_values, out)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        stored = self.operands[0].stored_values
        return f"{self.call.who} {shape_text(self.shape)} sparse, {stored:,} stored values"

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield rows without what goes."""
        rule: Callable[..., NDArray[Any]] = {
            "tril": lambda row, column, value: column <= row + self.number,
            "triu": lambda row, column, value: column >= row + self.number,
            "above": lambda row, column, value: value > self.number,
        }[self.rule]
        for row, pointers, columns, values in row_blocks(
            self.call, self.operands[0], first, beside=BESIDE, fixed=self.fixed
        ):
            rows = np.repeat(np.arange(row, row + len(pointers) - 1), np.diff(pointers))
            stay = rule(rows, columns.astype(np.int64, copy=False), values)
            yield np.concatenate([[0], np.cumsum(stay)])[pointers], columns[stay], values[stay]

    def arguments(self) -> dict[str, Any]:
        """Return the rule and the operand."""
        return {"rule": self.rule, "number": self.number, "a": identity(self.operands[0])}


@routine
def tril(A: SparseArray, k: int = 0, /, *, out: Out = None, memory: int | str | None = None) -> Prepared[Any]:
    """Return the elements on and below the k-th diagonal, as a sparse matrix that is written.

    Parameters
    ----------
    A : SparseArray
        Views too.
    k : int
        0: the main diagonal; above it positive.
    out, memory
        As for `add`.

    Returns
    -------
    SparseArray

    Notes
    -----
    Reads A once and writes at most nnz(A) values.
    """
    return _Kept(Call("tril", memory), "tril", _whole("tril", k), A, out)


@routine
def triu(A: SparseArray, k: int = 0, /, *, out: Out = None, memory: int | str | None = None) -> Prepared[Any]:
    """Return the elements on and above the k-th diagonal; everything else as `tril`."""
    return _Kept(Call("triu", memory), "triu", _whole("triu", k), A, out)


@routine
def above(
    A: SparseArray, threshold: float, /, *, out: Out = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return the stored values that are more than `threshold` (NaN is not); everything else as `tril`."""
    if np.asarray(threshold).dtype.kind not in "iuf" or np.ndim(threshold):
        raise ShapeError(f"above: threshold is {threshold!r}; a number is needed.")
    return _Kept(Call("above", memory), "above", float(threshold), A, out)


def _whole(who: str, k: Any) -> int:
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise ShapeError(f"{who}: k is {k!r}; the integer number of a diagonal is needed.")
    return int(k)


class _Joined(SparseResult):
    """Matrices one below the other, or side by side."""

    operation = "sparse concat"

    def __init__(self, call: Call, matrices: Sequence[Any], axis: int, out: Out) -> None:
        if not matrices:
            raise ShapeError(f"{call.who}: no matrices were given; at least one is needed.")
        if axis not in (0, 1, -1, -2):
            raise ShapeError(f"{call.who}: axis is {axis}; 0 (rows) or 1 (columns) is needed.")
        self.axis = axis % 2
        given = [in_rows(call, f"matrix {i}", one) for i, one in enumerate(matrices)]
        across = 1 - self.axis
        for i, one in enumerate(given):
            if one.shape[across] != given[0].shape[across]:
                raise ShapeError(
                    f"{call.who}: matrix 0 is {shape_text(given[0].shape)} and matrix {i} is "
                    f"{shape_text(one.shape)}; extents must be equal but along axis {self.axis}."
                )
        along = sum(one.shape[self.axis] for one in given)
        shape = (along, given[0].shape[1]) if self.axis == 0 else (given[0].shape[0], along)
        stored = sum(one.stored_values for one in given)
        super().__init__(call, given, shape, np.result_type(*(one.dtype for one in given)), stored, out)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"{self.call.who} of {len(self.operands)} sparse matrices, {shape_text(self.shape)}"

    def rows(self, first: int) -> Iterator[Rows]:
        """Yield rows of one after the other, or of all of them side by side."""
        if self.axis == 0:
            yield from self._below(first)
            return
        starts = np.cumsum([0] + [one.shape[1] for one in self.operands])
        for _, parts in aligned(self.call, self.operands, first, fixed=self.fixed):
            counts = np.array([np.diff(pointers) for pointers, _, _ in parts])
            rows = [np.repeat(np.arange(counts.shape[1]), count) for count in counts]
            order = np.argsort(np.concatenate(rows), kind="stable")
            columns = np.concatenate(
                [part[1].astype(np.int64) + start for part, start in zip(parts, starts, strict=False)]
            )
            values = np.concatenate([v.astype(self.dtype, copy=False) for _, _, v in parts])
            yield np.concatenate([[0], np.cumsum(counts.sum(0))]), columns[order], values[order]

    def _below(self, first: int) -> Iterator[Rows]:
        for one in self.operands:
            rows = one.shape[0]
            if first < rows:
                for _, *block in row_blocks(self.call, one, first, beside=BESIDE, fixed=self.fixed):
                    yield block[0], block[1], block[2]
            first = max(0, first - rows)

    def arguments(self) -> dict[str, Any]:
        """Return the axis and the operands."""
        return {"axis": self.axis, "all": [identity(one) for one in self.operands]}


@routine
def concat(
    matrices: Sequence[SparseArray], /, axis: int = 0, *, out: Out = None, memory: int | str | None = None
) -> Prepared[Any]:
    """Return sparse matrices one below the other (axis 0) or side by side, as one that is written.

    Parameters
    ----------
    matrices : list of SparseArray
        Of equal extents but along `axis`.
    axis : int
        0 or 1.
    out, memory
        As for `add`.

    Returns
    -------
    SparseArray

    Raises
    ------
    ShapeError
        Extents differ; names the first that does not fit.

    Notes
    -----
    Reads each once and writes all their values.
    """
    return _Joined(Call("concat", memory), matrices, axis, out)


@resumable("sparse pair")
def _pair_again(path: str, told: dict[str, Any]) -> Again:
    verb = {"add": add, "subtract": subtract, "multiply": multiply}[told["verb"]]
    return verb, (operand("A", told["a"]), operand("B", told["b"])), {"out": path}


@resumable("sparse part")
def _part_again(path: str, told: dict[str, Any]) -> Again:
    rule = {"tril": tril, "triu": triu, "above": above}[told["rule"]]
    return rule, (operand("A", told["a"]), told["number"]), {"out": path}


@resumable("sparse concat")
def _concat_again(path: str, told: dict[str, Any]) -> Again:
    matrices = [operand(f"matrix {i}", one) for i, one in enumerate(told["all"])]
    return concat, (matrices,), {"axis": told["axis"], "out": path}


def by_name(name: str) -> Any:
    """Return a function of this module by its name, for rooms below."""
    known: dict[str, Any] = {
        "above": above, "add": add, "concat": concat, "multiply": multiply, "subtract": subtract,
        "tril": tril, "triu": triu,
    }  # fmt: skip
    return known[name]
