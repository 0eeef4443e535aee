"""Where results go: an ndarray, a path, a new version of an Array, or scratch."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, shape_text
from .._errors.classes import ShapeError
from .._errors.messages import storage_error
from .._resume.record import UNRECORDED
from .._runtime.call import Call
from .._scratch.builds import whole_or_nothing
from .._scratch.scratch import Result
from .codec_choice import Choice
from .destination import Destination, kept_choice
from .replaceable import check_path, check_replaceable

__all__ = ["IN_MEMORY", "Place", "check_out"]


class Place:
    """Where one result goes: `plan()` for the planner, `open()` for the run, `close()` afterwards."""

    def __init__(
        self, call: Call, shape: tuple[int, ...], dtype: np.dtype[Any], out: Any, chunks: Any
    ) -> None:
        self.call, self.shape, self.dtype, self.out = call, shape, dtype, out
        self.chunks = chunks
        self.codec: Choice | None = None  # None: that of `like`
        self.result: Any = None
        self.values: NDArray[Any] | None = None
        self.destination: Destination | None = None
        self.scratch: Result | None = None
        self.checksum = "sidecar"
        self.record = UNRECORDED
        #: whose attributes and names of dimensions a new version keeps
        self.like = out if isinstance(out, Array) else None
        check_out(call.who, out, shape, dtype)
        if isinstance(out, Array):
            check_replaceable(call.who, out)
            if out.path is not None and not out.path.endswith(".npy"):
                self.chunks = out.chunks

    @property
    def in_memory(self) -> bool:
        """Whether the result stands in ordinary memory."""
        return (
            self.out is IN_MEMORY
            or isinstance(self.out, np.ndarray)
            or (isinstance(self.out, Array) and self.out.path is None)
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the result."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def planned(self) -> _core.Array:
        """Return an array that only the planner uses."""
        if self.in_memory:
            return _core.memory_array(np.empty(self.shape, self.dtype))
        how = kept_choice(self.like) if self.codec is None else self.codec
        if self.out is None:
            self.call.scratch_bytes["result"] = self.nbytes
        return _core.planned_array(list(self.shape), self.dtype.name, list(self.chunks), how.codec, how.order)

    def open(self, stack: contextlib.ExitStack) -> _core.Array:
        """Make the place, aside where it is on disk; `stack` undoes it where the call fails."""
        if self.in_memory:
            self.values = np.empty(self.shape, self.dtype)
            self.values.fill(0)  # now, so that its pages count as held before the call
            return _core.memory_array(self.values)
        path: Any = self.out.path if isinstance(self.out, Array) else self.out
        if path is None:
            self.scratch = self.call.result("compute", self.nbytes)
            stack.enter_context(whole_or_nothing(self.scratch))
            path = self.scratch.path
        self.destination = Destination(
            self.call.who, path, self.shape, self.dtype.name, self.chunks, True, like=self.like,
            checksum=self.checksum, record=self.record, codec=self.codec,
        )  # fmt: skip
        stack.enter_context(whole_or_nothing(self.destination))
        stack.enter_context(self.record.kept(self.destination))
        return self.destination.core

    def close(self) -> Any:
        """Publish the result and return what the caller gets."""
        if self.out is IN_MEMORY:
            return self.values
        if isinstance(self.out, np.ndarray):
            self.out[...] = self.values
            return self.out
        if self.destination is None:  # an Array in memory
            self.out._owner._values[...] = self.values
            return self.out
        made = self.destination.publish()
        if self.scratch is not None:
            self.scratch.tie(made)
        if isinstance(self.out, Array):  # built aside and exchanged: it may be an operand
            self.out._owner._handle = made._handle
            return self.out
        return made


#: As `out`: an ndarray that nobody gave.
IN_MEMORY = object()


def _unfit(who: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> ShapeError:
    return ShapeError(
        f"{who}: out is {shape_text(out.shape)} {out.dtype} and the result is {shape_text(shape)} "
        f"{dtype.name}; give {what} that agrees (astype converts the expression)."
    )


def check_out(who: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse a place that cannot hold a result of this shape and dtype."""
    if isinstance(out, Array):
        if out._transposed or out._conjugated:
            raise ShapeError(f"{who}: out is a transposed or conjugated view; give the array itself.")
        if out.mode != "r+":
            raise storage_error(
                f"{who}: out '{out.path}' is open for reading; open it with mode='r+'.",
                errno.EACCES,
                out.path or "",
            )
        if out.shape != shape or out.dtype != dtype:
            raise _unfit(who, out, shape, dtype, "an Array")
        out.flush()
    elif isinstance(out, np.ndarray):
        if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
            raise _unfit(who, out, shape, dtype, "a writeable ndarray")
    elif isinstance(out, (str, os.PathLike)):
        check_path(who, out)
    elif not (out is None or out is IN_MEMORY):
        raise TypeError(f"{who}: out is {type(out).__name__}; a path, an Array or an ndarray is needed.")
