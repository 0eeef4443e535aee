"""Lists of edges on disk, as sparse matrices."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import path_text, storage_error
from .._errors.regular import check_regular
from .._lazy.creation import zeros
from .._lazy.join import concat
from .._runtime.call import Call
from .._sort.stretches import Stretch, length_of, part
from .._sort.unique import unique_inverse
from .._sparse.array import SparseArray
from .._sparse.validation import words_of
from .._storage.table import Table, arrow, judged
from .coo import built, check_duplicates
from .spool import spooled
from .text import Lines

__all__ = ["open_edges", "open_graph"]

_TABLES = (".parquet", ".pq", ".arrow", ".feather")
_STEP = 1 << 17  # rows of a .npy file that are taken at a time


def _of_npy(call: Call, path: str) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield the columns of a matrix of two or three columns."""
    array = Array(_core.open_npy(path), "r")
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise ShapeError(
            f"{call.who}: '{path}' is {shape_text(array.shape)}; rows of two or three columns are needed."
        )
    if array.dtype.kind not in "iu":
        raise FormatError(f"{call.who}: '{path}' is {array.dtype.name}; whole numbers are needed.")
    block = min(array.shape[0], _STEP) * array.shape[1] * array.dtype.itemsize
    call.room("rows, as they are loaded, and their columns", 3 * block)
    for first in range(0, array.shape[0], _STEP):
        rows = part(call, array, first, min(first + _STEP, array.shape[0]))
        columns = tuple(np.ascontiguousarray(rows[:, i]) for i in range(array.shape[1]))
        del rows
        yield columns
        del columns


