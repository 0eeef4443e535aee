"""Records of long operations: who they are, how far they came, and what a killed one left.

A call that may take long gives its output a record: the operation, its operands as they are now (path, inode,
size, time; the elements' hash where they are in memory) and every option that changes bits. The limit and the
number of workers are not among them. A later call with the same record goes on with what is there.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import BudgetError, Error, FormatError, StorageError

__all__ = [
    "UNRECORDED", "Leftover", "LeftoverWarning", "Record", "file_identity", "identity", "leftovers",
    "memory_identity", "registered", "seconds_of", "stored_stamp", "sync_tree",
]  # fmt: skip

FORMAT = 1
_EVERY = 30.0  # seconds between two checkpoints at least
_WORTH = 1 / 3  # of that: shorter calls are begun again
_PIECE = 64 << 20  # bytes hashed at a time

#: For tests: hears the number of every checkpoint of this process.
saved: Callable[[int], None] | None = None


_expected: contextvars.ContextVar[str] = contextvars.ContextVar("expected", default="")


@contextlib.contextmanager
def expecting(text: str) -> Iterator[None]:
    """Refuse, in the body, a call with another record: it would throw away what it should go on with."""
    token = _expected.set(text)
    try:
        yield
    finally:
        _expected.reset(token)


class LeftoverWarning(UserWarning):
    """What a killed call had finished is thrown away."""


def interval() -> float:
    """Return the least seconds between checkpoints: $FLAGSTONE_CHECKPOINT_SECONDS, else 30; 0: always."""
    given = os.environ.get("FLAGSTONE_CHECKPOINT_SECONDS")
    try:
        return max(0.0, float(given)) if given else _EVERY
    except ValueError:
        return _EVERY


def seconds_of(flops: float, nbytes: float) -> float:
    """Return roughly how long work takes, on one nominal machine: only for what is worth a record."""
    return flops / 1e11 + nbytes / 1e9


# Operands ---------------------------------------------------------------------------------------------------


def stored_stamp(path: str) -> str:
    """Return a hash of what tells an operand from a later version: inode, size and times of its files.

    Where no checksums would notice other bytes, the time of the last change of an inode is among them,
    which nobody can set.
    """
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)  # a member of an HDF5 file
    found = hashlib.blake2b(digest_size=16)

    def add(name: str, status: os.stat_result, verified: bool) -> None:
        told = f"{name}\0{status.st_ino}\0{status.st_size}\0{status.st_mtime_ns}"
        found.update(f"{told}\n".encode() if verified else f"{told}\0{status.st_ctime_ns}\n".encode())

    if not os.path.isdir(path):
        add("", os.stat(path), False)
        return found.hexdigest()
    verified = False
    top = ""
    for folder, folders, names in os.walk(path):
        if not (verified and folder.startswith(top)):  # an array's directories follow it
            top, verified = f"{folder}/", os.path.exists(f"{folder}/__flagstone/chunks.bin")
        folders[:] = sorted(name for name in folders if name != "__flagstone")  # locks and journals
        for name in sorted(names):
            place = os.path.join(folder, name)
            add(os.path.relpath(place, path), os.lstat(place), verified)
    return found.hexdigest()


def memory_identity(values: NDArray[Any]) -> dict[str, Any]:
    """Return what tells an operand in memory from another: shape, dtype and a hash of its elements."""
    found = hashlib.blake2b(digest_size=16)
    rows = max(1, _PIECE // max(1, values.nbytes // max(1, len(values)))) if values.ndim else 1
    for first in range(0, len(values) if values.ndim else 1, rows):
        part = values[first : first + rows] if values.ndim else values
        found.update(np.ascontiguousarray(part).view(np.uint8).data if part.size else b"")
    return {"memory": found.hexdigest(), "shape": list(values.shape), "dtype": values.dtype.str}


def identity(operand: Any) -> dict[str, Any]:
    """Return what tells an Array or SparseArray from another one, and how it is opened again.

    Operands in memory, and sparse views with pending steps, can be told apart, not opened again.
    """
    owner = operand._owner
    if getattr(owner, "_values", None) is not None:
        return memory_identity(owner._values) | {
            "transposed": operand._transposed, "conjugated": operand._conjugated,
        }  # fmt: skip
    path = os.path.abspath(operand.path)
    told: dict[str, Any] = {"path": path, "stamp": stored_stamp(path), "transposed": operand._transposed}
    if getattr(operand, "_conjugated", False):
        told["conjugated"] = True
    if owner._opened is not None:
        opener, arguments = owner._opened
        told["opener"] = [f"{opener.__module__}.{opener.__qualname__}", list(arguments)]
    if getattr(operand, "lazy", False):
        told["steps"] = _steps(operand)
    return told


def file_identity(path: str) -> dict[str, Any]:
    """Return what tells a file that is streamed through from a later version of it."""
    place = os.path.abspath(path)
    return {"path": place, "stamp": stored_stamp(place)}


def _steps(operand: Any) -> str:
    """Return a hash of the pending steps of a sparse view."""
    found = hashlib.blake2b(digest_size=16)
    for step in (*operand._steps, ("columns", operand._columns)):
        for part in step:
            found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return found.hexdigest()


# What killed calls left -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leftover:
    """An output that was not finished, and what is known of it."""

    path: str  # of the output
    build: str
    notes: str
    record: str
    nbytes: int
    live: bool
    operation: str = ""
    done: float = 0.0
    saves: int = 0
    process: int = 0
    age: float = 0.0  # seconds since the last checkpoint

    @property
    def resumable(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return bool(self.record) and self.saves > 0


def _described(row: tuple[str, str, str, str, int, bool]) -> Leftover:
    path, build, notes, record, nbytes, live = row
    operation, state = "", {}
    with contextlib.suppress(ValueError, KeyError, TypeError):
        operation = str(json.loads(record)["operation"])
    place = f"{notes}/state"
    age = 0.0
    with contextlib.suppress(OSError, ValueError):
        with open(place, "rb") as file:
            state = json.loads(file.readline(1 << 20)[9:])
        age = max(0.0, time.time() - os.stat(place).st_mtime)
    return Leftover(
        path, build, notes, record, nbytes, live, operation, float(state.get("done", 0)),
        int(state.get("saves", 0)), int(state.get("process", 0)), age,
    )  # fmt: skip


def leftovers(path: str, below: bool = False) -> list[Leftover]:
    """List what was begun and not finished of the output `path`; `below`: of all in that directory."""
    place = os.path.realpath(path)
    rows = _core.leftovers(place) if below else _core.leftovers_of(place)
    return [_described(row) for row in rows]


def _register(scratch: Path | None, path: str) -> None:
    """Note in scratch that an output is built somewhere, for the listing; it outlives this process."""
    if scratch is None:
        return
    place = os.path.realpath(path)
    with contextlib.suppress(OSError):  # the listing is a courtesy
        (scratch / "resume").mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b(place.encode(), digest_size=12).hexdigest()
        (scratch / "resume" / name).write_text(place)


def registered(scratch: Path) -> list[Leftover]:
    """List what is being built, or was left, of outputs that scratch knows of; forget those that are done."""
    found: list[Leftover] = []
    for note in sorted((scratch / "resume").glob("*")):
        try:
            left = [one for one in leftovers(note.read_text()) if one.record]
        except OSError:
            continue
        found += left
        if not left:
            note.unlink(missing_ok=True)
    return found


def _with_article(operation: str) -> str:
    return f"a {operation}" if operation else "an operation, whose record is damaged,"


def _announce(path: str, text: str) -> None:
    """Say, before a call throws it away, what another call had finished of the same output."""
    parent = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(parent):
        return
    for one in leftovers(path):
        if one.resumable and not one.live and one.record != text:
            warnings.warn(
                f"'{path}': {_with_article(one.operation)} that was {one.done:.0%} done is thrown away, "
                "because this call is another one (other operands or options); write elsewhere to keep it.",
                LeftoverWarning,
                stacklevel=2,
            )


# One call ---------------------------------------------------------------------------------------------------


class Record:
    """The record of one call, and its checkpoints once its output is open.

    Parameters
    ----------
    operation : str
        What `flagstone.resume` knows it by.
    arguments : callable
        Returns everything that decides the bits, as JSON; called only where the call is long enough.
    seconds : float
        About how long the call takes; short ones have no record and are begun again.
    runtime : Runtime, optional
        The threads of a task change bits; its scratch directory keeps a list of outputs that are being built.
    """

    def __init__(
        self, operation: str, arguments: Callable[[], dict[str, Any]], seconds: float,
        runtime: Any = None,
    ) -> None:  # fmt: skip
        self.operation, self.text = operation, ""
        expected = _expected.get()
        if expected or (seconds >= 0 and seconds >= _WORTH * interval()):
            about = {"format": FORMAT, "version": _core.__version__, "operation": operation}
            about["threads_per_task"] = getattr(runtime, "threads_per_task", 1)
            self.text = json.dumps(about | {"arguments": arguments()}, sort_keys=True)
            if expected and self.text != expected:
                raise Error(f"resume: the {operation} of the record cannot be asked for again as it was.")
        self._scratch: Path | None = getattr(runtime, "scratch", None)
        self.checkpoint: _core.Checkpoint | None = None
        self.resumed = False
        self.done = 0.0  # where this call began

    def output(self, path: str, replace: bool, nbytes: int) -> _core.Output:
        """Open the output, with what a killed call with the same record had built."""
        _announce(path, self.text)
        if self.text:
            self._drop_useless(path)
        output = _core.Output(path, replace, nbytes, self.text)
        if self.text:
            _register(self._scratch, path)
            self.checkpoint = _core.Checkpoint(output.notes, interval(), saved)
            self.resumed, self.done = output.adopted, self.checkpoint.done
        return output

    def _drop_useless(self, path: str) -> None:
        """Remove what has our record and cannot be gone on with: no checkpoint yet, or a damaged one."""
        if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
            return
        for one in leftovers(path):
            if one.live or one.record != self.text:
                continue
            try:
                useless = _core.Checkpoint(one.notes, 0).saves == 0
            except FormatError as error:
                self.begin_again(path, error)
                useless = True
            if useless:
                _core.sweep_leftovers(os.path.realpath(path))

    def begin_again(self, path: str, error: Exception) -> None:
        """Say that what was left is damaged."""
        warnings.warn(f"'{path}': it is begun again: {error}", LeftoverWarning, stacklevel=2)

    @property
    def where(self) -> str:
        """What stats() says of a call that went on: ", resumed at 40 %"."""
        return f", resumed at {self.done:.0%}" if self.resumed else ""

    @contextlib.contextmanager
    def kept(self, built: Any) -> Iterator[None]:
        """Leave what is built, where the body fails in a way that passes.

        Ctrl-C, a full disk, a limit, a damaged operand.
        """
        try:
            yield
        except BaseException as error:
            passes = not isinstance(error, Error) or isinstance(error, (StorageError, BudgetError))
            if isinstance(error, FormatError):  # an operand may be brought back; what is built is made anew
                passes = ".flagstone-tmp-" not in str(error)
            if self.checkpoint is not None and self.checkpoint.saves > 0 and passes:
                built.leave()
                kept = f"{self.operation}: {self.checkpoint.done:.0%} is kept"
                told = f"{kept}; the same call, or resume, goes on there"
                if hasattr(error, "add_note"):
                    error.add_note(told)
            raise


#: Of calls that are begun again.
UNRECORDED = Record("", dict, -1.0)


def sync_tree(path: str) -> None:
    """Make a new directory's files, and it and its name, outlive a power failure."""
    for folder, _, names in os.walk(path, topdown=False):
        for place in (*(os.path.join(folder, name) for name in names), folder):
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_folder(os.path.dirname(os.path.abspath(path)))


def sync_folder(path: str) -> None:
    """Make names in a directory outlive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
