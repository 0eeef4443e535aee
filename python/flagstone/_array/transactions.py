"""Updates in place: one call is one transaction, and `transaction` groups several."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _core
from .._errors.classes import Error, FormatError
from .._errors.messages import path_text, storage_error
from .._runtime.pending_writes import WriteCombiner
from .._runtime.runtime import current

if TYPE_CHECKING:
    from .array import Array

__all__ = ["Inside", "Transaction", "combined_in", "transaction", "updating", "within_block"]

open_transactions: list[Transaction] = []  # of all threads: what is assigned inside belongs to it, wherever
_guard = threading.Condition()  # over _open, and over what runs and ends in each


class Inside:
    """What the calls around this one update: what they assign belongs to them, and waits for nobody."""

    def __init__(self, arrays: frozenset[int] = frozenset(), outers: tuple[Transaction, ...] = ()) -> None:
        self.arrays, self.outers = arrays, outers

    @staticmethod
    def now() -> Inside:
        """Return that of this thread."""
        found: Inside = getattr(_thread, "inside", _NOTHING)
        return found

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Make it that of this thread, which works for such a call."""
        before, _thread.inside = Inside.now(), self
        try:
            yield
        finally:
            _thread.inside = before

    def call(self, function: Callable[..., Any], views: Sequence[Any]) -> None:
        """Call a function inside here(), in a third of the time: there may be very many."""
        before, _thread.inside = Inside.now(), self
        try:
            function(*views)
        finally:
            _thread.inside = before


_thread = threading.local()
_NOTHING = Inside()