def _of_parquet(call: Call, path: str) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield the two or three columns of a Parquet or Arrow file, batch by batch."""
    with judged(path):
        table = Table(path)
        names = list(table.schema.names)
        if len(names) not in (2, 3):
            raise ShapeError(
                f"{call.who}: '{path}' has {len(names)} columns ({', '.join(names[:8])}); two of ids, or "
                "two and "
                "one of values, are needed."
            )
        for name in names:
            kind = np.dtype(table.schema.field(name).type.to_pandas_dtype()).kind
            if kind not in ("iu" if name in names[:2] else "biuf"):
                raise FormatError(
                    f"{call.who}: the column '{name}' of '{path}' holds {table.schema.field(name).type}; "
                    f"{'whole numbers are' if name in names[:2] else 'a number is'} needed."
                )
        table.room(call, names)
        try:
            for batch in table.batches(names):
                for name, column in zip(names, batch.columns, strict=True):
                    if column.null_count:
                        raise FormatError(
                            f"{call.who}: the column '{name}' of '{path}' has gaps (null); fill them, or "
                            "leave "
                            "those rows out."
                        )
                yield tuple(column.to_numpy(zero_copy_only=False) for column in batch.columns)
        finally:
            arrow(
                call.who
            ).default_memory_pool().release_unused()  # it keeps a third of a row group otherwise


def _file(who: str, path: Any) -> str:
    """Return the path of a file that is there."""
    place = path_text(who, path)
    if not os.path.exists(place):
        raise storage_error(f"{who}: '{place}' does not exist.", errno.ENOENT, place)
    if os.path.isdir(place):
        raise FormatError(f"{who}: '{place}' is a directory; name a file of edges (fl.open opens arrays).")
    check_regular(who, place)  # a pipe cannot be read twice
    return place


def _dense(call: Call, columns: list[Any]) -> tuple[list[Any], Array]:
    """Return rows and columns as numbers 0 … n−1 in the order of their ids, and the ids."""
    number = columns[0].shape[0]
    ids, inverse = unique_inverse(concat(columns[:2]), memory=call.memory)
    call.begin()
    step = length_of(call, max(1, number), 32)
    made = []
    for begin in (0, number):
        half = Stretch(call, "ids", (number,), np.int64)
        for first in range(begin, begin + number, step):
            half.append(part(call, inverse, first, min(first + step, begin + number)))
        made.append(half.close())
    return [*made, *columns[2:]], ids


def open_edges(
    path: str | os.PathLike[str], *, duplicates: str = "sum", symmetric: bool = False, ids: str = "keep",
    loops: bool = True, layout: str = "csr", memory: int | str | None = None,
) -> SparseArray:  # fmt: skip
    """Open a list of edges as a sparse matrix, imported in fixed memory.

    Parameters
    ----------
    path : path
        Text, ``.gz`` too, of two ids a line, or of two ids and a value, with blanks, tabs or commas between
        them; lines that begin with ``#`` or ``%`` are comments. UCI's docword (known by its three header
        lines, counted from 1). ``.npy``: whole numbers, two or three columns. ``.parquet``, ``.pq``,
        ``.arrow``, ``.feather``: two columns of whole numbers, or these and one of values (with pyarrow).
    duplicates : {"sum", "first", "error"}
        As for `from_coo`. Without values every edge counts 1.
    symmetric : bool
        Every edge also the other way round, loops once.
    ids : {"keep", "dense"}
        As they are: the matrix is square, one more than the largest id. Or any numbers of 64 bits, made
        0 … n−1 in their order: the old ones are ``A.ids``, of int64, or uint64 where one is 2^63 or more.
    loops : bool
        Keep edges from a vertex to itself; a vertex that has no other one stays, without edges.
    layout : str
        As for `convert`; a triangle where `symmetric`.
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    SparseArray
        Canonical CSR in scratch, until the handle dies; ``A.ids`` is an Array where ids were made dense.

    Raises
    ------
    FormatError
        A line has another number of columns, or no number where one is needed: names line and column; an id
        is negative, or so large that the disk does not hold pointers up to it; a docword file was cut; the
        file is MatrixMarket, a directory, or named ``.gz`` and no gzip.
    StorageError
        The file does not exist, or may not be read.
    ShapeError
        A ``.npy`` or Parquet file has not two or three columns.
    BudgetError
        The limit is too small; names the least that works.

    Notes
    -----
    Reads the file once, writes its columns to scratch, then as `from_coo`. Dense ids: a sort of all ids with
    their places and one of numbers back to these (`unique_inverse`); no table of ids is held in memory.
    """
    who = "open_edges"
    call = Call(who, memory)
    if ids not in ("keep", "dense"):
        raise ValueError(f"{who}: ids is {ids!r}; choose 'keep' or 'dense'.")
    check_duplicates(who, duplicates)
    words = words_of(who, layout)
    if "triangle" in words and not symmetric:
        raise ShapeError(f"{who}: layout is {layout!r}; a triangle is of a matrix made with symmetric=True.")
    place = _file(who, path)
    shape = None
    if place.endswith(".npy"):
        blocks: Any = _of_npy(call, place)
    elif place.endswith(_TABLES):
        blocks = _of_parquet(call, place)
    else:
        lines = Lines(who, place, ids == "dense")
        blocks, shape = lines.blocks(), lines.shape
    if shape is not None and (symmetric or ids == "dense" or not loops):
        raise ShapeError(
            f"{who}: '{place}' counts words of documents, which are no vertices of one kind; leave out "
            "symmetric=, ids= and loops=."
        )
    columns = spooled(call, blocks, names=ids == "dense")
    columns = columns or [np.empty(0, np.int64)] * 2
    old = zeros(0, "int64") if ids == "dense" else None
    if ids == "dense" and columns[0].shape[0]:
        columns, old = _dense(call, columns)
    matrix = built(
        call,
        columns,
        None,
        shape,
        duplicates,
        symmetric,
        None,
        square=shape is None,
        loops=loops,
        layout=words,
    )
    matrix.ids = old
    return matrix


def open_graph(path: str | os.PathLike[str], weighted: bool = False) -> SparseArray:
    """Open edges as a symmetric matrix without loops, of dense ids.

    `weighted`: the third column weighs an edge, and those that are there twice are summed; else the pattern
    alone, however often and whichever way round an edge is there.
    """
    if weighted:
        return open_edges(path, symmetric=True, ids="dense", loops=False)
    opened = open_edges(path, duplicates="first", symmetric=True, ids="dense", loops=False)
    made: SparseArray = opened if opened.dtype == np.int32 else opened.astype(bool)
    return made
