"""Blocks of entries whose number nobody knows, kept in scratch as one long array a column."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import FormatError, ShapeError
from .._runtime.call import Call
from .._scratch.scratch import Result
from .._sparse.builder import check_fits

__all__ = ["both_signs", "check_id", "check_ids", "columns_of", "spooled"]


def columns_of(who: str, block: Any, number: int | None = None) -> list[Any]:
    """Return (rows, columns) or (rows, columns, values) of one block, checked."""
    called = "entries" if number is None else f"block {number}"
    if not isinstance(block, (tuple, list)) or len(block) not in (2, 3):
        raise TypeError(
            f"{who}: {called} is {type(block).__name__}; (rows, columns) or (rows, columns, values) is "
            "needed."
        )
    columns = [one if isinstance(one, Array) else np.asarray(one) for one in block]
    for name, one in zip(("rows", "columns", "values"), columns, strict=False):
        if one.ndim != 1 or one.shape != columns[0].shape:
            its = "" if name == "rows" else f" and its rows {_told(columns[0])}"
            needed = "one dimension is" if name == "rows" else "one dimension and one length are"
            raise ShapeError(f"{who}: the {name} of {called} are {_told(one)}{its}; {needed} needed.")
        if name != "values" and one.dtype.kind not in "iu" and one.shape != (0,):
            raise TypeError(f"{who}: the {name} of {called} are {one.dtype.name}; whole numbers are needed.")
    return columns


def _told(column: Any) -> str:
    return shape_text(column.shape) if column.ndim else "one number"


def check_id(who: str, largest: int, called: str) -> None:
    """Refuse an id that int64 does not hold: it would become a negative one."""
    if largest >= 1 << 63:
        raise ShapeError(f"{who}: {called} has the id {largest}; ids below 2**63 are needed.")


def check_ids(who: str, columns: Sequence[Any], called: str) -> None:
    """Refuse, of ids in memory, those that int64 does not hold."""
    for one in columns[:2]:
        if isinstance(one, np.ndarray) and one.dtype == np.uint64 and len(one):
            check_id(who, int(one.max()), called)


def both_signs(who: str) -> FormatError:
    """Return what to say of ids that no dtype of 64 bits holds together."""
    return FormatError(
        f"{who}: there are negative ids and ids of 2**63 and more; give those of int64 or of uint64."
    )


class _Signs:
    """Whether ids of int64, or of uint64, were met: of 64 bits both cannot be told apart."""

    def __init__(self) -> None:
        self.negative = self.large = False

    def look(self, who: str, columns: Sequence[NDArray[Any]]) -> None:
        """Look at the ids of a block."""
        for one in columns:
            if len(one) and one.dtype.kind == "i":
                self.negative |= int(one.min()) < 0
            elif len(one):
                self.large |= int(one.max()) >= 1 << 63
        if self.negative and self.large:
            raise both_signs(who)


def spooled(
    call: Call, blocks: Iterable[Any], dtype: np.dtype[Any] | None = None, *, names: bool = False
) -> list[Any]:
    """Write the blocks down, column by column; ids as int64, values as `dtype` or as in the first block.

    `names`: ids are only told apart, and may be any of 64 bits: uint64 where one is 2^63 or more.
    """
    signs = _Signs()
    places: list[Result] = []
    files: list[Any] = []
    dtypes: list[np.dtype[Any]] = []
    length = 0
    try:
        for number, block in enumerate(blocks):
            columns = columns_of(call.who, block, number)
            if not files:
                dtypes = [np.dtype(np.int64)] * 2
                dtypes += [dtype or one.dtype.newbyteorder("=") for one in columns[2:]]
                for _ in columns:
                    places.append(call.result("entries", 0))
                    files.append(open(places[-1].path, "wb"))  # noqa: SIM115
            if len(columns) != len(files):
                raise ShapeError(
                    f"{call.who}: block {number} has {len(columns)} columns and the first {len(files)}; all "
                    "need the same."
                )
            columns = [np.asarray(one) for one in columns]
            if names:
                signs.look(call.who, columns[:2])
            else:
                check_ids(call.who, columns, f"block {number}")
            if len(columns) == 3:
                check_fits(call.who, columns[2], dtypes[2], number, asked=dtype is not None)
            for file, column, kind in zip(files, columns, dtypes, strict=True):
                file.write(np.ascontiguousarray(column, kind).data)
            length += columns[0].shape[0]
            del block, columns, column  # before the next one is made
    finally:
        for file in files:
            file.close()
    if signs.large:
        dtypes[:2] = [np.dtype(np.uint64)] * 2
    return [_opened(place, kind, length) for place, kind in zip(places, dtypes, strict=True)]


def _opened(place: Result, dtype: np.dtype[Any], length: int) -> Any:
    if length == 0 or not os.path.exists(place.path):
        return np.empty(0, dtype)
    made = Array(_core.open_raw(place.path, dtype.name, [length]), "r")
    place.tie(made)
    return made
