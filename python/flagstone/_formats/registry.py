"""The list of file formats that `open`, `convert` and `info` share: who recognises, opens and writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .._array.array import Array
from .._errors.classes import FormatError
from .._resume.registers import opener
from . import hdf5, netcdf3, npz  # noqa: F401 - which register how their members are opened again

__all__ = ["FORMATS", "SIGNATURE", "Format", "for_writing", "of_file"]

#: Of HDF5: at byte 0, or behind a block of the user's own.
SIGNATURE = b"\x89HDF\r\n\x1a\n"


def _npy() -> ModuleType:
    from . import npy

    return npy


def _npz() -> ModuleType:
    from .npz import csr  # with zipfile, which most processes do not need

    return csr


def _hdf5() -> ModuleType:
    from .hdf5 import file

    return file


def _netcdf3() -> ModuleType:
    return netcdf3


def _zarr_zip() -> ModuleType:
    from . import zarr_zip  # with zipfile

    return zarr_zip


def _zipped_zarr(head: bytes) -> bool:
    return head[:4] == b"PK\x03\x04" and any(name in head for name in (b"zarr.json", b".zarray", b".zgroup"))


def _matrixmarket() -> ModuleType:
    from .text import matrixmarket

    return matrixmarket


def _svmlight() -> ModuleType:
    from .text import svmlight

    return svmlight


def _labelled() -> ModuleType:
    from .text import labelled

    return labelled


def _csv() -> ModuleType:
    from .text import csv

    return csv


def _columns() -> ModuleType:
    from . import tables

    return tables


@opener("zarr_zip")
def _open_zipped(path: str, name: str) -> Array:
    opened: Array = _zarr_zip().stored(path, name)
    return opened


@dataclass(frozen=True)
class Format:
    """One format of single files; its module is loaded when a file asks for it.

    The module has ``open_file(path, key, mode)``; where files are imported, ``import_to(call, path, target,
    replace, key)`` and, where some are not, ``in_place(path, key)``; the names of what both take beside that,
    OPEN_OPTIONS; where something is written, `write` and the names of its OPTIONS; what `info` adds,
    ``about(path, key)``; what `check` compares, ``verify(path)``.
    """

    name: str
    suffixes: tuple[str, ...]
    module: Callable[[], ModuleType]
    recognises: Callable[[bytes], bool]  # by the first bytes
    imported: bool = False  # by streaming into scratch; else opened in place
    members: bool = False  # `key` names a part

    def imports(self, path: str, key: str | None) -> bool:
        """Say whether this file is opened by import."""
        direct = self.offers("in_place") if self.imported else None
        return self.imported and not (direct is not None and direct(path, key))

    def offers(self, what: str) -> Any:
        """Return a function of the module, or None."""
        return getattr(self.module(), what, None)


def _packed_text(head: bytes) -> bool:
    return head[:2] == b"\x1f\x8b"


def _signature(head: bytes) -> bool:
    return any(head[at : at + 8] == SIGNATURE for at in (0, 512, 1024, 2048))


def _banner(head: bytes) -> bool:
    return head[:14].lower() == b"%%matrixmarket"


def _docword(head: bytes) -> bool:
    """Say whether three lines of a whole number come first, and then one of three."""
    words = [line.split() for line in head.split(b"\n")[:4]]
    counted = all(word.isdigit() for line in words for word in line)
    return counted and [len(line) for line in words] == [1, 1, 1, 3]


def _empty_docword(head: bytes) -> bool:
    """Say whether three such lines are all, the last of them 0: the name must tell, any text may be so."""
    words = head.split()
    return len(words) == 3 and all(word.isdigit() for word in words) and int(words[2]) == 0


def _svm_text(head: bytes) -> bool:
    from .text import svmlight

    return svmlight.looks_like(head)


def _labelled_text(head: bytes) -> bool:
    from .text import labelled

    return labelled.looks_like(head)


_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_SVM = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")

#: In the order in which they are asked; text last. What C++ programs are told of the same files:
#: src/flagstone/storage/open/foreign.cpp.
FORMATS = (
    Format("npy", (".npy",), _npy, lambda head: head[:6] == b"\x93NUMPY"),
    Format("Zarr in a zip", (".zip",), _zarr_zip, _zipped_zarr, False, True),
    Format("npz", (".npz",), _npz, lambda head: head[:4] in (b"PK\x03\x04", b"PK\x05\x06"), True, True),
    Format("HDF5", (".h5ad", ".h5", ".hdf5"), _hdf5, _signature, False, True),
    Format("NetCDF", (".nc",), _netcdf3, netcdf3.recognises, False, True),
    Format("Parquet", (".parquet",), _columns, lambda head: head[:4] == b"PAR1", True, True),
    Format("Arrow", (".arrow", ".feather"), _columns, lambda head: head[:6] == b"ARROW1", True, True),
    Format("MatrixMarket", (".mtx", ".mtx.gz"), _matrixmarket, _banner, True),
    Format("CSV", _CSV, _csv, lambda head: False, True, True),  # any text may be some: the name tells
    Format("Extreme Classification", (".xc",), _labelled, _labelled_text, True, True),
    Format("SVMlight", _SVM, _svmlight, _svm_text, True, True),
    Format("UCI docword", (), _matrixmarket, _docword, True),
)  # fmt: skip


_WRITTEN = ".zarr, .npy, .npz, .mtx, .mtx.gz, .svm, .csv, .tsv, .parquet, .arrow, .h5 or .h5ad"


def of_file(place: str, head: bytes) -> Format:
    """Return the format of a file by its first bytes; packed and doubtful text by its name."""
    for one in FORMATS:
        if one.name == "CSV" and place.endswith(one.suffixes):
            return one  # a date and a time look like SVMlight's entries
        if (
            one.name == "Zarr in a zip"
            and place.endswith(".zip")
            and head[:2] == b"PK"
            and b".npy" not in head
        ):
            return one  # its metadata may stand behind chunks
        if one.recognises(head):
            return one
    stem = place.removesuffix(".gz")
    called_docword = os.path.basename(place).startswith("docword.")
    if called_docword and (_packed_text(head) or _empty_docword(head)):
        return FORMATS[-1]
    for one in FORMATS:
        if one.name == "SVMlight" and place.endswith(one.suffixes) and one.module().may_be(head):
            return one  # its first rows have no entries
        text = one.name in ("MatrixMarket", "SVMlight")
        if text and stem.endswith(one.suffixes) and (_packed_text(head) or one.name == "MatrixMarket"):
            return one
        if text and stem.endswith(".txt") and _packed_text(head) and one.name == "SVMlight":
            return one
    raise FormatError(
        f"open: '{place}' is no format that is read here: Zarr (a directory), "
        f"{', '.join(one.name for one in FORMATS)}; a flat binary file opens with fl.open_raw."
    )


def for_writing(place: str) -> Format | None:
    """Return the format that a name asks for; None: a Zarr directory."""
    for one in FORMATS:
        if place.endswith(one.suffixes):
            if one.offers("write") is None:
                raise FormatError(
                    f"convert: {one.name} files ('{place}') are read and not written here; end it in "
                    f"{_WRITTEN}."
                )
            return one
    stem, suffix = os.path.splitext(place.rstrip("/"))
    packed = suffix in (".bz2", ".lz4", ".7z") or any(stem.endswith(one.suffixes) for one in FORMATS)
    if suffix != ".zarr" and (suffix[1:].isalpha() or packed):
        raise FormatError(
            f"convert: '{place}' asks for a {suffix} file, which is not written here; end it in {_WRITTEN}, "
            "or leave the ending out for a Zarr directory."
        )
    return None
