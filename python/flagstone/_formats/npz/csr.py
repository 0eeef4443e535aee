"""`.npz` of SciPy, imported by streaming into scratch, once per file as it is now; NumPy's in `dense`."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..._array.array import Array
from ..._errors.classes import Error, FormatError
from ..._errors.messages import storage_error
from ..._resume.record import UNRECORDED, Record
from ..._runtime.call import Call
from ..._runtime.streaming import STEP as _STEP
from ..._runtime.streaming import Reported, ahead
from ..._scratch.builds import whole_or_nothing
from ..._sparse.array import SparseArray
from ..._sparse.builder import CsrBuilder, value_dtype
from ..._sparse.external_sort import Triplets, Work, build_csr
from ..._sparse.validation import check_extents
from ..._storage.import_cache import cached
from . import dense
from .csr_writer import write
from .direct_reader import DirectReader
from .members import read_header, start

__all__ = ["about", "entries_of", "import_to", "in_place", "open_file", "verify", "write"]

RECORDED = True  # conversions can be resumed
_LARGE = 1 << 20
_SMALL = 1 << 16  # bytes of what says how the others are meant
#: Bytes for a value of a row that stands alone: four buffers of each reader, and copies.
_LONG_ROW = 96
#: RuntimeError, of which NotImplementedError is one: members that are encrypted, or packed in an unknown way.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, struct.error, RuntimeError)


def _lies_open(member: zipfile.ZipInfo) -> bool:
    """Say whether a member's bytes stand in the archive as they are, and are worth a reader of their own."""
    plain = member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1
    return plain and member.compress_size == member.file_size and member.file_size >= _LARGE


class _Member:
    """One array of the archive, read from front to back."""

    def __init__(self, archive: zipfile.ZipFile, name: str, path: str) -> None:
        if f"{name}.npy" not in archive.namelist():
            raise FormatError(
                f"open: '{path}' has no '{name}', so it is not a matrix that scipy.sparse.save_npz wrote."
            )
        self.name, self.path = name, path
        self._file: IO[bytes] = archive.open(f"{name}.npy")
        self.shape, fortran, self.dtype = read_header(self._file, path, name)
        if self.dtype.hasobject or self.dtype.fields is not None:
            raise FormatError(f"open: '{name}' of '{path}' holds {self.dtype}, not plain numbers.")
        if fortran and len(self.shape) > 1:
            raise FormatError(f"open: '{name}' of '{path}' is stored by columns; SciPy does not write that.")
        self.length = int(np.prod(self.shape, dtype=object))
        self._left = self.length
        self._info, self._direct = archive.getinfo(f"{name}.npy"), None
        if _lies_open(self._info):
            self._direct = DirectReader(path, start(path, self._info), self._info.file_size)
            self._direct.read(self._file.tell())  # the header, for the checksum

    def take(self, count: int) -> NDArray[Any]:
        """Return the next `count` elements (fewer at the end), in native byte order; valid for one more."""
        count = min(count, self._left)
        source = self._direct or self._file
        raw = source.read(count * self.dtype.itemsize)
        if len(raw) != count * self.dtype.itemsize:
            raise FormatError(f"open: '{self.name}' of '{self.path}' is shorter than its header says.")
        self._left -= count
        if self._left == 0 and len(source.read(1)):  # reading to the end checks the archive's checksum
            raise FormatError(f"open: '{self.name}' of '{self.path}' is longer than its header says.")
        if self._left == 0 and self._direct and self._direct.crc != self._info.CRC:
            raise FormatError(
                f"open: '{self.path}' is damaged: the checksum of '{self.name}' does not match; copy it "
                "again."
            )
        values = np.frombuffer(raw, self.dtype)
        return values.astype(self.dtype.newbyteorder("="), copy=False)

    def whole(self) -> NDArray[Any]:
        """Return all elements of a small array."""
        if self.length > 1000 or self.length * self.dtype.itemsize > _SMALL:
            raise FormatError(
                f"open: '{self.name}' of '{self.path}' has {self.length} elements of {self.dtype}; one or "
                "two numbers or a short text belong there."
            )
        return self.take(self.length)


def _format_and_shape(archive: zipfile.ZipFile, path: str) -> tuple[str, int, int]:
    tag = _Member(archive, "format", path).whole()
    kind = tag[0].decode("ascii", "replace") if tag.dtype.kind == "S" else str(tag[0])
    shape = _Member(archive, "shape", path).whole()
    if len(shape) != 2 or shape.dtype.kind not in "iu":
        raise FormatError(f"open: the shape in '{path}' is {shape.tolist()}; two extents are needed.")
    check_extents(int(shape[0]), int(shape[1]), f"open: '{path}'")
    return kind, int(shape[0]), int(shape[1])


def _integers(archive: zipfile.ZipFile, name: str, path: str, length: int | None = None) -> _Member:
    member = _Member(archive, name, path)
    if member.dtype.kind not in "iu" or len(member.shape) != 1:
        raise FormatError(
            f"open: '{name}' of '{path}' is {member.dtype}, {len(member.shape)}-d; integers in a row are "
            "needed."
        )
    if length is not None and member.length != length:
        raise FormatError(f"open: '{name}' of '{path}' has {member.length} elements; {length} are needed.")
    return member


