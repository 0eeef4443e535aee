"""From one format to another, by name, in fixed memory, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._array.array import Array, shape_text
from .._array.handle import Operand, is_transposed
from .._errors.classes import FormatError, ShapeError
from .._errors.messages import key_text, path_text, storage_error, writing
from .._expression.times import TimeArray
from .._output.column_names import columns_of
from .._output.destination import in_group
from .._output.path_place import PathPlace
from .._output.place import Place
from .._output.replaceable import check_overwrite, exists
from .._resume.identity import identity
from .._resume.openers import check_unchanged, operand
from .._resume.record import UNRECORDED, Record, seconds_of
from .._resume.registers import Again, resumable
from .._runtime.call import Call, Moved
from .._runtime.routine import Streaming
from .._runtime.streaming import Reported, ahead
from .._scratch.builds import whole_or_nothing
from .._scratch.scratch import Result, prepare
from .._sparse.array import SparseArray
from .._sparse.builder import CsrBuilder, value_dtype
from .._sparse.row_blocks import row_blocks, rows_bytes
from .._sparse.to_csr import all_elements, csc_to_csr, unfolded
from .._sparse.validation import words_of
from .._sparse_algebra.layout import Laid
from .._storage.copy import copy
from .._storage.import_cache import Built, conversion
from . import tables, tenx
from .open import head_of, open_path
from .registry import Format, for_writing, of_file
from .table_folders import is_table_folder, table_files

__all__ = ["convert"]


def convert(
    src: str | os.PathLike[str] | Array | SparseArray | Sequence[str | os.PathLike[str]],
    dst: str | os.PathLike[str],
    *,
    key: str | None = None,
    overwrite: bool = False,
    layout: str | None = None,
    memory: int | str | None = None,
    **options: Any,
) -> None:
    """Write an array or a sparse matrix in another format, which the name of `dst` chooses.

    Parameters
    ----------
    src : path, Array, SparseArray or list of paths
        Whatever `open` opens, or what it returned; a list of CSV or of Parquet files, or a pattern
        (``"parts/*.csv"``), is read as one, in the order given (by name).
    dst : path
        Ends in ``.npy`` (dense), ``.npz`` (dense as `numpy.savez`, sparse as SciPy's `save_npz`), ``.mtx``,
        ``.mtx.gz``, ``.svm``, ``.svm.gz``, ``.csv[.gz]``, ``.tsv[.gz]``, ``.parquet``, ``.arrow`` (dense),
        ``.h5``, ``.hdf5`` or ``.h5ad``; ``.zarr`` or no ending: a Zarr directory (a CSR group for sparse
        matrices).
    key : str, optional
        Which member of `src`.
    overwrite : bool
        Replace, at once and whole, what is there: a file by a file, a Zarr store by a Zarr store. Other
        directories, and stores that hold foreign files, are refused.
    layout : str, optional
        Of a sparse matrix that goes to Zarr: "csr" (the default: what every peer reads), or one or several
        of the following with ``+`` between them. "bitpacked": indices as differences in few bits; no peer
        reads them. "pattern": all values are 1, none is stored (the fill value; peers read it; else take
        ``A.astype(bool)``). "triangle": of a symmetric or Hermitian matrix the elements on and below the
        diagonal, which `matmul` and `eigsh` read once for both triangles.
    memory : int or str, optional
        Most resident memory of the process during the call.
    **options
        Of SVMlight: ``labels`` (an array of one number a row, an Array or its path; default: those of a
        source in SVMlight, else zeros) and ``zero_based`` (count columns from 0; default: from 1, which
        every reader takes for what it is). Of CSV, as `open` has them: ``header`` and ``delimiter``, of `src`
        where that is CSV, else of `dst` (which gets the names of columns that the array has, else no header).

    Notes
    -----
    Reads the source once and writes the target once. A sparse matrix stored by columns (CSC) goes to Zarr
    and SVMlight by rows: its entries pass through bucket files, beside the target or in scratch. Text
    (MatrixMarket, SVMlight, CSV) and `.npz` go to Zarr directly (a dense MatrixMarket one, which lies by
    columns, through a flat file beside the target). `dst` appears when it is complete; what a killed
    conversion left is hidden. A long one to Zarr or `.npy` goes on there (`docs/guide/resume.md` says which),
    else the next one removes it.
    """
    _Conversion(src, dst, key, overwrite, layout, memory, options).run()


_BESIDE = 48  # bytes of an entry: a second block, columns of 64 bits, and what the writer orders


class _Conversion(Streaming[None]):
    """The checked arguments of one call."""

    def __init__(
        self, src: Any, dst: str | os.PathLike[str], key: str | None, overwrite: bool, layout: Any,
        memory: Any, options: dict[str, Any],
    ) -> None:  # fmt: skip
        place = path_text("convert", dst)
        self.layout = None if layout is None else words_of("convert", layout)
        super().__init__(Call("convert", memory))
        src, self.parts = _parts(src)
        if isinstance(src, (str, os.PathLike)) and not os.path.exists(src):
            raise storage_error(f"convert: '{os.fspath(src)}' does not exist.", errno.ENOENT, os.fspath(src))
        if not isinstance(src, (str, os.PathLike, Array, SparseArray)):
            raise TypeError(
                f"convert: src is {type(src).__name__}; a path, an Array or a SparseArray is needed."
            )
        if not overwrite and exists(place):
            raise storage_error(
                f"convert: '{place}' exists; pass overwrite=True to replace it.", errno.EEXIST, place
            )
        key_text("convert", key)
        one = for_writing(place)
        self.reading = _reading(src, self.parts, options)
        _check_options(options, one)
        check_overwrite("convert", place, one is not None)
        if one is None:
            in_group("convert", place)
        elif not os.path.isdir(os.path.dirname(os.path.abspath(place))):
            raise storage_error(
                f"convert: the directory of '{place}' does not exist; create it first.", errno.ENOENT, place
            )
        if layout is not None and one is not None:
            raise ShapeError(f"convert: layout is of Zarr groups, and '{place}' is {one.name}; leave it out.")
        self.src, self.key, self.options = src, key, options
        self.place, self.overwrite, self.format = place, overwrite, one

    @property
    def what(self) -> str:
        """What statistics call it."""
        src = self.src
        name = src if isinstance(src, (str, os.PathLike)) else shape_text(src.shape)
        return f"convert {name} to {self.place}"

    def stream(self, moved: Moved, stack: contextlib.ExitStack) -> None:
        """Open the source and write it by whoever writes such a target."""
        src, key = self.src, self.key
        if self.layout is not None and isinstance(src, (str, os.PathLike)):
            src = open_path(src, key, **self.reading)  # foreign files by way of scratch
        if self.format is None and isinstance(src, (str, os.PathLike)) and _imports(os.fspath(src), key):
            self._import(os.fspath(src), moved)
            return
        if len(self.parts) > 1:
            src = self._gathered(stack)
        opened = open_path(src, key, **self.reading) if isinstance(src, (str, os.PathLike)) else src
        if isinstance(opened, np.ndarray):
            raise FormatError(
                f"convert: {key!r} of '{src}' holds texts or a category; fl.open gives its "
                "values, and numbers are converted."
            )
        if isinstance(opened, TimeArray):
            raise FormatError(
                f"convert: '{src}' holds {opened.dtype}, which is not written here; convert its numbers, "
                "fl.open(...).stored."
            )
        if self.format is not None and self.format.name == "SVMlight":
            self.options["labels"] = _labels(self.options.get("labels"), src, key)
        if self.layout is not None and not isinstance(opened, SparseArray):
            raise ShapeError("convert: layout is of sparse matrices, and src is a dense array; leave it out.")
        moved.bytes_read = _stored(opened)
        if isinstance(opened, Array) and (self.format is None or self.place.endswith(".npy")):
            self._dense(opened, moved, stack)
        elif self.format is None:
            assert isinstance(opened, SparseArray)
            self._to_zarr(opened, moved, stack)
        else:
            if isinstance(opened, SparseArray):
                opened = all_elements("convert", opened, self.call.memory)
            self._export(opened, self.format, moved, stack)

    def _export(
        self, opened: Array | SparseArray, one: Format, moved: Moved, stack: contextlib.ExitStack
    ) -> None:
        """Write a file of another format."""
        known = opened.nbytes if self.place.endswith(".npy") else 0
        target = PathPlace(self.call, self.place, self.overwrite, known)
        built = target.open(stack)
        report = Reported(self.call, opened.nbytes)
        with writing("convert", built, self.place):
            one.offers("write")(self.call, opened, built, _flavour(self.place), report, **self.options)
        target.close()
        moved.bytes_written = os.path.getsize(self.place)

    def _import(self, src: str, moved: Moved) -> None:
        """Stream a file through that is not read in place; where that is worth it, it can be resumed."""
        module = _folder(src) if os.path.isdir(src) else of_file(src, head_of(src)).module()
        options: dict[str, Any] = self.reading | ({} if self.key is None else {"key": self.key})
        record, files = UNRECORDED, self.parts or ([src] if os.path.isfile(src) else _files(src))
        if getattr(module, "RECORDED", False):
            folder = src if os.path.isdir(src) else ""
            record = options["record"] = conversion(
                self.call, files, self.key, self.overwrite, self.reading, folder
            )
        given = self.parts if len(self.parts) > 1 else src
        built = module.import_to(self.call, given, self.place, self.overwrite, **options)
        moved.bytes_read = sum(map(os.path.getsize, files))
        moved.bytes_written = _stored(built)
        moved.where = record.where

    def _gathered(self, stack: contextlib.ExitStack) -> Array:
        """Bring several files into scratch, as one."""
        target = Result(prepare(self.call.runtime.scratch), "parts")
        stack.enter_context(whole_or_nothing(target))
        module = of_file(self.parts[0], head_of(self.parts[0])).module()
        options = self.reading | ({} if self.key is None else {"key": self.key})
        gathered: Array = module.import_to(self.call, self.parts, target.path, False, **options)
        target.tie(gathered)
        self.key = None
        return gathered

    def _dense(self, opened: Array, moved: Moved, stack: contextlib.ExitStack) -> None:
        """Copy an array; a long copy can be resumed."""
        place = Place(self.call, opened.shape, opened.dtype, self.place, None, overwrite=self.overwrite)
        place.columns = columns_of(opened)
        place.recorded("convert", lambda: {"a": identity(opened)}, 0, 2 * opened.nbytes)
        target = place.open(stack)
        flat = self.place.endswith(".npy")
        copied = copy(self.call, opened, target, Reported(self.call, opened.nbytes), place.checkpoint, flat)
        moved.bytes_written = _stored(place.close())
        if place.record.resumed:
            moved.bytes_read = moved.bytes_written = copied
            moved.where = place.where

    def _to_zarr(self, opened: SparseArray, moved: Moved, stack: contextlib.ExitStack) -> None:
        """Pack a sparse matrix by rows; a long conversion can be resumed."""
        call, overwrite = self.call, self.overwrite
        layout = opened.layout if self.layout is None else self.layout
        if opened.triangle and "triangle" not in layout:
            if layout != "csr":
                raise ShapeError(
                    f"convert: src stores one triangle; write all elements first (layout='csr'), then "
                    f"{layout}."
                )
            moved.bytes_written = _stored(unfolded(call, opened, self.place, overwrite))
            return
        if layout != "csr":
            laid = Laid(call, opened, layout, self.place)
            laid.stream(moved, stack)
            return

        def arguments() -> dict[str, object]:
            return {"a": identity(opened), "overwrite": overwrite}

        record = Record("convert", arguments, seconds_of(0, 4 * opened.nbytes), call.runtime)
        report = Reported(call, opened.nbytes)
        if is_transposed(opened):
            built = csc_to_csr(call, opened, self.place, overwrite, report, record=record)
            moved.bytes_written, moved.where = _stored(built), record.where
            return
        kept = value_dtype(opened.dtype, "convert")
        # The block that is written, as 64-bit columns too, and the next one, which another thread reads.
        builder = CsrBuilder(
            call, self.place, opened.shape[1], kept, overwrite, record=record, entries=opened.stored_values,
            beside=rows_bytes(opened, _BESIDE),
        )  # fmt: skip
        done = 0
        builder.rows = builder.held
        stack.enter_context(whole_or_nothing(builder))
        stack.enter_context(record.kept(builder))
        for _, pointers, columns, values in ahead(
            row_blocks(call, opened, builder.held, beside=_BESIDE, fixed=builder.bytes)
        ):
            builder.append(pointers, columns.astype(np.int64), values)
            done += values.nbytes
            report.at(done)
            builder.offer(builder.rows / max(1, opened.shape[0]))
        moved.bytes_written = _stored(builder.publish())
        if record.resumed:
            moved.bytes_read, moved.where = done, record.where


def _flavour(place: str) -> str | None:
    """Return what the name says beside the format."""
    kinds = {"gz": "gz", "h5ad": "h5ad", "arrow": "arrow", "feather": "arrow", "tsv": "tsv"}
    if place.endswith(".tsv.gz"):
        return "tsv.gz"
    return kinds.get(place.rpartition(".")[2])


def _check_options(options: dict[str, Any], one: Format | None) -> None:
    """Refuse what the format has no use for."""
    known = (one.offers("OPTIONS") if one is not None else None) or ()
    for name in options:
        if name not in known:
            form = one.name if one is not None else "Zarr"
            others = (
                f"{', '.join(known)} are" if known
                else "labels and zero_based are SVMlight's, header and delimiter CSV's"
            )  # fmt: skip
            raise TypeError(f"convert: {name!r} is no option of {form}; {others}.")


def _parts(src: Any) -> tuple[Any, list[str]]:
    """Return what is converted, and the files that are read as one: those of a list or a pattern."""
    if isinstance(src, (list, tuple)):
        parts = [path_text("convert", one) for one in src]
        if not parts:
            raise ValueError("convert: src is an empty list; at least one file is needed.")
    elif isinstance(src, str) and any(c in src for c in "*?[") and not os.path.exists(src):
        parts = sorted(glob.glob(src))
        if not parts:
            raise storage_error(f"convert: no file matches '{src}'.", errno.ENOENT, src)
    else:
        if isinstance(src, (str, os.PathLike)):
            path_text("convert", src)
        return src, []
    for one in parts:
        if not os.path.exists(one):
            raise storage_error(f"convert: '{one}' does not exist.", errno.ENOENT, one)
    if len(parts) > 1:
        kinds = {os.path.isfile(one) and of_file(one, head_of(one)).name for one in parts}
        if len(kinds) > 1 or not kinds & {"CSV", "Parquet", "Arrow"}:
            raise FormatError(
                f"convert: {len(parts)} files were given, and they are not all CSV or all Parquet; others "
                "are "
                "converted one by one."
            )
    return parts[0], parts


def _reading(src: Any, parts: list[str], options: dict[str, Any]) -> dict[str, Any]:
    """Take those of the options that say how the source is read."""
    if not isinstance(src, (str, os.PathLike)) or not os.path.isfile(src) or not options:
        return {}
    known = of_file(os.fspath(src), head_of(os.fspath(src))).offers("OPEN_OPTIONS") or ()
    return {name: options.pop(name) for name in known if name in options}


def _labels(given: Any, src: Any, key: str | None) -> Any:
    """Return the labels that were given, as an array; those of a source that has some."""
    if isinstance(given, (str, os.PathLike)):
        return open_path(given)
    if given is not None or not isinstance(src, (str, os.PathLike)) or not os.path.isfile(src) or key:
        return given
    if of_file(os.fspath(src), head_of(os.fspath(src))).name == "SVMlight":
        return open_path(src, "labels")
    return None


def _imports(src: str, key: str | None) -> bool:
    if os.path.isdir(src):
        return _folder(src) is not None and not (key and tenx.is_10x_folder(src))
    return os.path.isfile(src) and of_file(src, head_of(src)).imports(src, key)


def _folder(src: str) -> Any:
    """Return what imports a folder of files; None: it is none."""
    if _core.is_zarr_group(src) or _core.is_zarr_array(src):
        return None
    return tables if is_table_folder(src) else tenx if tenx.is_10x_folder(src) else None


def _files(src: str) -> list[str]:
    """Return what is read of such a folder."""
    return table_files(src) if is_table_folder(src) else [tenx.matrix_file(src)]


def _stored(built: Built) -> int:
    return built.stored_bytes if isinstance(built, SparseArray) else int(Operand.of(built).core.stored_bytes)


@resumable("sparse layout")
@resumable("convert")
def _again(path: str, told: dict[str, Any]) -> Again:
    if "layout" in told:
        return convert, (operand("src", told["a"]), path), {"overwrite": True, "layout": told["layout"]}
    if "file" not in told:
        return convert, (operand("src", told["a"]), path), {"overwrite": told["overwrite"]}
    files = [told["file"], *told.get("files", [])]
    for one in files:
        if not os.path.exists(one["path"]):
            raise storage_error(
                f"resume: src '{one['path']}' went away since; it cannot be gone on.",
                errno.ENOENT, one["path"],
            )  # fmt: skip
        check_unchanged("src", one)
    options = {"overwrite": told["overwrite"], "key": told["key"]} | told.get("reading", {})
    paths = [one["path"] for one in files]
    given = told.get("folder") or (paths if len(paths) > 1 else paths[0])
    return convert, (given, path), options
