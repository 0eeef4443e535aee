"""Requests: any selection of an array, read and assigned as boxes of chunks that travel together."""

from __future__ import annotations

import contextlib
import errno
import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._errors.classes import ShapeError
from .._errors.messages import storage_error
from .._runtime import pending_writes
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .basic_index import BasicIndexer, Key
from .orthogonal_index import OrthogonalIndexer, Piece, crossed, put

__all__ = [
    "PIECE", "STAGING", "OrthogonalIndex", "assign", "check_writable", "shape_text", "take",
    "transfer_bytes",
]  # fmt: skip

STAGING: int = _core.box_staging  # bytes beyond the box that a transfer may hold
PIECE: int = _core.box_piece  # of what cannot be read into its place
PAGES = 1 << 16  # results from so many bytes on begin at a page: chunks are read straight into them
GAP = 128 << 10  # raw bytes between two elements that are cheaper to skip than to read
BOXES = 1024  # of one transfer
_RUNS = 1 << 13  # of a flat array, of one transfer
_RUN = 512  # bytes that are known of one
_TRIMMED = 4 << 20  # bytes of parts from which on the heap gives back what they took

Given = list[tuple[list[int], NDArray[Any]]]


class Array(Protocol):
    """What a request needs of an array (flagstone.Array)."""

    _transposed: bool
    _conjugated: bool

    @property
    def _core(self) -> _core.Array: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def path(self) -> str | None: ...
    @property
    def mode(self) -> str: ...
    def _updating(self) -> contextlib.AbstractContextManager[None]: ...
    def _waiting(self) -> pending_writes.WriteCombiner | None: ...
    def _join(self) -> None: ...


def shape_text(shape: tuple[int, ...]) -> str:
    """Return "4096 x 512"."""
    return " x ".join(str(n) for n in shape) if shape else "()"


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return memory for a result."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < PAGES:
        return np.empty(shape, dtype)
    return _core.pages(nbytes)[:nbytes].view(dtype).reshape(shape)


def selected(array: Array, key: Key) -> BasicIndexer | OrthogonalIndexer:
    """Return what a key selects: a box, or parts of boxes where it has steps, arrays or masks."""
    items = key if isinstance(key, tuple) else (key,)
    if any(isinstance(item, (list, range, np.ndarray)) for item in items):
        return OrthogonalIndexer(key, array.shape)
    box = BasicIndexer(key, array.shape)
    return OrthogonalIndexer(key, array.shape) if box.strided else box


# Reading ----------------------------------------------------------------------------------------------------


def take(array: Array, call: Call, key: Key | OrthogonalIndexer, what: str = "") -> NDArray[Any]:
    """Return a part as an ndarray."""
    chosen = key if isinstance(key, OrthogonalIndexer) else selected(array, key)
    nbytes = chosen.count * array.dtype.itemsize
    if isinstance(chosen, OrthogonalIndexer) or nbytes > PAGES:
        what = what or f"{shape_text(chosen.kept)} of {array.dtype.name}"
    if isinstance(chosen, OrthogonalIndexer):
        staged = (
            2 * STAGING if array._core.computed else STAGING
        )  # what parts are computed from stays a while
        call.room(what, nbytes + 2 * PIECE + staged + chosen.index_bytes + array._core.unpack_bytes)
        return chosen.result(_gather(array, call, chosen))
    staging, gaps = 16 * PAGES, _gaps(array, chosen)
    if nbytes > PAGES or array._core.unpack_bytes or gaps:
        needed = nbytes + _core.bytes_beside_read(array._core, nbytes) + (_RUNS * _RUN if gaps else 0)
        left = call.room(what or "a part", needed, _core.kept_pages(nbytes))
        staging = min(STAGING, nbytes + left)
    out = empty(chosen.kept, array.dtype)
    if nbytes:
        boxes = [(chosen.start, out.reshape(chosen.shape))]
        for box in _short(boxes[0], array._transposed) if gaps else boxes:
            read(array, call, [box], staging)
    if chosen.flips:
        out = out.reshape(chosen.shape)[chosen.flips].reshape(chosen.kept)
    return out


def _gaps(array: Array, box: BasicIndexer) -> bool:
    """Say whether runs of a flat array are read with what lies between them."""
    if len(box.shape) < 2 or box.count == 0 or not _flat(array):
        return False
    inner = box.shape[:-1] if array._transposed else box.shape[1:]
    whole = array.shape[:-1] if array._transposed else array.shape[1:]
    return tuple(inner) != tuple(whole)