def _pointer_runs(
    call: Call, archive: zipfile.ZipFile, path: str, major: int
) -> tuple[int, Iterator[tuple[int, NDArray[Any]]]]:
    """Return nnz and runs (first row, pointers) of about _STEP values; a long row stands alone."""
    indices = _integers(archive, "indices", path)
    member = _integers(archive, "indptr", path, major + 1)

    def runs() -> Iterator[tuple[int, NDArray[Any]]]:
        last = member.take(1).astype(np.int64)
        if last[0] != 0:
            raise FormatError(f"open: the pointers of '{path}' begin at {last[0]}; 0 is needed.")
        row = 0
        while row < major:
            pointers = np.concatenate([last, member.take(_STEP).astype(np.int64)])
            steps = np.diff(pointers)
            if len(steps) and steps.min() < 0:
                bad = row + int(np.argmax(steps < 0))
                raise FormatError(f"open: the pointers of '{path}' decrease at row {bad}; they must not.")
            if pointers[-1] > indices.length:
                bad = row + int(np.argmax(pointers > indices.length)) - 1
                raise FormatError(
                    f"open: row {bad} of '{path}' ends at value {pointers[-1]} and there are "
                    f"{indices.length}."
                )
            first = 0
            while first < len(pointers) - 1:
                end = int(np.searchsorted(pointers, pointers[first] + _STEP, side="right")) - 1
                if end <= first:
                    end, held = first + 1, int(pointers[first + 1] - pointers[first])
                    call.room(f"the {held} values of row {row + first} of '{path}'", _LONG_ROW * held)
                yield row + first, pointers[first : end + 1]
                first = end
            row += len(pointers) - 1
            last = pointers[-1:]
        if last[0] != indices.length:
            raise FormatError(
                f"open: the pointers of '{path}' end at {last[0]} and there are {indices.length} indices."
            )

    return indices.length, runs()


def _import_csr(
    call: Call,
    archive: zipfile.ZipFile,
    path: str,
    rows: int,
    cols: int,
    target: str,
    replace: bool,
    narrow: bool,
    record: Record,
) -> SparseArray:
    nnz, runs = _pointer_runs(call, archive, path, rows)
    indices, data = _integers(archive, "indices", path), _Member(archive, "data", path)
    _check_data(data, nnz, path)
    kept = value_dtype(data.dtype, f"open: '{path}'")
    builder = CsrBuilder(
        call, target, cols, kept, replace, beside=96 * min(_STEP, max(nnz, rows, 1)),
        narrow=narrow, record=record, entries=nnz,
    )  # fmt: skip
    report, moved = Reported(call, os.path.getsize(path)), 0
    with whole_or_nothing(builder), record.kept(builder):
        for block in ahead(_rows(runs, indices, data)):  # what is held is read again, and not packed again
            builder.append(*block)
            moved += sum(part.nbytes for part in block)
            report.at(min(moved, report.total))
            builder.offer(builder.rows / max(1, rows))
        return builder.publish()


def _rows(
    runs: Iterator[tuple[int, NDArray[Any]]], indices: _Member, data: _Member
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    with ThreadPoolExecutor(1) as beside:  # two requests on their way keep a disk twice as busy
        for _, pointers in runs:
            count = int(pointers[-1] - pointers[0])
            values = beside.submit(data.take, count)
            yield pointers, indices.take(count), values.result()


def _check_data(data: _Member, nnz: int, path: str) -> None:
    if len(data.shape) != 1 or data.length != nnz:
        raise FormatError(f"open: '{path}' has {data.length} values and {nnz} indices; they must agree.")


def _triplets(
    call: Call, archive: zipfile.ZipFile, path: str, kind: str, rows: int, cols: int
) -> tuple[int, np.dtype[Any], Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]]:
    """Return nnz, value dtype and blocks (row, column, value) of a matrix in stored order."""
    data = _Member(archive, "data", path)
    if kind != "coo":
        nnz, runs = _pointer_runs(call, archive, path, cols if kind == "csc" else rows)
        minor = _integers(archive, "indices", path)
        _check_data(data, nnz, path)

        def blocks() -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
            for first, pointers in runs:
                counts = np.diff(pointers)
                major = np.repeat(np.arange(first, first + len(counts)), counts)
                other, values = minor.take(len(major)).astype(np.int64), data.take(len(major))
                yield (other, major, values) if kind == "csc" else (major, other, values)

        return nnz, data.dtype, blocks()
    row, column = _integers(archive, "row", path), _integers(archive, "col", path)
    if row.length != column.length:
        raise FormatError(
            f"open: '{path}' has {row.length} row and {column.length} column indices; they must agree."
        )
    _check_data(data, row.length, path)

    def blocks_of_coo() -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        for first in range(0, row.length, _STEP):
            count = min(_STEP, row.length - first)
            yield row.take(count).astype(np.int64), column.take(count).astype(np.int64), data.take(count)

    return row.length, data.dtype, blocks_of_coo()


