"""MatrixMarket `.mtx[.gz]`: coordinate and array, every field and symmetry, by streaming; UCI's docword."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ... import _core
from ..._array.array import PIECE, STAGING, Array, open_core
from ..._array.handle import built_aside, is_transposed
from ..._array.requests import assign, take
from ..._errors.classes import FormatError
from ..._errors.messages import writing
from ..._output.destination import Destination
from ..._resume.record import UNRECORDED, Record, sync_folder
from ..._runtime.call import Call
from ..._runtime.streaming import STEP, Block, Reported
from ..._scratch import quota
from ..._scratch.builds import whole_or_nothing
from ..._scratch.spill import beside, spilling
from ..._sparse.array import SparseArray
from ..._sparse.external_sort import Triplets, Work, build_csr
from ..._sparse.row_blocks import row_blocks
from ..._storage.copy import copy
from ..._storage.import_cache import cached
from .columns import columns_as_text, entries_as_text
from .lines import Lines

__all__ = ["about", "import_to", "open_file", "write"]

RECORDED = True  # conversions can be resumed
_BANNER = "%%MatrixMarket"
_DTYPES = {
    "real": "float64",
    "double": "float64",
    "integer": "int64",
    "complex": "complex128",
    "pattern": "float32",
}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


class _Header:
    """The banner and the line of sizes; of docword three lines, each with a size."""

    def __init__(self, lines: Lines) -> None:
        path, banner = lines.path, lines.line()
        if banner.strip().isdigit():
            self._of_docword(lines, banner)
            return
        words = banner.lower().split()
        if len(words) != 5 or words[0] != _BANNER.lower() or words[1] != "matrix":
            raise FormatError(
                f"open: '{path}', line 1: '{banner[:60]}' is no banner; '%%MatrixMarket matrix coordinate "
                "real general' is."
            )
        self.layout, self.field, self.symmetry = words[2:]
        if self.layout not in ("coordinate", "array") or self.field not in _DTYPES:
            raise FormatError(
                f"open: '{path}', line 1: '{self.layout} {self.field}' is unknown; coordinate or array, and "
                f"{', '.join(_DTYPES)} are."
            )
        if self.symmetry not in _SYMMETRIES or (self.layout == "array" and self.field == "pattern"):
            raise FormatError(
                f"open: '{path}', line 1: '{self.field} {self.symmetry}' is not possible here; "
                f"{', '.join(_SYMMETRIES)} are, and patterns have coordinates."
            )
        text = lines.line()
        while (not text.strip() or text.startswith("%")) and lines.more():
            text = lines.line()
        sizes = text.split()
        wanted = 3 if self.layout == "coordinate" else 2
        if len(sizes) != wanted or not all(s.isdigit() and int(s) < 1 << 62 for s in sizes):
            raise FormatError(
                f"open: '{path}', line {lines.number}: '{text[:60]}' are no sizes; {wanted} whole numbers "
                "are needed."
            )
        self.rows, self.cols = int(sizes[0]), int(sizes[1])
        if self.symmetry != "general" and self.rows != self.cols:
            raise FormatError(
                f"open: '{path}': a {self.symmetry} matrix of {self.rows} x {self.cols} is not possible; "
                "it must be square."
            )
        self.entries = int(sizes[2]) if wanted == 3 else self._stored()
        self.dtype = np.dtype(_DTYPES[self.field])
        self.kind = "real" if self.field == "double" else self.field

    def _of_docword(self, lines: Lines, first: str) -> None:
        """Take documents, words and entries: counts, which follow as coordinates from 1."""
        sizes = [first.strip()]
        while len(sizes) < 3:
            sizes.append(lines.line().strip())
            if not (sizes[-1].isdigit() and int(sizes[-1]) < 1 << 62):
                raise FormatError(
                    f"open: '{lines.path}', line {lines.number}: '{sizes[-1][:60]}' is no size; docword "
                    "files begin with three lines, documents, words and entries."
                )
        self.layout, self.field, self.symmetry = "coordinate", "integer", "general"
        self.rows, self.cols, self.entries = map(int, sizes)
        self.dtype, self.kind = np.dtype(_DTYPES[self.field]), self.field

    def _stored(self) -> int:
        if self.symmetry == "general":
            return self.rows * self.cols
        return self.rows * (self.rows + (-1 if self.symmetry == "skew-symmetric" else 1)) // 2


def _mirrored(block: Block, symmetry: str) -> Iterator[Block]:
    yield block
    row, column, value = block
    if symmetry == "general":
        return
    off = row != column
    other = value[off]
    if symmetry == "skew-symmetric":
        other = -other
    yield column[off], row[off], other.conj() if symmetry == "hermitian" else other


def _entries(lines: Lines, header: _Header, report: Reported, got: int = 0) -> Iterator[Block]:
    """Yield what follows the first `got` entries."""
    held = min(STEP, max(1, header.entries - got))  # of longer buffers a huge page is touched each
    rows, columns = np.empty(held, np.int64), np.empty(held, np.int64)
    values = np.ones(held, "float64" if header.kind == "pattern" else header.dtype)
    extents = header.rows, header.cols

    def parse(text: NDArray[Any]) -> _core.ParsedText:
        most = min(held, header.entries - got)
        return _core.parse_coordinates(text, header.kind, rows[:most], columns[:most], values, *extents)

    for done in lines.parsed(parse, report=report):
        n = done.entries
        got += n
        yield rows[:n], columns[:n], values[:n].astype(header.dtype, copy=False)
    _check_count(lines, got, header.entries)


def _check_count(lines: Lines, got: int, wanted: int) -> None:
    if got < wanted:
        raise FormatError(
            f"open: '{lines.path}' ends after {got} of {wanted} entries; it is cut short, copy it again."
        )
    while lines.more():
        text = lines.line()
        if text.strip() and not text.startswith("%"):
            raise FormatError(
                f"open: '{lines.path}', line {lines.number}: there is more than the {wanted} entries that "
                "the header says."
            )


class _Spool:
    """Entries of a text, parsed once: the first reading writes them to a file, the second reads that."""

    def __init__(self, lines: Lines, header: _Header, report: Reported) -> None:
        self._lines, self._header, self._report = lines, header, report
        self._record = np.dtype([("row", np.int64), ("column", np.int64), ("value", header.dtype)])
        self._whole = False

    def blocks(self, work: Work) -> Iterator[Block]:
        """Yield the entries, those that symmetry implies included."""
        place = f"{work.folder}/entries"
        for block in self._read(place) if self._whole else self._parse(place, work):
            yield from _mirrored(block, self._header.symmetry)

    def turned(self, work: Work) -> Iterator[Block]:
        """Yield the entries of the transpose."""
        for row, column, value in self.blocks(work):
            yield column, row, value

    def _parse(self, place: str, work: Work) -> Iterator[Block]:
        """Go on behind what a dead process noted; what it wrote behind that is parsed again."""
        told = work.told("spool") or {"got": 0, "offset": 0, "lines": 0}
        got = int(told["got"])
        if os.path.exists(place) and os.path.getsize(place) >= got * self._record.itemsize:
            os.truncate(place, got * self._record.itemsize)
        else:
            got = 0
        if got > 0:
            yield from self._read(place)
            self._lines.skip(told["offset"], told["lines"])
        with open(place, "ab" if got else "wb") as file:
            for row, column, value in _entries(self._lines, self._header, self._report, got):
                record = np.empty(len(row), self._record)
                record["row"], record["column"], record["value"] = row, column, value
                with spilling(f"open: '{self._lines.path}'", work.folder):
                    file.write(record.data)
                got += len(row)
                self._note(work, file, got)
                yield row, column, value
        self._whole = True

    def _note(self, work: Work, file: IO[bytes], got: int) -> None:
        def sync() -> None:
            file.flush()
            _core.sync_file(file.fileno(), work.folder)
            sync_folder(work.folder)
            sync_folder(os.path.dirname(work.folder))

        about = {"got": got, "offset": self._lines.offset, "lines": self._lines.number}
        work.note("spool", about, 0.3 * got / max(1, self._header.entries), sync)

    def _read(self, place: str) -> Iterator[Block]:
        with open(place, "rb") as file:
            while data := file.read(STEP * self._record.itemsize):
                record = np.frombuffer(data, self._record)
                yield (
                    record["row"].astype(np.int64),
                    record["column"].astype(np.int64),
                    record["value"].copy(),
                )


def _array_to_zarr(
    call: Call, lines: Lines, header: _Header, target: str, report: Reported, replace: bool
) -> Array:
    """Write the columns to a flat file beside the target, and copy that into chunks."""
    shape, size = (header.rows, header.cols), header.rows * header.cols * header.dtype.itemsize
    call.room("two boxes and the transfers", 2 * min(PIECE, size) + min(STAGING, size))  # before text is read
    with beside(target) as folder:
        flat = _import_array(call, lines, header, f"{folder}/columns.npy", report, False)
        destination = Destination("convert", target, shape, header.dtype.name, None, replace)
        with whole_or_nothing(destination):
            copy(call, flat, destination.core, Reported(call, size))
            return destination.publish()


def _import_array(
    call: Call, lines: Lines, header: _Header, target: str, report: Reported, replace: bool
) -> Array:
    """Columns one after the other are a `.npy` in Fortran order; a triangle is mirrored block by block."""
    item = header.dtype.itemsize
    if header.rows * header.cols * item >= 1 << 63:
        raise FormatError(
            f"open: '{lines.path}' says that it is {header.rows} x {header.cols}, which no file holds; it is "
            "damaged, write or copy it again."
        )
    call.room("a block of values", (16 << 20) + 3 * item * STEP)
    quota.needs(target, header.rows * header.cols * item)
    output: _core.Output | None = _core.Output(target, replace, header.rows * header.cols * item)
    try:
        assert output is not None
        _write_columns(lines, header, output.directory, report)
        if header.symmetry != "general":
            _mirror(call, built_aside(open_core(output.directory, "r+")), header.symmetry)
        output.publish()
    except BaseException:
        output = None  # a traceback may keep it alive for long
        raise
    return Array(open_core(target, "r"))


def _write_columns(lines: Lines, header: _Header, path: str, report: Reported) -> None:
    values, got, column = np.empty(min(STEP, max(1, header.entries)), header.dtype), 0, 0
    n, first = header.rows, {"general": 0, "skew-symmetric": 1}.get(header.symmetry, 0)
    triangle = header.symmetry != "general"

    def parse(text: NDArray[Any]) -> _core.ParsedText:
        return _core.parse_values(text, header.kind, values[: min(STEP, header.entries - got)])

    with writing(f"open: '{lines.path}'", path), open(path, "wb") as file:
        descr = npy_format.dtype_to_descr(header.dtype)
        shape = (header.rows, header.cols)
        npy_format.write_array_header_1_0(file, {"descr": descr, "fortran_order": True, "shape": shape})
        start = file.tell()
        with spilling(f"open: '{lines.path}'", os.path.dirname(path)):
            os.posix_fallocate(file.fileno(), 0, start + header.rows * header.cols * header.dtype.itemsize)
        row = first  # of the next value
        for done in lines.parsed(parse, report=report):
            got += done.entries
            if not triangle:
                file.write(values[: done.entries].data)
                continue
            at = 0
            while at < done.entries:
                count = min(n - row, done.entries - at)
                file.seek(start + (column * n + row) * header.dtype.itemsize)
                file.write(values[at : at + count].data)
                at, row = at + count, row + count
                if row == n:
                    column, row = column + 1, column + 1 + first
        _check_count(lines, got, header.entries)
        file.truncate(start + header.rows * header.cols * header.dtype.itemsize)


def _mirror(call: Call, a: Array, symmetry: str) -> None:
    n, side = a.shape[0], 1024
    for i in range(0, n, side):
        for j in range(0, i + 1, side):
            low = take(a, call, np.s_[i : i + side, j : j + side])
            if i == j:
                low = np.tril(low)
            high = -low.T if symmetry == "skew-symmetric" else low.T
            high = high.conj() if symmetry == "hermitian" else high
            if i == j:
                assign(a, call, np.s_[i : i + side, j : j + side], low + np.triu(high, 1))
            else:
                assign(a, call, np.s_[j : j + side, i : i + side], high)
    a._core.flush()


def import_to(
    call: Call, path: str, target: str, replace: bool = False, key: str | None = None,
    narrow: bool = False, record: Record = UNRECORDED, turned: bool = False,
) -> Array | SparseArray:  # fmt: skip
    """Write the matrix of a MatrixMarket file to `target`: coordinates as a CSR group, else a dense array.

    `narrow`: for scratch, where dense arrays are flat and indices as short as they can be. `turned`: the
    transpose, of coordinates.
    """
    with Lines(path, call) as lines:
        header = _Header(lines)
        report = Reported(call, lines.nbytes)
        if header.layout == "array" and not narrow:
            return _array_to_zarr(call, lines, header, target, report, replace)
        if header.layout == "array":
            return _import_array(call, lines, header, target, report, replace)
        spool = _Spool(lines, header, report)
        twice = 1 if header.symmetry == "general" else 2
        entries = Triplets(header.rows, header.cols, twice * header.entries, header.dtype, spool.blocks)
        if turned:
            entries = Triplets(header.cols, header.rows, twice * header.entries, header.dtype, spool.turned)
        return build_csr(call, path, entries, target, replace, narrow, record)


def open_file(place: str, key: str | None, mode: str) -> Array | SparseArray:
    """Return the matrix of a MatrixMarket file, imported into scratch once.

    Notes
    -----
    Reads the text once; entries pass through scratch twice (24 bytes each, then 12 to 16). Holds about 150
    MB.
    """
    return cached(place, "", lambda call, target: import_to(call, place, target, narrow=True))


def about(place: str, key: str | None) -> dict[str, Any]:
    """Return what the header says."""
    with Lines(place) as lines:
        header = _Header(lines)
    return {
        "shape": [header.rows, header.cols], "stored_as": f"{header.layout} {header.field} {header.symmetry}",
        "entries": header.entries,
    }  # fmt: skip


# Writing ----------------------------------------------------------------------------------------------------


_TEXT = 160  # bytes of an entry: row and column of 64 bits, the value, its text twice


def _field(dtype: np.dtype[Any]) -> tuple[str, np.dtype[Any]]:
    if dtype.kind == "c":
        return "complex", np.dtype(np.complex128)
    if dtype.kind == "f":
        return "real", np.dtype(np.float64)
    if dtype == np.uint64:
        raise FormatError("convert: uint64 does not fit MatrixMarket's integers as they are read elsewhere.")
    return "integer", np.dtype(np.int64)


def write(call: Call, source: Any, built: str, key: str | None, report: Reported) -> None:
    """Write text to the new file `built`: of a sparse matrix coordinates, of a dense one values."""
    if source.ndim != 2:
        raise FormatError(
            f"convert: MatrixMarket holds matrices and the source has {source.ndim} dimensions."
        )
    field, wide = _field(source.dtype)
    rows, cols = source.shape
    sparse = isinstance(source, SparseArray)
    layout = "coordinate" if sparse else "array"
    sizes = f"{rows} {cols} {source.nnz}" if sparse else f"{rows} {cols}"
    plain: IO[bytes] = open(built, "wb")  # noqa: SIM115
    packed = key == "gz"
    with plain, gzip.GzipFile("", "wb", 6, plain) if packed else plain as file:
        file.write(f"{_BANNER} matrix {layout} {field} general\n{sizes}\n".encode())
        blocks = (
            _sparse_text(call, source, field, wide) if sparse else columns_as_text(call, source, field, wide)
        )
        moved = 0
        for text, nbytes in blocks:
            file.write(text.data)
            moved += nbytes
            report.at(moved)


def _sparse_text(
    call: Call, source: SparseArray, field: str, wide: np.dtype[Any]
) -> Iterator[tuple[NDArray[np.uint8], int]]:
    for first, pointers, columns, values in row_blocks(call, source, beside=_TEXT):
        major = np.repeat(np.arange(first, first + len(pointers) - 1), np.diff(pointers))
        minor = columns.astype(np.int64)
        row, column = (minor, major) if is_transposed(source) else (major, minor)
        yield entries_as_text(row, column, field, values.astype(wide)), values.nbytes
