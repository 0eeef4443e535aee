"""Z from blocks that the caller gives, and where every Z is written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import NumericalError, ShapeError
from .._errors.messages import shown
from .._output.parts import Part, PartsPlace
from .._runtime.arguments import array_of, is_whole, one_of, whole_number
from .._runtime.call import Call
from .stored import MOST_FILES, BlockBasis, values_name

__all__ = [
    "MOST_ROWS", "BasisPlace", "basis", "dtype_name", "file_count", "first_groups",
    "write_blocks",
]  # fmt: skip

MOST_ROWS = (1 << 31) - 1  #: of a group: sums over 2^31 groups are numbers of 64 bits
_SMALL = 1 << 20  # more than small blocks and the arrays of their index take
PAGE = 4096  #: bytes of a chunk: blocks and runs begin where one does


class BasisPlace(PartsPlace):
    """Where Z goes: its values, which a job or the caller writes, and its index."""

    def __init__(
        self, call: Call, out: Any, layout: _core.BlockLayout, dtype: np.dtype[Any], about: dict[str, Any]
    ) -> None:
        groups, stored, files = len(layout.rows), len(layout.offsets), len(layout.lengths)
        self.layout, self.files = layout, files
        parts = [
            Part(values_name(number), (length,), (PAGE // dtype.itemsize,), ["element"], kept=True)
            for number, length in enumerate(layout.lengths)
        ]
        parts += [
            Part(name, (groups,), (max(groups, 1),), ["group"], "int64") for name in ("rows", "columns")
        ]
        parts += [
            Part("stored", (groups,), (max(groups, 1),), ["group"], "int32"),
            Part("offsets", (stored,), (max(stored, 1),), ["block"], "int64"),
        ]
        if files > 1:
            parts.append(Part("file", (stored,), (max(stored, 1),), ["block"], "int32"))
            about = about | {"files": files}
        super().__init__(call, out, parts, dtype, {"flagstone": {"kind": "block basis"} | about})

    def finished(self) -> BlockBasis:
        """Write the index, let the group appear, and open it."""
        layout = self.layout
        self.write("rows", np.array(layout.rows, np.int64))
        self.write("columns", np.array(layout.columns, np.int64))
        self.write("stored", np.array(layout.stored, np.int32))
        self.write("offsets", np.array(layout.offsets, np.int64))
        if self.files > 1:
            self.write("file", np.array(layout.file, np.int32))
        values = self.close()[: self.files]
        return BlockBasis(self.path, self.about["flagstone"], values)


def basis(
    blocks: Iterable[tuple[Any, Any]], *, dtype: str = "float64", files: int = 1,
    out: str | os.PathLike[str] | None = None, memory: int | str | None = None,
) -> BlockBasis:  # fmt: skip
    """Store a block-diagonal basis that the caller makes block by block.

    Parameters
    ----------
    blocks : iterable of (rows, matrix)
        Of each group in order how many rows it has, and its matrix, rows x columns, with orthonormal columns
        (0 columns: the group drops out; None: no columns).
    dtype : {"float64", "float32"}
        Of what is stored.
    files : int
        Arrays that Z is dealt to: group i goes to number i mod files.
    out : path, optional
        A Zarr group. Default: scratch; deleted when the last handle dies.
    memory : int or str, optional
        Most resident memory of the whole process; one block and its products are held at a time.

    Returns
    -------
    BlockBasis

    Raises
    ------
    ShapeError
        A matrix has not as many rows as its group, or more columns than rows.
    NumericalError
        Columns are not orthonormal; names the block and by how much.

    Notes
    -----
    Blocks go to a file in scratch while their sizes become known, then to their places: two writes and one
    read of Z.
    """
    call = Call("subspace.basis", memory)
    kind = np.dtype(one_of(call.who, "dtype", dtype_name(dtype), "float64", "float32"))
    files = file_count(call.who, files)
    call.room("blocks and an index of them", _SMALL)  # before anything is written; larger ones as they come
    with contextlib.ExitStack() as stack:
        spool = stack.enter_context(_spool(call))
        rows, columns = [], []
        for number, pair in enumerate(_iterated(call, blocks)):
            group_rows, matrix = _pair(call, number, pair)
            values = _checked(call, number, group_rows, matrix, kind)
            rows.append(group_rows)
            columns.append(values.shape[1])
            spool.write(values.tobytes())
        layout = _core.lay_out_blocks(rows, columns, [-1] * len(rows), kind.itemsize, files)
        place = BasisPlace(call, out, layout, kind, {"version": _core.__version__})
        cores = place.open(stack)[:files]
        sizes = np.array(rows, np.int64) * np.array(columns, np.int64)
        at = np.concatenate([[0], np.cumsum(sizes)])

        def block(group: int) -> NDArray[Any]:
            spool.seek(int(at[group]) * kind.itemsize)
            return np.frombuffer(spool.read(rows[group] * columns[group] * kind.itemsize), kind)

        write_blocks(call, layout, cores, kind, block)
        return place.finished()


def file_count(who: str, files: Any) -> int:
    """Return the number of files that Z is dealt to."""
    return whole_number(who, "files", files, 1, MOST_FILES)


def dtype_name(dtype: Any) -> Any:
    """Return the name of what NumPy takes for a dtype; what it does not take, as it is."""
    try:
        return np.dtype(dtype).name
    except (TypeError, ValueError):
        return dtype


def _iterated(call: Call, blocks: Any) -> Iterator[Any]:
    if isinstance(blocks, (np.ndarray, str, bytes)) or not isinstance(blocks, Iterable):
        raise ShapeError(
            f"{call.who}: blocks are {shown(blocks)}; an iterable of pairs (rows, matrix) is needed, one for "
            "each group."
        )
    return iter(blocks)


def _pair(call: Call, number: int, given: Any) -> tuple[int, Any]:
    """Return the rows of a group and its matrix."""
    fits = isinstance(given, (tuple, list)) and len(given) == 2 and is_whole(given[0])
    if not fits or not 0 <= given[0] <= MOST_ROWS:
        raise ShapeError(
            f"{call.who}: block {number} is {shown(given)}; a pair (rows, matrix) is needed, such as "
            f"(len(Q), Q), of 0 to {MOST_ROWS} rows."
        )
    return int(given[0]), given[1]


def write_blocks(
    call: Call, layout: _core.BlockLayout, cores: Sequence[_core.Array], dtype: np.dtype[Any],
    block: Callable[[int], NDArray[Any]],
) -> None:  # fmt: skip
    """Write stored blocks at their places; `block(group)` returns the numbers of one, a stretch is held."""
    groups = first_groups(layout)
    for first, last in zip(layout.writes, layout.writes[1:], strict=False):
        file = layout.file[first]
        ends = last == len(layout.offsets) or layout.file[last] != file
        begin = layout.offsets[first]
        stretch = np.zeros((layout.lengths[file] if ends else layout.offsets[last]) - begin, dtype)
        for number in range(first, last):
            values = block(groups[number])
            place = layout.offsets[number] - begin
            stretch[place : place + len(values)] = values
        call.engine.write_boxes(cores[file], [([begin], stretch)], 1 << 20)


def first_groups(layout: _core.BlockLayout) -> list[int]:
    """Return of each stored block the first group that has it."""
    first: dict[int, int] = {}
    for group, block in enumerate(layout.stored):
        if block >= 0:
            first.setdefault(block, group)
    return [first[number] for number in range(len(first))]


@contextlib.contextmanager
def _spool(call: Call) -> Any:
    """Make a nameless file in scratch."""
    import tempfile

    from .._scratch import scratch

    with tempfile.TemporaryFile(dir=scratch.prepare(call.runtime.scratch)) as file:
        yield file


def _checked(call: Call, number: int, rows: int, matrix: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    values = np.zeros((rows, 0)) if matrix is None else array_of(call.who, f"block {number}", matrix)
    if (
        values.ndim != 2
        or values.shape[0] != rows
        or values.shape[1] > rows
        or values.dtype.kind not in "biuf"
    ):
        raise ShapeError(
            f"subspace.basis: block {number} is {shape_text(values.shape)} {values.dtype} and its group has "
            f"{rows} rows; a real dense matrix with as many rows, and no more columns, is needed."
        )
    columns = values.shape[1]
    call.room(f"block {number} and its product", 8 * (2 * rows + 4 * columns) * columns)
    wide = values.astype(np.float64)
    off = float(np.abs(wide.T @ wide - np.eye(values.shape[1])).max(initial=0.0))
    most = (
        50
        * max(rows, 1)
        * max(np.finfo(dtype).eps, np.finfo(values.dtype).eps if values.dtype.kind == "f" else 0)
    )
    if not off <= most:
        raise NumericalError(
            f"subspace.basis: the columns of block {number} are not orthonormal (ZᵀZ is off by "
            f"{off:.1e}); give "
            "orthonormal ones, by numpy.linalg.qr."
        )
    return np.ascontiguousarray(values, dtype)
