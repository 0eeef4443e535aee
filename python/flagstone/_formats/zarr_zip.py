"""Zarr (v2, v3) in a zip archive, in place where the archive holds its files as they are."""

from __future__ import annotations

import json
import math
import os
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._array.array import Array
from .._array.handle import opened_by
from .._errors.classes import Error, FormatError
from .._errors.messages import storage_error
from .._errors.regular import open_regular
from .._expression.cf import note_packing
from .._runtime.call import Call
from .npz.members import start

__all__ = ["about", "open_file"]

_METADATA = ("zarr.json", ".zarray")
_MOST_TEXT = 64 << 20
_MOST_CHUNKS = 1 << 24
_ABSENT = (1 << 64) - 1
#: Codecs that the core unpacks, by their names in Zarr.
_STEPS = {"gzip": "gzip", "bz2": "bz2", "zlib": "zlib", "zstd": "zstd", "blosc": "blosc"}
_ADVICE = "unpack the archive (unzip) and open the directory"


class _Archive:
    """The files of a store: their names, and where they lie in the archive."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open_regular("open", path) as file, zipfile.ZipFile(file) as archive:
                self._members = {one.filename: one for one in archive.infolist() if not one.is_dir()}
                self._texts = {
                    name: archive.read(one)
                    for name, one in self._members.items()
                    if name.rpartition("/")[2] in (*_METADATA, ".zattrs") and one.file_size <= _MOST_TEXT
                }
        except Error:
            raise
        except (OSError, zipfile.BadZipFile, ValueError, RuntimeError, EOFError) as error:
            raise FormatError(f"open: '{path}' is damaged or no zip archive ({error}).") from None
        self.top = ""
        tops = {name.partition("/")[0] for name in self._members}
        if len(tops) == 1 and all("/" in name for name in self._members):
            self.top = f"{tops.pop()}/"

    def arrays(self) -> list[str]:
        """Names of the arrays."""
        found = []
        for name in sorted(self._texts):
            folder, _, file = name.removeprefix(self.top).rpartition("/")
            if file == ".zarray" or (file == "zarr.json" and self.json(name).get("node_type") == "array"):
                found.append(folder or "/")
        return found

    def json(self, name: str) -> dict[str, Any]:
        """Return a metadata file."""
        try:
            found = json.loads(self._texts.get(name, b"{}"))
        except ValueError:
            raise FormatError(f"open: '{name}' in '{self.path}' is no JSON; it is damaged.") from None
        return found if isinstance(found, dict) else {}

    def has(self, name: str) -> bool:
        return name in self._members

    def place(self, name: str) -> tuple[int, int] | None:
        """Return where the bytes of a file lie, and how many they are; None where it is not there."""
        one = self._members.get(name)
        if one is None:
            return None
        if one.compress_type != zipfile.ZIP_STORED or one.flag_bits & 1:
            raise FormatError(
                f"open: '{self.path}' packs its files; {_ADVICE}, or zip it without compression (-0)."
            )
        return start(self.path, one), one.file_size


@dataclass
class _Layout:
    """How the chunks of an array lie."""

    shape: list[int]
    chunks: list[int]
    dtype: str
    big_endian: bool
    steps: list[tuple[str, int]]
    fill: bytes
    attributes: dict[str, Any]
    files: list[int]  # shape of what a file holds: a chunk, or a shard of several
    key: str  # of a file: "c/{}" and its separator
    separator: str
    sum_of_index: int = 0  # bytes behind the index of a shard


def _fill(value: Any, dtype: str) -> bytes:
    try:
        if isinstance(value, str) and value.startswith("0x"):
            return int(value, 16).to_bytes(np.dtype(dtype).itemsize, "little")
        return np.array(0 if value is None else value).astype(dtype).tobytes()
    except (ValueError, TypeError, OverflowError):
        return bytes(np.dtype(dtype).itemsize)


def _steps(path: str, codecs: list[Any]) -> tuple[bool, list[tuple[str, int]]]:
    """Return the byte order and the steps of a chain of codecs (v3)."""
    steps, big = [], False
    for one in codecs:
        name, about = one.get("name"), one.get("configuration") or {}
        if name == "bytes":
            big = about.get("endian") == "big"
        elif name in _STEPS:
            steps.append((_STEPS[name], 1))
        else:
            raise FormatError(f"open: '{path}': the codec '{name}' is not read inside a zip; {_ADVICE}.")
    return big, steps


def _v3(path: str, root: dict[str, Any]) -> _Layout:
    codecs, chunks = root["codecs"], list(root["chunk_grid"]["configuration"]["chunk_shape"])
    files, extra = chunks, 0
    if len(codecs) == 1 and codecs[0].get("name") == "sharding_indexed":
        inner = codecs[0]["configuration"]
        index = [one.get("name") for one in inner["index_codecs"]]
        if index not in (["bytes"], ["bytes", "crc32c"]) or inner.get("index_location", "end") != "end":
            raise FormatError(
                f"open: '{path}': shards with such an index are not read inside a zip; {_ADVICE}."
            )
        codecs, chunks, extra = inner["codecs"], list(inner["chunk_shape"]), 4 * (len(index) - 1)
    big, steps = _steps(path, codecs)
    encoding = root.get("chunk_key_encoding", {})
    default = encoding.get("name", "default") == "default"
    separator = (encoding.get("configuration") or {}).get("separator", "/" if default else ".")
    dtype = np.dtype(str(root["data_type"])).name
    return _Layout(
        list(root["shape"]), chunks, dtype, big, steps, _fill(root.get("fill_value"), dtype),
        root.get("attributes") or {}, files, f"c{separator}{{}}" if default else "{}", separator,
        extra if files is not chunks else -1,
    )  # fmt: skip


def _v2(path: str, root: dict[str, Any], attributes: dict[str, Any]) -> _Layout:
    kind, compressor = np.dtype(str(root["dtype"])), root.get("compressor")
    if root.get("order", "C") != "C" or root.get("filters"):
        raise FormatError(f"open: '{path}': order F and filters are not read inside a zip; {_ADVICE}.")
    _, steps = _steps(path, [{"name": compressor.get("id")}] if compressor else [])
    big = kind.itemsize > 1 and kind.newbyteorder("<") != kind
    separator = root.get("dimension_separator", ".")
    chunks = list(root["chunks"])
    return _Layout(
        list(root["shape"]), chunks, kind.name, big, steps, _fill(root.get("fill_value"), kind.name),
        attributes, chunks, "{}", separator, -1,
    )  # fmt: skip


def _places(archive: _Archive, prefix: str, one: _Layout) -> NDArray[np.uint64]:
    """Return offset and bytes of every chunk; of shards, by their indexes."""
    grid = [-(-n // c) for n, c in zip(one.shape, one.chunks, strict=True)]
    if math.prod(grid) > _MOST_CHUNKS:
        raise FormatError(
            f"open: '{archive.path}': {math.prod(grid)} chunks are too many inside a zip; {_ADVICE}."
        )
    Call("open").room("the places of its chunks", 80 * math.prod(grid))
    places = np.zeros((*grid, 3), np.uint64)
    per_file = [f // c for f, c in zip(one.files, one.chunks, strict=True)]
    with open_regular("open", archive.path) as file:
        for at in np.ndindex(*(-(-n // f) for n, f in zip(one.shape, one.files, strict=True))):
            name = (
                one.key.format(one.separator.join(map(str, at)))
                if at
                else one.key.format("").rstrip("/.") or "0"
            )
            found = archive.place(prefix + name)
            if found is None:
                continue
            if one.sum_of_index < 0:
                places[at] = (*found, 0)
                continue
            entries = math.prod(per_file)
            file.seek(found[0] + found[1] - 16 * entries - one.sum_of_index)
            index = np.frombuffer(file.read(16 * entries), "<u8").reshape(*per_file, 2)
            corner = tuple(slice(i * p, (i + 1) * p) for i, p in zip(at, per_file, strict=True))
            inside = places[corner]
            index = index[tuple(slice(0, n) for n in inside.shape[:-1])]
            there = index[..., 0] != _ABSENT
            inside[..., 0] = np.where(there, index[..., 0] + np.uint64(found[0]), 0)
            inside[..., 1] = np.where(there, index[..., 1], 0)
            if (index[there].sum(axis=-1) > found[1]).any():
                raise FormatError(
                    f"open: '{archive.path}': a chunk of {name} lies outside its shard; it is damaged."
                )
    return places.reshape(-1, 3)


def stored(path: str, name: str) -> Array:
    """Open an array of the store."""
    archive = _Archive(path)
    prefix = archive.top + ("" if name == "/" else f"{name}/")
    try:
        if archive.has(f"{prefix}zarr.json"):
            one = _v3(path, archive.json(f"{prefix}zarr.json"))
        else:
            one = _v2(path, archive.json(f"{prefix}.zarray"), archive.json(f"{prefix}.zattrs"))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"open: the metadata of {name!r} in '{path}' cannot be read ({error}).") from None
    core = _core.open_chunk_table(
        path, f"{path}/{name.strip('/')}", one.shape, one.chunks, one.dtype, one.big_endian, one.steps,
        one.fill, _places(archive, prefix, one),
    )  # fmt: skip
    array = opened_by("zarr_zip", os.path.abspath(path), name, handle=Array(core, "r"))
    return note_packing(array, one.attributes)


def open_file(place: str, key: str | None, mode: str) -> Array:
    """Open an array of a store in an archive; nothing is unpacked."""
    if mode != "r":
        raise storage_error(
            f"open: '{place}' is a zip archive, which is opened for reading only; use mode='r', or "
            "fl.convert it.", 30, place,
        )  # fmt: skip
    names = _Archive(place).arrays()
    wanted = key.strip("/") if key else None
    if wanted is None and len(names) == 1:
        return stored(place, names[0])
    listed = ", ".join(names[:12]) or "no arrays"
    if wanted is None:
        raise FormatError(f"open: '{place}' is a group that holds {listed}; name one with key=.")
    if wanted not in names:
        raise storage_error(f"open: '{place}' has no {key!r}; it holds {listed}.", 2, place)
    return stored(place, wanted)


def about(place: str, key: str | None) -> dict[str, Any]:
    """Return the arrays of the store."""
    names = _Archive(place).arrays()
    return {"members": names[:40]} | ({"member": names[0]} if len(names) == 1 else {})
