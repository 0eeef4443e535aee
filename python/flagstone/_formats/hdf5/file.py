"""HDF5 and `.h5ad` in place: h5py reads the metadata, the engine reads the elements where they lie.

`datasets` maps one data set, `writer` writes new files.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from ... import _core
from ..._array.array import Array, shape_text
from ..._array.handle import opened_by
from ..._errors.classes import Error, FormatError
from ..._errors.messages import storage_error
from ..._expression.cf import ATTRIBUTES, note_packing
from ..._output.attributes import Described, note_attributes
from ..._output.axis_names import note_names
from ..._sparse.array import SparseArray
from ..zarr.groups import PARTS, binsparse_of
from .annotations import axes_of, is_10x, is_loom, resolved, values_at
from .attributes import described_by
from .datasets import FILTERS, OTHER_FILTERS, by_library, core_array, h5py_module, text
from .page_journal import recover
from .writer import write

__all__ = ["about", "h5py_module", "open_file", "reading", "write"]


@contextlib.contextmanager
def reading(place: str) -> Iterator[Any]:
    """Open a file with h5py; what that library says of a damaged one becomes a sentence."""
    h5py = h5py_module("open")
    recover(place)
    try:
        with h5py.File(place, "r") as file:
            yield file
    except Error:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, OSError) and error.errno:
            raise storage_error(
                f"open: '{place}' cannot be read ({os.strerror(error.errno)}).", error.errno, place
            ) from None
        reason = " ".join(str(error).split())
        raise FormatError(f"open: '{place}' is damaged or no HDF5 file ({reason[:200]}).") from None


# What is in a file ------------------------------------------------------------------------------------------


def _encoding(node: Any) -> str:
    """Return what AnnData says of a node, in today's words: csr_matrix, csc_matrix, anndata, ..."""
    if "h5sparse_format" in node.attrs:  # AnnData before 0.7
        return text(node.attrs["h5sparse_format"]) + "_matrix"
    if "encoding-type" in node.attrs:
        return text(node.attrs["encoding-type"])
    if hasattr(node, "keys") and is_10x(node):
        return "10x"
    return {"CSR": "csr_matrix", "CSC": "csc_matrix"}.get(_binsparse(node).get("format", ""), "")


def _binsparse(node: Any) -> dict[str, Any]:
    """Return the binsparse descriptor of a group, or {}."""
    with contextlib.suppress(ValueError):
        return binsparse_of({"binsparse": json.loads(text(node.attrs.get("binsparse", "{}")))})
    return {}


def _is_matrix(h5py: Any, node: Any) -> bool:
    if isinstance(node, h5py.Dataset):
        return node.dtype.kind in "biufc" and node.shape is not None
    return _encoding(node) in ("csr_matrix", "csc_matrix", "10x")


def _members(h5py: Any, file: Any, most: int = 1000) -> list[str]:
    """Names of the arrays and matrices of numbers in a file; the parts of a matrix are not listed.

    Single numbers are listed where there is nothing else: files are full of them.
    """
    found: list[str] = []
    numbers: list[str] = []

    def walk(group: Any, prefix: str) -> None:
        for name in group:
            if len(found) >= most:
                return
            node = group.get(name)
            if node is None:
                continue  # a link that leads nowhere
            if _is_matrix(h5py, node):
                (numbers if getattr(node, "shape", None) == () else found).append(prefix + name)
            elif isinstance(node, h5py.Group) and prefix.count("/") < 8:
                walk(node, f"{prefix}{name}/")

    walk(file, "")
    return found or numbers[:most]


def _default_key(h5py: Any, file: Any, place: str) -> str:
    annotated = _encoding(file) == "anndata" or place.endswith(".h5ad")
    if annotated and "X" in file:
        return "X"
    if _is_matrix(h5py, file):
        return "/"
    if is_loom(file) or ("matrix" in file and _encoding(file["matrix"]) == "10x"):
        return "matrix"
    names = _members(h5py, file)
    if annotated:  # what else it holds describes a matrix that is not there
        said = ", ".join(names[:12]) or "no arrays of numbers"
        raise FormatError(f"open: '{place}' has no X; it holds {said}; name one with key=.")
    if len(names) == 1:
        return names[0]
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    holds = f"it holds {listed}" if names else "there are none"
    raise FormatError(f"open: '{place}' is an HDF5 file; name one of its arrays with key= ({holds}).")


def _node(h5py: Any, file: Any, place: str, key: str) -> Any:
    node = file.get(key.strip("/")) if key != "/" else file
    if node is None:
        names = ", ".join(_members(h5py, file, 12))
        raise storage_error(
            f"open: '{place}' has no {key!r}; it holds {names or 'no arrays of numbers'}.", 2, place
        )
    if not _is_matrix(h5py, node):
        kind = f"a data set of {node.dtype}" if isinstance(node, h5py.Dataset) else "a group"
        inside = (
            [f"{key.strip('/')}/{name}" for name in _members(h5py, node, 12)] if kind == "a group" else []
        )
        more = f"; it holds {', '.join(inside)}" if inside else ""
        raise FormatError(f"open: {key!r} of '{place}' is {kind}; an array of numbers is needed{more}.")
    return node


