"""NetCDF classic (CDF-1, CDF-2, CDF-5), in place: big-endian variables, one after the other or by records.

The format: https://docs.unidata.ucar.edu/nug/current/file_format_specifications.html
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import opened_by
from .._errors.classes import FormatError
from .._errors.messages import storage_error
from .._errors.regular import open_regular
from .._expression.cf import note_packing
from .._output.attributes import note_attributes, plain_attributes
from .._resume.registers import opener
from .._runtime.call import Call

__all__ = ["about", "open_file", "recognises"]

_TYPES = {
    1: "int8", 2: "S1", 3: "int16", 4: "int32", 5: "float32", 6: "float64",
    7: "uint8", 8: "uint16", 9: "uint32", 10: "int64", 11: "uint64",
}  # fmt: skip
_DIMENSION, _VARIABLE, _ATTRIBUTE = 10, 11, 12  # tags of lists
_STREAMED = {1: (1 << 32) - 1, 2: (1 << 32) - 1, 5: (1 << 64) - 1}  # records that nobody counted
_MOST_HEADER = 64 << 20
_MOST_RECORDS = 1 << 27  # 40 bytes of memory each while a variable is opened


def recognises(head: bytes) -> bool:
    """Say whether a file that begins like this is NetCDF classic."""
    return head[:3] == b"CDF" and head[3:4] in (b"\x01", b"\x02", b"\x05")


@dataclass
class _Variable:
    """What the header says of a variable."""

    name: str
    dims: list[str]
    shape: list[int]
    attributes: dict[str, Any]
    dtype: str
    begin: int
    record: bool  # the first dimension is that of records
    nbytes: int = 0  # of all of it, or of one record

    def __post_init__(self) -> None:
        inner = self.shape[1:] if self.record else self.shape
        self.nbytes = math.prod(inner) * np.dtype(self.dtype).itemsize


@dataclass
class _Header:
    """A file: what it holds and how its records lie."""

    variables: dict[str, _Variable] = field(default_factory=dict)
    records: int = 0
    record_bytes: int = 0


class _Reader:
    """The bytes of a header, from front to back."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path, self._data, self._at = path, data, 4
        self.version = data[3]

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise FormatError(f"open: '{self.path}' ends inside its header; it is damaged, copy it again.")
        part = self._data[self._at : self._at + count]
        self._at += count
        return part

    def number(self, code: str = "") -> int:
        """Return the next number; by default a count, which CDF-5 has in 64 bits."""
        code = code or (">Q" if self.version == 5 else ">I")
        return int(struct.unpack(code, self._take(struct.calcsize(code)))[0])

    def padded(self, count: int) -> bytes:
        """Return so many bytes, with those that fill up to four behind them skipped."""
        part = self._take(count)
        self._take(-count % 4)
        return part

    def text(self) -> str:
        return self.padded(self.number()).decode("utf-8", "replace")

    def list_of(self, tag: int) -> int:
        """Return how many things of a kind follow."""
        found, count = self.number(">I"), self.number()
        if found not in (0, tag) or (found == 0 and count):
            raise FormatError(
                f"open: '{self.path}': its header has {found} where {tag} belongs; it is damaged."
            )
        return count

    def attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self.list_of(_ATTRIBUTE)):
            name, kind, count = self.text(), self.number(">I"), self.number()
            dtype = np.dtype(_type(self.path, kind)).newbyteorder(">")
            data = self.padded(count * dtype.itemsize)
            found[name] = (
                data.decode("utf-8", "replace")
                if kind == 2
                else np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
            )
        return found


def _type(path: str, kind: int) -> str:
    if kind not in _TYPES:
        raise FormatError(
            f"open: '{path}': a variable has the type {kind}, which NetCDF does not; it is damaged."
        )
    return _TYPES[kind]


def _header(path: str) -> _Header:
    """Read the header."""
    try:
        with open_regular("open", path) as file:
            size, wanted = os.fstat(file.fileno()).st_size, 64 << 10
            while True:
                file.seek(0)
                data = file.read(wanted)
                try:
                    return _parsed(_Reader(path, data), size)
                except FormatError:
                    if len(data) < wanted or wanted >= _MOST_HEADER:
                        raise
                wanted *= 16
    except OSError as error:
        raise storage_error(
            f"open: '{path}' cannot be read ({error.strerror}).", error.errno or 0, path
        ) from None


