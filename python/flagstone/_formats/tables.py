"""Numeric columns of Parquet and Arrow (IPC, Feather) files: a dense array, imported and written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._array.array import Array, shape_text
from .._array.handle import built_aside
from .._array.requests import assign
from .._errors.classes import FormatError
from .._output.column_names import about_left_out, columns_of, warn_left_out
from .._output.destination import Destination
from .._resume.record import UNRECORDED, Record
from .._runtime.call import Call
from .._runtime.streaming import Reported
from .._scratch.builds import whole_or_nothing
from .._sparse.to_csr import dense_blocks
from .._storage.import_cache import cached
from .._storage.table import Table, arrow, judged

__all__ = ["about", "import_to", "open_file", "write"]

RECORDED = True  #: `import_to` takes a record
_GROUP = 8 << 20  # bytes of a row group that is written
_FOOTER = 500  # bytes that the footer of Parquet holds of one column of one row group, until it is written
_COLUMN = 4000  # bytes of one column's writer


def import_to(
    call: Call, path: str | Sequence[str], target: str, replace: bool = False, key: str | None = None,
    record: Record = UNRECORDED,
) -> Array:  # fmt: skip
    """Write numeric columns to `target` as a dense array, rows x columns; those of several files as one."""
    from .table_folders import TableFolder, table_files  # which stands above

    first = path if isinstance(path, str) else path[0]
    with judged(first):
        table: Any
        if not isinstance(path, str):
            table = TableFolder(first, path, partitioned=False)
        elif os.path.isdir(path):
            table = TableFolder(path, table_files(path))
        else:
            table = Table(path)
        try:
            return _import(call, table, first, target, replace, key, record)
        finally:
            arrow("open").default_memory_pool().release_unused()  # it keeps a third of a row group otherwise


def _import(
    call: Call, table: Any, path: str, target: str, replace: bool, key: str | None, record: Record
) -> Array:
    names = table.chosen(key)
    dtype = table.dtype(names)
    table.room(call, names)
    report = Reported(call, table.rows * len(names) * dtype.itemsize)
    others = table.left_out() if key is None else []
    destination = Destination(
        "open", target, (table.rows, len(names)), dtype.name, None, replace, about=about_left_out(others),
        columns=names, record=record,
    )  # fmt: skip
    out, at, checkpoint = built_aside(destination.core), 0, record.checkpoint
    if checkpoint is not None and checkpoint.has("rows"):
        at = int(json.loads(checkpoint.load("rows")))
    with whole_or_nothing(destination), record.kept(destination):
        for block in table.blocks(names, dtype, at):
            if at + len(block) > table.rows:
                raise FormatError(f"open: '{path}' has more rows than it says ({table.rows}); it is damaged.")
            due = checkpoint is not None and checkpoint.due()
            for part in _cut(block, at, out.chunks[0]) if due else [block]:
                assign(out, call, np.s_[at : at + len(part)], part)
                at += len(part)
                if due and at % out.chunks[0] == 0:
                    assert checkpoint is not None
                    destination.core.checkpoint()
                    checkpoint.save(at / table.rows, [("rows", json.dumps(at).encode())])
            report.at(at * len(names) * dtype.itemsize)
        if at != table.rows:
            raise FormatError(
                f"open: '{path}' has {at} of the {table.rows} rows that it says; it is damaged."
            )
        built = destination.publish()
    warn_left_out(path, built)
    return built


def _cut(block: NDArray[Any], at: int, chunk: int) -> list[NDArray[Any]]:
    """Cut rows that begin at `at` where their last chunk ends: of chunks in parts a save must not speak."""
    end = (at + len(block)) // chunk * chunk - at
    return [block[:end], block[end:]] if 0 < end < len(block) else [block]


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
    with judged(place):
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
    pa = arrow("convert")
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
