"""What stands beside a matrix of cells: names of rows and columns, categories; AnnData, 10x and loom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._errors.classes import FormatError
from ..._output.axis_names import AxisNames, Names
from ..._runtime.call import Call
from .datasets import text

__all__ = ["axes_of", "is_10x", "is_loom", "resolved", "values_at"]

_LEAST = 64  # bytes that a text takes in memory, about, beside its letters

#: Where the names of loom's rows and columns stand, by who wrote it.
_GENES, _CELLS = ("Gene", "var_names", "gene_names", "Accession"), ("CellID", "obs_names", "cell_names")


def is_10x(node: Any) -> bool:
    """Say whether a group is a matrix as CellRanger writes it: cells are its compressed rows."""
    return all(name in node for name in ("data", "indices", "indptr", "shape", "barcodes"))


def is_loom(file: Any) -> bool:
    """Say whether a file is loom's: a dense matrix, genes x cells."""
    return all(name in file for name in ("matrix", "row_attrs", "col_attrs")) and hasattr(
        file["matrix"], "chunks"
    )


def _strings(dataset: Any) -> Names:
    """Read a data set of texts."""
    width = max(_LEAST, dataset.dtype.itemsize)
    Call("open").room("the names", 3 * width * int(np.prod(dataset.shape, dtype=object)))
    values = dataset[...]
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    return np.array([text(value) for value in values.ravel()], dtype=np.str_)


def _is_text(h5py: Any, node: Any) -> bool:
    if not isinstance(node, h5py.Dataset) or len(node.shape or (0, 0)) != 1:
        return False
    return node.dtype.kind == "S" or h5py.check_string_dtype(node.dtype) is not None


def _is_category(h5py: Any, node: Any) -> bool:
    return isinstance(node, h5py.Group) and "codes" in node and "categories" in node


def _values(h5py: Any, file: Any, node: Any) -> NDArray[Any] | None:
    """Return the values of a node that holds texts or a category; None of anything else."""
    if _is_text(h5py, node):
        return _strings(node)
    if _is_category(h5py, node):
        codes, labels = node["codes"][...], node["categories"]
        known = _strings(labels) if _is_text(h5py, labels) else labels[...]
        return _labelled(codes, known)
    if isinstance(node, h5py.Group) and "values" in node and _is_text(h5py, node["values"]):
        return _strings(node["values"])  # texts of which some may be missing
    if isinstance(node, h5py.Dataset) and "categories" in node.attrs:  # AnnData before 0.7
        labels = file[node.attrs["categories"]]
        return _labelled(node[...], _strings(labels) if _is_text(h5py, labels) else labels[...])
    return None


def _labelled(codes: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return the label of every code; below 0 there is none: "" or NaN."""
    if not len(labels):
        return np.full(len(codes), "", np.str_)
    found: NDArray[Any] = labels[np.clip(codes, 0, len(labels) - 1)]
    if (codes < 0).any():
        found = found.astype(np.float64) if labels.dtype.kind in "iuf" else found.copy()
        found[codes < 0] = np.nan if found.dtype.kind == "f" else ""
    return found


# Names of rows and columns ----------------------------------------------------------------------------------


def _index(h5py: Any, table: Any) -> Names | None:
    """Return the names of the rows of one of AnnData's tables."""
    if isinstance(table, h5py.Dataset):  # before 0.7
        fields = table.dtype.names or ()
        name = next((one for one in ("index", "_index") if one in fields), fields[0] if fields else None)
        if name is None:
            return None
        return np.array([text(value) for value in table[name]], dtype=np.str_)
    name = text(table.attrs.get("_index", "_index"))
    values = _values(h5py, table, table[name]) if name in table else None
    return None if values is None else values.astype(np.str_)


def axes_of(
    h5py: Any, file: Any, key: str, reading: Callable[[], Any]
) -> tuple[AxisNames | None, AxisNames | None]:
    """Return who reads the names of the rows and columns of a member, as its format means it.

    `reading` opens the file again.
    """

    def table(path: str) -> AxisNames:
        def read() -> Names | None:
            with reading() as again:
                return _index(h5py, again[path]) if path in again else None

        return read

    def strings(*paths: str) -> AxisNames:
        def read() -> Names | None:
            with reading() as again:
                found = next((path for path in paths if path in again and _is_text(h5py, again[path])), None)
                return None if found is None else _strings(again[found])

        return read

    inner = key.strip("/")
    top = inner.partition("/")[0]
    node = file[inner] if inner else file
    if isinstance(node, h5py.Group) and is_10x(node):
        at = f"{inner}/" if inner else ""
        return strings(f"{at}barcodes"), strings(f"{at}features/name", f"{at}gene_names", f"{at}genes")
    if is_loom(file) and (inner == "matrix" or top == "layers"):
        cells = strings(*(f"col_attrs/{name}" for name in _CELLS))
        return cells, strings(*(f"row_attrs/{name}" for name in _GENES))
    if "obs" not in file or "var" not in file:
        return None, None
    obs, var = table("obs"), table("var")
    raw = table("raw/var") if top == "raw" else table("raw.var")
    known: dict[str, tuple[AxisNames | None, AxisNames | None]] = {
        "X": (obs, var), "layers": (obs, var), "raw": (obs, raw), "raw.X": (obs, raw), "obsm": (obs, None),
        "varm": (var, None), "obsp": (obs, obs), "varp": (var, var),
    }  # fmt: skip
    return known.get(top, (None, None))


# Values of categories and texts -----------------------------------------------------------------------------

_BESIDE = ("obs", "var", "raw", "row_attrs", "col_attrs")  # groups that hold values of rows and columns


def resolved(file: Any, key: str, place: str) -> str:
    """Return where a key stands: a name alone may be that of a value of the rows or of the columns."""
    if "/" in key or key in file:
        return key
    found = [
        table
        for table in ("obs", "var")
        if table in file and hasattr(file[table], "keys") and key in file[table]
    ]
    if len(found) == 2:
        raise FormatError(
            f"open: '{place}' has {key!r} in obs and in var; say which: key='obs/{key}' or key='var/{key}'."
        )
    return f"{found[0]}/{key}" if found else key


def values_at(h5py: Any, file: Any, key: str) -> NDArray[Any] | None:
    """Return the values of a category or of texts that a key names; None where it names something else."""
    parts = key.strip("/").split("/")
    beside = parts[0] in _BESIDE or "features" in parts or parts[-1] in ("barcodes", "genes", "gene_names")
    node = file.get(key.strip("/")) if beside and len(parts) > 1 else None
    return None if node is None else _values(h5py, file, node)
