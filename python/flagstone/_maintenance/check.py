"""Whether what lies on disk is what was written, and what can be had back where it is not."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import _core
from .._array.array import Array
from .._array.handle import is_transposed
from .._array.requests import take
from .._errors.classes import Error, FormatError
from .._errors.messages import path_text, storage_error
from .._formats.open import head_of, open_path
from .._formats.registry import FORMATS, of_file
from .._formats.zarr.groups import compressed
from .._runtime.call import Call
from .._runtime.metadata_room import ALL_LEVELS, metadata_room
from .._sparse.array import SparseArray, matrix_of
from .._sparse.validation import check_columns

__all__ = ["CheckReport", "Damage", "RepairReport", "check", "repair"]

_PIECE: int = _core.box_staging
#: What the core says of arrays of text, which may be whole: there are no numbers to look at.
_TEXT = re.compile(
    r"dtype '([|<>]?[OSU]\d*)' is not supported|data_type .*(string|utf|bytes).* is not supported"
)


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong: the file, the chunk in it (None: its index or metadata), and what is wrong."""

    file: str
    chunk: tuple[int, ...] | None
    what: str

    def __str__(self) -> str:
        return self.what if self.file in self.what else f"{self.file}: {self.what}"


@dataclass
class CheckReport:
    """What `check` found."""

    __module__ = "flagstone"

    path: str
    chunks: int = 0  #: of all arrays
    stored: int = 0  #: the others are absent: all fill value
    verified: int = 0  #: equal to a checksum
    nbytes: int = 0  #: that were read
    damages: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing is damaged."""
        return not self.damages

    def __str__(self) -> str:
        rest = self.stored - self.verified - len([d for d in self.damages if d.chunk is not None])
        lines = [
            f"{self.path}: {'whole' if self.ok else f'{len(self.damages)} damaged'}; "
            f"{_core.format_bytes(self.nbytes)} read, {self.verified:,} of {self.stored:,} stored chunks "
            "equal their checksums" + (f", {rest:,} have none" if rest > 0 else "")
        ]
        lines += [f"  damaged: {damage}" for damage in self.damages]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass
class RepairReport:
    """What `repair` did, and what it could not do."""

    __module__ = "flagstone"

    path: str
    repaired: list[str] = field(default_factory=list)
    lost: list[Damage] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing is lost."""
        return not self.lost

    def __str__(self) -> str:
        lines = [f"{self.path}: {len(self.repaired)} repaired, {len(self.lost)} lost"]
        lines += [f"  repaired: {what}" for what in self.repaired]
        lines += [
            f"  lost: {damage.file}"
            + (f", chunk {damage.chunk}" if damage.chunk is not None else "")
            + f": {damage.what}"
            for damage in self.lost
        ]
        return "\n".join(lines)


def check(
    path: str | os.PathLike[str], key: str | None = None, *, memory: int | str | None = None
) -> CheckReport:
    """Read everything that a path holds and say what is damaged.

    Parameters
    ----------
    path : path
        A Zarr array or group (every array in it), or a file of any format that opens.
    key : str, optional
        Only this member.
    memory : int or str, optional
        Most resident memory of the process during the call.

    Returns
    -------
    CheckReport
        Its `damages` name file and chunk; `print` it for one line each. Damage is no exception here.

    Notes
    -----
    Reads metadata, the indexes of all shards, the checksums and every stored chunk once, in fixed memory.
    Of sparse matrices in Zarr pointers and indices are read once more, to see that they lie inside;
    arrays of text are named in the notes. A chunk is verified where it has a checksum: ours (arrays made
    here) or one inside it (``checksum="inner"``, and other programs' crc32c and fletcher32).
    """
    place = path_text("check", path)
    if not os.path.lexists(place):
        raise storage_error(f"check: '{place}' does not exist.", errno.ENOENT, place)
    call = Call("check", memory)
    report = CheckReport(place)
    with call.measured(f"check {place}", "every chunk") as done:
        if not os.path.isdir(place):
            _check_file(call, place, key, report)
        else:
            metadata_room("check", place, memory, levels=ALL_LEVELS)
            inner = _member(place, key)
            for folder in _arrays(inner, report):
                call.room("the pieces that are read", 3 * _PIECE)
                _check_array(call, folder, report)
            if report.ok:
                for folder in compressed(inner):
                    _check_sparse(call, folder, report)
        done.bytes_read = report.nbytes
    return report


def _member(place: str, key: str | None) -> str:
    """Return the directory to look at, or say that it is none of Zarr's."""
    inner = place if key is None else os.path.normpath(os.path.join(place, key))
    if not os.path.isdir(inner) or (
        key is not None and not inner.startswith(os.path.normpath(place) + os.sep)
    ):
        raise storage_error(f"check: '{place}' has no member {key!r}.", errno.ENOENT, inner)
    if not any(
        os.path.exists(f"{inner}/{name}") for name in ("zarr.json", ".zarray", ".zgroup", "__flagstone")
    ):
        raise FormatError(
            f"check: '{inner}' is a directory without zarr.json (or .zarray, .zgroup), so it is no Zarr "
            "array or group, or has lost the file that says so."
        )
    return inner


