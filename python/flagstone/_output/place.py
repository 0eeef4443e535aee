"""Where results go: an ndarray, a path, a new version of an Array, or scratch; how a killed call goes on."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._array.handle import (
    Operand,
    exchange,
    is_conjugated,
    is_lazy,
    is_plain,
    is_transposed,
    values_of,
)
from .._array.requests import empty
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import storage_error
from .._resume.identity import stored_stamp
from .._resume.record import UNRECORDED, Record, seconds_of
from .._runtime.call import Call
from .._scratch.builds import whole_or_nothing
from .._scratch.scratch import Result
from .codec_choice import Choice
from .column_names import Columns
from .destination import Destination, kept_choice
from .replaceable import check_path, check_replaceable

__all__ = ["IN_MEMORY", "Place", "RecordedPlace", "check_out", "inside"]


class RecordedPlace:
    """What is built aside, with the record by which a later call goes on with it."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.record = UNRECORDED
        self._described: Callable[[], Record] | None = None

    def recorded(
        self, operation: str, arguments: Callable[[], dict[str, Any]], flops: float, nbytes: float
    ) -> None:
        """Give what is built a record of `operation`: it is made when the place is opened."""
        if self.nameless:
            return
        self.described(
            lambda: Record(
                operation, lambda: arguments() | self.identity(), seconds_of(flops, nbytes), self.call.runtime
            )
        )

    def described(self, record: Callable[[], Record]) -> None:
        """Say what makes the record, when the place is opened."""
        self._described = record

    def identity(self) -> dict[str, Any]:
        """Return what the record says of the place, beside its path."""
        return {}

    @property
    def nameless(self) -> bool:
        """Whether nobody knows where it lies: it is begun again."""
        return False

    def named(self, arrays: int = 1) -> int:
        """Return how many of its `arrays` appear under a name, and are synced."""
        return 0 if self.nameless else arrays

    def _in_scratch(self, nbytes: int) -> None:
        """Tell the plan what this place puts into scratch."""
        self.call.scratch_bytes[f"result {id(self)}"] = nbytes

    def _recording(self) -> Record:
        if self._described is not None:
            self.record = self._described()
            self._described = None  # the routine, which holds this place
        return self.record

    @property
    def checkpoint(self) -> _core.Checkpoint | None:
        """Where finished work is noted, once the place is open."""
        return self.record.checkpoint

    @property
    def where(self) -> str:
        """What stats() says of a call that went on: ", resumed at 40 %"."""
        return self.record.where


