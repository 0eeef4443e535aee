"""What other rooms may know of an Array: what the core needs of it, and how it is opened again.

Nobody else looks behind the underscores of `Array`; of `SparseArray`, what both have.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import ShapeError
from .._resume.identity import identity, memory_identity, stored_stamp
from .._runtime.call import Call
from .array import Array
from .requests import shape_text

__all__ = [
    "Handle",
    "Lazy",
    "Operand",
    "built_aside",
    "derived",
    "exchange",
    "is_anonymous",
    "is_conjugated",
    "is_lazy",
    "is_transposed",
    "lazy_array",
    "members_of",
    "opened_by",
    "opener_of",
    "owner_of",
    "set_mode",
    "stored_identity",
    "values_of",
    "writing",
]

_SMALL = 1 << 20  # bytes that are no reason to refuse anything: what is named drifts by as much


class Handle(Protocol):
    """What an Array and a SparseArray have in common."""

    _transposed: bool
    _opened: tuple[str, tuple[Any, ...]] | None
    _derived: dict[Any, Any]

    @property
    def _owner(self) -> Any: ...


AnyHandle = TypeVar("AnyHandle", bound=Handle)


@dataclass(eq=False, repr=False)  # made in a third of the time: every import pays for it
class Operand:
    """An argument as the core takes it.

    Attributes
    ----------
    given : Array or ndarray
        The argument.
    core : _core.Array
        What is read or written.
    transposed, conjugated : bool
        How it is seen.
    values : ndarray or None
        The memory behind the core's array, which lives as long as this does; None where it is on disk.
    """

    given: Any
    core: _core.Array
    transposed: bool = False
    conjugated: bool = False
    values: NDArray[Any] | None = None

    @classmethod
    def of(cls, given: Any) -> Operand:
        """Make it of an Array as it is, and of anything else as NumPy's array of it."""
        if isinstance(given, Array):
            return cls(given, given._core, given._transposed, given._conjugated, given._owner._values)
        values = np.asarray(given)
        return cls(given, _core.memory_array(values), values=values)

    @classmethod
    def plain(cls, call: Call, given: Any, name: str) -> Operand:
        """Make it as BLAS takes it: what lies otherwise in memory is packed, inside the limit.

        Looked at before the core sees it, which refuses steps of parts of an element (a field of records).
        """
        values = given._owner._values if isinstance(given, Array) else np.asarray(given)
        if values is None or (is_plain(values) and values.dtype.isnative):
            return cls.of(given)
        transposed, conjugated = (
            (given._transposed, given._conjugated) if isinstance(given, Array) else (False, False)
        )
        values = packed(call, values, name)
        return cls(given, _core.memory_array(values), transposed, conjugated, values)

    @classmethod
    def matrix(cls, call: Call, given: Any, name: str, *, stacks: bool = False) -> Operand:
        """Make it of a matrix for BLAS: one in memory that lies otherwise is packed, inside the limit.

        `stacks`: there may be dimensions before the two of a matrix.
        """
        if isinstance(given, Array):
            given.flush()
        else:
            if hasattr(given, "tocsr"):
                raise TypeError(
                    f"{call.who}: {name} is SciPy's {type(given).__name__}; make it a SparseArray, "
                    f"fl.from_blocks([{name}])."
                )
            values = np.asarray(given)
            if values.dtype.kind not in "biufc" or values.dtype.char in "gG":
                raise TypeError(
                    f"{call.who}: {name} is {type(given).__name__} of {values.dtype}; an Array or a "
                    "NumPy matrix of numbers that can be stored is needed."
                )
        operand = cls.plain(call, given, name)
        if len(operand.core.shape) != 2 and not (stacks and len(operand.core.shape) > 2):
            raise ShapeError(
                f"{call.who}: {name} has {len(operand.core.shape)} dimensions "
                f"({shape_text(tuple(operand.core.shape))}); "
                "2 are needed (reshape a vector to one column)."
            )
        return operand

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, as they are seen."""
        shape = tuple(self.core.shape)
        return shape[::-1] if self.transposed else shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return np.dtype(self.core.dtype)

    @property
    def paths(self) -> list[str]:
        """Where it lies on disk; of a lazy Array, all that it is computed from."""
        if not isinstance(self.given, Array):
            return []
        return [one.path for one in members_of(self.given) if isinstance(one, Array) and one.path]

    @property
    def reads(self) -> list[NDArray[Any]]:
        """The memory that is looked at while it is read."""
        if not isinstance(self.given, Array):
            return [] if self.values is None else [self.values]
        found = [values_of(one) if isinstance(one, Array) else one for one in members_of(self.given)]
        return [self.values] if self.values is not None else [one for one in found if one is not None]

    @property
    def given_lazily(self) -> bool:
        """Whether it is computed where it is loaded."""
        return isinstance(self.given, Array) and is_lazy(self.given)

    @property
    def flags(self) -> tuple[bool, bool]:
        """Whether it is transposed, and whether it is conjugated."""
        return self.transposed, self.conjugated

    @property
    def factor(self) -> _core.Operand:
        """What the core's products take."""
        return _core.Operand(self.core, *self.flags)

    @property
    def identity(self) -> dict[str, Any]:
        """What tells it from another operand, for records, and how it is opened again."""
        return identity(self.given if isinstance(self.given, Array) else self.values)