def _short(box: tuple[list[int], NDArray[Any]], transposed: bool) -> Iterator[tuple[list[int], NDArray[Any]]]:
    """Yield parts of a box of so few runs that what is known of each takes little."""
    start, out = box
    axis = out.ndim - 1 if transposed else 0
    step = max(1, _RUNS // max(1, math.prod(out.shape[1:-1])))
    for first in range(0, out.shape[axis], step):
        part = [slice(None)] * out.ndim
        part[axis] = slice(first, first + step)
        yield [n + first if d == axis else n for d, n in enumerate(start)], out[tuple(part)]


def read(array: Array, call: Call, boxes: Given, staging: int = STAGING) -> None:
    """Read boxes, together; the memory of each has its shape."""
    given = boxes
    if array._transposed:
        given = [(start[::-1], to.T) for start, to in boxes]
    call.engine.read_boxes(array._core, given, staging)
    if (waiting := pending_writes.of(array._core)) is not None:
        waiting.overlay(given)
    if array._conjugated:
        for _, to in boxes:
            np.conjugate(to, out=to)


def _gather(array: Array, call: Call, chosen: OrthogonalIndexer) -> NDArray[Any]:
    dense = empty(chosen.shape, array.dtype)
    cells, gaps = _cells(array)
    item_bytes = 0
    for _ in range(20):
        before = array._core.look()
        for batch in _batches(chosen.pieces(cells, gaps), array.dtype.itemsize):
            parts = [dense[p.place] if p.dense else empty(p.shape, array.dtype) for p in batch]
            item_bytes += sum(part.nbytes for p, part in zip(batch, parts, strict=True) if not p.dense)
            read(array, call, [(p.start, part) for p, part in zip(batch, parts, strict=True)])
            for piece, part in zip(batch, parts, strict=True):
                if not piece.dense:
                    dense[crossed(piece.place, dense.shape)] = piece.pick(part)
        if array._core.look() == before:  # all of one moment
            if item_bytes > _TRIMMED:
                call.tidy()  # parts that are smaller than pages come from the heap, which keeps them
            return dense
    raise storage_error(
        f"getitem: '{array.path}' is changed faster than it can be read; ask for smaller parts.",
        errno.EAGAIN,
        array.path or "",
    )


def _batches(pieces: Iterator[Piece], item: int) -> Iterator[list[Piece]]:
    """Pieces that are on their way together: about PIECE bytes that need memory of their own."""
    batch: list[Piece] = []
    held = 0
    for piece in pieces:
        nbytes = 0 if piece.dense else math.prod(piece.shape) * item
        if batch and (held + nbytes > PIECE or len(batch) == BOXES):
            yield batch
            batch, held = [], 0
        batch.append(piece)
        held += nbytes
    if batch:
        yield batch


def _flat(array: Array) -> bool:
    """Rows are read as they come: there is no chunk, or nobody can tell whether it is whole."""
    core = array._core
    return array.chunks == array.shape and not core.unpack_bytes and not core.verified


def _cells(array: Array) -> tuple[list[int], list[int]]:
    """Return the grid in which a selection is read (chunks, or rows of what has none), and what to skip."""
    cells = [max(1, n) for n in array.chunks]
    if not cells:
        return cells, []
    slow = len(cells) - 1 if array._transposed else 0
    row = math.prod(cells) // cells[slow] * array.dtype.itemsize
    cells[slow] = min(cells[slow], max(1, (PIECE // 32 if _flat(array) else PIECE) // row))
    gaps = list(array.shape)
    if not array._core.unpack_bytes:  # packed chunks are read whole, once
        gaps[slow] = max(1, GAP // row)
    return cells, gaps


# Assigning --------------------------------------------------------------------------------------------------


def check_writable(array: Array) -> None:
    """Refuse to assign to what is open for reading."""
    if array.mode != "r+":
        raise storage_error(
            f"setitem: '{array.path}' is open for reading; open it with mode='r+' to assign.",
            errno.EACCES,
            array.path or "",
        )


def assign(array: Array, call: Call, key: Key | OrthogonalIndexer, value: ArrayLike) -> None:
    """Assign a part: all of it or nothing."""
    check_writable(array)
    chosen = key if isinstance(key, OrthogonalIndexer) else selected(array, key)
    given = _checked(value, array.dtype)
    try:
        source = np.broadcast_to(given, chosen.kept)
    except ValueError:
        raise ShapeError(
            f"setitem: the value is {shape_text(given.shape)} and the box is {shape_text(chosen.kept)}; "
            "the value must have the box's shape or broadcast to it."
        ) from None
    if not chosen.count:
        return
    nbytes = chosen.count * array.dtype.itemsize
    if isinstance(chosen, OrthogonalIndexer):
        call.room("the transfer", 2 * PIECE + STAGING + chosen.index_bytes + _codec_bytes(array))
        with array._updating():
            _scatter(array, call, chosen, chosen.source(source))
        return
    source = source.reshape(chosen.shape)
    if chosen.flips:
        source = source[chosen.flips]
    as_it_is = source.dtype == array.dtype and min(source.strides, default=1) > 0 and not array._conjugated
    call.room("the transfer", _core.bytes_beside_write(array._core, nbytes, not as_it_is))
    with array._updating():
        if as_it_is:
            write(array, call, [(chosen.start, source)])
            return
        for start, _, place, _ in chosen.pieces(_piece_rows(array, chosen)):
            write(array, call, [(start, source[place])])
    if nbytes > _TRIMMED:
        call.tidy()  # copies of pieces come from the heap, which keeps them


def transfer_bytes(array: Array, nbytes: int, dtype: np.dtype[Any]) -> int:
    """Return what assigning a box of so many bytes holds beside it: staging, and the box in other words."""
    return _core.bytes_beside_write(array._core, nbytes, dtype != array.dtype or array._conjugated)


def _codec_bytes(array: Array) -> int:
    """Return what changing one packed chunk takes."""
    return max(array._core.unpack_bytes, array._core.pack_bytes)


def _piece_rows(array: Array, box: BasicIndexer) -> int:
    """Rows of one transfer: about PIECE bytes, whole chunks."""
    if not array.shape:
        return 1
    rows = max(1, PIECE // max(1, box.bounding_row * array.dtype.itemsize))
    chunk = array.chunks[0]
    return max(chunk, rows // chunk * chunk) if chunk < array.shape[0] else rows


def _scatter(array: Array, call: Call, chosen: OrthogonalIndexer, source: NDArray[Any]) -> None:
    """Every chunk is read at most once, changed, and written once."""
    cells, _ = _cells(array)
    item, anywhere = array.dtype.itemsize, array._core.takes_any_box
    for batch in _batches(chosen.pieces(cells, list(array.shape)), item):
        boxes: Given = []
        changed: list[tuple[Piece, int]] = []
        for piece in batch:
            if piece.dense:
                boxes.append((piece.start, source[piece.place]))
                continue
            start, shape = piece.start, piece.shape
            if not anywhere:
                start = [a // c * c for a, c in zip(start, cells, strict=True)]
                shape = [min(c, n - a) for a, c, n in zip(start, cells, array.shape, strict=True)]
            changed.append((piece, len(boxes)))
            boxes.append((start, empty(shape, array.dtype)))
        read(array, call, [boxes[at] for _, at in changed])
        for piece, at in changed:
            put(piece, boxes[at][1], boxes[at][0], source)
        if cells == list(array.chunks) or anywhere:
            write(array, call, boxes)
        else:  # parts of chunks must not be changed at once
            for box in boxes:
                write(array, call, [box])


def write(array: Array, call: Call, boxes: Given) -> None:
    """Write boxes, together; no two of them may touch one chunk."""
    given: Given = []
    for start, part in boxes:
        values = part.conj() if array._conjugated else part
        if array._transposed:
            start, values = start[::-1], values.T
        if values.dtype != array.dtype or min(values.strides, default=1) <= 0:
            # In the array's own dtype; a broadcast (stride 0) is spelled out.
            values = np.ascontiguousarray(values, array.dtype).reshape(values.shape)
        given.append((start, values))
    if (waiting := array._waiting()) is not None:
        waiting.write(call.engine, given)
    else:
        call.engine.write_boxes(array._core, given)


def _checked(value: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return what is assigned; Python's numbers raise what NumPy raises where `dtype` cannot hold them."""
    if type(value) in (bool, int, float, complex, list, tuple):
        return np.array(value, dtype)
    given = np.asarray(unmasked("setitem", value))
    if given.dtype.kind == "c" and dtype.kind != "c":
        raise ShapeError(
            f"setitem: the value is {given.dtype} and the array {dtype}, which has no imaginary parts; "
            "assign value.real, or abs(value)."
        )
    return given


class OrthogonalIndex:
    """``A.oindex[rows, columns]``: every combination of what each dimension selects."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Key) -> Any:
        """Return the part; dimensions stay in their order."""
        chosen = OrthogonalIndexer(key, self._array.shape, orthogonal=True)
        out = take(self._array, Call("getitem", light=True), chosen)
        return out[()] if not out.shape else out

    def __setitem__(self, key: Key, value: ArrayLike) -> None:
        """Assign the part."""
        assign(
            self._array, Call("setitem"), OrthogonalIndexer(key, self._array.shape, orthogonal=True), value
        )