@contextlib.contextmanager
def entries_of(call: Call, path: str) -> Iterator[Triplets]:
    """Give the entries of a matrix of SciPy's, in stored order, to whoever sorts them."""
    with _judged(call.who, path), zipfile.ZipFile(path) as archive:
        kind, rows, cols = _format_and_shape(archive, path)
        if kind not in ("csr", "csc", "coo"):
            raise FormatError(f"{call.who}: '{path}' holds a {kind} matrix; csr, csc or coo is needed.")

        def blocks(work: Work) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
            yield from _triplets(call, archive, path, kind, rows, cols)[2]

        nnz, dtype, _ = _triplets(call, archive, path, kind, rows, cols)
        yield Triplets(rows, cols, nnz, dtype, blocks)


def import_to(
    call: Call, path: str, target: str, replace: bool = False, key: str | None = None,
    narrow: bool = False, record: Record = UNRECORDED,
) -> Array | SparseArray:  # fmt: skip
    """Write the matrix of a SciPy `.npz` to `target` as a CSR group."""
    with _judged("open", path), zipfile.ZipFile(path) as archive:
        kind, rows, cols = _format_and_shape(archive, path)
        if kind == "csr":
            return _import_csr(call, archive, path, rows, cols, target, replace, narrow, record)
        if kind not in ("csr", "csc", "coo"):
            raise FormatError(
                f"open: '{path}' holds a {kind} matrix; csr, csc and coo are read (convert it with .tocsr())."
            )
        nnz, dtype, _ = _triplets(call, archive, path, kind, rows, cols)
        report, passes = Reported(call, os.path.getsize(path)), 0

        def blocks(work: Work) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
            nonlocal passes
            passes, seen = passes + 1, 0
            for block in _triplets(call, archive, path, kind, rows, cols)[2]:
                yield block
                seen += len(block[0])
                report.at(int(report.total * (passes - 1 + seen / max(nnz, 1)) / 2))  # of two passes

        entries = Triplets(rows, cols, nnz, dtype, blocks)
        return build_csr(call, path, entries, target, replace, narrow, record)


def open_file(place: str, key: str | None, mode: str) -> Array | SparseArray:
    """Return the matrix of a SciPy `.npz`, or one array of NumPy's (`key` names it).

    Notes
    -----
    An array that is not deflated is opened in place; a deflated one is unpacked into scratch, a matrix is
    imported, unless an import of this very file is there. A matrix:
    reads the file once (CSC and COO: twice, and they pass through bucket files in scratch), writes 3 to 8
    bytes a stored value, holds about 100 MB. `flagstone scratch` lists imports and clears them.
    """
    with _judged("open", place), zipfile.ZipFile(place) as archive:
        matrix = key is None and _is_matrix(archive)
        name = None if matrix else dense.choose(archive, place, key)
    if name is not None:
        with _judged("open", place):
            return dense.open_member(place, name)
    return cached(place, "", lambda call, target: import_to(call, place, target, narrow=True))


def in_place(place: str, key: str | None) -> bool:
    """Say whether `open_file` opens without an import, or leaves it to an array that is unpacked."""
    with _judged("open", place), zipfile.ZipFile(place) as archive:
        return key is not None or not _is_matrix(archive)


def verify(place: str) -> int:
    """Read every member to its end, which compares it with the archive's checksum; return the bytes."""
    read = 0
    with _judged("check", place), zipfile.ZipFile(place) as archive:
        for info in archive.infolist():
            with archive.open(info) as file:
                while piece := file.read(_LARGE):
                    read += len(piece)
    return read


def _is_matrix(archive: zipfile.ZipFile) -> bool:
    """Say whether scipy.sparse wrote it."""
    return {"format.npy", "shape.npy", "data.npy"} <= set(archive.namelist())


@contextlib.contextmanager
def _judged(who: str, place: str) -> Iterator[None]:
    """Make a sentence of what zipfile says of a damaged archive."""
    try:
        yield
    except Error:
        raise
    except _DAMAGE as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"{who}: '{place}' is damaged or no .npz ({reason}).") from None
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # a place that no file has
            raise FormatError(f"{who}: '{place}' is damaged: a member lies outside the file.") from None
        raise storage_error(
            f"{who}: '{place}' cannot be read ({error.strerror}).", error.errno or 0, place
        ) from None


def about(place: str, key: str | None) -> dict[str, Any]:
    """Return what the headers say; nothing is imported."""
    with _judged("info", place), zipfile.ZipFile(place) as archive:
        if key is not None or not _is_matrix(archive):
            return dense.told(archive, place, key)
        kind, rows, cols = _format_and_shape(archive, place)
        data = _Member(archive, "data", place)
        packed = any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist())
    return {
        "kind": "sparse matrix", "stored_as": f"{kind}{', deflated' if packed else ''}",
        "shape": [rows, cols], "dtype": data.dtype.name, "stored_values": data.length,
    }  # fmt: skip
