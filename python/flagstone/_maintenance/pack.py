"""Dense portable copies of Zarr arrays, groups and sparse matrices."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._errors.classes import Error, FormatError
from .._errors.messages import path_text, storage_error
from .._errors.regular import check_regular
from .._formats.zarr.groups import holds_times
from .._output.codec_choice import check_codec, samples
from .._output.path_place import PathPlace
from .._output.replaceable import check_overwrite, exists
from .._runtime.call import Call, Moved
from .._runtime.metadata_room import ALL_LEVELS, metadata_room
from .._runtime.plan import Plan
from .._runtime.routine import Streaming, routine
from .._runtime.streaming import Reported

__all__ = ["Packed", "pack"]

_STAGING: int = _core.box_staging
_METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


@dataclass
class Packed:
    """What `pack` wrote."""

    __module__ = "flagstone"

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


@routine
def pack(
    path: str | os.PathLike[str], out: str | os.PathLike[str], *, key: str | None = None,
    codec: str | None = None, checksum: str = "none", overwrite: bool = False,
    memory: int | str | None = None,
) -> _Packing:  # fmt: skip
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
    only, and `convert` makes a copy that can be written. Attributes, names of dimensions and fill values go
    along (those of Zarr v2 as v3 has them), links to members outside become copies. Every chunk is verified
    on the way. Reads the stored bytes once and writes them once, about three chunks in memory;
    ``pack.plan(...)`` counts them from the indexes, and packs a few chunks where the codec changes.
    """
    return _Packing(path, out, key, codec, checksum, overwrite, memory)


@dataclass
class _Counted:
    """What a plan counts, as the engine's own statistics name it."""

    bytes_read: int
    bytes_written: int
    flops: float
    peak_memory: int
    seconds: float
    spaces: tuple[()] = ()  # no device copies chunks


class _Packing(Streaming[Packed]):
    """Checked arguments, and the tree that they name."""

    method = "chunk by chunk"

    def __init__(
        self, path: str | os.PathLike[str], out: str | os.PathLike[str], key: str | None, codec: str | None,
        checksum: str, overwrite: bool, memory: int | str | None,
    ) -> None:  # fmt: skip
        if checksum not in ("none", "inner"):
            raise ValueError(f"pack: checksum is {checksum!r}; choose 'none' or 'inner'.")
        if codec is not None:
            check_codec("pack", codec, "")
        self.checksum, self.overwrite = checksum == "inner", overwrite
        self.codec = "" if codec is None else _core.check_codec(codec)
        place, self.target = path_text("pack", path), path_text("pack", out)
        self.place = place = place if key is None else os.path.join(place, key)
        if not os.path.isdir(place):
            if os.path.exists(place):
                raise FormatError(
                    f"pack: '{place}' is a file; Zarr directories are packed (fl.convert writes one)."
                )
            raise storage_error(f"pack: '{place}' does not exist.", errno.ENOENT, place)
        metadata_room("pack", place, memory, levels=ALL_LEVELS)
        if not (_core.is_zarr_group(place) or _core.is_zarr_array(place)):
            raise FormatError(f"pack: '{place}' is no Zarr array or group; only these are packed.")
        if os.path.realpath(self.target).startswith(os.path.realpath(place) + os.sep):
            raise storage_error(
                f"pack: '{self.target}' lies inside '{place}'; name another place.",
                errno.EINVAL,
                self.target,
            )
        if exists(self.target):
            if not overwrite:
                raise storage_error(
                    f"pack: '{self.target}' exists; pass overwrite=True to replace it.",
                    errno.EEXIST,
                    self.target,
                )
            check_overwrite("pack", self.target)
        super().__init__(Call("pack", memory))
        self.call.on(self.place)

    @property
    def what(self) -> str:
        """What plans and statistics call it."""
        return f"pack {self.place}"

    def plan(self) -> Plan:
        """Count from the indexes what would be moved."""
        call = self.call
        rates = call.use_profile().rates
        read = written = packed = 0
        held, seconds, sampled = 0, 0.0, 0
        for source, _ in self.arrays():
            if (array := _opened(source)) is None:
                nbytes = _needed(source)
                read, written = read + nbytes, written + nbytes
                continue
            one = _core.plan_pack(source, self.codec, self.checksum)
            read += one.moved.bytes_read
            moved = one.moved.bytes_written
            if one.again and one.codec != "raw":
                ratio, spent, number = _sampled(call, array, one.codec)
                moved = round(moved * ratio)
                seconds += spent * one.unpacked
                sampled += number
            packed += one.unpacked if array.unpack_bytes and one.again else 0
            written += moved
            held = max(held, one.memory)
        seconds += (
            read / rates["read_bytes_per_second"] + written / rates["write_bytes_per_second"]
            + packed / rates["decode_bytes_per_second"]
        )  # fmt: skip
        peak = _core.resident_bytes() + held + 2 * _STAGING
        counted = _Counted(read, written, 0.0, peak, seconds)
        note = f"{sampled} chunks were packed to see how much shorter they get" if sampled else ""
        return call.to_plan(counted, call.rounded(peak), self.what, self.method, 1, note)  # type: ignore[arg-type]

    def run(self) -> Packed:
        """Write the copy."""
        each = (
            _core.plan_pack(source, self.codec, self.checksum).memory
            for source, _ in self.arrays()
            if _opened(source) is not None
        )
        self.call.room("chunks as they are and packed", max(each, default=0) + 2 * _STAGING)
        return super().run()

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> Packed:
        """Copy the tree aside and let it appear."""
        report = Packed(self.target)
        place = PathPlace(self.call, self.target, self.overwrite, _needed(self.place))
        _Copying(self.call, self, report).run(place.open(stack))
        place.close()
        moved.bytes_read, moved.bytes_written = report.bytes_read, report.bytes_written
        return report

    def arrays(self) -> Iterator[tuple[str, str]]:
        """Yield every array that is copied, and its place below the copy."""
        for source, below in self.tree(self.place, ""):
            linked = bool(below) and os.path.islink(source) and self.second_name(source)
            if _core.is_zarr_array(source) and not linked:
                yield source, below

    def tree(self, source: str, below: str) -> Iterator[tuple[str, str]]:
        """Yield groups, arrays, and links that stay links; a group before what it holds."""
        yield source, below
        if (below and os.path.islink(source) and self.second_name(source)) or _core.is_zarr_array(source):
            return
        for name in sorted(os.listdir(source)):
            if name.startswith((".", "__")) or name in _METADATA:
                continue
            member = os.path.join(source, name)
            if _core.is_zarr_array(member) or _core.is_zarr_group(member):
                yield from self.tree(member, f"{below}/{name}")
            elif any(os.path.exists(f"{member}/{about}") for about in _METADATA):
                raise FormatError(
                    f"pack: '{member}' has metadata that nobody can read; it is damaged: restore it from a "
                    "copy, or name another member with key=."
                )

    def second_name(self, member: str) -> bool:
        """Whether a link is another name of what is copied anyway (binsparse's names)."""
        whole = os.path.realpath(self.place) + os.sep
        return not os.path.isabs(os.readlink(member)) and os.path.realpath(member).startswith(whole)


