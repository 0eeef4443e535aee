"""What projections read and write: Z and H' on disk, opened."""

from __future__ import annotations

import errno
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._array.handle import Operand
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text, shown, storage_error
from .._output.attributes import group_told
from .._runtime.arguments import array_of, is_whole, whole_number
from .._runtime.call import Call

__all__ = ["MOST_FILES", "BlockBasis", "PlannedBasis", "ProjectedMatrix", "open_stored", "values_name"]

_MOST = (1 << 62) - 1  # of an index: two of them can be added
MOST_FILES = 256  #: that Z is dealt to: each is held open some times
_MOST_NUMBER = (1 << 31) - 1  # of rows, stored blocks and stripes: sums of such are numbers of 64 bits


def _small(call: Call, path: str, name: str, most: int = _MOST_NUMBER, columns: int = 0) -> NDArray[np.int64]:
    """Return a small array of the index: whole numbers from -1 on; `columns`: of a matrix."""
    core = open_core(f"{path}/{name}", "r")
    shape, dtype = tuple(core.shape), np.dtype(core.dtype)
    if dtype.kind not in "iu" or len(shape) != (2 if columns else 1) or (columns and shape[1] != columns):
        needed = f"{columns} columns of whole numbers" if columns else "a line of whole numbers"
        raise _damaged(path, f"its '{name}' is {shape_text(shape)} {dtype} where {needed} must be")
    call.room(f"the array '{name}' of the index", int(np.prod(shape)) * (dtype.itemsize + 8))
    values = np.empty(shape, dtype)
    if values.size:
        call.engine.read_boxes(core, [([0] * values.ndim, values)], 1 << 20)
    if values.size and not (int(values.min()) >= -1 and int(values.max()) <= most):
        raise _damaged(path, f"its '{name}' holds a number below -1 or above {most}")
    return values.astype(np.int64)


def _damaged(path: str, what: str) -> FormatError:
    return FormatError(f"subspace.open: '{path}' is damaged: {what}; write or copy it again.")


def _check_values(path: str, values: Array) -> None:
    """Refuse what is no line of floating-point numbers."""
    if values.ndim != 1 or values.dtype not in (np.float32, np.float64):
        raise _damaged(
            path, f"its 'values' are {shape_text(values.shape)} {values.dtype}; a line of floats is read"
        )


class _Stored:
    """A group with `values` and an index; what both kinds share."""

    __module__ = "flagstone.subspace"

    def __init__(self, path: str, about: dict[str, Any], values: Array) -> None:
        self.path, self.about, self.values = path, about, values

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the stored values."""
        return np.dtype(self.values.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored values."""
        return int(np.prod(self.values.shape)) * self.dtype.itemsize


def values_name(number: int) -> str:
    """Return the name of the array of one file of Z."""
    return f"values{number or ''}"


class BlockBasis(_Stored):
    """Z on disk: of each group of rows a dense block with orthonormal columns; nothing between groups.

    ``rows`` and ``columns`` of each group, ``shape``, ``stored`` (which stored block a group has; equal ones
    are stored once), ``files`` (the arrays that it is dealt to).
    """

    def __init__(self, path: str, about: dict[str, Any], files: list[Array]) -> None:
        super().__init__(path, about, files[0])
        self.files = files
        call = Call("subspace.open")
        self.rows, self.columns, self.offsets = (
            _small(call, path, name, most)
            for name, most in (("rows", _MOST_NUMBER), ("columns", _MOST_NUMBER), ("offsets", _MOST))
        )
        self.stored = _small(call, path, "stored")
        for values in files:
            _check_values(path, values)
        if any(values.dtype != self.dtype for values in files):
            raise _damaged(path, "its files are of several dtypes")
        self.file = _small(call, path, "file") if len(files) > 1 else np.zeros(len(self.offsets), np.int64)
        parts = self.rows, self.columns, self.stored, self.offsets, self.file
        d, z, stored, offsets, file = (part.tolist() for part in parts)
        self.layout = _core.known_block_layout(
            d, z, stored, offsets, file, [values.shape[0] for values in files], self.dtype.itemsize
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the stored values."""
        return sum(values.shape[0] for values in self.files) * self.dtype.itemsize

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of all groups."""
        return int(self.rows.sum()), int(self.columns.sum())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} {shape_text(self.shape)} {self.dtype}, {len(self.rows)} groups, "
            f"{len(self.offsets)} stored blocks, {_core.format_bytes(self.nbytes)}"
        )

    def block(self, group: int) -> NDArray[Any]:
        """Return the block of a group, rows x columns; reads it."""
        if not is_whole(group) or not 0 <= group < len(self.rows):
            raise ShapeError(
                f"BlockBasis.block: group is {shown(group)} and there are {len(self.rows)} groups, counted "
                "from 0."
            )
        d, z = int(self.rows[group]), int(self.columns[group])
        if z == 0:
            return np.empty((d, 0), self.dtype)
        at = self.stored[group]
        first = int(self.offsets[at])
        return np.asarray(self.files[self.file[at]][first : first + d * z]).reshape(d, z)

    def to_scipy(self) -> Any:
        """Return it as a SciPy CSR matrix in memory."""
        from scipy.sparse import block_diag

        entries = int((self.rows * self.columns).sum())
        Call("BlockBasis.to_scipy").room("the matrix", entries * (self.dtype.itemsize + 24))
        return block_diag([self.block(g) for g in range(len(self.rows))], format="csr")


