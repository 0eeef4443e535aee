"""Results of several parts: a group, at a path or in scratch, of arrays that one job writes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core
from .._array.handle import derived
from .._errors.classes import Error, ShapeError
from .._resume.record import sync_tree
from .._runtime.call import Call
from .._scratch.builds import whole_or_nothing
from .._scratch.scratch import Result
from .destination import in_group
from .path_place import PathPlace
from .replaceable import check_path

__all__ = ["Part", "PartsPlace"]


@dataclass
class Part:
    """One array of a group."""

    name: str
    shape: Sequence[int]
    chunks: Sequence[int]
    dims: Sequence[str]
    dtype: str = ""  #: that of the group where it is empty
    kept: bool = False  #: a call that goes on finds what a killed one wrote of it
    codec: str = "raw"

    def nbytes(self, dtype: np.dtype[Any]) -> int:
        """Bytes of it."""
        item = np.dtype(self.dtype).itemsize if self.dtype else dtype.itemsize
        return int(np.prod(self.shape, dtype=object)) * item


class PartsPlace(PathPlace):
    """Where the parts go: `planned()` and `open()` return the core's arrays, `close()` those of users."""

    def __init__(
        self, call: Call, out: Any, parts: Sequence[Part], dtype: np.dtype[Any], about: dict[str, Any]
    ) -> None:
        if out is not None:
            check_path(call.who, out)
            if os.fspath(out).endswith(".npy"):
                raise ShapeError(
                    f"{call.who}: out '{os.fspath(out)}' must be a Zarr directory; it holds several arrays."
                )
        self.parts, self.dtype, self.about = parts, dtype, about
        self.scratch: Result | None = None
        self.cores: list[_core.Array] = []
        self.beside = 0
        super().__init__(
            call, "" if out is None else os.fspath(out), True, sum(part.nbytes(dtype) for part in parts)
        )

    @property
    def nameless(self) -> bool:
        """Whether nobody knows where it lies, after this process."""
        return not self.path or self.scratch is not None

    def planned(self) -> Any:
        """Return arrays that only the planner uses."""
        if self.nameless:
            self._in_scratch(self.nbytes)
        return [
            _core.planned_array(
                list(part.shape), part.dtype or self.dtype.name, list(part.chunks), part.codec
            )
            for part in self.parts
        ]

    def open(self, stack: contextlib.ExitStack) -> Any:
        """Make the arrays, in a group that is empty else."""
        if not self.path:
            self.scratch = self.call.result(self.call.who, self.nbytes)
            stack.enter_context(whole_or_nothing(self.scratch))
            self.path = self.scratch.path
        in_group(self.call.who, self.path)
        self.directory = super().open(stack)
        kept = {part.name for part in self.parts if part.kept} if self.record.resumed else set()
        try:
            self.cores = self._made(kept)
        except Error as error:
            if not kept:
                raise
            self.record.begin_again(self.path, error)  # what was left is damaged
            self._output = None
            self._output = self.record.output(self.path, self.overwrite, self.nbytes)
            self.directory = self._output.directory
            self.cores = self._made(set())
        if self.record.text:
            sync_tree(self.directory)
        return self.cores

    def _made(self, kept: set[str]) -> list[_core.Array]:
        if self.record.resumed:  # others start again: what is kept of them lies beside the checkpoint
            for name in set(os.listdir(self.directory)) - {part.split("/")[0] for part in kept}:
                shutil.rmtree(f"{self.directory}/{name}", ignore_errors=True)
        _core.write_group(self.directory, json.dumps(self.about))
        for part in self.parts:
            self._make_groups(part.name)
        return [self._core_of(part, part.name in kept) for part in self.parts]

    def _core_of(self, part: Part, kept: bool) -> _core.Array:
        place = f"{self.directory}/{part.name}"
        if kept:
            core = _core.open_zarr(place, True)
            core.adopt()
            return core
        return _core.create_zarr(
            place, list(part.shape), part.dtype or self.dtype.name, list(part.chunks),
            part.codec, dimension_names=list(part.dims),
        )  # fmt: skip

    def _make_groups(self, name: str) -> None:
        """Make the groups that an array lies in, where its name has some: "group/array"."""
        for i, letter in enumerate(name):
            if letter == "/":
                os.makedirs(f"{self.directory}/{name[:i]}", exist_ok=True)
                _core.write_group(f"{self.directory}/{name[:i]}", "{}")

    def put(self, name: str, values: NDArray[Any], dims: Sequence[str]) -> None:
        """Put a small array beside the parts."""
        self._make_groups(name)
        values = np.ascontiguousarray(values)
        shutil.rmtree(f"{self.directory}/{name}", ignore_errors=True)  # a killed call's
        core = _core.create_zarr(
            f"{self.directory}/{name}", list(values.shape), values.dtype.name, dimension_names=list(dims)
        )
        if values.size:
            self.call.engine.write_boxes(core, [([0] * values.ndim, values)], 1 << 20)
        core.flush()

    def write(self, name: str, values: NDArray[Any]) -> None:
        """Write a small part whole."""
        number = [part.name for part in self.parts].index(name)
        if values.size:
            self.call.engine.write_boxes(
                self.cores[number], [([0] * values.ndim, np.ascontiguousarray(values))], 1 << 20
            )

    def tell(self, about: dict[str, Any]) -> None:
        """Let the group say this of itself, now that it is known."""
        self.about = about
        _core.write_group(self.directory, json.dumps(about))

    def close(self, shorter: Mapping[str, int] | None = None) -> list[Array]:
        """Make the group appear under its name; return its arrays.

        `shorter`: along the first dimension, where a job ended early, by the part's name.
        """
        for core in self.cores:
            core.flush()
        self.cores = []
        for part in self.parts:
            extent = (shorter or {}).get(part.name, part.shape[0] if part.shape else 0)
            if part.shape and extent < part.shape[0]:
                self.call.engine.resize(f"{self.directory}/{part.name}", [extent, *part.shape[1:]])
        super().close()
        made = [Array(open_core(f"{self.path}/{part.name}", "r"), "r") for part in self.parts]
        if self.scratch is not None:
            owner = _Owner()
            self.scratch.tie(owner)  # until the last of them dies
            for array in made:
                derived(array)["parts"] = owner
        return made


class _Owner:
    """Lives as long as a handle on one of the parts."""