def _needed(place: str) -> int:
    """Return what the files of a tree take, but for those of ours."""
    total = 0
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not name.startswith("__")]
        total += sum(os.lstat(os.path.join(folder, name)).st_blocks * 512 for name in names)
    return total


def _opened(source: str) -> _core.Array | None:
    """Return an array, or None where its type is not read here, or not written: dates and durations."""
    try:
        opened = _core.open_zarr(source)
        return None if opened.dtype == "int64" and holds_times(source) else opened
    except (FormatError, Error) as error:
        if isinstance(error, OSError) or "damaged" in str(error):
            raise
        return None


def _sampled(call: Call, array: _core.Array, codec: str) -> tuple[float, float, int]:
    """Return packed ÷ unpacked bytes and seconds a byte, of a few chunks, and of how many."""
    taken = packed = number = 0
    seconds = 0.0
    dtype = np.dtype(array.dtype)

    def take(part: tuple[slice, ...]) -> NDArray[Any]:
        start = [p.start for p in part]
        shape = [min(p.stop, n) - p.start for p, n in zip(part, array.shape, strict=True)]
        values = np.empty(shape, dtype)
        call.engine.read_boxes(array, [(start, values)])
        return values

    for values in samples(array.shape, array.chunks, dtype, take):
        began = time.perf_counter()
        packed += _core.packed_bytes(codec, values)
        seconds += time.perf_counter() - began
        taken += values.nbytes
        number += 1
    return (packed / taken, seconds / taken, number) if taken else (1.0, 0.0, 0)


def _copy_as_it_is(source: str, target: str) -> None:
    def copy(one: str, to: str) -> None:
        check_regular("pack", one)  # a link to a device would be copied for ever
        shutil.copy2(one, to)

    try:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__flagstone"), copy_function=copy)
    except shutil.Error as error:
        one, _, why = error.args[0][0]
        raise storage_error(f"pack: '{one}' cannot be copied ({why}).", errno.EIO, one) from None


class _Copying:
    """One tree of groups and arrays on its way."""

    def __init__(self, call: Call, given: _Packing, report: Packed) -> None:
        self.call, self.given, self.report = call, given, report
        self.told = Reported(call, _needed(given.place))

    def run(self, target: str) -> None:
        for source, below in self.given.tree(self.given.place, ""):
            if below and os.path.islink(source) and self.given.second_name(source):
                os.symlink(os.readlink(source), target + below)
            elif _core.is_zarr_array(source):
                self._array(source, target + below, below.lstrip("/"))
            else:
                _core.write_group(target + below, _core.open_group(source)[0])

    def _array(self, source: str, target: str, name: str) -> None:
        given = self.given
        if _opened(source) is None:
            if not os.path.exists(f"{source}/zarr.json"):
                raise FormatError(
                    f"pack: '{source}' is Zarr v2 of a type that is not read here, and its files mean "
                    "nothing in the copy, which is v3; name another member with key=, or write the store "
                    "anew as v3 first."
                )
            # Whatever its files say, they say it in the copy too.
            _copy_as_it_is(source, target)
            self.report.copied += (name,)
            return
        before = self.report.bytes_read
        done = self.call.engine.pack(
            source, target, given.codec, given.checksum, lambda read: self.told.at(before + read)
        )
        self.report.chunks += done.chunks
        self.report.stored += done.stored
        self.report.bytes_read += done.bytes_read
        self.report.bytes_written += done.bytes_written
