"""Results back into AnnData: `obsm/X_pca` of an `.h5ad` or a Zarr store, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from typing import Any

import numpy as np

from ... import _core
from ..._array.array import Array, shape_text
from ..._array.handle import built_aside
from ..._array.requests import assign, take
from ..._errors.classes import FormatError, ShapeError
from ..._errors.messages import storage_error, writing
from ..._errors.regular import open_regular
from ..._output.destination import check_new
from ..._runtime.call import Call
from ..zarr.groups import attributes

__all__ = ["write_obsm"]

_ROWS = 8 << 20  # bytes written at a time


def write_obsm(path: str | os.PathLike[str], name: str, values: Any, *, overwrite: bool = True) -> None:
    """Put one row of numbers for each observation into AnnData's `obsm`, as scanpy does with "X_pca".

    Parameters
    ----------
    path : path
        An `.h5ad` file or an AnnData Zarr directory, version 2 or 3.
    name : str
        Name in `obsm`.
    values : ndarray or Array, observations x anything
        As `fl.pca(...).scores`.
    overwrite : bool
        Replace an entry of that name.

    Notes
    -----
    Nothing else in the file is copied. HDF5 is changed through a journal beside the file: its new pages are
    written there first and put in place once it is complete; if the process dies meanwhile, the next
    `fl.open` or `write_obsm` of the file finishes that, and until then other programs may find the file
    inconsistent. Writes the values twice and a few pages. In a Zarr store the array is built aside and
    renamed; consolidated metadata, which would not know it, is removed first.
    """
    place, call = os.fspath(path), Call("write_obsm")
    if not os.path.exists(place):
        raise storage_error(f"write_obsm: '{place}' does not exist.", errno.ENOENT, place)
    if not name or "/" in name or name.startswith("."):
        raise FormatError(f"write_obsm: {name!r} is no name for an entry; use one like 'X_pca'.")
    shape, dtype, _ = check_new("write_obsm", values.shape, values.dtype)
    if len(shape) < 2:
        raise ShapeError(f"write_obsm: the values are {shape_text(shape)}; rows of numbers are needed.")
    call.room("a block of rows", 2 * min(_ROWS, int(np.prod(shape, dtype=object)) * 8) + (16 << 20))
    if os.path.isdir(place):
        _into_zarr(call, place, name, values, dtype, overwrite)
    else:
        _into_hdf5(call, place, name, values, dtype, overwrite)


def _blocks(call: Call, values: Any) -> Any:
    """Yield (first row, rows as ndarray)."""
    row = max(1, int(np.prod(values.shape[1:], dtype=object)) * values.dtype.itemsize)
    step = max(1, _ROWS // row)
    for first in range(0, values.shape[0], step):
        key = np.s_[first : first + step]
        yield first, take(values, call, key) if isinstance(values, Array) else np.asarray(values[key])


def _check(place: str, name: str, rows: int, wanted: int | None, there: bool, overwrite: bool) -> None:
    if wanted is None:
        raise FormatError(
            f"write_obsm: '{place}' does not say that it is AnnData ('encoding-type'); obsm is its."
        )
    if rows != wanted:
        raise ShapeError(f"write_obsm: the values have {rows} rows and '{place}' has {wanted} observations.")
    if there and not overwrite:
        raise storage_error(
            f"write_obsm: '{place}' has obsm/{name}; pass overwrite=True to replace it.", errno.EEXIST, place
        )


def check_target(place: str, name: str, rows: int, overwrite: bool) -> None:
    """Refuse what `write_obsm` would refuse, before the values are computed."""
    if not os.access(place, os.W_OK):
        raise storage_error(f"write_obsm: '{place}' cannot be written by you.", errno.EACCES, place)
    if not os.path.isdir(place):
        from .file import h5py_module, reading  # with what most processes do not need
        from .page_journal import recover

        recover(place)
        if not h5py_module("write_obsm").is_hdf5(place):
            raise FormatError(
                f"write_obsm: '{place}' is no AnnData; a .h5ad file or its Zarr form is needed."
            )
        with reading(place) as file:
            _check(place, name, rows, _observations(file), f"obsm/{name}" in file, overwrite)
        return
    wanted = None
    if attributes(place).get("encoding-type") == "anndata":
        index = attributes(f"{place}/obs").get("_index", "_index")
        wanted = _length(f"{place}/obs/{index}")
    _check(place, name, rows, wanted, os.path.lexists(f"{place}/obsm/{name}"), overwrite)


# HDF5 -------------------------------------------------------------------------------------------------------


def _observations(file: Any) -> int | None:
    obs = file.get("obs")
    if obs is None:
        return None
    if not hasattr(obs, "keys"):
        return int(obs.shape[0])  # AnnData before 0.7: one structured data set
    index = obs.attrs.get("_index", "_index")
    return int(obs[index].shape[0]) if index in obs else None


def _into_hdf5(call: Call, place: str, name: str, values: Any, dtype: str, overwrite: bool) -> None:
    from .file import h5py_module
    from .page_journal import Journal

    h5py = h5py_module("write_obsm")
    check_target(place, name, values.shape[0], overwrite)
    with Journal(place) as journal:
        with h5py.File(journal, "r+") as file:
            obsm = file.require_group("obsm")
            if "encoding-type" not in obsm.attrs:
                obsm.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
            if name in obsm:
                del obsm[name]
            data = obsm.create_dataset(name, values.shape, dtype)
            data.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
            for first, block in _blocks(call, values):
                data[first : first + len(block)] = block
        journal.commit()


# Zarr -------------------------------------------------------------------------------------------------------


def _into_zarr(call: Call, place: str, name: str, values: Any, dtype: str, overwrite: bool) -> None:
    v2 = os.path.exists(f"{place}/.zgroup")
    target = f"{place}/obsm/{name}"
    check_target(place, name, values.shape[0], overwrite)
    output: _core.Output | None = None
    made = not os.path.isdir(f"{place}/obsm")
    try:
        with writing("write_obsm", place, target):
            if made:
                _make_obsm(f"{place}/obsm", v2)
            output = _core.Output(target, overwrite, 0)
            (_write_v2 if v2 else _write_v3)(call, output.directory, values, dtype)
            _forget_consolidated(place)
            output.publish()
    except BaseException:
        output = None  # a traceback may keep it alive for long
        if made:
            _unmake_obsm(f"{place}/obsm")
        raise


def _length(place: str) -> int | None:
    for file in ("zarr.json", ".zarray"):
        if os.path.exists(f"{place}/{file}"):
            with open_regular("write_obsm", f"{place}/{file}") as text:
                return int(json.load(text)["shape"][0])
    codes = f"{place}/codes"  # a categorical index
    return _length(codes) if os.path.isdir(codes) else None


def _replace_text(path: str, text: str) -> None:
    try:
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            _core.sync_file(file.fileno(), f"{path}.part")
        os.replace(f"{path}.part", path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(f"{path}.part")
        raise


def _forget_consolidated(place: str) -> None:
    """Remove the copy of all metadata at the root; readers look at every array instead."""
    if os.path.exists(f"{place}/.zmetadata"):
        os.unlink(f"{place}/.zmetadata")
    for file in (f"{place}/zarr.json", f"{place}/obsm/zarr.json"):
        if os.path.exists(file):
            with open_regular("write_obsm", file) as text:
                root = json.load(text)
            if root.pop("consolidated_metadata", None) is not None:
                _replace_text(file, json.dumps(root, indent=2))


def _make_obsm(place: str, v2: bool) -> None:
    about = {"encoding-type": "dict", "encoding-version": "0.1.0"}
    if not v2:
        _core.write_group(place, json.dumps(about))
        return
    os.mkdir(place)
    _replace_text(f"{place}/.zattrs", json.dumps(about))
    _replace_text(f"{place}/.zgroup", '{"zarr_format": 2}')


def _unmake_obsm(place: str) -> None:
    """Remove a group that was made, unless somebody has put an array into it meanwhile."""
    with contextlib.suppress(OSError):
        if set(os.listdir(place)) <= _GROUP:
            shutil.rmtree(place, ignore_errors=True)


_GROUP = {"zarr.json", ".zattrs", ".zgroup"}
_ABOUT = {"encoding-type": "array", "encoding-version": "0.2.0"}


def _write_v3(call: Call, directory: str, values: Any, dtype: str) -> None:
    core = _core.create_zarr(directory, list(values.shape), dtype, attributes=json.dumps(_ABOUT))
    out = built_aside(core)
    for first, block in _blocks(call, values):
        assign(out, call, np.s_[first : first + len(block)], block)
    core.flush()


def _write_v2(call: Call, directory: str, values: Any, dtype: str) -> None:
    """Raw chunks of whole rows: what every reader of Zarr v2 takes."""
    os.mkdir(directory)
    kind = np.dtype(dtype).newbyteorder("<")
    chunks = None
    for first, block in _blocks(call, values):
        chunks = chunks or [max(1, len(block)), *block.shape[1:]]
        padded = np.zeros(chunks, kind)
        padded[: len(block)] = block
        chunk = ".".join([str(first // chunks[0])] + ["0"] * (block.ndim - 1))
        with open(f"{directory}/{chunk}", "wb") as file:  # tofile() does not say why it could not
            file.write(padded.data)
    about = {
        "zarr_format": 2, "shape": list(values.shape), "chunks": chunks or [1, *map(int, values.shape[1:])],
        "dtype": kind.str, "compressor": None, "fill_value": None, "order": "C", "filters": None,
    }  # fmt: skip
    _replace_text(f"{directory}/.zattrs", json.dumps(_ABOUT))
    _replace_text(f"{directory}/.zarray", json.dumps(about))
