"""Updates in place: one call is one transaction, and `transaction` groups several."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from types import TracebackType

from . import _core
from .errors import Error, FormatError, path_text, storage_error

__all__ = ["Transaction", "current", "one_call", "transaction"]

_open: list[Transaction] = []  # of all threads: what is assigned inside belongs to it, wherever


class Transaction:
    """Updates of the arrays below one path: all of them or none. Made by `transaction`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._core: _core.Transaction | None = None

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

    def __enter__(self) -> Transaction:
        if any(self.covers(other.path) or other.covers(self.path) for other in _open):
            raise Error(f"transaction: one is open for '{self.path}' already; end that first.")
        self._core = _core.Transaction()
        _open.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        core, self._core = self._core, None
        _open.remove(self)
        assert core is not None
        if kind is not None:
            core.rollback()
            return
        try:
            core.commit()
        finally:
            core.rollback()  # what was not committed


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
        then only the handles that made them see them. An exception inside takes all of them back.

    Notes
    -----
    Without it every assignment is a transaction of its own. Chunks are written once, to free slots of their
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


def current(array: _core.Array) -> Transaction | None:
    """Return the open transaction that an array belongs to."""
    return next((one for one in _open if array.path and one.covers(array.path)), None)


@contextlib.contextmanager
def one_call(arrays: list[_core.Array]) -> Iterator[list[_core.Array]]:
    """Make the updates of a call one transaction, or part of an open one; yields what takes no part."""
    own, others = _core.Transaction(), []
    try:
        for array in arrays:
            if array.transacting:
                continue
            if (outer := current(array)) is not None:
                outer.add(array)
            elif not own.add(array):
                others.append(array)
        yield others
        own.commit()
    finally:
        own.rollback()
