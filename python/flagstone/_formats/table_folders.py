"""Folders of Parquet files, partitioned by names like `year=2024` too, and several files, as one table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors.classes import FormatError
from .._errors.messages import storage_error
from .._runtime.call import Call
from .._storage.table import Table, chosen_of

__all__ = ["TableFolder", "about_folder", "folder_stamp", "is_table_folder", "table_files"]

_SUFFIXES = (".parquet", ".pq")
_DEEP = 16  # partitions in one another


def is_table_folder(place: str) -> bool:
    """Say whether a directory holds Parquet files, directly or below names like `year=2024`."""
    try:
        with os.scandir(place) as entries:
            return any(_is_table(one) or _is_partition(one) for one in entries)
    except OSError:
        return False


def _is_table(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(_SUFFIXES) and entry.name[0] not in "._" and not _is_folder(entry)


def _is_partition(entry: os.DirEntry[str]) -> bool:
    return "=" in entry.name[1:] and entry.name[0] not in "._" and _is_folder(entry)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle: whoever opens it says so
        return False


def table_files(place: str, deep: int = 0) -> list[str]:
    """Return the files of a folder, by name; those of its partitions behind them."""
    with os.scandir(place) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    files = [one.path for one in found if _is_table(one)]
    for one in found:
        if deep < _DEEP and _is_partition(one):
            files += table_files(one.path, deep + 1)
    return files


def folder_stamp(place: str) -> str:
    """Return what tells the files of a folder, as they are now, from others."""
    told = []
    for file in table_files(place):
        try:
            status = os.stat(file)
        except OSError as error:
            raise storage_error(
                f"open: '{file}' cannot be read ({error.strerror}).", error.errno or 0, file
            ) from None
        told.append(f"{os.path.relpath(file, place)} {status.st_ino} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(told)


def _partitions(file: str, place: str) -> dict[str, str]:
    """Return what the folders of a file say of its rows."""
    parts = os.path.relpath(os.path.dirname(file), place).split(os.sep)
    return dict(part.partition("=")[::2] for part in parts if "=" in part)


def _numbers(words: Sequence[str]) -> NDArray[Any] | None:
    """Return partition values as numbers; None where one is none."""
    try:
        return np.array([int(word) for word in words], np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        missing = {"__HIVE_DEFAULT_PARTITION__"}
        return np.array([np.nan if word in missing else float(word) for word in words])
    except ValueError:
        return None


class TableFolder:
    """Files with the same columns, one below the other, as `Table` gives one file.

    Attributes
    ----------
    path : str
        The folder, for messages.
    rows : int
        Of all files.
    """

    def __init__(self, path: str, files: Sequence[str], partitioned: bool = True) -> None:
        self.path, self._files = path, list(files)
        if not self._files:
            raise FormatError(f"open: '{path}' holds no Parquet files; name a folder that does.")
        first = Table(self._files[0])
        self._numeric, self._others = first.numeric(), first.left_out()
        self._rows: list[int] = []
        for file in self._files:
            table = Table(file)
            if sorted(table.schema.names) != sorted(first.schema.names) or set(table.numeric()) != set(
                self._numeric
            ):
                raise FormatError(
                    f"open: '{file}' has other columns than '{self._files[0]}' "
                    f"({', '.join(table.schema.names[:6])} and {', '.join(first.schema.names[:6])}); "
                    "files that are "
                    "read as one have the same."
                )
            self._rows.append(table.rows)
        self.rows = sum(self._rows)
        self._values: dict[str, NDArray[Any]] = {}
        told = [_partitions(file, path) if partitioned else {} for file in self._files]
        for name in told[0]:
            if name in first.schema.names or any(name not in one for one in told):
                continue
            values = _numbers([one[name] for one in told])
            if values is None:
                self._others.append(name)
            else:
                self._values[name] = values

    def left_out(self) -> list[str]:
        """Names of the columns and partitions that hold something else than numbers."""
        return self._others

    def numeric(self) -> list[str]:
        """Names of the columns that hold numbers; those of partitions last."""
        return [*self._numeric, *self._values]

    def chosen(self, key: str | None) -> list[str]:
        """Return the columns that `key` names; all numeric ones by default."""
        return chosen_of(self.path, key, self.numeric(), [*self.numeric(), *self._others])

    def dtype(self, names: Sequence[str]) -> np.dtype[Any]:
        """Return the type that holds every column of every file."""
        kinds = [self._values[name].dtype for name in names if name in self._values]
        stored = [name for name in names if name not in self._values]
        if stored:
            kinds += {Table(file).dtype(stored) for file in self._files}
        return np.result_type(*kinds)

    def room(self, call: Call, names: Sequence[str]) -> None:
        """Refuse files of which one has a row group that does not fit beside what is held."""
        stored = [name for name in names if name not in self._values]
        needed = max(Table(file).needed(stored, len(names)) for file in self._files)
        call.room("the largest row group", needed)

    def blocks(self, names: Sequence[str], dtype: np.dtype[Any], first: int = 0) -> Iterator[NDArray[Any]]:
        """Yield rows of the columns from row `first` on, file by file."""
        stored = [name for name in names if name not in self._values]
        from_file = [j for j, name in enumerate(names) if name not in self._values]
        for number, file in enumerate(self._files):
            begin = min(first, self._rows[number])
            first -= begin
            if begin == self._rows[number]:
                continue
            rows = self._rows[number] - begin
            for part in Table(file).blocks(stored, dtype, begin) if stored else [np.empty((rows, 0))]:
                block = np.empty((len(part), len(names)), dtype)
                block[:, from_file] = part
                for j, name in enumerate(names):
                    if name in self._values:
                        block[:, j] = self._values[name][number]
                yield block


def about_folder(place: str) -> dict[str, Any]:
    """Return the files and columns of a folder, with those that are left out."""
    files = table_files(place)
    table = TableFolder(place, files)
    facts: dict[str, Any] = {
        "format": "Parquet, a folder", "opened": "by import", "files": len(files), "rows": table.rows,
        "numeric_columns": ", ".join(table.numeric()[:20]) or "none",
    }  # fmt: skip
    return facts | ({"other_columns": ", ".join(table.left_out()[:20])} if table.left_out() else {})