class PlannedBasis(BlockBasis):
    """Z of which only the shapes are known: what plans take in its place."""

    def __init__(self, layout: _core.BlockLayout, dtype: np.dtype[Any], about: dict[str, Any]) -> None:
        self.path, self.about, self.layout, self._dtype = "", about, layout, dtype
        self.files = []
        self.rows, self.columns = np.array(layout.rows, np.int64), np.array(layout.columns, np.int64)
        self.stored, self.offsets = np.array(layout.stored, np.int64), np.array(layout.offsets, np.int64)
        self.file = np.array(layout.file, np.int64)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values that would be stored."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """Bytes that the stored values would take."""
        return sum(self.layout.lengths) * self.dtype.itemsize

    def block(self, group: int) -> NDArray[Any]:
        """Refuse: there are no values."""
        raise ShapeError(f"{self!r}: its blocks were never made; nuclear.basis_of_j makes them.")


class ProjectedMatrix(_Stored):
    """H' on disk, block-sparse and symmetric: pairs of stripes of its lower triangle.

    ``shape``, ``nnz`` (of both triangles), ``@`` with vectors in memory, ``to_dense``, ``to_scipy``; an
    operator for `fl.linalg.eigsh` as it is.
    """

    def __init__(self, path: str, about: dict[str, Any], values: Array) -> None:
        super().__init__(path, about, values)
        call = Call("subspace.open")
        self.columns, self.stripes = (_small(call, path, name) for name in ("columns", "stripes"))
        self.runs = _small(call, path, "runs", _MOST, 6)
        if self.runs[:, :2].size and int(self.runs[:, :2].max()) > _MOST_NUMBER:
            raise _damaged(path, f"its 'runs' name a stripe above {_MOST_NUMBER}")
        _check_values(path, values)
        if not is_whole(about.get("nonzeros")):
            raise _damaged(path, "its attributes do not say how many nonzeros it has")
        self.blocks = Array(open_core(f"{path}/blocks", "r"), "r")
        self._core = _core.StoredMatrix(
            Operand.of(values).core, Operand.of(self.blocks).core, self.columns.tolist(),
            self.stripes.tolist(), self.runs.tolist(),
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, int]:
        """Columns of Z, twice."""
        n = int(self.columns.sum())
        return n, n

    @property
    def nnz(self) -> int:
        """Elements of its blocks, both triangles."""
        lower = int(self.about["nonzeros"])
        return 2 * lower - int(self.columns.sum())

    def __repr__(self) -> str:
        return (
            f"ProjectedMatrix {shape_text(self.shape)} {self.dtype}, {self.nnz} nonzeros, "
            f"{_core.format_bytes(self.nbytes)}"
        )

    def __matmul__(self, x: Any) -> NDArray[np.float64]:
        return self.matmat(x)

    def matmat(self, x: Any) -> NDArray[np.float64]:
        """Return H' x, float64, for a vector or a matrix in memory. Reads H' once; 4 nnz flops a column."""
        x = array_of("ProjectedMatrix @", "x", x)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[0] or x.dtype.kind not in "biuf":
            raise ShapeError(
                f"ProjectedMatrix @: x is {shape_text(x.shape)} {x.dtype}; {self.shape[1]} real rows "
                "are needed."
            )
        call = Call("subspace.matmul")
        wide = np.ascontiguousarray(x.reshape(len(x), -1), np.float64)
        y = np.zeros_like(wide)
        job = _core.multiply_stored_job(self._core, _core.memory_array(wide), _core.memory_array(y))
        done = call.run(job)
        call.record(done, f"{self!r} @ {shape_text(x.shape)}", "runs in the order in which they lie", 1)
        return y.reshape(x.shape)

    def to_dense(self) -> NDArray[np.float64]:
        """Return all of it as an ndarray, float64; BudgetError where that does not fit the limit."""
        call = Call("ProjectedMatrix.to_dense")
        call.room("the matrix", 8 * self.shape[0] ** 2)
        made = np.zeros(self.shape)
        done = call.run(_core.dense_stored_job(self._core, _core.memory_array(made)))
        call.record(done, f"{self!r} as an ndarray", "runs in the order in which they lie", 1)
        return made

    def to_scipy(self) -> Any:
        """Return it as a SciPy CSR matrix in memory, both triangles."""
        from scipy.sparse import coo_matrix

        Call("ProjectedMatrix.to_scipy").room("the matrix", 40 * self.nnz)
        first = np.concatenate([[0], np.cumsum(self.columns)])
        parts: list[tuple[Any, Any, Any]] = []
        for _, _, start, length, blocks, count in self.runs:
            values = np.asarray(self.values[int(start) : int(start + length)], np.float64)
            at = 0
            for i, j in np.asarray(self.blocks[int(blocks) : int(blocks + count)]):
                zi, zj = int(self.columns[i]), int(self.columns[j])
                block = values[at : at + zi * zj].reshape(zi, zj)
                at += zi * zj
                row, col = np.meshgrid(first[i] + np.arange(zi), first[j] + np.arange(zj), indexing="ij")
                parts.append((block.ravel(), row.ravel(), col.ravel()))
                if i != j:
                    parts.append((block.ravel(), col.ravel(), row.ravel()))
        data, rows, cols = (np.concatenate([part[k] for part in parts] or [np.empty(0)]) for k in range(3))
        return coo_matrix((data, (rows.astype(int), cols.astype(int))), self.shape).tocsr()

    def eigvalsh(self, k: int) -> NDArray[np.float64]:
        """Return the k lowest eigenvalues: dense where twice the matrix fits the limit, else by `eigsh`."""
        from .._spectral.eigsh import eigsh

        n = self.shape[0]
        k = min(whole_number("ProjectedMatrix.eigvalsh", "k", k, 0), n)
        if k < 1:
            return np.empty(0)
        call = Call("ProjectedMatrix.eigvalsh")
        if n < 64 or 20 * n * n < call.memory - _core.resident_bytes():
            return np.asarray(np.linalg.eigvalsh(self.to_dense())[:k], np.float64)
        return np.asarray(
            eigsh(self, k, which="SA", tol=1e-10, return_eigenvectors=False, memory=call.memory)
        )


def open_stored(path: str | os.PathLike[str]) -> BlockBasis | ProjectedMatrix:
    """Open Z or H' that was stored; reads its index.

    Parameters
    ----------
    path : path
        What `basis`, `fl.nuclear.basis_of_j` or `project` wrote.

    Returns
    -------
    BlockBasis or ProjectedMatrix

    Raises
    ------
    FormatError
        It is something else, or its index is damaged.
    """
    place = path_text("subspace.open", path)
    if not os.path.exists(place):
        raise storage_error(f"subspace.open: '{place}' does not exist.", errno.ENOENT, place)
    about = group_told(place)
    kind = about.get("kind")
    if kind not in ("block basis", "projected matrix"):
        raise FormatError(
            f"subspace.open: '{place}' is neither a block basis nor a projected matrix; give what "
            "subspace.basis, "
            "nuclear.basis_of_j or subspace.project wrote."
        )
    count = about.get("files", 1) if kind == "block basis" else 1
    if not is_whole(count) or not 1 <= count <= MOST_FILES:
        raise _damaged(place, f"its attributes say that it has {shown(count)} files")
    files = [Array(open_core(f"{place}/{values_name(number)}", "r"), "r") for number in range(count)]
    return (
        BlockBasis(place, about, files) if kind == "block basis" else ProjectedMatrix(place, about, files[0])
    )