class Transaction:
    """Updates of the arrays below one path: all of them or none. Made by `transaction`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._core: _core.Transaction | None = None
        self._running = 0  # calls that assign
        self._ending = False
        self._combined: dict[int, WriteCombiner] = {}  # small writes, by the id of their array
        self._broken: tuple[str, BaseException] | None = (
            None  # the array that a call changed in part, and why
        )

    def covers(self, path: str) -> bool:
        """Say whether an array is below the path."""
        place = os.path.realpath(path)
        return place == self.path or place.startswith(self.path + os.sep)

    def add(self, array: _core.Array) -> None:
        """Take an array in, with its lock."""
        if self._core is None:
            raise Error("transaction: it has ended; start another one.")
        if not self._core.add(array):
            raise FormatError(
                f"transaction: '{array.path}' is not updated by transactions; only sharded Zarr arrays are."
            )

    def changes(self, array: _core.Array) -> tuple[int, int]:
        """Return what differs once something was written to an array, or waits to be."""
        waiting = self._combined.get(array.id)
        return array.updates, 0 if waiting is None else waiting.changes

    def broken_by(self, array: _core.Array, error: BaseException) -> None:
        """Remember that a call ended with an error and had changed something: it is not to be committed."""
        if self._broken is None:
            self._broken = array.path, error

    def __enter__(self) -> Transaction:
        with _guard:
            while near := [
                one for one in open_transactions if self.covers(one.path) or one.covers(self.path)
            ]:
                if not all(one._ending for one in near):
                    raise Error(f"transaction: one is open for '{self.path}' already; end that first.")
                _guard.wait()
            self._core, self._ending, self._broken = _core.Transaction(), False, None
            open_transactions.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupt = self._wait_for_calls()
        assert self._core is not None
        try:
            if kind is None and interrupt is None:
                if self._broken is not None:
                    array, cause = self._broken
                    raise Error(
                        f"transaction: a call failed inside that had changed a part of '{array}' "
                        f"({type(cause).__name__}: {str(cause).rstrip('.')}), so nothing of the block is "
                        "stored; run the block again."
                    ) from cause
                for waiting in self._combined.values():
                    waiting.flush(current().engine())
                self._core.commit()
        finally:
            for waiting in self._combined.values():
                waiting.discard()
            self._combined = {}
            self._core.rollback()  # what was not committed
            with _guard:
                self._core = None
                open_transactions.remove(self)
                _guard.notify_all()
        if interrupt is not None:
            raise interrupt

    def _wait_for_calls(self) -> BaseException | None:
        """Let no more calls in, and those that run come to their end: also where Ctrl-C is pressed."""
        interrupt = None
        with _guard:
            self._ending = True
            while self._running:
                try:
                    _guard.wait()
                except BaseException as error:
                    interrupt = error
        return interrupt


def transaction(path: str | os.PathLike[str]) -> Transaction:
    """Group updates: ``with fl.transaction("data.zarr"):`` assigns to several arrays all or nothing.

    Parameters
    ----------
    path : path
        A Zarr group (or array). Slices that are assigned to arrays below it, through any handle that is
        open with mode "r+", in any thread, and graphs of tasks that write to them, belong to the transaction.

    Returns
    -------
    Transaction
        A context manager. When the block ends the updates are on the disk, and all of them are seen; until
        then only the handles that made them see them. An exception inside takes all of them back; so does
        one that is caught inside, where the call that raised it had changed something: the end of the block
        then raises `Error`.

    Notes
    -----
    Without it every assignment is a transaction of its own. Assignments to parts of chunks are combined in
    memory (at most 256 MiB an array, and half of what the limit leaves) until a chunk is whole: rows that are
    assigned one by one are written once. Chunks are written once, to free slots of their
    shards; then 24 bytes for every chunk of the shards that were touched, twice. Takes the lock of every
    array that is assigned to; another writer, also through another handle, gets a `StorageError` that says
    who holds it. Results of routines (`out=`) are built aside and published by themselves.

    >>> with fl.transaction("data.zarr"):       # doctest: +SKIP
    ...     A[:100] = fresh
    ...     B[...] = A[:, 0]
    """
    place = path_text("transaction", path)
    if not os.path.exists(place):
        raise storage_error(f"transaction: '{place}' does not exist.", errno.ENOENT, place)
    if not (os.path.isdir(place) and (_core.is_zarr_group(place) or _core.is_zarr_array(place))):
        raise FormatError(f"transaction: '{place}' is no Zarr group or array; only these are updated so.")
    return Transaction(os.path.realpath(place))


def _outers(arrays: Sequence[_core.Array]) -> list[Transaction | None]:
    return [next((one for one in open_transactions if one.covers(array.path)), None) for array in arrays]


def _closed(outers: Sequence[Transaction | None]) -> bool:
    within = Inside.now().outers
    return any(one is not None and one._ending and one not in within for one in outers)


def within_block(array: _core.Array) -> bool:
    """Say whether an open transaction covers an array."""
    with _guard:
        return bool(array.path) and _outers([array])[0] is not None


def combined_in(array: _core.Array) -> WriteCombiner | None:
    """Return what small writes to an array are combined in; None where no transaction of a block is open."""
    if not open_transactions or not array.transacting:
        return None
    with _guard:
        outer = _outers([array])[0]
        if outer is None:
            return None
        if array.id not in outer._combined:
            outer._combined[array.id] = WriteCombiner(array)
        return outer._combined[array.id]


def join(arrays: Sequence[_core.Array]) -> list[Transaction | None] | None:
    """Enter the open transactions that arrays belong to, for a call; None where one is ending."""
    with _guard:
        outers = _outers(arrays)
        if _closed(outers):
            return None
        for one in outers:
            if one is not None:
                one._running += 1
        return outers


def wait_for_end(arrays: Sequence[_core.Array]) -> None:
    """Wait until no transaction that an array belongs to is ending."""
    with _guard:
        _guard.wait_for(lambda: not _closed(_outers(arrays)))


@contextlib.contextmanager
def one_call(
    arrays: Sequence[_core.Array], outers: Sequence[Transaction | None]
) -> Iterator[list[_core.Array]]:
    """Make the updates of a call one transaction, or part of those it joined; yields what takes no part."""
    own, others = _core.Transaction(), []
    around = Inside.now()
    joined = tuple(one for one in outers if one is not None)
    parts = [(one, array) for array, one in zip(arrays, outers, strict=True) if one is not None]
    try:
        for array, outer in zip(arrays, outers, strict=True):
            if outer is not None:
                outer.add(array)
            elif not own.add(array):
                others.append(array)
        before = [one.changes(array) for one, array in parts]
        try:
            with Inside(around.arrays | {array.id for array in arrays}, around.outers + joined).here():
                yield others
        except BaseException as error:
            for (one, array), was in zip(parts, before, strict=True):
                if one.changes(array) != was:
                    one.broken_by(array, error)
            raise
        own.commit()
    finally:
        own.rollback()
        with _guard:
            for outer in joined:
                outer._running -= 1
            _guard.notify_all()


@contextlib.contextmanager
def updating(arrays: Iterable[Array]) -> Iterator[None]:
    """Make what is assigned inside one transaction; arrays built aside and flat files take no part.

    Calls of other threads on the same handles wait until this one has ended, and so does the end of an open
    transaction that it belongs to.
    """
    within = Inside.now().arrays
    given = {id(array._owner): array._owner for array in arrays}
    owners = [given[which] for which in sorted(given)]  # one order for all threads
    owners = [
        owner for owner in owners
        if (not owner._dirty or owner._core.by_chunks) and owner.path and owner._core.id not in within
    ]  # fmt: skip
    cores = [owner._core for owner in owners]
    with contextlib.ExitStack() as stack:
        while True:
            for owner in owners:
                stack.enter_context(owner._writing)
            if (outers := join(cores)) is not None:
                break
            stack.close()  # what the transaction waits for may need these
            wait_for_end(cores)
        for core in stack.enter_context(one_call(cores, outers)):
            owner = next(owner for owner in owners if owner._core is core)
            if core.by_chunks:
                stack.enter_context(_chunk_by_chunk(owner))
            else:
                owner._mark_dirty()
        yield


@contextlib.contextmanager
def _chunk_by_chunk(array: Array) -> Iterator[None]:
    """Let one call replace chunks of an array that another program made; where it fails, the mark stays."""
    lock = _core.WriterLock(array._core.path)
    array._mark_dirty()
    yield
    array.flush()
    del lock
