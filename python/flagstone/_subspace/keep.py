"""H that is made by blocks, stored by rows: once, where somebody asks for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._errors.classes import ShapeError
from .._output.replaceable import check_path
from .._resume.identity import memory_identity
from .._runtime.call import Call, Moved
from .._sparse.array import SparseArray
from .._sparse_algebra.written import Rows, SparseResult

__all__ = ["check_kept", "kept_bytes", "store_rows", "stored_groups"]

_GROUPS = "groups"  # beside the parts of a CSR matrix: rows of each group


def check_kept(who: str, out: Any) -> None:
    """Refuse a name that a matrix by rows cannot have."""
    if out is None:
        return
    check_path(who, out)
    if os.fspath(out).endswith(".npy"):
        raise ShapeError(
            f"{who}: '{os.fspath(out)}' must be a Zarr directory; a sparse matrix is several arrays."
        )


class _StoredRows(SparseResult):
    """All of H, both triangles, float64; the rows of one group are held at a time."""

    operation = "stored rows of blocks"
    method = "rows of groups"

    def __init__(self, who: str, source: _core.BlockSource, rows: list[int], told: Any, out: Any) -> None:
        check_kept(who, out)
        self.maker, self.groups, self.told = _core.GroupRows(source), rows, told
        if told is None:
            self.operation = ""  # nobody can tell a function from another one
        n = sum(rows)
        super().__init__(Call(who), [], (n, n), "float64", self.maker.most_nonzeros, out)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"store H, {shape_text(self.shape)} sparse, by rows of {len(self.groups)} groups"

    @property
    def working(self) -> int:
        """Of the group whose rows take most."""
        each = (self.maker.most_bytes(group) for group in range(len(self.groups)))
        return int(self.maker.bytes) + max(each, default=0)

    def arguments(self) -> dict[str, Any]:
        """Return what H is."""
        return {"h": self.told, "groups": memory_identity(np.array(self.groups, np.int64))}

    def rows(self, first: int) -> Iterator[Rows]:
        """Make the rows of each group; of the one that a killed call had begun, those that are missing."""
        ends = np.cumsum(self.groups)
        for group in range(int(np.searchsorted(ends, first, side="right")), len(self.groups)):
            self.call.room(f"the rows of group {group}", self.maker.most_bytes(group))
            starts, columns, values = self.maker.rows(group)
            left = max(0, first - int(ends[group] - self.groups[group]))
            low = int(starts[left])
            yield starts[left:] - low, columns[low:], values[low:]

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> SparseArray:
        """Write them, then the rows of each group beside them."""
        made = super().stream(moved, stack)
        core = _core.create_zarr(
            f"{made.path}/{_GROUPS}", [len(self.groups)], "int64", [max(len(self.groups), 1)],
            dimension_names=["group"],
        )  # fmt: skip
        if self.groups:
            self.call.engine.write_boxes(core, [([0], np.array(self.groups, np.int64))], 1 << 20)
        core.flush()
        return made


def store_rows(
    who: str, source: _core.BlockSource, rows: list[int], out: Any, told: dict[str, Any] | None
) -> SparseArray:
    """Write all of H by rows; `told`: what tells it from another one, so that a killed call goes on."""
    return _StoredRows(who, source, rows, told, out).run()


def kept_bytes(
    who: str, source: _core.BlockSource, rows: list[int], out: Any, told: dict[str, Any] | None
) -> int:
    """Return what `store_rows` holds beside the process, the writer's state too where it can go on."""
    made = _StoredRows(who, source, rows, told, out)
    goes_on = bool(made.operation) and _core.worth_a_record(made.seconds)
    return made.held_bytes + (made.held_bytes - made.beside if goes_on else 0)


def stored_groups(path: str) -> NDArray[np.int64] | None:
    """Return the rows of each group of a matrix that was stored so; None of another one."""
    if not os.path.isdir(f"{path}/{_GROUPS}"):
        return None
    return np.asarray(Array(open_core(f"{path}/{_GROUPS}", "r"), "r")[:]).astype(np.int64)
