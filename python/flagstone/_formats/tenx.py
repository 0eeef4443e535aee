"""Folders of 10x: `matrix.mtx`, barcodes and features, each plain or gzip; cells x genes."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from .._array.array import Array
from .._errors.classes import FormatError
from .._output.axis_names import Names, note_names
from .._resume.record import UNRECORDED, Record
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._storage.import_cache import cached
from .text import matrixmarket
from .text.lines import Lines

__all__ = ["about", "import_to", "is_10x_folder", "matrix_file", "open_folder"]

RECORDED = True  #: `import_to` takes a record
_MATRIX, _CELLS = "matrix.mtx", "barcodes.tsv"
_GENES = ("features.tsv", "genes.tsv")  # of CellRanger from 3 on, and before
_PART = "cells"  # of the cache: the matrix turned round


def _file(place: str, *names: str) -> str | None:
    """Return the file of a name that is there, plain or packed."""
    for name in names:
        for path in (f"{place}/{name}", f"{place}/{name}.gz"):
            if os.path.lexists(path):
                return path
    return None


def is_10x_folder(place: str) -> bool:
    """Say whether a directory holds a matrix with barcodes or features beside it."""
    return _file(place, _MATRIX) is not None and _file(place, _CELLS, *_GENES) is not None


def matrix_file(place: str) -> str:
    """Return the file of the matrix."""
    found = _file(place, _MATRIX)
    assert found is not None
    return found


def _coordinates(place: str) -> str:
    """Return the file of the matrix; refuse a dense one."""
    matrix = matrix_file(place)
    with Lines(matrix) as lines:
        if "array" in lines.line().lower().split():
            raise FormatError(f"open: '{matrix}' is a dense matrix; coordinates are what 10x writes.")
    return matrix


def import_to(
    call: Call, path: str, target: str, replace: bool = False, key: str | None = None,
    record: Record = UNRECORDED,
) -> Array | SparseArray:  # fmt: skip
    """Write the matrix of a folder to `target`, cells x genes."""
    return matrixmarket.import_to(call, _coordinates(path), target, replace, record=record, turned=True)


def open_folder(place: str, key: str | None) -> SparseArray:
    """Return the matrix, cells x genes, imported into scratch once.

    Notes
    -----
    Reads the text once, as for MatrixMarket. Names are read when they are asked for.
    """
    if key is not None:
        raise FormatError(f"open: '{place}' is a folder of 10x and has no member {key!r}; leave key out.")
    matrix = _coordinates(place)

    def build(call: Call, target: str) -> Array | SparseArray:
        return matrixmarket.import_to(call, matrix, target, narrow=True, turned=True)

    opened = cached(matrix, _PART, build)
    assert isinstance(opened, SparseArray)
    cells, genes = (
        None if file is None else partial(_names, file, count)
        for file, count in zip((_file(place, _CELLS), _file(place, *_GENES)), opened.shape, strict=True)
    )
    return note_names(opened, cells, genes)


def _names(path: str, count: int) -> Names:
    """Read one name a line: of features, which have several columns, the second."""
    column = 0 if os.path.basename(path).startswith(_CELLS) else 1
    found: list[str] = []
    with Lines(path) as lines:
        Call("open").room("the names", 3 * 120 * count)
        while lines.more():
            words = lines.line().split("\t")
            if words == [""]:
                continue
            if len(found) == count or "\0" in words[0]:
                raise FormatError(
                    f"open: '{path}', line {lines.number}: there is more than the {count} names that the "
                    "matrix beside it has; copy the folder again."
                )
            found.append(words[min(column, len(words) - 1)])
    if len(found) != count:
        raise FormatError(
            f"open: '{path}' has {len(found)} names and the matrix beside it {count}; copy the folder again."
        )
    return np.array(found, dtype=np.str_)


def about(place: str) -> dict[str, Any]:
    """Return what the header of the matrix says, cells x genes."""
    told = matrixmarket.about(matrix_file(place), None)
    return told | {"format": "10x, a folder", "opened": "by import", "shape": told["shape"][::-1]}
