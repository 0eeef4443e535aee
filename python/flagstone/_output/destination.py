"""New arrays: built aside, then there at once and whole."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._array.array import Array, open_core, shape_text
from .._array.handle import Operand
from .._errors.classes import Error, FormatError, ShapeError, StorageError
from .._errors.messages import path_text, storage_error
from .._errors.regular import open_regular
from .._resume.leftovers import MEMBER
from .._resume.record import UNRECORDED, Record, sync_tree
from .._runtime.call import Call
from .._scratch import quota
from .._scratch.builds import unreserved
from .attributes import OURS, with_ours
from .codec_choice import CHECKSUMS, Choice
from .column_names import Columns, with_columns
from .replaceable import exists

__all__ = ["Destination", "check_dims", "check_new", "in_group", "kept_choice"]

#: Errors of a disk that may be better tomorrow.
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENOMEM}


class Destination:
    """A new array that is built aside and appears whole: `core` to write to, then `publish()`."""

    def __init__(
        self, who: str, path: str | os.PathLike[str], shape: tuple[int, ...], dtype: str,
        chunks: tuple[int, ...] | None, replace: bool, nbytes: int | None = None,
        dims: Sequence[str] | None = None, like: Array | None = None, checksum: str = "sidecar",
        record: Record | None = None, codec: str | Choice | None = None,
        about: str = "{}", columns: Columns | None = None, attrs: str = "", fill: bytes = b"",
        ours: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """`like`: whose attributes, names of dimensions and (codec None) codec and order the array gets.

        `record`: of a call that can be resumed; `core` then holds what a killed one had finished. `about`:
        attributes, as JSON, of the group that is made around it. `columns`: names of the columns of a matrix.
        `attrs`: attributes, as JSON. `fill`: one element, what is never written reads as; else zero. `ours`:
        what the metadata say for this library alone.
        """
        if checksum not in CHECKSUMS:
            raise ValueError(f"{who}: checksum is {checksum!r}; choose one of {', '.join(CHECKSUMS)}.")
        self.path = path_text(who, path)
        self._place, self._columns = self.path, columns
        self._attrs, self._fill, self._ours = attrs, fill, ours or {}
        self._npy = self.path.endswith(".npy")
        size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize if nbytes is None else nbytes
        if not replace and exists(self.path):
            raise storage_error(
                f"{who}: '{self.path}' exists; pass overwrite=True to replace it.", errno.EEXIST, self.path
            )
        member = in_group(who, self.path)
        self._place = self.path if member or self._npy else f"{self.path}/{MEMBER}"
        quota.needs(self.path, size)
        chosen = codec if isinstance(codec, Choice) else Choice(codec) if codec else kept_choice(like)
        taken = size if chosen.codec == "raw" or self._npy else 0  # nobody knows what packed chunks will take
        self._output: _core.Output | None = (record or UNRECORDED).output(self.path, replace, taken)
        try:
            if record is not None and record.resumed:
                try:
                    self.core = self._left(member)
                    self._reserve(size)
                    return
                except Error as error:
                    if isinstance(error, StorageError) and error.errno in _PASSING:
                        self.leave()  # what was done is worth a better disk
                        raise
                    record.begin_again(self.path, error)
                    self._output = None
                    self._output = record.output(self.path, replace, taken)
            self._make(shape, dtype, chunks, member, dims, like, checksum, chosen, about)
            self._reserve(size)
            if record is not None and record.text:
                sync_tree(self._output.directory)
        except BaseException:
            self.discard()  # a traceback may keep it alive for long
            raise

    def _make(
        self, shape: tuple[int, ...], dtype: str, chunks: tuple[int, ...] | None, member: bool,
        dims: Sequence[str] | None, like: Array | None, checksum: str, chosen: Choice,
        about: str,
    ) -> None:  # fmt: skip
        assert self._output is not None
        built = self._output.directory
        if self._npy:
            self.core = _core.create_npy(built, list(shape), dtype)
            return
        if not member:
            _core.write_group(built, about)
            built = f"{built}/{MEMBER}"
        kept, old = _kept(like)
        kept = with_ours(self._attrs or kept, self._ours)
        if chosen.why:
            kept = with_ours(kept, {"codec": chosen.why})
        kept = with_columns(kept, self._columns)
        names = list(dims or old) or _dimension_names(self.path if member else "", shape)
        self.core = _core.create_zarr(
            built, list(shape), dtype, list(chunks or ()), attributes=kept, dimension_names=names,
            checksum=checksum, codec=chosen.codec, order=chosen.order, fill=self._fill,
        )  # fmt: skip

    def _reserve(self, size: int) -> None:
        """Take the space of the elements now; what is packed takes what it needs when it is written."""
        if size > 0 and not self._npy and not self.core.reserve():  # a flat file took it when it was made
            unreserved.set(True)

    def _left(self, member: bool) -> _core.Array:
        """Open what a killed call had built."""
        assert self._output is not None
        built = self._output.directory
        if self._npy:
            return _core.open_npy(built, True)
        core = _core.open_zarr(built if member else f"{built}/{MEMBER}", True)
        core.adopt()
        return core

    def resize(self, call: Call, shape: tuple[int, ...]) -> None:
        """Give what is being built other extents: of text, nobody knows the rows before they are read."""
        self.core.flush()
        call.engine.resize(self.core.path, list(shape))
        self.core = _core.open_zarr(self.core.path, True)

    @property
    def built(self) -> str:
        """Where it lies until it appears."""
        assert self._output is not None
        return self._output.directory

    def discard(self) -> None:
        """Remove what was built."""
        self._output = None

    def leave(self) -> None:
        """Let what was built stay, for a call that goes on with it."""
        if self._output is not None:
            self._output.leave()

    def publish(self) -> Array:
        """Make the array appear under its name and open it for reading and writing."""
        self.core.flush()
        if self._output is not None:
            self._output.publish()
        return Array(open_core(self._place, "r+"), "r+")


def _kept(array: Array | None) -> tuple[str, list[str]]:
    """Return attributes (JSON text) and names of dimensions of an array that is about to be replaced."""
    if array is None or array.path is None:
        return "", []
    about: Any = {}
    with contextlib.suppress(OSError, ValueError):
        if os.path.exists(f"{array.path}/zarr.json"):
            with open_regular("out", f"{array.path}/zarr.json") as file:
                about = json.load(file)
        else:
            with open_regular("out", f"{array.path}/.zattrs") as file:
                about = {"attributes": json.load(file)}
    attributes = about.get("attributes") if isinstance(about, dict) else None
    attributes = attributes if isinstance(attributes, dict) else {}
    if isinstance(ours := attributes.get(OURS), dict):
        ours.pop("triangle", None)  # what is stored now is told by who stores it
    names = about.get("dimension_names") or attributes.pop("_ARRAY_DIMENSIONS", None) or []
    named = len(names) == len(array.shape) and all(isinstance(name, str) for name in names)
    return json.dumps(attributes) if attributes else "", names if named else []


def kept_choice(out: object) -> Choice:
    """Return codec and order of an Array that is about to be replaced; raw, C where it is only read."""
    if not isinstance(out, Array):
        return Choice("raw")
    core = Operand.of(out).core
    order = "F" if core.order == "F" else "C"
    try:
        return Choice(_core.check_codec(core.codec), order=order)
    except FormatError:
        return Choice("raw", order=order)


def _dimension_names(member: str, shape: tuple[int, ...]) -> list[str]:
    """Names that xarray takes: arrays of one group that share a name must agree in its extent."""
    prefix = f"{os.path.basename(member)}_" if member else ""
    return [f"{prefix}dim_{i}" for i in range(len(shape))]


def check_dims(who: str, dims: Sequence[str] | None, shape: tuple[int, ...], path: str) -> None:
    """Refuse names that do not name every dimension once."""
    if dims is None:
        return
    if isinstance(dims, str) or not all(isinstance(name, str) and name for name in dims):
        raise ShapeError(f"{who}: dims is {dims!r}; a sequence of names is needed, one per dimension.")
    if len(dims) != len(shape) or len(set(dims)) != len(shape):
        raise ShapeError(
            f"{who}: dims are {', '.join(dims) or 'none'} and the shape is {shape_text(shape)}; "
            "one name of its own per dimension is needed."
        )
    if path.endswith(".npy"):
        raise ShapeError(f"{who}: a .npy file has no names of dimensions; leave dims out or write Zarr.")


def in_group(who: str, path: str) -> bool:
    """Say whether `path` names a member of a group ("data.zarr/A"); make that group where nothing is."""
    parent = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(parent):
        return bool(_core.is_zarr_group(parent))
    if parent.endswith(".zarr") and os.path.isdir(os.path.dirname(parent)):
        os.mkdir(parent)
        _core.write_group(parent, "{}")
        return True
    raise storage_error(
        f"{who}: the directory '{parent}' does not exist; create it first.", errno.ENOENT, parent
    )


def check_new(
    who: str, shape: Any, dtype: DTypeLike, chunks: Any = None
) -> tuple[tuple[int, ...], str, tuple[int, ...] | None]:
    """Return shape, dtype name and chunks as the core takes them, or say what is wrong with them."""
    try:
        extents = tuple(int(n.__index__()) for n in (shape if np.iterable(shape) else (shape,)))
        pieces = None if chunks is None else tuple(
            int(n.__index__()) for n in (chunks if np.iterable(chunks) else (chunks,))
        )  # fmt: skip
    except AttributeError:
        raise ShapeError(f"{who}: shape and chunks must be integers; got {shape!r} and {chunks!r}.") from None
    if any(n < 0 for n in extents):
        raise ShapeError(f"{who}: the shape is {shape_text(extents)}; extents must not be negative.")
    kind = np.dtype(dtype)
    name = kind.name
    if kind.kind not in "biufc" or name not in _DTYPES:
        raise ShapeError(f"{who}: dtype {kind} cannot be stored; choose one of {', '.join(_DTYPES)}.")
    if int(np.prod(extents, dtype=object)) * kind.itemsize >= 1 << 62:
        raise ShapeError(f"{who}: {shape_text(extents)} of {name} is more than 2^62 bytes; ask for less.")
    if pieces is not None and (len(pieces) != len(extents) or any(c < 1 for c in pieces)):
        raise ShapeError(
            f"{who}: chunks are {shape_text(pieces)} and the shape is {shape_text(extents)}; "
            "one positive extent per dimension is needed."
        )
    return extents, name, pieces


_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
