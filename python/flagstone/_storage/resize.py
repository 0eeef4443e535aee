"""Arrays that grow and shrink, in place."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from typing import Any

from .. import _core
from .._array.array import STAGING, Array, open_core
from .._array.handle import Operand, exchange, is_transposed, owner_of, writing
from .._array.transactions import open_transactions
from .._errors.classes import Error, FormatError, ShapeError, StorageError
from .._errors.messages import storage_error
from .._errors.regular import open_regular
from .._output.destination import check_new
from .._runtime.call import Call
from .._runtime.metadata_room import metadata_room

__all__ = ["forget_consolidated", "resize"]


def resize(array: Array, shape: Any, memory: Any) -> None:
    """Give an array other extents in place; see `flagstone.Array.resize`."""
    call = Call("resize", memory)
    owner, path = owner_of(array), array.path
    extents = check_new("resize", shape, array.dtype)[0]
    if len(extents) != array.ndim:
        raise ShapeError(
            f"resize: the array has {array.ndim} dimensions and {len(extents)} extents were given; give one "
            "for each."
        )
    if is_transposed(array):
        extents = extents[::-1]
    if path is None or not os.path.isdir(path):
        where = f"'{path}' is no Zarr array" if path else "an array in memory has no chunks"
        raise FormatError(f"resize: {where}; only Zarr arrays grow in place (fl.convert makes one).")
    if array.mode != "r+":
        raise storage_error(
            f"resize: '{path}' is open for reading; open it with mode='r+'.", errno.EACCES, path
        )
    if Operand.of(owner).core.by_chunks:
        raise FormatError(
            f"resize: '{path}' is not sharded: another program made it; fl.convert makes one that grows in "
            "place."
        )
    if any(one.covers(path) for one in open_transactions):
        raise Error(f"resize: '{path}' belongs to an open transaction; resize it before or after.")
    chunk = owner._core.unpack_bytes + _chunk_bytes(owner)
    call.room("chunks at the edge", 2 * chunk + STAGING)
    for folder in (path, *_groups_above(path)):
        metadata_room("resize", folder, memory)
    with writing(owner):
        array.flush()
        _core.WriterLock(path)  # who may not write, or not now, changes nothing
        try:
            forget_consolidated(path)
        except OSError as failed:
            raise storage_error(
                f"resize: '{path}' is left as it is, because the metadata of its group cannot be changed "
                f"({os.strerror(failed.errno or 0)}).", failed.errno or 0, path,
            ) from None  # fmt: skip
        try:
            call.engine.resize(path, list(extents))
        except BaseException as failed:  # it has one shape or the other
            exchange(owner, open_core(path, "r+"))
            if not isinstance(failed, StorageError) or tuple(owner._core.shape) != tuple(extents):
                raise
            raise storage_error(
                f"resize: '{path}' has its new shape, and what lay outside it could not be cleaned away "
                f"({os.strerror(failed.errno or 0)}); resize it once more when that is mended.",
                failed.errno or 0, path,
            ) from failed  # fmt: skip
        exchange(owner, open_core(path, "r+"))


def _chunk_bytes(array: Array) -> int:
    nbytes = array.dtype.itemsize
    for extent in array.chunks:
        nbytes *= extent
    return nbytes


def _groups_above(path: str) -> Iterator[str]:
    place = os.path.dirname(os.path.abspath(path))
    while os.path.exists(f"{place}/zarr.json") or os.path.exists(f"{place}/.zgroup"):
        yield place
        place = os.path.dirname(place)


def forget_consolidated(path: str) -> None:
    """Remove the copies of an array's metadata from the groups above it: they would not know of a change."""
    place = os.path.dirname(os.path.abspath(path))
    while os.path.isdir(place) and _core.is_zarr_group(place):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{place}/.zmetadata")
        file = f"{place}/zarr.json"
        if os.path.exists(file):
            with open_regular("resize", file) as text:
                root = json.load(text)
            if root.pop("consolidated_metadata", None) is not None:
                with open(f"{file}.part", "w", encoding="utf-8") as text:
                    text.write(json.dumps(root, indent=2))
                    text.flush()
                    _core.sync_file(text.fileno(), f"{file}.part")
                os.replace(f"{file}.part", file)
        place = os.path.dirname(place)
