"""Opening what lies on disk: Zarr directories and the formats of single files."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any, Literal, cast, overload

from .. import _core
from .._array.array import Array
from .._array.handle import derived, opened_by
from .._errors.classes import FormatError
from .._errors.messages import key_text, path_text, storage_error, warn_once
from .._errors.regular import open_regular
from .._expression.cf import packing_of
from .._expression.expression import Expression
from .._expression.times import TimeArray, cf_times, times_of
from .._lazy.structure import seen_whole
from .._resume.registers import opener
from .._sparse.array import SparseArray
from . import tenx
from .parts import open_parts, parts_of
from .raw import behind_user_block
from .registry import FORMATS, Format, of_file
from .table_folders import is_table_folder
from .zarr.groups import open_directory

__all__ = ["check_options", "head_of", "open_path"]


@overload
def open_path(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    key: str | None = None,
    mode: str = "r",
    *,
    verify: bool = False,
    decode: Literal[False] | None = None,
    header: bool | Sequence[str] | None = None,
    delimiter: str | None = None,
) -> Array | SparseArray: ...
@overload
def open_path(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    key: str | None = None,
    mode: str = "r",
    *,
    verify: bool = False,
    decode: bool | None,
    header: bool | Sequence[str] | None = None,
    delimiter: str | None = None,
) -> Array | SparseArray | Expression | TimeArray: ...
@opener("path")
def open_path(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    key: str | None = None,
    mode: str = "r",
    *,
    verify: bool = False,
    decode: bool | None = None,
    header: bool | Sequence[str] | None = None,
    delimiter: str | None = None,
) -> Array | SparseArray | Expression | TimeArray:
    """Open an array or a sparse matrix; nothing is loaded.

    Parameters
    ----------
    path : path, or list of paths
        A list, or a pattern (``"parts/*.npy"``, sorted), is one array: the rows of its files one after the
        other, for reading; they must agree in dtype and all other dimensions (`flagstone.concat` joins what
        does not). In place: a Zarr array or group (v2, v3), a CSR or CSC group (ours or AnnData's), `.npy`,
        HDF5 and `.h5ad`, 10x `.h5`, loom (needs h5py). Imported into scratch once, by streaming
        (`import_seconds` says how long): SciPy `.npz`, MatrixMarket `.mtx[.gz]`, SVMlight, folders of 10x,
        numeric columns of CSV and TSV (`.csv[.gz]`, `.tsv[.gz]`) and of Parquet and Arrow, files or a folder
        (needs pyarrow).
    key : str, optional
        Which member: of a group or an HDF5 file its path ("layers/counts"; AnnData's X by default), of
        tables (Parquet, Arrow, CSV) names of columns with commas (all numeric ones by default), of
        SVMlight "labels".
    mode : {"r", "r+"}
        "r+" allows assignment, where the format is written in place (Zarr made here, `.npy`).
    verify : bool
        Verify parts too: of a Zarr array every chunk that a request touches is read whole and compared with
        its checksum, which costs the rest of the chunk. Without it chunks are verified where all of a chunk
        is asked for.
    decode : bool, optional
        Of variables packed by the CF conventions (`scale_factor`, `add_offset`, `_FillValue`,
        `missing_value`, `_Unsigned`; netCDF 4, xarray): True gives the true values, lazily, with NaN for what
        is missing; False the stored numbers. By default the stored numbers too, and a warning, once for an
        array. Nothing changes for what is not packed. True makes dates of "days since 2000-01-01" too.
        NumPy's datetime64 and timedelta64 (`.npy`, Zarr) are int64 where it is False, and of a symmetric
        matrix of which one triangle is stored (`uplo=` of a result) that triangle, as with mode "r+".
    header : bool or sequence of str, optional
        Of CSV: whether the first line names the columns, or their names where no line does. By default the
        first line is a header where text stands above numbers. `Array.columns` tells the names.
    delimiter : str, optional
        Of CSV: what separates fields; guessed by default (`flagstone info` tells it).

    Returns
    -------
    Array, SparseArray, Expression or TimeArray
        A CSC matrix is the transpose of a CSR one: products take it, `fl.convert` turns it round. An
        Expression where `decode` had something to do. A TimeArray of dates and durations has slices,
        comparisons, `min`, `max` and `diff`, and `stored`, its numbers. Texts and categories beside a matrix
        ("obs/leiden") are an ndarray.
    """
    if mode not in ("r", "r+"):
        raise ValueError(f"open: mode is {mode!r}; choose 'r' or 'r+'.")
    if decode and mode == "r+":
        raise ValueError("open: decode=True gives values that are computed; use mode='r' with it.")
    options: dict[str, Any] = {"header": header, "delimiter": delimiter}
    options = {name: value for name, value in options.items() if value is not None}
    if (parts := parts_of(path)) is not None:
        return open_parts(
            parts, mode, lambda one: open_path(one, key, mode, verify=verify, decode=decode, **options)
        )
    place = path_text("open", cast("str", path))
    opened = _opened(place, key_text("open", key), mode, verify, options)
    where = os.path.abspath(f"{place}/{key}" if key else place)
    times = None if decode is False else times_of(opened)
    if times is None and decode:
        times = cf_times(opened, where)
    if times is not None:
        return times
    if mode == "r" and decode is not False:
        opened = seen_whole(opened)
    packing = None if decode is False else packing_of(opened)
    if packing is None or not isinstance(opened, Array):
        return opened
    if decode:
        return packing.decode(opened, where)
    warn_once(
        f"open: '{where}' is packed by the CF conventions ({packing.told}), and its elements are the stored "
        "numbers; pass decode=True for the true values, or decode=False for no warning."
    )
    return opened


def _opened(
    place: str, key: str | None, mode: str, verify: bool, options: dict[str, Any]
) -> Array | SparseArray:
    if not os.path.exists(place):
        raise storage_error(f"open: '{place}' does not exist.", errno.ENOENT, place)
    if os.path.isdir(place):
        check_options(place, None, options)
        if not _core.is_zarr_group(place) and not _core.is_zarr_array(place) and is_table_folder(place):
            return _of_tables(place, key, mode, verify)
        if not os.path.exists(f"{place}/zarr.json") and tenx.is_10x_folder(place):
            if verify or mode != "r":
                raise storage_error(
                    f"open: '{place}' (a folder of 10x) is imported for reading; use mode='r' and no "
                    "verify, or "
                    "fl.convert it and open that.", errno.EROFS, place,
                )  # fmt: skip
            return tenx.open_folder(place, key)
        opened = open_directory(place, key, mode)
        return _verified(opened, mode) if verify else opened
    if verify:
        raise FormatError(f"open: '{place}' is a file, which has no checksums of chunks; leave verify out.")
    one = of_file(place, head_of(place))
    if key is not None and not one.members:
        raise FormatError(f"open: '{place}' is a file and has no member {key!r}; leave key out.")
    if mode != "r" and one.imported:
        raise storage_error(
            f"open: '{place}' ({one.name}) is imported for reading; use mode='r', or fl.convert it and "
            "open that.",
            errno.EROFS, place,
        )  # fmt: skip
    check_options(place, one, options)
    found: Array | SparseArray = one.module().open_file(place, key, mode, **options)
    return found


def _of_tables(place: str, key: str | None, mode: str, verify: bool) -> Array:
    from . import tables

    if verify or mode != "r":
        raise storage_error(
            f"open: '{place}' (a folder of Parquet files) is imported for reading; use mode='r' and no "
            "verify, or "
            "fl.convert it and open that.", errno.EROFS, place,
        )  # fmt: skip
    return tables.open_file(place, key, mode)


def check_options(place: str, one: Format | None, options: dict[str, Any]) -> None:
    """Refuse what the format of a file has no use for; None: a directory."""
    known = (one.offers("OPEN_OPTIONS") if one is not None else None) or ()
    for name in options:
        if name not in known:
            raise FormatError(
                f"open: '{place}' is {one.name if one is not None else 'a directory'}; {name} is for CSV, "
                "leave it "
                "out."
            )


def _verified(opened: Array | SparseArray, mode: str) -> Array:
    """Return the same array, which verifies whatever it reads."""
    if not isinstance(opened, Array) or opened.path is None:
        raise FormatError(
            "open: verify=True is for dense arrays; the chunks of a sparse matrix are read whole, and "
            "verified, anyway."
        )
    path = os.path.abspath(opened.path)
    again = _verified_again(path) if mode == "r" else Array(_core.open_zarr(path, True, True), mode)
    derived(again).update(derived(opened))
    return again


@opener("verified")
def _verified_again(path: str) -> Array:
    return opened_by("verified", path, handle=Array(_core.open_zarr(path, False, True), "r"))


def head_of(place: str) -> bytes:
    """Return the first bytes of a file, by which formats are told apart."""
    try:
        with open_regular("open", place) as file:
            head = file.read(4096)
            if not any(one.recognises(head) for one in FORMATS):
                head = behind_user_block(file) or head
    except OSError as error:
        raise storage_error(
            f"open: '{place}' cannot be read ({error.strerror}).", error.errno or 0, place
        ) from None
    if not head:
        raise FormatError(f"open: '{place}' is empty.")
    return head
