"""Building sparse matrices on disk from row blocks, in fixed memory."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import Error, FormatError, ShapeError, StorageError
from .._errors.messages import storage_error
from .._output.destination import in_group
from .._output.replaceable import check_overwrite, exists
from .._resume.record import UNRECORDED, Record, sync_folder
from .._runtime.arguments import held_in
from .._runtime.call import Call
from .._runtime.runtime import current
from .._scratch import quota, scratch
from .._scratch.builds import whole_or_nothing
from .array import SparseArray
from .validation import check_extents, words_of

__all__ = ["CsrBuilder", "Work", "check_fits", "from_blocks", "value_dtype", "writer_bytes"]


def csr_parts(block: Any, who: str) -> tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (columns, indptr, indices, data) of a block: SciPy, 2-d ndarray or tuple."""
    if isinstance(block, tuple) and len(block) == 4:
        data, indices, indptr, cols = block
        check_extents(0, int(cols), f"{who}: a block")
        return int(cols), np.asarray(indptr), np.asarray(indices), np.asarray(data)
    if hasattr(block, "tocsr"):
        block = block.tocsr()
        check_extents(block.shape[0], block.shape[1], f"{who}: a block")
        if len(block.indptr) and block.indptr[0] != 0:
            raise FormatError(
                f"{who}: the pointers of a block (indptr) begin at {block.indptr[0]}, and 0 is needed; its "
                "first stored values would belong to no row."
            )
        return int(block.shape[1]), block.indptr, block.indices, block.data
    dense = np.asarray(block)
    if dense.ndim != 2 or dense.dtype.kind not in "biufc":
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
    if dtype.kind == "c":
        return np.dtype(np.complex64 if dtype.itemsize <= 8 else np.complex128)
    raise FormatError(f"{who}: values are {dtype}; numbers are needed.")


def check_fits(
    who: str, values: NDArray[Any], kind: np.dtype[Any], number: int | None, *, asked: bool = False
) -> None:
    """Refuse values (of a block) that `kind` does not hold: the dtype of the first block, or `asked` for.

    Floats may lose digits, integers only where somebody asked for floats.
    """
    if len(values) and not _held(values, kind, asked):
        of = "" if number is None else f" of block {number}"
        those = "the dtype that was given" if asked else "those of the first block"
        held = np.result_type(values.dtype, kind)
        raise ShapeError(
            f"{who}: the values{of} are {values.dtype.name} and do not fit into {those}, {kind.name}; give "
            f"dtype={held.name!r}."
        )


def _held(values: NDArray[Any], kind: np.dtype[Any], rounded: bool) -> bool:
    if values.dtype.kind in "iu" and kind.kind in "fc":
        most = 2 << np.finfo(kind).nmant  # integers up to here are floats, too
        return rounded or -most <= int(values.min()) <= int(values.max()) <= most
    if np.can_cast(values.dtype, kind):
        return True
    parts = (values[first : first + _LOOKED] for first in range(0, len(values), _LOOKED))
    return all(held_in(part, kind) is not None for part in parts)


_LOOKED = 1 << 16  # values that are converted at a time, to see whether they can be
_BLOCK = 4 << 20  # what making the first block may take: nobody knows it before
_BITS = 8 << 20
_TAILS = 25 << 20  # what the last chunks take, which are packed as whole ones however few entries there are
_CHUNK = 1 << 19  # entries of one chunk: buffers of the writer are as long


