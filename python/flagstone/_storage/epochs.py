"""Arrays that exchange roles: an iteration writes the next state in place, and `commit` makes it current."""

from __future__ import annotations

import errno
import json
import operator
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._array.array import Array
from .._array.handle import set_mode
from .._errors.classes import Error, ShapeError
from .._errors.messages import path_text, storage_error
from .._output.destination import check_new
from .._output.replaceable import check_overwrite

__all__ = ["Epochs", "epochs"]

Field = tuple[str, list[int], str, list[int]]


class Epochs:
    """A ring of states of an iteration, one of which is current. Made by `epochs`."""

    __module__ = "flagstone"

    def __init__(self, path: str, mode: str) -> None:
        self.path = path
        self.mode = mode
        self._core: _core.Epochs | None = _core.Epochs(path, mode == "r+")
        self._arrays: dict[int, Array] = {}

    @property
    def _open(self) -> _core.Epochs:
        if self._core is None:
            raise Error("epochs: this ring is closed; open it again.")
        return self._core

    @property
    def epoch(self) -> int:
        """Number of commits so far; 0: nothing was committed, and all elements are 0."""
        core = self._open
        core.refresh()
        return core.epoch

    @property
    def slots(self) -> int:
        """Number of states that are kept, the next one included."""
        return self._open.slots

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the arrays of a state; empty where it is a single array."""
        return tuple(name for name in self._open.fields if name)

    @property
    def values(self) -> dict[str, Any]:
        """What was given to the last `commit` beside the arrays."""
        core = self._open
        core.refresh()
        values: dict[str, Any] = json.loads(core.values)
        return values

    @property
    def current(self) -> Any:
        """The committed state, for reading: an Array, or a dict of them by field.

        Notes
        -----
        For a reader each Array is of that epoch only: once the writer has come round to it, reading it is a
        `StorageError`; ask for `current` again. In the writer it is a slot of the ring, which becomes `next`
        in its turn: ask for `current` and `next` in every step.
        """
        core = self._open
        core.refresh()
        return self._state(core.current, "r")

    @property
    def next(self) -> Any:
        """The state that the next `commit` makes current; assign all of it, or write it by tasks."""
        return self._state(self._open.next, self.mode)

    def _state(self, of_field: Any, mode: str) -> Any:
        found = []
        for i in range(len(self._open.fields)):
            core = of_field(i)
            array = self._arrays.setdefault(core.id, Array(core))
            set_mode(array, mode, aside=mode == "r+")  # the ring says what is whole: no mark is needed
            found.append(array)
        if self.mode == "r":  # handles of earlier epochs belong to whoever asked for them
            self._arrays = {array._core.id: array for array in found}
        return dict(zip(self.fields, found, strict=True)) if self.fields else found[0]

    def commit(self, values: Mapping[str, Any] | None = None) -> None:
        """Make the next state the current one, durably.

        Parameters
        ----------
        values : mapping, optional
            Small things that belong to the epoch (residuals, coefficients): what JSON holds, and NumPy
            scalars; whole numbers from -2**63 to 2**64 - 1. They are read back, bit for bit, as `values`.

        Notes
        -----
        The commit point is one rename of the group's `zarr.json`. Moves no element: syncs what was written to
        the next state, then that small file.
        """
        core = self._open
        if self.mode != "r+":
            raise storage_error(
                f"commit: the ring '{self.path}' is open for reading; open it with mode='r+'.",
                errno.EACCES,
                self.path,
            )
        try:
            text = json.dumps(dict(values or {}), allow_nan=False, default=_plain)
            json.loads(text, parse_int=_storable)
        except (TypeError, ValueError) as error:
            raise ShapeError(
                "commit: values are numbers, text, lists and mappings, all finite, whole numbers of at most "
                f"64 bits ({error}); store arrays as fields, larger numbers as text."
            ) from None
        for array in self._arrays.values():
            set_mode(array, "r")  # the store refuses too; this says it in words that fit
        core.commit(text)

    def close(self) -> None:
        """Give the ring back; what was written and not committed is forgotten."""
        self._core = None
        for array in self._arrays.values():
            set_mode(array, "r", aside=False)
        self._arrays.clear()

    def __enter__(self) -> Epochs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._core is None:
            return "<flagstone.Epochs, closed>"
        what = f" of {', '.join(self.fields)}" if self.fields else ""
        return f"<flagstone.Epochs '{self.path}', epoch {self._core.epoch}, {self.slots} slots{what}>"


def _storable(digits: str) -> int:
    if -(2**63) <= int(digits) < 2**64:
        return int(digits)
    raise ValueError(f"{digits} needs more")


def _plain(value: object) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is none of these")


def epochs(
    path: str | os.PathLike[str],
    shape: tuple[int, ...] | int | Mapping[str, tuple[tuple[int, ...] | int, DTypeLike]] | None = None,
    dtype: DTypeLike = "float64",
    chunks: tuple[int, ...] | None = None,
    *,
    mode: str = "r+",
    slots: int = 2,
    checksum: str = "sidecar",
    overwrite: bool = False,
) -> Epochs:
    """Open a ring of epochs, making it where it is not there: for stencils and iterative solvers.

    Parameters
    ----------
    path : path
        A Zarr group, or where one is to be.
    shape : tuple, or mapping of names to (shape, dtype), optional
        Of the array of a state, or of each of its arrays. Where the ring exists it must be the same; without
        it the ring must exist.
    dtype : dtype
        Of the array, where `shape` is a tuple.
    chunks : tuple of int, optional
        As for `create`, of all arrays.
    mode : {"r+", "r"}
        One writer; any number of readers, who see the last committed epoch.
    slots : int
        States that exchange roles: 2 are the current and the next one, more (up to 128) keep earlier ones
        undisturbed for readers. That of a ring that exists stays as it is.
    checksum : {"sidecar", "inner", "none"}
        As for `create`.
    overwrite : bool
        Replace what is there by a new ring; `StorageError` (`EBUSY`) where that is a ring and somebody
        writes it.

    Returns
    -------
    Epochs
        With `current`, `next`, `epoch`, `values` and `commit`; a context manager.

    Notes
    -----
    A program that is killed at any moment, and started again, finds the last committed epoch, whole, and
    goes on from there. `next` is overwritten in place: it holds the state of `slots` - 1 epochs ago, or zeros
    after a crash, so write all of it. A reader's `current` is of one epoch: once the writer has come round to
    overwrite that state, reading it is a `StorageError` (`EAGAIN` while it is overwritten, then `ESTALE`);
    ask for `ring.current` again. Where the ring itself was replaced, moved or removed, reader and writer
    get a `StorageError` (`ESTALE`). Other programs find the current state in the group's
    attributes: ``flagstone.epochs.current`` names it ("0", "1", ...), an array or a group of arrays.

    >>> with fl.epochs("heat.zarr", (n, n), "float64") as u:      # doctest: +SKIP
    ...     if u.epoch == 0:
    ...         u.next[...] = start
    ...         u.commit()
    ...     while u.epoch < 1000:
    ...         u.next[...] = 0.99 * u.current
    ...         u.commit()
    """
    place = path_text("epochs", path)
    if mode not in ("r", "r+"):
        raise ShapeError(f"epochs: mode is {mode!r}; it is 'r' or 'r+'.")
    number = _slots(slots)
    wanted = None if shape is None else _fields(shape, dtype, chunks)
    if wanted is not None and mode == "r+" and (overwrite or not os.path.lexists(place)):
        if overwrite:
            check_overwrite("epochs", place)
        _core.create_epochs(place, wanted, number, checksum, overwrite)
    if not os.path.exists(place):
        raise storage_error(
            f"epochs: '{place}' does not exist; give a shape and mode='r+' to make it.", errno.ENOENT, place
        )
    ring = Epochs(place, mode)
    if wanted is not None:
        _check_same(ring, wanted)
    return ring


def _slots(slots: Any) -> int:
    most = _core.Epochs.most_slots
    try:
        number = operator.index(slots)
    except TypeError:
        number = 0
    if isinstance(slots, bool) or not 2 <= number <= most:
        raise ShapeError(f"epochs: slots is {slots!r}; it is a whole number from 2 (two slots) to {most}.")
    return number


def _fields(shape: Any, dtype: DTypeLike, chunks: Sequence[int] | None) -> list[Field]:
    given = shape if isinstance(shape, Mapping) else {"": (shape, dtype)}
    fields = []
    for name, about in given.items():
        if not isinstance(name, str) or not isinstance(about, (tuple, list)) or len(about) != 2:
            raise ShapeError(
                f"epochs: the field {name!r} is {about!r}; give a mapping of names to (shape, dtype)."
            )
        if name:  # "" is the ring itself
            path_text("epochs", name)
        extents, kind = about
        checked, of, pieces = check_new("epochs", extents, kind, None if chunks is None else tuple(chunks))
        fields.append((name, list(checked), np.dtype(of).name, list(pieces or ())))
    return fields


def _check_same(ring: Epochs, wanted: list[Field]) -> None:
    current = ring.current
    there = {"": current} if isinstance(current, Array) else current
    stored = {name: (array.shape, array.dtype.name) for name, array in there.items()}
    asked = {name: (tuple(extents), kind) for name, extents, kind, _ in wanted}
    if stored == asked:
        return
    ring.close()
    raise ShapeError(
        f"epochs: the ring '{ring.path}' holds {stored} and {asked} was asked for; "
        "open it without a shape, or pass overwrite=True to start anew."
    )
