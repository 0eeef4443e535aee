"""Records of long operations: who they are and how far they came.

A call that may take long gives its output a record: the operation, its operands as they are now (path, inode,
size, time; the elements' hash where they are in memory) and every option that changes bits. The limit and the
number of workers are not among them; kinds of devices are. A later call with the same record goes on with
what is there. The record and its checkpoints are the core's; what a call is, and what is left of it when it
fails, is said here.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import _core
from .._errors.classes import BudgetError, Error, FormatError, StorageError
from .leftovers import LeftoverWarning

__all__ = ["UNRECORDED", "Record", "expecting", "seconds_of", "sync_folder", "sync_tree"]

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


def seconds_of(flops: float, nbytes: float) -> float:
    """Return roughly how long work takes, on one nominal machine: only for what is worth a record."""
    return _core.nominal_seconds(flops, nbytes)


def _warn(text: str) -> None:
    """Say what is thrown away, or begun again."""
    warnings.warn(text, LeftoverWarning, stacklevel=2)


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
        The threads of a task and its devices change bits; its scratch directory keeps a list of
        outputs that are being built.
    """

    def __init__(
        self, operation: str, arguments: Callable[[], dict[str, Any]], seconds: float,
        runtime: Any = None,
    ) -> None:  # fmt: skip
        self.operation, self.text = operation, ""
        expected = _expected.get()
        if expected or _core.worth_a_record(seconds):
            threads = getattr(runtime, "threads_per_task", 1)
            beside = getattr(runtime, "device_bits", "")
            told = json.dumps(arguments(), sort_keys=True)
            self.text = _core.record_text(operation, told, threads, devices=beside)
            if expected and self.text != expected:
                raise Error(f"resume: the {operation} of the record cannot be asked for again as it was.")
        self._scratch = str(getattr(runtime, "scratch", None) or "")
        self.checkpoint: _core.Checkpoint | None = None
        self.resumed = False
        self.done = 0.0  # where this call began
        self._leader: Record | None = None
        self._followers: list[Record] = []

    def follow(self, leader: Record) -> None:
        """Be of another output of a call whose progress `leader` notes: this one tells how far it is."""
        self._leader = leader
        leader._followers.append(self)

    def output(self, path: str, replace: bool, nbytes: int) -> _core.Output:
        """Open the output, with what a killed call with the same record had built."""
        heard = None if self._leader is not None else self._heard
        record = _core.Record(self.operation, self.text, self._scratch, _warn, heard)
        output = record.output(path, replace, nbytes)
        self.checkpoint, self.resumed, self.done = record.checkpoint, record.resumed, record.done
        return output

    def _heard(self, number: int) -> None:
        for other in self._followers:
            if other.checkpoint is not None and self.checkpoint is not None:
                other.checkpoint.save(self.checkpoint.done, [])
        if saved is not None:
            saved(number)

    def begin_again(self, path: str, error: Exception) -> None:
        """Say that what was left is damaged."""
        _core.Record(self.operation, self.text, warn=_warn).begin_again(path, str(error))

    @property
    def where(self) -> str:
        """What stats() says of a call that went on: ", resumed at 40 %"."""
        return f", resumed at {self.done:.0%}" if self.resumed and self._leader is None else ""

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
                passes = _core.build_mark not in str(error)
            if self.checkpoint is not None and self.checkpoint.saves > 0 and passes:
                built.leave()
                kept = f"{self.operation}: {self.checkpoint.done:.0%} is kept"
                told = f"{kept}; the same call, or resume, goes on there"
                if hasattr(error, "add_note") and self._leader is None:
                    error.add_note(told)
            raise


#: Of calls that are begun again.
UNRECORDED = Record("", dict, -1.0)


def sync_tree(path: str) -> None:
    """Make a new directory's files, and it and its name, outlive a power failure."""
    _core.sync_tree(path)
    sync_folder(os.path.dirname(os.path.abspath(path)))


def sync_folder(path: str) -> None:
    """Make names in a directory outlive a power failure."""
    _core.sync_folder(path)