def _cf_attributes(node: Any) -> dict[str, Any]:
    """Return the attributes of the CF conventions that a data set has and that h5py can read."""
    found = {}
    for name in ATTRIBUTES:
        with contextlib.suppress(OSError, RuntimeError, KeyError, ValueError, TypeError):
            found[name] = node.attrs[name]
    return found


def _described(place: str, key: str) -> Described:
    h5py = h5py_module("attrs")
    with reading(place) as file:
        return described_by(_node(h5py, file, place, key))


# Opening ----------------------------------------------------------------------------------------------------


def stored(place: str, key: str) -> Array | SparseArray:
    """Open a member as it is stored: of a CSC matrix, the CSR matrix of its transpose."""
    h5py = h5py_module("open")
    with reading(place) as file:
        node = _node(h5py, file, place, key)
        again = ("hdf5", os.path.abspath(place), key)
        if isinstance(node, h5py.Dataset):
            array = opened_by(*again, handle=Array(core_array(h5py, node, place)))
            note_attributes(array, lambda: _described(place, key))
            return note_packing(array, _cf_attributes(node))
        shape = [int(n) for n in node.attrs.get("shape", node.attrs.get("h5sparse_shape", ()))]
        if _encoding(node) == "10x":
            shape = [int(n) for n in node["shape"][...].ravel()]
        shape = shape or [n for n in _binsparse(node).get("shape", ()) if isinstance(n, int) and n >= 0]
        if len(shape) != 2:
            raise FormatError(f"open: {place}{node.name}: 'shape' must be two extents; the file is damaged.")
        rows, cols = (
            shape if _encoding(node) == "csr_matrix" else shape[::-1]
        )  # of 10x: genes x cells, by cells
        parts = []
        for part, other in PARTS.items():
            name = part if part in node else other
            if name not in node or not isinstance(node[name], h5py.Dataset):
                raise FormatError(f"open: {place}{node.name}: '{part}' is missing; the file is damaged.")
            parts.append(core_array(h5py, node[name], place))
        matrix = SparseArray(_core.csr_of(rows, cols, parts[0], parts[1], parts[2], f"{place}{node.name}"))
        return opened_by(*again, handle=matrix)


def open_file(place: str, key: str | None, mode: str) -> Array | SparseArray:
    """Open an array or a sparse matrix of an HDF5 file; of AnnData's, X where no key is given.

    Matrices of 10x and loom, which store genes x cells, are seen as cells x genes. Values of a category
    ("obs/leiden") and texts are an ndarray.
    """
    if mode != "r":
        raise storage_error(
            f"open: '{place}' is HDF5, which is opened for reading only; use mode='r', or copy the array "
            "with "
            "fl.convert.", 30, place
        )  # fmt: skip
    h5py = h5py_module("open")
    with reading(place) as file:
        name = resolved(file, key, place) if key else _default_key(h5py, file, place)
        if (values := values_at(h5py, file, name)) is not None:
            return values  # type: ignore[return-value]  # texts are no Array: they fit into memory
        columns = _encoding(_node(h5py, file, place, name)) == "csc_matrix"
        turned = is_loom(file) and name.strip("/").partition("/")[0] in ("matrix", "layers")
        rows, cols = axes_of(h5py, file, name, lambda: reading(place))
    opened = stored(place, name)
    columns = columns or turned
    note_names(opened, *((cols, rows) if columns else (rows, cols)))
    return opened.T if columns else opened


# What people want to know -----------------------------------------------------------------------------------


def about(place: str, key: str | None) -> dict[str, Any]:
    """Return what `info` says of a file beside what its array says: members, layout, filters."""
    h5py = h5py_module("info")
    with reading(place) as file:
        whole = ["/"] if _is_matrix(h5py, file) else []
        facts: dict[str, Any] = {"members": whole or _members(h5py, file, 40)}
        one = facts["members"][0] if len(facts["members"]) == 1 else None
        if _encoding(file) == "anndata" and "X" not in file:
            one, facts["note"] = None, "an AnnData file without X"
        name = key or ("X" if "X" in file else one)
        if name is None:
            return facts
        name = resolved(file, name, place)
        facts["member"] = name
        if values_at(h5py, file, name) is not None:
            return facts
        node = _node(h5py, file, place, name)
        if isinstance(node, h5py.Dataset):
            facts |= _tell(h5py, node)
            if node.shape and by_library(h5py, node):
                facts["opened"] = "by import"
        else:
            facts["encoding"] = _encoding(node)
            for part in ("data", "indices"):
                name = part if part in node else PARTS[part]
                facts[part] = ", ".join(f"{k} {v}" for k, v in _tell(h5py, node[name]).items())
        return facts


def _tell(h5py: Any, dataset: Any) -> dict[str, str]:
    """Return layout, chunks and filters of a data set as text."""
    properties = dataset.id.get_create_plist()
    layout = {0: "compact", 1: "contiguous", 2: "chunked", 3: "virtual"}.get(
        properties.get_layout(), "unknown"
    )
    facts = {"layout": layout, "stored_as": str(dataset.dtype)}
    if dataset.chunks:
        facts["chunks"] = shape_text(dataset.chunks)
        codes = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        facts["filters"] = " + ".join(FILTERS.get(c, OTHER_FILTERS.get(c, str(c))) for c in codes) or "none"
    return facts