def _parsed(reader: _Reader, size: int) -> _Header:
    header = _Header()
    records = reader.number()
    dims = [(reader.text(), reader.number()) for _ in range(reader.list_of(_DIMENSION))]
    reader.attributes()
    for _ in range(reader.list_of(_VARIABLE)):
        name = reader.text()
        chosen = [reader.number() for _ in range(reader.number())]
        if any(one >= len(dims) for one in chosen):
            raise FormatError(
                f"open: '{reader.path}': {name} has a dimension that is not there; it is damaged."
            )
        attributes, kind, _ = reader.attributes(), reader.number(">I"), reader.number()
        begin = reader.number(">I" if reader.version == 1 else ">Q")
        shape = [dims[one][1] for one in chosen]
        record = bool(shape) and shape[0] == 0
        header.variables[name] = _Variable(
            name, [dims[one][0] for one in chosen], shape, attributes, _type(reader.path, kind), begin, record
        )
    by_record = [one for one in header.variables.values() if one.record]
    header.record_bytes = sum(-(-one.nbytes // 4) * 4 for one in by_record)
    if len(by_record) == 1:  # nothing is filled up
        header.record_bytes = by_record[0].nbytes
    if records == _STREAMED[reader.version]:
        first = min((one.begin for one in by_record), default=size)
        records = max(0, size - first) // max(1, header.record_bytes)
    header.records = records
    for one in by_record:
        one.shape[0] = records
    for one in header.variables.values():
        last = one.begin + one.nbytes + (header.record_bytes * (records - 1) if one.record else 0)
        if last > size and (records or not one.record) and math.prod(one.shape):
            raise FormatError(
                f"open: '{reader.path}' has {size} bytes and its header asks for {last}; it is cut short, "
                "copy it "
                "again."
            )
    return header


def _numeric(header: _Header) -> list[str]:
    return [name for name, one in header.variables.items() if one.dtype != "S1"]


def _named(path: str, header: _Header, key: str | None) -> _Variable:
    """Return the variable of a name; by default the only one that is no coordinate."""
    names = _numeric(header)
    if key is None:
        others = [name for name in names if header.variables[name].dims != [name]]
        if len(others) != 1:
            listed = ", ".join(names[:12]) or "none"
            raise FormatError(f"open: '{path}' is NetCDF; name one of its variables with key= ({listed}).")
        return header.variables[others[0]]
    if key not in header.variables:
        raise storage_error(f"open: '{path}' has no {key!r}; it holds {', '.join(names[:12])}.", 2, path)
    if key not in names:
        raise FormatError(f"open: {key!r} of '{path}' holds text; a variable of numbers is needed.")
    return header.variables[key]


@opener("netcdf3")
def _stored(path: str, name: str) -> Array:
    """Open a variable as it is stored."""
    header = _header(path)
    one = _named(path, header, name)
    big_endian = np.dtype(one.dtype).itemsize > 1
    if not one.record or header.records <= 1 or header.record_bytes == one.nbytes:
        core = _core.open_raw(path, one.dtype, one.shape, "C", one.begin, 0, False, big_endian)
    else:
        if header.records > _MOST_RECORDS:
            raise FormatError(f"open: '{path}': {header.records} records are more than are possible here.")
        Call("open").room("the places of its records", 80 * header.records)
        places = np.zeros((header.records, 3), np.uint64)
        places[:, 0] = one.begin + np.arange(header.records, dtype=np.uint64) * header.record_bytes
        places[:, 1] = one.nbytes
        core = _core.open_chunk_table(
            path, f"{path}/{name}", one.shape, [1, *one.shape[1:]], one.dtype, big_endian, [],
            bytes(np.dtype(one.dtype).itemsize), places,
        )  # fmt: skip
    array = opened_by("netcdf3", os.path.abspath(path), name, handle=Array(core, "r"))
    note_attributes(array, lambda: (plain_attributes(one.attributes), list(one.dims)))
    return note_packing(array, one.attributes)


def open_file(place: str, key: str | None, mode: str) -> Array:
    """Open a variable of a file, in place."""
    if mode != "r":
        raise storage_error(
            f"open: '{place}' is NetCDF, which is opened for reading only; use mode='r', or fl.convert it.",
            30,
            place,
        )
    return _stored(place, _named(place, _header(place), key).name)


def about(place: str, key: str | None) -> dict[str, Any]:
    """Return the variables of a file, and of one its dimensions."""
    header = _header(place)
    facts: dict[str, Any] = {"members": _numeric(header)}
    try:
        one = _named(place, header, key)
    except FormatError:
        return facts
    return facts | {
        "member": one.name, "dims": ", ".join(one.dims) or "none",
        "layout": f"{header.records} records" if one.record else "contiguous",
        "stored_as": f"{shape_text(tuple(one.shape))} >{one.dtype}",
    }  # fmt: skip
