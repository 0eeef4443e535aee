"""Array: an N-d array on disk (or in memory) that is read and written by boxes."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import _core
from .._errors.classes import Error
from .._errors.messages import storage_error
from .._resume.registers import OPENERS
from .._runtime.call import Call
from .._runtime.memory_map import is_mapped
from .._runtime.pending_writes import WriteCombiner
from .._runtime.pending_writes import of as waiting_for
from .basic_index import Key, without_new_axes
from .described import Described
from .dispatch import dispatch
from .elementwise import Elementwise
from .linear_operator import LinearOperator
from .pickling import check_stamp, stamp
from .regions import Tiles
from .requests import PIECE, STAGING, OrthogonalIndex, assign, shape_text, take
from .segments import rows, segments
from .transactions import combined_in, updating, within_block

__all__ = ["PIECE", "STAGING", "Array", "shape_text"]


class Array(Described, LinearOperator, Elementwise):
    """An N-d array on disk (or a NumPy array in memory), read and written by boxes.

    Made by `open`, `create`, `from_numpy` and by every routine; a cheap handle. Operators and NumPy's
    element-wise functions give lazy expressions (`flagstone.compute` runs them); nothing loads it by
    accident: ask for a part with ``A[i:j, k:l]`` or for all of it with ``np.asarray(A)``, which refuses what
    would go beyond the memory limit.
    """

    __module__ = "flagstone"

    def __init__(
        self, core: _core.Array, mode: str = "r", *, transposed: bool = False, conjugated: bool = False,
        root: Array | None = None,
    ) -> None:  # fmt: skip
        self._handle: _core.Array | None = core
        self._mode = mode
        self._transposed = transposed
        self._conjugated = conjugated
        self._root = root  # of a view: the array that it looks at
        self._dirty = False
        self._writing = threading.RLock()  # one call of one thread at a time
        self.import_seconds = 0.0  #: what `open` spent on bringing a foreign file into scratch
        self._values: NDArray[Any] | None = None  # of an array in memory: the ndarray itself
        self._opened: tuple[str, tuple[Any, ...]] | None = None  # by which opener, if not by path
        self._derived: dict[Any, Any] = {}  # what was made of it for all its handles
        self._lazy: Any = None  # handle.Lazy, of one that is computed where it is loaded

    # What it is ---------------------------------------------------------------------------------------------

    @property
    def _core(self) -> _core.Array:
        handle = self._root._core if self._root is not None else self._handle
        if handle is None:
            raise Error("array: this handle is closed; open the array again.")
        return handle

    @property
    def _owner(self) -> Array:
        return self if self._root is None else self._root

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of every dimension."""
        shape = tuple(self._core.shape)
        return shape[::-1] if self._transposed else shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return np.dtype(self._core.dtype)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of the stored unit; the whole shape for `.npy` and memory."""
        chunks = tuple(self._core.chunks)
        return chunks[::-1] if self._transposed else chunks

    @property
    def tiles(self) -> Tiles:
        """Number of chunks along every dimension; ``A.tiles[i, j]`` is the region of one, for tasks."""
        return Tiles(self, tuple(-(-n // max(c, 1)) for n, c in zip(self.shape, self.chunks, strict=True)))

    @property
    def path(self) -> str | None:
        """Where it lies; None for an array in memory, or that is computed where it is loaded."""
        return self._core.path or None

    @property
    def mode(self) -> str:
        """Either "r", or "r+" where elements may be assigned."""
        return self._root.mode if self._root is not None else self._mode

    @property
    def T(self) -> Array:
        """The transpose (all dimensions reversed): a view, nothing is moved."""
        return self._view(transposed=not self._transposed)

    def conj(self) -> Array:
        """Return the complex conjugate: a view, nothing is moved."""
        return self._view(conjugated=not self._conjugated and self.dtype.kind == "c")

    conjugate = conj

    def _view(self, transposed: bool | None = None, conjugated: bool | None = None) -> Array:
        return Array(
            self._core,
            transposed=self._transposed if transposed is None else transposed,
            conjugated=self._conjugated if conjugated is None else conjugated,
            root=self._owner,
        )

    # Reading ------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Key) -> Any:
        """Return a part as an ndarray (a scalar where every index is an integer), as NumPy would.

        Integers, slices with steps, one ellipsis, None for a new dimension, arrays of integers, masks. One
        request: every chunk that the part touches is read once (of raw chunks, the pages that it touches),
        all of one moment.
        """
        key, added = without_new_axes(key)
        out = take(self, Call("getitem", light=True), key)
        if added is not None:
            return out[added]
        return out[()] if not out.shape else out

    def __iter__(self) -> Iterator[Any]:
        """Give ``A[0]``, ``A[1]``, ...: every chunk is read once, a stripe of them is held meanwhile."""
        if not self.shape:
            raise TypeError("iter: the array has no dimensions to go along; A[()] is its element.")
        return rows(self)

    @property
    def oindex(self) -> OrthogonalIndex:
        """``A.oindex[rows, columns]``: every combination of what the dimensions select; can be assigned."""
        return OrthogonalIndex(self)

    def segments(
        self, key: Key = ..., *, nbytes: int | str = "64MiB"
    ) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
        """Deliver a large part in pieces while later pieces still load.

        Parameters
        ----------
        key : index
            Integers and slices; default: all of the array.
        nbytes : int or str
            Most bytes of one piece, in whole chunks (parts of one where a chunk is larger). Two pieces are
            held: the one that was given out and the next one.

        Yields
        ------
        where : tuple of slice
            Where the piece lies in the result: ``A[key][where]`` is `part`. In C order.
        part : ndarray

        Notes
        -----
        Reads what ``A[key]`` reads. All pieces are of one moment: a commit of somebody else in between is a
        `StorageError`. Leaving the loop waits for the piece that is being read and leaves nothing behind.

        >>> for where, part in A.segments(np.s_[:, :1000]):         # doctest: +SKIP
        ...     total += part.sum()
        """
        return segments(self, key, nbytes)

    def each_segment(
        self,
        do: Callable[[tuple[slice, ...], NDArray[Any]], Any],
        key: Key = ...,
        *,
        nbytes: int | str = "64MiB",
    ) -> None:
        """Call ``do(where, part)`` for every piece of `segments`; what it raises ends the reading.

        Parameters
        ----------
        do : callable
            Takes where the piece lies in the result, a tuple of slices, and the piece, an ndarray.
        key, nbytes
            As for `segments`.
        """
        with contextlib.closing(segments(self, key, nbytes)) as pieces:  # type: ignore[type-var]
            for where, part in pieces:
                do(where, part)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                "asarray: an array on disk cannot be seen as an ndarray without a copy (copy=False)."
            )
        what = (
            f"the whole array ({shape_text(self.shape)} {self.dtype.name}, {_core.format_bytes(self.nbytes)})"
        )
        out = take(self, Call("asarray", light=True), ..., what)
        return out if dtype is None else out.astype(dtype, copy=False)

    # Writing ------------------------------------------------------------------------------------------------

    def __setitem__(self, key: Key, value: Any) -> None:
        """Assign a part; `value` is broadcast, an expression is computed by parts.

        Takes what can be read, and a lazy mask of the array's shape (``Z[Z > 0.5] = 0``: one pass). Chunks
        that are covered whole are written, others are read, changed and written, once; inside a transaction
        they wait in memory until they are whole. Of a Zarr array all of it or nothing, and on the disk when
        this returns (`flagstone.transaction` groups several); of one that another program made (not sharded)
        each chunk or nothing. A flat file is changed in place and dirty until `flush()`.
        """
        if self._owner._lazy is not None:
            raise storage_error(
                f"setitem: this array ({self._about()}) is computed where it is read and holds no elements; "
                "make one that does with fl.create, or store this one with fl.compute(A, out=...).",
                errno.EROFS, "",
            )  # fmt: skip
        if isinstance(key, Elementwise) or isinstance(value, Elementwise) or is_mapped(value):
            dispatch().assign(self, key, value)
            return
        assign(self, Call("setitem"), key, value)

    def _waiting(self) -> WriteCombiner | None:
        """Return what small writes are combined in while a transaction is open."""
        return combined_in(self._core)

    def _join(self) -> None:
        """Take part in the transaction that is open, so that its moment is seen from here on."""
        if self.mode == "r+" and within_block(self._core):
            with self._updating():
                pass

    def _updating(self) -> contextlib.AbstractContextManager[None]:
        return updating([self])

    def _mark_dirty(self) -> None:
        owner = self._owner
        if not owner._dirty:
            owner._dirty = True
            if owner.path:
                _core.mark_dirty(owner._core, True)

    def resize(self, shape: Any, /, *, memory: int | str | None = None) -> None:
        """Grow or shrink any dimension, in place; what is new reads as the fill value.

        Parameters
        ----------
        shape : tuple of int
            The new extents, as many as there are dimensions.
        memory : int or str, optional
            Most resident memory of the whole process during the call.

        Raises
        ------
        StorageError
            It is open for reading, somebody else writes to it, or its format is not resized in place.

        Notes
        -----
        All or nothing: zarr.json is replaced, and that is the commit. Chunks and shards keep their shapes and
        places. Moves the chunks at the edges of dimensions that change. What is cut off is gone, and does not
        come back when the array grows again. Handles that read go on with the old shape (after shrinking they
        get an error); handles that write get an error and open the array again.
        """
        dispatch().resize(self, shape, memory)

    def flush(self) -> None:
        """See what others committed since; put what was assigned on the disk.

        To a flat file, for good. Inside a `flagstone.transaction`: parts of chunks that waited in memory,
        still as a part of it. Elsewhere assignments to Zarr arrays are on the disk when they return.
        """
        owner = self._owner
        if owner._lazy is not None:
            for member in owner._lazy.members:
                if isinstance(member, Array):
                    member.flush()
            return
        if (waiting := waiting_for(owner._core)) is not None:
            with owner._updating():
                waiting.flush(Call("flush", light=True).engine)
        if not owner._dirty:
            owner._core.look()
        if owner._dirty:
            owner._core.flush()
            if owner.path:
                _core.mark_dirty(owner._core, False)
            owner._dirty = False

    def close(self) -> None:
        """Flush and give the handle back; a result in scratch is deleted."""
        if self._root is None and self._handle is not None:
            self.flush()
            self._handle = None

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _multiply(self, x: NDArray[Any], adjoint: bool) -> NDArray[Any]:
        a = self.conj().T if adjoint else self
        out = np.empty((a.shape[0], x.shape[1]), self.dtype)
        dispatch().matmul(a, x.astype(self.dtype, copy=False), out=out)
        return out

    # Travelling ---------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path: the receiver opens the same array, and hears when it went away or was replaced."""
        if self._owner._lazy is not None:
            lazy = self._owner._lazy
            return lazy_again, (lazy.opener, lazy.arguments(), self._transposed, self._conjugated)
        if self.path is None:
            return from_memory, (self._owner._values, self._transposed, self._conjugated)
        self._owner.flush()
        path = os.path.abspath(self.path)
        if self._owner._opened is not None:
            return _view_of, (path, stamp(path), *self._owner._opened, self._transposed, self._conjugated)
        return _reopen, (path, stamp(path), self.mode, self._transposed, self._conjugated)

    def __dlpack__(self, **options: Any) -> Any:
        """Lend the memory of an array in memory; one on disk has none (take a part: ``A[i:j]``)."""
        return self._memory("__dlpack__").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory("__dlpack_device__").__dlpack_device__()

    def _memory(self, who: str) -> NDArray[Any]:
        values = self._owner._values
        if values is None:
            where = f"'{self.path}' is on disk" if self.path else f"{self._about()} is computed as it is read"
            raise BufferError(f"{who}: {where} and has no memory to lend; take a part first (A[i:j]).")
        values = values.T if self._transposed else values
        return values.conj() if self._conjugated else values