def writer_bytes(cols: int, dtype: np.dtype[Any], entries: int = _CHUNK) -> int:
    """Return what a writer of at most so many entries holds; 0 columns where nobody knows them yet."""
    held = _core.CsrWriter.memory_bytes(cols, dtype.name)
    held = max(min(held, _TAILS), held * min(_CHUNK, max(entries, 1 << 12)) // _CHUNK)
    return held + 64 * min(max(cols, 0), _core.most_counted_columns)


def blocks_least() -> int:
    """Return the least limit of `from_blocks`, beside the blocks: of a chain of calls, which refuses once."""
    return _core.resident_bytes() + _blocks_bytes() + int(_core.allowed_drift)


def _blocks_bytes() -> int:
    return int(_core.CsrWriter.memory_bytes(0, "float64")) + _BLOCK


@dataclass
class Work:
    """A folder for what lies on the way, and notes about it where the call can be resumed.

    Every save carries all notes on; what they speak of must be on the disk before.
    """

    folder: str
    checkpoint: _core.Checkpoint | None = None
    notes: dict[str, bytes] = field(default_factory=dict)

    def told(self, name: str) -> dict[str, Any] | None:
        """Return what was noted, by this process or a dead one."""
        if name in self.notes:
            return dict(json.loads(self.notes[name]))
        if self.checkpoint is None or not self.checkpoint.has(name):
            return None
        self.notes[name] = self.checkpoint.load(name)
        return dict(json.loads(self.notes[name]))

    def note(self, name: str, about: dict[str, Any], done: float, synced: Callable[[], None]) -> None:
        """Note something and, where a checkpoint is due, save after `synced` has made it durable."""
        if self.checkpoint is None:
            return
        if self.checkpoint.due():
            synced()
            self.notes[name] = json.dumps(about).encode()
            self.checkpoint.save(done, list(self.notes.items()))

    def forget(self, name: str) -> None:
        """Carry a note on no longer."""
        self.notes.pop(name, None)


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
        record: Record = UNRECORDED,
        output: _core.Output | None = None,
        entries: int = _CHUNK,
        layout: str = "csr",
    ) -> None:
        """Refuse a limit in which the writer has no room.

        `record`: of a call that can be resumed (not narrow); `output`: what it opened already; `entries`: at
        most so many come, of whose chunks fewer pages are touched; `layout`: words of `validation.LAYOUTS`.
        """
        self.path, self.rows = path, 0
        self._call, self._dtype, self._layout = call, dtype, layout
        self.bytes = writer_bytes(cols, dtype, entries)  #: that the writer holds once its chunks are full
        if "bitpacked" in layout:  # what may not shrink needs longer buffers, one a thread
            self.bytes += _BITS
        state = self.bytes if record.text else 0  # as bytes, copied twice on their way
        call.room("the writer", self.bytes + beside + state)
        self._output: _core.Output | None = output or record.output(path, replace, 0)
        self.checkpoint = record.checkpoint
        self._writer: _core.CsrWriter | None = self._begin(record, cols, narrow)
        #: Rows that a dead process had written and noted; `append` leaves them out.
        self.held: int = self._writer.rows

    def _begin(self, record: Record, cols: int, narrow: bool) -> _core.CsrWriter:
        assert self._output is not None
        place, dtype = self._output.directory, self._dtype.name
        if self.checkpoint is not None and self.checkpoint.has("writer"):
            try:
                return _core.CsrWriter.resumed(
                    place, cols, dtype, self.checkpoint.load("writer"), self._layout
                )
            except Error as error:
                record.begin_again(self.path, error)
        if os.path.isdir(place):  # of a dead process that noted nothing of it
            shutil.rmtree(place)
        return _core.CsrWriter(place, cols, dtype, narrow, self._layout)

    @property
    def notes(self) -> str | None:
        """A directory for what the source needs to go on; None where nothing is noted."""
        return self._output.notes if self.checkpoint is not None and self._output is not None else None

    def offer(self, done: float, parts: Callable[[], list[tuple[str, bytes]]] = list) -> None:
        """Note what was written so far, and what the source has to say, where a checkpoint is due."""
        if self.checkpoint is None or self.rows <= self.held or not self.checkpoint.due():
            return
        assert self._writer is not None
        assert self._output is not None
        beside, state = parts(), self._writer.state()
        sync_folder(os.path.dirname(self._output.directory))
        self.checkpoint.save(min(done, 1.0), [("writer", state), *beside])

    def append(self, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any]) -> None:
        """Write one block of rows: of those that are held already, nothing."""
        rows = len(indptr) - 1
        left = min(max(self.held - self.rows, 0), rows)
        self.rows += rows
        if left == rows and rows > 0:
            return
        if left > 0:
            first = int(indptr[left] - indptr[0])
            indptr, indices, data = indptr[left:], indices[first:], data[first:]
        pointers = np.ascontiguousarray(indptr, np.int64)
        if len(pointers) and pointers[0] != 0:
            pointers = pointers - pointers[0]
        wide = np.int32 if indices.dtype == np.int32 else np.int64
        copied = indices.nbytes if indices.dtype != wide else 0
        copied += data.size * self._dtype.itemsize if data.dtype != self._dtype else 0
        if copied:
            self._call.room("a block of rows", copied)
        if self._writer is not None:
            quota.wrote(data.nbytes + indices.nbytes)
            self._writer.append(
                pointers, np.ascontiguousarray(indices, wide), np.ascontiguousarray(data, self._dtype)
            )

    def publish(self) -> SparseArray:
        """Write the tails and make the matrix appear."""
        if self._writer is not None:
            self._writer.finish()
            self._writer = None
            quota.finished()
        if self._output is not None:
            self._output.publish()
        return SparseArray(_core.open_csr(self.path))

    def leave(self) -> None:
        """Let what was built stay, for a call that goes on with it."""
        if self._output is not None:
            self._output.leave()

    def discard(self) -> None:
        """Remove what was built."""
        self._writer = self._output = None


