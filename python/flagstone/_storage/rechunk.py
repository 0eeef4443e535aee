"""Arrays written anew on disk: other chunks, another dtype, dimensions in another order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand
from .._array.requests import take
from .._errors.classes import FormatError, ShapeError
from .._expression.operand import lazy_operand
from .._output.codec_choice import CHECKSUMS, Choice, check_codec, choose
from .._output.destination import check_new, kept_choice
from .._output.place import Place
from .._resume.openers import operand, written
from .._resume.registers import Again, resumable
from .._runtime.arguments import unmasked
from .._runtime.call import Call
from .._runtime.routine import At, How, Prepared, Routine, routine
from .._sparse.array import SparseArray
from .._sparse_algebra.transpose import SparseTranspose

__all__ = ["rechunk", "transpose"]

_SLAB = 4 << 20  # what is written at once of a flat file


class _Restructure(Routine[Any]):
    """The checked arguments of one call."""

    def __init__(self, who: str, given: Any, axes: Sequence[int] | None, out: Any, memory: Any) -> None:
        super().__init__(Call(who, memory))
        self.operation = who
        given = lazy_operand(self.call, given)
        self.array = given if isinstance(given, Array) else None
        if self.array is not None:
            self.array.flush()
        self.source = Operand.of(_values(who, given) if self.array is None else given)
        self.dtype, shape = self.source.dtype, self.source.shape
        chunks = shape if self.array is None else self.array.chunks
        self.axes = _axes(who, axes, len(shape))
        turned = self.source.transposed
        self.own = [len(shape) - 1 - d for d in self.axes] if turned else list(self.axes)
        self.shape = tuple(shape[d] for d in self.axes)
        self.chunks = tuple(chunks[d] for d in self.axes)
        self.out = out
        self.call.on(*self.source.paths)

    def into(
        self, dtype: np.dtype[Any], chunks: Any, checksum: str, codec: str | None, order: str | None
    ) -> None:
        """Say what is written."""
        who = self.call.who
        if checksum not in CHECKSUMS:
            raise ValueError(f"{who}: checksum is {checksum!r}; choose one of {', '.join(CHECKSUMS)}.")
        self.to = dtype
        fitting = self._chunks(chunks)
        self.place = Place(self.call, self.shape, dtype, self.out, fitting)
        self.places = [self.place]
        if chunks is not None or (isinstance(self.out, Array) and self.out.path is None):
            self.place.chunks = fitting
        target = self.out.path if isinstance(self.out, Array) else self.out
        path = os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""
        flat = path.endswith(".npy")
        if flat:
            self.place.chunks = _slab(self.shape, dtype.itemsize)  # the planner's: a flat file has none
        self.place.checksum = checksum
        straight = self.own == sorted(self.own)
        if self.place.like is None and self.array is not None and straight:
            self.place.like = self.array
        if order not in (None, "C", "F"):
            raise ValueError(f"{who}: order is {order!r}; choose 'C' or 'F'.")
        if order == "F" and (flat or self.place.in_memory):
            where = "a .npy file" if flat else "a result in memory"
            raise FormatError(f"{who}: order is 'F', and {where} has no chunks; name a Zarr directory.")
        kept = Choice("raw") if flat else kept_choice(self.place.like)
        if codec is not None:
            check_codec(who, codec, path, auto=True)
        how = kept if codec is None else self._codec(codec)
        self.how_stored = self.place.codec = replace(how, order=order or kept.order)
        self.call.outputs = self.place.named()

    def _codec(self, codec: str) -> Choice:
        """Return the codec; for "auto" a few boxes of the source are looked at, as long as a chunk."""
        array = self.array
        if array is None:
            values = np.transpose(np.asarray(self.source.values), self.axes)
            return choose(
                self.call,
                codec,
                self.shape,
                self.place.chunks,
                self.to,
                lambda box: values[box].astype(self.to),
            )
        order = [self.axes.index(d) for d in range(len(self.axes))]
        own, chunks = [self.shape[d] for d in order], [self.place.chunks[d] for d in order]
        return choose(
            self.call, codec, own, chunks, self.to,
            lambda box: take(array, self.call, box).astype(self.to).transpose(self.axes),
        )  # fmt: skip

    def _chunks(self, given: Any) -> list[int]:
        if given is None:
            return list(_core.default_chunks(list(self.shape), self.to.name))
        who = self.call.who
        pieces = list(given) if np.iterable(given) and not isinstance(given, str) else [given]
        if len(pieces) != len(self.shape):
            raise ShapeError(
                f"{who}: chunks are {given!r} and the result is {shape_text(self.shape)}; one extent per "
                "dimension is needed (-1: all of it)."
            )
        pieces = [
            max(n, 1) if c is None or (isinstance(c, (int, np.integer)) and c == -1) else c
            for c, n in zip(pieces, self.shape, strict=True)
        ]
        checked = check_new(who, self.shape, self.to, pieces)[2]
        return list(checked or ())

    @property
    def what(self) -> str:
        into = f"into {self.to.name}" if self.to != self.dtype else self.to.name
        chunks = "" if self.place.in_memory else f", chunks {shape_text(tuple(self.place.chunks))}"
        return f"{self.call.who} to {shape_text(self.shape)} {into}{chunks}"

    def job(self, at: At) -> _core.Job:
        to = at(self.place)  # first: the place is open from here on, and has its checkpoint
        runtime = self.call.runtime
        self.core = _core.Restructure(
            self.source.core, self.own, self.source.conjugated, to,
            self.call.scratch_in_run(), self.call.who, runtime.scratch_quota, self.place.checkpoint,
        )  # fmt: skip
        return self.core.job()

    def how(self, job: Any) -> How:
        passes = self.core.passes
        method = "one pass" if passes == 1 else "two passes through scratch"
        return How(method, passes, self.core.why, between=self.core.scratch_bytes)

    def arguments(self) -> dict[str, Any]:
        return {
            "a": self.source.identity, "axes": list(self.axes), "dtype": self.to.name,
            "chunks": list(self.place.chunks), "checksum": self.place.checksum,
            "codec": self.how_stored.codec, "order": self.how_stored.order,
        }  # fmt: skip

    def effort(self) -> tuple[float, float]:
        return 0.0, 2.0 * self.place.nbytes


def _slab(shape: tuple[int, ...], item: int) -> list[int]:
    """Return what is written at once of a flat file: contiguous, as the core cuts it."""
    part = [max(1, n) for n in shape]
    for d in range(len(part)):
        one = item * int(np.prod(part[d + 1 :], dtype=object)) if d + 1 < len(part) else item
        if one * part[d] <= _SLAB:
            break
        part[d] = max(1, _SLAB // one)
    return part


def _values(who: str, given: Any) -> np.ndarray[Any, Any]:
    if hasattr(given, "tocsr"):
        raise TypeError(
            f"{who}: SciPy's {type(given).__name__} was given; make it a SparseArray, fl.from_blocks([A])."
        )
    if not isinstance(given, (np.ndarray, list, tuple)):
        raise TypeError(f"{who}: {type(given).__name__} was given; an Array or a NumPy array is needed.")
    values = np.asarray(unmasked(who, given))
    check_new(who, values.shape, values.dtype)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _axes(who: str, axes: Sequence[int] | None, ndim: int) -> list[int]:
    if axes is None:
        return list(range(ndim))
    try:
        given = [d.__index__() for d in axes]
    except (TypeError, AttributeError):
        raise ShapeError(f"{who}: axes is {axes!r}; a sequence of whole numbers is needed.") from None
    found = [d + ndim if -ndim <= d < 0 else d for d in given]
    if sorted(found) != list(range(ndim)):
        raise ShapeError(
            f"{who}: axes are {tuple(given)} and the array has {ndim} dimensions; name each once "
            "(0 is the first, -1 the last)."
        )
    return found


def _cast(who: str, given: np.dtype[Any], wanted: DTypeLike | None, casting: str) -> np.dtype[Any]:
    if casting not in ("safe", "same_kind", "unsafe"):
        raise ValueError(f"{who}: casting is {casting!r}; choose 'safe', 'same_kind' or 'unsafe'.")
    if wanted is None:
        return given
    check_new(who, (), wanted)
    dtype = np.dtype(wanted).newbyteorder("=")
    if not np.can_cast(given, dtype, casting):  # type: ignore[arg-type]
        raise ShapeError(
            f"{who}: the array is {given.name} and {dtype.name} cannot hold its values (casting="
            f"{casting!r}); choose a dtype that can, or say casting='unsafe'."
        )
    return dtype


@routine
def rechunk(
    A: Any,
    chunks: Any = None,
    /,
    *,
    out: Any = None,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    checksum: str = "sidecar",
    codec: str | None = None,
    order: str | None = None,
    memory: int | str | None = None,
) -> Prepared[Any]:
    """Write an array anew with other chunks, in fixed memory and at most two passes.

    Parameters
    ----------
    A : Array, Expression or ndarray
        A lazy expression is computed where it is loaded; an array in any layout that opens: Zarr, `.npy`,
        flat, HDF5; transposed and conjugated views too.
    chunks : tuple of int, optional
        The stored unit; -1 (or None) for all of a dimension. Default: as for `create`.
    out : path, Array or ndarray, optional
        Where the result goes, as for `matmul`. A path is replaced at once and whole; an existing Array, even
        `A` itself, gets a new version that is built aside and exchanged. Default: scratch, deleted with the
        last handle.
    dtype : dtype, optional
        Convert the elements.
    casting : {"same_kind", "safe", "unsafe"}
        Which conversions are allowed, in NumPy's words: float64 to float32 is of the same kind, float64 to
        int32 and complex to real are not.
    checksum : {"sidecar", "inner", "none"}
        As for `create`.
    codec : str, optional
        As for `create`, or "auto" as for `from_numpy`. Default: that of A (of an existing `out`), where it is
        one that is written here.
    order : {"C", "F"}, optional
        Which index is the fastest inside a chunk: the last ("C"), or the first ("F", by Zarr's transpose
        codec, which zarr-python and TensorStore read), for programs that want columns. Default: that of A (of
        an existing `out`), else "C".
    memory : int or str, optional
        Most resident memory of the whole process during the call, as "4GiB".

    Returns
    -------
    Array
        The result (`out` itself where that was an Array or ndarray).

    Raises
    ------
    ShapeError
        Chunks or `out` do not fit; the dtype cannot hold the values.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    No flops. In one pass the array is read once and written once. That needs memory for the source's chunks
    under a box of whole chunks of the result; raw chunks and flat files are read in parts where the runs are
    long enough. Where neither fits, a second pass writes and reads everything once more, through scratch:
    ``rechunk.plan(...)`` says which, and why. Attributes and names of dimensions are kept.
    """
    given = _Restructure("rechunk", A, None, out, memory)
    given.into(_cast("rechunk", given.dtype, dtype, casting), chunks, checksum, codec, order)
    return given


@routine
def transpose(
    A: Any,
    axes: Sequence[int] | None = None,
    /,
    *,
    out: Any = None,
    chunks: Any = None,
    checksum: str = "sidecar",
    codec: str | None = None,
    order: str | None = None,
    memory: int | str | None = None,
) -> Prepared[Any]:
    """Write an array with its dimensions in another order (`A.T` is a view that moves nothing).

    Parameters
    ----------
    A : Array, Expression, ndarray or SparseArray
        In any layout that opens; a lazy expression is computed where it is loaded. Of a sparse matrix (views
        too) Aᵀ is written by rows, columns in order (csrcsc); it takes `out` and `memory` alone.
    axes : sequence of int, optional
        Dimension i of the result is dimension ``axes[i]`` of A. Default: all reversed.
    out, checksum, memory
        As for `rechunk`.
    codec, order : str, optional
        As for `rechunk`; default: those of an existing `out`, else "raw" and "C".
    chunks : tuple of int, optional
        Of the result. Default: those of A, in the new order; of an array without chunks as for `create`.

    Returns
    -------
    Array or SparseArray
        The result (`out` itself where that was an Array or ndarray).

    Raises
    ------
    ShapeError
        `axes` is no permutation; `out` does not agree.
    BudgetError
        The limit is too small; names the least that works. Raised before any data is moved.

    Notes
    -----
    No flops; reads and writes the array once (`rechunk` says when twice). Tiles are transposed in squares
    that fit the processor's caches.

    A sparse matrix is read twice (rows of Aᵀ are counted first); its entries, 12 bytes each of float32 and 16
    of float64, pass through bucket files beside the result, written and read once; then Aᵀ is written. Memory
    depends on neither rows nor entries, but one row of Aᵀ must fit. A killed call goes on.
    """
    if isinstance(A, SparseArray):
        if axes is not None and tuple(axes) not in ((1, 0), (-1, -2), (1, -2), (-1, 0)):
            raise ShapeError(f"transpose: axes are {tuple(axes)} and A is sparse; (1, 0) is needed, or none.")
        if chunks is not None or codec is not None or order is not None or checksum != "sidecar":
            raise TypeError("transpose: chunks, checksum, codec and order are of dense arrays; A is sparse.")
        return SparseTranspose(Call("transpose", memory), A, out)
    ndim = A.ndim if hasattr(A, "ndim") else np.ndim(A)
    given = _Restructure("transpose", A, range(ndim)[::-1] if axes is None else axes, out, memory)
    chunked = given.array is not None and given.chunks != given.shape
    if chunks is None and chunked and not isinstance(out, Array):
        chunks = given.chunks
    given.into(given.dtype, chunks, checksum, codec, order)
    return given


@resumable("rechunk")
def _rechunk_again(path: str, told: dict[str, Any]) -> Again:
    options = written(path, told) | {"dtype": told["dtype"], "casting": "unsafe"}
    return rechunk, (operand("A", told["a"]), told["chunks"]), options


@resumable("sparse transpose")
def _sparse_again(path: str, told: dict[str, Any]) -> Again:
    return transpose, (operand("A", told["a"]),), {"out": path}


@resumable("transpose")
def _transpose_again(path: str, told: dict[str, Any]) -> Again:
    options = written(path, told) | {"chunks": told["chunks"]}
    return transpose, (operand("A", told["a"]), told["axes"]), options