def open_core(path: str, mode: str) -> _core.Array:
    """Open a Zarr array directory or a .npy file."""
    if os.path.isdir(path):
        return _core.open_zarr(path, mode == "r+")
    return _core.open_npy(path, mode == "r+")


def open_array(path: str, mode: str) -> Array:
    """Open an array, saying so when it was not flushed."""
    core = open_core(path, mode)
    if _core.is_dirty(core):
        warnings.warn(
            f"open: '{path}' is dirty: a writer assigned to it and ended without flush(), or is still at it; "
            "parts may be old.",
            UserWarning,
            stacklevel=3,
        )
    return Array(core, mode)


def _reopen(path: str, stamped: tuple[int, ...], mode: str, transposed: bool, conjugated: bool) -> Array:
    check_stamp(path, stamped)
    array = open_array(path, mode)
    return array._view(transposed, conjugated) if transposed or conjugated else array


def _view_of(
    path: str, stamped: tuple[int, ...], name: str, arguments: tuple[Any, ...],
    transposed: bool, conjugated: bool,
) -> Array:  # fmt: skip
    check_stamp(path, stamped)
    array: Array = OPENERS[name](*arguments)
    return array._view(transposed, conjugated) if transposed or conjugated else array


def lazy_again(name: str, arguments: list[Any], transposed: bool, conjugated: bool) -> Array:
    array: Array = OPENERS[name](*arguments)
    return array._view(transposed, conjugated) if transposed or conjugated else array


def from_memory(values: NDArray[Any], transposed: bool, conjugated: bool) -> Array:
    array = Array(_core.memory_array(values), "r+" if values.flags.writeable else "r")
    array._values = values
    return array._view(transposed, conjugated) if transposed or conjugated else array
