"""Z from blocks that the caller gives, and where every Z is written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import shape_text
from .._errors.classes import NumericalError, ShapeError
from .._errors.messages import shown
from .._output.parts import Part, PartsPlace
from .._runtime.arguments import array_of, is_whole, one_of
from .._runtime.call import Call
from .stored import BlockBasis

__all__ = ["MOST_ROWS", "BasisPlace", "basis", "dtype_name"]

MOST_ROWS = (1 << 31) - 1  #: of a group: sums over 2^31 groups are numbers of 64 bits
PAGE = 4096  #: bytes of a chunk: blocks and runs begin where one does


class BasisPlace(PartsPlace):
    """Where Z goes: its values, which a job or the caller writes, and its index."""

    def __init__(
        self, call: Call, out: Any, layout: _core.BlockLayout, dtype: np.dtype[Any], about: dict[str, Any]
    ) -> None:
        groups, stored = len(layout.rows), len(layout.offsets)
        self.layout = layout
        parts = [Part("values", (layout.length,), (PAGE // dtype.itemsize,), ["element"])]
        parts += [
            Part(name, (groups,), (max(groups, 1),), ["group"], "int64") for name in ("rows", "columns")
        ]
        parts += [
            Part("stored", (groups,), (max(groups, 1),), ["group"], "int32"),
            Part("offsets", (stored,), (max(stored, 1),), ["block"], "int64"),
        ]
        super().__init__(call, out, parts, dtype, {"flagstone": {"kind": "block basis"} | about})

    def finished(self) -> BlockBasis:
        """Write the index, let the group appear, and open it."""
        layout = self.layout
        self.write("rows", np.array(layout.rows, np.int64))
        self.write("columns", np.array(layout.columns, np.int64))
        self.write("stored", np.array(layout.stored, np.int32))
        self.write("offsets", np.array(layout.offsets, np.int64))
        values = self.close()[0]
        return BlockBasis(self.path, self.about["flagstone"], values)


def basis(
    blocks: Iterable[tuple[Any, Any]], *, dtype: str = "float64", out: str | os.PathLike[str] | None = None,
    memory: int | str | None = None,
) -> BlockBasis:  # fmt: skip
    """Store a block-diagonal basis that the caller makes block by block.

    Parameters
    ----------
    blocks : iterable of (rows, matrix)
        Of each group in order how many rows it has, and its matrix, rows x columns, with orthonormal columns
        (0 columns: the group drops out; None: no columns).
    dtype : {"float64", "float32"}
        Of what is stored.
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
    with contextlib.ExitStack() as stack:
        spool = stack.enter_context(_spool(call))
        rows, columns = [], []
        for number, pair in enumerate(_iterated(call, blocks)):
            group_rows, matrix = _pair(call, number, pair)
            values = _checked(call, number, group_rows, matrix, kind)
            rows.append(group_rows)
            columns.append(values.shape[1])
            spool.write(values.tobytes())
        layout = _core.lay_out_blocks(rows, columns, [-1] * len(rows), kind.itemsize)
        place = BasisPlace(call, out, layout, kind, {"version": _core.__version__})
        core = place.open(stack)[0]
        spool.seek(0)
        for first, last in zip(layout.writes, layout.writes[1:], strict=False):
            begin = layout.offsets[first]
            end = layout.length if last == len(layout.offsets) else layout.offsets[last]
            stretch = np.zeros(end - begin, kind)
            used = _used(layout, first, last)
            stretch[:used] = np.frombuffer(spool.read(used * kind.itemsize), kind)
            call.engine.write_boxes(core, [([begin], stretch)], 1 << 20)
        return place.finished()


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


def _used(layout: _core.BlockLayout, first: int, last: int) -> int:
    """Return the elements of stored blocks, one behind the other."""
    sizes = [d * z for d, z, at in zip(layout.rows, layout.columns, layout.stored, strict=True) if at >= 0]
    return int(sum(sizes[first:last]))


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
