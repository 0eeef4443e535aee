"""Paths that others fill, aside: a file, a directory, or a group with one array and small ones beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core
from .._errors.classes import ShapeError
from .._resume.record import sync_tree
from .._runtime.call import Call
from .._scratch.builds import whole_or_nothing
from .._scratch.scratch import Result
from .column_names import Columns, with_columns
from .destination import in_group
from .place import RecordedPlace

__all__ = ["GroupPlace", "PathPlace"]


class PathPlace(RecordedPlace):
    """A path whose file or directory the caller fills; `open()` returns where it is built, aside."""

    def __init__(self, call: Call, path: str, overwrite: bool, nbytes: int) -> None:
        super().__init__(call)
        self.path, self.overwrite, self.nbytes = path, overwrite, nbytes
        self._output: _core.Output | None = None

    def open(self, stack: contextlib.ExitStack) -> Any:
        """Make the place; `stack` undoes it where the call fails."""
        self._output = self._recording().output(self.path, self.overwrite, self.nbytes)
        stack.enter_context(whole_or_nothing(self))
        stack.enter_context(self.record.kept(self))
        return self._output.directory

    def discard(self) -> None:
        """Remove what was built."""
        self._output = None  # a traceback may keep it alive for long

    def leave(self) -> None:
        """Let what was built stay, for a call that goes on with it."""
        if self._output is not None:
            self._output.leave()

    def close(self) -> Any:
        """Let it appear under its name."""
        if self._output is not None:
            self._output.publish()


class GroupPlace(PathPlace):
    """A group (a path, or scratch) with one array that the job writes, and small ones that are put beside it.

    Parameters
    ----------
    call : Call
        Whose result it is.
    out : path or None
        What the user gave, checked by the rules of `out=`; None: scratch.
    name, dims
        Of the array that the job writes.
    shape, dtype, chunks
        Of it.
    nbytes : int
        Of all arrays of the group.
    """

    def __init__(
        self, call: Call, out: Any, name: str, dims: Sequence[str], shape: tuple[int, ...],
        dtype: np.dtype[Any], chunks: Sequence[int], nbytes: int,
    ) -> None:  # fmt: skip
        super().__init__(call, "" if out is None else os.fspath(out), True, nbytes)
        self.out, self.name, self.dims = out, name, list(dims)
        self.shape, self.dtype, self.chunks = shape, dtype, chunks
        self.scratch: Result | None = None
        self.directory = ""
        self.beside = 0

    @property
    def nameless(self) -> bool:
        """Whether nobody knows where it lies, after this process."""
        return self.out is None

    def planned(self) -> _core.Array:
        """Return an array that only the planner uses."""
        if self.out is None:
            self._in_scratch(int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize)
        return _core.planned_array(list(self.shape), self.dtype.name, list(self.chunks))

    def open(self, stack: contextlib.ExitStack) -> Any:
        """Make the array, in a group that is empty else."""
        if self.out is None:
            self.scratch = self.call.result(self.call.who, self.nbytes)
            stack.enter_context(whole_or_nothing(self.scratch))
            self.path = self.scratch.path
        if self.path.endswith(".npy"):
            raise ShapeError(
                f"{self.call.who}: out '{self.path}' must be a Zarr directory; it holds several arrays."
            )
        in_group(self.call.who, self.path)
        self.directory = super().open(stack)
        if self.record.resumed:  # the pass that writes it starts again
            for name in os.listdir(self.directory):
                shutil.rmtree(f"{self.directory}/{name}", ignore_errors=True)
        _core.write_group(self.directory, "{}")
        self.core = _core.create_zarr(
            f"{self.directory}/{self.name}", list(self.shape), self.dtype.name, list(self.chunks),
            dimension_names=self.dims,
        )  # fmt: skip
        self.core.reserve()
        if self.record.text:
            sync_tree(self.directory)
        return self.core

    def write(
        self, name: str, values: NDArray[Any], dims: Sequence[str], columns: Columns | None = None
    ) -> None:
        """Put a small array beside it; `columns`: names of its columns."""
        values = np.ascontiguousarray(values)
        named = None if columns is None else [name if name is None else str(name) for name in columns]
        core = _core.create_zarr(
            f"{self.directory}/{name}", list(values.shape), values.dtype.name,
            attributes=with_columns("", named), dimension_names=list(dims),
        )  # fmt: skip
        self.call.engine.write_boxes(core, [([0] * values.ndim, values)], 1 << 20)
        core.flush()

    def member(
        self, name: str, dims: Sequence[str], shape: tuple[int, ...], chunks: Sequence[int]
    ) -> GroupMember:
        """Return another array of the group that the job writes, of one dtype; opened after the group."""
        return GroupMember(self, name, dims, shape, chunks)

    def close(self, attributes: dict[str, Any] | None = None) -> Array:
        """Make the group appear under its name; return the array that the job wrote."""
        self.core.flush()
        _core.write_group(self.directory, json.dumps(attributes or {}))
        super().close()
        made = Array(open_core(f"{self.path}/{self.name}", "r"), "r")
        if self.scratch is not None:
            self.scratch.tie(made)
        return made


class GroupMember:
    """A second array of a group that a job writes."""

    def __init__(
        self, group: GroupPlace, name: str, dims: Sequence[str], shape: tuple[int, ...], chunks: Sequence[int]
    ) -> None:
        self.group, self.name, self.dims, self.shape, self.chunks = group, name, list(dims), shape, chunks

    def planned(self) -> _core.Array:
        """Return an array that only the planner uses."""
        return _core.planned_array(list(self.shape), self.group.dtype.name, list(self.chunks))

    def open(self, stack: contextlib.ExitStack) -> _core.Array:
        """Make the array beside the group's own."""
        self.core = _core.create_zarr(
            f"{self.group.directory}/{self.name}", list(self.shape), self.group.dtype.name, list(self.chunks),
            dimension_names=self.dims,
        )  # fmt: skip
        self.core.reserve()
        return self.core

    def close(self) -> None:
        """Let what was written be complete."""
        self.core.flush()