class Place(RecordedPlace):
    """Where one array goes: `planned()` for the planner, `open()` for the run, `close()` afterwards.

    Parameters
    ----------
    call : Call
        Whose result it is.
    shape, dtype, chunks
        Of the result; an existing Array keeps its chunks.
    out : path, Array, ndarray, None or IN_MEMORY
        What the user gave; None: scratch.
    overwrite : bool, optional
        The path was checked by the rules of `overwrite=`; default: those of `out=`.
    called, advice : str
        How messages call the result, and what they say to do where `out` does not fit ("": give another one).
    """

    def __init__(
        self, call: Call, shape: tuple[int, ...], dtype: np.dtype[Any], out: Any, chunks: Any, *,
        overwrite: bool | None = None, called: str = "result", advice: str = "",
    ) -> None:  # fmt: skip
        super().__init__(call)
        self.shape, self.dtype, self.out = shape, dtype, out
        self.chunks = chunks
        self.codec: Choice | None = None  # None: that of `like`
        self.columns: Columns | None = None  # names of columns that it gets
        self.ours: dict[str, Any] = {}  # what its metadata say for this library
        self.result: Any = None
        self.values: NDArray[Any] | None = None
        #: operands in memory that the job reads while it writes; None: the job writes to memory of its own
        self.reads: Sequence[NDArray[Any]] | None = None
        self.destination: Destination | None = None
        self.scratch: Result | None = None
        self.checksum = "sidecar"
        self.overwrite = overwrite
        self._misfit = called, advice
        self._reads_old = False
        #: whose attributes and names of dimensions a new version keeps
        self.like = out if isinstance(out, Array) else None
        if overwrite is None:
            check_out(call.who, out, shape, dtype, called, advice)
        if isinstance(out, Array):
            check_replaceable(call.who, out)
            if out.path is not None and not out.path.endswith(".npy"):
                self.chunks = out.chunks

    @property
    def in_memory(self) -> bool:
        """Whether the result stands in ordinary memory."""
        return self.out is IN_MEMORY or (self.out is not None and self.memory is not None)

    @property
    def nameless(self) -> bool:
        """Whether nobody knows where it lies, after this process: a new version of such a result, too."""
        if isinstance(self.out, Array) and self.out.path is not None:
            return _core.goes_with_us(self.out.path)
        return self.out is None or self.in_memory

    @property
    def memory(self) -> NDArray[Any] | None:
        """The ndarray that the caller gave, itself or in an Array."""
        if isinstance(self.out, Array):
            return values_of(self.out) if self.out.path is None else None
        return self.out if isinstance(self.out, np.ndarray) else None

    @property
    def nbytes(self) -> int:
        """Bytes of the result."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    @property
    def beside(self) -> int:
        """Bytes of ordinary memory that the result takes; where `out` may be written itself, `open` looks."""
        return self.nbytes if self.in_memory and self.reads is None else 0

    def planned(self) -> _core.Array:
        """Return an array that only the planner uses."""
        if self.in_memory:
            return _core.memory_array(np.empty(self.shape, self.dtype))
        how = kept_choice(self.like) if self.codec is None else self.codec
        if self.out is None:
            self._in_scratch(self.nbytes)
        return _core.planned_array(list(self.shape), self.dtype.name, list(self.chunks), how.codec, how.order)

    def old(self, why: str) -> _core.Array:
        """Return the elements that the result replaces, which the job reads because of `why`."""
        self._reads_old = True
        if isinstance(self.out, (Array, np.ndarray)):
            return Operand.plain(self.call, self.out, "out").core
        path = os.fspath(self.out)
        if not os.path.exists(path):
            raise storage_error(
                f"{self.call.who}: {why} needs the old content of out, and '{path}' does not exist.",
                errno.ENOENT, path,
            )  # fmt: skip
        found = open_core(inside(path), "r")
        if tuple(found.shape) != self.shape or found.dtype != self.dtype.name:
            raise _unfit(self.call.who, found, self.shape, self.dtype, "an array", *self._misfit)
        return found

    def identity(self) -> dict[str, Any]:
        """Return what the record says of the place: what is replaced must be as it was."""
        if self.overwrite is not None:
            return {"overwrite": self.overwrite}
        into = isinstance(self.out, Array)
        told: dict[str, Any] = {"into": into}
        if into or self._reads_old:
            told["old"] = stored_stamp(os.path.abspath(self.out.path if into else os.fspath(self.out)))
        return told

    def open(self, stack: contextlib.ExitStack) -> _core.Array:
        """Make the place, aside where it is on disk; `stack` undoes it where the call fails."""
        if self.in_memory:
            self.values = self._written()
            self.values.fill(0)  # now, so that its pages count as held before the call
            return _core.memory_array(self.values)
        path: Any = self.out.path if isinstance(self.out, Array) else self.out
        if path is None:
            self.scratch = self.call.result(self.call.who, self.nbytes)
            stack.enter_context(whole_or_nothing(self.scratch))
            path = self.scratch.path
        self.destination = Destination(
            self.call.who, path, self.shape, self.dtype.name, self.chunks, self.overwrite is not False,
            like=self.like, checksum=self.checksum, record=self._recording(), codec=self.codec,
            columns=self.columns, ours=self.ours,
        )  # fmt: skip
        stack.enter_context(whole_or_nothing(self.destination))
        stack.enter_context(self.record.kept(self.destination))
        return self.destination.core

    def _written(self) -> NDArray[Any]:
        """Return the memory that the job writes: `out` itself where nothing is read from there."""
        given = self.memory
        if self.reads is not None:
            overlap = given is None or any(np.may_share_memory(given, values) for values in self.reads)
            if given is not None and not self._reads_old and is_plain(given) and not overlap:
                return given
            self.call.room("the result", self.nbytes)
        return empty(self.shape, self.dtype)  # pages: what malloc gets back it may keep

    def close(self) -> Any:
        """Publish the result, keep it as `result`, and return what the caller gets."""
        self.result = self._published()
        return self.result

    def _published(self) -> Any:
        if self.out is IN_MEMORY:
            return self.values
        if self.destination is None:
            given = self.memory
            assert given is not None
            if given is not self.values:
                given[...] = self.values
            return self.out
        made = self.destination.publish()
        if self.scratch is not None:
            self.scratch.tie(made)
        if isinstance(self.out, Array):  # built aside and exchanged: it may be an operand
            exchange(self.out, Operand.of(made).core)
            return self.out
        return made


#: As `out`: an ndarray that nobody gave.
IN_MEMORY = object()


def inside(path: str) -> str:
    """Return where the only array of a group lies, such as our own results are."""
    if not os.path.isdir(path) or not _core.is_zarr_group(path):
        return path
    _, arrays, groups = _core.open_group(path)
    return f"{path}/{arrays[0]}" if len(arrays) == 1 and not groups else path


def _unfit(
    who: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], what: str, called: str, advice: str
) -> ShapeError:
    advice = advice or f"give {what} that agrees (astype converts the expression)"
    return ShapeError(
        f"{who}: out is {shape_text(tuple(out.shape))} {out.dtype} and the {called} is {shape_text(shape)} "
        f"{dtype.name}; {advice}."
    )


def check_out(
    who: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], called: str = "result",
    advice: str = "",
) -> None:  # fmt: skip
    """Refuse a place that cannot hold a result of this shape and dtype."""
    if isinstance(out, Array):
        if is_lazy(out):
            raise storage_error(
                f"{who}: out is an array that is computed where it is read and holds no elements; make one "
                "that does with fl.create, or give a path.",
                errno.EROFS, "",
            )  # fmt: skip
        if is_transposed(out) or is_conjugated(out):
            raise ShapeError(f"{who}: out is a transposed or conjugated view; give the array itself.")
        if out.mode != "r+":
            raise storage_error(
                f"{who}: out '{out.path}' is open for reading; open it with mode='r+'.",
                errno.EACCES,
                out.path or "",
            )
        if Operand.of(out).core.by_chunks:
            raise FormatError(
                f"{who}: out '{out.path}' was made by another program (it is not sharded), and a new "
                "version would be another kind of array; assign to it (out[...] = ...), or give a path."
            )
        if out.shape != shape or out.dtype != dtype:
            raise _unfit(who, out, shape, dtype, "an Array", called, advice)
        out.flush()
    elif isinstance(out, np.ndarray):
        if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
            raise _unfit(who, out, shape, dtype, "a writeable ndarray", called, advice)
    elif isinstance(out, (str, os.PathLike)):
        check_path(who, out)
    elif not (out is None or out is IN_MEMORY):
        raise TypeError(f"{who}: out is {type(out).__name__}; a path, an Array or an ndarray is needed.")
