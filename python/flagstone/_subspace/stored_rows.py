"""H that lies somewhere as rows, on disk or in memory: which groups couple, and whether it is symmetric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import NumericalError, ShapeError
from .._resume.identity import file_identity
from .._runtime.call import Call
from .._sparse.array import SparseArray, matrix_of
from .._sparse.row_blocks import row_blocks, rows_bytes
from .._sparse.to_csr import all_elements
from .keep import stored_groups
from .stored import BlockBasis

__all__ = ["StoredRows", "rows_of"]

_ROUNDING = 1e-6  # of the largest value: what a symmetric matrix in float32 may be off
_TOGETHER = 1 << 21  # values of H that one task reads: a constant, which plans and limits rest on
_BESIDE = 96  # bytes that looking at a value takes: places, weights, keys of its groups, sorted
_STRETCH = 1 << 20  # values of a matrix in memory that are looked at together
_EACH_ROW = 40  # bytes of sums, weights and places of rows
_SEED = 20120827  # of the weights of rows


class StoredRows:
    """A symmetric matrix by rows, as `project` takes it: looked through once, for its couplings."""

    def __init__(self, H: Any, basis: BlockBasis, call: Call) -> None:
        H = all_elements("project", H, call.memory) if isinstance(H, SparseArray) else H
        stored = _stored(H) if isinstance(H, SparseArray) else None
        matrix = H if stored is not None else _in_memory(H)
        shape = tuple(matrix.shape)
        if shape != (basis.shape[0],) * 2:
            raise ShapeError(
                f"project: H is {shape_text(shape)} and Z has {basis.shape[0]} rows; as many are needed."
            )
        if stored is not None:
            _check_groups(stored_groups(matrix.path), basis, matrix.path)
        self.told = {"rows": file_identity(matrix.path)} if stored is not None else None
        self._call, self._stored, self._held = call, stored, matrix
        self._rows: list[int] = basis.rows.tolist()

    @property
    def count(self) -> int:
        """Return how many values it stores."""
        return int(self._stored.nnz if self._stored is not None else self._held.nnz)

    def alike(self, count: int) -> _core.BlockSource:
        """Return an H of so many values that couples no two groups and whose rows are equally long."""
        rows, groups = self._held.shape[0], len(self._rows)
        starts = np.linspace(0, count, rows + 1).astype(np.int64)
        own = np.arange(groups, dtype=np.int32)
        return self._source(starts, (np.arange(groups + 1), own, np.ones(groups, np.int32)))

    def scan_bytes(self) -> int:
        """Return what looking through it takes beside the process."""
        fixed = _EACH_ROW * int(self._held.shape[0])
        return fixed if self._stored is None else fixed + rows_bytes(self._held, _BESIDE)

    def block_source(self, basis: BlockBasis) -> _core.BlockSource:
        """Return it as the core takes it; looks through it."""
        matrix, n = self._held, int(self._held.shape[0])
        fixed = _EACH_ROW * n
        self._call.room("the rows of H", fixed)
        given = (
            row_blocks(self._call, matrix, beside=_BESIDE, fixed=fixed)
            if self._stored is not None
            else _stretches(matrix)
        )
        return self._source(*_scan(self._call, given, self._rows, n))

    def _source(self, starts: Any, pattern: tuple[Any, Any, Any]) -> _core.BlockSource:
        stored, matrix = self._stored, self._held
        columns, values = (
            (stored.indices, stored.data)
            if stored is not None
            else (_core.memory_array(matrix.indices), _core.memory_array(matrix.data))
        )
        return _core.csr_source(columns, values, starts, self._rows, *pattern, _TOGETHER)

    def identity(self) -> dict[str, Any] | None:
        """Return what tells it from another one; None of a matrix in memory."""
        return self.told


def rows_of(H: Any, basis: BlockBasis, call: Call) -> StoredRows:
    """Return a SciPy or a stored sparse matrix as `project` takes it."""
    if not isinstance(H, SparseArray) and not hasattr(H, "tocsr"):
        raise TypeError(
            f"project: H is {type(H).__name__}; a sparse matrix (of SciPy or on disk), subspace.Blocks or a "
            "nuclear.Space is needed."
        )
    if np.dtype(H.dtype).kind not in "biuf":
        raise ShapeError(f"project: H is {H.dtype}; real numbers are needed.")
    return StoredRows(H, basis, call)


def _stored(matrix: SparseArray) -> _core.CsrMatrix:
    """Return it as it lies on disk; a TypeError names what to do of a view."""
    core = matrix_of(matrix)
    if core.data.dtype not in ("float32", "float64"):
        raise ShapeError(f"project: H stores its values as {core.data.dtype}; float32 or float64 is needed.")
    return core


def _in_memory(H: Any) -> Any:
    """Return it as sorted rows of float32 or float64."""
    matrix = H.tocsr()
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ShapeError(f"project: H is damaged ({error}); make a whole CSR matrix.") from None
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    kind = np.float32 if matrix.dtype == np.float32 else np.float64
    matrix = matrix.astype(kind, copy=False)
    wide = np.int32 if matrix.indices.dtype == np.int32 else np.int64
    matrix.indices, matrix.data = (
        np.ascontiguousarray(matrix.indices, wide),
        np.ascontiguousarray(matrix.data),
    )
    return matrix


def _check_groups(groups: NDArray[np.int64] | None, basis: BlockBasis, path: str) -> None:
    """Refuse a matrix whose own groups are others than Z's."""
    if groups is None:
        return
    if len(groups) != len(basis.rows):
        raise ShapeError(
            f"project: H, '{path}', has {len(groups)} groups and Z {len(basis.rows)}; the same are needed."
        )
    if (off := np.flatnonzero(groups != basis.rows)).size:
        g = int(off[0])
        raise ShapeError(
            f"project: group {g} has {int(groups[g])} rows in H, '{path}', and {int(basis.rows[g])} in Z."
        )


