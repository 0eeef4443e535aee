"""Dense arrays in `.npz` of `np.savez`: in place where a member lies open, imported where it is deflated."""

from __future__ import annotations

import os
import zipfile
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from ... import _core
from ..._array.array import Array, open_core
from ..._array.handle import opened_by
from ..._errors.classes import FormatError
from ..._errors.messages import storage_error, writing
from ..._runtime.call import Call
from ..._runtime.streaming import Reported
from ..._sparse.to_csr import dense_blocks
from ..._storage.import_cache import cached
from .members import read_header, start

__all__ = ["choose", "open_member", "told", "write"]

_PIECE = 1 << 20
_NAME = "arr_0"  # what np.savez calls an array without a name


class Held(NamedTuple):
    """What the header of a member says, and where its elements begin behind its local header."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    header: int  # bytes


def members(archive: zipfile.ZipFile) -> list[str]:
    """Names of the arrays, as `np.load` gives them."""
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def held(archive: zipfile.ZipFile, path: str, name: str) -> Held:
    """Read the header of a member that holds plain numbers."""
    names = members(archive)
    if name not in names:
        raise storage_error(
            f"open: '{path}' has no {name!r}; it holds {', '.join(names[:12]) or 'no arrays'}.", 2, path
        )
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        shape, fortran, dtype = read_header(file, path, name)
        header = file.tell()
    length = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if dtype.kind not in "biufc" or dtype.itemsize > 16 or dtype == np.longdouble:
        raise FormatError(f"open: '{name}' of '{path}' holds {dtype}; plain numbers are needed.")
    if info.file_size != header + length:
        raise FormatError(
            f"open: '{name}' of '{path}' takes {info.file_size} bytes and its header asks for "
            f"{header + length}; the file is damaged, copy it again."
        )
    return Held(info, shape, fortran, dtype, header)


def lies_open(one: Held) -> bool:
    """Say whether the elements stand in the archive as they are."""
    info = one.info
    plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
    return plain and info.compress_size == info.file_size


def open_member(path: str, name: str) -> Array:
    """Open one array; a deflated one is unpacked into scratch once."""
    with zipfile.ZipFile(path) as archive:
        one = held(archive, path, name)
    if not lies_open(one):
        found = cached(path, name, lambda call, target: _unpack(call, path, name, target))
        assert isinstance(found, Array)
        return found
    offset = start(path, one.info) + one.header
    if offset + int(np.prod(one.shape, dtype=object)) * one.dtype.itemsize > os.path.getsize(path):
        raise FormatError(f"open: '{path}' is damaged: '{name}' lies outside the file; copy it again.")
    big = one.dtype.itemsize > 1 and one.dtype.newbyteorder("<") != one.dtype
    order = "F" if one.fortran and len(one.shape) > 1 else "C"
    core = _core.open_raw(path, one.dtype.name, list(one.shape), order, offset, 0, False, big)
    return opened_by("npz", os.path.abspath(path), name, handle=Array(core, "r"))


def _unpack(call: Call, path: str, name: str, target: str) -> Array:
    """Write a member, which is a `.npy`, as a file of its own. Holds a few MiB."""
    call.room("a piece of the member", 4 * _PIECE)
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{name}.npy")
        report, moved = Reported(call, info.file_size), 0
        output: _core.Output | None = _core.Output(target, False, info.file_size)
        try:
            assert output is not None
            built = output.directory
            with archive.open(info) as source, writing("open", built), open(built, "wb") as file:
                while piece := source.read(_PIECE):  # to the end: that looks at the archive's checksum
                    file.write(piece)
                    moved += len(piece)
                    report.at(moved)
            output.publish()
        except BaseException:
            output = None  # a traceback may keep it alive for long
            raise
    return Array(open_core(target, "r"))


def told(archive: zipfile.ZipFile, path: str, key: str | None) -> dict[str, Any]:
    """Return what the headers say of arrays; nothing is unpacked."""
    names = members(archive)
    facts: dict[str, Any] = {"members": names[:40]}
    name = key or (names[0] if len(names) == 1 else None)
    if name is None:
        return facts
    one = held(archive, path, name)
    facts |= {"member": name, "kind": "array", "shape": list(one.shape), "dtype": one.dtype.name}
    facts["opened"] = "in place" if lies_open(one) else "by import"
    facts["stored_as"] = f"{'columns' if one.fortran else 'rows'}{'' if lies_open(one) else ', deflated'}"
    return facts


def write(call: Call, source: Array, built: str, report: Reported) -> None:
    """Write an array to the new file `built` as ``np.savez(built, array)`` does: not deflated, "arr_0"."""
    if source.dtype.kind not in "biufc":
        raise FormatError(f"convert: {source.dtype} has no place in .npz; plain numbers have.")
    moved = 0
    with (
        zipfile.ZipFile(built, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        archive.open(f"{_NAME}.npy", "w", force_zip64=True) as file,
    ):
        descr = npy_format.dtype_to_descr(source.dtype)
        header = {"descr": descr, "fortran_order": False, "shape": tuple(source.shape)}
        npy_format.write_array_header_1_0(file, header)
        blocks = dense_blocks(call, source, beside=1) if source.shape else [(0, np.asarray(source[...]))]
        for _, block in blocks:
            values = np.ascontiguousarray(block)
            file.write(values.data if values.size else b"")
            moved += values.nbytes
            report.at(moved)


def choose(archive: zipfile.ZipFile, path: str, key: str | None) -> str:
    """Return which array is meant."""
    names = members(archive)
    if key is not None:
        return key
    if len(names) == 1:
        return names[0]
    said = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    raise FormatError(
        f"open: '{path}' holds {len(names)} arrays; name one with key= ({said})."
        if names else f"open: '{path}' is an archive without arrays (.npy)."
    )  # fmt: skip
