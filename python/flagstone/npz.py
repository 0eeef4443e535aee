"""SciPy `.npz` files, imported by streaming in fixed memory into scratch: once per file as it is now."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from . import _core, scratch
from .config import Call
from .errors import Error, ExistsError, FormatError
from .scratch import whole_or_nothing
from .sparse import CsrBuilder, SparseArray, value_dtype

__all__ = ["import_npz"]

_STEP = 1 << 19  # values (and pointers) held at a time
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, struct.error, NotImplementedError)


class _Member:
    """One array of the archive, read from front to back."""

    def __init__(self, archive: zipfile.ZipFile, name: str, path: str) -> None:
        if f"{name}.npy" not in archive.namelist():
            raise FormatError(
                f"open: '{path}' has no '{name}', so it is not a matrix that scipy.sparse.save_npz wrote."
            )
        self.name, self.path = name, path
        self._file: IO[bytes] = archive.open(f"{name}.npy")
        version = npy_format.read_magic(self._file)
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        self.shape, fortran, self.dtype = read(self._file)
        if self.dtype.hasobject or self.dtype.fields is not None:
            raise FormatError(f"open: '{name}' of '{path}' holds {self.dtype}, not plain numbers.")
        if fortran and len(self.shape) > 1:
            raise FormatError(f"open: '{name}' of '{path}' is stored by columns; SciPy does not write that.")
        self.length = int(np.prod(self.shape, dtype=object))
        self._left = self.length

    def take(self, count: int) -> NDArray[Any]:
        """Return the next `count` elements (fewer at the end), in native byte order."""
        count = min(count, self._left)
        raw = self._file.read(count * self.dtype.itemsize)
        if len(raw) != count * self.dtype.itemsize:
            raise FormatError(f"open: '{self.name}' of '{self.path}' is shorter than its header says.")
        self._left -= count
        if self._left == 0 and self._file.read(1):  # reading to the end checks the archive's checksum
            raise FormatError(f"open: '{self.name}' of '{self.path}' is longer than its header says.")
        values = np.frombuffer(raw, self.dtype)
        return values.astype(self.dtype.newbyteorder("="), copy=False)

    def whole(self) -> NDArray[Any]:
        """Return all elements of a small array."""
        if self.length > 1000:
            raise FormatError(
                f"open: '{self.name}' of '{self.path}' has {self.length} elements; one or two belong there."
            )
        return self.take(self.length)


def _format_and_shape(archive: zipfile.ZipFile, path: str) -> tuple[str, int, int]:
    tag = _Member(archive, "format", path).whole()
    kind = tag[0].decode("ascii", "replace") if tag.dtype.kind == "S" else str(tag[0])
    shape = _Member(archive, "shape", path).whole()
    if len(shape) != 2 or shape.dtype.kind not in "iu" or int(min(shape)) < 0:
        raise FormatError(f"open: the shape in '{path}' is {shape.tolist()}; two extents are needed.")
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
    archive: zipfile.ZipFile, path: str, major: int
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
                end = max(end, first + 1)
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
    call: Call, archive: zipfile.ZipFile, path: str, rows: int, cols: int, target: str
) -> SparseArray:
    nnz, runs = _pointer_runs(archive, path, rows)
    indices, data = _integers(archive, "indices", path), _Member(archive, "data", path)
    _check_data(data, nnz, path)
    kept = value_dtype(data.dtype, f"open: '{path}'")
    builder = CsrBuilder(call, target, cols, kept, False, beside=64 * _STEP, narrow=True)
    with whole_or_nothing(builder):
        for _, pointers in runs:
            count = int(pointers[-1] - pointers[0])
            builder.append(pointers, indices.take(count), data.take(count))
        return builder.publish()


def _check_data(data: _Member, nnz: int, path: str) -> None:
    if len(data.shape) != 1 or data.length != nnz:
        raise FormatError(f"open: '{path}' has {data.length} values and {nnz} indices; they must agree.")


def _triplets(
    archive: zipfile.ZipFile, path: str, kind: str, rows: int, cols: int
) -> tuple[int, np.dtype[Any], Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]]:
    """Return nnz, value dtype and blocks (row, column, value) of a CSC or COO matrix in stored order."""
    data = _Member(archive, "data", path)
    if kind == "csc":
        nnz, runs = _pointer_runs(archive, path, cols)
        minor = _integers(archive, "indices", path)
        _check_data(data, nnz, path)

        def blocks() -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
            for first, pointers in runs:
                counts = np.diff(pointers)
                columns = np.repeat(np.arange(first, first + len(counts)), counts)
                yield minor.take(len(columns)).astype(np.int64), columns, data.take(len(columns))

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


def _import_by_buckets(
    call: Call, archive: zipfile.ZipFile, path: str, kind: str, rows: int, cols: int, target: str
) -> SparseArray:
    """Sort triplets by row in two passes: count coarse row ranges, then fill bucket files."""
    coarse = max(1, -(-rows // 65_536))  # rows of one counted range
    counts = np.zeros(-(-rows // coarse) + 1, np.int64)
    nnz, dtype, blocks = _triplets(archive, path, kind, rows, cols)
    for row, column, _ in blocks:
        _check_range(row, column, rows, cols, path)
        counts += np.bincount(row // coarse, minlength=len(counts))
    per_bucket = max(2 * _STEP, nnz // 400)
    bucket_of = (np.cumsum(counts) - counts) // per_bucket
    kept = value_dtype(dtype, f"open: '{path}'")
    narrow = [np.int32 if extent < 1 << 31 else np.int64 for extent in (rows, cols)]
    record = np.dtype([("row", narrow[0]), ("column", narrow[1]), ("value", kept)])
    beside = (3 * record.itemsize + 32) * (per_bucket + 2 * _STEP)
    builder = CsrBuilder(call, target, cols, kept, False, beside=beside, narrow=True)
    folder = tempfile.mkdtemp(prefix=".flagstone-tmp-buckets-", dir=os.path.dirname(target))
    try:
        files = [open(f"{folder}/{i}", "w+b") for i in range(int(bucket_of[-1]) + 1)]  # noqa: SIM115
        try:
            _, _, blocks = _triplets(archive, path, kind, rows, cols)
            for row, column, value in blocks:
                _fill_buckets(files, bucket_of[row // coarse], row, column, value, record)
            for i, file in enumerate(files):
                ranges = np.flatnonzero(bucket_of == i)
                first, last = (
                    (int(ranges[0]) * coarse, (int(ranges[-1]) + 1) * coarse) if len(ranges) else (0, 0)
                )
                _append_bucket(builder, file, record, min(first, rows), min(last, rows))
            return builder.publish()
        except BaseException:
            builder.discard()  # a traceback may keep it alive for long
            raise
        finally:
            for file in files:
                file.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_range(row: NDArray[Any], column: NDArray[Any], rows: int, cols: int, path: str) -> None:
    bad = (row < 0) | (row >= rows) | (column < 0) | (column >= cols)
    if bad.any():
        at = int(np.argmax(bad))
        raise FormatError(
            f"open: '{path}' has a value at row {row[at]}, column {column[at]}; the matrix is {rows} x "
            f"{cols}."
        )


def _fill_buckets(
    files: list[Any], bucket: NDArray[Any], row: NDArray[Any], column: NDArray[Any], value: NDArray[Any],
    record: np.dtype[Any],
) -> None:  # fmt: skip
    order = np.argsort(bucket.astype(np.uint16), kind="stable")  # 16 bits: a radix sort
    entries = np.empty(len(order), record)
    entries["row"], entries["column"], entries["value"] = row[order], column[order], value[order]
    ends = np.cumsum(np.bincount(bucket, minlength=len(files)))
    for i in np.unique(bucket):
        files[i].write(entries[ends[i - 1] if i else 0 : ends[i]].data)


def _append_bucket(builder: CsrBuilder, file: Any, record: np.dtype[Any], first: int, last: int) -> None:
    file.seek(0)
    entries = np.frombuffer(file.read(), record)
    row = entries["row"] - first
    if last - first <= 1 << 16:
        row = row.astype(np.uint16)  # a radix sort
    order = np.argsort(row, kind="stable")  # the writer sorts columns and sums duplicates
    pointers = np.zeros(last - first + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=last - first), out=pointers[1:])
    builder.append(pointers, entries["column"][order], entries["value"][order])


def import_npz(path: str) -> SparseArray:
    """Return the matrix of a SciPy `.npz`, imported into scratch unless an import of this very file is there.

    Notes
    -----
    Reads the file once (CSC and COO: twice, and they pass through bucket files in scratch), writes 3 to 8
    bytes a stored value, holds about 100 MB. `flagstone scratch` lists imports and clears them.
    """
    source = Path(path)
    call = Call("open")
    target = scratch.import_path(call.runtime.scratch, source)
    if target.exists():
        try:
            return SparseArray(_core.open_csr(str(target)))
        except Error:
            shutil.rmtree(target, ignore_errors=True)  # damaged in scratch: the source is still whole
    start = time.perf_counter()
    try:
        with call.measured(f"import of {path}", "streaming") as done, zipfile.ZipFile(path) as archive:
            kind, rows, cols = _format_and_shape(archive, path)
            if kind == "csr":
                matrix = _import_csr(call, archive, path, rows, cols, str(target))
            elif kind in ("csc", "coo"):
                matrix = _import_by_buckets(call, archive, path, kind, rows, cols, str(target))
            else:
                raise FormatError(
                    f"open: '{path}' holds a {kind} matrix; csr, csc and coo are read (convert it with "
                    ".tocsr())."
                )
            done.bytes_read = source.stat().st_size * (1 if kind == "csr" else 2)
            done.bytes_written = matrix.stored_bytes
    except ExistsError:
        return SparseArray(_core.open_csr(str(target)))  # another process was quicker
    except FormatError as error:
        text = str(error)
        raise error if path in text else FormatError(f"open: '{path}': {text}") from None
    except Error:
        raise
    except _DAMAGE as error:
        raise FormatError(f"open: '{path}' is damaged or no SciPy .npz ({error}).") from None
    matrix.import_seconds = time.perf_counter() - start
    scratch.describe_import(target, source, matrix.import_seconds)
    return matrix