def _stretches(matrix: Any) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    row, rows = 0, matrix.shape[0]
    while row < rows:
        end = int(np.searchsorted(matrix.indptr, matrix.indptr[row] + _STRETCH, side="right")) - 1
        end = min(max(end, row + 1), rows)
        part = slice(int(matrix.indptr[row]), int(matrix.indptr[end]))
        yield row, matrix.indptr[row : end + 1] - part.start, matrix.indices[part], matrix.data[part]
        row = end


def _scan(call: Call, stretches: Iterator[Any], rows: list[int], n: int) -> tuple[Any, tuple[Any, Any, Any]]:
    """Return where rows begin, and of each group the groups before it that it couples to, with counts.

    Symmetric: with a weight for each row, Σ_b w_b H_ab is Σ_b w_b H_ba, for every a.
    """
    first = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    weights = np.random.default_rng(_SEED).uniform(0.5, 1.5, n)
    off, starts = np.zeros(n), np.zeros(n + 1, np.int64)
    largest = 0.0
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for row, pointers, columns, values in stretches:
        count = np.diff(pointers)
        starts[row + 1 : row + 1 + len(count)] = count
        if not values.size:
            continue
        wide = np.asarray(values, np.float64)
        here = float(np.abs(wide).max())
        largest = max(largest, here)
        if not np.isfinite(here):
            raise NumericalError(
                f"project: H holds NaN or Inf in rows {row} to {row + len(count)}; finite values are needed."
            )
        at = np.repeat(np.arange(row, row + len(count)), count)
        np.add.at(off, at, wide * weights[columns])
        np.subtract.at(off, columns, wide * weights[at])
        i = np.searchsorted(first, at, side="right") - 1
        j = np.searchsorted(first, columns, side="right") - 1
        key, times = np.unique((i * len(rows) + j)[j <= i], return_counts=True)
        pairs.append((key, times))
    if n and float(np.abs(off).max()) > 2 * _ROUNDING * largest:
        raise ShapeError(
            f"project: H is not symmetric: row {int(np.abs(off).argmax())} is not its column; H must be."
        )
    np.cumsum(starts, out=starts)
    call.room("the couplings of H", 56 * sum(len(key) for key, _ in pairs))
    key, where = np.unique(
        np.concatenate([k for k, _ in pairs] or [np.empty(0, np.int64)]), return_inverse=True
    )
    times = np.bincount(where, np.concatenate([t for _, t in pairs] or [np.empty(0)]), len(key))
    i, j = key // max(len(rows), 1), key % max(len(rows), 1)
    begin = np.searchsorted(i, np.arange(len(rows) + 1))
    return starts, (begin, j.astype(np.int32), np.minimum(times, 2**31 - 1).astype(np.int32))