def _arrays(place: str, report: CheckReport) -> Iterator[str]:
    """Every array at or below a directory, each once: links of a sparse matrix name arrays that are there."""
    if os.path.exists(f"{place}/zarr.json") or os.path.exists(f"{place}/.zarray"):
        if not _core.is_zarr_group(place):
            yield place
            return
        try:
            _core.open_group(place)
        except (Error, OSError) as error:
            report.damages.append(Damage(f"{place}/zarr.json", None, str(error)))
    elif not os.path.exists(f"{place}/.zgroup"):
        report.damages.append(
            Damage(place, None, f"check: '{place}' has no zarr.json, so nothing says what it holds.")
        )
        return
    for name in sorted(os.listdir(place)):
        inner = Path(place, name)
        if name.startswith((".", "__")) or inner.is_symlink() or not inner.is_dir():
            continue
        yield from _arrays(str(inner), report)


def _check_array(call: Call, folder: str, report: CheckReport) -> None:
    before = report.nbytes
    try:
        found = call.engine.check(folder, None)
    except MemoryError:
        raise
    except (Error, OSError) as error:
        if _TEXT.search(str(error)):
            report.notes.append(f"not looked at: {error}")
        else:
            report.damages.append(Damage(f"{folder}/zarr.json", None, str(error)))
        return
    report.chunks += found.chunks
    report.stored += found.stored
    report.verified += found.verified
    report.nbytes = before + found.bytes
    report.damages += [_damage(damage) for damage in found.damages]
    report.notes += found.notes


def _damage(damage: _core.Damage) -> Damage:
    return Damage(damage.file, tuple(damage.chunk) or None, damage.what)


def _check_sparse(call: Call, place: str, report: CheckReport) -> None:
    """Look at the structure of a matrix whose chunks are whole: its pointers and its indices."""
    try:
        opened = open_path(place, decode=False)
        assert isinstance(opened, SparseArray)
        opened = opened.T if is_transposed(opened) else opened
        opened.product_operand()  # looks at all row pointers
        report.nbytes += _read_part(call, Array(matrix_of(opened, half=True).indices), opened)
    except MemoryError:
        raise
    except (Error, OSError) as error:
        report.damages.append(Damage(place, None, str(error)))


def _check_file(call: Call, place: str, key: str | None, report: CheckReport) -> None:
    if not place.endswith(tuple(suffix for one in FORMATS for suffix in one.suffixes)):
        of_file(place, head_of(place))  # what is of no format that opens is no damaged file: that is said
    try:
        one = of_file(place, head_of(place))
        verify = one.offers("verify")
        if verify is not None and key is None and not one.imports(place, key):
            report.nbytes = verify(place)
            report.notes.append("every member equals the archive's checksum")
            return
        report.nbytes = read_all(call, open_path(place, key, decode=False))
    except MemoryError:
        raise
    except (Error, OSError) as error:
        report.damages.append(Damage(place, None, str(error)))
    else:
        report.notes.append("the file has no checksums of ours: it was read and unpacked")


def read_all(call: Call, opened: Array | SparseArray) -> int:
    """Read every element, in pieces; the first damage is an exception that names the place."""
    call.room("the pieces that are read", min(3 * _PIECE, 3 * opened.nbytes))
    if not isinstance(opened, SparseArray):
        return _read_part(call, opened)
    opened.product_operand()  # looks at all row pointers
    matrix = matrix_of(opened, half=True)
    read = sum(_read_part(call, Array(part)) for part in (matrix.data, matrix.indptr))
    return read + _read_part(call, Array(matrix.indices), opened)


def _read_part(call: Call, part: Array, indices_of: SparseArray | None = None) -> int:
    """Read one array; `indices_of`: it holds the indices of a matrix, which must lie inside."""
    row = max(1, part.nbytes // max(1, part.shape[0])) if part.shape else 1
    rows = max(1, _PIECE // row)
    chunk = part.chunks[0] if part.chunks else 1
    rows = max(chunk, rows // max(1, chunk) * chunk) if part.shape and chunk < part.shape[0] else rows
    read = 0
    for first in range(0, part.shape[0] if part.shape else 1, rows):
        piece = take(part, call, np.s_[first : first + rows] if part.shape else ...)
        if indices_of is not None:
            check_columns(piece, matrix_of(indices_of, half=True).cols, first, indices_of.path)
        read += piece.nbytes
    return read


def repair(path: str | os.PathLike[str], *, accept: bool = False) -> RepairReport:
    """Recover what can be recovered of a damaged Zarr array or group.

    Parameters
    ----------
    path : path
        A Zarr array or group that was written here.
    accept : bool
        Chunks that do not match their checksums are right as they are (a program changed them on purpose),
        and so are those of shards that another program wrote: their checksums are written anew.

    Returns
    -------
    RepairReport
        `repaired` says what was done; `lost` what no copy here holds: that still fails when it is read.

    Notes
    -----
    An index that was damaged or cut off is written anew from the checksums of the slots; damaged checksums
    from the chunks as they are. What is whole is not touched. Reads the damaged shards once.
    """
    place = path_text("repair", path)
    if not os.path.isdir(place):
        raise FormatError(f"repair: '{place}' is no Zarr array or group; only these are repaired.")
    found = CheckReport(place)
    report = RepairReport(place)
    for folder in _arrays(place, found):
        one = _core.repair(folder, accept)
        report.repaired += one.repaired
        report.lost += [_damage(damage) for damage in one.lost]
    report.lost += found.damages
    return report