def is_plain(values: NDArray[Any]) -> bool:
    """Say whether BLAS takes a matrix as it lies: one dimension contiguous, the other of a whole step."""
    item = values.itemsize
    if values.ndim != 2 or any(s % item for s in values.strides):
        return values.flags.c_contiguous
    (rows, cols), (row, col) = values.shape, values.strides
    return (col == item and row >= cols * item) or (row == item and col >= rows * item)


def packed(call: Call, values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a contiguous copy in native byte order, inside the limit."""
    if values.nbytes > _SMALL:
        call.room(f"a contiguous copy of {name}", values.nbytes)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


# How it is seen ---------------------------------------------------------------------------------------------


def is_transposed(handle: Handle) -> bool:
    """Say whether a handle sees what is stored with its dimensions reversed."""
    return handle._transposed


def is_conjugated(array: Array) -> bool:
    """Say whether an Array sees the conjugates of what is stored."""
    return array._conjugated


def owner_of(handle: AnyHandle) -> AnyHandle:
    """Return the handle that a view looks at; of what is no view itself."""
    owner: AnyHandle = handle._owner
    return owner


def values_of(array: Array) -> NDArray[Any] | None:
    """Return the memory that an Array, or what it is a view of, lies in; None where it is on disk."""
    return array._owner._values


def derived(handle: Handle) -> dict[Any, Any]:
    """Return what was made of an array for all its handles, and is dropped with it."""
    kept: dict[Any, Any] = handle._owner._derived
    return kept


# What is computed where it is loaded ------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Lazy:
    """What a lazy Array is computed from.

    Attributes
    ----------
    text : str
        What it is, for people: "an expression of 2 arrays".
    members : tuple
        Arrays and ndarrays whose elements are looked at.
    opener : str
        By which opener it is made again.
    arguments : callable
        Returns the arguments of the opener, which tell it from another one (JSON).
    anonymous : bool
        Whether it is computed by something that a record cannot name: a call with it is begun again.
    """

    text: str
    members: tuple[Any, ...]
    opener: str
    arguments: Callable[[], list[Any]]
    anonymous: bool = False


def lazy_array(core: _core.Array, lazy: Lazy) -> Array:
    """Return the handle of an array that is computed where it is loaded, and is only read."""
    array = Array(core)
    array._lazy = lazy
    return array


def is_lazy(array: Array) -> bool:
    """Say whether an Array is computed where it is loaded: there is nothing to write to."""
    return array._owner._lazy is not None


def is_anonymous(array: Array) -> bool:
    """Say whether something that no record can name decides elements: a Python function without a key."""
    lazy = array._owner._lazy
    return lazy is not None and (
        lazy.anonymous or any(is_anonymous(one) for one in lazy.members if isinstance(one, Array))
    )


def members_of(array: Array) -> list[Any]:
    """Return the stored Arrays and the ndarrays that an Array is computed from; [itself] of a stored one."""
    lazy = array._owner._lazy
    if lazy is None:
        return [array._owner]
    found: list[Any] = []
    for member in lazy.members:
        found += members_of(member) if isinstance(member, Array) else [member]
    return found


# How it is opened again -------------------------------------------------------------------------------------


def opened_by(name: str, *arguments: Any, handle: AnyHandle) -> AnyHandle:
    """Note by which opener, given which arguments, a handle is opened again: not by its path alone."""
    handle._opened = (name, arguments)
    return handle


def opener_of(handle: Handle) -> tuple[str, tuple[Any, ...]] | None:
    """Return name and arguments of what opens an array again; None: its path is enough."""
    opened: tuple[str, tuple[Any, ...]] | None = handle._owner._opened
    return opened


def stored_identity(handle: Handle, path: str) -> dict[str, Any]:
    """Return what tells something on disk from another thing, and how it is opened again."""
    place = os.path.abspath(path)
    told: dict[str, Any] = {"path": place, "stamp": stored_stamp(place), "transposed": handle._transposed}
    if (opened := opener_of(handle)) is not None:
        told["opener"] = [opened[0], list(opened[1])]
    return told


@identity.register
def _(operand: Array) -> dict[str, Any]:
    if (lazy := operand._owner._lazy) is not None:
        return {
            "lazy": [lazy.opener, lazy.arguments()],
            "transposed": operand._transposed, "conjugated": operand._conjugated,
        }  # fmt: skip
    if (values := values_of(operand)) is not None:
        return memory_identity(values) | {
            "transposed": operand._transposed, "conjugated": operand._conjugated,
        }  # fmt: skip
    told = stored_identity(operand, str(operand.path))
    return told | {"conjugated": True} if operand._conjugated else told


# How it is written ------------------------------------------------------------------------------------------


def built_aside(core: _core.Array) -> Array:
    """Return a handle that writes what nobody sees yet: no transaction, and no mark that it is dirty."""
    array = Array(core, "r+")
    array._dirty = True
    return array


def set_mode(array: Array, mode: str, *, aside: bool | None = None) -> None:
    """Let a handle read ("r") or write ("r+") from now on; `aside`: whether as `built_aside` does."""
    array._mode = mode
    if aside is not None:
        array._dirty = aside


@contextlib.contextmanager
def writing(array: Array) -> Iterator[None]:
    """Keep other threads from writing through the handles of an array meanwhile."""
    with array._owner._writing:
        yield


def exchange(array: Array, core: _core.Array) -> None:
    """Let the handles of an array see another core array: its path was given a new version."""
    array._owner._handle = core
