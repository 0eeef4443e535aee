"""Numeric columns of Parquet and Arrow (IPC, Feather) files: a dense array, imported and written."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._array.handle import built_aside
from .._array.requests import assign
from .._errors.classes import Error, FormatError
from .._errors.messages import storage_error
from .._errors.regular import open_regular
from .._output.column_names import about_left_out, columns_of, warn_left_out
from .._output.destination import Destination
from .._runtime.call import Call
from .._runtime.streaming import Reported
from .._scratch.builds import whole_or_nothing
from .._sparse.to_csr import dense_blocks
from .._storage.import_cache import cached

__all__ = ["about", "import_to", "open_file", "write"]

_ROWS = 1 << 16
_GROUP = 8 << 20  # bytes of a row group that is written
_FOOTER = 500  # bytes that the footer of Parquet holds of one column of one row group, until it is written
_COLUMN = 4000  # bytes of one column's writer


def _arrow(who: str) -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise Error(
            f"{who}: Parquet and Arrow files need pyarrow, which is not installed; pip install pyarrow."
        ) from None
    return pyarrow


@contextlib.contextmanager
def _judged(path: str) -> Iterator[None]:
    """Make a sentence of what pyarrow says of a damaged file, wherever it notices."""
    pa = _arrow("open")
    try:
        yield
    except Error:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno:
            raise storage_error(
                f"open: '{path}' cannot be read ({os.strerror(error.errno)}).", error.errno, path
            ) from None
        reason = " ".join(str(error).split())[:200]
        raise FormatError(f"open: '{path}' is damaged or no Parquet or Arrow file ({reason}).") from None


def chosen_of(path: str, key: str | None, numeric: list[str], known: list[str]) -> list[str]:
    """Return the columns that `key` ("a,b,c") names; all numeric ones by default."""
    if key is None:
        if not numeric:
            raise FormatError(f"open: '{path}' has no numeric columns ({', '.join(known[:12])}).")
        return numeric
    names = [name.strip() for name in key.split(",")]
    for name in names:
        if name not in numeric:
            why = "is not numeric" if name in known else "is not there"
            raise storage_error(
                f"open: the column '{name}' of '{path}' {why}; numeric ones are {', '.join(numeric[:12])}.",
                2, path,
            )  # fmt: skip
    return names


class Table:
    """A file of columns: its schema, its rows, and batches of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._arrow = _arrow("open")
        pa = self._arrow
        with open_regular("open", path) as file:
            self._parquet = file.read(4) == b"PAR1"
        if self._parquet:
            # No buffers read ahead: a row group would lie in memory twice.
            self._file: Any = pa.parquet.ParquetFile(path, pre_buffer=False, memory_map=False)
            self.schema, self.rows = self._file.schema_arrow, self._file.metadata.num_rows
        else:
            self._file = pa.ipc.open_file(pa.OSFile(path))
            self.schema = self._file.schema
            self.rows = sum(self._file.get_batch(i).num_rows for i in range(self._file.num_record_batches))

    def left_out(self) -> list[str]:
        """Names of the columns that hold something else: text, dates, lists."""
        numeric = set(self.numeric())
        return [name for name in self.schema.names if name not in numeric]

    def numeric(self) -> list[str]:
        """Names of the columns that hold plain numbers."""
        t = self._arrow.types
        return [
            field.name for field in self.schema
            if t.is_integer(field.type) or t.is_floating(field.type) or t.is_boolean(field.type)
        ]  # fmt: skip

    def chosen(self, key: str | None) -> list[str]:
        """Return the columns that `key` ("a,b,c") names; all numeric ones by default."""
        return chosen_of(self.path, key, self.numeric(), self.schema.names)

    def dtype(self, names: list[str]) -> np.dtype[Any]:
        """Return the type that holds every column; columns with gaps (null) become NaN."""
        kinds = []
        for name in names:
            field = self.schema.field(name)
            kind = np.dtype(field.type.to_pandas_dtype())
            kinds.append(np.dtype(np.float64) if kind.kind in "iub" and self._has_nulls(name) else kind)
        return np.result_type(*kinds)

    def _has_nulls(self, name: str) -> bool:
        if not self._parquet:
            return bool(self.schema.field(name).nullable) and any(
                self._file.get_batch(i).column(name).null_count for i in range(self._file.num_record_batches)
            )
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            for i in range(metadata.num_columns):
                column = metadata.row_group(group).column(i)
                if column.path_in_schema == name:
                    if column.statistics is None or not column.statistics.has_null_count:
                        return any(batch.column(0).null_count for batch in self.batches([name]))
                    if column.statistics.null_count:
                        return True
        return False

    def column(self, batch: Any, j: int, dtype: np.dtype[Any]) -> Any:
        """Return one column of a batch, which the dtype of all columns must hold; nulls become NaN."""
        column, t = batch.column(j), self._arrow.types
        if t.is_integer(column.type) and dtype.kind == "f":
            self._check_exact(column, batch.schema.names[j], dtype)
        if column.null_count and not t.is_floating(column.type):
            column = column.cast(self._arrow.float64(), safe=False)
        return column.to_numpy(zero_copy_only=False)

    def _check_exact(self, column: Any, name: str, dtype: np.dtype[Any]) -> None:
        """Refuse an integer that the dtype of all columns rounds: it would become another number."""
        there = (column.drop_null() if column.null_count else column).to_numpy(zero_copy_only=False)
        most = 2 ** (np.finfo(dtype).nmant + 1)
        if not len(there) or (-most <= int(there.min()) and int(there.max()) <= most):
            return
        bad = next((n for n in map(int, there) if abs(n) > most and int(dtype.type(n)) != n), None)
        if bad is not None:
            way = "fill its gaps, or leave it out" if column.null_count else f"open it alone (key='{name}')"
            raise FormatError(
                f"open: the column '{name}' of '{self.path}' holds {bad}, which {dtype.name}, the type of "
                f"all columns together, cannot hold; {way}."
            )

    def room(self, call: Call, names: list[str]) -> None:
        """Refuse a file whose largest row group (or batch) does not fit beside what is held."""
        call.room("the largest row group", self.needed(names, len(names)))

    def needed(self, names: list[str], columns: int) -> int:
        """Return the bytes that reading some columns holds, `columns` of them with those of a folder."""
        largest = 0
        if self._parquet:
            metadata = self._file.metadata
            for group in range(metadata.num_row_groups):
                parts = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
                used = sum(p.total_uncompressed_size for p in parts if p.path_in_schema in names)
                largest = max(largest, used)
        else:
            for i in range(self._file.num_record_batches):
                largest = max(largest, self._file.get_batch(i).nbytes)
        block = 3 * min(_ROWS, self.rows) * columns * 8
        return int(2 * largest + block + min(48 << 20, (16 << 20) + 4 * largest))

    def blocks(self, names: list[str], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
        """Yield rows of the columns."""
        for batch in self.batches(names):
            block = np.empty((batch.num_rows, len(names)), dtype)
            for j in range(len(names)):
                block[:, j] = self.column(batch, j, dtype)
            yield block

    def batches(self, names: list[str]) -> Iterator[Any]:
        """Yield record batches of the columns."""
        if self._parquet:
            yield from self._file.iter_batches(_ROWS, columns=names, use_threads=False)
            return
        for i in range(self._file.num_record_batches):
            batch = self._file.get_batch(i).select(names)
            for first in range(0, batch.num_rows, _ROWS):
                yield batch.slice(first, _ROWS)


def import_to(
    call: Call, path: str | Sequence[str], target: str, replace: bool = False, key: str | None = None
) -> Array:
    """Write numeric columns to `target` as a dense array, rows x columns; those of several files as one."""
    from .table_folders import TableFolder, table_files  # which stands above

    first = path if isinstance(path, str) else path[0]
    with _judged(first):
        table: Any
        if not isinstance(path, str):
            table = TableFolder(first, path, partitioned=False)
        elif os.path.isdir(path):
            table = TableFolder(path, table_files(path))
        else:
            table = Table(path)
        try:
            return _import(call, table, first, target, replace, key)
        finally:
            _arrow("open").default_memory_pool().release_unused()  # it keeps a third of a row group otherwise


def _import(call: Call, table: Any, path: str, target: str, replace: bool, key: str | None) -> Array:
    names = table.chosen(key)
    dtype = table.dtype(names)
    table.room(call, names)
    report = Reported(call, table.rows * len(names) * dtype.itemsize)
    others = table.left_out() if key is None else []
    destination = Destination(
        "open", target, (table.rows, len(names)), dtype.name, None, replace, about=about_left_out(others),
        columns=names,
    )  # fmt: skip
    out, at = built_aside(destination.core), 0
    with whole_or_nothing(destination):
        for block in table.blocks(names, dtype):
            if at + len(block) > table.rows:
                raise FormatError(f"open: '{path}' has more rows than it says ({table.rows}); it is damaged.")
            assign(out, call, np.s_[at : at + len(block)], block)
            at += len(block)
            report.at(at * len(names) * dtype.itemsize)
        if at != table.rows:
            raise FormatError(
                f"open: '{path}' has {at} of the {table.rows} rows that it says; it is damaged."
            )
        built = destination.publish()
    warn_left_out(path, built)
    return built


def open_file(place: str, key: str | None, mode: str) -> Array:
    """Return numeric columns of a Parquet or Arrow file (key: their names), imported into scratch once.

    Notes
    -----
    Reads the columns once and writes them once; holds the largest row group twice. Nulls become NaN. Columns
    that are left out, because they hold no numbers, are named in a warning.
    """
    imported = cached(
        place, part_of(place, key), lambda call, target: import_to(call, place, target, key=key)
    )
    assert isinstance(imported, Array)
    if key is None:
        warn_left_out(place, imported)
    return imported


def part_of(place: str, key: str | None) -> str:
    """Return what tells imports of one place from one another: the columns, and of a folder its files."""
    from .table_folders import folder_stamp

    return f"{key or ''}\n{folder_stamp(place)}" if os.path.isdir(place) else key or ""


def about(place: str, key: str | None) -> dict[str, Any]:
    """Return the columns of a file, with those that are left out."""
    with _judged(place):
        table = Table(place)
        numeric, others = table.numeric(), table.left_out()
    facts: dict[str, Any] = {"rows": table.rows, "numeric_columns": ", ".join(numeric[:20]) or "none"}
    return facts | ({"other_columns": ", ".join(others[:20])} if others else {})


# Writing ----------------------------------------------------------------------------------------------------


def _columns_of(source: Any, form: str) -> int:
    """Return the number of columns, or say why the source has no place in a table."""
    if not isinstance(source, Array):
        raise FormatError(
            f"convert: {form} holds dense columns and the source is sparse; end the name in .npz, .svm, "
            ".mtx, .h5ad or .zarr."
        )
    if source.ndim not in (1, 2) or source.dtype.kind == "c":
        raise FormatError(
            f"convert: {form} holds columns of real numbers and the source is {shape_text(source.shape)} "
            f"{source.dtype.name}; one or two dimensions are needed."
        )
    return source.shape[1] if source.ndim == 2 else 1


def _names(source: Array, cols: int) -> list[str]:
    """Return a name of its own for every column: the array's where that has some."""
    given = columns_of(source) or [None] * cols
    names: list[str] = []
    seen: set[str] = {name for name in given if name}
    for j, name in enumerate(given):
        if not name or name in names:
            name = next(n for n in (f"c{j}", *(f"c{j}_{i}" for i in range(cols + 1))) if n not in seen)
        seen.add(name)
        names.append(name)
    return names


def write(call: Call, source: Any, built: str, key: str | None, report: Reported) -> None:
    """Write the columns to the new file `built`: one row group (batch) for some MiB of rows.

    They have the names of the array's, or c0, c1, ... Holds three row groups of at most 8 MiB (or one
    row), and of Parquet what its footer tells of each column of each of them.
    """
    form = "Arrow" if key == "arrow" else "Parquet"
    cols = _columns_of(source, form)
    pa = _arrow("convert")
    groups = max(1, -(-source.nbytes // _GROUP))
    footer = groups * cols * _FOOTER if form == "Parquet" else 0
    library = footer + cols * _COLUMN + (16 << 20) + min(48 << 20, 8 * source.nbytes)
    kind = pa.from_numpy_dtype(source.dtype)
    schema = pa.schema([pa.field(name, kind, nullable=False) for name in _names(source, cols)])
    moved = 0
    with _judged_writing(pa), _writer(pa, built, schema, form) as put:
        for _, block in dense_blocks(call, source, _GROUP, beside=3, fixed=library):
            by_columns = np.ascontiguousarray(block.reshape(len(block), cols).T)
            batch = pa.record_batch([pa.array(column, kind) for column in by_columns], schema=schema)
            put(batch)
            moved += block.nbytes
            report.at(moved)
    pa.default_memory_pool().release_unused()


@contextlib.contextmanager
def _writer(pa: Any, built: str, schema: Any, form: str) -> Iterator[Any]:
    """Give what writes one batch after the other."""
    if form == "Arrow":
        with pa.OSFile(built, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            yield writer.write_batch
        return
    # No dictionaries: they would hold the values of a row group once more, and numbers rarely repeat.
    with pa.parquet.ParquetWriter(
        built, schema, use_dictionary=False, memory_pool=pa.system_memory_pool()
    ) as writer:
        yield lambda batch: writer.write_batch(batch, max(1, batch.num_rows))


@contextlib.contextmanager
def _judged_writing(pa: Any) -> Iterator[None]:
    """Let what pyarrow raises while it writes be an error of the system."""
    try:
        yield
    except pa.ArrowException as error:
        raise OSError(errno.EIO, " ".join(str(error).split())[:200]) from None
