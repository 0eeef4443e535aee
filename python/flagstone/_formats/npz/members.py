"""Members of an `.npz`: where their bytes begin, and their headers, looked at before they are believed."""

from __future__ import annotations

import io
import struct
import zipfile
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from ..._errors.classes import FormatError
from ..._errors.regular import open_regular

__all__ = ["read_header", "start"]

_LONGEST = 10_000  # NumPy takes no longer headers


def start(path: str, member: zipfile.ZipInfo) -> int:
    """Return where a member's bytes begin: behind its local header, its name and its extra field."""
    with open_regular("open", path) as file:
        file.seek(member.header_offset)
        name, extra = struct.unpack("<26x2H", file.read(30))
    return int(member.header_offset) + 30 + int(name) + int(extra)


def read_header(file: IO[bytes], path: str, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of a `.npy`: shape, Fortran order, dtype."""
    try:
        return _read(file)
    except (ValueError, SyntaxError, TokenError) as error:  # NumPy parses the header as Python
        raise FormatError(
            f"open: the header of '{name}' of '{path}' cannot be read ({type(error).__name__}); the file "
            "is damaged, copy it again."
        ) from None


def _read(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy_format.read_magic(file)
    size = file.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(size, "little")
    if length > _LONGEST:  # before that many bytes are asked for
        raise ValueError(f"a header of {length} bytes")
    text = io.BytesIO(size + file.read(length))
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(text)
    return found
