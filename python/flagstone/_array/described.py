"""What an Array says of itself: names, attributes, a line of text and what notebooks show."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _core
from .._html.chunks import chunk_picture
from .._html.table import html_table
from .dispatch import dispatch
from .requests import shape_text

if TYPE_CHECKING:
    pass

__all__ = ["Described"]


class Described:
    """The half of `Array` that is for people and for other programs; nothing here reads an element."""

    @property
    def columns(self: Any) -> list[str | None] | None:
        """Names of the columns of a matrix that was a table (None: that one has none); else None."""
        return dispatch().columns(self)

    @property
    def dims(self: Any) -> tuple[str | None, ...] | None:
        """Names of the dimensions, as xarray reads them (None: that one has none); None where none has.

        Read from the file: `dimension_names` of Zarr v3, `_ARRAY_DIMENSIONS` of v2, the scales of HDF5, the
        dimensions of NetCDF. Views keep them: those of ``A.T`` are reversed. May be assigned, with one name
        of its own for each dimension (or None), where the array is open with mode "r+"; no element is moved.
        """
        return dispatch().dims(self)

    @dims.setter
    def dims(self: Any, names: Sequence[str | None] | None) -> None:
        """Write other names; None: no dimension has one."""
        dispatch().describe(self, None, () if names is None else names)

    @property
    def attrs(self: Any) -> MutableMapping[str, Any]:
        """The attributes, as xarray reads them: a mapping of names to what JSON can hold.

        Changing it (``A.attrs["units"] = "K"``), or assigning another mapping, replaces the metadata of the
        array, at once and durably, where it is open with mode "r+"; no element is moved. Of an Array in
        memory they live as long as it does.
        """
        found: MutableMapping[str, Any] = dispatch().attrs(self)
        return found

    @attrs.setter
    def attrs(self: Any, attributes: Mapping[str, Any]) -> None:
        """Write other attributes, in place of all that there are."""
        dispatch().describe(self, attributes, None)

    def __repr__(self: Any) -> str:
        if self._root is None and self._handle is None:
            return "<flagstone.Array, closed>"
        where = f"'{self.path}'" if self.path else self._about()
        view = (".T" if self._transposed else "") + (".conj()" if self._conjugated else "")
        return (
            f"<flagstone.Array{view} {shape_text(self.shape)} {self.dtype.name}, "
            f"{_core.format_bytes(self.nbytes)}, "
            f"chunks {shape_text(self.chunks)}, {where}>"
        )

    def _repr_html_(self: Any) -> str:
        if self._root is None and self._handle is None:
            return html_table("Array", {"state": "closed"})
        return html_table("Array", {
            "shape": shape_text(self.shape), "dtype": self.dtype.name,
            "bytes": _core.format_bytes(self.nbytes), "chunks": shape_text(self.chunks),
            "where": self.path or self._about(),
        }, chunk_picture(self.shape, self.chunks))  # fmt: skip

    def _about(self: Any) -> str:
        lazy = self._owner._lazy
        return "in memory" if lazy is None else str(lazy.text)
