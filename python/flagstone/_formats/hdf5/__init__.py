"""HDF5 and AnnData's files; how a member is opened again, without the module that does before one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._resume.registers import opener

if TYPE_CHECKING:
    from ..._array.array import Array
    from ..._sparse.array import SparseArray


@opener("hdf5")
def open_again(path: str, key: str) -> Array | SparseArray:
    """Open a member of a file as it is stored."""
    from .file import stored

    return stored(path, key)
