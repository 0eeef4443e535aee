"""Columns of Parquet and Arrow (IPC, Feather) files, batch by batch, through pyarrow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import Error, FormatError
from .._errors.messages import storage_error
from .._errors.regular import open_regular
from .._runtime.call import Call

__all__ = ["Table", "arrow", "chosen_of", "judged"]

_ROWS = 1 << 16


def arrow(who: str) -> Any:
    """Return pyarrow, which reads Parquet and Arrow files; Error: it is not installed."""
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
def judged(path: str) -> Iterator[None]:
    """Make a sentence of what pyarrow says of a damaged file, wherever it notices."""
    pa = arrow("open")
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
        self._arrow = arrow("open")
        pa = self._arrow
        with open_regular("open", path) as file:
            self._parquet = file.read(4) == b"PAR1"
        if self._parquet:
            # No buffers read ahead: a row group would lie in memory twice.
            self._file: Any = pa.parquet.ParquetFile(path, pre_buffer=False, memory_map=False)
            metadata = self._file.metadata
            self.schema, self.rows = self._file.schema_arrow, metadata.num_rows
            self._heights = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        else:
            self._file = pa.ipc.open_file(pa.OSFile(path))
            self.schema = self._file.schema
            self._heights = [self._file.get_batch(i).num_rows for i in range(self._file.num_record_batches)]
            self.rows = sum(self._heights)

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

    def blocks(self, names: list[str], dtype: np.dtype[Any], first: int = 0) -> Iterator[NDArray[Any]]:
        """Yield rows of the columns, from row `first` on."""
        for batch in self.batches(names, first):
            block = np.empty((batch.num_rows, len(names)), dtype)
            for j in range(len(names)):
                block[:, j] = self.column(batch, j, dtype)
            yield block

    def batches(self, names: list[str], first: int = 0) -> Iterator[Any]:
        """Yield record batches of the columns; row groups that end before row `first` are not read."""
        group, heights = 0, self._heights
        while group < len(heights) and heights[group] <= first:
            first -= heights[group]
            group += 1
        for batch in self._of_groups(names, range(group, len(heights))):
            over = min(batch.num_rows, first)
            first -= over
            if over < batch.num_rows:
                yield batch.slice(over)

    def _of_groups(self, names: list[str], groups: range) -> Iterator[Any]:
        if self._parquet and groups:
            yield from self._file.iter_batches(
                _ROWS, row_groups=list(groups), columns=names, use_threads=False
            )
        for i in groups if not self._parquet else ():
            batch = self._file.get_batch(i).select(names)
            for first in range(0, batch.num_rows, _ROWS):
                yield batch.slice(first, _ROWS)
