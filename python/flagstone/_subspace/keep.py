"""H that is made by blocks, stored by rows: once, where somebody asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core
from .._runtime.call import Call
from .._sparse.array import SparseArray
from .._sparse.builder import from_blocks

__all__ = ["store_rows", "stored_groups"]

_GROUPS = "groups"  # beside the parts of a CSR matrix: rows of each group


def store_rows(who: str, source: _core.BlockSource, rows: list[int], out: Any) -> SparseArray:
    """Write all of H, both triangles, float64, by rows; those of one group are held at a time."""
    call, dimension = Call(who), sum(rows)
    maker = _core.GroupRows(source)

    def blocks() -> Iterator[tuple[Any, Any, Any, int]]:
        yield np.empty(0), np.empty(0, np.int64), np.zeros(1, np.int64), dimension
        for group in range(len(rows)):
            call.room(f"the rows of group {group}", maker.most_bytes(group))
            starts, columns, values = maker.rows(group)
            yield values, columns, starts, dimension

    made = from_blocks(blocks(), out, overwrite=True)
    core = _core.create_zarr(
        f"{made.path}/{_GROUPS}", [len(rows)], "int64", [max(len(rows), 1)], dimension_names=["group"]
    )
    if rows:
        call.engine.write_boxes(core, [([0], np.array(rows, np.int64))], 1 << 20)
    core.flush()
    return made


def stored_groups(path: str) -> NDArray[np.int64] | None:
    """Return the rows of each group of a matrix that was stored so; None of another one."""
    if not os.path.isdir(f"{path}/{_GROUPS}"):
        return None
    return np.asarray(Array(open_core(f"{path}/{_GROUPS}", "r"), "r")[:]).astype(np.int64)
