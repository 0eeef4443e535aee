"""Dense portable copies of Zarr arrays, groups and sparse matrices."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import _core
from .config import Call
from .errors import Error, FormatError, path_text, storage_error
from .imports import Reported
from .outputs import check_overwrite

__all__ = ["Packed", "pack"]

_STAGING = 16 << 20
_METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


@dataclass
class Packed:
    """What `pack` wrote."""

    path: str
    chunks: int = 0  #: of all arrays
    stored: int = 0  #: the others are all fill value and take nothing
    bytes_read: int = 0
    bytes_written: int = 0
    copied: tuple[str, ...] = ()  #: members that are not read here (text, say), whose files were copied

    def __str__(self) -> str:
        text = (
            f"{self.path}: {self.stored:,} of {self.chunks:,} chunks stored, "
            f"{_core.format_bytes(self.bytes_read)} in, {_core.format_bytes(self.bytes_written)} out"
        )
        return text + (f"; copied as they are: {', '.join(self.copied)}" if self.copied else "")


def pack(
    path: str | os.PathLike[str], out: str | os.PathLike[str], *, key: str | None = None,
    codec: str | None = None, checksum: str = "none", overwrite: bool = False,
    memory: int | str | None = None,
) -> Packed:  # fmt: skip
    """Write a dense portable copy: chunks one after the other, nothing of ours beside them.

    Parameters
    ----------
    path : path
        A Zarr array or group (of any kind: CSR, AnnData, v2), or what `flagstone` wrote.
    out : path
        A new Zarr v3 directory; appears whole.
    key : str, optional
        Only this member of a group.
    codec : str, optional
        Packs every array so (the words of `create`); default: as it is stored, where that is written here,
        else raw.
    checksum : {"none", "inner"}
        "inner" puts Zarr's crc32c behind every chunk: every program verifies it.
    overwrite : bool
        Replace what is at `out`.
    memory : int or str, optional
        Most resident memory of the process during the call.

    Returns
    -------
    Packed

    Notes
    -----
    Shards hold no slots, gaps or spare room, so that the copy is as long as its chunks; zarr-python and
    TensorStore read it. It is for carrying away: chunks have no room to change, so it opens for reading
    only, and `convert` makes a copy that can be written. Every chunk is verified on the way. Reads the stored
    bytes once and writes them once, about three chunks in memory.
    """
    if checksum not in ("none", "inner"):
        raise ValueError(f"pack: checksum is {checksum!r}; choose 'none' or 'inner'.")
    if codec is not None:
        codec = _core.check_codec(codec)
    place, target = path_text("pack", path), path_text("pack", out)
    place = place if key is None else os.path.join(place, key)
    if not os.path.isdir(place):
        if os.path.exists(place):
            raise FormatError(
                f"pack: '{place}' is a file; Zarr directories are packed (fl.convert writes one)."
            )
        raise storage_error(f"pack: '{place}' does not exist.", errno.ENOENT, place)
    if not (_core.is_zarr_group(place) or _core.is_zarr_array(place)):
        raise FormatError(f"pack: '{place}' is no Zarr array or group; only these are packed.")
    if os.path.realpath(target).startswith(os.path.realpath(place) + os.sep):
        raise storage_error(
            f"pack: '{target}' lies inside '{place}'; name another place.", errno.EINVAL, target
        )
    if os.path.lexists(target):
        if not overwrite:
            raise storage_error(
                f"pack: '{target}' exists; pass overwrite=True to replace it.", errno.EEXIST, target
            )
        check_overwrite("pack", target)
    call = Call("pack", memory)
    call.room("the transfer", 2 * _STAGING)
    report = Packed(target)
    with call.measured(f"pack {place}", "chunk by chunk") as done:
        output = _core.Output(target, overwrite, _needed(place))
        _Packing(call, codec or "", checksum == "inner", report, _needed(place)).tree(place, output.directory)
        output.publish()
        done.bytes_read, done.bytes_written = report.bytes_read, report.bytes_written
    return report


def _needed(place: str) -> int:
    """Return what the files of a tree take, but for those of ours."""
    total = 0
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not name.startswith("__")]
        total += sum(os.lstat(os.path.join(folder, name)).st_blocks * 512 for name in names)
    return total


def _members(place: str) -> Iterator[Path]:
    for name in sorted(os.listdir(place)):
        if not name.startswith((".", "__")) and name not in _METADATA:
            yield Path(place, name)


class _Packing:
    """One tree of groups and arrays on its way."""

    def __init__(self, call: Call, codec: str, checksum: bool, report: Packed, total: int) -> None:
        self.call, self.codec, self.checksum, self.report = call, codec, checksum, report
        self.told = Reported(call, total)

    def tree(self, source: str, target: str) -> None:
        if _core.is_zarr_array(source):
            self._array(source, target)
            return
        _core.write_group(target, _core.open_group(source)[0])
        for member in _members(source):
            inner = f"{target}/{member.name}"
            if member.is_symlink():  # a second name of an array beside it (binsparse)
                os.symlink(os.readlink(member), inner)
            elif member.is_dir() and (_core.is_zarr_array(str(member)) or _core.is_zarr_group(str(member))):
                self.tree(str(member), inner)

    def _array(self, source: str, target: str) -> None:
        try:
            array = _core.open_zarr(source)
        except (FormatError, Error) as error:
            if isinstance(error, OSError):
                raise
            # Types that are not read here; whatever its files say, they say it in the copy too.
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__flagstone"))
            self.report.copied += (os.path.basename(source),)
            return
        chunk = 1
        for extent in array.chunks:
            chunk *= extent
        self.call.room(
            "three chunks", 3 * chunk * max(1, array.nbytes // max(1, _elements(array))) + _STAGING
        )
        before = self.report.bytes_read
        done = self.call.engine.pack(
            source, target, self.codec, self.checksum, _STAGING, lambda read: self.told.at(before + read)
        )
        self.report.chunks += done.chunks
        self.report.stored += done.stored
        self.report.bytes_read += done.bytes_read
        self.report.bytes_written += done.bytes_written


def _elements(array: _core.Array) -> int:
    count = 1
    for extent in array.shape:
        count *= extent
    return count