def from_blocks(
    blocks: Iterable[Any],
    path: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    dtype: Any = None,
    layout: str = "csr",
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
        Of the stored values; default: that of the first block. It must hold those of all blocks: none is cut
        off, wraps around or becomes infinite; floats are rounded, integers to floats only where it is given.
    layout : str
        As for `convert`; a triangle is written by that alone.

    Returns
    -------
    SparseArray

    Notes
    -----
    Writes about 3 to 8 bytes a stored value (packed). Holds some 30 MiB (two processors) beside
    the block at hand; what the iterator takes to make it is the iterator's, and counts as resident.
    """
    who = "from_blocks"
    words = words_of(who, layout)
    if "triangle" in words:
        raise ShapeError(
            f"{who}: layout is {layout!r}; fl.convert(A, path, layout='triangle') writes triangles."
        )
    place = scratch.Result(current().scratch, "matrix") if path is None else None
    target = place.path if place is not None else os.fspath(path)  # type: ignore[arg-type]
    if place is None:
        if not overwrite and exists(target):
            raise storage_error(
                f"{who}: '{target}' exists; pass overwrite=True to replace it.", errno.EEXIST, target
            )
        check_overwrite(who, target)
        in_group(who, target)
    call = Call(who)
    call.room("the writer", _blocks_bytes())
    counted: Any = contextlib.nullcontext()
    if place is not None:
        runtime = call.runtime
        counted = quota.counting(who, runtime.scratch, runtime.scratch_quota, Path(place.path))
    with whole_or_nothing(place), counted, call.measured(who, "row blocks") as done:
        matrix = _write_blocks(call, blocks, target, overwrite, dtype, words)
        done.bytes_written = matrix.stored_bytes
    if place is not None:
        place.tie(matrix)
    return matrix


def _write_blocks(
    call: Call, blocks: Iterable[Any], target: str, overwrite: bool, dtype: Any, layout: str
) -> SparseArray:
    who = call.who
    columns = -1
    builder: CsrBuilder | None = None
    try:
        number = 0
        for block in blocks:
            cols, indptr, indices, data = csr_parts(block, who)
            if builder is None:
                columns = cols
                kind = value_dtype(np.dtype(dtype) if dtype is not None else data.dtype, who)
                builder = CsrBuilder(call, target, cols, kind, overwrite, layout=layout)
            elif cols != columns:
                raise ShapeError(
                    f"{who}: block {number} has {cols} columns and the first {columns}; all need the same."
                )
            check_fits(who, data, kind, number, asked=dtype is not None)
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
            number += 1  # noqa: SIM113 (enumerate would hold the block)
            del block, indptr, indices, data  # before the next one is made: one at a time is charged
        if builder is None:
            raise ShapeError(
                f"{who}: the iterator gave no blocks; at least one (it may have no rows) is needed."
            )
        return builder.publish()
    except BaseException:
        if builder is not None:
            builder.discard()  # a traceback may keep it alive for long
        raise
